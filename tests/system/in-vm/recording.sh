#!/bin/bash
# Recordings for another machine: files of each kind, and what hertzd reads in them here. `run` reads them there.
. "$(dirname "$0")/common.sh"

OUT=/srv/out/recordings
SOUND=(-q -f S16_LE -r 16000 -c 1 -t raw)
load_vivid
load_aloop
python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(1).randbytes(16000 * 2 * 120))' >/run/noise
aplay "${SOUND[@]}" -D hw:Loopback,0,0 /run/noise 2>/dev/null & player=$!
setup "${WITH_SUMMARY[@]}" <<END
[worker.main]
[worker.devices]
priority = 70

[task.steady]
kind = "load"
worker = "main"
rate = 20
record = "all.mcap"

[task.memory]
kind = "sensor"
worker = "main"
rate = 20
path = "/proc/meminfo"
line = "MemFree:"
record = "all.mcap"

[task.table]
kind = "sensor"
worker = "main"
rate = 20
path = "/proc/uptime"
record = "table.csv"

[task.eye]
kind = "video"
worker = "devices"
rate = 10
overrun = "drop"
device = "$VIDEO"
size = "320x180"
record = "all.mcap"

[task.ear]
kind = "audio"
worker = "devices"
rate = 10
overrun = "drop"
device = "hw:Loopback,1,0"
sample-rate = "16 kHz"
channels = 1
sample-format = "s16"
record = "ear.wav"
END
check "it records" within 60 ticked steady 100
captured() { [ "$(task "$1" "values.frames.last | . // 0 | floor")" -gt "$2" ]; }
check "  pictures" within 60 captured eye 20
check "  and sound" within 60 captured ear 16000
mkdir $OUT
check "the flight file of the daemon that runs is read" hertzd report /run/hertzd/flight --json -o /run/flight.html --force
systemctl stop hertzd
kill $player
wait $player 2>/dev/null || :
# The daemon's last words are in it now.
cp /run/hertzd/flight $STATE/all.mcap $STATE/table.csv $STATE/ear.wav $OUT/
tail -n 1 /tmp/summary >$OUT/summary.json
cd $OUT || exit
for file in all.mcap flight; do
    if hertzd report $file --json -o /run/page.html --force >$file.json; then ok "hertzd report reads $file here"; else not_ok "hertzd report reads $file here"; fi
done
sha256sum all.mcap table.csv ear.wav flight >sums
