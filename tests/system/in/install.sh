#!/bin/bash
# Installing: the service is up, as its own user, with what it asked for; and it is shut off from the rest.
. "$(dirname "$0")/common.sh"

export DEBIAN_FRONTEND=noninteractive
check "apt install ./hertzd_*.deb" apt-get install -y -qq /srv/package/hertzd_*.deb
check "systemctl start hertzd" systemctl start hertzd
INVOCATION=$(show InvocationID)
same "it is active" active "$(show ActiveState)"
same "  and enabled" enabled "$(systemctl is-enabled hertzd)"
same "it is Type=notify" notify "$(show Type)"
has "systemctl status shows its own line" "$(systemctl status hertzd)" "Status: \"$(show StatusText)\""
refuse "  which is not empty" test -z "$(show StatusText)"
pid=$(main_pid)
same "it runs as its own user" "hertzd hertzd" "$(ps -o user=,group= -p "$pid" | xargs)"
same "  with CAP_SYS_NICE and CAP_IPC_LOCK only" "$((1 << 23 | 1 << 14))" "$((16#$(awk '/^CapEff/ { print $2 }' "/proc/$pid/status")))"
same "the worker has the policy and priority configured" "SCHED_FIFO 80" "$(chrt -p "$(worker main)" | sed 's/.*: //' | tr '\n' ' ' | sed 's/ $//')"
check "its memory is locked" test "$(awk '/^VmLck/ { print $2 }' "/proc/$pid/status")" -gt 0
check "what it means is in the journal" grep -q 'worker main: fifo 80' <(messages)
check "man pages, completions and the catalog are there" test -s /usr/share/man/man8/hertzd.8.gz \
    -a -s /usr/share/man/man5/hertzd.toml.5.gz -a -s /usr/share/bash-completion/completions/hertzd \
    -a -s /usr/share/zsh/vendor-completions/_hertzd -a -s /usr/share/fish/vendor_completions.d/hertzd.fish
check "journald knows the explanations" journalctl --list-catalog "$OVERRUN"

said=$(systemd-analyze verify --man=no hertzd.service 2>&1) || :
same "systemd-analyze verify is silent" "" "$said"
exposure=$(systemd-analyze security --no-pager hertzd.service | awk '/Overall/ { print $(NF - 2) }')
at_most "systemd-analyze security: exposure" "$exposure" 2.0
mkdir -p $DROPINS
cp /usr/share/doc/hertzd/examples/isolated-cpus.conf $DROPINS/
said=$(systemd-analyze verify --man=no hertzd.service 2>&1) || :
same "  and with isolated-cpus.conf it is silent too" "" "$said"
rm -r $DROPINS

# Where the kernel does not allow real time: the service runs, and says what to do.
cp $CONFIG /tmp/shipped.toml
setup AmbientCapabilities= CapabilityBoundingSet= LimitRTPRIO=0 LimitMEMLOCK=64K </tmp/shipped.toml
same "without the capabilities it is active all the same" active "$(show ActiveState)"
has "  its worker is an ordinary thread" "$(chrt -p "$(worker main)")" SCHED_OTHER
has "  the journal says what was refused and the remedy" "$(messages MESSAGE_ID=$REFUSED_PRIVILEGE)" LimitRTPRIO=
setup AmbientCapabilities= CapabilityBoundingSet= LimitRTPRIO=0 2>/dev/null \
    < <(sed 's/^# require-realtime/require-realtime/' /tmp/shipped.toml) || :
sleep 1
same "  with require-realtime it ends with 77" 77 "$(show ExecMainStatus)"
same "  and is not started again" 0 "$(show NRestarts)"

echo nonsense | setup 2>/dev/null || :
sleep 1
same "a wrong configuration ends it with 78" 78 "$(show ExecMainStatus)"
same "  and it is not started again" 0 "$(show NRestarts)"
INVOCATION=$(show InvocationID)
setup </tmp/shipped.toml
same "with the shipped configuration it is active again" active "$(show ActiveState)"
