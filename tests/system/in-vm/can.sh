#!/bin/bash
# The kind can on a virtual bus: what hertzd sends is what candump sees, what cansend sends is what hertzd reads; timeouts, error frames,
# full queues, an interface that is down and up again or removed, a worker that hangs, a reload that hands an id to another task, and safe values
# at a stop and after kill -9.
. "$(dirname "$0")/common.sh"

value()  { task "$1" "values[\"$2\"].last"; }
reads()  { [ "$(value "$1" "$2")" = "$3" ]; }
errors() { task "$1" errors; }
dumped() { grep -q " $1" /tmp/dump; } # candump -L: (time) can0 ID#DATA
sends()  { : >/tmp/dump && within 5 dumped "$1"; } # from now on
# more TASK VALUE THAN
more()    { [ "$(value "$1" "$2")" -gt "$3" ]; }
log_has() { messages | grep "$1" >/dev/null; }
# as_it_is: sets $sent and $failed.
as_it_is() { sent=$(value drive sent) failed=$(value drive write-errors); }

# Eleven bytes of zeros of a frame of CAN FD at two bit rates; newer kernels set another flag beside that.
WIDE='00012345##[15]0000000000000000000000'

# With echo=1 the driver gives back the frames that have left, as those of real controllers do.
modprobe -a can-raw vxcan
modprobe vcan echo=1
ip link add can0 type vcan && ip link set can0 up
check "there is a virtual bus" test -e /sys/class/net/can0
has "hertzd devices lists it" "$(in_unit hertzd devices)" 'interface = "can0"'
watch_bus() { candump -D -L can0 >>/tmp/dump 2>&1 & }
watch_bus

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
check "an error frame is counted" within 30 more motor error-frames "$before"
same "nothing was dropped" 0 "$(value motor dropped)"
same "  and nothing failed" 0 "$(errors motor)"

thread=$(worker main)
timeout 3 strace -qq -p "$thread" -o /tmp/calls 2>/dev/null || :
calls=$(traced_calls | sort -u | grep -vxE 'clock_nanosleep|getrusage|clock_gettime|pread64' | xargs)
same "ticks make only the documented calls" "recvmmsg sendmmsg" "$calls"

echo "# full queues"
as_it_is
tc qdisc add dev can0 root pfifo limit 0
check "what a full queue does not take is counted" within 60 more drive write-errors $((failed + 5))
as_it_is
check "  on and on" within 60 more drive write-errors $((failed + 5))
same "  and nothing counts as sent" "$sent" "$(value drive sent)"
check "  the log says why" within 30 log_has 'drive: .*No buffer space available'
tc qdisc del dev can0 root
check "  when there is room again, it is sent" within 60 sends '201#000005AA00000000'
: >/tmp/dump
as_it_is
tc qdisc add dev can0 root blackhole
check "a frame that never leaves keeps the next one back" within 60 more drive write-errors $((failed + 5))
check "  the log says why" within 30 log_has 'drive: .*has not left'
check "  after a second it is lost, and the next one is sent" within 60 more drive sent $((sent + 1))
tc qdisc del dev can0 root
check "  when frames leave again, they are sent" within 60 sends '201#000005AA00000000'

