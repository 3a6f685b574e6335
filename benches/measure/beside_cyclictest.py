#!/usr/bin/env python3
"""Shows whether `hertzd measure` agrees with cyclictest, in interleaved rounds on one CPU. Prints all of docs/measurements/measure.md.

Each round runs cyclictest, hertzd measure, and cyclictest again. The two runs of cyclictest measure the same thing: how they differ is
the noise that the ratio of hertzd to cyclictest is compared with. Needs cyclictest (rt-tests) and the right to real-time priority. After
the build it takes two and a half minutes, in which nothing else should run.

    sudo benches/measure/beside_cyclictest.py > docs/measurements/measure.md

Without a PROGRAM it builds the release profile of this source and takes that.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]

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


def built():
    """The release build of this source."""
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=SOURCE, check=True)
    metadata = ["cargo", "metadata", "--format-version=1", "--no-deps"]
    target = json.loads(subprocess.run(metadata, cwd=SOURCE, capture_output=True, text=True, check=True).stdout)["target_directory"]
    return f"{target}/release/hertzd"


def fact(path, otherwise):
    """The first line of a file of the kernel."""
    try:
        return pathlib.Path(path).read_text().splitlines()[0].strip() or otherwise
    except (OSError, IndexError):
        return otherwise


def processor():
    """What the CPU calls itself, and whether it is a virtual one."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    of = lambda key: next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")
    return (of("model name") or platform.machine()) + (", of a virtual machine" if " hypervisor" in of("flags") + " " else "")


def verdict(ratios, noise):
    """The median ratio, what the noise can do in either direction, and whether the one is within the other."""
    ratio, least, most = statistics.median(ratios), min(noise), max(noise)
    least, most = min(least, 1 / most), max(most, 1 / least)
    return ratio, least, most, "within" if least <= ratio <= most else "outside"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?", help="the hertzd to compare [default: a release build of this source]")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=8, help="of hertzd measure in each round; a third of it are sleeps")
    args = parser.parse_args()
    program = args.program or built()
    before = os.getloadavg()
    loops = args.seconds * args.rate * 35 // 100
    rows = []
    for number in range(args.rounds):
        first = cyclictest(args.cpu, args.rate, loops)
        granted, own, measured = hertzd(program, args.cpu, args.rate, args.seconds)
        again = cyclictest(args.cpu, args.rate, loops)
        rows.append([[at_share(counts, share) for counts in (first, own, again)] for share in (0.5, 0.99)])
        print(f"round {number + 1} of {args.rounds}", end="\r", file=sys.stderr, flush=True)
    host, cpu = measured["host"], f"/sys/devices/system/cpu/cpu{args.cpu}"
    isolated = fact("/sys/devices/system/cpu/isolated", "none")
    governor = fact(f"{cpu}/cpufreq/scaling_governor", "not set by this kernel")
    load = lambda averages: " ".join(f"{average:.1f}" for average in averages)
    build = "a release build" if not args.program else f"`{pathlib.Path(program).name}` of {pathlib.Path(program).parent.name}"
    print("# hertzd measure beside cyclictest\n")
    print("Printed by `benches/measure/beside_cyclictest.py`, which runs cyclictest, `hertzd measure` and cyclictest again in each round, on the same CPU.")
    print("The two runs of cyclictest measure the same thing: how they differ is the noise that the ratio of hertzd to cyclictest is compared with.")
    print("Nothing of this is asserted by a test.\n")
    print(f"- Linux {host['kernel']} ({platform.machine()}), preempt {host['preempt']}, {host['cpus']} CPUs, clock {host['clocksource']}")
    print(f"- {processor()}; isolated CPUs: {isolated}; governor: {governor}")
    print(f"- CPU {args.cpu}, {granted['policy']} {granted['priority']}, a sleep every {1_000_000 // args.rate} µs; hertzd as {build}")
    print(f"- memory locked: {'yes' if measured['memory_locked'] else 'no'}; idle states kept shallow: {'yes' if measured['cpu_latency_held'] else 'no'} (by hertzd; cyclictest does both too)")
    print(f"- {args.rounds} rounds of cyclictest, hertzd measure, cyclictest again; about {loops} sleeps each")
    print(f"- load average before {load(before)}, after {load(os.getloadavg())}\n")
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
            ratio, least, most, where = verdict(of, aa)
            print(f"{name}: hertzd measure to cyclictest {ratio:.3f} (median of rounds), {where} what cyclictest differs from itself: {least:.3f} to {most:.3f}")
            print(f"  (hertzd in single rounds {min(of):.3f} to {max(of):.3f}; cyclictest again to first {min(aa):.3f} to {max(aa):.3f})\n")


main()
