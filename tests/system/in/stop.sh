#!/bin/bash
# A stop takes effect at once and writes everything, even while a task waits for a distant release.
. "$(dirname "$0")/common.sh"

# Each time at once, but for a machine that stalls.
for _ in 1 2 3 4 5; do
    setup <<'END'
[task.rare]
kind = "sensor"
rate = 0.1
path = "/proc/uptime"
record = "rare.csv"

[task.often]
kind = "sensor"
rate = 1000
path = "/proc/uptime"
record = "often.csv"
END
    within 60 ticked often 1500
    before=$(task often ran)
    start=$(millis)
    systemctl stop hertzd
    took=$(since "$start")
    ! awk -v took="$took" 'BEGIN { exit !(took <= '"$PATIENCE"') }' || break
done
at_most "systemctl stop returns in under $PATIENCE s, with a 0.1 Hz task waiting" "$took" "$PATIENCE"
same "  the service ended successfully" "success 0" "$(show Result) $(show ExecMainStatus)"
check "  every record was written" test "$(($(wc -l <$STATE/often.csv) - 1))" -ge "$before"
same "  the last line is complete" 4 "$(tail -n 1 $STATE/often.csv | awk -F, '{ print NF }')"
check "  the record of the 0.1 Hz task as well" test "$(wc -l <$STATE/rare.csv)" -ge 2
refuse "  no socket is left" test -e /run/hertzd/status.sock
