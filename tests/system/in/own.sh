#!/bin/bash
# A daemon of one's own, from the package of a project that `hertzd new` made: a service of its own beside hertzd's, under its own user and name.
. "$(dirname "$0")/common.sh"

export DEBIAN_FRONTEND=noninteractive
NAME=fly-wheel
of_own() { systemctl show "$NAME" -P "$1"; }
# Its entries since its latest start, as JSON.
own_entries() { journalctl --sync; journalctl -q -o json "_SYSTEMD_INVOCATION_ID=$(of_own InvocationID)"; }
own_ticked()  { [ "$("$NAME" status --json | jq '.tasks[] | select(.task == "wheel") | .ran')" -ge "$1" ]; }

# hertzd's own goes on beside it.
setup <<'END'
[worker.main]
[task.beside]
kind = "load"
rate = 100
END
check "apt install ./${NAME}_*.deb" apt-get install -y -qq /srv/package/own/*.deb
same "it is active" active "$(of_own ActiveState)"
same "  and enabled" enabled "$(systemctl is-enabled $NAME)"
same "it is Type=notify" notify "$(of_own Type)"
pid=$(of_own MainPID)
same "it runs as its own user" "$NAME $NAME" "$(ps -o user:20=,group:20= -p "$pid" | xargs)"
same "  with CAP_SYS_NICE and CAP_IPC_LOCK only" "$((1 << 23 | 1 << 14))" "$((16#$(awk '/^CapEff/ { print $2 }' "/proc/$pid/status")))"
same "  and is its own program" "/usr/bin/$NAME" "$(readlink "/proc/$pid/exe")"
thread=$(grep -lsx hz-main "/proc/$pid"/task/*/comm | head -n 1 | cut -d / -f 5)
same "the worker has the configured policy and priority" "SCHED_FIFO 80" "$(chrt -p "$thread" | sed 's/.*: //' | tr '\n' ' ' | sed 's/ $//')"
check "its task ticks" within 30 own_ticked 1000
check "  with its own value" test "$("$NAME" status --json | jq -r '.tasks[] | select(.task == "wheel").values.speed.unit')" = rad/s
has "status is that of its own service" "$("$NAME" status || :)" "process $pid"
check "  and hertzd's goes on beside it" active
check "  from a socket of its own" test -S /run/$NAME/status.sock
same "  for a group of its own" "$NAME $NAME-status 660" "$(stat -c '%U %G %a' /run/$NAME/status.sock)"
code=0
output=$(setpriv --reuid=65534 --regid=65534 --clear-groups $NAME status 2>&1) || code=$?
same "  and for nobody else" 77 $code
has "    who learns of it" "$output" "usermod -aG $NAME-status"

same "the journal has it under its own name" "$NAME" "$(own_entries | jq -r 'select(._PID == "'"$pid"'").SYSLOG_IDENTIFIER' | sort -u | xargs)"
check "  with hertzd's fields" grep -q HERTZD_TIME <(own_entries)
refuse "  and calls itself by no other" grep -qw hertzd <(own_entries | jq -r '.MESSAGE | strings')
check "its log command finds its entries" grep -q . <("$NAME" log --since 1h)

sed -i 's/setpoint = .*/setpoint = 60.0/' /etc/$NAME/$NAME.toml
check "systemctl reload takes the changed configuration" systemctl reload $NAME
same "  without a restart" "$pid" "$(of_own MainPID)"
sed -i 's/^gain/gian/' /etc/$NAME/$NAME.toml
refuse "  and refuses a misspelt key" systemctl reload $NAME
same "  while it goes on" "$pid" "$(of_own MainPID)"
sed -i 's/^gian/gain/' /etc/$NAME/$NAME.toml
check "man pages and completions are installed" test -s /usr/share/man/man8/$NAME.8.gz \
    -a -s /usr/share/man/man5/$NAME.toml.5.gz -a -s /usr/share/bash-completion/completions/$NAME
output=$(systemd-analyze verify --man=no $NAME.service 2>&1) || :
same "systemd-analyze verify is silent" "" "$output"

kill -9 "$pid"
restarted() { [ "$(of_own MainPID)" != "$pid" ] && [ "$(of_own MainPID)" != 0 ] && [ "$(of_own ActiveState)" = active ]; }
check "it is restarted after a kill -9" within 30 restarted

check "apt remove" apt-get remove -y -qq $NAME
refuse "  stops the service" pgrep -x $NAME
check "  keeps the configuration" grep -q 'setpoint = 60.0' /etc/$NAME/$NAME.toml
check "apt purge" apt-get purge -y -qq $NAME
left=$(find /etc /usr /var/lib -name "*$NAME*" | sort | xargs)
same "  leaves nothing" "" "$left"
check "hertzd's service goes on" active
