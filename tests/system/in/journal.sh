#!/bin/bash
# Overruns in the journal: each one is logged, and the sums match the summary.
. "$(dirname "$0")/common.sh"

setup "${WITH_SUMMARY[@]}" <<'END'
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

check "deliberate overruns of a task are in the journal" \
    test "$(sum HERTZD_OVERRUN MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)" -ge 10
adds_up spiky steady
check "steady is blocked by spiky, and its entries name it" \
    test "$(entries HERTZD_TASK=steady HERTZD_CAUSE=blocked HERTZD_BLOCKER=spiky | wc -l)" -ge 1
entry=$(entries -n 1 MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)
same "an entry is a warning" 4 "$(jq -r .PRIORITY <<<"$entry")"
same "  names the worker" main "$(jq -r .HERTZD_WORKER <<<"$entry")"
has "  and all causes" " $(jq -r .HERTZD_CAUSES <<<"$entry") " " $(jq -r .HERTZD_CAUSE <<<"$entry")="
has "  in one sentence" "$(jq -r .MESSAGE <<<"$entry")" "spiky: missed $(jq -r .HERTZD_MISSED <<<"$entry") of "
check "  and has the numbers" jq -e '.HERTZD_TICK and .HERTZD_LATENESS_NS and (.HERTZD_RUN_NS | tonumber) >= 13000000' <<<"$entry"
has "journalctl -x explains it" "$(journalctl -q -x -n 1 MESSAGE_ID=$OVERRUN HERTZD_TASK=spiky)" "The overrun that finished latest was tick"

# hertzd log, by way of the real journalctl.
journalctl --sync
same "hertzd log shows what the journal has of a task" "$(entries HERTZD_TASK=steady | wc -l)" \
    "$(hertzd log --task steady --since 1h --json | jq -s 'length')"
has "  by cause as well" "$(hertzd log --cause blocked --since 1h)" " blocked  "
same "  and its numbers add up to the summary's" "$(summary spiky .missed)" \
    "$(hertzd log --task spiky --since 1h --json | jq -s 'map(.missed // 0) | add')"
check "  a time that journalctl does not know is refused" test "$(hertzd log --since nonsense >/dev/null 2>&1; echo $?)" = 70
