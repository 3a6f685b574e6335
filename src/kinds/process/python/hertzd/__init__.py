"""The other end of a hertzd task of the kind "process": a program that gets every tick and gives values back.

    import hertzd

    for tick in hertzd.ticks():
        hertzd.out(speed=2.0 * tick.inputs["level"])

What ``out`` gives enters the task one tick later, always. A tick that was not answered when the next one begins is late, or missing: its values are
not used. The loop ends when hertzd ends the task. Needs nothing but Python 3.9.
"""

from __future__ import annotations

import math
import os
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Dict, Iterator, Mapping, Optional, Tuple

__all__ = ["Client", "HertzdError", "Input", "Inputs", "Quality", "Tick", "client", "out", "ticks"]
__version__ = "0.1.0"

PROTOCOL_VERSION = 1

_HELLO, _TICK, _ANSWER = 1, 2, 3
_HELLO_HEAD = struct.Struct("<IIqII")
_TICK_HEAD = struct.Struct("<IIQqqQq")
_INPUT = struct.Struct("<dqII")
_NO_AGE = -(2**63)
_LONGEST = 1 << 20


class HertzdError(Exception):
    """The program was not started by hertzd, or by one that speaks otherwise."""


class Quality(IntEnum):
    """What an input is worth."""

    GOOD = 0
    BAD = 1
    STALE = 2
    NONE = 3
    HELD = 4


class Input(float):
    """An input at a tick: a float, NaN unless it is good or held."""

    quality: Quality
    age_ns: Optional[int]

    def __new__(cls, value: float, quality: Quality, age_ns: Optional[int]) -> "Input":
        made = super().__new__(cls, value)
        made.quality = quality
        made.age_ns = age_ns
        return made

    @property
    def age(self) -> Optional[float]:
        """Seconds since the oldest measurement behind it, at the start of the tick; None: there is none."""
        return None if self.age_ns is None else self.age_ns / 1e9

    @property
    def bad(self) -> bool:
        """It is not to be used: bad, stale, or there is nothing new."""
        return self.quality not in (Quality.GOOD, Quality.HELD)


class Inputs(Mapping[str, Input]):
    """The inputs of a tick, by name."""

    def __init__(self, names: Tuple[str, ...], values: Tuple[Input, ...]) -> None:
        self._by_name: Dict[str, Input] = dict(zip(names, values))

    def __getitem__(self, name: str) -> Input:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return repr(self._by_name)


@dataclass(frozen=True)
class Tick:
    """A tick of the task. Nanoseconds are whole, so that they are exact."""

    n: int
    """Index of the tick; releases that were skipped count."""
    release_ns: int
    """When it was meant to start, on the clock of the task's worker."""
    started_ns: int
    """When it started, on the same clock."""
    monotonic_ns: int
    """When it ran, as time.monotonic_ns() has it: some microseconds after the start."""
    skipped: int
    """Releases given up since the tick before it that ran."""
    period_ns: int
    """One period of the task."""
    inputs: Inputs
    """What the task takes, by name."""

    @property
    def release(self) -> float:
        """When it was meant to start, in seconds; less exact than release_ns."""
        return self.release_ns / 1e9

    @property
    def started(self) -> float:
        """When it started, in seconds; less exact than started_ns."""
        return self.started_ns / 1e9

    @property
    def lateness(self) -> float:
        """Started minus release, in seconds."""
        return (self.started_ns - self.release_ns) / 1e9

    @property
    def period(self) -> float:
        """One period of the task, in seconds."""
        return self.period_ns / 1e9


