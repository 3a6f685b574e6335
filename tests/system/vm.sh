# shellcheck shell=bash
# A Debian 12 with its PREEMPT_RT kernel and real drivers, without hardware: QEMU emulates it, without KVM. Sourced; needs
# root, lib.sh, and $WORK for the output of a run.
#
# The machine is built and booted once, and saved while it waits for a command. Each run continues from there, on a copy
# that is discarded afterwards. It is one of amd64, or of arm64, for which this machine needs nothing but QEMU: nothing of ARM is
# registered here.

CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/hertzd-system
TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# machine_is ARCH: sets how the machines differ.
machine_is() {
    MACHINE=$1
    case $1 in
        amd64)
            ARCHITECTURES=amd64 PACKAGES='' LACKING='' CROSS='' BOOTSTRAP=() SOURCES=() PINS=''
            QEMU=(qemu-system-x86_64 -machine q35 -cpu Nehalem) CONSOLE=ttyS0
            LINE=ttyS1 SERIAL=(-serial stdio)
            PATIENCE=1 ;;
        # With what a program of armhf needs. A library that is there for both must have one version, and updates of the two are not
        # published at once: so of these the kernel alone. Of the drivers, Debian's kernel for arm64 lacks more.
        arm64)
            ARCHITECTURES=arm64,armhf PACKAGES=,libc6:armhf,libgcc-s1:armhf,libasound2:armhf LACKING='i2c/i2c-stub hwmon/lm63' CROSS=aarch64-linux-gnu- BOOTSTRAP=(as_arm)
            SOURCES=("deb http://deb.debian.org/debian bookworm main"
                "deb [arch=arm64] http://deb.debian.org/debian-security bookworm-security main")
            PINS=$'Package: *\nPin: release l=Debian-Security\nPin-Priority: 100\n\nPackage: linux-*\nPin: release l=Debian-Security\nPin-Priority: 500\n'
            QEMU=(qemu-system-aarch64 -machine virt -cpu cortex-a72) CONSOLE=ttyAMA0
            LINE=ttyS0 SERIAL=(-chardev "stdio,id=line" -device "pci-serial,chardev=line")
            PATIENCE=4 ;;
    esac
}
machine_is amd64

# as_arm COMMAND...: runs it as root of a user namespace with all users of this machine, where the kernel starts programs of ARM
# by QEMU. What is registered there (the kernel has a table per user namespace since 6.7) ends with it.
as_arm() (
    unshare --user sleep infinity &
    holder=$!
    trap 'kill $holder' EXIT
    until [ "$(readlink /proc/self/ns/user)" != "$(readlink /proc/$holder/ns/user)" ]; do sleep 0.05; done
    echo '0 0 65536' >/proc/$holder/uid_map
    echo '0 0 65536' >/proc/$holder/gid_map
    # shellcheck disable=SC2016 # the inner shell expands it
    nsenter -t $holder --user unshare --mount --propagation private --pid --fork --kill-child --mount-proc bash -euc '
        mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || {
            echo "this kernel has no table of program formats for a user namespace: that needs Linux 6.7 or later with binfmt_misc" >&2
            exit 1
        }
        for name in aarch64 arm; do
            IFS=: read -r _ key type offset magic mask _ </usr/lib/binfmt.d/qemu-$name.conf || :
            # F: opened now, so that it is found in any root folder.
            printf ":%s:%s:%s:%s:%s:%s:OCF" "$key" "$type" "$offset" "$magic" "$mask" "/usr/bin/qemu-$name-static" >/proc/sys/fs/binfmt_misc/register
        done
        # It has no sysfs of its own, which is not missed.
        exec "$@" 2> >(grep -v -e "/sys: permission denied" -e "dmesg(1) may have" >&2)' - "$@"
)

