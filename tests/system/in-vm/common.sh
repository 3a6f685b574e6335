# shellcheck shell=bash disable=SC2034
# Shared by the scripts that run in the virtual machine: as root, on PREEMPT_RT, with real systemd, udev and drivers.
# Sourced. A script begins, and is run, like this:
#
#     #!/bin/bash
#     # One line that says what the script tests.
#     . "$(dirname "$0")/common.sh"
#
#     sudo tests/system/run NAME                      builds the package first
#     sudo HERTZD_DEB=FILE tests/system/run NAME      uses this package; takes 3 s plus the script's time
#
# Each script has the machine to itself, in its saved state: the package is installed (except for boot.sh), hertzd is
# stopped, and no test driver is loaded. It may leave the machine in any state. There is no network and no D-Bus: systemctl
# and journalctl work, `systemd-run --wait` and `--pipe` do not. Tools: python3, jq, v4l2-ctl, arecord, aplay, i2cget, gpioget.
#
# From lib.sh: check, refuse, same, has, lacks, at_most, skip, within. From in/common.sh, about the service:
#     setup [LINE]... <CONFIGURATION    restarts hertzd with it and with these lines of [Service]
#     snapshot FILTER, task NAME FIELD, ticked NAME COUNT    from `hertzd status --json`, filtered by jq
#     entries, messages, sum, show, is, active, main_pid, worker NAME, $STATE, $INVOCATION and the ids of messages
# From here:
#     quiet_kernel [EXCEPT]     checks the kernel's log
#     in_unit COMMAND...    runs it with the service's user, groups, devices and sandbox
#     load_vivid [OPTION]...    $VIDEO               unbind_vivid, bind_vivid: unplugged, plugged in
#     load_aloop [OPTION]...    hw:Loopback,0,0 (play), hw:Loopback,1,0 (record)     unbind_aloop, bind_aloop
#     load_lm75 [CELSIUS]       $I2C_BUS, which has chips at $MORE_CHIPS too, $HWMON     unbind_lm75, bind_lm75; set_lm75 CELSIUS
#     load_gpio_sim [LINES]     $GPIOCHIP            unbind_gpio_sim, bind_gpio_sim; pull LINE up|down; driven LINE
#     load_iio_dummy [HERTZ]    $IIO, $IIO_DEV, $IIO_TRIGGER, $IIO_TRIGGER_NAME      unbind_iio_dummy, bind_iio_dummy
# Each load_ and bind_ returns when udev is done; it succeeds if the device exists.
#
# /srv/out is a folder of the host. An emulated CPU is ten times slower and wakes up milliseconds late: wait for events
# with generous limits (`within`), and make no assertion about how soon they happen.

. "$(dirname "$0")/../in/common.sh"
# On a machine this slow a short timeout would mistake a slow daemon for a hanging one.
WATCHDOG=60s

# wait_for_nodes PATH...: until they exist and udev has set their groups and modes.
wait_for_nodes() {
    local path
    for path; do within 20 test -e "$path" || return; done
    udevadm settle
}

load_vivid() {
    modprobe vivid n_devs=1 node_types=0x1 "$@"
    VIDEO=/dev/video0
    wait_for_nodes $VIDEO
}
unbind_vivid() { echo vivid.0 >/sys/bus/platform/drivers/vivid/unbind; }
# While a reader holds the old device open, its number is taken: the new one is then /dev/video1.
bind_vivid() {
    echo vivid.0 >/sys/bus/platform/drivers/vivid/bind
    udevadm settle
    VIDEO=/dev/$(basename /sys/devices/platform/vivid.0/video4linux/video*)
    wait_for_nodes "$VIDEO"
}

load_aloop() {
    modprobe snd-aloop "$@"
    wait_for_nodes /dev/snd/pcmC0D0p /dev/snd/pcmC0D1c
}
unbind_aloop() { echo snd_aloop.0 >/sys/bus/platform/drivers/snd_aloop/unbind; }
bind_aloop() {
    echo snd_aloop.0 >/sys/bus/platform/drivers/snd_aloop/bind
    wait_for_nodes /dev/snd/pcmC0D0p /dev/snd/pcmC0D1c
}

