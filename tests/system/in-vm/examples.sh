#!/bin/bash
# The two loops of examples/, as the package has them, each by its one command and changed only where a file names a device: the thermostat on
# a fan chip of the kernel, with a process for the board, and the light that goes on when it is loud on a sound card and a GPIO line.
. "$(dirname "$0")/common.sh"

cd /usr/share/doc/hertzd
THERMOSTAT=examples/thermostat/thermostat.toml LIGHT=examples/audio-gpio/audio-gpio.toml
has "the light's file runs at the desk where the package has put it" "$(hertzd simulate $LIGHT --for 3s --csv - 2>&1 | grep '^light,' | tail -n 1)" ",1,0,"

CHIP_AT=0x18 TEMP=0x0a DUTY=0x22
modprobe -a i2c-dev amc6821
modprobe i2c-stub chip_addr=$CHIP_AT
I2C_BUS=$(i2cdetect -l | awk '/stub/ { sub("i2c-", "", $1); print $1 }')
wait_for_nodes "/dev/i2c-$I2C_BUS"
i2cset -f -y "$I2C_BUS" $CHIP_AT $TEMP 69 b
i2cset -f -y "$I2C_BUS" $CHIP_AT $DUTY 91 b
echo amc6821 $CHIP_AT >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
udevadm settle
CHIP=$(dirname "$(grep -lx amc6821 /sys/class/hwmon/hwmon*/name)")
load_aloop
load_gpio_sim 24

# The board: 85 °C without a fan, 40 °C at full speed, with a lag of 15 s. With the fan as it is, it is hot. While there is /run/broken, so is its sensor.
cat >/tmp/board.py <<'END'
import ctypes, fcntl, os, sys, time

bus = open(sys.argv[1], "rb+", buffering=0)
chip, temp_register, duty = (int(word, 16) for word in sys.argv[2:])
fcntl.ioctl(bus, 0x0706, chip)  # I2C_SLAVE_FORCE

class Transfer(ctypes.Structure):
    _fields_ = [("reads", ctypes.c_uint8), ("command", ctypes.c_uint8), ("size", ctypes.c_uint32), ("data", ctypes.c_void_p)]

def byte(register, value=None):
    data = (ctypes.c_uint8 * 34)(value or 0)
    fcntl.ioctl(bus, 0x0720, Transfer(value is None, register, 2, ctypes.addressof(data)))  # I2C_SMBUS, a byte
    return data[0]

temp, then = 69.0, time.monotonic()
while True:
    driven = 85 - 45 * byte(duty) / 255
    now = time.monotonic()
    # In steps that are short beside the lag, also after a stall.
    for _ in range(min(int((now - then) / 0.01), 5000)):
        temp += (driven - temp) * 0.01 / 15
        then += 0.01
    then = max(then, now - 0.01)
    byte(temp_register, 125 if os.path.exists("/run/broken") else round(temp))
    time.sleep(0.05)
END
python3 /tmp/board.py "/dev/i2c-$I2C_BUS" $CHIP_AT $TEMP $DUTY & board=$!

# A tone of as many dB below full scale as /run/level says.
cat >/tmp/tone.py <<'END'
import fcntl, math, struct, sys

fcntl.fcntl(sys.stdout, 1031, 4096)  # F_SETPIPE_SZ
level = tone = None
while True:
    wanted = open("/run/level").read()
    if wanted != level:
        level, peak = wanted, 32767 * math.sqrt(2) * 10 ** (float(wanted) / 20)
        tone = struct.pack("<2400h", *(round(peak * math.sin(2 * math.pi * n / 120)) for n in range(2400)))
    sys.stdout.buffer.write(tone)
    sys.stdout.buffer.flush()
END
louder() { echo "$1" >/run/level.new && mv /run/level.new /run/level; }
# Before all that asks and compares. There are gaps all the same where the host stops the machine for seconds, so loud is far above its level.
speak()  { chrt -f 30 python3 /tmp/tone.py 2>/dev/null | chrt -f 30 aplay -q -D plughw:Loopback,1,0 -t raw -f S16_LE -r 48000 -c 1 --buffer-time=2000000 2>/dev/null; }
louder -60

sed 's/nct6775/amc6821/' $THERMOSTAT >/tmp/thermostat.toml
sed "s/gpiochip0/${GPIOCHIP#/dev/}/" $LIGHT >/tmp/light.toml
has "check says what is written to the fan" "$(hertzd check /tmp/thermostat.toml 2>&1)" "255"
has "  and to the light" "$(hertzd check /tmp/light.toml 2>&1)" "writes low to line 17"
hertzd run /tmp/thermostat.toml >/tmp/thermostat.log 2>&1 & thermostat=$!
hertzd run /tmp/light.toml >/tmp/light.log 2>&1 & light=$!
# of PROCESS FILTER: its status, filtered by jq.
of() { { hertzd status --json --socket "/run/hertzd-root/$1/status.sock" || :; } | jq -r "$2"; }

echo "# the light"
lit()     { [ "$(driven 17)" = "$1" ]; }
# heard LOW HIGH: the level of the envelope, in dB.
heard()   { of $light '.tasks[] | select(.task == "loud").values.level.last' | awk -v low="$1" -v high="$2" '{ exit !($1 > low && $1 < high) }'; }
speak & speaking=$!
check "what is quiet is heard" within 60 heard -90 -50
check "  and the light is off" lit 0
louder -26
check "between the two levels" within 60 heard -33.5 -24.5
check "  it stays off" lit 0
louder -4
check "when it is loud it goes on" within 60 lit 1
# A gap switches it off, so it is tried more than once.
stays_on() { louder -4 && within 60 lit 1 && louder -26 && within 60 heard -33.5 -24.5 && lit 1; }
check "between the two levels it stays on" within 90 stays_on
louder -60
check "when it is quiet it goes off" within 60 lit 0
louder -4
check "loud again: on" within 60 lit 1
unbind_aloop
check "  without the microphone it is off" within 60 lit 0
wait $speaking || :
bind_aloop
speak &
check "  with it on again" within 60 lit 1
kill $light
wait $light || :
check "it ends: off" lit 0

echo "# the thermostat"
temp() { cat "$CHIP/temp1_input"; }
fan()  { cat "$CHIP/pwm1"; }
# The fan begins at full speed, and the integral takes two to three minutes to get rid of that. Full speed would make it 40 °C, and the chip's register has whole degrees.
held() {
    for _ in {1..10}; do
        [ "$(temp)" -ge 59000 ] && [ "$(temp)" -le 61000 ] && [ "$(fan)" -lt 255 ] || return 1
        sleep 0.1
    done
}
check "the board is at 60 °C, within 1 °C, ten times in a row" within 300 held
echo "#   $(temp) m°C with the fan at $(fan) of 255"
same "  the fan is set by hand" 1 "$(cat "$CHIP/pwm1_enable")"
touch /run/broken
full()  { [ "$(fan)" = 255 ]; }
check "a sensor that shows 125 °C: full speed" within 60 full
alarm() { [ "$(of $thermostat '.alarms[].level')" = bad ]; }
check "  and an alarm" within 60 alarm
rm /run/broken
goes_on() { ! full; }
check "the sensor is back: the fan gets slower again" within 60 goes_on
kill -9 $thermostat
wait $thermostat 2>/dev/null || :
refuse "after kill -9 nobody has written" full
has "  hertzd safe --dry-run says what it would write" "$(hertzd safe --dry-run 2>&1 || :)" "/pwm1"
check "  hertzd safe writes it" hertzd safe
check "  which is full speed" full
kill $board
quiet_kernel
