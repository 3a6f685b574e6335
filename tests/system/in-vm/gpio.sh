#!/bin/bash
# The kind gpio on gpio-sim: every edge is captured or counted as lost, and a chip may disappear and return.
. "$(dirname "$0")/common.sh"

check "gpio-sim is loaded" load_gpio_sim 8
unbind_gpio_sim
echo testbed >"$GPIO_SIM/bank/label"
mkdir "$GPIO_SIM/bank/line3" "$GPIO_SIM/bank/line5"
echo button >"$GPIO_SIM/bank/line3/name"
echo gauge >"$GPIO_SIM/bank/line5/name"
bind_gpio_sim

# Runs this script and the kernel's interrupt threads of the lines on one CPU, so that each edge is handled before the next
# is made. With two CPUs, one may stall, and the kernel then merges two edges and counts one as lost. It may as well while it throttles
# real-time threads, for whose time it takes that for which a busy host has stopped the machine. The worker is on that CPU too: while it
# reads edges it holds a lock that the interrupt threads need, and on the other one it might be stalled with it.
share_cpu() {
    local thread
    echo -1 >/proc/sys/kernel/sched_rt_runtime_us
    taskset -pc 0 $$
    for thread in $(pgrep '^irq/.*hertzd'); do taskset -pc 0 "$thread"; done
}
# make_edges LINE COUNT
make_edges() {
    local n
    for ((n = 0; n < $2; n += 2)); do
        pull "$1" up
        pull "$1" down
    done
}
value()  { task "$1" "values[\"$2\"].last"; }
edges()  { [ "$(value "$1" edges)" = "$2" ]; }
errors() { task "$1" errors; }

devices=$(in_unit hertzd devices)
has "hertzd devices lists the chip" "$devices" "# gpio: testbed, $GPIOCHIP"
has "  its lines" "$devices" '3: "button"'
has "  and a section with its label" "$devices" '#chip = "testbed"'

setup <<'END'
[worker.main]
cpu = 0
priority = 80

[task.beat]
kind = "load"
rate = 5
overrun = "credit" # so that it skips nothing on a machine this slow
max-debt = "60s"

[task.panel]
kind = "gpio"
rate = 20
chip = "testbed"
lines = [1, "button"]
names = ["door", "button"]
record = "panel.csv"

[task.gauge]
kind = "gpio"
rate = "0.25 Hz"
lines = ["gauge"]
event-buffer = 4
END
check "the service runs" within 60 ticked panel 5
check "  the interrupt threads of its lines share this script's CPU" share_cpu

pull 1 up
level() { [ "$(value panel door)" = "$1" ]; }
check "a line reads as it is pulled: up" within 20 level 1
pull 1 down
check "  and down" within 20 level 0
check "  which makes two edges" within 20 edges panel 2

make_edges 3 200
check "200 pulls make 200 edges" within 30 edges panel 202
sleep 1
same "  and not one more" 202 "$(value panel edges)"
same "  none is lost" 0 "$(value panel lost)"
# A row of the recording is an edge: tick, time, line, level. Prints for the button: the number of rows, of rows that repeat
# the level of the one before, and of rows that are not later than it.
recorded() { awk -F, '$3 == 3 { n++; if (n > 1) { same += $4 == level; back += $2 <= time }; level = $4; time = $2 } END { print n + 0, same + 0, back + 0 }' "$STATE/panel.csv"; }
same "  and each is in the recording, up and down in turn, with increasing times" "200 0 0" "$(recorded)"

# Four seconds between two ticks, and a kernel buffer for four edges.
make_edges 5 40
all() { [ "$(snapshot '.tasks[] | select(.task == "gauge").values | .edges.last + .lost.last')" = 40 ]; }
check "edges beyond the kernel's buffer are counted" within 60 all
lost=$(value gauge lost)
check "  as lost: $lost" [ "$lost" -gt 0 ]