echo "# an interface that is down"
sysctl -q net.core.rmem_max=4096
ip link set can0 down
of_motor=$(errors motor) of_drive=$(errors drive)
failing() { [ "$(errors motor)" -gt $((of_motor + 3)) ] && [ "$(errors drive)" -gt $((of_drive + 3)) ]; }
check "with the interface down, ticks fail and are counted" within 60 failing
: >/tmp/dump
ip link set can0 up
again() { cansend can0 181#0A00; [ "$(value motor speed)" = 1 ]; }
check "up again, it is read again" within 60 again
check "  and sent to" within 60 dumped '201#000205AA00000000'
check "  also with write = \"change\", what has not changed" within 60 dumped "$WIDE"4D

echo "# a worker that hangs"
hang() { strace -qq -p "$thread" -e trace=clock_nanosleep -e inject=clock_nanosleep:delay_enter=40000000:when=1 -o /dev/null & hanging=$!; }
# Those that were sent so far are taken by then.
ran=$(task motor ran)
within 60 ticked motor $((ran + 10)) || :
taken=$(value motor frames) lost=$(value motor dropped)
: >/tmp/dump
hang
check "its safe values are sent" within 60 dumped '201#07D0FFAA00000000'
cangen can0 -I 181 -L 2 -D 1400 -g 0 -n 500
kill $hanging
wait $hanging || :
has "  the journal names the task" "$(messages MESSAGE_ID="$OUTPUT_SAFE")" 'drive: has not ticked for'
check "it ticks again, and its values are sent" within 60 dumped '201#000405AA00000000'
check "frames for which there was no room are counted" within 60 more motor dropped "$lost"
all() { [ "$(($(value motor frames) + $(value motor dropped)))" = $((taken + lost + 500)) ]; }
check "  those and the ones that were taken are all that were sent" within 60 all
echo "#   $(value motor dropped) dropped"

echo "# an interface with two names"
ip link property add dev can0 altname motor0
# sending TASK INTERFACE: a task that sends the id of drive.
sending() {
    printf '[task.%s]\nkind = "can"\nrate = 10\ninterface = "%s"\n' "$1" "$2"
    printf '[[task.%s.send]]\nid = 0x201\nname = "x"\ninput = 1\nstart-bit = 0\nlength = 8\nsafe = 0\n' "$1"
}
{ sending one can0 && sending two motor0; } >/tmp/two.toml
has "one id by both names is refused" "$(hertzd check /tmp/two.toml 2>&1 || :)" 'id 0x201 on motor0 is in use by task one'
sending two motor0 >/tmp/two.toml
has "hertzd safe CONFIG sees by the other name that the service sends it" "$(hertzd safe /tmp/two.toml 2>&1 || :)" 'sends it: in its plan is'
ip link property del dev can0 altname motor0

echo "# an interface that is renamed, and another one that gets its name"
if ip link set can0 name can7; then # while it is up: since Linux 6.2
    ip link add can0 type vcan && ip link set can0 up
    candump -L can0 >/tmp/dump-other 2>&1 & other=$!
    check "the task sends on" within 60 sends '201#000405AA00000000'
    : >/tmp/dump
    hang
    check "its safe values go there too when the worker hangs" within 60 dumped '201#07D0FFAA00000000'
    kill $hanging
    wait $hanging || :
    check "  it ticks again" within 60 sends '201#000405AA00000000'
    as_it_is
    ip link set can7 down
    check "down, its frames are not sent" within 60 more drive write-errors $((failed + 3))
    ip link set can7 up
    check "up again, it is sent to" within 60 sends '201#000405AA00000000'
    kill $other
    wait $other || :
    lacks "the other interface gets nothing" "$(cat /tmp/dump-other)" '201#'
    ip link del can0
    ip link set can7 name can0
else
    skip "this kernel renames no interface that is up"
fi

echo "# an interface that is removed"
as_it_is
ip link del can0
check "its ticks fail, and the frames are counted" within 60 more drive write-errors $((failed + 3))
check "  the log says so" within 30 log_has 'task drive stopped working'
check "  and hertzd is not well, since safe values cannot be sent" within 60 says 1 'drive: its safe value, the frame 201#'
ip link add can0 type vcan && ip link set can0 up
watch_bus
check "a new one of that name is used" within 60 sends '201#07D005AA00000000'
both() { cansend can0 181#0A00; sends '201#000205AA00000000'; }
check "  in both directions" within 60 both
refuse "  and nothing is wrong with safe values" says 1 'its safe value'
same "another task was not affected" 0 "$(errors beat)"

echo "# an id for another task"
: >/tmp/dump
sed -i 's/task\.drive/task.push/' $CONFIG
check "a reload that renames the task succeeds" hertzd reload
check "  it sends on" within 60 ticked push 10
lacks "  no safe value came between" "$(cat /tmp/dump)" '201#07D0'
same "  and nothing failed" 0 "$(errors push)"

: >/tmp/dump
systemctl kill --signal=KILL --kill-whom=main hertzd
check "after kill -9 hertzd safe sends the safe values" within 60 dumped '201#07D0FFAA00000000'
has "  by the plan" "$(journalctl -u hertzd -o cat)" 'push: wrote the frame 201#07D0FFAA00000000 to can0'
check "restarted, the service runs" within 90 ticked push 5
cp -p /run/hertzd/safe-plan.json /tmp/plan.json
: >/tmp/dump
check "systemctl stop" systemctl stop hertzd
check "sends the safe values" within 30 dumped '201#07D0FFAA00000000'
check "  also of CAN FD" within 30 dumped "$WIDE"00
last=$(grep ' 201#' /tmp/dump | tail -1)
has "  last of all" "$last" '201#07D0FFAA00000000'
: >/tmp/dump
cp -p /tmp/plan.json /run/hertzd/safe-plan.json
same "a plan of the service's user" hertzd "$(stat -c %U /run/hertzd/safe-plan.json)"
has "  is carried out by root's hertzd safe" "$(hertzd safe 2>&1 || :)" 'push: wrote the frame 201#07D0FFAA00000000 to can0'
check "  which is seen" within 30 dumped '201#07D0FFAA00000000'
rm /run/hertzd/safe-plan.json
: >/tmp/dump
has "without a plan hertzd safe CONFIG sends them" "$(hertzd safe $CONFIG 2>&1 || :)" 'push: wrote the frame 201#07D0FFAA00000000 to can0'
check "  which is seen" within 30 dumped '201#07D0FFAA00000000'
ip link del can0

echo "# a bus without a carrier, which is how a controller leaves it that went off the bus: the kernel drops what is sent, and says nothing"
ip link add can0 type vxcan peer name can1
ip link set can1 mtu 72 up && ip link set can0 mtu 72 up # frames of CAN FD as well
carrier() { ip link set can1 "$1" && within 20 grep -qx "$2" /sys/class/net/can0/carrier; }
carrier down 0
candump -D -L can1 >>/tmp/dump 2>&1 &
cp -p /tmp/plan.json /run/hertzd/safe-plan.json
said=$(hertzd safe 2>&1) && not_ok "hertzd safe says that all is done: $said"
has "hertzd safe says that no word came that the frame left" "$said" 'no word has come that the frame left'
check "  and the plan still has it" grep -q push /run/hertzd/safe-plan.json
: >/tmp/dump
carrier up 1
check "when the bus is back it is sent" hertzd safe
check "  which is seen" within 30 dumped '201#07D0FFAA00000000'
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
quiet_kernel
