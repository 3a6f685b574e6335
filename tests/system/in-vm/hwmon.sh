#!/bin/bash
# A hwmon chip is found by its name, read, lost, and found again under another number; other tasks are not affected.
. "$(dirname "$0")/common.sh"

reads() { [ "$(task "$1" values."$2".last)" = "$3" ]; }
errors_above() { [ "$(task "$1" errors)" -gt "$2" ]; }

# With an address for a second chip.
modprobe i2c-stub chip_addr=0x48,0x49
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
has "the disconnect is logged" "$(messages)" "hwmon device lm75 of task temperature disconnected; trying to reopen it"
has "  and so is the reopening" "$(messages)" "hwmon device lm75 of task temperature was reopened"

cat >$CONFIG <<'END'
[task.temperature]
kind = "sensor"
rate = "2 Hz"
hwmon = "lm57"
END
has "an unknown name is refused; the error lists the present ones" "$(hertzd run --for 1s $CONFIG 2>&1)" \
    'no hwmon device is named "lm57"; there are "adt75", "lm75"'
