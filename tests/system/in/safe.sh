#!/bin/bash
# Safe values of outputs at each end of the service, read back when ExecStopPost= has run: stop, kill -9, SIGXCPU, a second SIGTERM,
# and each of them after other trouble. One run has outputs in every kind of trouble, so that an end meets all of them at once.
. "$(dirname "$0")/common.sh"

holds() { [ "$(cat $STATE/"$1")" = "$2" ]; }
left()  { for name; do printf '%s=%s ' "$name" "$(cat $STATE/"$name")"; done; }
over()  { case $(show ActiveState) in inactive|failed) ;; *) return 1 ;; esac; }
send()  { systemctl kill --kill-whom=main -s "$1" hertzd; }

# output NAME INPUT [LINE]...: its section.
output() {
    local name=$1 input=$2; shift 2
    printf '%s\n' "[task.$name]" 'kind = "output"' 'rate = 100' "path = \"$STATE/$name\"" "input = $input" 'safe = 1' 'start = "keep"' "$@"
}
# sensor NAME WORKER: of the file NAME.
sensor() { printf '%s\n' "[task.$1-now]" 'kind = "sensor"' "worker = \"$2\"" 'rate = 100' "path = \"$STATE/$1\"" 'max-file-age = "off"'; }
# What is good, until it is not.
inputs=(ExecStartPre= "ExecStartPre=/bin/sh -c 'for name in in bad-in back-in; do echo 0.75 >$STATE/\$\$name; done'")
live='worker = "live"'
removed=$(output removed 0.75 "$live")

# Of these the hung ones are those whose worker hangs soon; `unseen` is not made safe for that, as it may hang for an hour.
config() {
    printf '[worker.%s]\n' live hangs
    sensor in live; sensor bad-in live; sensor back-in live
    output follows '"in-now.value"' "$live" 'max-age = "1h"' 'safe-after = "1h"' 'recover-after = "1h"'
    output bad '"bad-in-now.value"' "$live" 'max-age = "1h"'
    output latched '"back-in-now.value"' "$live" 'max-age = "1h"' 'recover = "latch"'
    output disabled 0.75 "$live" 'deadline = "1ns"' 'overrun-limit = 1' 'on-overrun-limit = "disable"'
    output stale '"gone-now.value"' "$live" 'max-age = "300ms"'
    output hung 0.75 'worker = "hangs"'
    output unseen 0.75 'worker = "hangs"' 'safe-after = "1h"'
    sensor gone hangs | sed "s,$STATE/gone,$STATE/in,"
    printf '%s\n' '[task.stuck]' 'kind = "load"' 'worker = "hangs"' 'rate = 100' "$@"
}
HANGS=('fault = "hang"' 'fault-every = 50')
SAFE=(bad latched disabled stale hung) NOT=(follows unseen) HAVE='follows=0.75 unseen=0.75 '
ALL='bad=1 latched=1 disabled=1 stale=1 hung=1 follows=1 unseen=1 '

is_in_trouble() {
    [ "$(left "${NOT[@]}")" = "$HAVE" ] && snapshot '[(.tasks[] | select(.values["is-safe"].last == 1) | .task),
        (.tasks[] | select(.state == "disabled") | .task), (.workers[] | select(.stalled_ns) | .worker)] | unique | join(" ")' |
        grep -qx 'bad disabled hangs hung latched stale' && [ -n "$(entries MESSAGE_ID="$OUTPUT_SAFE" HERTZD_TASK=hung)" ]
}
# in_trouble: brings it about, and takes the safe values away again, so that each end has to write all of them.
in_trouble() {
    within 30 grep -q . $STATE/back-in
    echo none >$STATE/bad-in
    echo none >$STATE/back-in
    check "$1: outputs are stale, bad, latched, disabled, hung, and two have their value" within 30 is_in_trouble
    echo 0.75 >$STATE/back-in
    sleep 0.2 # the thread writes once more after 100 ms
    for name in "${SAFE[@]}"; do echo 0.5 >$STATE/"$name"; done
}
are_safe() { [ "$(left "${SAFE[@]}" "${NOT[@]}")" = "$ALL" ]; }
# all_safe NAME: once the service is over.
all_safe() { within 30 over || :; same "  $1: every output has its safe value" "$ALL" "$(left "${SAFE[@]}" "${NOT[@]}")"; }

setup Restart=no "${inputs[@]}" < <(config; echo "$removed")
check "an output has its value" within 30 holds follows 0.75
check "  and so has another" within 30 holds removed 0.75
refuse "hertzd safe writes nothing while the daemon lives" hertzd safe
check "  the output is as it was" holds follows 0.75
config >$CONFIG
check "a reload removes one" systemctl reload hertzd
check "  which has its safe value" within 30 holds removed 1
echo 0.5 >$STATE/removed
send KILL
within 30 over || :
same "kill -9 after that: the safe values, but not of what was removed" 'follows=1 unseen=1 removed=0.5 ' "$(left "${NOT[@]}" removed)"
has "  and the journal says so" "$(messages)" "follows: wrote 1 to $STATE/follows"

setup Restart=no "${inputs[@]}" < <(config "${HANGS[@]}")
in_trouble "before systemctl stop"
has "  the journal names the one that hangs" "$(messages MESSAGE_ID="$OUTPUT_SAFE")" "hung: has not ticked for"
systemctl stop hertzd
all_safe "systemctl stop"

