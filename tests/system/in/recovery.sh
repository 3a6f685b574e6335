#!/bin/bash
# Coming back: from a task that hangs, a process that stands still, one that is killed. WatchdogSec is 2 s here.
. "$(dirname "$0")/common.sh"

restarted() { [ "$(show NRestarts)" -ge "$1" ] && active; }
# back NAME START: it is up again, within WatchdogSec + 5 s.
back() {
    until_ok 30 restarted 1 || :
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
back "a task that hangs" "$start"
has "  the journal names the task" "$(messages MESSAGE_ID=$DOES_NOT_RETURN)" stuck
same "  in its field" stuck "$(entries -n 1 MESSAGE_ID=$DOES_NOT_RETURN | jq -r .HERTZD_TASK)"

setup <<<"$steady"
start=$(millis)
systemctl kill --kill-whom=main -s STOP hertzd
back "SIGSTOP" "$start"

setup <<<"$steady"
pid=$(main_pid)
start=$(millis)
systemctl kill --kill-whom=main -s KILL hertzd
back "kill -9" "$start"
refuse "  as another process" test "$pid" = "$(main_pid)"
check "  which answers: no lock or socket was in its way" until_ok 5 ticked steady 10
sleep 5
same "a service that is well is left alone by the watchdog" 1 "$(show NRestarts)"
