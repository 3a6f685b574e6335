#!/bin/bash
# An upgrade keeps the edited configuration, removal stops the service, and a purge removes what the package put there: no
# recordings, and none of the administrator's own files.
. "$(dirname "$0")/common.sh"

export DEBIAN_FRONTEND=noninteractive
setup <<'END'
# edited
[task.mine]
kind = "sensor"
rate = 100
path = "/proc/loadavg"
record = "mine.csv"
END
pid=$(main_pid)
check "the upgrade succeeds" apt-get install -y -qq -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold /srv/package/newer.deb
has "  to the newer version" "$(dpkg-query -W -f '${Version}' hertzd)" newer
same "  the edited configuration is kept" "# edited" "$(head -n 1 $CONFIG)"
same "  the service is active" active "$(show ActiveState)"
refuse "  and was restarted" test "$pid" = "$(main_pid)"

check "it records" within 10 test -s $STATE/mine.csv
printf '[task.mine]\nrate = 50\n' >/etc/hertzd/hertzd.d/mine.toml
rm -rf $DROPINS
check "apt remove" apt-get remove -y -qq hertzd
refuse "  stops the service" pgrep -x hertzd
check "  keeps the configuration" test -s $CONFIG
check "  and the recordings" test -s $STATE/mine.csv
recorded=$(cksum $STATE/mine.csv)
output=$(apt-get purge -y -qq hertzd </dev/null 2>&1) && ok "apt purge" || not_ok "apt purge: $output"
refuse "  removes the configuration" test -e /etc/hertzd/hertzd.toml
check "  keeps a file that the administrator added" test -s /etc/hertzd/hertzd.d/mine.toml
same "  keeps the recordings" "$recorded" "$(cksum $STATE/mine.csv)"
has "    and says where they are" "$output" $STATE
left=$(find /etc /usr /var/lib -name '*hertzd*' | sort | xargs)
same "  and leaves nothing else" "/etc/hertzd /etc/hertzd/hertzd.d $STATE" "$left"