# set_lm75 CELSIUS: in steps of 0.5, from -55 to 125. The driver reads it again within 1.5 s.
set_lm75() {
    local half
    half=$(awk -v t="$1" 'BEGIN { h = t * 2; printf "%d", h < 0 ? h + 512 : h }')
    # Nine bits, high byte first; an SMBus word has its low byte first.
    i2cset -f -y "$I2C_BUS" 0x48 0 $(((half >> 1) | (half & 1) << 15)) w
}
load_lm75() {
    modprobe -a i2c-dev lm75
    modprobe i2c-stub "chip_addr=0x48${MORE_CHIPS:+,$MORE_CHIPS}"
    I2C_BUS=$(i2cdetect -l | awk '/stub/ { sub("i2c-", "", $1); print $1 }')
    wait_for_nodes "/dev/i2c-$I2C_BUS"
    set_lm75 "${1:-25.5}"
    echo lm75 0x48 >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
    find_lm75
}
find_lm75() {
    HWMON=$(echo "/sys/bus/i2c/devices/$I2C_BUS-0048/hwmon/hwmon"*)
    wait_for_nodes "$HWMON/temp1_input"
}
unbind_lm75() { echo "$I2C_BUS-0048" >/sys/bus/i2c/drivers/lm75/unbind; }
bind_lm75() {
    echo "$I2C_BUS-0048" >/sys/bus/i2c/drivers/lm75/bind
    find_lm75
}

load_gpio_sim() {
    modprobe gpio-sim
    GPIO_SIM=/sys/kernel/config/gpio-sim/sim
    mkdir -p $GPIO_SIM/bank
    echo "${1:-8}" >$GPIO_SIM/bank/num_lines
    bind_gpio_sim
}
unbind_gpio_sim() { echo 0 >"$GPIO_SIM/live"; }
bind_gpio_sim() {
    echo 1 >"$GPIO_SIM/live"
    GPIOCHIP=/dev/$(cat "$GPIO_SIM/bank/chip_name")
    GPIO_LINES=/sys/devices/platform/$(cat "$GPIO_SIM/dev_name")/${GPIOCHIP#/dev/}
    wait_for_nodes "$GPIOCHIP"
}
# pull LINE up|down: sets the level of an input.
pull() { echo "pull-$2" >"$GPIO_LINES/sim_gpio$1/pull"; }
# driven LINE: the level of an output, 0 or 1.
driven() { cat "$GPIO_LINES/sim_gpio$1/value"; }

load_iio_dummy() {
    modprobe -a iio_dummy iio-trig-hrtimer
    IIO_TRIGGER_NAME=tick
    mkdir /sys/kernel/config/iio/triggers/hrtimer/$IIO_TRIGGER_NAME
    IIO_TRIGGER=$(dirname "$(grep -lx $IIO_TRIGGER_NAME /sys/bus/iio/devices/trigger*/name)")
    echo "${1:-50}" >"$IIO_TRIGGER/sampling_frequency"
    bind_iio_dummy
}
unbind_iio_dummy() { rmdir /sys/kernel/config/iio/devices/dummy/dummy; }
bind_iio_dummy() {
    mkdir /sys/kernel/config/iio/devices/dummy/dummy
    IIO=$(dirname "$(grep -lx dummy /sys/bus/iio/devices/iio:device*/name)")
    IIO_DEV=/dev/${IIO##*/}
    wait_for_nodes "$IIO_DEV"
}

# traced_calls: the names of the system calls that strace has written to /tmp/calls, one a line. Those of 32 bits that take a time of 64 bits
# go by the name of the others.
traced_calls() {
    sed -nE '/ERESTART|restart_syscall|resumed/d; s/^([a-z0-9_]+)\(.*/\1/p' /tmp/calls | sed -E 's/_time64$//; s/(_gettime)64$/\1/'
}

# quiet_kernel [EXCEPT]: checks that the kernel has logged no bug, warning or stall, except in lines that match; shows those that do not.
quiet_kernel() {
    local log complaints
    log=$(dmesg) # the script breaks off where it cannot be read
    complaints=$(grep -E 'BUG|Oops|WARNING:|soft lockup|rcu.*stall' <<<"$log" | grep -v "${1:-^$}" || :)
    same "the kernel logs no ${1:+other }bug, warning or stall" '' "$complaints"
}

# in_unit COMMAND...: prints the command's output and returns its success. Only one at a time.
in_unit() {
    local unit=/run/systemd/system/in-unit.service line ended=0
    {
        systemctl cat hertzd | grep -vE '^(Exec[A-Za-z]+|Type|WatchdogSec|Restart[A-Za-z]*|RuntimeDirectory[A-Za-z]*)='
        # No limit: by default systemd refuses the sixth start within ten seconds.
        printf '%s\n' '[Unit]' StartLimitIntervalSec=0 '[Service]' Type=oneshot RuntimeDirectory=in-unit 'ExecStart=/bin/bash /run/in-unit.sh' \
            StandardOutput=append:/run/in-unit.out StandardError=append:/run/in-unit.out
    } >/run/in-unit.new
    # Reloading all units takes seconds here.
    cmp -s /run/in-unit.new $unit || { mv /run/in-unit.new $unit; systemctl daemon-reload; }
    printf -v line '%q ' "$@"
    printf 'exec %s\n' "$line" >/run/in-unit.sh
    : >/run/in-unit.out
    systemctl start in-unit 2>/dev/null || ended=$?
    cat /run/in-unit.out
    return $ended
}
