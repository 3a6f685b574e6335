#!/bin/bash
# The kind video on vivid: each sequence number is a frame or a gap, with faults, unplugged, and reloaded while it runs.
. "$(dirname "$0")/common.sh"

# config LINE...: a configuration with a camera, whose keys are the LINEs, and with two tasks that it must not affect: one on
# its worker, one on another. Their period is longer than this machine's stalls.
config() {
    printf '%s\n' '[worker.main]' '[worker.camera]' 'priority = 70' \
        '[task.beat]' 'kind = "load"' 'worker = "main"' "period = \"${PATIENCE}s\"" \
        '[task.beside]' 'kind = "load"' 'worker = "camera"' "period = \"${PATIENCE}s\"" \
        '[task.eye]' 'kind = "video"' 'worker = "camera"' 'rate = "30000/1001"' 'size = "320x180"' 'overrun = "drop"' "$@"
}
# value NAME [TASK]: the latest value, or the last good one while the camera is away, rounded down.
value() { snapshot ".tasks[] | select(.task == \"${2:-eye}\") | .values[\"$1\"] | .last // .last_good // 0 | floor"; }
# counters: frames, gaps, damaged, sequence and errors of the task, from one snapshot.
counters() { snapshot '.tasks[] | select(.task == "eye") | [.values.frames.last, .values.gaps.last, .values.damaged.last, .values.sequence.last, .errors] | map(. // 0 | floor) | join(" ")'; }
above() { [ "$(value "$1")" -gt "$2" ]; }
# adds_up NAME: each sequence number is either a frame or a gap.
adds_up() {
    local frames gaps damaged sequence
    read -r frames gaps damaged sequence _ <<<"$(counters)"
    check "$1: $frames frames and $gaps gaps are sequence numbers 0 to $sequence" [ $((frames + gaps)) = $((sequence + 1)) ]
}
control() { v4l2-ctl -d "$VIDEO" -c "$1"; }
log_has() { grep -qF -- "$1" <(messages); }

load_vivid
# NTSC has 30000/1001 frames a second, the task's rate.
v4l2-ctl -d "$VIDEO" --set-input 2 --set-standard ntsc >/dev/null

echo "# every frame"
setup < <(config 'device = "vivid"' 'frame-rate = "30000/1001"' 'record = "eye.csv"')
same "it runs as the unit's user" hertzd "$(ps -o user= -p "$(main_pid)")"
check "it captures frames" within 60 above frames 60
adds_up "at its own rate"
lacks "the rate is granted" "$(messages)" "frames per second requested"
same "the age is plausible for a frame" true "$(snapshot '.tasks[] | select(.task == "eye") | .values.age.last | . != null and . < 5000')"
brightness=$(value brightness)
check "the brightness is between black and white: $brightness" [ "$brightness" -gt 16 -a "$brightness" -lt 235 ]
control brightness=$((128 * 2 + 255)) # each input has its own range
check "brightness follows the camera's control" within 60 above brightness "$((brightness + 20))"
control brightness=$((128 * 2 + 128))

echo "# the cost of a tick"
# hot-thread.sh checks all other calls.
ran=$(task eye ran)
timeout 5 strace -qq -e trace=ioctl -p "$(worker camera)" -o /tmp/calls 2>/dev/null || :
ran=$(($(task eye ran) - ran))
# requests NAME: their number. A request interrupted by a signal or by the tracer is made again.
requests() { grep -v ERESTART /tmp/calls | grep -c -E "VIDIOC_$1(_TIME32)?," || :; }
dequeued=$(requests DQBUF) queued=$(requests QBUF)
same "it only dequeues and queues buffers" "" "$(grep -vE 'VIDIOC_D?QBUF(_TIME32)?,|^ *[<)]' /tmp/calls | head -n 3)"
# At the edges of the trace one may be visible without the other.
check "two requests per frame, at most one more per tick: $dequeued dequeued, $queued queued, up to $ran ticks" \
    [ "$queued" -gt 0 -a "$dequeued" -ge $((queued - 1)) -a "$dequeued" -le $((queued + ran + 1)) ]

echo "# faults"
skipped() { snapshot '[.tasks[] | select(.task != "eye") | .skipped] | join(" ")'; }
skipped=$(skipped)
gaps=$(value gaps)
control percentage_of_dropped_buffers=40
check "dropped frames are gaps" within 60 above gaps $((gaps + 5))
control percentage_of_dropped_buffers=0
adds_up "with frames dropped"
damaged=$(value damaged)
control inject_v4l2_buf_flag_error=1
check "damaged frames are counted" within 30 above damaged "$damaged"
adds_up "with frames damaged"
errors=$(task eye errors) frames=$(value frames)
control inject_fatal_streaming_error=1
failed() { [ "$(task eye errors)" -gt "$errors" ]; }
check "an interrupted stream is an error" within 30 failed
check "  and is restarted" within 60 above frames $((frames + 5))
adds_up "afterwards"
errors=$(task eye errors) frames=$(value frames)
control inject_vidioc_streamon_error=1
control inject_fatal_streaming_error=1
check "a stream that cannot be restarted is logged" within 30 log_has "starting the stream: Invalid argument"
check "  and restarts later" within 60 above frames $((frames + 5))
adds_up "afterwards"
frames=$(value frames) errors=$(task eye errors)
control wrap_sequence_number=1 || skip "this vivid cannot wrap its sequence number"
control inject_fatal_streaming_error=1
check "its sequence number wraps at 2^32, 128 frames after the start" within 90 above frames $((frames + 140))
adds_up "after the wrap"
control wrap_sequence_number=0 || :
frames=$(value frames) errors=$(task eye errors)
control disconnect=1
check "disconnected, it is an error" within 30 failed
# vivid returns by itself when the last reader has closed it.
check "  and it is reopened" within 60 above frames $((frames + 5))
adds_up "afterwards"

