#!/bin/bash
# The clock that releases lie on is stepped, forward and back, during sleeps and spin tails; and the kernel's TAI offset is set.
. "$(dirname "$0")/common.sh"

# put SECONDS: steps CLOCK_REALTIME and CLOCK_TAI by that much.
put() { python3 -c 'import sys, time as t; t.clock_settime_ns(t.CLOCK_REALTIME, t.clock_gettime_ns(t.CLOCK_REALTIME) + round(float(sys.argv[1]) * 1e9))' "$1"; }
# set_tai_offset SECONDS: as chrony and ptp4l do; moves CLOCK_TAI alone.
set_tai_offset() {
    python3 - "$1" <<'PY'
import ctypes, sys
timex = (ctypes.c_long * 64)()
ADJ_TAI = 0x80
ctypes.cast(timex, ctypes.POINTER(ctypes.c_uint))[0] = ADJ_TAI
timex[6] = int(sys.argv[1])  # modes, offset, freq, maxerror, esterror, status, constant
sys.exit(ctypes.CDLL(None).adjtimex(timex) < 0)
PY
}
uptime_ms() { awk '{ printf "%d", $1 * 1000 }' /proc/uptime; }
# soon SECONDS COMMAND...: as `within`, which looks at the clock that is stepped here.
soon() {
    local end=$(($(uptime_ms) + $1 * 1000)); shift
    until "$@" >/dev/null 2>&1; do
        [ "$(uptime_ms)" -lt "$end" ] || return 1
        sleep 0.05
    done
}
steps() { snapshot ".workers[] | select(.worker == \"$1\") | .clock_steps"; }
# stepped WORKER COUNT
stepped() { [ "$(steps "$1")" = "$2" ]; }
# last_step WORKER: in seconds, rounded.
last_step() { snapshot ".workers[] | select(.worker == \"$1\") | .clock_step.by_ns / 1e9 | round"; }
# goes_on TASK: 20 more ticks within 30 s.
goes_on() { local ran; ran=$(task "$1" ran) && soon 30 ticked "$1" $((ran + 20)); }

configure() {
    setup "${WITH_SUMMARY[@]}" <<'END'
[worker.wall]
clock = "realtime"
[task.fast]
kind = "load"
worker = "wall"
rate = 10
run = "100us"

# Half of the time in the spin tail: some steps fall into it.
[worker.spinning]
clock = "tai"
spin = "50ms"
[task.awake]
kind = "load"
worker = "spinning"
rate = 10
run = "100us"

[worker.steady]
[task.other]
kind = "load"
worker = "steady"
rate = 10
run = "100us"
END
}

configure
check "workers on realtime, tai and monotonic tick" soon 60 eval 'ticked fast 20 && ticked awake 20 && ticked other 20'
same "no clock was stepped yet" "0 0 0" "$(steps wall) $(steps spinning) $(steps steady)"

due=$(task fast due)
check "the clock is put back by an hour" put -3600
check "  both workers notice" soon 20 eval 'stepped wall 1 && stepped spinning 1'
check "  status exits with 1 and says so" says 1 "the clock realtime of worker wall was stepped by "
has "    for both workers" "$(jq -r .reason /tmp/status)" "the clock tai of worker spinning was stepped by "
lacks "    and not for the monotonic one" "$(jq -r .reason /tmp/status)" "of worker steady"
for task in fast awake other; do check "  task $task goes on" goes_on $task; done
same "  the step is shown" "-3600 -3600" "$(last_step wall) $(last_step spinning)"
at_most "  with its age, in s" "$(snapshot '.workers[0].clock_step.age_ns / 1e9')" 60
same "  the monotonic clock has none" "0 monotonic" "$(steps steady) $(snapshot '.workers[] | select(.worker == "steady") | .clock')"
at_most "  releases that come up go on being counted" "$(($(task fast due) - due))" 2000
same "  it is in the journal, once for each worker" "spinning wall" \
    "$(entries "MESSAGE_ID=$CLOCK_STEPPED" | jq -r 'select(.HERTZD_STEP_NS | tonumber / 1e9 | round == -3600) | .HERTZD_WORKER' | sort | xargs)"
has "    with a message that says it all" "$(messages "MESSAGE_ID=$CLOCK_STEPPED" HERTZD_WORKER=wall)" "worker wall: its clock, realtime, was stepped back by 3600 s; its tasks continue"

cat >>$CONFIG <<'END'
[task.joined]
kind = "load"
worker = "wall"
rate = 10
END
check "a reload adds a task" systemctl reload hertzd
check "  which ticks" soon 30 ticked joined 20
check "  beside the others" goes_on fast

for _ in $(seq 8); do put -20; sleep 0.3; done
check "after eight steps back by 20 s, half of them in the spin tail, it goes on" goes_on awake
at_most "  without spinning for longer than its tail" "$(snapshot '.workers[] | select(.worker == "spinning") | .spin_share')" 0.55
put -20
start=$(uptime_ms)
check "a stop right after such a step" systemctl stop hertzd
at_most "  takes at most so many seconds" "$((($(uptime_ms) - start) / 1000))" 10
same "  and ends well" "success 0" "$(show Result) $(show ExecMainStatus)"

configure
check "hertzd ticks again" soon 60 eval 'ticked fast 20 && ticked awake 20'
due=$(task fast due)
check "the clock is put forward by an hour" put 3600
check "  it is noticed" soon 20 eval 'stepped wall 1 && stepped spinning 1'
for task in fast awake; do check "  task $task goes on" goes_on $task; done
# All but a few at the edges; this machine misses some of its own.
most_of_an_hour() { at_most "$1" "$((36000 - $2))" 100; }
most_of_an_hour "  the releases in between are due" "$(($(task fast due) - due))"
most_of_an_hour "  they are missed" "$(task fast missed)"
most_of_an_hour "  with the cause stalled" "$(task fast causes.stalled)"
same "  no run is as long as a step" "" "$(snapshot '.tasks[] | select(.run_ns.max > 1e10 or .run_ns.min < 0) | .task')"
check "the TAI offset is set" set_tai_offset 37
check "  the worker on tai notices" soon 20 stepped spinning 2
same "  by how much" 37 "$(last_step spinning)"
same "  the one on realtime has nothing to notice" 1 "$(steps wall)"
check "  task awake goes on" goes_on awake
systemctl stop hertzd
adds_up fast awake other
for task in fast awake; do
    check "$task: at least 95 % of what was missed is stalled: $(summary $task '"\(.causes.stalled) of \(.missed)"')" \
        test "$(summary $task '.causes.stalled >= 200 and .causes.stalled * 100 >= .missed * 95')" = true
done

# A run of a given length, across a step back, neither lasts longer nor counts differently.
cat >/tmp/length.toml <<'END'
[worker.main]
clock = "realtime"
[task.a]
kind = "load"
rate = 10
END
start=$(uptime_ms)
hertzd run /tmp/length.toml --for 8s --json >/tmp/summary 2>/tmp/log &
running=$!
sleep 4
put -3600
check "run --for 8s across a step back by an hour" wait $running
at_most "  lasts at most so many seconds" "$((($(uptime_ms) - start) / 1000))" 30
same "  and counts as ever" 80 "$(jq '.tasks[0].due' /tmp/summary)"
same "  its summary shows the step" "-3600" "$(jq '.workers[0].clock_step.by_ns / 1e9 | round' /tmp/summary)"
