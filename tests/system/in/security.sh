#!/bin/bash
# docs/security.md: root, the service's user, a member of hertzd-status and any other user each try what the page says of each.
. "$(dirname "$0")/common.sh"

RUN=/run/hertzd SECRET=/root/secret
HOLDERS=()
# shellcheck disable=SC2317 # by the trap
clear_up() {
    [ ${#HOLDERS[@]} = 0 ] || kill "${HOLDERS[@]}" 2>/dev/null || :
    rm -rf $SECRET /tmp/planted.toml /tmp/security
}
trap '[ $? != 0 ] || echo through; clear_up' EXIT

STATUS_GROUP=$(getent group hertzd-status | cut -d : -f 3)
# become WHO: the command that makes one WHO is in BY.
become() {
    case $1 in
        root) BY=(env) ;;
        hertzd) BY=(setpriv --reuid=hertzd --regid=hertzd --init-groups) ;;
        member) BY=(setpriv --reuid=64901 --regid=64901 "--groups=$STATUS_GROUP") ;;
        nobody) BY=(setpriv --reuid=65534 --regid=65534 --clear-groups) ;;
    esac
}
# as WHO COMMAND...
as() { become "$1"; shift; "${BY[@]}" "$@"; }
# rights "WHO..." NAME COMMAND...: these may, and the others may not.
rights() {
    local may=$1 name=$2 who; shift 2
    for who in root hertzd member nobody; do
        case " $may " in
            *" $who "*) check "$name: $who may" as "$who" "$@" ;;
            *) refuse "$name: $who may not" as "$who" "$@" ;;
        esac
    done
}
# code CODE WHO COMMAND...: it ends with this exit code, and what it says is in /tmp/security.
code() {
    local wanted=$1 who=$2 found=0; shift 2
    as "$who" "$@" >/tmp/security 2>&1 || found=$?
    [ $found = "$wanted" ]
}
is_file() { same "$1 is $2" "$2" "$(stat -c '%U %G %a' "$1")"; }
# answers WHO: the status comes, whatever it says.
# shellcheck disable=SC2317 # by `within`
answers() { code 0 "$1" hertzd status || code 1 "$1" hertzd status; }
holds()   { [ "$(cat $STATE/level)" = "$1" ]; }

config() {
    cat <<'END_OF_CONFIG'
[worker.main]
[task.load]
kind = "sensor"
rate = 100
path = "/proc/loadavg"
record = "load.csv"
[task.level]
kind = "output"
rate = 100
path = "/var/lib/hertzd/level"
input = 3
safe = 1
END_OF_CONFIG
}
setup Restart=no "ExecStartPre=/bin/sh -c 'echo 0 >$STATE/level'" < <(config)
check "an output has its value" within 30 holds 3
check "it records" within 30 test -s $STATE/load.csv
check "its flight file is there" within 30 test -s $RUN/flight

echo "# files and sockets"
is_file $RUN "hertzd hertzd 755"
is_file $RUN/status.sock "hertzd hertzd-status 660"
is_file $RUN/flight "hertzd hertzd-status 640"
is_file $RUN/safe-plan.json "hertzd hertzd-status 640"
is_file $RUN/lock "hertzd hertzd 600"
is_file $STATE "hertzd hertzd 750"
is_file $STATE/load.csv "hertzd hertzd 640"
is_file /etc/hertzd "root root 755"
is_file $CONFIG "root root 644"

echo "# who may read"
for who in root hertzd member; do check "status: $who may" within 30 answers $who; done
check "status: nobody may not" code 77 nobody hertzd status
has "  and learns which group may" "$(cat /tmp/security)" 'sudo usermod -aG hertzd-status'
rights "root hertzd member" "flight file" cat $RUN/flight
rights "root hertzd member" "plan" cat $RUN/safe-plan.json
rights "root hertzd" "recordings" cat $STATE/load.csv

echo "# who may act"
check "reload: root may" hertzd reload
check "reload: hertzd may" as hertzd hertzd reload
for who in member nobody; do check "reload: $who may not" code 77 $who hertzd reload; done
rights "root hertzd" "signals" kill -CONT "$(main_pid)"
rights root "the configuration" test -w $CONFIG
for file in $RUN/flight $RUN/safe-plan.json $RUN/lock $STATE/level; do rights "root hertzd" "writing ${file##*/}" sh -c ": >>$file"; done
rights "root hertzd" "other files in $RUN" sh -c "touch $RUN/new && rm $RUN/new"
rights root "root's foreground directory" sh -c '[ -e /run/hertzd-root ] || mkdir -m 700 /run/hertzd-root; ls /run/hertzd-root'
rights root "root's files" sh -c ': >>/root/.profile'

echo "# locks"
# hold WHO FILE: holds the lock that everyone who may read it could take.
hold() { become "$1"; "${BY[@]}" flock --no-fork "$2" sleep 600 & HOLDERS+=($!); }
hold nobody $RUN
hold member $RUN/flight
held() { ! flock -n "$1" true; }
for file in $RUN $RUN/flight; do check "a stranger holds a lock on $file" within 30 held "$file"; done
check "  a restart succeeds" systemctl restart hertzd
check "  and the output has its value" within 30 holds 3
hold member $RUN/safe-plan.json
check "a stranger holds a lock on the plan" within 30 held $RUN/safe-plan.json
systemctl kill --kill-whom=main -s KILL hertzd
check "  after kill -9 the safe value is written" within 30 holds 1
kill "${HOLDERS[@]}"
HOLDERS=()
systemctl reset-failed hertzd
systemctl start hertzd
check "the output has its value again" within 30 holds 3

