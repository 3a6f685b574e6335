#!/bin/bash
# Installation: the service runs as its own user with the privileges it requested, isolated from the rest of the system.
. "$(dirname "$0")/common.sh"

export DEBIAN_FRONTEND=noninteractive
check "apt install ./hertzd_*.deb" apt-get install -y -qq /srv/package/hertzd_*.deb
check "systemctl start hertzd" systemctl start hertzd
INVOCATION=$(show InvocationID)
same "it is active" active "$(show ActiveState)"
same "  and enabled" enabled "$(systemctl is-enabled hertzd)"
same "it is Type=notify" notify "$(show Type)"
# Its numbers change from one second to the next, and what a busy machine makes it miss is another matter.
check "systemctl status shows hertzd's sentence about itself" grep -qE 'Status: "(well|not well): .+"' <(systemctl status hertzd)
pid=$(main_pid)
same "it runs as its own user" "hertzd hertzd" "$(ps -o user=,group= -p "$pid" | xargs)"
same "  with CAP_SYS_NICE and CAP_IPC_LOCK only" "$((1 << 23 | 1 << 14))" "$((16#$(awk '/^CapEff/ { print $2 }' "/proc/$pid/status")))"
same "the worker has the configured policy and priority" "SCHED_FIFO 80" "$(chrt -p "$(worker main)" | sed 's/.*: //' | tr '\n' ' ' | sed 's/ $//')"
check "its memory is locked" test "$(awk '/^VmLck/ { print $2 }' "/proc/$pid/status")" -gt 0
check "the journal explains the configuration" grep -q 'worker main: fifo 80' <(messages)
check "man pages and completions are installed" test -s /usr/share/man/man8/hertzd.8.gz \
    -a -s /usr/share/man/man5/hertzd.toml.5.gz -a -s /usr/share/bash-completion/completions/hertzd \
    -a -s /usr/share/zsh/vendor-completions/_hertzd -a -s /usr/share/fish/vendor_completions.d/hertzd.fish
check "the journal's catalog has the explanations" journalctl --list-catalog "$OVERRUN"

output=$(systemd-analyze verify --man=no hertzd.service 2>&1) || :
same "systemd-analyze verify is silent" "" "$output"
exposure=$(systemd-analyze security --no-pager hertzd.service | awk '/Overall/ { print $(NF - 2) }')
same "systemd-analyze security rates it as running.md says" "$(sed -n 's/.* rates it \([0-9.]*\) .*/\1/p' /srv/package/running.md)" "$exposure"
mkdir -p $DROPINS
cp /usr/share/doc/hertzd/examples/isolated-cpus.conf $DROPINS/
output=$(systemd-analyze verify --man=no hertzd.service 2>&1) || :
same "  also with isolated-cpus.conf" "" "$output"
rm -r $DROPINS

# Without permission for real time the service runs and reports the remedy.
cp $CONFIG /tmp/shipped.toml
setup AmbientCapabilities= CapabilityBoundingSet= LimitRTPRIO=0 LimitMEMLOCK=64K </tmp/shipped.toml
same "without the capabilities it is still active" active "$(show ActiveState)"
has "  its worker is an ordinary thread" "$(chrt -p "$(worker main)")" SCHED_OTHER
has "  the journal names what was refused and the remedy" "$(messages MESSAGE_ID=$REFUSED_PRIVILEGE)" LimitRTPRIO=
setup AmbientCapabilities= CapabilityBoundingSet= LimitRTPRIO=0 2>/dev/null \
    < <(sed 's/^# require-realtime/require-realtime/' /tmp/shipped.toml) || :
check "  with require-realtime it exits with 77" within 30 is ExecMainStatus 77
sleep 1
same "  and is not restarted" 0 "$(show NRestarts)"

cursor=$(journalctl -q -n 0 --show-cursor | sed -n 's/^-- cursor: //p')
echo nonsense | setup 2>/dev/null || :
check "with an invalid configuration it exits with 78" within 30 is ExecMainStatus 78
sleep 1
journalctl --sync
same "  and the journal says why, once" 1 "$(journalctl -q -u hertzd --after-cursor "$cursor" -o cat | grep -c 'hertzd.toml:1:')"
same "  and is not restarted" 0 "$(show NRestarts)"
INVOCATION=$(show InvocationID)
setup </tmp/shipped.toml
same "with the shipped configuration it is active again" active "$(show ActiveState)"