echo "# unplugged"
errors=$(task eye errors)
unbind_vivid
check "every tick is an error" within 30 failed
errors=$(($(task eye errors) + 10))
check "  for as long as it is unplugged" within 60 failed
check "the disconnect is logged" within 30 log_has "camera vivid of task eye stopped working; trying to reopen it"
bind_vivid
frames=$(value frames)
check "plugged in again, it captures frames" within 60 above frames $((frames + 10))
adds_up "afterwards"
check "its frame rate differs now, which is logged" within 30 log_has "frames per second requested"
# Check every row of the recording, not only the snapshots above.
cat >/tmp/rows.py <<'END'
import csv, sys
rows, last = 0, -1
for row in csv.DictReader(line for line in open(sys.argv[1]) if not line.startswith('#')):
    value = {key.split(' ')[0]: text for key, text in row.items() if key}
    if not value['sequence']: continue
    sequence = int(float(value['sequence']))
    assert float(value['frames']) + float(value['gaps']) == sequence + 1 and sequence >= last, row
    rows, last = rows + 1, sequence
assert rows > 100
print(rows, last)
END
rows=$(python3 /tmp/rows.py "$STATE/eye.csv" 2>&1) && ok "every row of the recording adds up: $rows" || not_ok "the recording: $rows"
same "the other tasks skipped nothing in the meantime" "$skipped" "$(skipped)"
check "  and kept ticking" within 60 ticked beside 10

echo "# reloaded while it runs"
config 'device = "/dev/video0"' 'frames = "latest"' 'buffers = 8' >"$CONFIG"
sed -i 's/30000.1001/10 Hz/' "$CONFIG"
VIDEO=/dev/$(basename /sys/class/video4linux/video*)
sed -i "s,/dev/video0,$VIDEO," "$CONFIG"
check "a reload that changes its task succeeds" systemctl reload hertzd
check "it captures frames again" within 60 above frames 30
check "of several ready frames it uses the latest" above passed-over 5
adds_up "including frames passed over"
check "the different rates and the consequence are logged" within 30 log_has "the task runs at 10 Hz; 6"
sed -i 's/\[task.eye\]/[task.look]/' "$CONFIG"
check "a reload that renames its task succeeds" systemctl reload hertzd
look_captures() { [ "$(value frames look)" -gt 10 ]; }
check "  and hands the camera over" within 60 look_captures
check "  which is logged" log_has "of task look was taken over"
sed -n '/^.task.look/,$ s/task.look/task.second/; /^.task.second/,$p' "$CONFIG" >/tmp/second.toml
cat /tmp/second.toml >>"$CONFIG"
refuse "a second task for the same camera is refused" systemctl reload hertzd
check "  and the error names the first" within 30 log_has "is in use by task look; only one task at a time can have it"

echo "# refused"
# refused NAME WORDS LINE...: a start with these keys is refused with an error that contains the words.
refused() {
    local name=$1 words=$2; shift 2
    config "$@" >"$CONFIG"
    has "$name" "$(in_unit hertzd run "$CONFIG" --for 1s 2>&1)" "$words"
}
systemctl stop hertzd
refused "an unsupported format" 'it has no format "NV99"; it has "' "device = \"$VIDEO\"" 'format = "NV99"'
sizes() { config "$@" | sed 's/^size = .*/size = "321x181"/' >"$CONFIG"; }
sizes "device = \"$VIDEO\""
has "an unsupported size" "$(in_unit hertzd run "$CONFIG" --for 1s 2>&1)" 'it has no frames of 321x181; the nearest is '
refused "a missing camera" 'cannot open /dev/video77: No such file or directory (os error 2); there are /dev/video' 'device = "/dev/video77"'
refused "an unknown name" 'no camera has "webcam" in its name; there are /dev/video' 'device = "webcam"'
refused "a device that is not a camera" '/dev/null is no video device' 'device = "/dev/null"'
v4l2-ctl -d "$VIDEO" --stream-mmap=2 --stream-count=100000 >/dev/null 2>&1 & other=$!
sleep 3
refused "a camera used by another program" 'is in use by another program' "device = \"$VIDEO\""
kill $other; wait $other || :
unbind_vivid
setup < <(config 'device = "vivid"' 'missing = "wait"')
check "with missing = \"wait\" it starts without the camera" within 60 ticked eye 10
bind_vivid
check "  and opens it later" within 60 above frames 5

quiet_kernel