echo "# two daemons"
pid=$(main_pid) plan=$(stat -c %i $RUN/safe-plan.json)
check "a second one with the same directory is refused" code 77 hertzd env RUNTIME_DIRECTORY=$RUN hertzd run --for 1s --status-socket $STATE/second.sock
has "  and names the first" "$(cat /tmp/security)" "(pid $pid)"
same "  the plan is the first one's" "$plan" "$(stat -c %i $RUN/safe-plan.json)"
check "root in the directory of the service's user is refused" code 77 root env RUNTIME_DIRECTORY=$RUN hertzd run --for 1s --status-socket $STATE/second.sock
has "  and learns whose it is" "$(cat /tmp/security)" "it belongs to user $(id -u hertzd)"

echo "# links that the service's user plants"
mkdir -p $SECRET
names='flight flight.new flight.prev safe-plan.json safe-plan.new status.sock lock'
for name in $names; do echo 7 >$SECRET/"$name"; done
chmod -R go= $SECRET
before=$(stat -c '%n %U %a %s' $SECRET $SECRET/*)
# In place of the directory, and of each file in it. The number of the process is that of the shell, which becomes hertzd.
printf '[worker.main]\n[task.a]\nkind = "load"\nrate = 100\n' >/tmp/planted.toml
plant_folder="ln -s $SECRET $RUN/\$1"
plant_files="mkdir $RUN/\$1; for name in $names; do ln -s $SECRET/\$name $RUN/\$1/; done"
for plant in "$plant_folder" "$plant_files"; do
    check "root runs hertzd in the foreground beside them" \
        env -u XDG_RUNTIME_DIR sh -c "setpriv --reuid=hertzd --regid=hertzd --init-groups sh -c '$plant' plant \$\$; exec hertzd run /tmp/planted.toml --for 1s"
    same "  and root's files are as they were" "$before" "$(stat -c '%n %U %a %s' $SECRET $SECRET/*)"
    same "  with their content" 7 "$(sort -u $SECRET/*)"
    find $RUN -mindepth 1 -maxdepth 1 -name '[0-9]*' -exec rm -rf {} +
done
is_file /run/hertzd-root "root root 700"

echo "# plans that the service's user writes"
sed "s,$STATE/level,$SECRET/lock,g" $RUN/safe-plan.json | as hertzd sh -c "cat >$STATE/plan.json"
refuse "root carries out no plan that names a file of root's" hertzd safe --plan $STATE/plan.json
same "  which is as it was" 7 "$(cat $SECRET/lock)"
as hertzd sh -c "ln -sf $SECRET/lock $STATE/link"
sed "s,$STATE/level,$STATE/link,g" $RUN/safe-plan.json | as hertzd sh -c "cat >$STATE/plan.json"
refuse "  nor by a link" hertzd safe --plan $STATE/plan.json
same "  which is as it was" 7 "$(cat $SECRET/lock)"
printf '[worker.main]\n[task.a]\nkind = "sensor"\nrate = 1\npath = "%s"\n' $STATE/link >/tmp/planted.toml
said=$(hertzd doctor --json /tmp/planted.toml 2>&1 || :)
has "doctor says that the service's user may not read what its link leads to" "$said" "$STATE/link"
lacks "  and gives root no line that would open it" "$said" chmod

echo "# what a program of a task can do"
cat >/usr/local/bin/tries.py <<'END_OF_PROGRAM'
import os

import hertzd


def may(act):
    try:
        act()
    except OSError:
        return 0.0
    return 1.0


status = open("/proc/self/status").read()
caps = 1.0 if any(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("CapPrm", "CapEff", "CapInh", "CapAmb"))) else 0.0
root = may(lambda: open("/root/.profile", "a"))
etc = may(lambda: open("/etc/hertzd/hertzd.toml", "a"))
own = may(lambda: open("/var/lib/hertzd/by-a-program", "w"))
directories = 1.0 if {"RUNTIME_DIRECTORY", "STATE_DIRECTORY", "NOTIFY_SOCKET"} & set(os.environ) else 0.0
for tick in hertzd.ticks():
    hertzd.out(caps=caps, root=root, etc=etc, own=own, directories=directories)
END_OF_PROGRAM
if command -v python3 >/dev/null; then
    chmod a+r /usr/local/bin/tries.py
    values=(caps root etc own directories)
    setup < <(
        printf '%s\n' '[worker.main]' '[task.tries]' 'kind = "process"' 'rate = 10' 'command = ["python3", "/usr/local/bin/tries.py"]'
        printf '[[task.tries.value]]\nname = "%s"\n' "${values[@]}"
    )
    # shellcheck disable=SC2317 # by `within`
    writes_to_its_state() { [ "$(snapshot '.tasks[0].values.own.last == 1')" = true ]; }
    check "it may write to $STATE" within 60 writes_to_its_state
    for value in caps root etc directories; do same "  and not: $value" true "$(snapshot ".tasks[0].values.$value.last == 0")"; done
else
    skip "a program of a task: there is no Python here"
fi
rm -f /usr/local/bin/tries.py
