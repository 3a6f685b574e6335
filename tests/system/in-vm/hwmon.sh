#!/bin/bash
# A hwmon chip is found by its name, read, lost, and found again under another number; other tasks are not affected. And a fan and a PWM
# channel that a stranger takes away from hertzd, as firmware does after a resume.
. "$(dirname "$0")/common.sh"

reads() { [ "$(task "$1" values."$2".last)" = "$3" ]; }
errors_above() { [ "$(task "$1" errors)" -gt "$2" ]; }

# With addresses for a second chip, two fans' and a PWM's.
modprobe i2c-stub chip_addr=0x48,0x49,0x18,0x40,0x2e
check "lm75 is loaded" load_lm75 25.5
i2cset -f -y "$I2C_BUS" 0x48 3 0x0050 w # its limit: 80 degrees
i2cset -f -y "$I2C_BUS" 0x48 2 0x004b w # and its hysteresis: 75
setup <<END
[task.temperature]
kind = "sensor"
rate = "2 Hz"
hwmon = "lm75"
record = "temperature.csv"

[task.named]
kind = "sensor"
rate = "2 Hz"
hwmon = "lm75"
device = "$I2C_BUS-0048"
[[task.named.value]]
file = "temp1_input"
name = "kelvin"
unit = "K"
scale = 0.001
offset = 273.15
[[task.named.value]]
file = "temp1_max"
[[task.named.value]]
file = "temp1_max_hyst"
[[task.named.value]]
file = "update_interval"

# On the same worker, so a delay of the other task delays this one too. Its period is longer than this machine's stalls and
# shorter than the device's absence.
[task.beat]
kind = "load"
period = "${PATIENCE}s"
END
check "it starts" within 30 active
check "the temperature is read by the chip's name" within 30 reads temperature temp1 25.5
same "  in its unit" "°C" "$(task temperature values.temp1.unit)"
check "  and in another unit by another task" within 30 reads named kelvin 298.65
same "    with a second value" 80 "$(task named values.temp1_max.last)"
same "  limits have their unit" "75 °C" "$(task named values.temp1_max_hyst.last) $(task named values.temp1_max_hyst.unit)"
same "  and so has the update interval" "$(awk '{ print $1 / 1000 }' "$HWMON/update_interval") s" \
    "$(task named values.update_interval.last) $(task named values.update_interval.unit)"
set_lm75 -10
check "it follows changes of the chip" within 30 reads temperature temp1 -10

