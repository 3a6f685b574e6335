#!/usr/bin/env python3
"""Makes the reference sequences that the kinds `pid` and `filter` are compared with, in this folder.

    pip install --target DIR numpy scipy control mpmath
    PYTHONPATH=DIR tests/support/references/make.py

Filters come from scipy.signal on the input as it is held from tick to tick. The controller is written from its definitions in exact
fractions, and where it is linear compared with the transfer function in scipy.signal. Closed loops come from python-control (the
continuous loop: overshoot, settling time) and from the transfer function of the sampled loop (each value).

A case is its name, the keys of the section, and a row for each tick. Before the bar: the releases skipped before it, when the row of
the input was released (ns; the tick itself if there is no such column), and the values that come: empty for a bad one, `-` if
no new row has come. Behind it: what the task has to put out, empty for none.
"""
from fractions import Fraction as F
from pathlib import Path
import math
import random

import control
import mpmath
import numpy as np
from scipy import signal

HERE = Path(__file__).parent


def number(value):
    return "" if value is None else repr(float(value))


def case(name, keys, inputs, outputs, rows):
    """`rows` are pairs of dicts by column."""
    lines = [f"### {name}", *(f"{key} = {value}" for key, value in keys.items()), "---"]
    lines.append(",".join(inputs) + "|" + ",".join(outputs))
    for given, wanted in rows:
        cell = lambda name: str(given[name]) if name in ("skipped", "released") or given[name] == "-" else number(given[name])
        lines.append(",".join(map(cell, inputs)) + "|" + ",".join(number(wanted[name]) for name in outputs))
    return "\n".join(lines) + "\n"


# The controller ------------------------------------------------------------------------------------------------------

PARTS = ["out", "error", "p", "i", "d", "ff", "saturated", "saturated-for"]


