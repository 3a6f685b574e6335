#!/bin/bash
# Without journald: no tick is late because of it, and what was lost is counted.
. "$(dirname "$0")/common.sh"

setup <<'END'
[worker.main]
priority = 80

[task.fast]
kind = "load"
worker = "main"
rate = "1 kHz"
run = "50us"
deadline = "40us"
overrun = "drop"
END
# skipped SECONDS: by the 1 kHz task.
skipped() {
    local before
    before=$(task fast skipped)
    sleep "$1"
    echo $(($(task fast skipped) - before))
}
writes() { [ -n "$(journalctl -q --since=-2s "_PID=$pid" MESSAGE_ID=$OVERRUN)" ]; }

pid=$(main_pid)
with=$(skipped 5)
start=$(millis)
systemctl stop systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-journald 2>/dev/null
took=$(since "$start")
refuse "journald is stopped" systemctl is-active --quiet systemd-journald
before=$(task fast ran)
without=$(skipped 10)
overruns=$(task fast overruns)
check "1 kHz went on without it" test $(($(task fast ran) - before + without)) -ge 9900
systemctl start systemd-journald.socket systemd-journald-dev-log.socket systemd-journald
# A machine that stands still now and then skips some in either case; had ticks waited, it would be 10,000.
at_most "  as well as with it: skipped in 10 s, after $with in 5 s" "$without" $((2 * with + 100))
check "  overrunning all the time" test "$overruns" -ge 5000
same "the service was not restarted" "$pid" "$(main_pid)"
check "afterwards it writes to the journal again" \
    until_ok 10 writes
systemctl stop hertzd
journalctl --sync
lost=$(sum HERTZD_LOST MESSAGE_ID=$ENTRIES_LOST)
told=$(sum HERTZD_OVERRUN MESSAGE_ID=$OVERRUN)
if [ "$lost" = 0 ]; then
    # What lies in the socket when systemd closes it is gone, and nobody can know: one entry a second, for as long as stopping
    # took, each for the 1,000 overruns of its second.
    unknown=$(awk -v s="$took" 'BEGIN { print int(s + 2) * 1000 }')
    check "no entry is said to be lost, and none is: $told overruns told of $overruns or more, but for $unknown while it stopped" \
        test $((told + unknown)) -ge "$overruns"
else
    ok "the journal says how many entries were lost ($lost)"
fi