# make_root FOLDER KERNEL: builds the root file system in FOLDER/root, with this kernel.
make_root() {
    local include=systemd,systemd-sysv,udev,kmod,procps,passwd,jq,python3,initramfs-tools,linux-image-$2
    include+=,v4l-utils,alsa-utils,i2c-tools,gpiod,can-utils,iproute2,strace$PACKAGES
    local path options=(
        --mode=root --variant=apt --architectures="$ARCHITECTURES" --include="$include"
        '--aptopt=APT::Install-Recommends "0"' '--aptopt=Acquire::Languages "none"'
    )
    for path in doc man locale info; do options+=("--dpkgopt=path-exclude=/usr/share/$path/*"); done
    # Of 4,000 modules, only those that the tests use.
    options+=('--dpkgopt=path-exclude=/lib/modules/*/kernel/*')
    for path in arch crypto lib net/9p net/can fs/9p fs/netfs fs/fscache fs/ext4 fs/jbd2 fs/mbcache fs/configfs drivers/block/virtio_blk \
        drivers/virtio drivers/char drivers/gpio drivers/hwmon drivers/i2c drivers/iio drivers/net/can drivers/media/common \
        drivers/media/cec drivers/media/mc drivers/media/rc/rc-core drivers/media/test-drivers drivers/media/v4l2-core \
        sound/core sound/drivers sound/soundcore; do
        options+=("--dpkgopt=path-include=/lib/modules/*/kernel/$path*")
    done
    [ -z "$PINS" ] || options+=("--setup-hook=printf '%s' '$PINS' >\"\$1/etc/apt/preferences.d/pins\"")
    # An initial RAM disk that only mounts the root file system.
    # shellcheck disable=SC2016 # $1 is for mmdebstrap
    options+=(
        '--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"
            echo MODULES=list >"$1/etc/initramfs-tools/conf.d/small"
            printf "%s\n" virtio_pci virtio_blk crc32c_generic ext4 >"$1/etc/initramfs-tools/modules"'
        # Tested packages are installed with their documentation.
        '--customize-hook=rm -f "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap" "$1/etc/resolv.conf"
            echo hertzd-test >"$1/etc/hostname"; md5sum <"$1/etc/hostname" | cut -d " " -f 1 >"$1/etc/machine-id"'
    )
    "${BOOTSTRAP[@]}" mmdebstrap --quiet "${options[@]}" bookworm "$1/root" "${SOURCES[@]}" || {
        echo "no root file system; if Debian has newer than linux-image-$2: apt-get install linux-headers-rt-amd64 linux-source-6.1"
        return 1
    }
    cat >"$1/root/usr/local/sbin/from-host" <<'END'
#!/bin/bash
# Reports that the machine waits, at which point it can be saved, and runs the host's command: "install", then it waits
# again, or the name of a script of in-vm/, then it powers off.
until case $(systemctl is-system-running) in running|degraded) ;; *) false ;; esac; do sleep 0.2; done
modprobe -a 9pnet_virtio 9p
stty -F "/dev/$LINE" raw -echo
exec <>"/dev/$LINE" 1>&0 2>&0
folder() { mkdir -p "/srv/$1"; mount -t 9p -o "$2,trans=virtio,version=9p2000.L,msize=262144" "$1" "/srv/$1"; }
while echo waiting; read -r name; do
    folder out rw
    folder package ro,cache=loose
    folder system ro,cache=loose
    # The host's clock stamps the file; the machine's own clock stopped while it was saved.
    touch /srv/out/now && date -s "@$(stat -c %.9Y /srv/out/now)" >/dev/null
    cd /root
    if [ "$name" = install ]; then
        dpkg -i /srv/package/hertzd_*.deb </dev/null 2>&1 | cat
        systemctl stop hertzd && umount /srv/out /srv/package /srv/system && continue
    fi
    # Not to the serial line itself: on a terminal, programs print in colour. Processes that a script leaves running block nothing.
    bash "/srv/system/in-vm/$name.sh" </dev/null > >(cat) 2>&1
    sleep 0.2
    journalctl --sync
    journalctl -q -o short-precise >/srv/out/journal
    # Without a clean shutdown: everything that is kept is on the host.
    systemctl poweroff -ff >/dev/null 2>&1
done
END
    chmod +x "$1/root/usr/local/sbin/from-host"
    cat >"$1/root/etc/systemd/system/from-host.service" <<END
[Service]
ExecStart=/usr/local/sbin/from-host
Environment=HOME=/root LC_ALL=C.UTF-8 LINE=$LINE PATIENCE=$PATIENCE

[Install]
WantedBy=multi-user.target
END
    systemctl --root="$1/root" --quiet enable from-host.service
}

