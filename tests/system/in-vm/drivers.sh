#!/bin/bash
# The test drivers work, and the service may use them: its user, groups, device list and sandbox allow it.
. "$(dirname "$0")/common.sh"

# First, before any driver is loaded: a process with the service's settings that opens each device once it appears. A bus and a
# chip get the number after those of the machine's own.
count() { set -- "/sys/bus/$1/devices/$2"*; [ -e "$1" ] && echo $# || echo 0; }
# shellcheck disable=SC2016 # the inner shell expands it
in_unit bash -c 'for device in /dev/video0 /dev/snd/pcmC0D1c "$1" "$2" /dev/iio:device0; do
    for try in {1..600}; do : 2>/dev/null <$device && echo "opened $device" && break; sleep 0.1; done
done' appears "/dev/i2c-$(count i2c i2c-)" "/dev/gpiochip$(count gpio gpiochip)" >/tmp/opened &
within 30 systemctl show in-unit -P ExecMainPID
check "vivid is loaded" load_vivid
check "snd-aloop is loaded" load_aloop
check "i2c-stub and lm75 are loaded" load_lm75 25.5
check "gpio-sim is loaded" load_gpio_sim 8
check "iio_dummy and its trigger are loaded" load_iio_dummy 50
wait
for device in "$VIDEO" /dev/snd/pcmC0D1c "/dev/i2c-$I2C_BUS" "$GPIOCHIP" "$IIO_DEV"; do
    has "the service can open a device that appears after its start: $device, $(stat -c '%U:%G %a' "$device")" "$(cat /tmp/opened)" "opened $device"
done

echo "# V4L2: vivid"
size=$((320 * 180 * 2))
frames() {
    rm -f $STATE/frames
    "$@" v4l2-ctl -d "$VIDEO" --set-fmt-video=width=320,height=180,pixelformat=YUYV --stream-mmap=4 --stream-count=10 --stream-to=$STATE/frames >/tmp/output 2>&1
    [ "$(stat -c %s $STATE/frames)" = $((10 * size)) ]
}
check "10 frames of 320x180 YUYV" frames env
check "  for the service too" frames in_unit
check "  which differ" test "$(split -b $size --filter=md5sum $STATE/frames | sort -u | wc -l)" -gt 1
unbind_vivid
check "unplugged, it is gone" within 10 test ! -e "$VIDEO"
bind_vivid
check "  plugged in again, it gives frames to the service" frames in_unit

echo "# ALSA: snd-aloop"
# tone HERTZ: 30 s of a sine, 16 bits mono at 16 kHz. pitch: the frequency of stdin without its first third, which may be
# silence.
tone() { python3 -c 'import math, struct, sys
for i in range(16000 * 30): sys.stdout.buffer.write(struct.pack("<h", int(12000 * math.sin(2 * math.pi * float(sys.argv[1]) * i / 16000))))' "$1"; }
pitch() { python3 -c 'import array, sys
a = array.array("h", sys.stdin.buffer.read()); a = a[len(a) // 3:]
up = [i for i in range(1, len(a)) if a[i - 1] < 0 <= a[i]]
print(round((len(up) - 1) * 16000 / (up[-1] - up[0])) if len(up) > 2 else 0)'; }
sound=(-q -f S16_LE -r 16000 -c 1 -t raw)
record() { "$@" arecord "${sound[@]}" -D hw:Loopback,1,0 -d 2 $STATE/sound; }
tone 440 >/tmp/tone
aplay "${sound[@]}" -D hw:Loopback,0,0 /tmp/tone & player=$!
record env
same "it records what is played" 440 "$(pitch <$STATE/sound)"
rm $STATE/sound
record in_unit
same "  for the service too" 440 "$(pitch <$STATE/sound)"
kill $player; wait $player || :
unbind_aloop
refuse "unplugged, it does not record" record env
bind_aloop
check "  plugged in again, it records for the service" record in_unit

echo "# I2C and hwmon: i2c-stub, lm75"
same "lm75 reads what was set" 25500 "$(cat "$HWMON/temp1_input")"
set_lm75 -10
reads() { [ "$("${@:2}" cat "$HWMON/temp1_input")" = "$1" ]; }
check "  and follows a change to below zero" within 20 reads -10000
check "  for the service too" reads -10000 in_unit
refuse "the driver holds the chip's address" in_unit i2cget -y "$I2C_BUS" 0x48 0 w
unbind_lm75
refuse "unplugged, it has no temperature" cat "$HWMON/temp1_input"
same "  and the service reads the chip itself" 0x00f6 "$(in_unit i2cget -y "$I2C_BUS" 0x48 0 w)"
bind_lm75
check "  plugged in again, it has" reads -10000

echo "# GPIO: gpio-sim"
chip=${GPIOCHIP#/dev/}
pull 3 up
same "a line reads as it is pulled" 1 "$(gpioget "$chip" 3)"
same "  for the service too" 1 "$(in_unit gpioget "$chip" 3)"
in_unit gpiomon -n 2 "$chip" 3 >/tmp/edges & watcher=$!
watched() { [[ $(gpioinfo "$chip") == *gpiomon* ]]; }
check "the service watches a line" within 60 watched
pull 3 down
sleep 1
pull 3 up
wait $watcher
same "  and gets edges as events" FALLINGRISING "$(awk '{ printf "%s", $2 }' /tmp/edges)"
in_unit gpioset -m time -s 3 "$chip" 5=1 & setter=$!
check "  it drives another line" within 60 grep -q 1 "$GPIO_LINES/sim_gpio5/value"
wait $setter
unbind_gpio_sim
check "unplugged, it is gone" within 10 test ! -e "$GPIOCHIP"
bind_gpio_sim
same "  plugged in again, it reads for the service" 0 "$(in_unit gpioget "${GPIOCHIP#/dev/}" 3)"

echo "# IIO: iio_dummy, iio-trig-hrtimer"
same "a channel reads" 73 "$(cat "$IIO/in_voltage0_raw")"
cat >/tmp/buffer.sh <<'END'
set -e
iio=$1 device=$2 frequency=$3 to=$4
echo 100 >"$frequency"
echo tick >"$iio/trigger/current_trigger"
for name in in_voltage0 in_accel_x in_timestamp; do echo 1 >"$iio/scan_elements/${name}_en"; done
echo 64 >"$iio/buffer/length"
echo 1 >"$iio/buffer/enable"
dd if="$device" of="$to" bs=16 count=50 iflag=fullblock 2>/dev/null
echo 0 >"$iio/buffer/enable"
END
buffer() {
    rm -f $STATE/samples
    "$@" bash -c "$(cat /tmp/buffer.sh)" buffer "$IIO" "$IIO_DEV" "$IIO_TRIGGER/sampling_frequency" $STATE/samples >/tmp/output 2>&1 || { cat /tmp/output; return 1; }
    [ "$(stat -c %s $STATE/samples)" = 800 ]
}
check "the buffer delivers 50 triggered samples" buffer env
buffer in_unit && ok "  the service sets it up and reads it too" || not_ok "  the service sets it up and reads it too"
unbind_iio_dummy
check "unplugged, it is gone" within 10 test ! -e "$IIO_DEV"
bind_iio_dummy
check "  plugged in again, the service reads it" buffer in_unit

same "the service may write nothing else in /sys" "" "$(find /sys/devices -type f -group hertzd \
    ! -path '*/iio:device*/buffer*' ! -path '*/iio:device*/scan_elements/*' ! -path '*/iio:device*/trigger/*' ! -name '*sampling_frequency' ! -name current_timestamp_clock ! -name 'out_*_raw' ! -name 'out_*_powerdown')"
quiet_kernel
