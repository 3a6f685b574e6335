# shellcheck shell=bash
# hertzd doctor in units that lack one right: what it says there, and whether its line mends it. Sourced by in/doctor.sh and in-vm/rights.sh.

# in_doctor_unit LINE...: runs doctor for /tmp/doctor.toml in a unit with these lines of [Service]; its report is /run/doctor.json.
in_doctor_unit() {
    printf '%s\n' '[Unit]' StartLimitIntervalSec=0 '[Service]' Type=oneshot SuccessExitStatus=1 \
        'ExecStart=/usr/bin/hertzd doctor /tmp/doctor.toml --json' StandardOutput=truncate:/run/doctor.json "$@" \
        >/run/systemd/system/doctor.service
    systemctl daemon-reload
    systemctl start doctor
}
# failing: what cannot work, by the report.
failing() { jq -r '[.findings[] | select(.weight == "fails") | .about] | join(" ")' /run/doctor.json; }
# mend_line ABOUT FOR: the line that mends it.
mend_line() {
    jq -r --arg about "$1" --arg for "$2" \
        'first(.findings[] | select(.weight == "fails" and .about == $about) | .mend[] | select(.for == $for)).line' /run/doctor.json
}
# unit_is_mended NAME ABOUT LINE...: with these lines nothing but ABOUT fails; with the line of the report as well, nothing does.
unit_is_mended() {
    local name=$1 about=$2 line; shift 2
    in_doctor_unit "$@"
    same "$name: $about fails, and nothing else" "$about" "$(failing)"
    line=$(mend_line "$about" unit)
    in_doctor_unit "$@" "$line"
    same "  mended by ${line//$'\n'/ and }" "" "$(failing)"
}
# doctor_config [KEY]... <TASKS: a worker with these keys, a task, and those on stdin.
doctor_config() {
    { printf '[worker.main]\n'; printf '%s\n' "$@" '[task.a]' 'kind = "load"' 'rate = 100' 'run = "10us"'; cat; } >/tmp/doctor.toml
}
