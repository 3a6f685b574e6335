#!/bin/bash
# A closed loop over registers of i2c-stub, with a process for a plant; and outputs on real drivers, on the same bus: fans of hwmon and a
# channel of a PWM chip, also in each kind of end, as the chips' registers show. Over a reload that changes all of their sections, with a
# GPIO line and a converter besides; and while their drivers go away and come back with each other's numbers.
. "$(dirname "$0")/common.sh"

FAN=0x18 STRICT=0x4c OLD=0x2d PWM=0x40 PLANT=0x50
# register CHIP REGISTER, is CHIP REGISTER BYTE: as another program sees it.
register() { i2cget -f -y "$I2C_BUS" "$1" "$2" b; }
holds()    { [ "$(register "$1" "$2")" = "$3" ]; }
put()      { i2cset -f -y "$I2C_BUS" "$1" "$2" "$3" b; }

new_chip() { echo "$1" "$2" >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"; }
mode()     { stat -L -c '%G %a' "$1"; }

load_gpio_sim && load_iio_dummy
modprobe -a i2c-dev amc6821 lm63 f75375s pwm-pca9685
modprobe i2c-stub chip_addr=$FAN,$STRICT,$OLD,$PWM,$PLANT
I2C_BUS=$(i2cdetect -l | awk '/stub/ { sub("i2c-", "", $1); print $1 }')
wait_for_nodes "/dev/i2c-$I2C_BUS"
put $FAN 0x0a 45   # 45 °C
put $FAN 0x22 60   # the duty
put $FAN 0x00 0x40 # by temperature, as the BIOS has left it
put $STRICT 0x4d 23 # its fan has 46 steps
put $STRICT 0x4c 9  # of which 9 are 50 of 255; 0 in its register 0x4a: by temperature as well
new_chip amc6821 $FAN
new_chip lm63 $STRICT
new_chip f75375 $OLD
new_chip pca9685 $PWM
udevadm settle
CHIP=$(dirname "$(grep -lx amc6821 /sys/class/hwmon/hwmon*/name)")
OLD_CHIP=/sys/bus/i2c/devices/$I2C_BUS-002d
PWM_CHIP=$(echo "/sys/bus/i2c/devices/$I2C_BUS-0040/pwm/pwmchip"*)
same "the fan is set by its chip" "60 2" "$(cat "$CHIP/pwm1") $(cat "$CHIP/pwm1_enable")"
same "the service's group may write its value" "hertzd 664 hertzd 664" "$(mode "$CHIP/pwm1") $(mode "$CHIP/pwm1_enable")"
same "  and not what else can be written there" "root 644" "$(mode "$CHIP/temp1_max")"
same "of a driver of an older form, whose files lie in the device, as well" "hertzd 664 hertzd 664" "$(mode "$OLD_CHIP/pwm1") $(mode "$OLD_CHIP/pwm1_enable")"
same "  and to export a channel" "hertzd" "$(stat -c %G "$PWM_CHIP/export")"

# The actuator's register drives the sensor's: a lag of 0.5 s behind another of 0.1 s, with a gain of 1.5 and an offset.
cat >/tmp/plant.py <<'END'
import ctypes, fcntl, sys, time

bus = open(sys.argv[1], "rb+", buffering=0)
fcntl.ioctl(bus, 0x0706, int(sys.argv[2], 16))  # I2C_SLAVE_FORCE

def word(register, value=None):
    data = (ctypes.c_uint8 * 34)()
    if value is not None:
        data[0], data[1] = value & 255, value >> 8
    class Transfer(ctypes.Structure):
        _fields_ = [("reads", ctypes.c_uint8), ("command", ctypes.c_uint8), ("size", ctypes.c_uint32), ("data", ctypes.c_void_p)]
    fcntl.ioctl(bus, 0x0720, Transfer(value is None, register, 3, ctypes.addressof(data)))  # I2C_SMBUS, a word
    return data[0] | data[1] << 8

case = sensor = 1000.0
then = time.monotonic()
while True:
    driven = 1000 + 1.5 * word(0x10)
    now = time.monotonic()
    # In steps that are short beside the lags, also after a stall.
    for _ in range(min(int((now - then) / 0.002), 5000)):
        case += (driven - case) * 0.004
        sensor += (case - sensor) * 0.02
        then += 0.002
    then = max(then, now - 0.002)
    word(0x20, round(sensor))
    time.sleep(0.01)
END
python3 /tmp/plant.py "/dev/i2c-$I2C_BUS" $PLANT & plant=$!
mkdir -p /run/wish && echo 20000 >/run/wish/value
setup Restart=no <<END
[worker.main]

[task.board]
kind = "sensor"
rate = "2 Hz"
hwmon = "amc6821"
file = "temp1_input"
name = "temp"

# 0.5 at 50 degrees
[task.curve]
kind = "expr"
rate = "2 Hz"
inputs = { temp = "board.temp" }
expression = "temp / 100"

[task.fan]
kind = "output"
rate = "2 Hz"
input = "curve.out"
hwmon = "amc6821"
file = "pwm1"
limits = [0.2, 0.8]
safe = 1.0
safe-after = "60s"
max-age = "30s"
recover-after = "0s"

# Its driver takes no value while the chip sets it.
[task.strict]
kind = "output"
rate = "2 Hz"
input = 0.4
hwmon = "lm63"
file = "pwm1"
safe = "restore"
start = "keep"
safe-after = "60s"
recover-after = "0s"

[task.led]
kind = "output"
rate = "2 Hz"
input = 0.25
pwm = "$I2C_BUS-0040"
channel = 3
pwm-period = "5ms"
safe = 0.75
safe-after = "60s"

[task.lamp]
kind = "output"
rate = "2 Hz"
input = 1
chip = "${GPIOCHIP#/dev/}"
line = 5
safe = 0
safe-after = "60s"

[task.dac]
kind = "output"
rate = "2 Hz"
input = 1.5
iio = "dummy"
file = "out_voltage0_raw"
safe = 0.25
safe-after = "60s"

[task.wish]
kind = "sensor"
rate = "10 Hz"
path = "/run/wish/value"
max-file-age = "off"

[task.sensor]
kind = "i2c"
rate = "10 Hz"
bus = "SMBus stub driver"
address = $PLANT
register = 0x20
type = "u16le"
name = "level"

[task.control]
kind = "pid"
rate = "10 Hz"
input = "sensor.level"
setpoint = "wish.value"
kp = 0.3
ti = "600ms"
limits = [0, 40000]
max-age = "30s"
max-gap = "30s"
track = { previous = "valve.applied", initial = 500 }

[task.valve]
kind = "output"
rate = "10 Hz"
input = "control.out"
bus = "SMBus stub driver"
address = $PLANT
register = 0x10
type = "u16le"
safe = 500
safe-after = "60s"
max-age = "30s"
END
# reaches LEVEL: the plant's register is within 1 % of it, ten times in a row.
level() { echo $(($(i2cget -f -y "$I2C_BUS" $PLANT 0x20 w))); }
reaches() {
    local now
    for _ in {1..10}; do
        now=$(level)
        [ $((now * 100)) -ge $(($1 * 99)) ] && [ $((now * 100)) -le $(($1 * 101)) ] || return 1
        sleep 0.1
    done
}
valve()      { [ $(($(i2cget -f -y "$I2C_BUS" $PLANT 0x10 w))) = "$1" ]; }
controlled() { ! valve 600; }

check "the fan follows the temperature: 0.45 of 255, in the chip's register" within 60 holds $FAN 0x22 0x73
by_hand() { [ $(($(register $FAN 0x00) & 0x60)) = 0 ]; }
check "  and is set by hand" within 10 by_hand
check "a chip that takes a value only when it is set by hand has 0.4 of its steps" within 60 holds $STRICT 0x4c 0x12
same "  and is" 0x20 "$(register $STRICT 0x4a)"
check "a channel of a PWM chip has a quarter of its 4096 steps" within 60 holds $PWM 0x14 0x00
check "  high byte" within 10 holds $PWM 0x15 0x04
put $FAN 0x0a 95
check "at 95 degrees the fan has as much as its limit allows" within 60 holds $FAN 0x22 0xcc
check "a pid from TOML holds a plant of I²C registers within 1 % of 20000" within 60 reaches 20000
echo 45000 >/run/wish/value
check "  after a step of the setpoint as well: 45000" within 60 reaches 45000
same "nothing failed" "0 0 0 0 0" "$(task fan errors) $(task strict errors) $(task led errors) $(task sensor errors) $(task valve errors)"

echo "# a reload that changes each section"
TRACING=/sys/kernel/tracing
mountpoint -q $TRACING || mount -t tracefs tracefs $TRACING
millivolts() { [ "$(tr -d '\0' <"$IIO/out_voltage0_raw")" = "$1" ]; }
planned() { jq -r ".outputs[] | select(.task == \"$1\").writes[0].$2" /run/hertzd/safe-plan.json; }
# on_bus CHIP REGISTER: what was written there, as the bus's driver was asked to.
on_bus() { sed -nE "s/.*smbus_write: i2c-$I2C_BUS a=0${1#0x} f=[0-9]+ c=${2#0x} [A-Z0-9_]+ l=[0-9]+ \[([0-9a-f-]+)\].*/\1/p" /tmp/bus | sort -u | xargs; }
same "the plan has what the fan held before" "60 255" "$(planned fan original) $(planned fan text)"
check "  before the reload the converter has its value" within 60 millivolts 1500
# What its driver is given. strace of all threads would take more of a slow machine than it has.
# shellcheck disable=SC2016 # the kernel expands it
echo 'p:converter iio_dummy:iio_dummy_write_raw value=$arg3:s32' >$TRACING/kprobe_events
EVENTS=(smbus/smbus_write gpio/gpio_value kprobes/converter)
for event in "${EVENTS[@]}"; do echo 1 >$TRACING/events/"$event"/enable; done
cat $TRACING/trace_pipe >/tmp/bus & tracing=$!
sed -i '/^\[task.fan\]/,/^$/ { s/^limits = .*/limits = [0.2, 0.6]\nslew = 0.2/; s/^safe = .*/safe = 0.9/ }
    /^\[task.led\]/,/^$/ { s/^input = .*/input = 0.5\nscale = 0.25/; s/^safe = .*/safe = 0.25/ }
    /^\[task.lamp\]/,/^$/ s/^safe = 0/limits = [0, 1]\nsafe = 0/
    /^\[task.dac\]/,/^$/ { s/^input = .*/input = 1.5\nscale = 2/; s/^safe = .*/safe = 0.1/ }
    /^\[task.valve\]/,/^$/ s/^safe = .*/slew = 100000\nsafe = 600/' $CONFIG
check "it succeeds" systemctl reload hertzd
check "the fan goes to its new limit" within 60 holds $FAN 0x22 0x99
check "  the channel to its new duty" within 60 holds $PWM 0x15 0x02
check "  the converter to its new value" within 60 millivolts 3000
goes_on() { [ -n "$(on_bus $PLANT 0x10)" ]; }
check "  the valve is written as well" within 60 goes_on
kill $tracing
for event in "${EVENTS[@]}"; do echo 0 >$TRACING/events/"$event"/enable; done
echo "# the fan was written $(on_bus $FAN 0x22), the channel $(on_bus $PWM 0x15)"
beyond() { awk -v RS=' ' '$1 != "" && ($1 < "99" || $1 > "cc")' <<<"$(on_bus $FAN 0x22)"; }
has "the fan's new value is seen on the bus" "$(on_bus $FAN 0x22)" 99
same "  and nothing but what lies between the limits: no safe value" "" "$(beyond)"
same "of the channel nothing but its new value, as a block of one byte" 01-02 "$(on_bus $PWM 0x15)"
lacks "of the valve not its safe value" "$(on_bus $PLANT 0x10)" "f4-01"
lacks "  nor the new one" "$(on_bus $PLANT 0x10)" "58-02"
lacks "the line was never low" "$(grep gpio_value /tmp/bus || :)" " set 0"
same "  and is high" 1 "$(driven 5)"
has "the converter was written" "$(grep converter: /tmp/bus || :)" "value=3000"
same "  and never its safe values" "" "$(grep -E 'converter:.* value=(250|200|100)$' /tmp/bus || :)"
same "the plan has the new safe values, and what was there before all" "60 230 600" \
    "$(planned fan original) $(planned fan text) $(planned valve 'bytes | .[1] + 256 * .[2]')"
for file in pwm1 pwm1_enable; do
    check "the fan is still locked: $file" \
        grep -q "OFDLCK *ADVISORY *WRITE .*:$(stat -c %i "$CHIP/$file") 1752331386 1752331386" /proc/locks
done

echo "# drivers that go away, and come back with each other's numbers"
is_gone() { snapshot .reason | grep -qF "$1: its target is gone"; }
unbind() { echo "$I2C_BUS-00${2#0x}" >"/sys/bus/i2c/drivers/$1/unbind"; }
bind()   { echo "$I2C_BUS-00${2#0x}" >"/sys/bus/i2c/drivers/$1/bind"; }
number() { basename "$(dirname "$(grep -lx "$1" /sys/class/hwmon/hwmon*/name)")"; }
was=$(number amc6821)
unbind amc6821 $FAN
unbind lm63 $STRICT
check "it is not well: the fan's target is gone" within 60 is_gone fan
check "  and so is the other one's" within 60 is_gone strict
bind lm63 $STRICT
bind amc6821 $FAN
udevadm settle
same "the other chip has the number of the first" "$was" "$(number lm63)"
check "the first is found by its name" within 60 holds $FAN 0x22 0x99
check "  the other one too" within 60 holds $STRICT 0x4c 0x12
is_found() { refuse_quietly is_gone fan && refuse_quietly is_gone strict; }
refuse_quietly() { ! "$@"; }
check "  and no target is gone any more" within 60 is_found
follows() { planned "$1" path | grep -qF "/$(number "$2")/"; }
check "the plan has its new path" within 60 follows fan amc6821
check "  and the other one's" within 60 follows strict lm63
CHIP=/sys/class/hwmon/$(number amc6821)

check "systemctl stop" systemctl stop hertzd
same "the fan is at its new safe value" 0xe6 "$(register $FAN 0x22)"
same "  the other one as it was, set by its chip" "0x09 0x00" "$(register $STRICT 0x4c) $(register $STRICT 0x4a)"
same "  the channel at its duty" "0x00 0x01" "$(register $PWM 0x14) $(register $PWM 0x15)"
check "  the valve at its safe value" valve 600

put $FAN 0x0a 50
systemctl start hertzd
check "it runs again" within 60 holds $FAN 0x22 0x80
check "  the PWM too" within 60 holds $PWM 0x15 0x02
cp /run/hertzd/safe-plan.json /tmp/plan.json
check "  the valve too" within 60 controlled
kill -9 "$(main_pid)"
check "kill -9: hertzd safe has set the fan to its safe value" within 60 holds $FAN 0x22 0xe6
check "  the other one to what it was" within 30 holds $STRICT 0x4a 0x00
check "  the channel to its duty" within 30 holds $PWM 0x15 0x01
check "  the valve to its safe value" within 30 valve 600
ended() { [ "$(show ActiveState)" = failed ]; }
check "  and has ended" within 60 ended
lacks "  what it wrote reads as it was written" "$(messages)" "in place of"

put $FAN 0x22 0x33
# Through the driver, which writes nothing that it has written last.
echo 0 >"$(jq -r '.outputs[].writes[].path // "" | select(endswith("/duty_cycle"))' /run/hertzd/safe-plan.json)"
said=$(hertzd safe 2>&1) && code=0 || code=$?
same "as root hertzd safe carries out the plan of the service's user" 0 "$code"
[ "$code" = 0 ] || echo "# $said"
check "  which sets the fan" within 30 holds $FAN 0x22 0xe6
check "  and the channel" within 30 holds $PWM 0x15 0x01

echo "# another chip where the plan has the fan"
echo $FAN >"/sys/bus/i2c/devices/i2c-$I2C_BUS/delete_device"
put $FAN 0x22 0x33
i2cset -f -y "$I2C_BUS" $PLANT 0x10 0x1234 w
new_chip lm63 $FAN
check "  has its path" test "$(cat "$(dirname "$(jq -r '.outputs[] | select(.task == "fan").writes[0].path' /tmp/plan.json)")/name")" = lm63
said=$(hertzd safe --plan /tmp/plan.json 2>&1) && code=0 || code=$?
same "hertzd safe refuses that one" 1 "$code"
has "  and says what it is" "$said" 'says "lm63" now, and not "amc6821": it is another device'
same "  and does not write to it" 0x33 "$(register $FAN 0x22)"
check "  but to all others" valve 600
lacks "  which read as they were written" "$said" "in place of"
kill $plant
quiet_kernel
