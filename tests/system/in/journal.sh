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
deadline = "4ms" # spiky's long run ends 6 ms after a release of this task
END
sleep 3
systemctl stop hertzd
# The last line; `check` printed those before it.
summary() { tail -n 1 /tmp/summary | jq ".tasks[] | select(.task == \"$1\") | .$2"; }

# causes MATCH...: the sums over HERTZD_CAUSES, as an object.
causes() {
    entries MESSAGE_ID=$OVERRUN MESSAGE_ID=$GIVEN_UP "$@" |
        jq -cs '[.[].HERTZD_CAUSES | split(" ")[] | split("=")] | group_by(.[0])
            | map({(.[0][0]): (map(.[1] | tonumber) | add)}) | add // {}'
}

check "deliberate overruns of a task are in the journal" \
    test "$(sum HERTZD_OVERRUN MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)" -ge 10
for name in spiky steady; do
    same "$name: the sum of HERTZD_MISSED is the summary's missed" \
        "$(summary $name missed)" "$(sum HERTZD_MISSED MESSAGE_ID=$OVERRUN MESSAGE_ID=$GIVEN_UP HERTZD_TASK=$name)"
    same "$name: the sum of HERTZD_OVERRUN is the summary's overruns" \
        "$(summary $name overruns)" "$(sum HERTZD_OVERRUN MESSAGE_ID=$OVERRUN HERTZD_TASK=$name)"
    same "$name: entries without an overrun have the other id" \
        0 "$(sum HERTZD_OVERRUN MESSAGE_ID=$GIVEN_UP HERTZD_TASK=$name)"
    same "$name: the sums of HERTZD_CAUSES are the summary's causes" \
        "$(summary $name causes | jq -c .)" "$(causes HERTZD_TASK=$name)"
    same "$name: the sum of HERTZD_SKIPPED is the summary's skipped" \
        "$(summary $name skipped)" "$(sum HERTZD_SKIPPED MESSAGE_ID=$OVERRUN MESSAGE_ID=$GIVEN_UP HERTZD_TASK=$name)"
    same "$name: ran + skipped = due" "$(summary $name due)" "$(($(summary $name ran) + $(summary $name skipped)))"
done
check "steady is blocked by spiky, and its entries name it" \
    test "$(entries HERTZD_TASK=steady HERTZD_CAUSE=blocked HERTZD_BLOCKER=spiky | wc -l)" -ge 1
entry=$(entries -n 1 MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)
same "an entry is a warning" 4 "$(jq -r .PRIORITY <<<"$entry")"
same "  names the worker" main "$(jq -r .HERTZD_WORKER <<<"$entry")"
has "  and all causes" " $(jq -r .HERTZD_CAUSES <<<"$entry") " " $(jq -r .HERTZD_CAUSE <<<"$entry")="
has "  in one sentence" "$(jq -r .MESSAGE <<<"$entry")" "spiky: missed $(jq -r .HERTZD_MISSED <<<"$entry") of "
check "  and has the numbers" jq -e '.HERTZD_TICK and .HERTZD_LATENESS_NS and (.HERTZD_RUN_NS | tonumber) >= 13000000' <<<"$entry"
has "journalctl -x explains it" "$(journalctl -q -x -n 1 MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)" "The overrun that finished latest was tick"
