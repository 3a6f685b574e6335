#!/usr/bin/env python3
"""How far the mean rate of the starts is off, and whether releases drift against their index.

    benches/measure/mean_rate.py HERTZD [SECONDS]

Runs tasks of several rates on one worker with spin = "auto", each recorded as CSV, and prints the table of
docs/measurements/scale.md. Nothing is asserted.
"""

import csv
import datetime
import pathlib
import subprocess
import sys
import tempfile
from fractions import Fraction

RATES = ["1", "29.97", "50", "333.3333", "1000", "10007/3", "5000"]


def nanos(utc):
    """Nanoseconds since 1970 of an instant as the recording has it."""
    seconds, fraction = utc.removesuffix("Z").split(".")
    whole = int(datetime.datetime.fromisoformat(seconds + "+00:00").timestamp())
    return whole * 10**9 + int(fraction.ljust(9, "0"))


def row(rate, path):
    ticks = list(csv.DictReader(path.open()))
    index = [int(tick["tick"]) for tick in ticks]
    late = [int(tick["lateness_ns"]) for tick in ticks]
    release = [nanos(tick["release_utc"]) for tick in ticks]
    middle, mean = sum(index) / len(index), sum(late) / len(late)
    slope = sum((n - middle) * (l - mean) for n, l in zip(index, late)) / sum((n - middle) ** 2 for n in index)
    off = (late[-1] - late[0]) / (index[-1] - index[0])
    drift = [at - release[0] - int((n - index[0]) * 10**9 / Fraction(rate)) for n, at in zip(index, release)]
    return f"| {rate} | {len(ticks)} | {off:+.3f} | {slope:+.4f} | {min(drift)} to {max(drift)} |"


def main():
    hertzd, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "60"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = [folder / f"{number}.csv" for number in range(len(RATES))]
        config = '[worker.main]\nspin = "auto"\n'
        for number, (rate, file) in enumerate(zip(RATES, files)):
            config += f'[task.t{number}]\nkind = "load"\nrate = "{rate}"\nrun = "1us"\nrecord = "{file}"\n'
        (folder / "rates.toml").write_text(config)
        command = [hertzd, "run", str(folder / "rates.toml"), "--for", f"{seconds}s"]
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ended.returncode > 1:
            sys.exit(f"hertzd failed:\n{ended.stderr}")
        print(f"| rate | ticks in {seconds} s | mean interval off by, ns | slope, ns a tick | release − index, ns |")
        print("| --: | --: | --: | --: | --- |")
        for rate, file in zip(RATES, files):
            print(row(rate, file))


if __name__ == "__main__":
    main()
