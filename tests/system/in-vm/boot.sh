#!/bin/bash
# The package on a real-time kernel: dpkg installs it, and the service gets everything that the unit grants.
. "$(dirname "$0")/common.sh"

same "the kernel is PREEMPT_RT" 1 "$(cat /sys/kernel/realtime)"
refuse "hertzd is not installed yet" command -v hertzd
# Devices that are there before the package is.
modprobe -a i2c-dev amc6821 pwm-pca9685
modprobe i2c-stub chip_addr=0x18,0x40
I2C_BUS=$(i2cdetect -l | awk '/stub/ { sub("i2c-", "", $1); print $1 }')
echo amc6821 0x18 >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
echo pca9685 0x40 >"/sys/bus/i2c/devices/i2c-$I2C_BUS/new_device"
check "dpkg -i hertzd_*.deb: all dependencies are present" dpkg -i /srv/package/hertzd_*.deb
same "  dpkg reports it as installed" "install ok installed" "$(dpkg-query -W -f '${Status}' hertzd)"
check "  its files are as packaged" dpkg --verify hertzd
mode() { stat -c '%G %a' "$@"; }
same "  the service may set a fan that was there before" "hertzd 664" "$(mode "/sys/bus/i2c/devices/$I2C_BUS-0018/hwmon/hwmon"*/pwm1)"
same "  and export channels of a PWM chip" "hertzd 220" "$(mode "/sys/bus/i2c/devices/$I2C_BUS-0040/pwm/pwmchip"*/export)"
check "the service is active" within 60 active
INVOCATION=$(show InvocationID)
same "  started once" 0 "$(show NRestarts)"
pid=$(main_pid)
same "  as the user hertzd, which is not root" "hertzd hertzd" "$(ps -o user=,group= -p "$pid" | xargs)"
same "  with CAP_SYS_NICE and CAP_IPC_LOCK only" "$((1 << 23 | 1 << 14))" "$((16#$(awk '/^CapEff/ { print $2 }' "/proc/$pid/status")))"
scheduling() { chrt -p "$(worker main)" | sed 's/.*: //' | xargs; }
locked()     { [ "$(awk '/^VmLck/ { print $2 }' "/proc/$(main_pid)/status")" -gt 0 ]; }
limit()      { prlimit --pid "$(main_pid)" --noheadings -o SOFT,HARD "--$1" | xargs; }
same "the worker is SCHED_FIFO, 80" "SCHED_FIFO 80" "$(scheduling)"
check "memory is locked" locked
same "LimitRTPRIO= is granted" "99 99" "$(limit rtprio)"
same "LimitMEMLOCK= is granted" "unlimited unlimited" "$(limit memlock)"
same "LimitRTTIME= is granted" "30000000 31000000" "$(limit rttime)"
check "it ticks" within 30 ticked load 20
same "hertzd status: all is well" "" "$(within 60 hertzd status || hertzd status 2>&1)"
same "nothing was refused" "" "$(messages MESSAGE_ID=$REFUSED_PRIVILEGE)"
same "/dev/cpu_dma_latency belongs to its group" "hertzd 660" "$(stat -c '%G %a' /dev/cpu_dma_latency)"
same "  and held open" 1 "$(find "/proc/$pid/fd" -lname /dev/cpu_dma_latency | wc -l)"

# The same by limits alone, which a container cannot test.
cp $CONFIG /tmp/shipped.toml
setup AmbientCapabilities= CapabilityBoundingSet= </tmp/shipped.toml
same "without capabilities, by limits alone: SCHED_FIFO, 80" "SCHED_FIFO 80" "$(scheduling)"
check "  memory is locked" locked
setup AmbientCapabilities= CapabilityBoundingSet= LimitRTPRIO=40 LimitMEMLOCK=64K </tmp/shipped.toml
has "a limit below the requested priority leads to a refusal, which is logged" "$(messages MESSAGE_ID=$REFUSED_PRIVILEGE)" LimitRTPRIO=
has "  and the worker is an ordinary thread" "$(scheduling)" SCHED_OTHER
refuse "  memory is not locked" locked

setup </tmp/shipped.toml
check "systemctl stop" systemctl stop hertzd
same "  it ended successfully" "success 0" "$(show Result) $(show ExecMainStatus)"
same "  and left no process" "" "$(pgrep -u hertzd || :)"
quiet_kernel
