#!/bin/bash
# The kind can on a virtual bus: what hertzd sends is what candump sees, what cansend sends is what hertzd reads; timeouts, error frames,
# an interface that is down and up again, and safe values at a stop and after kill -9.
. "$(dirname "$0")/common.sh"

value()  { task "$1" "values[\"$2\"].last"; }
reads()  { [ "$(value "$1" "$2")" = "$3" ]; }
errors() { task "$1" errors; }
dumped() { grep -q " $1" /tmp/dump; } # candump -L: (time) can0 ID#DATA

# Eleven bytes of zeros of a frame of CAN FD at two bit rates; newer kernels set another flag beside that.
WIDE='00012345##[15]0000000000000000000000'

modprobe -a can-raw vcan
ip link add can0 type vcan && ip link set can0 up
check "there is a virtual bus" test -e /sys/class/net/can0
has "hertzd devices lists it" "$(in_unit hertzd devices)" 'interface = "can0"'
candump -D -L can0 >>/tmp/dump 2>&1 &

setup <<'END'
[task.beat]
kind = "load"
rate = 5

[task.motor]
kind = "can"
rate = 20
interface = "can0"
fd = true
timeout = "1h"
[[task.motor.receive]]
id = 0x181
name = "speed"
start-bit = 0
length = 16
signed = true
scale = 0.1
[[task.motor.receive]]
id = 0x181
name = "current"
start-bit = 23
length = 16
byte-order = "big"
[[task.motor.receive]]
id = 0x181
extended = true
name = "far"
start-bit = 504
length = 8
[[task.motor.receive]]
id = 0x182
name = "fleeting"
start-bit = 0
length = 8
timeout = "2s"

[task.drive]
kind = "can"
rate = 20
interface = "can0"
recover-after = "0s"
[[task.drive.send]]
id = 0x201
name = "torque"
input = "motor.speed"
start-bit = 7
length = 16
byte-order = "big"
scale = 0.5
safe = 1000
[[task.drive.send]]
id = 0x201
name = "mode"
input = 5
start-bit = 16
length = 8
safe = 255
[[task.drive.send]]
id = 0x201
name = "echo"
input = "motor.fleeting"
start-bit = 24
length = 8
safe = 170

[task.wide]
kind = "can"
rate = 20
interface = "can0"
fd = true
bit-rate-switch = true
write = "change"
[[task.wide.send]]
id = 0x12345
name = "end"
input = 77
start-bit = 88
length = 8
safe = 0
END
check "the service runs" within 60 ticked motor 5
check "before the first frame the safe value is sent, beside a live one" within 30 dumped '201#07D005AA00000000'
check "a frame of CAN FD is seen, value for value" within 30 dumped "$WIDE"4D
rarely() { [ "$(value wide sent)" -lt $(($(task wide ran) / 2)) ]; }
check "  and with write = \"change\" only now and then" within 60 rarely
cansend can0 181#E803123400000000
check "cansend's speed is read: 100" within 30 reads motor speed 100
same "  and the current, big-endian: 0x1234... from its byte on" $((0x1234)) "$(value motor current)"
check "what takes it sends it on: 200 halves" within 30 dumped '201#00C805AA00000000'
cansend can0 181#18FCFFFE
check "negative numbers: -100" within 30 reads motor speed -100
check "  limits are what the bits can say: 0" within 30 dumped '201#000005AA00000000'
cansend can0 181#R
cansend can0 00000181##0"$(printf '00%.0s' {1..63})9C"
check "the last byte of a long frame with an extended id" within 30 reads motor far 156
echoed() { cansend can0 182#2A; dumped '201#0000052A00000000'; }
check "a value with a short timeout is sent on" within 30 echoed
: >/tmp/dump
check "  and is bad after that, so the safe value is sent" within 30 dumped '201#000005AA00000000'
before=$(value motor error-frames)
cansend can0 20000004#0004000000000000
more() { [ "$(value motor error-frames)" -gt "$before" ]; }
check "an error frame is counted" within 30 more
same "nothing was dropped" 0 "$(value motor dropped)"
same "  and nothing failed" 0 "$(errors motor)"

thread=$(worker main)
timeout 3 strace -qq -p "$thread" -o /tmp/calls 2>/dev/null || :
calls=$(sed -nE '/ERESTART|restart_syscall|resumed/d; s/^([a-z0-9_]+)\(.*/\1/p' /tmp/calls | sort -u | grep -vxE 'clock_nanosleep|getrusage|clock_gettime|pread64' | xargs)
same "ticks make only the documented calls" "recvmmsg sendmmsg" "$calls"

ip link set can0 down
failing() { [ "$(errors motor)" -gt 3 ] && [ "$(errors drive)" -gt 3 ]; }
check "with the interface down, ticks fail and are counted" within 60 failing
ip link set can0 up
again() { cansend can0 181#0A00; [ "$(value motor speed)" = 1 ]; }
check "up again, it is read again" within 60 again
: >/tmp/dump
check "  and sent to" within 60 dumped '201#000205AA00000000'
same "another task was not affected" 0 "$(errors beat)"

: >/tmp/dump
systemctl kill --signal=KILL --kill-whom=main hertzd
check "after kill -9 hertzd safe sends the safe values" within 60 dumped '201#07D0FFAA00000000'
has "  by the plan" "$(journalctl -u hertzd -o cat)" 'drive: wrote the frame 201#07D0FFAA00000000 to can0'
check "restarted, the service runs" within 90 ticked drive 5
: >/tmp/dump
check "systemctl stop" systemctl stop hertzd
check "sends the safe values" within 30 dumped '201#07D0FFAA00000000'
check "  also of CAN FD" within 30 dumped "$WIDE"00
last=$(grep ' 201#' /tmp/dump | tail -1)
has "  last of all" "$last" '201#07D0FFAA00000000'
ip link del can0
cat >/tmp/gone.toml <<'END'
[task.a]
kind = "can"
rate = 10
interface = "can0"
[[task.a.receive]]
id = 1
name = "x"
start-bit = 0
length = 8
END
has "an interface that is not there is refused" "$(hertzd run /tmp/gone.toml --for 1s 2>&1 || :)" 'there is no interface can0'
refuse "the kernel logs no bug, warning or stall" grep -E 'BUG|Oops|WARNING:|soft lockup|rcu.*stall' <(dmesg)
