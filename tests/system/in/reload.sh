#!/bin/bash
# Reloads: unchanged tasks are not affected, and a faulty configuration changes nothing.
. "$(dirname "$0")/common.sh"

# Of task a, in Hz and ns. What a slow machine cannot hold says nothing about reloads.
[ "$PATIENCE" = 1 ] && RATE=1000 || RATE=100
PERIOD=$((1000000000 / RATE))
# config RATE: the configuration with task b at that rate. The worker's clock is UTC, as in the recording, so releases are
# exact there. With this much credit task a gives up nothing even if the machine stalls: a missing release was lost by a
# reload.
config() {
    cat <<END
[worker.main]
priority = 80
clock = "realtime"

[task.a]
kind = "sensor"
worker = "main"
rate = $RATE
path = "/proc/loadavg"
record = "a.csv"
overrun = "credit"
max-debt = "1h"

[task.b]
kind = "load"
worker = "main"
rate = $1
phase = "500us"
run = "20us"
END
}
has_rate() { [ "$(task b rate)" = "$1" ]; }
# requests FILE SIGNAL: writes a configuration with another rate of b there and sends the signal, 20 times, 10 times a second where the machine
# is not slow. hertzd begins no reload within 100 ms of the one before: on a busy machine, two requests may become one reload.
requests() {
    local next
    next=$(millis)
    for i in {1..20}; do
        config $((50 + i)) >"$1.new"
        mv "$1.new" "$1"
        systemctl kill --kill-whom=main -s "$2" hertzd
        next=$((next + 100 * PATIENCE))
        sleep "$(awk -v ms=$((next - $(millis))) 'BEGIN { print (ms > 0 ? ms / 1000 : 0) }')"
    done
}
# count_delays: how often task a was delayed by a period or longer, with and without reloads, from its recording.
count_delays() {
    awk -F, -v period=$PERIOD 'FNR == NR { from[++phases] = $1; kind[phases] = $2; next }
        FNR > 1 && $3 >= period && !late { for (p = phases; p > 1 && from[p] > $1; p--); count[kind[p]]++ }
        { late = FNR > 1 && $3 >= period }
        END { print count["reloads"] + 0, count["none"] + 0 }' /tmp/phases $STATE/a.csv
}

# A machine that stalls for a millisecond now and then delays the task without any reload, and so do the programs that ask for one. Each 2 s
# with reloads are followed by 2 s with the same programs, whose signal does nothing.
for _ in 1 2 3; do
    setup < <(config 10)
    pid=$(main_pid)
    : >/tmp/phases
    for _ in {1..10}; do
        echo "$(task a due),reloads" >>/tmp/phases
        requests $CONFIG HUP
        within 60 has_rate 70/1 || :
        echo "$(task a due),none" >>/tmp/phases
        requests /tmp/unread.toml CONT
    done
    reloaded=$(snapshot .daemon.reloads)
    sleep 1 # the recorder writes at intervals
    read -r with without < <(count_delays)
    echo "# a was delayed $with times in $((20 * PATIENCE)) s of reloads, $without times in as many without"
    # Stalls come in bursts; an effect of reloads would appear in each of them.
    fair=$(awk -v w="$without" 'BEGIN { print int(w + 3 * sqrt(2 * w)) + 60 }')
    [ "$with" -gt "$fair" ] || break
done
same "200 reloads, one each $((100 * PATIENCE)) ms, that edit b: a, at $RATE Hz, skips nothing" 0 "$(task a skipped)"
at_most "  and is not delayed by each of them, compared with the time without" "$with" "$fair"
check "  they were carried out, at least every other: $reloaded" test "$reloaded" -ge 100 -a "$reloaded" -le 200
same "  none was refused" 0 "$(snapshot .daemon.reloads_refused)"
same "  in one process" "$pid" "$(main_pid)"
same "  b has the rate of the last edit" "70/1" "$(task b rate)"

# `systemctl reload` waits for the result.
config 77 >$CONFIG
check "systemctl reload" systemctl reload hertzd
same "  returns when the reload is done" "77/1" "$(task b rate)"
same "  and the service is active" active "$(show ActiveState)"
sed 's/rate = 77/rat = 77/' -i $CONFIG
refuse "systemctl reload of a broken file fails" systemctl reload hertzd
same "  the old tasks continue" "active 77/1" "$(show ActiveState) $(task b rate)"
same "  in the same process" "$pid" "$(main_pid)"
before=$(task a ran)
check "  and keep ticking" within 60 ticked a $((before + 100))
has "  the journal names the faulty line" "$(messages)" "hertzd.toml:17"
same "  once" 1 "$(messages | grep -c 'hertzd.toml:17')"
has "hertzd check --against-running reports the fault beforehand" "$(hertzd check --against-running 2>&1)" rat
config 78 >$CONFIG
has "  and shows what a reload would do" "$(hertzd check --against-running 2>&1)" "b"
check "the corrected file is reloaded" systemctl reload hertzd
same "  and b has its new rate" "78/1" "$(task b rate)"

systemctl stop hertzd
# tick,release_utc,lateness_ns,value
read -r rows gaps off < <(awk -F, -v rate="$RATE" -v period=$PERIOD 'NR > 1 {
    split($2, t, /[:.Z]/); ns = t[4] + 0; n = $1
    if (NR == 2) { n0 = n; phase = ns % period; ns0 = ns }
    else { gaps += n - last - 1; if ((ns - ns0 - (n - n0) % rate * period) % 1000000000 != 0) off++ }
    last = n; rows++
} END { print rows + 0, gaps + 0, off + 0 }' $STATE/a.csv)
check "a's recording spans all reloads ($rows rows)" test "$rows" -ge $((20 * RATE))
same "  its index has no gap" 0 "$gaps"
same "  and every release is on the first one's grid, to the nanosecond" 0 "$off"
