"""silent_file.py FILE HANGS: puts a file system of one file (FUSE) over FILE, which does not answer while HANGS exists, as a server that is
away. It ends, and is unmounted, when its standard input does."""

import ctypes, os, struct, subprocess, sys, threading, time

path, hangs = sys.argv[1], sys.argv[2]
device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
mounted = ctypes.CDLL(None, use_errno=True).mount(
    b"silent", path.encode(), b"fuse", 0, b"fd=%d,rootmode=100000,user_id=0,group_id=0,allow_other" % device)
if mounted != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
content = bytearray(b"0\n")


def attributes():
    # struct fuse_attr_out: valid for no time, then inode, size, blocks, three times, their nanoseconds, mode, links, owner, block size.
    return struct.pack("<QII6Q3I7I", 0, 0, 0, 1, len(content), 1, 0, 0, 0, 0, 0, 0, 0o100644, 1, 0, 0, 0, 4096, 0)


def answer(code, body):
    if code == 26:  # INIT
        return struct.pack("<4I2H2I32x", 7, 31, 65536, 0, 1, 1, 65536, 1)
    if code == 3:  # GETATTR
        return attributes()
    if code == 4:  # SETATTR
        valid, size = struct.unpack_from("<I12xQ", body)
        if valid & 8:
            content[size:] = bytes(max(size - len(content), 0))
        return attributes()
    if code == 14:  # OPEN, without a cache
        return struct.pack("<QII", 0, 1, 0)
    if code == 15:  # READ
        offset, size = struct.unpack_from("<8xQI", body)
        return bytes(content[offset:offset + size])
    if code == 16:  # WRITE
        offset, size = struct.unpack_from("<8xQI", body)
        content[offset:offset + size] = body[40:40 + size]
        return struct.pack("<II", size, 0)
    return b"" if code in (18, 20, 25, 34) else None  # RELEASE, FSYNC, FLUSH, ACCESS


def serve():
    while True:
        request = os.read(device, 1 << 18)
        while os.path.exists(hangs):
            time.sleep(0.005)
        _, code, unique = struct.unpack_from("<IIQ", request)
        if code in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET: without an answer
            continue
        reply = answer(code, request[40:])
        error, reply = (0, reply) if reply is not None else (-38, b"")
        os.write(device, struct.pack("<IiQ", 16 + len(reply), error, unique) + reply)


threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
subprocess.run(["umount", "--lazy", path])
os._exit(0)
