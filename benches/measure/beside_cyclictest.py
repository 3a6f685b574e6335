#!/usr/bin/env python3
"""Shows whether `hertzd measure` agrees with cyclictest, in interleaved rounds on one CPU.

Each round runs cyclictest, hertzd measure, and cyclictest again. The two runs of cyclictest measure the same thing: how they differ is
the noise that the ratio of hertzd to cyclictest is compared with. Needs cyclictest (rt-tests) and the right to real-time priority.

    cargo build --release && sudo benches/measure/beside_cyclictest.py target/release/hertzd
"""

import argparse
import json
import os
import platform
import statistics
import subprocess

PRIORITY = 80
MOST = 1_000_000  # cyclictest counts nothing later than this, in nanoseconds


def at_share(counts, share):
    """The value that this share of all values is at most; None: there are too few."""
    total = sum(count for _, count in counts)
    if total * (1 - share) < 5:
        return None
    passed = 0
    for value, count in sorted(counts):
        passed += count
        if passed >= share * total:
            return value


def cyclictest(cpu, rate, loops):
    command = [
        "cyclictest", "--mlockall", "--quiet", "--threads=1", "--nsecs", f"--affinity={cpu}", f"--priority={PRIORITY}",
        f"--interval={1_000_000 // rate}", f"--loops={loops}", f"--histogram={MOST}",
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit() and int(words[1]):
            counts.append((int(words[0]), int(words[1])))
        if line.startswith("# Histogram Overflows:"):
            counts.append((MOST, int(words[-1])))
    return counts


def hertzd(program, cpu, rate, seconds):
    command = [program, "measure", "--json", f"--cpus={cpu}", f"--rate={rate}", f"--priority={PRIORITY}", f"--for={seconds}s"]
    measured = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    on_cpu = measured["cpus"][0]
    return on_cpu["granted"], on_cpu["conditions"][0]["sleep"]["oversleep_ns"]["counts"], measured


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="the hertzd to compare")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=8, help="of hertzd measure in each round; a third of it are sleeps")
    args = parser.parse_args()
    loops = args.seconds * args.rate * 35 // 100
    rows = []
    for number in range(args.rounds):
        first = cyclictest(args.cpu, args.rate, loops)
        granted, own, measured = hertzd(args.program, args.cpu, args.rate, args.seconds)
        again = cyclictest(args.cpu, args.rate, loops)
        rows.append([[at_share(counts, share) for counts in (first, own, again)] for share in (0.5, 0.99)])
        print(f"round {number + 1} of {args.rounds}", end="\r", flush=True)
    host = measured["host"]
    print(f"- Linux {host['kernel']} ({platform.machine()}), preempt {host['preempt']}, {host['cpus']} CPUs, clock {host['clocksource']}")
    print(f"- CPU {args.cpu}, {granted['policy']} {granted['priority']}, a sleep every {1_000_000 // args.rate} µs")
    print(f"- {args.rounds} rounds of cyclictest, hertzd measure, cyclictest again; about {loops} sleeps each")
    print(f"- load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}\n")
    print("| round | cyclictest p50 µs | hertzd measure p50 | cyclictest again p50 | hertzd to cyclictest | again to first |")
    print("| --: | --: | --: | --: | --: | --: |")
    shown = lambda nanos: f"{nanos / 1000:.2f}"
    ratios, noise = [[], []], [[], []]
    for number, row in enumerate(rows):
        for at, (first, own, again) in enumerate(row):
            if None not in (first, own, again):
                # cyclictest before and after: the middle of both.
                ratios[at].append(own / ((first + again) / 2))
                noise[at].append(again / first)
        first, own, again = row[0]
        print(f"| {number + 1} | {shown(first)} | {shown(own)} | {shown(again)} | {ratios[0][-1]:.3f} | {noise[0][-1]:.3f} |")
    print()
    for name, of, aa in (("p50", ratios[0], noise[0]), ("p99", ratios[1], noise[1])):
        if of:
            ratio, least, most = statistics.median(of), min(aa), max(aa)
            # What is seen in either direction is what the noise can do.
            least, most = min(least, 1 / most), max(most, 1 / least)
            verdict = "within" if least <= ratio <= most else "outside"
            print(f"{name}: hertzd measure to cyclictest {ratio:.3f} (median of rounds), {verdict} what cyclictest differs from itself: {least:.3f} to {most:.3f}")


main()
