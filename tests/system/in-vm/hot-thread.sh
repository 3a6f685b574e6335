#!/bin/bash
# The hot thread, for each kind of task: it allocates nothing, takes no lock, and makes only the system calls that
# docs/tasks.md lists: of an output one a tick, and none where nothing has changed.
. "$(dirname "$0")/common.sh"

MORE_CHIPS=0x18,0x40
load_vivid && load_aloop && load_lm75 && load_gpio_sim && load_iio_dummy
modprobe -a can-raw vcan amc6821 pwm-pca9685
echo amc6821 0x18 >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
echo pca9685 0x40 >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
udevadm settle
ip link add can0 type vcan && ip link set can0 up
cangen can0 -I 181 -L 2 -g 30 & # what the task can receives
COUNTS=$STATE/counts # count.so writes its counts per thread here
# Playback for the recording: without it, the loopback device has no steady pace.
(while :; do aplay -q -D hw:Loopback,0,0 -f S16_LE -r 16000 -c 1 -d 600 /dev/zero || sleep 1; done) >/dev/null 2>&1 &

# driven "WORKER WRITE" NAME...: outputs on drivers of the kernel, the first of which is the worker's own.
driven() {
    local name table worker=${1% *} write=${1#* }
    for name in "${@:2}"; do
        table="[task.$name]"$'\n'"worker = \"$worker\""
        [ "$name" = "$worker" ] && table=
        printf '%s\n' "$table" 'kind = "output"' 'rate = 20' 'safe-after = "100s"' "write = \"$write\""
        case $name in
            fan) printf '%s\n' 'hwmon = "amc6821"' 'file = "pwm1"' 'input = 0.5' 'safe = 1.0' ;;
            led) printf '%s\n' "pwm = \"$I2C_BUS-0040\"" 'channel = 3' 'pwm-period = "5ms"' 'input = 0.25' 'safe = 0' ;;
            dac) printf '%s\n' 'iio = "dummy"' 'file = "out_voltage0_raw"' 'input = 1.5' 'safe = 0' ;;
            lamp) printf '%s\n' "chip = \"${GPIOCHIP#/dev/}\"" 'line = 5' 'input = 1' 'safe = 0' ;;
            still) printf '%s\n' "bus = $I2C_BUS" 'address = 0x48' 'force-address = true' 'register = 3' 'type = "s16be"' 'shift = 7' \
                'input = 25' 'safe = "restore"' ;;
        esac
    done
}
# The outputs among the tasks of each configuration, and how strace shows a write of each.
declare -A OUTPUTS=([line]=line [register]=register [fan]="fan led dac" [still]="still led dac fan lamp") from after
declare -A WRITES=(
    [line]='^ioctl\(.*GPIO_V2_LINE_SET_VALUES' [lamp]='^ioctl\(.*GPIO_V2_LINE_SET_VALUES'
    [register]='^(ioctl|write)\([0-9]+</dev/i2c' [still]='^(ioctl|write)\([0-9]+</dev/i2c'
    [fan]='^pwrite64\(.*/pwm1>' [led]='^pwrite64\(.*/duty_cycle>' [dac]='^pwrite64\(.*/out_voltage0_raw>'
)
# called PATTERN: how many of the traced calls are such.
called() { grep -vE 'ERESTART|restart_syscall|resumed' /tmp/calls | grep -cE "$1" || :; }

kinds=(load sensor values hwmon iio i2c gpio audio video line register fan can)
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
    [fan]="$(driven "fan always" fan led dac)"
    [still]="$(driven "still change" still led dac fan lamp)"
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

# The system calls for evidence, with which a worker runs unless it is turned off; tests/black_box/hot_thread_syscalls.rs counts them.
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
    case $kind in values|hwmon) kind=sensor ;; line|register|fan|still) kind=output ;; iio) kind="sensor, buffered" ;; esac
    sed -n '/^## System calls/,/^## /p' /srv/package/tasks.md | awk -F'|' -v kind=" $kind " '{ gsub("`", "", $2) } $2 == kind { print $3 }' |
        grep -oE '`[a-z0-9_]+' | tr -d '`' | sort -u | xargs || :
}