class Pid:
    """The definitions in docs/control.md, in exact fractions."""

    def __init__(self, rate, kp=0, ki=0, kd=0, direct=False, weight=1, deadband=0, filter=None, limits=None,
                 windup="conditional", tracking=None, max_gap=None, takeover=None):
        self.h = 1 / F(rate)
        self.kp, self.ki, self.kd = F(kp), F(ki), F(kd)
        self.direct, self.weight, self.deadband = direct, F(weight), F(deadband)
        self.filter = F(filter) if filter is not None else (self.kd / self.kp / 10 if kp else self.h)
        self.limits, self.windup = limits and [F(limit) for limit in limits], windup
        self.tracking = F(tracking) if tracking else (self.kp / self.ki if kp and ki else None)
        self.max_gap = 10 * self.h if max_gap is None else F(max_gap)
        self.takeover = takeover  # default: reset at the first start, then bumpless
        self.integral, self.last_out, self.unlimited = F(0), None, None
        self.waited, self.latest, self.by_hand = F(0), None, False
        self.running, self.rows, self.slope = False, [], F(0)
        self.side, self.since = 0, F(0)

    def cut(self, value):
        if self.limits is None:
            return value
        return max(self.limits[0], min(self.limits[1], value))

    def watch(self, value, dt):
        cut = self.cut(value)
        side = (value > cut) - (value < cut)
        self.since = self.since + dt if side and side == self.side else F(0)
        self.side = side
        return {"saturated": side, "saturated-for": self.since}

    def nothing(self):
        self.running, self.rows, self.side, self.since, self.waited, self.by_hand = False, [], 0, F(0), F(0), False
        return dict.fromkeys(PARTS)

    def tick(self, skipped, input, released, setpoint, ff=0, enable=1, manual=None, track=None, held=0):
        own_dt = (skipped + 1) * self.h
        dt = own_dt + self.waited
        if enable is None or enable == 0:
            return self.nothing()
        if manual is not None:
            out = self.cut(F(manual))
            self.running, self.rows, self.last_out, self.by_hand = False, [], out, True
            error = None if input is None or setpoint is None else F(setpoint) - F(input)
            self.waited = F(0)
            return {"out": out, "error": error, "p": 0, "i": out, "d": 0, "ff": 0, **self.watch(F(manual), dt)}
        if input is None or setpoint is None or ff is None:
            if self.running and dt < self.max_gap:
                # It may still come in time: the output stays, and the next tick counts for all of it.
                self.waited = dt
                error = None if input is None or setpoint is None else F(setpoint) - F(input)
                return dict(self.latest, error=error)
            return self.nothing()
        self.waited = F(0)
        y, r, ff = F(input), F(setpoint), F(ff)
        gap = dt > self.max_gap
        # A direct controller is a reverse one on measurement and setpoint of the other sign.
        sign = -1 if self.direct else 1
        e = r - y
        acting = 0 if abs(e) <= self.deadband else e - self.deadband if e > 0 else e + self.deadband
        p = self.kp * sign * (acting - (1 - self.weight) * r)
        # D(k) = Tf / (Tf + h) D(k-1) - kd / (Tf + h) (y(k) - y(k-1)), over rows.
        if gap:
            self.rows = []
        if not self.rows:
            self.rows, self.slope = [(released, sign * y)], F(0)
        elif self.rows[-1][0] != released:
            h = F(released - self.rows[-1][0], 10**9)
            change = sign * y - self.rows[-1][1]
            self.slope = self.filter / (self.filter + h) * self.slope - self.kd / (self.filter + h) * change
            self.rows.append((released, sign * y))
        d = self.slope
        rest = p + d + ff
        if not self.running:
            if self.takeover is None:
                resets = self.last_out is None
            else:
                resets = self.takeover == "reset" and not self.by_hand
            start = track if track is not None else None if resets else self.last_out
            whole = self.integral = self.cut(F(start)) - (0 if resets else rest) if start is not None and self.ki else F(0)
        elif gap:
            whole = self.integral
        else:
            if self.windup == "back-calculation":
                applied = F(track) if track is not None else self.cut(self.unlimited)
                self.integral += min(F(1), dt / self.tracking) * (applied - self.unlimited)
            step = self.ki * sign * acting * dt
            whole = self.integral + step
            if self.windup == "conditional" and (held == 2 or step * (held or 0) > 0):
                step = 0  # the output does not follow, and it would lead further away
                whole = self.integral
            if self.windup == "conditional" and self.limits:
                # As much of the step as there is room for.
                room = max(F(0), self.limits[1] - rest - self.integral if step > 0 else rest + self.integral - self.limits[0])
                step = min(step, room) if step > 0 else max(step, -room)
            self.integral += step
        self.running, self.by_hand = True, False
        self.unlimited = rest + self.integral
        out = self.last_out = self.cut(rest + whole)
        self.latest = {"out": out, "error": e, "p": p, "i": self.integral, "d": d, "ff": ff, **self.watch(rest + whole, dt)}
        return self.latest


def release(rate, n):
    return math.floor(n * 10**9 / F(rate))


def walk(rng, count, start, step):
    values = [start]
    while len(values) < count:
        values.append(round(values[-1] + rng.uniform(-step, step), 4))
    return values


def pid(name, rate, keys, settings, ticks, extra=()):
    """`ticks`: dicts with skipped, input and setpoint, and the columns `extra`. Without `released` the rows are the ticks' own."""
    law, rows, n = Pid(rate, **settings), [], -1
    inputs = ["skipped", *(["released"] if "released" in ticks[0] else []), "input", "setpoint", *extra]
    for tick in ticks:
        n += 1 + tick["skipped"]
        released = tick.get("released", release(rate, n))
        input = held = tick["input"]
        if held == "-":
            input = rows[-1][2]
        given = {{"feed-forward": "ff", "held-back": "held"}.get(name, name): tick[name] for name in extra}
        rows.append((tick, law.tick(tick["skipped"], input, released, tick["setpoint"], **given), input))
    lines = {"kind": '"pid"', "rate": f'"{rate}"', "input": '"s.input"', "setpoint": '"s.setpoint"', **keys}
    for column in (name for name in extra if name != "held-back"):  # that comes with `track`
        lines.setdefault(column, f'"s.{column}"')
    return case(name, lines, inputs, PARTS, [row[:2] for row in rows])


