#!/bin/bash
# Sound through a real driver, snd-aloop: recorded as it was played, over overruns and an unplugging.
. "$(dirname "$0")/common.sh"

# configure BUFFER [LINE]...: the task, and one beside it on the same worker that gives up no release, however slow.
configure() {
    local buffer=$1; shift
    # Not through a pipe: setup says which start this was.
    setup < <(
        printf '%s\n' '[task.sound]' 'kind = "audio"' 'rate = "20 Hz"' 'device = "hw:Loopback,1,0"' 'sample-rate = "16 kHz"' \
            'channels = 1' 'sample-format = "s16"' "buffer = \"$buffer\"" 'overrun = "drop"' "$@"
        printf '%s\n' '[task.other]' 'kind = "load"' 'rate = "10 Hz"' 'overrun = "credit"' 'max-debt = "1h"'
    )
}
value()   { task sound "values[\"$1\"].last"; }
# more FRAMES: so many have come since $before.
more()    { awk -v now="$(value frames)" -v least=$((before + $1)) 'BEGIN { exit !(now >= least) }'; }
# Not grep -q, which would end what writes to it, and that with an error.
told()    { messages | grep "$1" >/dev/null; }
errors()  { [ "$(task sound errors)" -gt "$1" ]; }

printf '[task.a]\nkind = "audio"\nrate = 1\ndevice = "x"\n' >/run/a.toml
said=$(hertzd check /run/a.toml 2>&1) || :
if [[ $said == *"without this kind"* ]]; then
    skip "sound: this package was built without the feature audio"
    exit 0
fi

# What is played: a mark of noise that is nowhere else, 440 Hz for 10 s, and the mark again.
cat >/run/sound.py <<'END'
import math, random, struct, sys, wave

RATE = 16000
noise = random.Random(1)
mark = [noise.randrange(-20000, 20000) for _ in range(2000)]
tone = [round(20000 * math.sin(2 * math.pi * 440 * n / RATE)) for n in range(10 * RATE)]
played = mark + tone + mark

if sys.argv[1] == 'make':
    with wave.open(sys.argv[2], 'wb') as out:
        out.setparams((1, 2, RATE, 0, 'NONE', ''))
        out.writeframes(struct.pack(f'<{len(played)}h', *played))
    sys.exit()

with wave.open(sys.argv[2], 'rb') as taken:
    form = (taken.getnchannels(), taken.getsampwidth(), taken.getframerate())
    data = taken.readframes(taken.getnframes())
print('form:', *form)
heard = struct.unpack(f'<{len(data) // 2}h', data)
at = data.find(struct.pack('<2000h', *mark))
while at % 2 == 1:
    at = data.find(struct.pack('<2000h', *mark), at + 1)
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
until_ok 60 ticked sound 40
check "the service captures from the driver" ticked sound 40
before=0
check "frames come" until_ok 60 more 8000
said=$(aplay -q -D hw:Loopback,0,0 --buffer-time=2000000 /run/played.wav 2>&1) || :
same "it was played without a break" "" "$said"
before=$(value frames)
until_ok 60 more 16000
same "no sound was lost" 0 "$(value xruns)"
same "nothing failed" 0 "$(task sound errors)"
systemctl stop hertzd
if [ "$(head -c 4 "$STATE/sound.wav")" = RIFF ]; then
    said=$(python3 /run/sound.py compare "$STATE/sound.wav")
    has "it is recorded in the form asked for" "$said" "form: 1 2 16000"
    has "the recording has every sample that was played, once" "$said" "played: found samples that differ: 0"
    has "the tone has 440 Hz, to 0.1 %" "$said" "frequency: good"
else
    skip "the recording: this hertzd does not write WAV"
fi

# Overruns.
configure 500ms 'record = "overruns.wav"'
until_ok 60 ticked sound 20
before=$(value frames)
until_ok 60 more 8000
xruns=$(value xruns) skipped=$(task other skipped)
kill -STOP "$(main_pid)"
sleep 5
kill -CONT "$(main_pid)"
more_xruns() { [ "$(value xruns)" -gt "$xruns" ]; }
check "an overrun is counted" until_ok 60 more_xruns
check "and told" until_ok 30 told 'frames are missing.*(xrun)'
check "as an error" errors 0
before=$(value frames)
check "capture goes on" until_ok 60 more 16000
gaps() { [ "$(task sound recorded.gaps)" -gt 0 ]; }
if [ "$(task sound recorded.gaps)" = null ]; then
    skip "the gap in the recording: this hertzd does not count them"
else
    check "the recording knows of the gap" until_ok 10 gaps
fi
refuse "the device was not given up for it" told 'disconnected; trying'
same "the task beside it gave up no release" "$skipped" "$(task other skipped)"

# Unplugged, and plugged in again.
errors=$(task sound errors) ran=$(task other ran)
unbind_aloop
check "without a device each tick fails" until_ok 60 errors $((errors + 10))
check "its loss is told" until_ok 30 told 'audio device hw:Loopback,1,0 of task sound disconnected'
check "the task beside it goes on" until_ok 60 ticked other $((ran + 20))
before=$(value frames)
bind_aloop
check "it is found again" until_ok 120 told 'audio device hw:Loopback,1,0 of task sound was reopened'
check "capture goes on" until_ok 60 more 16000
same "the task beside it gave up no release" "$skipped" "$(task other skipped)"
aplay -q -D hw:Loopback,0,0 --buffer-time=2000000 /run/played.wav &
loud() { awk -v peak="$(value peak)" 'BEGIN { exit !(peak > 0.5) }'; }
check "what is played then is heard" until_ok 60 loud
wait
echo "#   drift $(value drift-ppm) ppm"

# Renamed.
sed -i 's/task.sound/task.heard/' "$CONFIG"
check "a reload that renames the task is taken" systemctl reload hertzd
check "  and hands the device over" until_ok 60 told 'of task heard was taken over'
check "  which is heard" until_ok 60 ticked heard 20
