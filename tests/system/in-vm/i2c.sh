#!/bin/bash
# The kind i2c on i2c-stub and on the chipset's SMBus with its EEPROMs: values follow the registers, and a
# bus may disappear and return. The emulated ARM machine has no bus but i2c-stub, and none of its own could disappear.
. "$(dirname "$0")/common.sh"

value()   { task "$1" "values[\"$2\"].last"; }
reads()   { [ "$(value "$1" "$2")" = "$3" ]; }
errors()  { task "$1" errors; }
log_has() { messages | grep -q "$1"; }
refused() { hertzd run "$1" --for 1s 2>&1 || :; }
# bus WORDS: the number of the bus whose name contains them.
bus()     { i2cdetect -l | awk -v words="$1" 'index($0, words) { sub("i2c-", "", $1); print $1 }'; }

check "i2c-stub and lm75 are loaded" load_lm75 25.5
SMBUS='' EEPROM=''
if [ "$(uname -m)" = x86_64 ]; then
    check "and the SMBus of the machine's chipset" modprobe i2c-i801
    SMBUS=$(bus I801)
    check "  its bus exists: i2c-$SMBUS" wait_for_nodes "/dev/i2c-$SMBUS"
    NAME=$(cat "/sys/class/i2c-dev/i2c-$SMBUS/name")
    PCI=$(basename "$(readlink -f "/sys/bus/i2c/devices/i2c-$SMBUS/..")")
    EEPROM="[task.eeprom]
kind = \"i2c\"
rate = 10
bus = \"$NAME\"
address = 0x52
register = 0x40
type = \"u8\""
else
    skip "the EEPROMs on the SMBus of the machine's chipset, which disappears: this machine has none"
fi

devices=$(in_unit hertzd devices)
has "hertzd devices lists the bus" "$devices" "# i2c: SMBus stub driver, /dev/i2c-$I2C_BUS"
has "  and the chip that a kernel driver uses" "$devices" "0x48: lm75, used by a driver of the kernel"
has "  and its sensor" "$devices" 'hwmon = "lm75"'

cat >/tmp/lm75.toml <<'END'
[task.temp]
kind = "i2c"
rate = 10
bus = "SMBus stub driver"
address = 0x48
register = 0x00
type = "s16be"
shift = 7
scale = 0.5
END
has "an address used by a driver is refused, with the remedy" "$(refused /tmp/lm75.toml)" 'force-address = true'
echo 'force-address = true' >>/tmp/lm75.toml
has "  which works" "$(refused /tmp/lm75.toml)" 'temp: value 25.5'
unbind_lm75

# i2cset fills registers of the chip.
setb() { i2cset -y "$I2C_BUS" 0x48 "$1" "$2" b; }
set_lm75 25.5
setb 0x10 0xfe
setb 0x11 0x01
setb 0x12 0x02
setb 0x20 0x00
setup <<END
[worker.main]
priority = 80

[task.beat]
kind = "load"
rate = 5
overrun = "credit" # so that it skips nothing on a machine this slow
max-debt = "60s"

[task.stub]
kind = "i2c"
rate = 10
bus = "SMBus stub driver"
address = 0x48
init = [[0x20, 0xab]]
[[task.stub.value]]
name = "temp"
register = 0x00
type = "s16be"
shift = 7
bits = 9
scale = 0.5
unit = "°C"
[[task.stub.value]]
name = "byte"
register = 0x10
type = "u8"
[[task.stub.value]]
name = "long"
register = 0x10
type = "s24be"

$EEPROM
END
check "the service runs" within 60 ticked stub 5
same "a register of 9 bits, left-aligned in 16" 25.5 "$(value stub temp)"
same "  of 8 bits" 254 "$(value stub byte)"
same "  of 24 bits, by a block read" -130814 "$(value stub long)"
same "  init was written" 0xab "$(i2cget -y -f "$I2C_BUS" 0x48 0x20 b)"
for celsius in -10 0 124.5; do
    set_lm75 $celsius
    check "the value follows i2cset: $celsius" within 20 reads stub temp $celsius
done
refuse "a module whose bus is in use cannot be removed" rmmod i2c-stub
stub=$(errors stub)
if [ -n "$SMBUS" ]; then
    for byte in 17 200; do
        i2cset -y "$SMBUS" 0x52 0x40 $byte b
        check "the value of an EEPROM on the chipset's bus follows as well: $byte" within 20 reads eeprom value $byte
    done
    before=$(errors eeprom)
    echo "$PCI" >/sys/bus/pci/drivers/i801_smbus/unbind & unbinding=$!
    failing() { [ "$(errors eeprom)" -gt $((before + 5)) ]; }
    check "with the bus's driver unbound, ticks fail and are counted" within 30 failing
    gone() { ! kill -0 "$unbinding"; }
    check "  the task closes the bus, which the driver waits for" within 30 gone
    check "  and its node is gone" [ ! -e "/dev/i2c-$SMBUS" ]
    echo "$PCI" >/sys/bus/pci/drivers/i801_smbus/bind
    check "bound again, the bus is found by its name" within 60 log_has 'chip 0x52 on bus.*task eeprom was reopened'
    stops() { local one; one=$(errors eeprom); sleep 1; [ "$(errors eeprom)" = "$one" ]; }
    check "  and no more ticks fail" within 30 stops
    i2cset -y "$(bus I801)" 0x52 0x40 99 b
    check "  it reads again" within 20 reads eeprom value 99
