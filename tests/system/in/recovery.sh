#!/bin/bash
# Recovery from a task that hangs, and from a stopped and a killed process. WatchdogSec is 2 s here.
. "$(dirname "$0")/common.sh"
# It keeps these tests short.
WATCHDOG=2s

restarted() { [ "$(show NRestarts)" -ge "$1" ] && active; }
# check_restart NAME START: the service is restarted within WatchdogSec + 5 s.
check_restart() {
    within 30 restarted 1 || :
    at_most "$1: restarted within WatchdogSec + 5 s" "$(since "$2")" 7
}

steady='[task.steady]
kind = "load"
rate = 100
run = "100us"'
hang="$steady
[task.stuck]
kind = \"load\"
rate = 10
fault = \"hang\"
fault-every = 10"
setup <<<"$hang"
sleep 1 # tick 9 hangs
start=$(millis)
check_restart "a task that hangs" "$start"
has "  the journal names the task in its message" "$(messages MESSAGE_ID=$DOES_NOT_RETURN)" stuck
same "  and in its field" stuck "$(entries -n 1 MESSAGE_ID=$DOES_NOT_RETURN | jq -r .HERTZD_TASK)"

first="$steady
worker = \"main\"
[worker.main]
[worker.stuck]
[task.stuck]
worker = \"stuck\"
kind = \"load\"
rate = 10
fault = \"hang\"
fault-every = 1"
systemctl stop hertzd
start=$(millis)
setup Restart=no <<<"$first" 2>/dev/null || :
at_most "a first tick that never returns: the start fails within WatchdogSec + 5 s" "$(since "$start")" 7
same "  with exit code 70" "exit-code 70" "$(show Result) $(show ExecMainStatus)"
has "  the journal names the tick" "$(messages -p err)" "the start failed: tick 0 of task stuck has not returned"

setup <<<"$steady"
start=$(millis)
systemctl kill --kill-whom=main -s STOP hertzd
check_restart "SIGSTOP" "$start"

# A stall of the machine is not to look like a hang.
WATCHDOG=4s setup <<<"$steady"
pid=$(main_pid)
start=$(millis)
systemctl kill --kill-whom=main -s KILL hertzd
check_restart "kill -9" "$start"
refuse "  as a new process" test "$pid" = "$(main_pid)"
check "  which answers: no stale lock or socket blocked it" within 60 ticked steady 10
sleep 9
same "the watchdog does not restart a healthy service" 1 "$(show NRestarts)"
