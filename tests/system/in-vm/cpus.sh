#!/bin/bash
# The CPU of a pinned worker stays its own: after a reload, a change of the service's cpuset, and while CPUs go and come. This kernel takes
# the CPUs that they have chosen from all threads of a cpuset that changes, workers too.
. "$(dirname "$0")/common.sh"

# configure CPU: of the worker.
configure() {
    cat <<END
[worker.main]
cpu = $1
priority = 80
[worker.free]
priority = 70
[task.steady]
kind = "load"
worker = "main"
rate = 50
max-missed = "100%"
[task.other]
kind = "load"
worker = "free"
rate = 10
max-missed = "100%"
[task.out]
kind = "output"
worker = "free"
rate = 10
path = "$STATE/out"
input = 1
safe = 0
max-missed = "100%"
[task.brain]
kind = "process"
worker = "free"
rate = 10
value = [{ name = "echo" }]
command = ["sh", "-c", "sleep 100001 & (sleep 100002 &) ; wait"]
max-missed = "100%"
END
}
# of_process FOLDER: the CPUs that it may run on.
of_process() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$1/status"; }
# placed WORKER REST GUARD: the worker may run on these CPUs, all other threads and programs on REST, those that write safe values on GUARD.
placed() {
    local thread name wanted process
    for thread in "/proc/$(main_pid)"/task/*; do
        name=$(cat "$thread/comm")
        case $name in hz-main) wanted=$1 ;; hertzd-guard|hertzd-safe) wanted=$3 ;; *) wanted=$2 ;; esac
        [ "$(of_process "$thread")" = "$wanted" ] || { echo "$name: $(of_process "$thread"), not $wanted" >/tmp/misplaced; return 1; }
    done
    for process in $(pgrep -f 'sleep 10000[12]'); do
        [ "$(of_process "/proc/$process")" = "$2" ] || { echo "$process: $(of_process "/proc/$process"), not $2" >/tmp/misplaced; return 1; }
    done
    [ "$(pgrep -fc 'sleep 10000[12]')" -ge 3 ]
}
# apart WORKER REST: each has its own, and status says so.
apart() { placed "$1" "$2" 0-1 && [ "$(snapshot '.cool_threads | "\(.cpus | join(",")) \(.pinned | join(",")) \(.apart)"')" = "$2 $1 true" ]; }
# check_apart NAME WORKER REST
check_apart() {
    check "$1" within 120 apart "$2" "$3"
    apart "$2" "$3" || echo "#   $(cat /tmp/misplaced 2>/dev/null) $(snapshot '.cool_threads | tojson')"
}
is_said() { [[ $(hertzd status | tr -s '\n ' ' ') = *"$1"* ]]; }
# cpuset LIST: of the service.
cpuset() { systemctl set-property --runtime hertzd "AllowedCPUs=$1"; }

configure 1 >/tmp/one
setup 'ExecStartPre=/bin/sh -c "echo 0 >/var/lib/hertzd/out"' </tmp/one
check "it runs" within 60 ticked steady 50
check_apart "the worker has CPU 1 alone" 1 0
check "  status says so" is_said "other threads and programs: on CPU 0, apart from the workers on CPU 1"

configure 0 >$CONFIG
systemctl reload hertzd
check_apart "after a reload the worker has CPU 0 alone" 0 1
configure 1 >$CONFIG
systemctl reload hertzd
check_apart "and after another one CPU 1" 1 0

cpuset 0-1
check_apart "a cpuset of all CPUs changes nothing" 1 0
cpuset 0
check "with CPU 0 alone, all run there" within 120 placed 0 0 0
check "  the worker is not well" within 120 says 1 "worker main may run on CPU 0 instead of CPU 1"
check "  and nothing is said to be apart" is_said "not apart from workers: no worker has a CPU that it asks for"
cpuset 0-1
check_apart "with both again, the worker has its CPU back" 1 0
has "  the log says so" "$(messages)" "main: pinned again to CPU 1"
cpuset 1
check "with CPU 1 alone, all run there" within 120 placed 1 1 1
check "  status says that none is left" within 60 is_said "not apart from workers: workers are pinned to all CPUs that hertzd may use"
cpuset 0-1
check_apart "with both again, the worker has its CPU alone" 1 0

for round in 1 2; do
    echo 0 >/sys/devices/system/cpu/cpu1/online
    check "while CPU 1 is away, the worker is not well ($round)" within 120 says 1 "worker main may run on CPU 0 instead of CPU 1"
    echo 1 >/sys/devices/system/cpu/cpu1/online
    check_apart "when it is back, the worker has it alone" 1 0
    refuse "  and the worker is well" says 1 "worker main may run"
done
before=$(task steady ran)
check "it goes on" within 60 ticked steady $((before + 20))
quiet_kernel
