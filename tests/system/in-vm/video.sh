#!/bin/bash
# video: vivid, every number of its sequence once or as a gap; with faults, unplugged, changed while it runs.
. "$(dirname "$0")/common.sh"

# A camera, and two tasks that must not notice what becomes of it: one on its worker, one on another.
# config LINE...: keys of the camera's task.
config() {
    printf '%s\n' '[worker.main]' '[worker.camera]' 'priority = 70' \
        '[task.beat]' 'kind = "load"' 'worker = "main"' 'rate = "1 Hz"' \
        '[task.beside]' 'kind = "load"' 'worker = "camera"' 'rate = "1 Hz"' \
        '[task.eye]' 'kind = "video"' 'worker = "camera"' 'rate = "30000/1001"' 'size = "320x180"' 'overrun = "drop"' "$@"
}
# value NAME [TASK]: the latest, as a whole number.
value() { snapshot ".tasks[] | select(.task == \"${2:-eye}\") | .values[\"$1\"].last // 0 | floor"; }
# all: of one snapshot: frames, gaps, damaged, sequence, and errors of the task.
all() { snapshot '.tasks[] | select(.task == "eye") | [.values.frames.last, .values.gaps.last, .values.damaged.last, .values.sequence.last, .errors] | map(. // 0 | floor) | join(" ")'; }
above() { [ "$(value "$1")" -gt "$2" ]; }
# adds_up NAME: each number of the sequence was seen once, or is a gap.
adds_up() {
    local frames gaps damaged sequence
    read -r frames gaps damaged sequence _ <<<"$(all)"
    check "$1: $frames frames and $gaps gaps are numbers 0 to $sequence" [ $((frames + gaps)) = $((sequence + 1)) ]
}
control() { v4l2-ctl -d "$VIDEO" -c "$1"; }
said() { grep -qF -- "$1" <(messages); }

load_vivid
# NTSC has 30000/1001 frames a second, as the task has ticks.
v4l2-ctl -d "$VIDEO" --set-input 2 --set-standard ntsc >/dev/null

echo "# every frame"
setup < <(config 'device = "vivid"' 'frame-rate = "30000/1001"' 'record = "eye.csv"')
same "it runs as the unit's user" hertzd "$(ps -o user= -p "$(main_pid)")"
check "frames come" until_ok 60 above frames 60
adds_up "at its own rate"
lacks "the rate is granted" "$(messages)" "frames per second requested"
same "the age is that of a frame" true "$(snapshot '.tasks[] | select(.task == "eye") | .values.age.last | . != null and . < 5000')"
brightness=$(value brightness)
check "it is neither dark nor dazzling: $brightness" [ "$brightness" -gt 16 -a "$brightness" -lt 235 ]
control brightness=$((128 * 2 + 255)) # of this input: each has a range of its own
check "brightness follows the camera's" until_ok 60 above brightness "$((brightness + 20))"
control brightness=$((128 * 2 + 128))

echo "# what a tick costs"
# What else a tick may not do, hot-thread.sh proves.
ran=$(task eye ran)
timeout 5 strace -qq -e trace=ioctl -p "$(worker camera)" -o /tmp/calls 2>/dev/null || :
ran=$(($(task eye ran) - ran))
# requests NAME: how many. One that a signal or the tracer broke into is made again.
requests() { grep -v ERESTART /tmp/calls | grep -c "VIDIOC_$1," || :; }
dequeued=$(requests DQBUF) queued=$(requests QBUF)
same "no requests but to dequeue and to queue" "" "$(grep -vE 'VIDIOC_D?QBUF,|^ *[<)]' /tmp/calls | head -n 3)"
# At the edges of what was traced one may be seen without the other.
check "two for each frame, and at most one more a tick: $dequeued, $queued, $ran ticks or fewer" \
    [ "$queued" -gt 0 -a "$dequeued" -ge $((queued - 1)) -a "$dequeued" -le $((queued + ran + 1)) ]

echo "# faults"
skipped() { snapshot '[.tasks[] | select(.task != "eye") | .skipped] | join(" ")'; }
skipped=$(skipped)
gaps=$(value gaps)
control percentage_of_dropped_buffers=40
check "dropped frames are gaps" until_ok 60 above gaps $((gaps + 5))
control percentage_of_dropped_buffers=0
adds_up "with frames dropped"
damaged=$(value damaged)
control inject_v4l2_buf_flag_error=1
check "damaged frames are counted" until_ok 30 above damaged "$damaged"
adds_up "with frames damaged"
errors=$(task eye errors) frames=$(value frames)
control inject_fatal_streaming_error=1
failed() { [ "$(task eye errors)" -gt "$errors" ]; }
check "a stream that breaks off is an error" until_ok 30 failed
check "  and starts anew" until_ok 60 above frames $((frames + 5))
adds_up "after that"
errors=$(task eye errors) frames=$(value frames)
control inject_vidioc_streamon_error=1
control inject_fatal_streaming_error=1
check "one that does not start at once" until_ok 30 said "starting the stream: Invalid argument"
check "  starts later" until_ok 60 above frames $((frames + 5))
adds_up "after that"
frames=$(value frames) errors=$(task eye errors)
control wrap_sequence_number=1 || skip "this vivid cannot wrap its sequence number"
control inject_fatal_streaming_error=1
check "its numbers pass 2^32: 128 frames after it began" until_ok 90 above frames $((frames + 140))
adds_up "past that"
control wrap_sequence_number=0 || :
frames=$(value frames) errors=$(task eye errors)
control disconnect=1
check "disconnected, it is an error" until_ok 30 failed
# vivid comes back by itself when the last reader has closed it.
check "  and it is found again" until_ok 60 above frames $((frames + 5))
adds_up "after that"

