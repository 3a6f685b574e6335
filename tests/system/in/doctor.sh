#!/bin/bash
# hertzd doctor: in a unit, for the service's unit, and for the service's user.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/../doctor.sh"

echo "# in a unit that lacks one right"
doctor_config 'priority = 7' </dev/null
in_doctor_unit
same "a unit that lacks nothing: nothing fails" "" "$(failing)"
unit_is_mended "RestrictRealtime=yes" policy RestrictRealtime=yes
unit_is_mended "no priority" policy CapabilityBoundingSet=~CAP_SYS_NICE LimitRTPRIO=0
unit_is_mended "no locked memory" memory CapabilityBoundingSet=~CAP_IPC_LOCK LimitMEMLOCK=64K
unit_is_mended "a filter without the call" memory SystemCallFilter=@system-service SystemCallFilter=~mlockall SystemCallErrorNumber=EPERM
printf '5\n' >/tmp/value
chgrp video /tmp/value && chmod 640 /tmp/value
doctor_config 'priority = 7' <<'END'
[task.value]
kind = "sensor"
rate = 1
path = "/tmp/value"
END
unit_is_mended "a file of another group" devices User=nobody 'AmbientCapabilities=CAP_SYS_NICE CAP_IPC_LOCK'
if [ -e /sys/fs/cgroup/cgroup.controllers ] && [ "$(nproc)" -gt 1 ]; then
    doctor_config 'cpu = 1' </dev/null
    unit_is_mended "AllowedCPUs= without the CPU" cpus AllowedCPUs=0
fi

echo "# for the service, by root in a shell"
# examine: exit code of doctor for the service's configuration; its report is /run/doctor.json.
examine() { local code=0; hertzd doctor --json >/run/doctor.json 2>/tmp/doctor.err || code=$?; [ $code -le 1 ] || cat /tmp/doctor.err >&2; echo $code; }
setup <<'END'
[worker.main]
[task.a]
kind = "load"
rate = 100
run = "10us"
END
same "the shipped unit lacks nothing" 0 "$(examine)"
same "  nothing fails" "" "$(failing)"
mkdir -p $DROPINS
printf '%s\n' '[Service]' RestrictRealtime=yes >$DROPINS/doctor.conf
systemctl daemon-reload
same "RestrictRealtime=yes in a drop-in" 1 "$(examine)"
same "  is found in the unit" unit "$(failing)"
mend_line unit unit >>$DROPINS/doctor.conf
systemctl daemon-reload
same "  mended by its line" 0 "$(examine)"
rm $DROPINS/doctor.conf
systemctl daemon-reload
printf '[task.value]\nkind = "sensor"\nrate = 1\npath = "/var/tmp/value"\n' >>$CONFIG
printf '5\n' >/var/tmp/value
chmod 600 /var/tmp/value
refuse "only root may read a file: check of the service's configuration refuses it, by root too" hertzd check
same "  doctor says that the service's user may not" 1 "$(examine)"
has "  and names it" "$(jq -r '.findings[] | select(.weight == "fails").subject' /run/doctor.json)" "the service's user hertzd"
line=$(mend_line devices shell)
${line#sudo }
same "  mended by $line" 0 "$(examine)"
rm /run/systemd/system/doctor.service
systemctl daemon-reload
