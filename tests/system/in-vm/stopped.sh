#!/bin/bash
# What stops real-time threads from outside: the kernel's limit on their processor time, and a frozen control group.
. "$(dirname "$0")/common.sh"

echo "# 300 ms of real time in each second"
cd /proc/sys/kernel || exit
echo 300000 >sched_rt_runtime_us
setup "${WITH_SUMMARY[@]}" <<'END'
[worker.main]
cpu = 1
priority = 80
[task.greedy]
kind = "load"
worker = "main"
rate = 40
run = "12ms" # 480 ms in each second
END
throttled() { [ "$(task greedy 'causes.throttled // 0')" -ge "$1" ]; }
check "a worker that needs more misses releases, of which 200 are throttled" within 120 throttled 200
check "  the kernel did so" grep -q "RT throttling activated" <(dmesg)
check "  status exits with 1 and says so" within 30 says 1 "task greedy missed "
systemctl stop hertzd
echo 950000 >sched_rt_runtime_us
adds_up greedy
# What the host of this machine takes from it looks like a long run: so no share is certain here, as it is in tests/causes.rs.
echo "# throttled: $(summary greedy '"\(.causes.throttled) of \(.missed)"')"

echo "# a frozen control group"
steady
group=/sys/fs/cgroup$(show ControlGroup)
frozen() { grep -q "frozen $1" "$group/cgroup.events"; }
uptime_ms() { awk '{ printf "%d", $1 * 1000 }' /proc/uptime; }
echo 1 >"$group/cgroup.freeze"
check "the service is frozen" within 30 frozen 1
since=$(uptime_ms)
sleep 4
code=0
hertzd status 2>/tmp/status || code=$?
same "  status exits with 69" 69 $code
has "  and says so" "$(cat /tmp/status)" "frozen cgroup"
came_up=$((($(uptime_ms) - since) / 10))
echo 0 >"$group/cgroup.freeze"
check "  thawed, it answers" within 30 says 1 "task steady missed "
systemctl stop hertzd
adds_up steady
check "  what came up meanwhile is stalled: $(summary steady .causes.stalled) of $came_up and some at the edges" \
    test "$(summary steady .causes.stalled)" -ge $((came_up - 2)) -a $came_up -ge 200
