#!/bin/bash
# Random stories of outputs on real drivers: a fan of amc6821 by its name and by its path, registers of i2c-stub in layouts that overlap, and a
# line of gpio-sim. There are starts, reloads, kills, locks of strangers, and firmware that interferes. At rest and after each end every byte
# equals a plain reference: see stories.py. A failure prints its seed.
#
#     sudo HERTZD_STORIES=300 HERTZD_SEED=1 LIMIT=3600 tests/system/run stories
. "$(dirname "$0")/common.sh"

FAN=0x18 CHIP=0x50
read -r COUNT SEED </srv/package/stories
load_gpio_sim 8
modprobe -a i2c-dev amc6821
modprobe i2c-stub chip_addr=$FAN,$CHIP
I2C_BUS=$(i2cdetect -l | awk '/stub/ { sub("i2c-", "", $1); print $1 }')
wait_for_nodes "/dev/i2c-$I2C_BUS"
echo amc6821 $FAN >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
udevadm settle
HWMON=$(dirname "$(grep -lx amc6821 /sys/class/hwmon/hwmon*/name)")
if python3 -u "$(dirname "$0")/stories.py" "/dev/i2c-$I2C_BUS" $FAN $CHIP "$(realpath "$HWMON")" "$GPIOCHIP" "$GPIO_LINES" "$COUNT" "$SEED"
then ok "in each story every target holds what it must"; else not_ok "stories went wrong"; fi
quiet_kernel
