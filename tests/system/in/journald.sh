#!/bin/bash
# Without journald no tick is delayed, and lost entries are counted.
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
# skipped SECONDS: the number of releases that the 1 kHz task skips in that time.
skipped() {
    local before
    before=$(task fast skipped)
    sleep "$1"
    echo $(($(task fast skipped) - before))
}
# logs SINCE: the journal has an entry of an event after this time. Entries come in order, so it has those that waited as well.
logs() { entries MESSAGE_ID=$OVERRUN | jq -e -s --arg since "$1" 'any(.HERTZD_TIME > $since)' >/dev/null; }

pid=$(main_pid)
with=$(skipped 5)
start=$(millis)
systemctl stop systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-journald 2>/dev/null
took=$(since "$start")
refuse "journald is stopped" systemctl is-active --quiet systemd-journald
# A machine that stalls now and then skips some in either case, but not each time. If ticks had waited, it would be 10,000.
for _ in 1 2 3 4 5; do
    before=$(task fast ran)
    without=$(skipped 10)
    overruns=$(task fast overruns)
    ticked=$(($(task fast ran) - before + without))
    [ "$without" -gt $((2 * with + 100)) ] || break
done
check "the 1 kHz task keeps ticking without it" test "$ticked" -ge 9900
again=$(date -u +%FT%T.%6NZ)
systemctl start systemd-journald.socket systemd-journald-dev-log.socket systemd-journald
at_most "  as well as with it ($with skipped in 5 s): skipped in 10 s" "$without" $((2 * with + 100))
check "  and overruns all the time" test "$overruns" -ge 5000
same "the service was not restarted" "$pid" "$(main_pid)"
check "afterwards hertzd logs to the journal again" \
    within 60 logs "$again"
systemctl stop hertzd
journalctl --sync
# The socket is there a moment before systemd asks for the senders of its messages, and waiting entries arrive in that moment.
same "every entry of hertzd says which unit it is of" 0 \
    "$(journalctl -q -o json --since="@$((start / 1000))" MESSAGE_ID=$OVERRUN | jq -s 'map(select(._SYSTEMD_UNIT != "hertzd.service")) | length')"
lost=$(sum HERTZD_LOST MESSAGE_ID=$ENTRIES_LOST)
logged=$(sum HERTZD_OVERRUN MESSAGE_ID=$OVERRUN)
if [ "$lost" = 0 ]; then
    # Entries in the socket when systemd closes it are lost without a trace: one entry per second of the time that stopping
    # took, each for the 1,000 overruns of its second.
    unknown=$(awk -v s="$took" 'BEGIN { print int(s + 2) * 1000 }')
    check "no entry is reported as lost, and none is: $logged overruns logged of at least $overruns, except up to $unknown while journald stopped" \
        test $((logged + unknown)) -ge "$overruns"
    [ "$FAILED" = 0 ] ||
        entries MESSAGE_ID=$OVERRUN | jq -r '"# \(.HERTZD_TIME), arrived at \(.__REALTIME_TIMESTAMP): \(.HERTZD_OVERRUN) overruns"'
else
    ok "the journal states the number of lost entries ($lost)"
fi
