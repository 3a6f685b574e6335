#!/bin/bash
# Each fault, while it lasts and afterwards: status answers, says which task missed how much, and is well again; in the end
# everything that was missed is in the journal, with its cause.
. "$(dirname "$0")/common.sh"

# ask: what status says; its exit code, which is noted in /tmp/codes. 124 if it takes longer than the 2 s that it may wait and the
# time that its own start may take where a program takes the CPUs away.
ask() {
    local code=0
    timeout 10 hertzd status --json >/tmp/status 2>/tmp/status.err || code=$?
    echo $code >>/tmp/codes
    return $code
}
# answered WHAT: every answer since the codes were emptied came from the daemon: it answers within the 1.9 s that status waits for it.
# But for one of them: the machine may stall for longer.
answered() { same "$1: each of $(wc -l </tmp/codes) answers but one came within the time that status waits" "" "$(grep -vx '[01]' /tmp/codes | tail -n +2 | xargs)"; }
# suffers TASK: status is not well, because this task misses releases.
suffers() { local code=0; ask || code=$?; [ $code = 1 ] && jq -e ".reason | contains(\"task $1 missed \")" /tmp/status; }
# all_suffer NAME TASK...: each of them, sooner or later; and no answer is late.
all_suffer() {
    local name=$1 task; shift
    : >/tmp/codes
    for task; do check "$name: $task misses releases, and status exits with 1" within 30 suffers "$task"; done
    answered "  meanwhile"
}
# recovers NAME: nothing is wrong any longer once the last 10 s were good, and no answer is late.
recovers() {
    : >/tmp/codes
    check "$1: status exits with 0 again afterwards" within 90 ask
    answered "  meanwhile"
}
# for_a_while RUN: a hundred ticks of this length, and then none for a minute.
for_a_while() { awk -v run="$1" 'BEGIN { for (i = 0; i < 3000; i++) printf "%s\"%s\"", i ? ", " : "[", i < 100 ? run : "0s"; print "]" }'; }
# late NAME WORKER RUN DEADLINE: the section of a task whose ticks take too long for a while.
late() {
    printf '[task.%s]\nkind = "load"\nworker = "%s"\nrate = 50\nrun = %s\ndeadline = "%s"\nmax-missed = "20%%"\n' \
        "$1" "$2" "$(for_a_while "$3")" "$4"
}
last=$(($(nproc) - 1))

echo "# faults of its own tasks"
setup "${WITH_SUMMARY[@]}" <<END
[worker.own]
cpu = 0
$(late long own 15ms 10ms)

[worker.pair]
cpu = $last
[task.blocker]
kind = "load"
worker = "pair"
rate = 50
run = $(for_a_while 12ms)
max-missed = "50%"
[task.blocked]
kind = "load"
worker = "pair"
rate = 50
phase = "1ms"
deadline = "5ms"
max-missed = "20%"

[worker.asleep]
$(late sleeper asleep 15ms 10ms)
mode = "sleep"
END
all_suffer "a long run, a neighbour, a sleep in the tick" long blocked sleeper
recovers "  they"
systemctl stop hertzd
adds_up long blocker blocked sleeper
check "blocked is blocked by blocker, and its entries name it" \
    test "$(entries HERTZD_TASK=blocked HERTZD_CAUSE=blocked HERTZD_BLOCKER=blocker | wc -l)" -ge 1

echo "# page faults"
# More of these ticks than there is fresh memory would fail.
setup "${WITH_SUMMARY[@]}" <<'END'
[worker.main]
[task.pages]
kind = "load"
worker = "main"
rate = 20
deadline = "5us" # 64 new pages take longer
fault = "page-faults"
fault-every = 2
END
all_suffer "page faults" pages
systemctl stop hertzd
adds_up pages

echo "# faults from outside"
cat >/tmp/hog.toml <<'END'
[worker.hog]
cpu = 0
priority = 90
[task.hog]
kind = "load"
period = "27ms"
run = "15ms"
END
sed 's/^priority = .*/policy = "other"/; s/15ms/1s/' /tmp/hog.toml >/tmp/normal.toml
# A worker that hardly gets its CPU is not to count as stalled.
WATCHDOG=60s setup "${WITH_SUMMARY[@]}" <<END
[worker.low]
cpu = 0
priority = 50
[task.low]
kind = "load"
worker = "low"
rate = 50
run = "1ms"
deadline = "5ms"
max-missed = "20%"

[worker.above]
cpu = $last
priority = 80
[task.above]
kind = "load"
worker = "above"
period = "27ms"
run = $(for_a_while 15ms)
max-missed = "20%"
[worker.below]
cpu = $last
priority = 50
[task.below]
kind = "load"
worker = "below"
rate = 50
run = "1ms"
deadline = "5ms"
max-missed = "20%"

[worker.plain]
cpu = 0
policy = "other"
[task.plain]
kind = "load"
worker = "plain"
rate = 50
run = "1ms"
deadline = "5ms" # both hogs keep it waiting: the FIFO hog for longer than this, the normal one as long as the kernel lets it
max-missed = "20%"

# It is stopped by the kernel in each period.
[worker.limited]
policy = "deadline"
runtime = "5ms"
$(late limited limited 10ms 15ms)
END
hertzd run /tmp/hog.toml >/dev/null 2>&1 & hogs=$!
nice -n -20 hertzd run /tmp/normal.toml >/dev/null 2>&1 & hogs+=" $!"
all_suffer "a limit of bandwidth, another worker, a FIFO hog, a normal hog" limited below low plain
# shellcheck disable=SC2086 # two numbers
kill $hogs
recovers "  they"
systemctl stop hertzd
adds_up low above below plain limited

echo "# stopped"
# The watchdog would restart it.
WATCHDOG=60s steady
systemctl kill --kill-whom=main -s STOP hertzd
: >/tmp/codes
# Twice, so that it takes long enough to miss more than it may.
for _ in 1 2; do
    code=0
    ask || code=$?
    same "SIGSTOP: status gives up" 69 $code
done
has "  and says so" "$(cat /tmp/status.err)" "SIGSTOP"
systemctl kill --kill-whom=main -s CONT hertzd
all_suffer "  afterwards" steady
recovers "  it"
systemctl stop hertzd
adds_up steady
check "  at least 200 releases are stalled" test "$(summary steady '.causes.stalled // 0')" -ge 200
