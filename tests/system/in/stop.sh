#!/bin/bash
# A stop waits for no release and writes everything: one that did wait for a release in an hour would be killed by systemd.
. "$(dirname "$0")/common.sh"

setup <<'END'
[task.rare]
kind = "sensor"
period = "1h"
path = "/proc/uptime"
record = "rare.csv"

[task.often]
kind = "sensor"
rate = 1000
path = "/proc/uptime"
record = "often.csv"
END
check "it ticks" within 60 ticked often 1500
before=$(task often ran)
check "systemctl stop returns, though a task waits for a release in an hour" systemctl stop hertzd
same "  the service ended successfully" "success 0" "$(show Result) $(show ExecMainStatus)"
check "  every record was written" test "$(($(wc -l <$STATE/often.csv) - 1))" -ge "$before"
same "  the last line is complete" 4 "$(tail -n 1 $STATE/often.csv | awk -F, '{ print NF }')"
check "  the record of the task that waited as well" test "$(wc -l <$STATE/rare.csv)" -ge 2
refuse "  no socket is left" test -e /run/hertzd/status.sock
