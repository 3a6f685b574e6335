#!/bin/bash
# The exporter as a service: not enabled, confined, on the loopback only, and true with and without hertzd.
. "$(dirname "$0")/common.sh"

# scrape: the metrics, by way of bash.
scrape() {
    exec 3<>/dev/tcp/127.0.0.1/9464
    printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
    cat <&3
    exec 3>&-
}
# value SERIES: its value.
value() { scrape | awk -v series="$1" '$1 == series { print $2 }'; }
is_value() { [ "$(value "$1")" = "$2" ]; }

steady
same "the exporter is installed and not enabled" disabled "$(systemctl is-enabled hertzd-exporter || :)"
refuse "  and not active" systemctl is-active --quiet hertzd-exporter
check "systemctl start hertzd-exporter" systemctl start hertzd-exporter
pid=$(systemctl show hertzd-exporter -P MainPID)
same "it has no capability" 0000000000000000 "$(awk '/^CapEff/ { print $2 }' "/proc/$pid/status")"
refuse "  and is neither root nor hertzd" grep -qE '^(root|hertzd)$' <(ps -o user= -p "$pid")
refuse "  and has no thread with a real-time policy" grep -qE 'SCHED_(FIFO|RR|DEADLINE)' <(chrt -a -p "$pid")
same "it listens on the loopback only" "0100007F:24F8" "$(awk '$4 == "0A" && $2 ~ /:24F8$/ { print $2 }' /proc/net/tcp /proc/net/tcp6 | xargs)"
same "the real-time process has no network socket" 0 \
    "$(find "/proc/$(main_pid)/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' | grep -cFf - <(awk '{ print $10 }' /proc/net/tcp /proc/net/tcp6) || :)"
check "it is a member of the group that may read the status" grep -qw "$(getent group hertzd-status | cut -d : -f 3)" <(grep ^Groups: "/proc/$pid/status")
check "it serves hertzd's numbers" within 10 is_value hertzd_up 1
check "  of its task" test "$(value 'hertzd_task_due_total{task="steady"}')" -gt 0
output=$(systemd-analyze verify --man=no hertzd-exporter.service 2>&1) || :
same "systemd-analyze verify is silent" "" "$output"
exposure=$(systemd-analyze security --no-pager hertzd-exporter.service | awk '/Overall/ { print $(NF - 2) }')
at_most "systemd-analyze security: exposure" "$exposure" 1.5
systemctl stop hertzd
check "without hertzd it says so" within 10 is_value hertzd_up 0
same "  and has no numbers of it" "" "$(value 'hertzd_task_due_total{task="steady"}')"
systemctl start hertzd
check "with hertzd it has them again" within 10 is_value hertzd_up 1
check "systemctl stop hertzd-exporter" systemctl stop hertzd-exporter
same "  which is no failure" inactive "$(systemctl is-active hertzd-exporter || :)"
