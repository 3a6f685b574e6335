"""Smooths the load of the machine, and says so when it rises: a program that hertzd starts, by python.toml."""

import hertzd

filtered = None
for tick in hertzd.ticks():
    load = tick.inputs["load"]
    if not load.bad:
        filtered = load if filtered is None else filtered + 0.1 * (load - filtered)
        if load > 2 * max(filtered, 1.0):
            print(f"the load has risen to {load:.2f} at tick {tick.n}")  # goes to the log of hertzd
    if filtered is not None:  # else there is nothing to say yet: the tick counts as missing
        hertzd.out(load=filtered)