echo "# unplugged"
errors=$(task eye errors)
unbind_vivid
check "every tick is an error" until_ok 30 failed
errors=$(($(task eye errors) + 10))
check "  and goes on being one" until_ok 60 failed
check "the log says that it is looked for" until_ok 30 said "camera vivid of task eye disconnected; trying to reopen it"
bind_vivid
frames=$(value frames)
check "plugged in, it gives frames again" until_ok 60 above frames $((frames + 10))
adds_up "after that"
check "it has another rate now, which is told once" until_ok 30 said "frames per second requested"
# Every row of the recording, not only those that were looked at here.
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
rows=$(python3 /tmp/rows.py "$STATE/eye.csv" 2>&1) && ok "and so it does in every row of the recording: $rows" || not_ok "the recording: $rows"
same "the other tasks skipped nothing of all this" "$skipped" "$(skipped)"
check "  and ticked" ticked beside 10

echo "# changed while it runs"
config 'device = "/dev/video0"' 'frames = "latest"' 'buffers = 8' >"$CONFIG"
sed -i 's/30000.1001/10 Hz/' "$CONFIG"
VIDEO=/dev/$(basename /sys/class/video4linux/video*)
sed -i "s,/dev/video0,$VIDEO," "$CONFIG"
check "a reload that changes its task is taken" systemctl reload hertzd
check "frames come again" until_ok 60 above frames 30
check "of those that are ready the latest is taken" above passed-over 5
adds_up "those passed over among them"
check "that the rates differ is said, with what follows" until_ok 30 said "the task runs at 10 Hz; 6"
sed -i 's/\[task.eye\]/[task.look]/' "$CONFIG"
check "a reload that renames its task is taken" systemctl reload hertzd
look() { [ "$(value frames look)" -gt 10 ]; }
check "  and hands the camera over" until_ok 60 look
check "  which the log says" said "of task look was taken over"
sed -n '/^.task.look/,$ s/task.look/task.second/; /^.task.second/,$p' "$CONFIG" >/tmp/second.toml
cat /tmp/second.toml >>"$CONFIG"
refuse "a second task cannot have it at the same time" systemctl reload hertzd
check "  which names the first" until_ok 30 said "is in use by task look; only one task at a time can have it"

echo "# refused"
# refused NAME WORDS LINE...: at the start.
refused() {
    local name=$1 words=$2; shift 2
    config "$@" >"$CONFIG"
    has "$name" "$(in_unit hertzd run "$CONFIG" --for 1s 2>&1)" "$words"
}
systemctl stop hertzd
refused "a format that it has not" 'it has no format "NV99"; it has "' "device = \"$VIDEO\"" 'format = "NV99"'
sizes() { config "$@" | sed 's/^size = .*/size = "321x181"/' >"$CONFIG"; }
sizes "device = \"$VIDEO\""
has "a size that it has not" "$(in_unit hertzd run "$CONFIG" --for 1s 2>&1)" 'it has no frames of 321x181; the nearest is '
refused "a camera that is not there" 'cannot open /dev/video77: No such file or directory (os error 2); there are /dev/video' 'device = "/dev/video77"'
refused "a name that no camera has" 'no camera has "webcam" in its name; there are /dev/video' 'device = "webcam"'
refused "what is no camera" '/dev/null is no video device' 'device = "/dev/null"'
v4l2-ctl -d "$VIDEO" --stream-mmap=2 --stream-count=100000 >/dev/null 2>&1 & other=$!
sleep 3
refused "one that another program has" 'is in use by another program' "device = \"$VIDEO\""
kill $other; wait $other || :
unbind_vivid
setup < <(config 'device = "vivid"' 'missing = "wait"')
check "with missing = \"wait\" it starts without" until_ok 60 ticked eye 10
bind_vivid
check "  and finds it" until_ok 60 above frames 5

refuse "the kernel has nothing to complain of" grep -E 'BUG|Oops|WARNING:|soft lockup|rcu.*stall' <(dmesg)
