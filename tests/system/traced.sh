# shellcheck shell=bash disable=SC2034
# What a worker's thread asks of the kernel and of the allocator while it ticks, by the kernel's own tracing: nothing is
# stopped or slowed as by strace. Sourced, after in-vm/common.sh.

TRACING=/sys/kernel/tracing

# watch WORKER SECONDS: watches that worker's thread for so long. Then CALLS has its system calls by number, each with how
# often ("16 90"), IOCTLS the requests among them, and ALLOCATIONS how often it called malloc, calloc, realloc,
# posix_memalign or free. COVERED is how often all threads did, so that a probe which sees nothing at all is noticed.
watch() {
    local thread libc offset name lines
    thread=$(worker "$1")
    libc=$(awk '$6 ~ /libc\.so/ { print $6; exit }' "/proc/$(main_pid)/maps")
    echo 0 >$TRACING/tracing_on
    echo 16384 >$TRACING/buffer_size_kb
    echo >$TRACING/trace
    while read -r name offset; do
        echo "p:allocator/$name $libc:$offset" >>$TRACING/uprobe_events
    done < <(python3 - "$libc" malloc calloc realloc posix_memalign free <<'END'
import struct, sys
data = open(sys.argv[1], 'rb').read()
def sections():
    at, size, count = struct.unpack_from('<Q', data, 40)[0], *struct.unpack_from('<HH', data, 58)
    return [struct.unpack_from('<IIQQQQIIQQ', data, at + index * size) for index in range(count)]
def segments():
    at, size, count = struct.unpack_from('<Q', data, 32)[0], *struct.unpack_from('<HH', data, 54)
    return [struct.unpack_from('<IIQQQQQQ', data, at + index * size) for index in range(count)]
all = sections()
symbols = next(section for section in all if section[1] == 11)
texts = all[symbols[6]][4]
wanted = set(sys.argv[2:])
for at in range(symbols[4], symbols[4] + symbols[5], 24):
    name, kind, _, section, value, _ = struct.unpack_from('<IBBHQQ', data, at)
    text = data[texts + name:data.index(b'\0', texts + name)].decode()
    if text in wanted and section:
        wanted.discard(text)
        load = next(s for s in segments() if s[0] == 1 and s[3] <= value < s[3] + s[6])
        print(text, hex(value - load[3] + load[2]))
END
)
    echo 1 >$TRACING/events/allocator/enable
    echo "common_pid == $thread" >$TRACING/events/raw_syscalls/sys_enter/filter
    echo 1 >$TRACING/events/raw_syscalls/sys_enter/enable
    echo 1 >$TRACING/tracing_on
    sleep "$2"
    snapshot .version >/dev/null
    echo 0 >$TRACING/tracing_on
    echo 0 >$TRACING/events/raw_syscalls/sys_enter/enable
    echo 0 >$TRACING/events/allocator/enable
    lines=$(grep -E -- "-$thread +\[" $TRACING/trace || :)
    CALLS=$(sed -n 's/.* sys_enter: NR \([0-9]*\) .*/\1/p' <<<"$lines" | sort -n | uniq -c | awk '{ print $2, $1 }')
    IOCTLS=$(sed -n 's/.* sys_enter: NR 16 ([^,]*, \([^,]*\),.*/\1/p' <<<"$lines" | sort | uniq -c | awk '{ print $2, $1 }')
    ALLOCATIONS=$(grep -cE ': (malloc|calloc|realloc|posix_memalign|free):' <<<"$lines" || :)
    COVERED=$(grep -cE ': (malloc|calloc|realloc|posix_memalign|free):' $TRACING/trace || :)
    echo >$TRACING/uprobe_events
}
# times WHICH LIST: how often, of CALLS or IOCTLS.
times() { awk -v wanted="$1" '$1 == wanted { n = $2 } END { print n + 0 }' <<<"$2"; }
