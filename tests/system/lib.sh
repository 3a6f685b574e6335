# shellcheck shell=bash
# Checks and waits, for `run` and for the scripts that it runs in the container and in the virtual machine. Sourced.

PASSED=0 FAILED=0 SKIPPED=0
# How many times as long as others this machine may take.
PATIENCE=${PATIENCE:-1}

ok()     { PASSED=$((PASSED + 1)); printf 'ok    %s\n' "$*"; }
not_ok() { FAILED=$((FAILED + 1)); printf 'FAIL  %s\n' "$*"; }
skip()   { SKIPPED=$((SKIPPED + 1)); printf 'skip  %s\n' "$*"; }

# check NAME COMMAND...: it must succeed.
check()  { local name=$1; shift; if "$@" >/dev/null 2>&1; then ok "$name"; else not_ok "$name"; fi; }
# refuse NAME COMMAND...: it must fail.
refuse() { local name=$1; shift; if "$@" >/dev/null 2>&1; then not_ok "$name"; else ok "$name"; fi; }
# same NAME WANTED FOUND
same()   { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1: wanted '$2', found '$3'"; fi; }
# has NAME TEXT WORDS: the text contains the words.
has()    { case $2 in *"$3"*) ok "$1" ;; *) not_ok "$1: no '$3' in '$(head -c 600 <<<"$2")'" ;; esac; }
# lacks NAME TEXT WORDS
lacks()  { case $2 in *"$3"*) not_ok "$1: '$3' in '$(head -c 600 <<<"$2")'" ;; *) ok "$1" ;; esac; }
# at_most NAME FOUND LIMIT: numbers, with or without a fraction.
at_most() {
    if awk -v a="$2" -v b="$3" 'BEGIN { exit !(a != "" && a <= b) }'; then ok "$1 ($2)"; else not_ok "$1: $2 is above $3"; fi
}

print_counts() { printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"; }

millis() { date +%s%3N; }
# since START: seconds from START (of `millis`) until now.
since()  { awk -v ms="$(($(millis) - $1))" 'BEGIN { printf "%.3f", ms / 1000 }'; }

# within SECONDS COMMAND...: runs it every 50 ms until it succeeds; fails when the time is up, or PATIENCE times that.
within() {
    local end=$(($(millis) + $1 * 1000 * PATIENCE)); shift
    until "$@" >/dev/null 2>&1; do
        [ "$(millis)" -lt "$end" ] || return 1
        sleep 0.05
    done
}
