#!/bin/bash
# hertzd check on real drivers: it finds what a start would refuse, and changes nothing.
. "$(dirname "$0")/common.sh"

# checked FILE: sets OUTPUT to what check prints, and CODE to its exit status. by_user FILE: the same as an ordinary user.
checked() { OUTPUT=$(hertzd check "$1" 2>&1) && CODE=0 || CODE=$?; }
by_user() { OUTPUT=$(setpriv --reuid=65534 --regid=65534 --clear-groups hertzd check "$1" 2>&1) && CODE=0 || CODE=$?; }
cd /tmp || exit

check "gpio-sim is loaded" load_gpio_sim 8
consumer() { gpioinfo "$GPIOCHIP" | grep -c "$1"; }
has_consumer() { [ "$(consumer "$1")" -gt 0 ]; }
cat >/tmp/gpio.toml <<END
[task.panel]
kind = "gpio"
rate = 10
chip = "$GPIOCHIP"
lines = [1]
END
checked /tmp/gpio.toml
same "a line that is free is fine" 0 "$CODE"
has "  what only a start finds out is listed" "$OUTPUT" "whether ${GPIOCHIP#/dev/} grants these lines"
same "  and no line was requested" 0 "$(consumer hertzd)"
gpiomon "$GPIOCHIP" 1 >/dev/null &
monitor=$!
check "another program takes the line" within 30 has_consumer gpiomon
checked /tmp/gpio.toml
same "  which check refuses" 78 "$CODE"
has "  with the reason" "$OUTPUT" "is in use by another program or driver"
kill $monitor
wait $monitor
setup </tmp/gpio.toml
checked /tmp/gpio.toml
same "a line that the service has is no problem" 0 "$CODE"
has "  but mentioned" "$OUTPUT" "is in use by a hertzd that runs"
OUTPUT=$(hertzd check --against-running 2>&1) && CODE=0 || CODE=$?
same "  nor is it for a reload" 0 "$CODE"
printf '[task.other]\nkind = "gpio"\nrate = 10\nchip = "%s"\nlines = [1]\n' "$GPIOCHIP" |
    cat /tmp/gpio.toml - >/tmp/both.toml
checked /tmp/both.toml
same "two tasks cannot both have it" 78 "$CODE"
has "  and the first is named" "$OUTPUT" "is in use by task panel"
systemctl stop hertzd
by_user /tmp/gpio.toml
same "a chip that only the service's user may open is no problem" 0 "$CODE"
has "  but a warning" "$OUTPUT" "only the service's user hertzd may open $GPIOCHIP"
chown root:root "$GPIOCHIP" && chmod 600 "$GPIOCHIP"
by_user /tmp/gpio.toml
same "  one that only root may open is a problem" 78 "$CODE"

check "i2c-stub and lm75 are loaded" load_lm75 25.5
cat >/tmp/i2c.toml <<END
[task.stub]
kind = "i2c"
rate = 10
bus = "SMBus stub driver"
address = 0x48
register = 0x00
type = "s16be"
init = [[0x20, 0xab]]
END
checked /tmp/i2c.toml
same "an address that a driver of the kernel has is refused" 78 "$CODE"
has "  with the remedy" "$OUTPUT" "force-address = true"
unbind_lm75
i2cset -y "$I2C_BUS" 0x48 0x20 0x00 b
checked /tmp/i2c.toml
same "a free one is fine" 0 "$CODE"
same "  and init was not written" 0x00 "$(i2cget -y "$I2C_BUS" 0x48 0x20 b)"
has "  whether a chip answers is left to the start" "$OUTPUT" "whether a chip answers at 0x48"

check "vivid is loaded" load_vivid
cat >/tmp/video.toml <<END
[task.eye]
kind = "video"
rate = 10
device = "$VIDEO"
format = "YUYV"
size = "640x480"
END
sed 's/640x480/641x481/' /tmp/video.toml >/tmp/size.toml
before=$(v4l2-ctl -d "$VIDEO" --get-fmt-video)
checked /tmp/video.toml
same "a format that the camera has is fine" 0 "$CODE"
checked /tmp/size.toml
same "  a size that it does not have is refused" 78 "$CODE"
has "  at its key" "$OUTPUT" 'size = "641x481"'
same "  and its format is as it was" "$before" "$(v4l2-ctl -d "$VIDEO" --get-fmt-video)"
setup </tmp/video.toml
checked /tmp/video.toml
same "  also while the service streams" 0 "$CODE"
systemctl stop hertzd

check "iio_dummy is loaded" load_iio_dummy 50
cat >/tmp/iio.toml <<END
[task.dummy]
kind = "sensor"
rate = 10
iio = "dummy"
buffered = true
trigger = "$IIO_TRIGGER_NAME"
sampling-frequency = 20
END
attributes() { grep -r . "$IIO/scan_elements" "$IIO/buffer" "$IIO/trigger" "$IIO_TRIGGER/sampling_frequency" | sort; }
before=$(attributes)
checked /tmp/iio.toml
same "a buffer that can be set up is fine" 0 "$CODE"
sed 's/trigger = .*/trigger = "nothing"/' /tmp/iio.toml >/tmp/trigger.toml
checked /tmp/trigger.toml
same "  a trigger that does not exist is refused" 78 "$CODE"
has "  at its key" "$OUTPUT" 'trigger = "nothing"'
same "  and nothing was set" "$before" "$(attributes)"

check "snd-aloop is loaded" load_aloop pcm_substreams=1
cat >/tmp/audio.toml <<END
[task.sound]
kind = "audio"
rate = 20
device = "hw:Loopback,1,0"
sample-rate = 48000
channels = 2
END
checked /tmp/audio.toml
if [[ $OUTPUT = *"made without this kind"* ]]; then
    skip "sound: this package was built without the feature audio"
    exit
fi
same "a sound card that supports the settings is fine" 0 "$CODE"
arecord -q -D hw:Loopback,1,0 -f S16_LE -r 48000 -c 2 /dev/null &
recorder=$!
check "another program captures from it" within 30 grep -q owner_pid /proc/asound/card0/pcm1c/sub0/status
checked /tmp/audio.toml
same "  which check refuses" 78 "$CODE"
has "  with the reason" "$OUTPUT" "is in use by another program or driver"
kill $recorder
