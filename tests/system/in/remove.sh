#!/bin/bash
# An upgrade keeps the edited configuration, removal stops the service, and a purge leaves nothing behind.
. "$(dirname "$0")/common.sh"

export DEBIAN_FRONTEND=noninteractive
setup <<'END'
# edited
[task.mine]
kind = "load"
rate = 10
END
pid=$(main_pid)
check "the upgrade succeeds" apt-get install -y -qq -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold /srv/package/newer.deb
has "  to the newer version" "$(dpkg-query -W -f '${Version}' hertzd)" newer
same "  the edited configuration is kept" "# edited" "$(head -n 1 $CONFIG)"
same "  the service is active" active "$(show ActiveState)"
refuse "  and was restarted" test "$pid" = "$(main_pid)"

rm -rf $DROPINS
check "apt remove" apt-get remove -y -qq hertzd
refuse "  stops the service" pgrep -x hertzd
check "  keeps the configuration" test -s $CONFIG
check "  and the recordings" test -d $STATE
check "apt purge" apt-get purge -y -qq hertzd
refuse "  removes the configuration" test -e /etc/hertzd/hertzd.toml
refuse "  and the state" test -e $STATE