fi
same "no other task was affected: skipped" 0 "$(task beat skipped)"
same "  errors" "0 $stub" "$(errors beat) $(errors stub)"

# Every tenth transfer fails as if the chip had not acknowledged it.
setb 0x20 0x00
all_errors() { echo $(($(errors stub) + $([ -z "$SMBUS" ] && echo 0 || errors eeprom))); }
before=$(all_errors)
fails() { [ "$(all_errors)" -ge $((before + 5)) ]; }
strace -qq -p "$(worker main)" -e trace=ioctl -e inject=ioctl:error=EREMOTEIO:when=10+10 -o /tmp/calls 2>/dev/null & tracing=$!
check "a chip that does not acknowledge now and then costs ticks" within 60 fails
kill $tracing && wait $tracing || :
one_each() { [ "$(grep -c INJECTED /tmp/calls)" = $(($(all_errors) - before)) ]; }
check "  one for each such transfer" within 20 one_each
refuse "  the chip is not given up" log_has 'chip 0x48 on bus.*task stub stopped working'
same "  and not set up again" 0x00 "$(i2cget -y -f "$I2C_BUS" 0x48 0x20 b)"

echo "# outputs"
i2cset -y "$I2C_BUS" 0x48 0x34 0x3412 w # its bytes over the bus: 0x12, 0x34
i2cset -y "$I2C_BUS" 0x48 0x38 0xa5 b
WANT=/var/lib/want # not in its own folder, which `setup` empties
echo 200.4 >$WANT
setup Restart=no <<END
[task.want]
kind = "sensor"
rate = 20
path = "$WANT"
max-file-age = "off"

[task.heater]
kind = "output"
rate = 20
input = "want.value"
max-age = "30s"
safe-after = "30s"
recover-after = "0s"
bus = "SMBus stub driver"
address = 0x48
register = 0x30
type = "u8"
init = [[0x31, 0x77]]
safe = 7

[task.dac]
kind = "output"
rate = 20
input = "want.value"
max-age = "30s"
safe-after = "30s"
recover-after = "0s"
scale = 10
bus = "SMBus stub driver"
address = 0x48
register = 0x32
type = "u16be"
shift = 4
safe = 100.06

[task.kept]
kind = "output"
rate = 20
input = "want.value"
max-age = "30s"
safe-after = "30s"
recover-after = "0s"
bus = "SMBus stub driver"
address = 0x48
register = 0x34
type = "s16be"
safe = "restore"

[task.part]
kind = "output"
rate = 20
input = "want.value"
max-age = "30s"
safe-after = "30s"
recover-after = "0s"
bus = "SMBus stub driver"
address = 0x48
register = 0x38
type = "u8"
bits = 4
shift = 4
safe = "restore"

[task.byte]
kind = "output"
rate = 20
input = "want.value"
max-age = "30s"
safe-after = "30s"
recover-after = "0s"
bus = "SMBus stub driver"
address = 0x48
register = 0x20
type = "u8"
safe = 1

[task.low]
kind = "output"
rate = 20
input = "want.value"
max-age = "30s"
safe-after = "30s"
recover-after = "0s"
bus = "SMBus stub driver"
address = 0x48
register = 0x10
type = "u24be"
safe = 2