declare -A threads before failed memory locks
# trace KIND...: these at a time, for 3 s, into /tmp/calls-KIND.
trace() {
    local kind name pids=()
    for kind; do
        threads[$kind]=$(worker "$kind")
        read -r "memory[$kind]" "locks[$kind]" < <(calls_of "${threads[$kind]}")
        for name in ${OUTPUTS[$kind]:-}; do from[$name]=$(task "$name" ran); done
        before[$kind]=$(task "$kind" ran) failed[$kind]=$(task "$kind" errors)
    done
    for kind; do
        timeout 3 strace -qq -y -p "${threads[$kind]}" -o "/tmp/calls-$kind" 2>/dev/null &
        pids+=($!)
    done
    wait "${pids[@]}" || :
    for name in $(for kind; do echo "${OUTPUTS[$kind]:-}"; done); do after[$name]=$(task "$name" ran); done
}
# measure KIND...: runs them together, each on a worker of its own; traces them, and then says what each did.
measure() {
    local kind name ticks memory_after locks_after calls unlisted sleeps writes start
    setup "Environment=LD_PRELOAD=/srv/package/count.so HERTZD_COUNT_FILE=$COUNTS" < <(
        for kind; do printf '%s\n' "[worker.$kind]" "[task.$kind]" "worker = \"$kind\"" "${CONFIGS[$kind]}"; done)
    for kind; do check "$kind runs" within 60 ticked "$kind" 60; done
    for ((start = 1; start <= $#; start += 4)); do trace "${@:start:4}"; done
    for kind; do
        check "$kind keeps ticking" within 60 ticked "$kind" $((before[$kind] + 100))
        refuse "  count.so counts its thread" [ "${memory[$kind]}" = none ]
        read -r memory_after locks_after < <(calls_of "${threads[$kind]}")
        ticks=$(($(task "$kind" ran) - before[$kind]))
        same "  in $ticks ticks it allocates no memory" "0" "$((memory_after - memory[$kind]))"
        same "  and takes no lock" "0" "$((locks_after - locks[$kind]))"
        same "  and does not fail" "${failed[$kind]}" "$(task "$kind" errors)"
        [ "$kind" != can ] || check "  it receives and sends" test "$(task heard values.frames.last)" -gt 0 -a "$(task can values.sent.last)" -gt 0
        cp "/tmp/calls-$kind" /tmp/calls
        calls=$(traced_calls | sort | uniq -c | sort -rn | awk '{ printf "%s%s %s", sep, $1, $2; sep = ", " }')
        echo "#   in 3 s under strace: $calls"
        has "  strace sees it sleep between its ticks" "$calls" clock_nanosleep
        unlisted=$(grep -oE '[a-z][a-z0-9_]+' <<<"$calls" | grep -vxFf <(printf '%s\n' clock_nanosleep "${EVIDENCE[@]}"; documented "$kind" | tr ' ' '\n') | xargs) || :
        same "  and makes only documented calls: $(documented "$kind")" "" "$unlisted"
        sleeps=$(called '^clock_nanosleep\(')
        for name in ${OUTPUTS[$kind]:-}; do
            writes=$(called "${WRITES[$name]}") ticks=$((after[$name] - from[$name]))
            if [ "$kind" = still ]; then
                same "  $name, which has not changed, makes none in $ticks ticks" 0 "$writes"
            else
                # strace comes and goes in the middle of a tick or a sleep. Several ticks that are late need no sleep.
                check "  $name makes one a tick: $writes in at most $((ticks + 1)), $sleeps sleeps" \
                    test "$writes" -le $((ticks + 1)) -a "$writes" -ge $((sleeps - 4)) -a "$writes" -gt 0
            fi
        done
    done
    systemctl stop hertzd
}
measure "${kinds[@]}"
measure still # has the targets of others of these
