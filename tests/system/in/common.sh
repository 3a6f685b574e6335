# shellcheck shell=bash disable=SC2034
# Shared by the scripts that run as root on a real systemd with hertzd installed. Sourced.
# At its end each script prints "through", which tells a complete run from one that broke off.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"
trap '[ $? != 0 ] || echo through' EXIT

CONFIG=/etc/hertzd/hertzd.toml
DROPINS=/etc/systemd/system/hertzd.service.d
STATE=/var/lib/hertzd
# MESSAGE_IDs, as in systemd/hertzd.catalog. They are part of hertzd's public interface.
OVERRUN=b63f63a8dc1e44a9b7b66fb32412be1f
GIVEN_UP=16ae69641d87436c81b908f551571cbd
REFUSED_PRIVILEGE=cdd4fac1430b477998847427b4b89efc
DOES_NOT_RETURN=23c33fe99b6148c8a1028d8035593619
CLOCK_STEPPED=ec406c614c624e7aaba07b2d323f0c09
OUTPUT_SAFE=2c5269f5602b42fabcfb014dca4c9a3a
ENTRIES_LOST=09aff006b2644c47bf2b75199a648cd7

# To the systemd of arm64 the system calls of an armhf program are foreign; to that of a machine which is all armhf they are its own.
if [ "$(dpkg --print-architecture) $(dpkg-deb -f /srv/package/hertzd_*.deb Architecture)" = "arm64 armhf" ]; then
    mkdir -p /run/systemd/system/hertzd.service.d
    printf '%s\n' '[Service]' 'SystemCallArchitectures=native arm' >/run/systemd/system/hertzd.service.d/armhf.conf
    systemctl daemon-reload
fi

# setup [UNIT_LINE]...: restarts hertzd with the configuration on stdin and a drop-in with these lines of [Service]; deletes
# its state first.
setup() {
    systemctl stop hertzd
    systemctl reset-failed hertzd 2>/dev/null || :
    rm -rf "$DROPINS" "${STATE:?}"/*
    cat >$CONFIG
    # Where the machine takes its processor time away for seconds, hertzd is not to be restarted.
    mkdir -p $DROPINS
    printf '%s\n' '[Service]' "WatchdogSec=${WATCHDOG:-60s}" "$@" >$DROPINS/test.conf
    systemctl daemon-reload
    systemctl start hertzd
    INVOCATION=$(show InvocationID)
}

show()     { systemctl show hertzd -P "$1"; }
is()       { [ "$(show "$1")" = "$2" ]; }
main_pid() { show MainPID; }
active()   { systemctl is-active --quiet hertzd; }
# snapshot FILTER: the status of the running service, well or not, filtered by jq. It gives up after 2 s, for which a busy machine may
# hold up either of them: then it is asked again.
snapshot() {
    local try code text
    for try in 1 2 3 4 5; do
        code=0
        text=$(hertzd status --json) || code=$?
        [ $code = 69 ] && [ $try != 5 ] || break
        sleep 0.2
    done
    [ $code -le 1 ] && jq -r "$1" <<<"$text"
}
# task NAME FIELD
task()     { snapshot ".tasks[] | select(.task == \"$1\") | .$2"; }
# says CODE WORDS: `hertzd status` exits with this code, and the reason in /tmp/status has these words.
says()     { local code=0; hertzd status --json >/tmp/status || code=$?; [ $code = "$1" ] && jq -e --arg words "$2" '.reason | contains($words)' /tmp/status; }
ticked()   { [ "$(task "$1" ran)" -ge "$2" ]; }
# entries [MATCH]...: journal entries of the latest start, as JSON, after a sync.
entries()  { journalctl --sync; journalctl -q -o json "_SYSTEMD_INVOCATION_ID=$INVOCATION" "$@"; }
messages() { entries "$@" | jq -r '.MESSAGE | if type == "array" then implode else . end'; }
# sum FIELD MATCH...: the sum of a field over the entries.
sum()      { local field=$1; shift; entries "$@" | jq -s "map(.$field // \"0\" | tonumber) | add // 0"; }
# worker NAME: the id of its thread.
worker()   { grep -lsx "hz-$1" "/proc/$(main_pid)"/task/*/comm | head -n 1 | cut -d / -f 5; }

# As lines of `setup`: the final summary, which goes to stdout, is the last line of /tmp/summary. The log goes to the journal
# by stderr.
WITH_SUMMARY=(ExecStart= 'ExecStart=/usr/bin/hertzd run --json' StandardOutput=append:/tmp/summary StandardError=journal)
# summary NAME FILTER: of task NAME in that summary, by jq.
summary()  { tail -n 1 /tmp/summary | jq -c ".tasks[] | select(.task == \"$1\") | $2"; }
# steady: as `setup`, with nothing but a task of this name, which misses more than it may when it is stopped for 4 s; returns
# when that has ticked for a while.
steady() {
    setup "${WITH_SUMMARY[@]}" <<'END'
[worker.main]
[task.steady]
kind = "load"
worker = "main"
rate = 100
max-missed = "20%"
END
    within 60 ticked steady 100
}
# adds_up NAME...: the final summary of these tasks adds up, and so do their entries in the journal.
adds_up() {
    local name field sums
    for name; do
        echo "# $name: $(summary "$name" '{due, met, missed, overruns, skipped, causes}')"
        sums=$(entries MESSAGE_ID=$OVERRUN MESSAGE_ID=$GIVEN_UP HERTZD_TASK="$name" | jq -cs "
            def sum(field): map(field // \"0\" | tonumber) | add // 0;
            {missed: sum(.HERTZD_MISSED), overruns: sum(.HERTZD_OVERRUN), skipped: sum(.HERTZD_SKIPPED),
                causes: (map(.HERTZD_CAUSES | split(\" \")[] | split(\"=\")) | group_by(.[0])
                    | map({(.[0][0]): (map(.[1] | tonumber) | add)}) | add // {}),
                without: map(select(.MESSAGE_ID == \"$GIVEN_UP\")) | sum(.HERTZD_OVERRUN)}")
        same "$name: met + missed = due, and nothing is pending" "$(summary "$name" '[.due, 0]')" \
            "$(summary "$name" '[.met + .missed, .pending]')"
        same "  ran + skipped = due" "$(summary "$name" .due)" "$(summary "$name" '.ran + .skipped')"
        same "  its causes add up to missed" "$(summary "$name" .missed)" "$(summary "$name" '[.causes[]] | add // 0')"
        for field in missed overruns skipped causes; do
            same "  the journal's sum is the summary's $field" "$(summary "$name" ".$field")" "$(jq -c ".$field" <<<"$sums")"
        done
        same "  entries without an overrun have the other id" 0 "$(jq .without <<<"$sums")"
    done
}
