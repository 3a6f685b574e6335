#!/bin/bash
# Random stories of outputs on real drivers: a fan of amc6821 by its name and by its path, registers of i2c-stub in layouts that overlap, and a
# line of gpio-sim. After each end every byte, read from outside, equals a plain reference: see stories.py. 300 of them, or as many as ten minutes
# take; a failure prints the seed of its story, and `python3 stories.py ... SEED` plays that one alone.
. "$(dirname "$0")/common.sh"

FAN=0x18 CHIP=0x50
load_gpio_sim 8
modprobe -a i2c-dev amc6821
modprobe i2c-stub chip_addr=$FAN,$CHIP
I2C_BUS=$(i2cdetect -l | awk '/stub/ { sub("i2c-", "", $1); print $1 }')
wait_for_nodes "/dev/i2c-$I2C_BUS"
i2cset -f -y "$I2C_BUS" $FAN 0x22 60 b # the duty
i2cset -f -y "$I2C_BUS" $FAN 0x00 0x40 b # by temperature, as the BIOS has left it
echo amc6821 $FAN >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
udevadm settle
HWMON=$(dirname "$(grep -lx amc6821 /sys/class/hwmon/hwmon*/name)")
same "the fan is set by its chip" "60 2" "$(cat "$HWMON/pwm1") $(cat "$HWMON/pwm1_enable")"
systemctl stop hertzd

check "after each story every target holds what it must" \
    python3 "$(dirname "$0")/stories.py" "/dev/i2c-$I2C_BUS" $CHIP "$HWMON" "$GPIOCHIP" "$GPIO_LINES"
quiet_kernel
