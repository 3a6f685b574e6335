# shellcheck shell=bash
# A Debian that boots a real systemd with journald, in a container. Sourced; needs root, and lib.sh.
#
# The root file system is built once and never changes: a tmpfs over it takes what a container writes.

CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/hertzd-system
# The binary under test runs on the container's C library, so the container has the host's release if the host is Debian.
# shellcheck source=/etc/os-release
SUITE=${HERTZD_SUITE:-$(. /etc/os-release; [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-bookworm}" || echo bookworm)}

# rootfs: prints the folder of the root file system; builds it first if needed.
rootfs() {
    local include=systemd,systemd-sysv,procps,passwd,jq,libasound2,python3
    # shellcheck disable=SC2016 # $1 is for mmdebstrap
    local options=(
        --mode=root --variant=apt --include="$include"
        '--aptopt=APT::Install-Recommends "0"' '--aptopt=Acquire::Languages "none"'
        '--dpkgopt=path-exclude=/usr/share/doc/*' '--dpkgopt=path-exclude=/usr/share/man/*'
        '--dpkgopt=path-exclude=/usr/share/locale/*' '--dpkgopt=path-exclude=/usr/share/info/*'
        # Tested packages are installed with their documentation; the container sets its own host name and DNS.
        '--customize-hook=rm -f "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap" "$1/etc/hostname" "$1/etc/resolv.conf"'
    )
    local key folder
    key=$(printf '%s\n' "$SUITE" "${options[@]}" | sha256sum | cut -c1-12)
    folder=$CACHE/$SUITE-$key
    mkdir -p "$CACHE"
    (
        flock 9
        [ -d "$folder" ] && exit
        rm -rf "$folder.part"
        mmdebstrap --quiet "${options[@]}" "$SUITE" "$folder.part" >&2
        mv "$folder.part" "$folder"
    ) 9>"$CACHE/.lock"
    [ -d "$folder" ] && printf '%s\n' "$folder"
}

# up HOST:INSIDE...: boots a container with these folders mounted read-only, and waits until it is up. $WORK/boot gets its
# output at boot.
up() {
    local binds=() folder
    for bind; do binds+=("--bind-ro=$bind"); done
    folder=$(rootfs)
    # Without CAP_IPC_LOCK, nspawn's own filter refuses mlockall, regardless of the unit.
    setsid systemd-nspawn -q -D "$folder" --volatile=overlay --boot --register=no --keep-unit \
        --machine="hertzd-$$" --console=pipe --capability=CAP_IPC_LOCK "${binds[@]}" </dev/null >"$WORK/boot" 2>&1 &
    NSPAWN=$! LEADER=
    if ! within 60 pgrep -P "$NSPAWN" || ! LEADER=$(pgrep -P "$NSPAWN" | head -n 1) || ! within 60 booted; then
        cat "$WORK/boot" >&2
        return 1
    fi
}

# inside COMMAND...: as root in the container.
inside() { nsenter -t "$LEADER" -a -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }

booted() { case $(inside systemctl is-system-running) in running|degraded) ;; *) return 1 ;; esac; }

# down: ends the container in any state.
down() {
    [ -n "${NSPAWN:-}" ] && [ -d "/proc/$NSPAWN" ] || return 0
    if [ -n "$LEADER" ]; then inside systemctl poweroff >/dev/null 2>&1 || :; fi
    within 10 ended || kill -KILL "${LEADER:-$NSPAWN}" 2>/dev/null || :
    wait "$NSPAWN" 2>/dev/null || :
}

ended() { [ ! -d "/proc/$NSPAWN" ] || grep -q '^State:.*zombie' "/proc/$NSPAWN/status"; }
