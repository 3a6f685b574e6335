#!/bin/bash
# What a value of each source with a driver is worth in each fault, in every view, by the table of docs/quality.md: see worth.py.
. "$(dirname "$0")/common.sh"

if [ "$(uname -m)" != x86_64 ]; then
    skip "what values are worth: this machine has no I²C bus that can be unplugged"
    exit 0
fi
play=$(dirname "$0")/worth.py
check "lm75 is loaded" load_lm75 25.5
check "and the SMBus of the machine's chipset" modprobe i2c-i801
udevadm settle
check "and gpio-sim" load_gpio_sim 8
unbind_gpio_sim
echo testbed >"$GPIO_SIM/bank/label"
bind_gpio_sim
check "and iio_dummy" load_iio_dummy
check "and a virtual CAN bus" modprobe -a can-raw vcan
ip link add can0 type vcan && ip link set can0 up
check "and snd-aloop" load_aloop
check "and vivid" load_vivid
echo 100 >/var/lib/number
python3 "$play" configure
cp "$CONFIG" /run/worth.toml && setup "${WITH_SUMMARY[@]}" </run/worth.toml
check "the service runs" within 90 ticked hwmon 5
check "and the exporter" systemctl start hertzd-exporter
python3 -u "$play" play
quiet_kernel
