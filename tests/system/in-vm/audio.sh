#!/bin/bash
# Sound through a real driver, snd-aloop: recorded exactly as played, across overruns and an unplug.
. "$(dirname "$0")/common.sh"

# configure BUFFER [LINE]...: the sound task, and another on the same worker that gives up no release even when it is slow.
configure() {
    local buffer=$1; shift
    # Not through a pipe: setup sets INVOCATION in this shell.
    setup < <(
        printf '%s\n' '[task.sound]' 'kind = "audio"' 'rate = "20 Hz"' 'device = "hw:Loopback,1,0"' 'sample-rate = "16 kHz"' \
            'channels = 1' 'sample-format = "s16"' "buffer = \"$buffer\"" 'overrun = "drop"' "$@"
        printf '%s\n' '[task.other]' 'kind = "load"' 'rate = "10 Hz"' 'overrun = "credit"' 'max-debt = "1h"'
    )
}
# value NAME: the last good one, while the device is away.
value()    { task sound "values[\"$1\"] | .last // .last_good"; }
# captured FRAMES: at least this many since $before.
captured() { awk -v now="$(value frames)" -v least=$((before + $1)) 'BEGIN { exit !(now >= least) }'; }
# log_has PATTERN. Not grep -q: it closes the pipe early, and `messages` would fail.
log_has()  { messages | grep "$1" >/dev/null; }
errors()   { [ "$(task sound errors)" -gt "$1" ]; }

printf '[task.a]\nkind = "audio"\nrate = 1\ndevice = "x"\n' >/run/a.toml
output=$(hertzd check /run/a.toml 2>&1) || :
if [[ $output == *"without this kind"* ]]; then
    skip "sound: this package was built without the feature audio"
    exit 0
fi

# The sound played: a unique marker of noise, 440 Hz for 10 s, and the marker again.
cat >/run/sound.py <<'END'
import math, random, struct, sys, wave

RATE = 16000
noise = random.Random(1)
marker = [noise.randrange(-20000, 20000) for _ in range(2000)]
tone = [round(20000 * math.sin(2 * math.pi * 440 * n / RATE)) for n in range(10 * RATE)]
played = marker + tone + marker

if sys.argv[1] == 'make':
    with wave.open(sys.argv[2], 'wb') as out:
        out.setparams((1, 2, RATE, 0, 'NONE', ''))
        out.writeframes(struct.pack(f'<{len(played)}h', *played))
    sys.exit()

with wave.open(sys.argv[2], 'rb') as taken:
    format = (taken.getnchannels(), taken.getsampwidth(), taken.getframerate())
    data = taken.readframes(taken.getnframes())
print('format:', *format)
heard = struct.unpack(f'<{len(data) // 2}h', data)
at = data.find(struct.pack('<2000h', *marker))
while at % 2 == 1:
    at = data.find(struct.pack('<2000h', *marker), at + 1)
at //= 2
part = heard[at:at + len(played)]
differ = sum(a != b for a, b in zip(part, played)) + len(played) - len(part)
print('played:', 'found' if at >= 0 else 'not found', 'samples that differ:', differ)
part = part[2000:-2000]
ups = [n - part[n] / (part[n] - part[n - 1]) for n in range(1, len(part)) if part[n - 1] < 0 <= part[n]]
hertz = RATE * (len(ups) - 1) / (ups[-1] - ups[0])
print('frequency:', 'good' if abs(hertz / 440 - 1) < 0.001 else 'bad', hertz)
END
python3 /run/sound.py make /run/played.wav

load_aloop
configure 2s 'record = "sound.wav"'
within 60 ticked sound 40
check "the service captures from the driver" ticked sound 40
before=0
check "it captures frames" within 60 captured 8000
output=$(aplay -q -D hw:Loopback,0,0 --buffer-time=2000000 /run/played.wav 2>&1) || :
same "it was played without interruption" "" "$output"
before=$(value frames)
within 60 captured 16000
same "no sound was lost" 0 "$(value xruns)"
same "no tick failed" 0 "$(task sound errors)"
systemctl stop hertzd
if [ "$(head -c 4 "$STATE/sound.wav")" = RIFF ]; then
    output=$(python3 /run/sound.py compare "$STATE/sound.wav")
    has "it is recorded in the requested format" "$output" "format: 1 2 16000"
    has "the recording has every played sample exactly once" "$output" "played: found samples that differ: 0"
    has "the tone is 440 Hz, to 0.1 %" "$output" "frequency: good"
else
    skip "the recording: this hertzd does not write WAV"
fi

# Overruns.
configure 500ms 'record = "overruns.wav"'
within 60 ticked sound 20
before=$(value frames)
within 60 captured 8000
xruns=$(value xruns) skipped=$(task other skipped)
kill -STOP "$(main_pid)"
sleep 5
kill -CONT "$(main_pid)"
more_xruns() { [ "$(value xruns)" -gt "$xruns" ]; }
check "an overrun is counted" within 60 more_xruns
check "and logged" within 30 log_has 'frames are missing.*(xrun)'
check "and is an error" errors 0
before=$(value frames)
check "capture continues" within 60 captured 16000
gaps() { [ "$(task sound recorded.gaps)" -gt 0 ]; }
if [ "$(task sound recorded.gaps)" = null ]; then
    skip "the gap in the recording: this hertzd does not count gaps"
else
    check "the recording counts the gap" within 10 gaps
fi
refuse "the device was not closed because of it" log_has 'stopped working; trying'
same "the other task gave up no release" "$skipped" "$(task other skipped)"

# Unplugged, and plugged in again.
errors=$(task sound errors) ran=$(task other ran)
unbind_aloop
check "without a device each tick fails" within 60 errors $((errors + 10))
check "the disconnect is logged" within 30 log_has 'audio device hw:Loopback,1,0 of task sound stopped working'
check "the other task continues" within 60 ticked other $((ran + 20))
before=$(value frames)
bind_aloop
check "the device is reopened" within 120 log_has 'audio device hw:Loopback,1,0 of task sound was reopened'
check "capture continues" within 60 captured 16000
same "the other task gave up no release" "$skipped" "$(task other skipped)"
aplay -q -D hw:Loopback,0,0 --buffer-time=2000000 /run/played.wav &
loud() { awk -v peak="$(value peak)" 'BEGIN { exit !(peak > 0.5) }'; }
check "sound played then is captured" within 60 loud
wait
echo "#   drift $(value drift-ppm) ppm"

# Renamed.
sed -i 's/task.sound/task.heard/' "$CONFIG"
check "a reload that renames the task succeeds" systemctl reload hertzd
check "  and hands the device over" within 60 log_has 'of task heard was taken over'
check "  which keeps capturing" within 60 ticked heard 20
