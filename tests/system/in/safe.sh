#!/bin/bash
# Safe values of outputs at each end of the service: stop, kill -9, and a task that hangs; and that the plan survives.
. "$(dirname "$0")/common.sh"

holds() { [ "$(cat $STATE/fan)" = "$1" ]; }
fan="[task.fan]
kind = \"output\"
rate = 100
path = \"$STATE/fan\"
input = 0.75
safe = 1
start = \"keep\"
[task.other]
kind = \"load\"
rate = 100"
setup Restart=no <<<"$fan"
check "the output has its value" within 30 holds 0.75
refuse "hertzd safe writes nothing while the daemon lives" hertzd safe
check "  the output is as it was" holds 0.75
systemctl stop hertzd
check "systemctl stop leaves the safe value" holds 1

setup Restart=no <<<"$fan"
check "the output has its value again" within 30 holds 0.75
systemctl kill --kill-whom=main -s KILL hertzd
check "kill -9: the unit writes the safe value" within 30 holds 1
has "  and says so" "$(messages)" "fan: wrote 1 to $STATE/fan"

WATCHDOG=2s setup Restart=no <<<"$fan
fault = \"hang\"
fault-every = 50"
check "a worker that hangs: the safe value" within 30 holds 1
has "  the journal names the output" "$(messages MESSAGE_ID="$OUTPUT_SAFE")" "fan: has not ticked for"