# fetch_headers FOLDER KERNEL: unpacks another architecture's headers of the kernel into FOLDER/headers. Installed they would want its
# compiler. Those that are common to all are there with this machine's own.
fetch_headers() {
    local package
    package=linux-headers-$2:$MACHINE=$(dpkg-query -W -f '${Version}' linux-source-6.1)
    mkdir -p "$1/headers/usr/lib"
    cd "$1/headers"
    # A list of a third architecture that cannot be had now would keep that of this one away.
    printf 'APT { Architectures { "amd64"; "%s"; }; Sandbox::User "root"; };\n' "$MACHINE" >../apt.conf
    export APT_CONFIG=$PWD/../apt.conf
    apt-get download -qq "$package" 2>/dev/null || { apt-get update -qq && apt-get download -qq "$package"; } ||
        { echo "apt has no $package here"; return 1; }
    dpkg -x ./*.deb .
    ln -s /usr/lib/linux-kbuild-6.1 usr/lib/
}

# make_modules FOLDER KERNEL: builds the test drivers that Debian's kernel lacks from Debian's source of that kernel, into
# FOLDER/root: gpio-sim, iio_dummy with its buffer and events, its triggers by timer and by a write, the PWM chip pca9685, and
# $LACKING.
make_modules() {
    local build=$1/modules source=linux-source-6.1 extra=$1/root/lib/modules/$2/extra headers=/usr/src/linux-headers-$2 name
    mkdir -p "$build" "$extra"
    tar -xf "/usr/src/$source.tar.xz" -C "$build" --strip-components=1 "$source"/drivers/{gpio,iio,pwm,i2c,hwmon} "$source/kernel/irq"
    [ -e "$headers" ] || headers=$1/headers$headers
    (
        cd "$build"
        mv drivers/gpio/{gpio-sim.c,gpiolib.h} kernel/irq/irq_sim.c drivers/iio/dummy/*.[ch] \
            drivers/iio/industrialio-{configfs,sw-device,sw-trigger}.c drivers/iio/trigger/iio-trig-{hrtimer,sysfs}.c drivers/pwm/pwm-pca9685.c .
        for name in $LACKING; do
            mv "drivers/$name.c" .
            echo "obj-m += ${name##*/}.o" >>Kbuild
        done
        rm -r drivers kernel
        # irq_sim is not meant to be a module: it declares no licence, and calls a function that is not exported.
        sed -i 's/irq_to_desc(irqnum)/irq_data_to_desc(irq_get_irq_data(irqnum))/' irq_sim.c
        printf '%s\n' '#include <linux/module.h>' 'MODULE_LICENSE("GPL");' >>irq_sim.c
        printf '%s\n' 'ccflags-y := -DCONFIG_IIO_SIMPLE_DUMMY_EVENTS=1 -DCONFIG_IIO_SIMPLE_DUMMY_BUFFER=1' \
            'iio_dummy-y := iio_simple_dummy.o iio_simple_dummy_events.o iio_simple_dummy_buffer.o' \
            'obj-m += irq_sim.o gpio-sim.o iio_dummy.o iio_dummy_evgen.o iio-trig-hrtimer.o iio-trig-sysfs.o pwm-pca9685.o' \
            'obj-m += industrialio-configfs.o industrialio-sw-device.o industrialio-sw-trigger.o' >>Kbuild
    )
    make -s -C "$headers" M="$build" CROSS_COMPILE="$CROSS" modules >"$1/make" 2>&1 || { cat "$1/make"; return 1; }
    cp "$build"/*.ko "$extra/"
    "${CROSS}strip" -d "$extra"/*.ko
    depmod -b "$1/root" "$2"
    rm -rf "$build" "$1/headers"
}

# make_image FOLDER KERNEL: makes the files that QEMU boots from FOLDER/root.
make_image() {
    local root=$1/root
    cp "$root/boot/vmlinuz-$2" "$1/kernel"
    cp "$root/boot/initrd.img-$2" "$1/initrd"
    truncate -s "$(($(du -sm "$root" | cut -f 1) + 400))M" "$1/root.img"
    mke2fs -q -F -t ext4 -O '^has_journal' -m 0 -E lazy_itable_init=0 -d "$root" "$1/root.img"
    rm -rf "$root" || : # what stays takes only room
    qemu-img create -q -f qcow2 -F raw -b root.img "$1/saved"
}

# emulate FOLDER DISK OUT PACKAGE SYSTEM ARGUMENT...: runs QEMU with the options that a saved machine requires to be the
# same every time. Its second serial line is stdin and stdout. Replaces the shell: call it in the background.
emulate() {
    local folder=$1 disk=$2 out=$3 package=$4 system=$5; shift 5
    exec timeout -k 5 "${LIMIT:-$((1200 * PATIENCE))}" "${QEMU[@]}" -accel tcg,thread=multi,tb-size=512 -smp 2 -m 1024 \
        -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$folder/kernel" -initrd "$folder/initrd" \
        -append "root=/dev/vda rw console=$CONSOLE quiet panic=-1 fsck.mode=skip mitigations=off nokaslr audit=0 apparmor=0 \
cryptomgr.notests systemd.show_status=0 systemd.mask=timers.target systemd.mask=getty.target" \
        -drive "file=$disk,if=virtio,format=qcow2,cache=unsafe" \
        -virtfs "local,path=$out,mount_tag=out,security_model=none,multidevs=remap" \
        -virtfs "local,path=$package,mount_tag=package,security_model=none,multidevs=remap,readonly=on" \
        -virtfs "local,path=$system,mount_tag=system,security_model=none,multidevs=remap,readonly=on" \
        -serial "file:$out/console" "${SERIAL[@]}" "$@"
}

# save FOLDER DISK PACKAGE COMMAND [ARGUMENT]...: starts QEMU, sends COMMAND to the machine, and once it waits, saves its
# memory in DISK, together with its file system.
save() {
    local folder=$1 disk=$2 package=$3 command=$4 out serial; shift 4
    out=$(mktemp -d) serial=$out/serial
    mkfifo "$out"/monitor.{in,out}
    emulate "$folder" "$disk" "$out" "$package" "$TESTS" "$@" -monitor "pipe:$out/monitor" \
        < <(printf %s "$command") >"$serial" 2>&1 9>&- &
    # shellcheck disable=SC2064 # expand now: this process
    trap "kill $! 2>/dev/null || :; rm -r $out" EXIT
    exec 7<>"$out/monitor.out" 8<>"$out/monitor.in"
    within 300 grep -q waiting "$serial" || { cat "$serial" "$out/console"; return 1; }
    printf '%s\n' 'savevm waiting' quit >&8
    wait "$!" || { cat "$serial"; return 1; }
    exec 7<&- 8<&-
    qemu-img snapshot -l "$disk" | grep -q waiting
}

# machine: prints the folder of the saved machine; builds it first if needed.
machine() {
    local headers kernel key folder
    # The modules must match the running kernel, so the machine gets the kernel whose headers are installed here.
    headers=$(dpkg-query -W -f '${Version} ${Depends}' linux-headers-rt-amd64) || return
    kernel=$(grep -o '6\.1\.[^ ]*-rt-amd64' <<<"$headers") || { echo "linux-headers-rt-amd64 here is not of Debian 12" >&2; return 1; }
    kernel=${kernel%amd64}$MACHINE
    key=$(printf '%s\n' "$headers" "$ARCHITECTURES $PACKAGES $LACKING $CROSS ${BOOTSTRAP[*]} ${SOURCES[*]} $PINS ${QEMU[*]}" \
        "$CONSOLE $LINE ${SERIAL[*]} $PATIENCE" "$(declare -f as_arm make_root fetch_headers make_modules make_image emulate save)" | sha256sum | cut -c1-12)
    folder=$CACHE/vm-$MACHINE-$key
    mkdir -p "$CACHE"
    # One lock per machine, so that building one does not block another.
    [ -d "$folder" ] || (
        set -e
        flock 9
        [ -d "$folder" ] && exit
        rm -rf "$folder.part"
        mkdir "$folder.part"
        # First, since what apt may lack is known at once, and the next step takes long.
        [ -e "/usr/src/linux-headers-$kernel" ] || (fetch_headers "$folder.part" "$kernel")
        echo "# making a virtual machine of $MACHINE with $kernel: Debian"
        make_root "$folder.part" "$kernel"
        echo "# its drivers"
        make_modules "$folder.part" "$kernel"
        make_image "$folder.part" "$kernel"
        echo "# its first boot"
        save "$folder.part" "$folder.part/saved" "$TESTS" ""
        mv "$folder.part" "$folder"
    ) 9>"$folder.lock" >&2
    [ -d "$folder" ] && printf '%s\n' "$folder"
}

# with_package MACHINE FOLDER: prints the file of the saved machine that has the package of FOLDER installed and hertzd
# stopped; makes it first if needed. Deletes the files of earlier packages.
with_package() {
    local disk
    disk=$1/with-$(cat "$2"/hertzd_*.deb | sha256sum | cut -c1-12)
    [ -e "$disk" ] && touch "$disk" || (
        set -e
        flock 9
        [ ! -e "$disk" ] || exit 0
        find "$1" -name 'with-*' -mmin +120 -delete
        cp "$1/saved" "$disk.part"
        save "$1" "$disk.part" "$2" $'install\n' -loadvm waiting
        mv "$disk.part" "$disk"
    ) 9>"$disk.lock" >&2
    [ -e "$disk" ] && printf '%s\n' "$disk"
}

# in_vm SAVED NAME FOLDER: continues from SAVED with in-vm/NAME.sh, or in/NAME.sh, and prints its output. Afterwards FOLDER/out has the files of
# /srv/out, the journal and the console.
in_vm() {
    local folder=$3 status=0 script=$2
    [ -e "$TESTS/in-vm/$2.sh" ] || script=../in/$2
    rm -rf "$folder/out" "$folder/disk"
    mkdir -p "$folder/out"
    cp "$1" "$folder/disk"
    qemu-img rebase -q -u -F raw -b "${1%/*}/root.img" "$folder/disk"
    emulate "${1%/*}" "$folder/disk" "$folder/out" "$WORK/srv" "$TESTS" \
        -loadvm waiting -monitor none < <(echo "$script") &
    echo $! >"$folder/qemu"
    wait $! || status=$?
    rm "$folder/qemu"
    [ "$status" != 124 ] || echo "ended after ${LIMIT:-$((1200 * PATIENCE))} s"
}

# vm_down FOLDER: ends its machine in any state.
vm_down() { [ ! -e "$1/qemu" ] || kill "$(cat "$1/qemu")" 2>/dev/null || :; }