before=$(errors panel)
unbind_gpio_sim
failing() { [ "$(errors panel)" -gt $((before + 5)) ]; }
check "without the chip, ticks fail and are counted" within 30 failing
log_has() { messages | grep -q "$1"; }
check "  and the disconnect is logged" within 20 log_has 'lines of task panel stopped working'
bind_gpio_sim
check "when the chip returns, it is found by its label" within 60 log_has 'lines of task panel was reopened'
stops() { local one; one=$(errors panel); sleep 1; [ "$(errors panel)" = "$one" ]; }
check "  and no more ticks fail" within 30 stops
share_cpu >/dev/null
was=$(value panel edges)
make_edges 3 20
check "  the count of edges continues: $was and 20" within 30 edges panel $((was + 20))
same "  and none is lost" 0 "$(value panel lost)"
check "  the line given only by name is found as well" within 60 log_has 'lines of task gauge was reopened'
sed -i 's/lines = \[1, "button"\]/lines = [2, "button"]/' $CONFIG
check "a reload that replaces one line and keeps one succeeds" hertzd reload
check "  and hands over the lines" within 60 ticked panel 20
share_cpu >/dev/null
make_edges 2 20
check "  edges of both are counted" within 30 edges panel 20
sed -i 's/task.panel/task.board/' $CONFIG
check "a reload that renames the task succeeds" hertzd reload
check "  and hands its lines over" within 60 ticked board 20
share_cpu >/dev/null
make_edges 2 20
check "  edges are counted" within 30 edges board 20
cp $CONFIG /tmp/one.toml
printf '%s\n' '[task.second]' 'kind = "gpio"' 'rate = 1' 'chip = "testbed"' 'lines = [2]' >>$CONFIG
has "a second task for a line is refused; the error names the first" "$(hertzd reload 2>&1 || :)" 'is in use by task board; only one task at a time'
cp /tmp/one.toml $CONFIG
same "no other task was affected: skipped" 0 "$(task beat skipped)"
same "  errors" 0 "$(errors beat)"

