#!/bin/bash
# The users' own code under the service's sandbox: a plugin in C that crashes beside an output, and a program in Python with a child of its
# own, at each end that the service has.
. "$(dirname "$0")/common.sh"

PLUGIN_CRASHED=4963a451511e412d87537a961b89d7fc FATAL_SIGNAL=c7903d4f37ac4ee5b2db79c95cc59705
holds() { [ "$(cat $STATE/"$1")" = "$2" ]; }
over()  { case $(show ActiveState) in inactive|failed) ;; *) return 1 ;; esac; }

output='
[task.valve]
kind = "output"
worker = "main"
rate = 100
path = "/var/lib/hertzd/valve"
input = 0.25
safe = 1'
# probe MODE: the plugin of tests/black_box/plugins.rs, which misbehaves so at its 500th tick.
probe() {
    printf '%s\n' '[worker.main]' '[task.foreign]' 'kind = "plugin"' 'worker = "main"' 'library = "/srv/package/libprobe.so"' 'rate = 1000' 'gain = 2.5' \
        "mode = \"$1\"" 'every = 500' "$output"
}

setup Restart=no < <(probe quiet)
check "a plugin ticks under the unit's sandbox" within 30 ticked foreign 200
same "  it knows which tick it runs" "$(task foreign 'values.gain.last')" 2.5
systemctl stop hertzd
same "  and stops with the service" success "$(show Result)"

for mode in segv abort; do
    case $mode in segv) signal=SIGSEGV ;; *) signal=SIGABRT ;; esac
    setup Restart=no < <(probe $mode)
    check "$mode: the plugin takes the service down" within 60 over
    entry=$(entries MESSAGE_ID="$PLUGIN_CRASHED")
    same "  the journal has one entry of it, with the task" foreign "$(jq -r .HERTZD_TASK <<<"$entry")"
    same "  and the library" /srv/package/libprobe.so "$(jq -r .HERTZD_LIBRARY <<<"$entry")"
    has "  and the signal" "$(jq -r .MESSAGE <<<"$entry")" $signal
    check "  the service ended by a signal" grep -qE 'signal|core-dump' <(show Result)
    check "  the output has its safe value" holds valve 1
done

setup 'WatchdogSec=1s' Restart=no < <(probe quiet; printf '%s\n' '[worker.hangs]' '[task.stuck]' 'kind = "load"' 'worker = "hangs"' 'rate = 100' 'fault = "hang"' 'fault-every = 20')
check "the watchdog's SIGABRT ends a service with a plugin" within 60 over
same "  which no entry blames the plugin for" '' "$(entries MESSAGE_ID="$PLUGIN_CRASHED")"
has "  one says who has sent it" "$(entries MESSAGE_ID="$FATAL_SIGNAL" | jq -r .MESSAGE)" 'SIGABRT was sent by process 1'

setup Restart=no < <(printf '%s\n' '[worker.main]' "$output")
check "without plugins: an output has its value" within 30 holds valve 0.25
kill -SEGV "$(main_pid)"
check "  kill -SEGV ends the service at once" within 20 over
has "    an entry says who has sent it" "$(entries MESSAGE_ID="$FATAL_SIGNAL" | jq -r .MESSAGE)" 'SIGSEGV was sent by process '
check "    the output has its safe value" holds valve 1

# --- A program
check "the package's module is found" python3 -c 'import hertzd'
cat >/srv/echo.py <<'END'
import subprocess
import hertzd

subprocess.Popen(["sleep", "3600"])
print("the program is up", flush=True)
for tick in hertzd.ticks():
    hertzd.out(double=2 * tick.inputs["set"], n=tick.n)
END
chmod a+r /srv/echo.py
program() {
    cat <<'END'
[worker.main]
[task.ramp]
kind = "profile"
rate = 200
shape = "constant"
level = 3
[task.helper]
kind = "process"
rate = 200
command = ["python3", "/srv/echo.py"]
inputs = { set = "ramp.out" }
[[task.helper.value]]
name = "double"
[[task.helper.value]]
name = "n"
END
}
answers()  { [ "$(task helper 'values.double.last')" = 6 ]; }
child()    { pgrep -f '^python3 /srv/echo.py'; }
alone()    { ! child && ! pgrep -f '^sleep 3600'; }
newer()    { local pid; pid=$(child) && [ "$pid" != "$1" ]; }

setup Restart=no < <(program)
check "a program in Python ticks under the unit's sandbox, with the module of the package" within 60 answers
pid=$(child)
same "  it is the service's user" hertzd "$(ps -o user= -p "$pid" | xargs)"
same "  without its capabilities, also none to inherit" '0000000000000000 0000000000000000 0000000000000000' \
    "$(awk '/^Cap(Inh|Eff|Amb)/ { print $2 }' "/proc/$pid/status" | xargs)"
same "  nor its directories" '' "$(tr '\0' '\n' <"/proc/$pid/environ" | grep -E '_DIRECTORY=|_SOCKET=|INVOCATION' || :)"
same "  and no real-time policy" 'TS 0' "$(ps -o cls=,ni= -p "$pid" | xargs)"
has "  what it prints is in the journal" "$(messages HERTZD_TASK=helper)" "the program is up"
kill -KILL "$pid"
check "kill -9 of it: there is another" within 30 newer "$pid"
check "  which answers" within 30 answers
systemctl stop hertzd
same "the stop ends well" success "$(show Result)"
check "  and nothing of the program is left" alone

setup Restart=no < <(program)
check "once more it answers" within 60 answers
kill -KILL "$(main_pid)"
check "kill -9 of hertzd: the service is over" within 30 over
check "  and nothing of the program is left" within 10 alone