[task.high]
kind = "output"
rate = 20
input = "want.value"
max-age = "30s"
safe-after = "30s"
recover-after = "0s"
bus = "SMBus stub driver"
address = 0x48
register = 0x13
type = "u24be"
safe = 3
END
holds() { [ "$(i2cget -y "$I2C_BUS" 0x48 "$1" "$2")" = "$3" ]; }
# An SMBus word has its low byte first.
check "the service runs" within 60 ticked heater 5
check "a register follows its input" within 60 holds 0x30 b 0xc8
check "  after init was written" holds 0x31 b 0x77
check "  by scale, shift and the order of its bytes" within 60 holds 0x32 w 0x407d
check "  one that restores as well" within 60 holds 0x34 w 0xc800
echo -3 >$WANT
check "  within what it can store" within 60 holds 0x30 b 0x00
check "  below zero" within 60 holds 0x34 w 0xfdff
echo bad >$WANT
check "a bad input has the safe value" within 60 holds 0x30 b 0x07
check "  and what was there before" within 60 holds 0x34 w 0x3412
check "  bit for bit" within 60 holds 0x38 b 0xa5
check "  and 12 bits at the left of 16" within 60 holds 0x32 w 0x903e
echo 9 >$WANT
check "it goes on with a good one" within 60 holds 0x30 b 0x09
cp $CONFIG /tmp/one.toml
sed -n '/task.dac/,/safe = 100/p' /tmp/one.toml | sed 's/task.dac/task.other/; s/0x32/0x33/; s/u16be/u8/; s/100.06/1/' >>$CONFIG
has "a second output of one of its bytes is refused" "$(hertzd reload 2>&1 || :)" 'is in use by task dac'
cp /tmp/one.toml $CONFIG
# The old output's safe value would come over what the new one has written.
sed '/task.byte/,/safe = 1$/ s/"u8"/"u24be"/' /tmp/one.toml >$CONFIG
has "one that grows over its neighbours is refused by a reload" "$(hertzd reload 2>&1 || :)" 'overlaps register 0x20'
sed '/task.low/,/safe = 2$/ s/"u24be"/"u24le"/' /tmp/one.toml >$CONFIG
has "  one that is stored in another way" "$(hertzd reload 2>&1 || :)" 'stores its number in another way'
sed '/task.high/,/safe = 3$/ d; /task.low/,/safe = 2$/ s/"u24be"/"u64be"/' /tmp/one.toml >$CONFIG
has "  and one that takes the place of two" "$(hertzd reload 2>&1 || :)" 'overlaps register 0x1'
echo 8 >$WANT
check "  all of them go on" within 60 holds 0x20 b 0x08
check "    each by its bytes" within 60 holds 0x12 b 0x08
check "    in their order" within 60 holds 0x15 b 0x08
sed '/task.high/,/safe = 3$/ d; /task.low/,/safe = 2$/ d; /task.byte/,/safe = 1$/ d' /tmp/one.toml >$CONFIG
check "they can be removed" hertzd reload
check "  with their safe values" within 60 holds 0x12 b 0x02
sed '/task.high/,/safe = 3$/ d; /task.low/,/safe = 2$/ s/"u24be"/"u64be"/; /task.byte/,/safe = 1$/ s/"u8"/"u24be"/' /tmp/one.toml >$CONFIG
check "  and the others added by the next reload" hertzd reload
check "  which have all their bytes" within 60 holds 0x17 b 0x08
check "  of each" within 60 holds 0x22 b 0x08
same "  and nobody writes the old safe values there" "0x00 0x00" "$(i2cget -y "$I2C_BUS" 0x48 0x12 b) $(i2cget -y "$I2C_BUS" 0x48 0x15 b)"
cp /tmp/one.toml $CONFIG
has "  but not in one step back" "$(hertzd reload 2>&1 || :)" 'overlaps register 0x'
systemctl restart hertzd
echo 9 >$WANT
check "a restart may change all of it" within 60 holds 0x12 b 0x09
has "another hertzd is refused" "$(hertzd run /tmp/one.toml --for 1s 2>&1 || :)" 'is in use by hertzd (pid '
systemctl stop hertzd
check "after systemctl stop it has its safe value" holds 0x30 b 0x07
check "  the other one what was there before" holds 0x34 w 0x3412
systemctl start hertzd
INVOCATION=$(show InvocationID)
check "started again, it follows its input" within 60 holds 0x30 b 0x09
check "  both" within 60 holds 0x34 w 0x0900
systemctl kill -s KILL --kill-whom=main hertzd
check "after kill -9 it has its safe value" within 60 holds 0x30 b 0x07
check "  the other one what was there before" within 60 holds 0x34 w 0x3412
check "  of 12 bits" within 60 holds 0x32 w 0x903e
has "  as hertzd safe has said" "$(messages)" 'heater: wrote 0x07 to register 0x30 of chip 0x48'
i2cset -f -y "$I2C_BUS" 0x48 0x30 0x55 b
check "as root hertzd safe carries out the plan of the service's user" hertzd safe
check "  which writes the register" holds 0x30 b 0x07
check "then the module can be removed" rmmod i2c-stub
if [ -n "$SMBUS" ]; then
    has "a missing bus is refused; the error lists the present ones" "$(refused /tmp/lm75.toml)" "$NAME"
else
    has "a missing bus is refused" "$(refused /tmp/lm75.toml)" "SMBus stub driver"
fi
echo 'missing = "wait"' >>/tmp/lm75.toml
hertzd run /tmp/lm75.toml --for 20s >/tmp/waited 2>&1 & waiting=$!
sleep 3
modprobe i2c-stub chip_addr=0x48
I2C_BUS=$(bus stub)
wait_for_nodes "/dev/i2c-$I2C_BUS"
set_lm75 30.5
wait $waiting
has "  with missing = \"wait\" it is opened once it exists" "$(cat /tmp/waited)" 'value 30.5'
quiet_kernel