echo "# outputs"
systemctl stop hertzd
output() {
    cat <<END
[task.$1]
kind = "output"
rate = 20
input = "$1-wanted.value"
max-age = "30s"
safe-after = "30s"
recover-after = "0s"
END
    printf '%s\n' "${@:2}"
}
# want RELAY VALVE SPARE: the values that the outputs take, each from a file that is not in the folder which `setup` empties.
want() {
    echo "$1" >/var/lib/relay
    echo "$2" >/var/lib/valve
    echo "$3" >/var/lib/spare
}
config() {
    local name
    for name in relay valve spare; do printf '%s\n' "[task.$name-wanted]" 'kind = "sensor"' 'rate = 20' "path = \"/var/lib/$name\"" 'max-file-age = "off"'; done
    output relay 'chip = "testbed"' 'line = 6' 'safe = 1'
    output valve 'line = "gauge"' 'active-low = true' 'safe = 0'
    output spare 'chip = "testbed"' 'line = 7' 'safe = "restore"'
    printf '%s\n' '[task.pulse]' 'kind = "heartbeat"' 'rate = 5' 'outputs = ["relay", "valve"]' 'chip = "testbed"' 'line = 4'
}
pull 7 up
want 0.2 1 0
config >/tmp/outputs.toml
has "check prints the level that is safe" "$(hertzd check /tmp/outputs.toml 2>&1)" '1: writes high to line 6 of'
setup Restart=no </tmp/outputs.toml
is_driven() { [ "$(driven "$1")" = "$2" ]; }
check "the service runs" within 60 ticked relay 5
same "a line is an output of hertzd" "hertzd output" "$(gpioinfo "${GPIOCHIP#/dev/}" | awk '/line +6:/ { gsub("\"", ""); print $4, $5 }')"
check "  and follows its input: 0.2 is off" within 60 is_driven 6 0
check "  on is low where active-low says so" within 60 is_driven 5 0
check "  a line is driven against its pull" within 60 is_driven 7 0
want 0.6 0 1
for line in 6 5 7; do check "  and up: line $line" within 60 is_driven $line 1; done
want 0.6 0 0
check "  and down again" within 60 is_driven 7 0
for level in 1 0 1; do check "a heartbeat switches its line: $level" within 60 is_driven 4 $level; done
sed -i 's/^rate = 20$/rate = 25/' $CONFIG
check "a reload that changes their sections keeps their lines" hertzd reload
check "  and their levels" within 60 is_driven 6 1
want 0.2 bad bad
check "  a bad input has its safe level: off" within 60 is_driven 5 1
check "    and the level that was there" within 60 is_driven 7 1
check "  of that line alone" within 60 is_driven 6 0
not_live() { [ "$(value pulse not-live)" = "$1" ]; }
check "  which the heartbeat counts" within 60 not_live 1
level=$(driven 4) ran=$(task pulse ran)
check "  it ticks on" within 60 ticked pulse $((ran + 5))
same "  and its line stands still" "$level" "$(driven 4)"
cp $CONFIG /tmp/one.toml
output second 'chip = "testbed"' 'line = 6' 'safe = 1' | sed 's/second-wanted/relay-wanted/' >>$CONFIG
has "a second output of a line is refused" "$(hertzd reload 2>&1 || :)" 'is in use by task relay'
cp /tmp/one.toml $CONFIG
systemctl kill -s KILL --kill-whom=main hertzd
inactive() { ! active && [ "$(show SubState)" = failed ]; }
check "after kill -9 the unit sets the safe level" within 60 inactive
has "  and says what becomes of it" "$(messages)" 'relay: wrote high to line 6 of'
same "  which is up to the driver: this one puts it back to its pull" 0 "$(driven 6)"
in_unit hertzd safe --hold --plan /run/hertzd/safe-plan.json >/tmp/held 2>&1 & holding=$!
check "hertzd safe --hold sets it and keeps it" within 60 is_driven 6 1
check "  and the one that is active when low" within 60 is_driven 5 1
sleep 1
same "  for as long as it runs" 1 "$(driven 6)"
has "  meanwhile hertzd cannot have the line" "$(hertzd run $CONFIG --for 1s 2>&1 || :)" 'line 6 ("hertzd") is in use by another program'
systemctl stop in-unit
wait $holding || :
same "  then it is released" 0 "$(driven 6)"
has "  what it said" "$(cat /run/in-unit.out)" 'wrote high to line 6'
# As root: the plan belongs to the service's user, and so does the process that carries it out.
hertzd safe --hold >/tmp/root-held 2>&1 & holding=$!
check "root's hertzd safe --hold sets the line as well" within 60 is_driven 6 1
same "  with the rights of the service's user" hertzd "$(stat -c %U "/proc/$(cut -d' ' -f1 /proc/$holding/task/$holding/children)")"
kill $holding
wait $holding || :
same "  and releases it at its end" 0 "$(driven 6)"
has "  what it said" "$(cat /tmp/root-held)" 'relay: wrote high to line 6 of'
# Another chip that has the place of the one that was meant.
unbind_gpio_sim
echo other >"$GPIO_SIM/bank/label"
bind_gpio_sim
has "another chip at the same device file is left alone" "$(hertzd safe --plan /run/hertzd/safe-plan.json 2>&1 || :)" 'is "other" now, and not "testbed"'
unbind_gpio_sim
echo testbed >"$GPIO_SIM/bank/label"
bind_gpio_sim

gpiomon "${GPIOCHIP#/dev/}" 3 >/dev/null & watcher=$!
until gpioinfo "${GPIOCHIP#/dev/}" | grep -q gpiomon; do sleep 0.2; done
printf '%s\n' '[task.a]' 'kind = "gpio"' 'rate = 10' 'chip = "testbed"' 'lines = [3, 4]' >/tmp/used.toml
has "a line in use is refused; the error names the user" "$(hertzd run /tmp/used.toml --for 1s 2>&1 || :)" 'line 3 ("gpiomon") is in use by another program'
kill $watcher
sed -i 's/testbed/missing/' /tmp/used.toml
has "a missing chip is refused; the error lists the present ones" "$(hertzd run /tmp/used.toml --for 1s 2>&1 || :)" '("testbed")'
TWIN=/sys/kernel/config/gpio-sim/twin # the banks of one device must have different labels
mkdir -p $TWIN/bank
echo 4 >$TWIN/bank/num_lines
echo testbed >$TWIN/bank/label
mkdir $TWIN/bank/line1 $TWIN/bank/line2
echo relay | tee $TWIN/bank/line1/name >$TWIN/bank/line2/name # which the kernel allows
echo 1 >$TWIN/live
wait_for_nodes "/dev/$(cat $TWIN/bank/chip_name)"
hertzd devices --json | jq -r '.devices[] | select(.class == "gpio").section' >/tmp/pasted.toml
same "with two chips of the same label, hertzd devices identifies both by what they belong to" "$(cat "$GPIO_SIM/dev_name" $TWIN/dev_name | sort)" \
    "$(sed -n 's/^chip = "\(.*\)"$/\1/p' /tmp/pasted.toml | sort)"
check "  and its output runs as a configuration" hertzd run /tmp/pasted.toml --for 1s
printf '%s\n' '[task.a]' 'kind = "gpio"' 'rate = 10' 'chip = "testbed"' 'lines = [1]' >/tmp/label.toml
has "  while the label is refused" "$(hertzd check /tmp/label.toml 2>&1 || :)" 'several GPIO chips have the name "testbed": gpiochip'
twin=$(cat $TWIN/bank/chip_name)
several="$twin has several lines called \"relay\": 1, 2"
printf '%s\n' '[task.twice]' 'kind = "output"' 'rate = 10' 'input = 1' 'line = "relay"' 'safe = 0' >/tmp/output.toml
printf '%s\n' '[task.twice]' 'kind = "gpio"' 'rate = 10' "chip = \"$twin\"" 'lines = ["relay"]' >/tmp/gpio.toml
printf '%s\n' '[task.twice]' 'kind = "heartbeat"' 'rate = 10' 'line = "relay"' \
    '[task.out]' 'kind = "output"' 'rate = 10' 'input = 1' 'path = "/var/lib/out"' 'safe = 0' >/tmp/heartbeat.toml
for kind in output gpio heartbeat; do
    has "a name of two lines is refused by check, of the kind $kind" "$(hertzd check /tmp/$kind.toml 2>&1 || :)" "$several"
    has "  and by run" "$(hertzd run /tmp/$kind.toml --for 1s 2>&1 || :)" "$several"
done

echo "# two chips that come back with each other's number after a kill"
node() { echo "/dev/$(cat "$1/bank/chip_name")"; }
line() { echo "/sys/devices/platform/$(cat "$1/dev_name")/$(cat "$1/bank/chip_name")/sim_gpio2"; }
# live FIRST SECOND: the first gets the lower number. Line 2 of the chip testbed is pulled up, that of the other one down.
live() {
    local chip
    for chip; do [ "$(cat "$chip/live")" = 0 ] || echo 0 >"$chip/live"; done
    for chip; do echo 1 >"$chip/live"; wait_for_nodes "$(node "$chip")"; done
    echo pull-up >"$(line "$GPIO_SIM")/pull"
    echo pull-down >"$(line $TWIN)/pull"
}
levels() { [ "$(cat "$(line "$GPIO_SIM")/value") $(cat "$(line $TWIN)/value")" = "$1" ]; }
of() { printf '%s\n' "[task.$1]" 'kind = "output"' 'rate = 5' "chip = \"$2\"" 'line = 2' "input = $3" 'safe = "restore"' 'safe-after = "60s"'; }
planned() { jq -r '.outputs[] | .writes[0] as $w | "\(.task) \($w.chip) \($w.high) \($w.original)"' /root/two/safe-plan.json; }
echo 0 >$TWIN/live
echo leds >$TWIN/bank/label
mkdir -m 700 /root/two
export RUNTIME_DIRECTORY=/root/two
of led leds 1 >/tmp/led.toml
{ of relay testbed 0; cat /tmp/led.toml; } >/tmp/two.toml
live "$GPIO_SIM" $TWIN
before="$(node "$GPIO_SIM") $(node $TWIN)"
hertzd run /tmp/two.toml >/tmp/two.log 2>&1 & running=$!
check "a run drives both against their pulls" within 60 levels "0 1"
kill -KILL $running
wait $running || :
cp /root/two/safe-plan.json /tmp/left.json
live $TWIN "$GPIO_SIM"
same "they have each other's number" "$before" "$(node $TWIN) $(node "$GPIO_SIM")"
said=$(hertzd safe 2>&1 || :)
has "hertzd safe writes to where the one is now" "$said" "relay: wrote high to line 2 of $(node "$GPIO_SIM")"
has "  and the other one" "$said" "led: wrote low to line 2 of $(node $TWIN)"
cp /tmp/left.json /root/two/safe-plan.json
hertzd run /tmp/two.toml >/tmp/two.log 2>&1 & running=$!
check "a start drives both again" within 60 levels "0 1"
same "  and each goes back to its own level" "relay $(node "$GPIO_SIM") true 1
led $(node $TWIN) false 0" "$(planned)"
kill -KILL $running
wait $running || :
cp /tmp/left.json /root/two/safe-plan.json
hertzd run /tmp/led.toml >/tmp/two.log 2>&1 & running=$!
check "a start with one of the two writes what the other one has left" \
    within 60 grep -q "relay: wrote its safe value, high to line 2 of $(node "$GPIO_SIM")" /tmp/two.log
same "  and its own goes back to its own level" "led $(node $TWIN) false 0" "$(planned)"
kill -TERM $running
wait $running || :
# This kernel always warns when a chip is removed whose lines have interrupts.
quiet_kernel 'WARNING: .* remove_proc_entry'