# It is not restarted before that has been looked at. Then it is in the same trouble again.
setup RestartSec=1h "${inputs[@]}" < <(config "${HANGS[@]}")
in_trouble "before kill -9"
send KILL
check "  it is to be restarted" within 30 is SubState auto-restart
same "  kill -9: every output has its safe value" "$ALL" "$(left "${SAFE[@]}" "${NOT[@]}")"
systemctl restart hertzd # a start would wait for the hour to pass
INVOCATION=$(show InvocationID)
in_trouble "restarted"
send XCPU
check "  SIGXCPU: every output has its safe value" within 30 are_safe
for name in "${SAFE[@]}" "${NOT[@]}"; do echo 0.5 >$STATE/"$name"; done
systemctl stop hertzd
all_safe "systemctl stop after kill -9, a restart and SIGXCPU"

setup Restart=no "${inputs[@]}" < <(config "${HANGS[@]}")
in_trouble "before kill -9 in the middle of a stop"
systemctl stop --no-block hertzd
send KILL
all_safe "kill -9 in the middle of a stop"

setup Restart=no "${inputs[@]}" < <(config "${HANGS[@]}")
in_trouble "before a second SIGTERM"
systemctl stop --no-block hertzd
send TERM
all_safe "a second SIGTERM"

# What nobody has written when hertzd starts again: ExecStopPost= is left out.
setup Restart=no ExecStopPost= "${inputs[@]}" < <(output follows 0.75; output removed 0.75)
check "two outputs have their values" within 30 holds removed 0.75
check "  both" within 30 holds follows 0.75
send KILL
within 30 over || :
same "kill -9 without hertzd safe leaves them" 'follows=0.75 removed=0.75 ' "$(left follows removed)"
output follows 0.75 >$CONFIG
systemctl start hertzd
check "the next start writes the one that it does not have" within 30 holds removed 1
check "  and the other one goes on" within 30 holds follows 0.75
systemctl stop hertzd
same "  after a stop both are safe" 'follows=1 removed=1 ' "$(left follows removed)"

# Root carries a plan of the service's user out with that user's rights.
for name in /etc/owned-by-root $STATE/follows; do echo 0.5 >"$name"; done
chown hertzd: $STATE/follows
ln -s /etc/owned-by-root $STATE/link
write() { printf '{"task":"%s","writes":[{"to":"file","path":"%s","witness":null,"text":"%s","cut":true}]}' "$@"; }
plan=$(printf '{"version":1,"pid":1,"outputs":[%s,%s,%s,%s]}' "$(write root /etc/owned-by-root '1\n')" "$(write link $STATE/link '1\n')" \
    "$(write text $STATE/follows 'ssh-rsa AAAA\n')" "$(write follows $STATE/follows '1\n')")
printf '%s' "$plan" >/run/hertzd/safe-plan.json
chown hertzd: /run/hertzd/safe-plan.json
said=$(hertzd safe 2>&1) && code=0 || code=$?
same "root's hertzd safe with a plan that names more than the user may write" 1 "$code"
has "  writes what it may" "$said" "follows: wrote 1 to $STATE/follows"
same "  and that alone" 'follows=1 ' "$(left follows)"
same "  what belongs to root is as it was" 0.5 "$(cat /etc/owned-by-root)"
has "  and is named" "$said" "root: 1 to /etc/owned-by-root: Permission denied"
has "  so is a link" "$said" "$STATE/link is a symbolic link"
has "  and a text that is no number" "$said" "is no number"
rm /run/hertzd/safe-plan.json /etc/owned-by-root
systemctl reset-failed hertzd 2>/dev/null || :

# The unit that holds lines when hertzd has failed. There are none here: a process in the place of the held line.
unit=/etc/systemd/system/hertzd-hold.service
cp /usr/share/doc/hertzd/examples/hertzd-hold.service $unit
same "systemd-analyze verify accepts the unit that holds lines" "" "$(systemd-analyze verify --man=no $unit 2>&1 || :)"
holding() { systemctl is-active --quiet hertzd-hold; }
exposure=$(systemd-analyze security --no-pager --offline=true $unit | awk '/Overall/ { print $(NF - 2) }')
at_most "  and systemd-analyze security rates it" "$exposure" 1.5
hold=$(sed -n 's/^ExecStart=//p' $unit)
mkdir -p $unit.d
printf '%s\n' '[Service]' ExecStart= "ExecStart=/bin/sh -c '$hold; exec sleep infinity'" >$unit.d/line.conf
setup Restart=no "${inputs[@]}" '[Unit]' OnFailure=hertzd-hold.service < <(output follows 0.75)
check "an output has its value again" within 30 holds follows 0.75
send KILL
check "hertzd has failed: the unit runs" within 30 holding
said() { journalctl --sync; journalctl -q -u hertzd-hold -o cat | grep -qF "follows: wrote 1 to $STATE/follows"; }
check "  and its command makes outputs safe" within 30 said
check "hertzd starts" systemctl start hertzd
refuse "  and the unit has ended" holding
check "  the output has its value" within 30 holds follows 0.75
systemctl stop hertzd
refuse "  after a stop the unit does not run" holding
rm -r $unit $unit.d
