"""Tests of the module against a socket that speaks as hertzd does: python3 -m unittest discover -s tests"""

from __future__ import annotations

import math
import os
import socket
import struct
import subprocess
import sys
import unittest
from typing import List, Optional

import hertzd

PERIOD = 5_000_000


def hello(version: int = 1, inputs: int = 2, values: int = 2) -> bytes:
    names = ["brain", "speed", "gain", "u", "v"]
    return struct.pack("<IIqII", 1, version, PERIOD, inputs, values) + b"".join(name.encode() + b"\0" for name in names)


def tick(n: int, speed: float = 1.5, quality: int = 0, age: int = 7) -> bytes:
    head = struct.pack("<IIQqqQq", 2, 0, n, 1000, 1011, 3, 42)
    return head + struct.pack("<dqII", speed, age, quality, 0) + struct.pack("<dqII", 2.0, -(2**63), 0, 0)


class ClientTest(unittest.TestCase):
    def setUp(self) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.ours.close)
        self.addCleanup(self.theirs.close)

    def client(self) -> hertzd.Client:
        self.ours.send(hello())
        return hertzd.Client(self.theirs)

    def answer(self) -> List[float]:
        kind, count, n, *values = struct.unpack("<IIQ2d", self.ours.recv(1000))
        self.assertEqual((kind, count), (3, 2))
        return [n, *values]

    def test_the_greeting_names_all(self) -> None:
        client = self.client()
        self.assertEqual((client.task, client.period_ns), ("brain", PERIOD))
        self.assertEqual((client.input_names, client.value_names), (("speed", "gain"), ("u", "v")))

    def test_a_tick_has_all_that_was_sent(self) -> None:
        client = self.client()
        self.ours.send(tick(9))
        got = next(client.ticks())
        self.assertEqual((got.n, got.release_ns, got.started_ns, got.skipped, got.monotonic_ns), (9, 1000, 1011, 3, 42))
        self.assertEqual((got.lateness, got.period), (11e-9, 0.005))
        speed, gain = got.inputs["speed"], got.inputs["gain"]
        self.assertEqual((speed * 2, speed.age, speed.age_ns, speed.bad), (3.0, 7e-9, 7, False))
        self.assertEqual((gain, gain.age, gain.quality, list(got.inputs)), (2.0, None, hertzd.Quality.GOOD, ["speed", "gain"]))

    def test_what_is_not_good_is_bad(self) -> None:
        client = self.client()
        for quality in (1, 2, 3):
            self.ours.send(tick(9, math.nan, quality))
            speed = next(client.ticks()).inputs["speed"]
            self.assertTrue(speed.bad and math.isnan(speed) and speed.quality == quality)

    def test_an_answer_goes_to_its_tick_once(self) -> None:
        client = self.client()
        with self.assertRaises(RuntimeError):
            client.out({"u": 1.0, "v": 2.0})
        for n in (4, 7):
            self.ours.send(tick(n))
            next(client.ticks())
            client.out({"v": 2.0, "u": n})
            self.assertEqual(self.answer(), [n, n, 2.0])
        with self.assertRaises(RuntimeError):
            client.out({"u": 1.0, "v": 2.0})

    def test_none_is_no_value_and_every_value_must_be_said(self) -> None:
        client = self.client()
        self.ours.send(tick(4))
        next(client.ticks())
        with self.assertRaisesRegex(TypeError, "the values of task brain are u, v; w is none of them; v is missing"):
            client.out({"u": 1.0, "w": 2.0})
        client.out({"u": None, "v": -0.0})
        n, u, v = self.answer()
        self.assertTrue(n == 4 and math.isnan(u) and math.copysign(1.0, v) == -1.0)

    def test_after_a_pause_the_latest_is_enough(self) -> None:
        client = self.client()
        for n in range(5):
            self.ours.send(tick(n))
        self.assertEqual(next(client.ticks(latest=True)).n, 4)
        for n in range(5, 8):
            self.ours.send(tick(n))
        self.ours.close()
        self.assertEqual([got.n for got in client.ticks()], [5, 6, 7])

    def test_frames_of_later_versions_are_passed_over(self) -> None:
        client = self.client()
        for frame in (b"\x09\0\0\0later", tick(1)[:-1], b"\x09" + tick(1)[1:], tick(2)):
            self.ours.send(frame)
        self.assertEqual(next(client.ticks()).n, 2)

    def test_the_end_ends_the_loop_and_the_answer(self) -> None:
        client = self.client()
        self.ours.send(tick(1))
        ticks = client.ticks()
        next(ticks)
        self.ours.close()
        client.out({"u": 1.0, "v": 2.0})
        self.assertEqual(list(ticks), [])

    def test_another_greeting_is_refused(self) -> None:
        wrong = [
            (hello(version=2), "hertzd speaks version 2 of the protocol, and this module 1"),
            (hello(inputs=3), "another number of names"),
            (tick(1), "no greeting"),
            (b"x", "no greeting"),
        ]
        for frame, reason in wrong:
            self.ours.send(frame)
            with self.assertRaisesRegex(hertzd.HertzdError, reason):
                hertzd.Client(self.theirs)

    def test_five_lines_are_a_program(self) -> None:
        program = "import hertzd\nfor tick in hertzd.ticks():\n    hertzd.out(u=2 * tick.inputs['speed'], v=tick.n)\n"
        self.ours.send(hello())
        self.ours.send(tick(6))
        environment = {**os.environ, "HERTZD_FD": str(self.theirs.fileno())}
        child = subprocess.Popen([sys.executable, "-c", program], pass_fds=[self.theirs.fileno()], env=environment)
        self.assertEqual(self.answer(), [6, 3.0, 6.0])
        self.ours.close()
        self.assertEqual(child.wait(), 0)

    def test_without_hertzd_it_says_so(self) -> None:
        before: Optional[str] = os.environ.pop("HERTZD_FD", None)
        try:
            with self.assertRaisesRegex(hertzd.HertzdError, "HERTZD_FD is not set"):
                hertzd.Client.from_environment()
        finally:
            if before is not None:
                os.environ["HERTZD_FD"] = before


if __name__ == "__main__":
    unittest.main()
