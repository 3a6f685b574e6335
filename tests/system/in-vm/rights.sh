#!/bin/bash
# hertzd doctor where a real-time kernel and control groups decide: bandwidth, cpusets, limits that systemd can raise.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/../doctor.sh"

doctor_config 'policy = "deadline"' 'runtime = "1ms"' </dev/null
in_doctor_unit
same "a unit that lacks nothing: nothing fails" "" "$(failing)"
has "PREEMPT_RT is seen" "$(jq -r '.findings[] | select(.about == "preemption").found' /run/doctor.json)" PREEMPT_RT
sysctl -q kernel.sched_rt_runtime_us=0
in_doctor_unit
same "no real-time bandwidth: the policy fails, and nothing else" policy "$(failing)"
line=$(mend_line policy shell)
${line#sudo } >/dev/null
in_doctor_unit
same "  mended by $line" "" "$(failing)"

doctor_config 'priority = 7' </dev/null
unit_is_mended "RestrictRealtime=yes" policy RestrictRealtime=yes
unit_is_mended "LimitRTPRIO=0" policy User=hertzd LimitRTPRIO=0 LimitMEMLOCK=infinity
unit_is_mended "LimitMEMLOCK=64K" memory User=hertzd LimitRTPRIO=7 LimitMEMLOCK=64K
if [ "$(nproc)" -gt 1 ]; then
    doctor_config 'cpu = 1' </dev/null
    unit_is_mended "AllowedCPUs= without the CPU" cpus AllowedCPUs=0
fi
