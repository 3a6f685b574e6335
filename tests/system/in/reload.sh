#!/bin/bash
# Reloading: what did not change does not notice; what is wrong changes nothing.
. "$(dirname "$0")/common.sh"

# b RATE: the configuration with task b at that rate. The clock is UTC, in which the recording has its releases: so they
# are exact there. With this much credit task a gives up nothing, however long the machine stands still: a release that is
# missing has been lost by a reload.
b() {
    cat <<END
[worker.main]
priority = 80
clock = "realtime"

[task.a]
kind = "sensor"
worker = "main"
rate = "1 kHz"
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
# reloads: edits b 20 times, 10 a second.
reloads() {
    local next
    next=$(millis)
    for i in {1..20}; do
        b $((50 + i)) >$CONFIG.new
        mv $CONFIG.new $CONFIG
        systemctl kill --kill-whom=main -s HUP hertzd
        next=$((next + 100))
        sleep "$(awk -v ms=$((next - $(millis))) 'BEGIN { print (ms > 0 ? ms / 1000 : 0) }')"
    done
}
# held: how often a was held up for a period or longer, with reloads and without, by its recording.
held() {
    awk -F, 'FNR == NR { from[++phases] = $1; kind[phases] = $2; next }
        FNR > 1 && $3 >= 1000000 && !late { for (p = phases; p > 1 && from[p] > $1; p--); count[kind[p]]++ }
        { late = FNR > 1 && $3 >= 1000000 }
        END { print count["reloads"] + 0, count["none"] + 0 }' /tmp/phases $STATE/a.csv
}

# A machine that itself stands still for a millisecond now and then holds it up without any reload: 1 s without follows
# 2 s with, and what is the machine's own is half as often in it.
for _ in 1 2 3; do
    setup < <(b 10)
    pid=$(main_pid)
    : >/tmp/phases
    for _ in {1..10}; do
        echo "$(task a due),reloads" >>/tmp/phases
        reloads
        echo "$(task a due),none" >>/tmp/phases
        sleep 1
    done
    until_ok 5 test "$(snapshot .daemon.reloads)" -ge 200 || :
    reloaded=$(snapshot .daemon.reloads)
    sleep 1 # what is recorded is written once in a while
    read -r with without < <(held)
    echo "# a was held up $with times in 20 s of reloads, $without times in 10 s without"
    # Such moments come in bursts; what a reload does, it does 200 times.
    fair=$(awk -v w="$((2 * without))" 'BEGIN { print int(w + 3 * sqrt(w)) + 60 }')
    [ "$with" -gt "$fair" ] || break
done
same "200 reloads at 10 a second that edit b: a, at 1 kHz, skips nothing" 0 "$(task a skipped)"
at_most "  and is not held up by each of them, compared with a while without" "$with" "$fair"
same "  and all of them were done" 200 "$reloaded"
same "  none was refused" 0 "$(snapshot .daemon.reloads_refused)"
same "  in one process" "$pid" "$(main_pid)"
same "  b runs as it was edited last" "70/1" "$(task b rate)"

# A reload by systemctl waits for the answer.
b 77 >$CONFIG
check "systemctl reload" systemctl reload hertzd
same "  returns when it is done" "77/1" "$(task b rate)"
same "  and the service is active" active "$(show ActiveState)"
sed 's/rate = 77/rat = 77/' -i $CONFIG
refuse "systemctl reload of a broken file fails" systemctl reload hertzd
same "  the old set runs on" "active 77/1" "$(show ActiveState) $(task b rate)"
same "  in the same process" "$pid" "$(main_pid)"
before=$(task a ran)
check "  and ticks" until_ok 5 ticked a $((before + 100))
has "  and the journal has the line that is wrong" "$(messages)" "hertzd.toml:17"
has "hertzd check --against-running says so beforehand" "$(hertzd check --against-running 2>&1)" rat
b 78 >$CONFIG
has "  and what a reload would do" "$(hertzd check --against-running 2>&1)" "b"
check "mended, it is reloaded" systemctl reload hertzd
same "  and b is as it says" "78/1" "$(task b rate)"

systemctl stop hertzd
# tick,release_utc,lateness_ns,value
read -r rows gaps off < <(awk -F, 'NR > 1 {
    split($2, t, /[:.Z]/); ns = t[4] + 0; n = $1
    if (NR == 2) { n0 = n; phase = ns % 1000000; ns0 = ns }
    else { gaps += n - last - 1; if ((ns - ns0 - (n - n0) % 1000 * 1000000) % 1000000000 != 0) off++ }
    last = n; rows++
} END { print rows + 0, gaps + 0, off + 0 }' $STATE/a.csv)
check "a's recording goes through all of it ($rows rows)" test "$rows" -ge 20000
same "  its index has no gap" 0 "$gaps"
same "  and no release is off the first one's grid by a nanosecond" 0 "$off"