class Client:
    """One socket to hertzd. Most programs need only ticks() and out() of this module."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._socket.setblocking(True)
        self._n: Optional[int] = None
        hello = self._receive()
        if hello is None:
            raise HertzdError("hertzd has ended the task before it said anything")
        if len(hello) < _HELLO_HEAD.size:
            raise HertzdError("what came first is no greeting of hertzd")
        kind, version, self.period_ns, inputs, values = _HELLO_HEAD.unpack_from(hello)
        if kind != _HELLO:
            raise HertzdError("what came first is no greeting of hertzd")
        if version != PROTOCOL_VERSION:
            raise HertzdError(
                f"hertzd speaks version {version} of the protocol, and this module {PROTOCOL_VERSION}: install the module that came with hertzd"
            )
        names = tuple(name.decode() for name in hello[_HELLO_HEAD.size :].split(b"\0")[:-1])
        if len(names) != 1 + inputs + values:
            raise HertzdError("the greeting of hertzd has another number of names than it says")
        self.task: str = names[0]
        """The name of the task."""
        self.input_names: Tuple[str, ...] = names[1 : 1 + inputs]
        """The names of what it gets."""
        self.value_names: Tuple[str, ...] = names[1 + inputs :]
        """The names of what it is asked for, all of which an answer has."""
        self._answer = struct.Struct(f"<IIQ{values}d")

    @classmethod
    def from_environment(cls) -> "Client":
        """The one that hertzd has started this program with."""
        number = os.environ.get("HERTZD_FD")
        if number is None:
            raise HertzdError('HERTZD_FD is not set: this program is to be started by a hertzd task of kind = "process"')
        try:
            return cls(socket.socket(fileno=int(number)))
        except (OSError, ValueError) as error:
            raise HertzdError(f"HERTZD_FD={number} is no socket of hertzd: {error}") from error

    def _receive(self, flags: int = 0) -> Optional[bytes]:
        """The next frame; None: hertzd has ended the task."""
        try:
            return self._socket.recv(_LONGEST, flags) or None
        except ConnectionError:
            return None

    def ticks(self, latest: bool = False) -> Iterator[Tick]:
        """Every tick, in order, until hertzd ends the task.

        With ``latest``, only the newest of those that have come is given, after a pause of this program; the others are missing in hertzd's counts.
        """
        while True:
            frame = self._receive()
            if frame is None:
                return
            while latest:
                try:
                    newer = self._receive(socket.MSG_DONTWAIT)
                except BlockingIOError:
                    break
                if newer is None:
                    break
                frame = newer
            tick = self._tick(frame)
            if tick is not None:
                self._n = tick.n
                yield tick

    def _tick(self, frame: bytes) -> Optional[Tick]:
        if len(frame) != _TICK_HEAD.size + len(self.input_names) * _INPUT.size:
            return None  # a frame of a kind that this version does not know
        kind, _, n, release, started, skipped, monotonic = _TICK_HEAD.unpack_from(frame)
        if kind != _TICK:
            return None
        values = tuple(
            Input(value, Quality(quality), None if age == _NO_AGE else age)
            for value, age, quality, _ in _INPUT.iter_unpack(frame[_TICK_HEAD.size :])
        )
        return Tick(n, release, started, monotonic, skipped, self.period_ns, Inputs(self.input_names, values))

    def out(self, values: Mapping[str, Optional[float]]) -> None:
        """Answers the tick that ticks() gave last, with every value of the task; None (or NaN) for one that there is none of: it is bad, and no error."""
        if self._n is None:
            raise RuntimeError("there is no tick to answer, or it was answered before")
        unknown = [name for name in values if name not in self.value_names]
        absent = [name for name in self.value_names if name not in values]
        if unknown or absent:
            said = ", ".join(self.value_names) or "none"
            wrong = "".join([f"; {name} is none of them" for name in unknown] + [f"; {name} is missing" for name in absent])
            raise TypeError(f"the values of task {self.task} are {said}{wrong}")
        given = [values[name] for name in self.value_names]
        numbers = [math.nan if value is None else float(value) for value in given]
        n, self._n = self._n, None
        try:
            self._socket.send(self._answer.pack(_ANSWER, len(numbers), n, *numbers))
        except ConnectionError:
            pass  # hertzd has ended the task: ticks() ends too


_client: Optional[Client] = None


def client() -> Client:
    """The client of this program, made at the first call."""
    global _client
    if _client is None:
        _client = Client.from_environment()
    return _client


def ticks(latest: bool = False) -> Iterator[Tick]:
    """Every tick of the task, in order, until hertzd ends it. With ``latest``, only the newest after a pause of this program."""
    return client().ticks(latest)


def out(**values: Optional[float]) -> None:
    """Answers the current tick, with every value of the task by its name; for names that Python does not allow: ``out(**{"my-value": 1.0})``."""
    client().out(values)