skipped=$(task beat skipped) errors=$(task temperature errors)
unbind_lm75
check "unbound, its ticks fail" within 30 errors_above temperature "$errors"
before=${HWMON##*/}
echo adt75 0x49 >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
same "another chip gets its number" adt75 "$(cat "/sys/class/hwmon/$before/name")"
set_lm75 40
sleep $((4 * PATIENCE))
bind_lm75
check "bound again, it is read again: $before is ${HWMON##*/} now" within 60 reads temperature temp1 40
refuse "  which is a different number" test "$before" = "${HWMON##*/}"
check "  by all its tasks" within 60 reads named kelvin 313.15
errors=$(task temperature errors)
sleep 2
same "  without further errors" "$errors" "$(task temperature errors)"
same "the other task skipped nothing in the meantime" "$skipped" "$(task beat skipped)"
has "the disconnect is logged" "$(messages)" "hwmon device lm75 of task temperature stopped working; trying to reopen it"
has "  and so is the reopening" "$(messages)" "hwmon device lm75 of task temperature was reopened"

cat >$CONFIG <<'END'
[task.temperature]
kind = "sensor"
rate = "2 Hz"
hwmon = "lm57"
END
has "an unknown name is refused; the error lists the present ones" "$(hertzd run --for 1s $CONFIG 2>&1)" \
    'no hwmon device is named "lm57"; there are "adt75", "lm75"'

echo "# what gives a value its effect"
modprobe -a amc6821 pwm-pca9685
i2cset -f -y "$I2C_BUS" 0x18 0x00 0x40 b # by temperature, as the BIOS has left it
echo amc6821 0x18 >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
echo pca9685 0x40 >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
udevadm settle
FAN=$(dirname "$(grep -lx amc6821 /sys/class/hwmon/hwmon*/name)")
PWM=$(echo "/sys/bus/i2c/devices/$I2C_BUS-0040/pwm/pwmchip"*)
setup Restart=no <<END
[task.fan]
kind = "output"
rate = "2 Hz"
input = 0.4
hwmon = "amc6821"
file = "pwm1"
safe = 1.0
safe-after = "60s"
readback = "500ms"

[task.led]
kind = "output"
rate = "2 Hz"
input = 0.25
pwm = "$I2C_BUS-0040"
channel = 3
pwm-period = "5ms"
safe = 0.75
safe-after = "60s"
END
is()       { [ "$(cat "$1")" = "$2" ]; }
# No answer is no proof.
in_force() { { hertzd status --json || :; } >/tmp/in-force; grep -qF '"tasks"' /tmp/in-force && ! grep -qF 'in place of' /tmp/in-force; }
check "the fan is set by hertzd" within 60 is "$FAN/pwm1" 102
same "  by hand" 1 "$(cat "$FAN/pwm1_enable")"
check "  and the channel is on" within 60 is "$PWM/pwm3/duty_cycle" 1250000
check "all is in force" in_force
sleep $((4 + PATIENCE)) # what was just set may be shown late
echo 2 >"$FAN/pwm1_enable"
check "a stranger takes the fan back: hertzd is not well" within 60 says 1 "pwm1_enable reads 2 in place of 1, so"
has "  and says who may have, and what helps" "$(cat /tmp/status)" 'write = \"always\"'
same "  the value itself is as written" 102 "$(cat "$FAN/pwm1")"
echo 0 >"$PWM/pwm3/enable"
check "one switches the channel off, which has no readback: hertzd sees it too" within 60 says 1 "pwm3/enable reads 0 in place of 1, so"
same "  and leaves both alone" "2 0" "$(cat "$FAN/pwm1_enable" "$PWM/pwm3/enable" | xargs)"
echo 1 >"$FAN/pwm1_enable"
echo 1 >"$PWM/pwm3/enable"
check "when they are set again all is in force" within 60 in_force
has "  which the journal says" "$(messages)" "pwm1_enable reads 1 again, as written, after"
sed -i 's/^rate = "2 Hz"$/&\nwrite = "always"/' $CONFIG
check "a reload with write = \"always\"" hertzd reload
sleep $((4 + PATIENCE))
echo 2 >"$FAN/pwm1_enable"
echo 0 >"$PWM/pwm3/enable"
check "hertzd sets the fan again" within 60 is "$FAN/pwm1_enable" 1
check "  and switches the channel on" within 60 is "$PWM/pwm3/enable" 1
echo 10000000 >"$PWM/pwm3/period"
check "  and gives it its period" within 60 is "$PWM/pwm3/period" 5000000
check "  then all is in force" within 60 in_force
systemctl stop hertzd

echo "# a driver that drops a value in automatic mode, and says nothing"
modprobe adt7475
adt7475_set() { i2cset -f -y "$I2C_BUS" 0x2e "$@"; }
duty_is()     { [ "$(i2cget -f -y "$I2C_BUS" 0x2e 0x30)" = "$1" ]; }
# Its own control, by a temperature, has the first fan at 64. The driver looks at the mode in its chip once a minute only: it is told.
take_back()   { echo 2 >"$DROPS/pwm1_enable"; adt7475_set 0x30 0x40; }
its_chips()   { take_back; check "its chip has the fan" within 60 is "$DROPS/pwm1_enable" 2; }
# Who it is, its least speeds by temperature, and the most that each may be.
while read -r register value; do adt7475_set "$register" "$value"; done <<END
0x3d 0x75
0x3e 0x41
0x3f 0x69
0x40 0x05
0x5f 0xc4
0x60 0xc4
0x61 0xc4
0x38 0xff
0x39 0xff
0x3a 0xff
0x30 0x40
0x31 0x40
0x32 0x40
0x5c 0x02
0x5d 0x02
0x5e 0x02
END
echo adt7475 0x2e >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
udevadm settle
DROPS=$(dirname "$(grep -lx adt7475 /sys/class/hwmon/hwmon*/name)")
its_chips
echo 200 >"$DROPS/pwm1"
same "  it drops a value then, without an error" 64 "$(cat "$DROPS/pwm1")"
echo 9 >/run/drops && chmod 644 /run/drops
drops() {
    setup Restart=no <<END
[task.source]
kind = "sensor"
rate = "2 Hz"
path = "/run/drops"
valid = { value = [0, 1] }

[task.fan]
kind = "output"
rate = "2 Hz"
input = "source.value"
hwmon = "adt7475"
file = "pwm1"
safe = 1.0
safe-after = "60s"
$1
END
}
drops 'write = "always"'
check "an input that is bad from the start: it has its safe value" within 60 is "$DROPS/pwm1" 255
same "  by hand" 1 "$(cat "$DROPS/pwm1_enable")"
lacks "  and the journal knows of no other value" "$(messages)" "after its safe value"
sleep $((4 + PATIENCE))
take_back
check "the chip takes it back: hertzd takes it again, with its safe value" within 60 duty_is 0xff
systemctl stop hertzd
echo 0.4 >/run/drops
its_chips
drops 'start = "keep"'
check "one value that never changes, and nothing before it" within 60 is "$DROPS/pwm1" 102
its_chips
systemctl kill --signal=KILL hertzd
check "killed meanwhile, hertzd safe takes it with its safe value" within 60 is "$DROPS/pwm1" 255
same "  by hand" 1 "$(cat "$DROPS/pwm1_enable")"
