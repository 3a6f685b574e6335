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
# is made. With two CPUs, one may stall, and the kernel then merges two edges and counts one as lost.
share_cpu() {
    local thread
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
check "  and the disconnect is logged" within 20 log_has 'lines of task panel disconnected'
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

check "systemctl stop" systemctl stop hertzd
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
echo 1 >$TWIN/live
wait_for_nodes "/dev/$(cat $TWIN/bank/chip_name)"
hertzd devices --json | jq -r '.devices[] | select(.class == "gpio").section' >/tmp/pasted.toml
same "with two chips of the same label, hertzd devices identifies both by their nodes" 2 "$(grep -c 'chip = "gpiochip' /tmp/pasted.toml)"
check "  and its output runs as a configuration" hertzd run /tmp/pasted.toml --for 1s
# This kernel always warns when a chip is removed whose lines have interrupts.
complaints() { dmesg | grep -E 'BUG|Oops|WARNING:|soft lockup|rcu.*stall' | grep -v 'WARNING: .* remove_proc_entry'; }
refuse "the kernel logs no other bug, warning or stall" complaints
