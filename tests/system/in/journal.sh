#!/bin/bash
# Overruns in the journal: each one is logged, and the sums match the summary.
. "$(dirname "$0")/common.sh"

# A drop-in sends the summary, which goes to stdout, to a file; the log goes to the journal by stderr.
setup ExecStart= 'ExecStart=/usr/bin/hertzd run --json' \
    StandardOutput=append:/tmp/summary StandardError=journal <<'END'
[worker.main]
priority = 80

[task.spiky]
kind = "load"
worker = "main"
rate = 200
run = "200us"
fault = "long-run"
fault-every = 50
fault-run = "13ms"
overrun = "drop"

[task.steady]
kind = "load"
worker = "main"
rate = 100
phase = "2ms"
run = "100us"
END
sleep 3
systemctl stop hertzd
# The last line; `check` printed those before it.
summary() { tail -n 1 /tmp/summary | jq ".tasks[] | select(.task == \"$1\") | .$2"; }

check "deliberate overruns of a task are in the journal" \
    test "$(sum HERTZD_OVERRUN MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)" -ge 10
for name in spiky steady; do
    same "$name: the sum of HERTZD_OVERRUN is the summary's overruns" \
        "$(summary $name overruns)" "$(sum HERTZD_OVERRUN MESSAGE_ID=$OVERRUN HERTZD_TASK=$name)"
    same "$name: the sum of HERTZD_SKIPPED is the summary's skipped" \
        "$(summary $name skipped)" "$(sum HERTZD_SKIPPED MESSAGE_ID=$OVERRUN MESSAGE_ID=$GIVEN_UP HERTZD_TASK=$name)"
    same "$name: ran + skipped = due" "$(summary $name due)" "$(($(summary $name ran) + $(summary $name skipped)))"
done
entry=$(entries -n 1 MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)
same "an entry is a warning" 4 "$(jq -r .PRIORITY <<<"$entry")"
same "  names the worker" main "$(jq -r .HERTZD_WORKER <<<"$entry")"
same "  and the cause" ran-long "$(jq -r .HERTZD_CAUSE <<<"$entry")"
check "  and has the numbers" jq -e '.HERTZD_TICK and .HERTZD_LATENESS_NS and (.HERTZD_RUN_NS | tonumber) >= 13000000' <<<"$entry"
has "journalctl -x explains it" "$(journalctl -q -x -n 1 MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)" "The worst was tick"
