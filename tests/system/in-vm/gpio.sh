#!/bin/bash
# The kind gpio on gpio-sim: every edge is seen or counted as lost, and a chip may go and come back.
. "$(dirname "$0")/common.sh"

check "gpio-sim is loaded" load_gpio_sim 8
unbind_gpio_sim
echo testbed >"$GPIO_SIM/bank/label"
mkdir "$GPIO_SIM/bank/line3" "$GPIO_SIM/bank/line5"
echo button >"$GPIO_SIM/bank/line3/name"
echo gauge >"$GPIO_SIM/bank/line5/name"
bind_gpio_sim

# One CPU for this script and for the kernel's threads of the lines: each edge is then handled before the next is made. On
# two, one may stand still for long here, and the kernel itself makes one of two edges and counts the other as lost.
together() {
    local thread
    taskset -pc 0 $$
    for thread in $(pgrep '^irq/.*hertzd'); do taskset -pc 0 "$thread"; done
}
# pulls LINE COUNT: as many edges.
pulls() {
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
has "  and a section, by its label" "$devices" '#chip = "testbed"'

setup <<'END'
[worker.main]
priority = 80

[task.beat]
kind = "load"
rate = 5
overrun = "credit" # so that a machine this slow skips none of them
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
check "the service runs as it should" until_ok 60 ticked panel 5
check "  each line with edges has a thread of the kernel's" together

pull 1 up
level() { [ "$(value panel door)" = "$1" ]; }
check "a line reads as it is pulled: up" until_ok 20 level 1
pull 1 down
check "  and down" until_ok 20 level 0
check "  which makes two edges" until_ok 20 edges panel 2

pulls 3 200
check "200 pulls make 200 edges" until_ok 30 edges panel 202
sleep 1
same "  and not one more" 202 "$(value panel edges)"
same "  none is lost" 0 "$(value panel lost)"
# A line of the recording is an edge: tick, time, line, level. Those of the button: how many, how many that repeat the level
# of the one before, how many that are not later than it.
recorded() { awk -F, '$3 == 3 { n++; if (n > 1) { same += $4 == level; back += $2 <= time }; level = $4; time = $2 } END { print n + 0, same + 0, back + 0 }' "$STATE/panel.csv"; }
same "  and each is in the recording, up and down in turn, with times that only grow" "200 0 0" "$(recorded)"

# Four seconds between two ticks, and room for four edges in the kernel.
pulls 5 40
all() { [ "$(snapshot '.tasks[] | select(.task == "gauge").values | .edges.last + .lost.last')" = 40 ]; }
check "edges that the kernel had no room for are counted" until_ok 60 all
lost=$(value gauge lost)
check "  as lost: $lost" [ "$lost" -gt 0 ]

before=$(errors panel)
unbind_gpio_sim
failing() { [ "$(errors panel)" -gt $((before + 5)) ]; }
check "the chip taken away, ticks fail and are counted" until_ok 30 failing
said() { messages | grep -q "$1"; }
check "  and the log says so" until_ok 20 said 'lines of task panel disconnected'
bind_gpio_sim
check "made anew, it is found by its label" until_ok 60 said 'lines of task panel was reopened'
stops() { local one; one=$(errors panel); sleep 1; [ "$(errors panel)" = "$one" ]; }
check "  and no more ticks fail" until_ok 30 stops
together >/dev/null
was=$(value panel edges)
pulls 3 20
check "  edges are counted on: $was and 20" until_ok 30 edges panel $((was + 20))
same "  and none is lost" 0 "$(value panel lost)"
check "  the line that was only named is found as well" until_ok 60 said 'lines of task gauge was reopened'
sed -i 's/lines = \[1, "button"\]/lines = [2, "button"]/' $CONFIG
check "a reload takes another line, and keeps one" hertzd reload
check "  handed over by the task before" until_ok 60 ticked panel 20
together >/dev/null
pulls 2 20
check "  edges of both are counted" until_ok 30 edges panel 20
sed -i 's/task.panel/task.board/' $CONFIG
check "a reload that renames the task is taken" hertzd reload
check "  and hands its lines over" until_ok 60 ticked board 20
together >/dev/null
pulls 2 20
check "  edges are counted" until_ok 30 edges board 20
cp $CONFIG /tmp/one.toml
printf '%s\n' '[task.second]' 'kind = "gpio"' 'rate = 1' 'chip = "testbed"' 'lines = [2]' >>$CONFIG
has "a second task on a line is refused, with who has it" "$(hertzd reload 2>&1 || :)" 'is in use by task board; only one task at a time'
cp /tmp/one.toml $CONFIG
same "no other task noticed: skipped" 0 "$(task beat skipped)"
same "  errors" 0 "$(errors beat)"

check "systemctl stop" systemctl stop hertzd
gpiomon "${GPIOCHIP#/dev/}" 3 >/dev/null & watcher=$!
until gpioinfo "${GPIOCHIP#/dev/}" | grep -q gpiomon; do sleep 0.2; done
printf '%s\n' '[task.a]' 'kind = "gpio"' 'rate = 10' 'chip = "testbed"' 'lines = [3, 4]' >/tmp/used.toml
has "a line in use is refused, with who has it" "$(hertzd run /tmp/used.toml --for 1s 2>&1 || :)" 'line 3 ("gpiomon") is in use by another program'
kill $watcher
sed -i 's/testbed/nobody/' /tmp/used.toml
has "a chip that is not there is refused, with those that are" "$(hertzd run /tmp/used.toml --for 1s 2>&1 || :)" '("testbed")'
TWIN=/sys/kernel/config/gpio-sim/twin # of one device, banks must have labels of their own
mkdir -p $TWIN/bank
echo 4 >$TWIN/bank/num_lines
echo testbed >$TWIN/bank/label
echo 1 >$TWIN/live
there "/dev/$(cat $TWIN/bank/chip_name)"
hertzd devices --json | jq -r '.devices[] | select(.class == "gpio").section' >/tmp/pasted.toml
same "with two chips of one label, hertzd devices names both by their nodes" 2 "$(grep -c 'chip = "gpiochip' /tmp/pasted.toml)"
check "  and what it prints runs" hertzd run /tmp/pasted.toml --for 1s
# But that this kernel's proc file system says so when a chip goes whose lines have interrupts.
complaints() { dmesg | grep -E 'BUG|Oops|WARNING:|soft lockup|rcu.*stall' | grep -v 'WARNING: .* remove_proc_entry'; }
refuse "the kernel has nothing else to complain of" complaints