def pids():
    rng = random.Random(11)
    plain = lambda inputs, setpoints, skipped=0: [
        {"skipped": skipped, "input": y, "setpoint": r} for y, r in zip(inputs, setpoints)]
    steps = lambda count, *levels: [levels[k * len(levels) // count] for k in range(count)]

    # Linear: the same as the transfer function.
    inputs, setpoints = walk(rng, 60, 20.0, 1.0), steps(60, 20.0, 25.0, 22.5)
    settings = dict(kp=2.5, ki=0.75, kd=0.5, filter=0.25)
    keys = {"kp": 2.5, "ki": 0.75, "kd": 0.5, "derivative-filter": '"250ms"'}
    text = pid("parallel", "8", keys, settings, plain(inputs, setpoints))
    h, tf = 1 / 8, 0.25
    e, y = np.subtract(setpoints, inputs), np.array(inputs) - inputs[0]
    late = e.copy()
    late[0] = 0  # the first tick takes over, from nothing
    out = 2.5 * e + signal.lfilter([0.75 * h], [1, -1], late) - signal.lfilter([0.5, -0.5], [tf + h, -tf], y)
    found = [float(row.split("|")[1].split(",")[0]) for row in text.splitlines()[-60:]]
    assert np.allclose(found, out, rtol=0, atol=1e-12), "the definitions are not the transfer function"
    # Both parts are the continuous ones by the backward difference, s = (1 - 1/z) / h.
    for continuous, (b, a) in ((([0.75], [1, 0]), ([0.75 * h, 0], [1, -1])),
                               (([0.5, 0], [tf, 1]), ([0.5 / (tf + h), -0.5 / (tf + h)], [1, -tf / (tf + h)]))):
        sampled = signal.cont2discrete(continuous, h, "backward_diff")
        assert np.allclose(np.squeeze(sampled[0]), b) and np.allclose(sampled[1], a), "it is not the backward difference"
    yield text

    keys = {"kp": 0.5, "ti": '"4s"', "td": '"500ms"', "action": '"direct"', "setpoint-weight": 0.3, "deadband": 0.25}
    settings = dict(kp=0.5, ki=0.125, kd=0.25, direct=True, weight=0.3, deadband=0.25)
    yield pid("isa-direct-weight-deadband", "10", keys, settings, plain(walk(rng, 60, 50.0, 0.4), steps(60, 50.0, 51.0, 49.5)))

    # Skipped ticks: eleven periods are one too many for the default of ten; nine skipped are ten periods.
    keys = {"kp": 1.5, "ki": 0.5, "kd": 0.1}
    ticks = plain(walk(rng, 60, 1.0, 0.2), steps(60, 1.0, 1.5))
    for k, tick in enumerate(ticks):
        tick["skipped"] = {7: 1, 12: 3, 20: 9, 30: 10, 31: 2, 40: 25}.get(k, 0)
    yield pid("skipped-ticks", "30000/1001", keys, dict(kp=1.5, ki=0.5, kd=0.1), ticks)
    # Three tenths of a second are three periods at 10 Hz, in binary numbers too.
    keys = {"kp": 1.5, "ki": 0.5, "kd": 0.1, "max-gap": '"300ms"'}
    ticks = plain(walk(rng, 20, 1.0, 0.2), steps(20, 1.0, 1.5))
    for k, tick in enumerate(ticks):
        tick["skipped"] = {5: 2, 10: 3, 15: 2}.get(k, 0)
    yield pid("max-gap", "10", keys, dict(kp=1.5, ki=0.5, kd=0.1, max_gap=F(3, 10)), ticks)

    # A sensor at 7 Hz beside a controller at 100 Hz, of which one row is lost, and whose period is longer than max-gap.
    ticks, values = [], walk(rng, 40, 60.0, 0.5)
    for n in range(120):
        at = n * 7 // 100
        row = at - 1 if at == 5 else at
        new = n > 0 and ticks[-1]["released"] == release("7", row)
        ticks.append({"skipped": 0, "released": release("7", row), "input": "-" if new else values[row], "setpoint": 58.0})
    keys = {"kp": 0.8, "ki": 0.4, "kd": 0.3, "derivative-filter": '"40ms"'}
    yield pid("slow-sensor", "100", keys, dict(kp=0.8, ki=0.4, kd=0.3, filter=F(40, 1000)), ticks)

    # Limits: into the upper one, back, into the lower one, back. None of them contains zero.
    far = [*walk(rng, 25, 40.0, 0.3), *walk(rng, 25, 60.0, 0.3), *walk(rng, 25, 48.0, 0.5)]
    keys = {"kp": 0.05, "ki": 0.125, "limits": "[0.2, 1.0]"}
    settings = dict(kp=0.05, ki=0.125, limits=[0.2, 1.0])
    yield pid("limits-reverse", "5", keys, settings, plain(far, [50.0] * 75))
    for action, low, high in [("direct", 0.2, 1.0), ("direct", -5.0, -2.0), ("reverse", -5.0, -2.0)]:
        name = f"limits-{action}{'-below-zero' if low < 0 else ''}"
        own = {**keys, "action": f'"{action}"', "limits": f"[{low}, {high}]"}
        changed = dict(settings, direct=action == "direct", limits=[low, high])
        yield pid(name, "5", own, changed, plain(far, [50.0] * 75))
    for windup, more, tracking in [
        ("none", {}, None), ("back-calculation", {}, None), ("back-calculation", {"tracking-time": '"3s"'}, 3),
        ("back-calculation", {"tracking-time": '"100ms"'}, F(1, 10))]:
        name = "-".join(["limits", windup, *(value.strip('"') for value in more.values())])
        own = {**keys, **more, "anti-windup": f'"{windup}"'}
        yield pid(name, "5", own, dict(settings, windup=windup, tracking=tracking), plain(far, [50.0] * 75))

    # Back-calculation from what the output really did: it follows by at most 0.05 a tick. And bad for a while.
    ticks, law, applied = plain(far, [50.0] * 75), Pid("5", **dict(settings, windup="back-calculation", takeover="bumpless")), 0.5
    for n, tick in enumerate(ticks):
        tick["track"] = None if 30 <= n < 35 else applied
        out = law.tick(0, tick["input"], release("5", n), 50.0, track=tick["track"])["out"]
        applied = round(applied + max(-0.05, min(0.05, float(out) - applied)), 6)
    own = {**keys, "anti-windup": '"back-calculation"', "takeover": '"bumpless"'}
    yield pid("track", "5", own, dict(settings, windup="back-calculation", takeover="bumpless"), ticks, ["track"])

    # A feed-forward that alone leads beyond a limit, and one that leads back.
    ticks = plain(walk(rng, 80, 49.0, 0.2), [50.0] * 80)
    for n, tick in enumerate(ticks):
        tick["feed-forward"] = [0.1, 1.5, -0.5, 0.3][n // 20]
    for windup in ("conditional", "back-calculation"):
        own = {**keys, "anti-windup": f'"{windup}"'}
        yield pid(f"feed-forward-{windup}", "5", own, dict(settings, windup=windup), ticks, ["feed-forward"])

    # A stall of an hour: once in the middle of the range, once at a limit.
    ticks = plain([*walk(rng, 12, 49.5, 0.1), *walk(rng, 12, 44.0, 0.1)], [50.0] * 24)
    ticks[6]["skipped"] = ticks[20]["skipped"] = 3_600 * 5 - 1
    for windup in ("conditional", "back-calculation"):
        own = {**keys, "kd": 0.02, "anti-windup": f'"{windup}"'}
        yield pid(f"stall-of-an-hour-{windup}", "5", own, dict(settings, kd=0.02, windup=windup), ticks)

    # What is bad for a while, each for itself; while the input is bad the others change.
    ticks = plain(walk(rng, 60, 48.0, 0.3), steps(60, 50.0, 49.0, 51.0))
    for n, tick in enumerate(ticks):
        tick["feed-forward"] = 0.1 if n < 12 else 0.2
        if n in (0, 10, 11, 12, 13, 58):
            tick["input"] = None
        if n in (20, 21):
            tick["setpoint"] = None
        if n in (30,):
            tick["feed-forward"] = None
    own = {**keys, "kd": 0.05}
    yield pid("bad-inputs", "5", own, dict(settings, kd=0.05), ticks, ["feed-forward"])
    # Without bridging, and with that of one tick.
    for gap in (1, 2):
        gapped = {**own, "max-gap": f'"{gap * 200}ms"'}
        yield pid(f"bad-inputs-max-gap-{gap}", "5", gapped, dict(settings, kd=0.05, max_gap=F(gap, 5)), ticks, ["feed-forward"])
    # Nine ticks without a value, ten, and eleven that are skipped but for one, across them skipped ones; while it is at a limit, too.
    long = plain(walk(random.Random(13), 80, 47.0, 0.4), [50.0] * 80)
    for n, tick in enumerate(long):
        if n in range(5, 14) or n in range(20, 30) or n in (40, 50, 51):
            tick["input"] = None
        tick["skipped"] = {40: 5, 41: 4, 51: 3, 52: 8}.get(n, 0)
    yield pid("bad-for-long", "5", own, dict(settings, kd=0.05), long)
    # Without an integral there is nothing that could take over.
    own = {"kp": 0.05, "kd": 0.05, "limits": "[0.2, 1.0]"}
    yield pid("bad-inputs-without-integral", "5", own, dict(kp=0.05, kd=0.05, limits=[0.2, 1.0]), ticks, ["feed-forward"])

    # Off, by hand (also beyond a limit, and while the input is bad), and back.
    ticks = plain(walk(rng, 80, 48.0, 0.3), [50.0] * 80)
    for n, tick in enumerate(ticks):
        tick["enable"] = None if n in (15, 16) else 0 if 5 <= n < 10 else 1
        tick["manual"] = 0.75 if 20 <= n < 30 else 1.5 if 30 <= n < 35 else 0.1 if 45 <= n < 50 else None
        tick["input"] = None if n in (25, 46) else tick["input"]
    own = {**keys, "kd": 0.05}
    yield pid("enable-and-manual", "5", own, dict(settings, kd=0.05), ticks, ["enable", "manual"])
    for n, tick in enumerate(ticks):
        # 1.25 lies beyond the limits, also where it takes over: at the first tick and at tick 10.
        tick["track"] = None if n == 50 else 1.25 if n < 15 or n >= 40 else 0.9
    yield pid("take-over-from-track", "5", own, dict(settings, kd=0.05), ticks, ["enable", "manual", "track"])
    for takeover in ("bumpless", "reset"):
        told = {**own, "takeover": f'"{takeover}"'}
        more = dict(settings, kd=0.05, takeover=takeover)
        yield pid(f"take-over-{takeover}", "5", told, more, ticks, ["enable", "manual"])
        yield pid(f"take-over-from-track-{takeover}", "5", told, more, ticks, ["enable", "manual", "track"])
    # An output that follows by at most 0.04 a tick within limits of its own, is at its safe value for a while, then sees no good input, and is
    # not known for a tick; it says how it differs. At last one that rounds, which is no reason to hold.
    own = random.Random(12)
    ticks = plain([*far, *walk(own, 25, 49.0, 0.3)], [50.0] * 100)
    settings = dict(settings, takeover="bumpless")
    law, applied, held = Pid("5", **settings), 0.5, 0
    for n, tick in enumerate(ticks):
        tick["track"], tick["held-back"] = applied, None if n == 15 else held
        out = float(law.tick(0, tick["input"], release("5", n), 50.0, track=applied, held=tick["held-back"])["out"])
        if 50 <= n < 55:
            held = 2
        elif n < 75:
            goal = 0.9 if 40 <= n < 50 else max(0.3, min(0.8, out))
            applied = goal if abs(goal - applied) <= 0.04 or 40 <= n < 50 else round(applied + math.copysign(0.04, goal - applied), 6)
            held = (out > applied) - (out < applied)
        else:
            applied, held = round(out * 20) / 20, 0
    yield pid("held-back", "5", {**keys, "takeover": '"bumpless"'}, settings, ticks, ["track", "held-back"])


# Filters -------------------------------------------------------------------------------------------------------------

def segments(values, skipped, max_gap=10):
    """The input as it is held at each release, cut where it is for too long bad or unknown; and which of these were ticks."""
    held, ticks, waited = [], [], 0
    for n, (value, skips) in enumerate(zip(values, skipped)):
        periods = waited + skips + 1  # since the latest value
        if held and (periods >= max_gap if value is None else periods > max_gap):
            yield held, ticks
            held, ticks = [], []
        waited = periods if value is None else 0
        if value is None:
            continue
        held += [held[-1]] * (periods - 1) if held else []
        ticks.append((n, len(held)))
        held.append(value)
    if held:
        yield held, ticks


def filtered(name, rate, keys, function, values, skipped, max_gap=10):
    found = [None] * len(values)
    for held, ticks in segments(values, skipped, max_gap):
        out = function(held)
        for n, at in ticks:
            found[n] = out[at]
    lines = {"kind": '"filter"', "rate": f'"{rate}"', "input": '"s.input"', **keys}
    rows = [({"skipped": skips, "input": value}, {"out": out}) for value, skips, out in zip(values, skipped, found)]
    return case(name, lines, ["skipped", "input"], ["out"], rows)


def linear(b, a):
    """From the steady state of the first value."""
    def run(held):
        x = np.array(held)
        return signal.lfilter(b, a, x, zi=signal.lfilter_zi(b, a) * x[0])[0]
    return run


def precise(order, ratio):
    """Butterworth's low-pass with 60 digits: with a low cutoff its coefficients need more than those of a double."""
    def run(held):
        with mpmath.workdps(60):
            k = mpmath.tan(mpmath.pi * ratio)
            x = [mpmath.mpf(value) for value in held]
            if order == 1:
                b, a = [k, k], [1 + k, k - 1]
            else:
                root = mpmath.sqrt(2)
                b, a = [k**2, 2 * k**2, k**2], [1 + root * k + k**2, 2 * (k**2 - 1), 1 - root * k + k**2]
            y = []
            at = lambda values, n: values[n] if n >= 0 else x[0]
            for n in range(len(x)):
                ahead = mpmath.fsum(c * at(x, n - m) for m, c in enumerate(b))
                back = mpmath.fsum(c * at(y, n - m) for m, c in enumerate(a) if m)
                y.append((ahead - back) / a[0])
            return [float(value) for value in y]
    return run


def windowed(ticks, of):
    return lambda held: [of(([held[0]] * ticks + held[:n + 1])[-ticks:]) for n in range(len(held))]


def slewing(change):
    def run(held):
        out = [F(held[0])]
        for value in held[1:]:
            out.append(out[-1] + max(-change, min(change, F(value) - out[-1])))
        return out
    return run


def filters():
    rng = random.Random(12)
    count = 90
    values = [round(5 + 3 * math.sin(n / 4) + rng.uniform(-1, 1), 4) for n in range(count)]
    values[40] = 60.0
    skipped = [{6: 1, 15: 4, 30: 9, 33: 2, 55: 10, 80: 400}.get(n, 0) for n in range(count)]
    holes = [None if n in (0, 20, 21, 22, 65) else value for n, value in enumerate(values)]
    text = lambda kind, **keys: {"type": f'"{kind}"', **{key.replace("_", "-"): value for key, value in keys.items()}}
    none = [0] * count
    for kind, btype in (("low-pass", "lowpass"), ("high-pass", "highpass")):
        for order in (1, 2):
            keys = text(kind, cutoff='"7 Hz"', order=order)
            fs = 30000 / 1001
            run = linear(*signal.butter(order, 7, btype, fs=fs))
            yield filtered(f"{kind}-{order}", "30000/1001", keys, run, holes, skipped)
            keys = text(kind, cutoff='"499.9 Hz"', order=order)
            yield filtered(f"{kind}-{order}-near-half", "1000", keys, linear(*signal.butter(order, 499.9, btype, fs=1000)), holes, none)
    for order in (1, 2):
        keys = text("low-pass", cutoff='"0.01 Hz"', order=order)
        yield filtered(f"low-pass-{order}-of-a-low-cutoff", "1000", keys, precise(order, mpmath.mpf(1) / 100_000), values, skipped)
    yield filtered("low-pass-by-default", "100", text("low-pass", cutoff=20), linear(*signal.butter(1, 20, fs=100)), values, none)
    for q in (0.9, 10, 35.5):
        keys = text("notch", frequency='"50 Hz"', q=q)
        yield filtered(f"notch-{q}", "400", keys, linear(*signal.iirnotch(50, q, fs=400)), holes, skipped)
    yield filtered("notch-by-default", "400", text("notch", frequency=50), linear(*signal.iirnotch(50, 10, fs=400)), values, none)
    for window in (2, 7, 40):
        mean = windowed(window, lambda window: sum(map(F, window)) / len(window))
        yield filtered(f"moving-average-{window}", "100", text("moving-average", window=window), mean, holes, skipped)
    for window in (3, 7, 41):
        middle = windowed(window, lambda window: sorted(window)[len(window) // 2])
        yield filtered(f"median-{window}", "100", text("median", window=window), middle, holes, skipped)
    keys = text("median", window=3, max_gap='"2s"')
    yield filtered("median-max-gap", "100", keys, windowed(3, np.median), holes, [{8: 199, 9: 200}.get(n, 0) for n in range(count)], 200)
    yield filtered("slew-limit", "30000/1001", text("slew-limit", rate_limit=20), slewing(20 * F(1001, 30000)), holes, skipped)

    # The integral does not begin again after a gap, but what was held in it does not count.
    total, sums, rate = F(0), [], F(30000, 1001)
    def integral(held):
        nonlocal total
        out = [total]
        for before in held[:-1]:
            total += F(before) / rate
            out.append(total)
        return out
    yield filtered("integral", "30000/1001", text("integral"), integral, holes, skipped)

    # The slope over rows: of a sensor at 30 Hz beside a filter at 100 Hz, with a lost row, with and without a low-pass.
    for constant in (None, F(1, 20)):
        rows, slope, before = [], F(0), None
        for n in range(100):
            at = n * 30 // 100
            row = at - 1 if at == 9 else at
            released, value = release("30", row), values[row]
            skips = 10 if n == 60 else 0
            bad = n in (40, 41)
            new = before is None or released != before[0]
            if bad:
                out, given = None, None
            else:
                if before is None or skips + 1 > 10:
                    slope = F(0)
                    before = (released, F(value))
                elif new:
                    h, change = F(released - before[0], 10**9), F(value) - before[1]
                    tau = constant or F(0)
                    slope = tau / (tau + h) * slope + change / (tau + h)
                    before = (released, F(value))
                out, given = slope, value
            rows.append(({"skipped": skips, "released": released, "input": given}, {"out": out}))
        keys = text("derivative", **({"time_constant": '"50ms"'} if constant else {}))
        lines = {"kind": '"filter"', "rate": "100", "input": '"s.input"', **keys}
        name = "derivative" + ("-filtered" if constant else "")
        yield case(name, lines, ["skipped", "released", "input"], ["out"], rows)


# Closed loops --------------------------------------------------------------------------------------------------------

def loop(name, plant, kp, ti, td, filter, rate, seconds, every=60):
    """A step of the setpoint from 0 to 1: what theory gives for the continuous loop, and each value of the sampled one."""
    s, h = control.tf("s"), 1 / rate
    pi, d = kp * (1 + 1 / (ti * s)), kp * td * s / (filter * s + 1) if td else control.tf([0], [1])
    continuous = control.minreal(plant * pi / (1 + plant * (pi + d)), verbose=False)
    info = control.step_info(continuous, T=np.linspace(0, seconds, 400_001), SettlingTimeThreshold=0.02)

    # The plant is driven by an output that is held from tick to tick, and read before the output changes. All polynomials are of z^-1.
    sampled = control.sample_system(plant, h, "zoh")
    b, a = (np.atleast_1d(np.squeeze(c)) for c in (sampled.num[0][0], sampled.den[0][0]))
    b = np.concatenate([np.zeros(len(a) - len(b)), b])
    with mpmath.workdps(60):
        wide = lambda *values: np.array([mpmath.mpf(float(value)) for value in values])
        (kp_, ti_, td_, filter_), h = wide(kp, ti, td, filter), mpmath.mpf(1) / rate
        ki, kd, a_, b_ = kp_ / ti_, kp_ * td_, wide(*a), wide(*b)
        lag = [filter_ + h, -filter_]
        pi = np.convolve([kp_ + ki * h, -kp_], lag)
        below = np.convolve(wide(1, -1), lag)
        full = pi + np.convolve([kd, -kd], wide(1, -1))
        closed = np.convolve(below, a_) + np.convolve(full, b_)
        # The first tick takes over: the step of the integral that it does not take is missing from then on.
        ahead, sums, y = np.convolve(pi, b_) - ki * h * np.convolve(below, b_), mpmath.mpf(0), []
        for n in range(int(seconds * rate)):
            sums += ahead[n] if n < len(ahead) else 0  # the setpoint is one at each tick
            y.append((sums - mpmath.fsum(closed[m] * y[n - m] for m in range(1, min(n, len(closed) - 1) + 1))) / closed[0])
    keys = {"kind": '"pid"', "rate": f'"{rate}"', "input": '"s.input"', "setpoint": 1, "kp": kp, "ti": f'"{ti}s"'}
    if td:
        keys |= {"td": f'"{td}s"', "derivative-filter": f'"{filter}s"'}
    lines = [f"### {name}", *(f"{key} = {value}" for key, value in keys.items()), "---"]
    lines += ["overshoot," + number(info["Overshoot"] / 100), "settling-time," + number(info["SettlingTime"])]
    lines += ["b," + ",".join(map(number, b[1:])), "a," + ",".join(map(number, a[1:]))]
    lines += ["y," + ",".join(map(number, y[::every]))]
    return "\n".join(lines) + "\n"


def loops():
    # The integral time takes away the slow lag of the plant; a second-order loop is left, whose overshoot is exp(-pi zeta / sqrt(1 - zeta^2)).
    s = control.tf("s")
    for zeta in (0.5, 0.7):
        natural = 1 / (2 * zeta * 0.5)
        kp = natural**2 * 2 * 0.5 / 2
        text = loop(f"second-order-{zeta}", 2 / ((2 * s + 1) * (0.5 * s + 1)), kp, 2, 0, 0, 200, 12)
        found = float(text.split("overshoot,")[1].split()[0])
        assert abs(found - math.exp(-math.pi * zeta / math.sqrt(1 - zeta**2))) < 1e-6
        yield text
    yield loop("with-derivative", 1 / (s**2 + s + 1), 4, 1.5, 0.5, 0.05, 200, 12)


for file, cases in (("pid", pids()), ("filter", filters()), ("loop", loops())):
    (HERE / f"{file}.txt").write_text("\n".join(cases))
