#!/bin/bash
# The hot thread, for each kind of task: it allocates nothing, takes no lock, and makes only the system calls that
# docs/tasks.md lists.
. "$(dirname "$0")/common.sh"

load_vivid && load_aloop && load_lm75 && load_gpio_sim && load_iio_dummy
modprobe -a can-raw vcan
ip link add can0 type vcan && ip link set can0 up
cangen can0 -I 181 -L 2 -g 30 & # what the task can receives
COUNTS=$STATE/counts # count.so writes its counts per thread here
# Playback for the recording: without it, the loopback device has no steady pace.
(while :; do aplay -q -D hw:Loopback,0,0 -f S16_LE -r 16000 -c 1 -d 600 /dev/zero || sleep 1; done) >/dev/null 2>&1 &

kinds=(load sensor values hwmon iio i2c gpio audio video line register can)
declare -A CONFIGS=(
    [load]='kind = "load"
rate = 50
run = "20us"'
    [sensor]='kind = "sensor"
rate = 50
path = "/proc/loadavg"
record = "sensor.mcap"'
    [values]='kind = "sensor"
rate = 50
[[task.values.value]]
name = "free"
path = "/proc/meminfo"
line = "MemFree:"
[[task.values.value]]
name = "available"
path = "/proc/meminfo"
line = "MemAvailable:"'
    [hwmon]='kind = "sensor"
rate = 20
hwmon = "lm75"
record = "hwmon.csv"'
    [iio]='kind = "sensor"
rate = 20
iio = "dummy"
buffered = true
trigger = "tick"
record = "iio.csv"'
    [i2c]="kind = \"i2c\"
rate = 20
bus = $I2C_BUS
address = 0x48
force-address = true
register = 0
type = \"s16be\""
    [gpio]="kind = \"gpio\"
rate = 20
chip = \"${GPIOCHIP#/dev/}\"
lines = [0, 3]
record = \"gpio.csv\""
    [line]="kind = \"output\"
rate = 20
input = 1
chip = \"${GPIOCHIP#/dev/}\"
line = 5
safe = 0
write = \"always\""
    [register]="kind = \"output\"
rate = 20
input = 25
bus = $I2C_BUS
address = 0x48
force-address = true
register = 3
type = \"s16be\"
shift = 7
safe = \"restore\"
write = \"always\""
    [can]='kind = "can"
rate = 20
interface = "can0"
[[task.can.send]]
id = 0x201
name = "torque"
input = "heard.speed"
start-bit = 0
length = 16
safe = 0
[task.heard]
worker = "can"
kind = "can"
rate = 20
interface = "can0"
[[task.heard.receive]]
id = 0x181
name = "speed"
start-bit = 0
length = 16'
    [audio]='kind = "audio"
rate = 20
device = "hw:Loopback,1,0"
sample-rate = 16000
channels = 1
sample-format = "s16"
buffer = "1s"
record = "audio.wav"'
    [video]="kind = \"video\"
rate = \"30000/1001\"
device = \"$VIDEO\"
format = \"YUYV\"
size = \"320x180\"
record = \"video.mcap\""
)

# The system calls for evidence, with which a worker runs unless it is turned off; tests/hot_thread_syscalls.rs counts them.
EVIDENCE=(getrusage clock_gettime pread64)

# calls_of THREAD: its memory calls and locks so far.
calls_of() {
    python3 - "$COUNTS" "$1" <<'PY'
import struct, sys
for thread, memory, locks, _ in struct.iter_unpack('<4Q', open(sys.argv[1], 'rb').read()):
    if thread == int(sys.argv[2]): print(memory, locks); break
else: print('none none')
PY
}
# documented NAME: the system calls that docs/tasks.md lists for it.
documented() {
    local kind=$1
    case $kind in values|hwmon) kind=sensor ;; line|register) kind=output ;; iio) kind="sensor, buffered" ;; esac
    sed -n '/^## System calls/,/^## /p' /srv/package/tasks.md | awk -F'|' -v kind=" $kind " '{ gsub("`", "", $2) } $2 == kind { print $3 }' |
        grep -oE '`[a-z0-9_]+' | tr -d '`' | sort -u | xargs || :
}

for kind in "${kinds[@]}"; do
    setup "Environment=LD_PRELOAD=/srv/package/count.so HERTZD_COUNT_FILE=$COUNTS" <<END
[worker.$kind]
[task.$kind]
worker = "$kind"
${CONFIGS[$kind]}
END
    check "$kind runs" within 60 ticked "$kind" 60
    thread=$(worker "$kind")
    read -r memory locks < <(calls_of "$thread")
    refuse "  count.so counts its thread" [ "$memory" = none ]
    before=$(task "$kind" ran) failed=$(task "$kind" errors)
    timeout 3 strace -qq -p "$thread" -o /tmp/calls 2>/dev/null || :
    check "  and keeps ticking" within 60 ticked "$kind" $((before + 100))
    read -r memory_after locks_after < <(calls_of "$thread")
    ticks=$(($(task "$kind" ran) - before))
    same "  in $ticks ticks it allocates no memory" "0" "$((memory_after - memory))"
    same "  and takes no lock" "0" "$((locks_after - locks))"
    same "  and does not fail" "$failed" "$(task "$kind" errors)"
    [ "$kind" != can ] || check "  it receives and sends" test "$(task heard values.frames.last)" -gt 0 -a "$(task can values.sent.last)" -gt 0
    calls=$(sed -nE '/ERESTART|restart_syscall|resumed/d; s/^([a-z0-9_]+)\(.*/\1/p' /tmp/calls | sort | uniq -c | sort -rn | awk '{ printf "%s%s %s", sep, $1, $2; sep = ", " }')
    echo "#   in 3 s under strace: $calls"
    has "  strace sees it sleep between its ticks" "$calls" clock_nanosleep
    unlisted=$(grep -oE '[a-z][a-z0-9_]+' <<<"$calls" | grep -vxFf <(printf '%s\n' clock_nanosleep "${EVIDENCE[@]}"; documented "$kind" | tr ' ' '\n') | xargs) || :
    same "  and makes only documented calls: $(documented "$kind")" "" "$unlisted"
    systemctl stop hertzd
done
