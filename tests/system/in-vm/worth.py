"""What a value of each source with a driver is worth in each fault, in every view: worth.py configure|play

What must be shown is read from the table of docs/quality.md. A row that this cannot play fails, and so does a pair that the table lacks. The
sources play their faults side by side, each at its own pace. The clock is set for all of them at once, and for a file, a program and a library
too, whose other faults are played by tests/black_box/worth."""
import array, ctypes, fcntl, glob, json, os, random, re, socket, struct, subprocess, sys, threading, time, urllib.request
from functools import cached_property, partial

STATE, CONFIG, PATIENCE, RECENT = "/var/lib/hertzd", "/etc/hertzd/hertzd.toml", 240, 60
os.environ["COLUMNS"] = "400"
FAULTS = ["frozen", "dead writer", "away", "back", "garbage", "out of range", "transient error", "slow", "clock step"]
VIEWS = ["JSON", "status", "top", "log", "exporter", "report", "CSV", "MCAP"]
MEANING = {"stuck": "it has not changed for stuck-after", "unavailable": "its source is not there", "failed": "it could not be read or computed",
           "not-available": "its source says that it has none", "not-finite": "it is infinite or not a number", "out-of-range": "is outside valid"}
SEEN = {"good": "good", "`none`; what takes it waits for `max-age`": "none", "bad: `(.*)`": "bad", "bad for that tick: `(.*)`; then good": "passing",
        "good at its source; who takes it refuses it: `(.*)`": "refused"}

def run(*command):
    return subprocess.run(command, capture_output=True, text=True)

def write(path, text):
    with open(path, "w") as file:
        file.write(str(text))

def text(path):
    with open(path) as file:
        return file.read().strip()

def words_of(lines):
    return " ".join(lines.split())

def one(pattern):
    return glob.glob(pattern)[0]

class Transfer(ctypes.Structure):
    _fields_ = [("reads", ctypes.c_uint8), ("register", ctypes.c_uint8), ("size", ctypes.c_uint32), ("data", ctypes.c_void_p)]

def bus(name):
    """The node, such as i2c-1, of the bus with this name."""
    return next(path.split("/")[4] for path in glob.glob("/sys/class/i2c-dev/*/name") if text(path) == name)

def put_register(node, chip, register, number, size=2):
    """Writes a byte (2) or a word (3) past the driver that has the chip."""
    data = ctypes.create_string_buffer(struct.pack("=H32x", number))
    with open(f"/dev/{node}", "rb+", buffering=0) as file:
        fcntl.ioctl(file, 0x0706, chip)  # I2C_SLAVE_FORCE
        fcntl.ioctl(file, 0x0720, Transfer(0, register, size, ctypes.addressof(data)))  # I2C_SMBUS

class Source:
    """Something that gives a value, and what happens to it. `mode`: what `write` writes three times a second. `others`: the value of a
    fault that is about another one, which may stay the same."""
    others: dict[str, str] = {}
    value, rate, slow, keys, garbage, transient, elsewhere = "v", 5, "5s", "", "garbage", None, False

    def __init__(self):
        self.task, self.mode, self.is_slow, self.busy, self.tracer = type(self).__name__.lower(), "changing", False, None, None

    def toml(self):
        rate = f'period = "{self.slow}"' if self.is_slow else f"rate = {self.rate}"
        return (f'[worker.{self.task}]\npolicy = "other"\n[task.{self.task}]\nworker = "{self.task}"\n{rate}\nmax-missed = "100%"\noverrun = "drop"\n'
                f'record = "{self.task}.csv"\nrecord-raw = true\nvalid = {{ {self.valid} }}\nstuck-after = {{ {self.value} = "3s" }}\n{self.keys}\n'
                + "".join(map(self.takes, [self.value, *self.others.values()])))

    def takes(self, value):
        taker = f"takes-{self.task}-{value}"
        return (f'[task.{taker}]\nkind = "expr"\nworker = "main"\nrate = 5\nmax-age = "700ms"\nmax-missed = "100%"\nrecord = "worth.mcap"\n'
                f'inputs = {{ x = "{self.task}.{value}" }}\n[[task.{taker}.value]]\nname = "v"\nexpression = "x"\n')

    def names(self, fault):
        """The value in question, and the task that takes it."""
        value = self.others.get(fault, self.value)
        return value, f"takes-{self.task}-{value}"

    def trace(self, inject):
        pid = run("systemctl", "show", "hertzd", "-P", "MainPID").stdout.strip()
        thread = next(path for path in glob.glob(f"/proc/{pid}/task/*/comm") if text(path) == f"hz-{self.task}").split("/")[4]
        call = inject.split(":")[0]
        self.tracer = subprocess.Popen(["strace", "-qq", "-p", thread, "-e", f"trace={call}", "-e", f"inject={inject}", "-o", "/dev/null"],
                                       stderr=subprocess.DEVNULL)

    def apart(self, work):
        """What the kernel may keep waiting until hertzd has let its device go."""
        self.busy = threading.Thread(target=work)
        self.busy.start()

    def cause(self, fault):
        inject = self.garbage if fault == "garbage" else self.transient if fault == "transient error" else None
        if inject and ":" in inject:
            self.trace(inject)
        elif fault in ("away", "back"):
            self.mode = "away"
            self.apart(self.leave)
        elif fault == "slow":
            self.is_slow = True
            reload()
        else:
            self.mode = fault

    def end(self, fault):
        if self.tracer:
            self.tracer.terminate()
            self.tracer.wait()
            self.tracer = None
        if self.mode == "away":
            self.busy.join()
            self.come()
        self.mode = "changing"
        if self.is_slow:
            self.is_slow = False
            reload()

class Hwmon(Source):
    device = property(lambda self: f"{bus('SMBus stub driver')[4:]}-0048")
    valid, keys = "v = [-20, 60]", 'kind = "sensor"\nhwmon = "lm75"\nfile = "temp1_input"\nname = "v"'
    garbage, transient = "pread64:error=ENODATA", "pread64:error=EIO:when=3+10"

    def write(self, n):
        if self.mode != "dead writer":
            half = {"frozen": 50, "out of range": 200 + n % 16}.get(self.mode, 40 + n % 16)
            put_register(bus("SMBus stub driver"), 0x48, 0, half >> 1 | (half & 1) << 15, 3)

    def leave(self):
        write("/sys/bus/i2c/drivers/lm75/unbind", self.device)

    def come(self):
        write("/sys/bus/i2c/drivers/lm75/bind", self.device)

class Iio(Source):
    valid, keys = "v = [0, 1000]", 'kind = "sensor"\niio = "dummy"\nfile = "in_steps_input"\nname = "v"'
    garbage, transient = "pread64:error=ENODATA", "pread64:error=EIO:when=3+10"

    def write(self, n):
        if self.mode not in ("dead writer", "away"):
            write(one("/sys/bus/iio/devices/iio:device*/in_steps_input"), {"frozen": 50, "out of range": 5000 + n % 50}.get(self.mode, 100 + n % 50))

    def leave(self):
        os.rmdir("/sys/kernel/config/iio/devices/dummy/dummy")

    def come(self):
        os.mkdir("/sys/kernel/config/iio/devices/dummy/dummy")

class I2c(Source):
    """An EEPROM on the bus of the machine's chipset, since a bus of i2c-stub cannot be removed while it is open."""
    valid, others, transient = "v = [0, 200], w = [0, 200]", {"garbage": "w"}, "ioctl:error=EREMOTEIO:when=3+7"

    def __init__(self):
        super().__init__()
        self.name = next(name for name in map(text, glob.glob("/sys/class/i2c-dev/*/name")) if "I801" in name)
        self.pci = os.path.basename(os.path.realpath(f"/sys/bus/i2c/devices/{bus(self.name)}/.."))
        self.keys = f'kind = "i2c"\nbus = "{self.name}"\naddress = 0x52\n'
        self.keys += "".join(f'[[task.i2c.value]]\nregister = {register}\ntype = "u8"\nname = "{name}"\n' for register, name in ((0x40, "v"), (0x41, "w")))

    def write(self, n):
        if self.mode not in ("dead writer", "away"):
            put_register(bus(self.name), 0x52, 0x40, {"frozen": 50, "out of range": 210 + n % 20}.get(self.mode, 20 + n % 50))
            put_register(bus(self.name), 0x52, 0x41, 255 if self.mode == "garbage" else 50)

    def leave(self):
        write("/sys/bus/pci/drivers/i801_smbus/unbind", self.pci)

    def come(self):
        write("/sys/bus/pci/drivers/i801_smbus/bind", self.pci)

class Gpio(Source):
    valid, others = "v = [0, 1], lock = [0, 0.5]", {"out of range": "lock"}
    keys, transient = 'kind = "gpio"\nchip = "testbed"\nlines = [1, 2]\nnames = ["v", "lock"]\nedges = "none"', "ioctl:error=EIO:when=3+10"

    def write(self, n):
        if self.mode not in ("dead writer", "away"):
            self.pull(2, self.mode == "out of range")
            for _ in range(6 if self.mode == "garbage" else 1):
                self.pull(1, {"frozen": 1, "garbage": random.randrange(2)}.get(self.mode, int(time.monotonic() / 0.6) % 2))

    def pull(self, line, high):
        write(one(f"/sys/devices/platform/gpio-sim.*/gpiochip*/sim_gpio{line}/pull"), "pull-up" if high else "pull-down")

    def leave(self):
        write("/sys/kernel/config/gpio-sim/sim/live", 0)

    def come(self):
        write("/sys/kernel/config/gpio-sim/sim/live", 1)

class Can(Source):
    valid, keys = "v = [0, 200]", 'kind = "can"\ninterface = "can0"\ntimeout = "2s"\n[[task.can.receive]]\nid = 0x181\nname = "v"\nstart-bit = 0\nlength = 8\nj1939 = true'

    def write(self, n):
        if self.mode not in ("dead writer", "away"):
            number = {"frozen": 50, "garbage": 255, "out of range": 210 + n % 20}.get(self.mode, 20 + n % 50)
            with socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW) as bus:
                bus.bind(("can0",))
                bus.send(struct.pack("=IB3x8s", 0x181, 1, bytes([number])))
                if self.mode == "transient error":
                    bus.send(struct.pack("=IB3x8s", 0x20000004, 8, bytes([0, 4])))

    def leave(self):
        run("ip", "link", "del", "can0")

    def come(self):
        run("ip", "link", "add", "can0", "type", "vcan")
        run("ip", "link", "set", "can0", "up")

class Sound(Source):
    value, rate, slow, valid, transient = "rms", 10, "2500ms", "rms = [0, 0.5]", "clock_nanosleep:delay_enter=1200000:when=3+15"

    player = thread = None

    @property
    def keys(self):
        buffer = "10s" if self.is_slow else "500ms"
        return f'kind = "audio"\ndevice = "hw:Loopback,1,0"\nsample-rate = 16000\nchannels = 1\nsample-format = "f32"\nbuffer = "{buffer}"'

    def write(self, n):
        if not self.thread:
            self.thread = threading.Thread(target=self.play, daemon=True)
            self.thread.start()

    def play(self):
        while True:
            level = {"frozen": 0.25, "dead writer": None, "away": None, "garbage": float("nan"), "out of range": 0.8 + random.random() / 10}.get(self.mode, 0.1 + random.random() / 10)
            try:
                if level is None:
                    self.player = self.player and self.player.kill()
                    time.sleep(0.1)
                    continue
                if not self.player or self.player.poll() is not None:
                    self.player = subprocess.Popen(["aplay", "-q", "-D", "hw:Loopback,0,0", "-t", "raw", "-f", "FLOAT_LE", "-r", "16000", "-c", "1",
                                                    "--buffer-time=500000"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
                    fcntl.fcntl(self.player.stdin, 1031, 8192)  # F_SETPIPE_SZ
                self.player.stdin.write(array.array("f", [level] * 1600).tobytes())
                self.player.stdin.flush()
            except OSError:
                time.sleep(0.2)  # without a device aplay has ended

    def leave(self):
        write("/sys/bus/platform/drivers/snd_aloop/unbind", "snd_aloop.0")

    def come(self):
        write("/sys/bus/platform/drivers/snd_aloop/bind", "snd_aloop.0")

class Pictures(Source):
    value, valid = "brightness", "brightness = [0, 190]"
    keys = 'kind = "video"\ndevice = "vivid"\nsize = "320x180"\nframe-rate = 10\nframes = "latest"'

    controls, after = {}, 0

    def set(self, **numbers):
        """Sets controls of the camera, by their names as v4l2-ctl shows them."""
        with open("/dev/" + os.path.basename(one("/sys/devices/platform/vivid.0/video4linux/video*")), "rb+", buffering=0) as device:
            while "brightness" not in self.controls or self.after:
                query = bytearray(struct.pack("=I64x", self.after | 0x80000000))
                try:
                    fcntl.ioctl(device, 0xC0445624, query)  # VIDIOC_QUERYCTRL: the next one
                    self.after, name = struct.unpack("=I4x32s28x", query)
                    self.controls[re.sub(r"\W+", "_", name.split(b"\0")[0].decode().lower())] = self.after
                except OSError:
                    self.after = 0
            for name, number in numbers.items():
                fcntl.ioctl(device, 0xC008561C, struct.pack("=Ii", self.controls[name], number))  # VIDIOC_S_CTRL

    def write(self, n):
        if self.mode == "away":
            return
        self.set(osd_text_mode=2, brightness={"frozen": 128, "dead writer": 128, "out of range": 240 + n % 15}.get(self.mode, 110 + n % 30),
                 percentage_of_dropped_buffers=100 if self.mode == "dead writer" else 0)
        for _ in range(6 if self.mode == "garbage" else 0):  # each damages one frame, of ten in a second
            self.set(inject_v4l2_buf_flag_error=1)
            time.sleep(0.05)
        if self.mode == "transient error" and n % 10 == 0:
            self.set(inject_fatal_streaming_error=1)

    def leave(self):
        write("/sys/bus/platform/drivers/vivid/unbind", "vivid.0")

    def come(self):
        write("/sys/bus/platform/drivers/vivid/bind", "vivid.0")

class File(Source):
    elsewhere, valid, keys = True, "v = [0, 1000]", 'kind = "sensor"\npath = "/var/lib/number"\nname = "v"\nmax-file-age = "3s"'

    def write(self, n):
        write("/var/lib/number.new", 100 + n % 50 if self.mode == "changing" else 5000)
        os.rename("/var/lib/number.new", "/var/lib/number")

class Program(Source):
    elsewhere, valid = True, "v = [0, 1e9]"
    keys = ('kind = "process"\ncommand = ["python3", "-c", "import hertzd\\nfor tick in hertzd.ticks(): hertzd.out(v=tick.n % 100)"]\n'
            '[[task.program.value]]\nname = "v"')

    def write(self, n):
        pass

class Library(Source):
    elsewhere, value, valid, keys = True, "ticks", "ticks = [0, 1e9]", 'kind = "plugin"\nlibrary = "/srv/package/libprobe.so"\ngain = 1'

    def write(self, n):
        pass

NAMES = {"a file (`sensor`)": File, "a program (`process`)": Program, "a library (`plugin`)": Library, "a hwmon chip (`sensor`)": Hwmon,
         "an IIO device (`sensor`)": Iio, "a chip on I²C (`i2c`)": I2c, "a line (`gpio`)": Gpio, "a CAN signal (`can`)": Can,
         "sound (`audio`)": Sound, "a camera (`video`)": Pictures}

# The views.

class Recording:
    """The newest messages of each topic of an MCAP that grows."""
    def __init__(self):
        self.at, self.topics, self.newest = 8, {}, {}

    def read(self):
        with open(f"{STATE}/worth.mcap", "rb") as file:
            file.seek(self.at)
            data = file.read()
        self.at += self.records(data, True)

    def records(self, data, is_outer):
        at = 0
        while at + 9 <= len(data):
            kind, length = struct.unpack_from("<BQ", data, at)
            if at + 9 + length > len(data):
                break
            body = data[at + 9:at + 9 + length]
            if kind == 6 and is_outer:  # a chunk: times, sizes and a checksum, the name of its compression, and its records
                name = struct.unpack_from("<I", body, 28)[0]
                assert name == 0, "it is compressed"
                self.records(body[40:], False)
            elif kind == 4:  # a channel
                channel, _, size = struct.unpack_from("<HHI", body)
                self.topics[channel] = body[8:8 + size].decode()
            elif kind == 5 and self.topics[struct.unpack_from("<H", body)[0]].endswith("/values"):
                messages = self.newest.setdefault(self.topics[struct.unpack_from("<H", body)[0]], [])
                messages.append(json.loads(body[22:]))
                del messages[:-RECENT]
            at += 9 + length
        return at

class Look:
    """What the views show now, or, of the log, so far. A view is fetched when it is asked for first, and once for all sources."""
    log: list[tuple[str, str | None]] = []

    def __init__(self):
        self.tasks = {task["task"]: task for task in self.json["tasks"]}

    json = cached_property(lambda self: status())
    status = cached_property(lambda self: words_of(run("hertzd", "status").stdout))
    top = cached_property(lambda self: words_of(run("hertzd", "top", "--once").stdout))

    @cached_property
    def report(self):
        """Its page, and its tasks."""
        told = run("hertzd", "report", "--force", "--json", "-o", "/run/worth.html").stdout
        return words_of(text("/run/worth.html")), {task["task"]: task for task in json.loads(told)["run"]["tasks"]}

    @cached_property
    def metrics(self):
        with urllib.request.urlopen("http://127.0.0.1:9464/metrics") as answer:
            return dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))

    @cached_property
    def recorded(self):
        RECORDING.read()
        return RECORDING.newest

    def cells(self, task, value):
        """The newest cells of a value in a CSV, and of its raw number."""
        with open(f"{STATE}/{task}.csv", "rb") as file:
            names = [name.split(" [")[0] for name in file.readline().decode().strip().split(",")]
            file.seek(max(file.tell(), file.seek(0, 2) - 8000))
            lines = [line.split(",") for line in file.read().decode().split("\n")[1:-1]]
        return [[line[names.index(name)] for line in lines[-RECENT:]] for name in (value, f"{value} raw")]

    def is_not(self, source, fault, reason):
        """The source's task, unless the value is bad for this reason."""
        return set() if self.tasks[source.task]["values"][source.names(fault)[0]].get("reason") == reason else {source.task}

    def lacking(self, source, fault, worth, since, wanted):
        """Those of the wanted views that do not show it."""
        (kind, reason), task, (value, taker) = worth, source.task, source.names(fault)
        name, is_bad, is_mixed = f"{task}.{value}", kind in ("bad", "refused"), kind in ("none", "passing")
        of, taken, of_input = self.tasks[task]["values"][value], self.tasks[taker]["values"]["v"], self.tasks[taker].get("inputs", {}).get(name, {})
        # The sentence that says why not all is well: a task that fails is a reason itself.
        is_named = lambda words: f"task {taker} cannot use {name}: " in words or f"task {task} has been " in words
        is_counted = lambda errors: kind != "passing" or int(errors) > since["errors"]

        def in_json():
            is_good = of["quality"] in ("good", kind) and of["last"] is not None and not of_input and taken["quality"] in ("good", kind)
            is_taken = of_input.get("reason") == reason and taken.get("reason") == "inherited" and taken["last"] is None
            is_told = of["quality"] == kind and of.get("reason") == reason and of["last"] is None and of.get("last_good") is not None
            right = {"bad": is_told and is_taken, "refused": of["quality"] == "good" and is_taken}.get(kind, is_good)
            return right and is_named(self.json.get("reason") or "") == is_bad and is_counted(self.tasks[task]["errors"])

        def in_status():
            is_told = f" {task}: {value} bad for " in self.status
            return {"bad": is_told and (of.get("error") or MEANING.get(reason)) in self.status,
                    "refused": not is_told and f" {taker}: its input {name} is {reason} for " in self.status,
                    "passing": not is_told and re.search(rf" {task}: \d+ ticks? failed, ", self.status)}.get(kind, not is_told)

        def in_log():
            # The last word about the input, which comes when the reason changes too.
            last = next((reason or "good" for line, reason in reversed(self.log) if line.startswith((f"{taker}: cannot use {name}: ", f"{taker}: can use {name} again"))), "good")
            is_told = kind != "passing" or any(f"{task}: tick " in line and " failed: " in line for line, _ in self.log[since["log"]:])
            return is_told and last == (reason if is_bad else "good")

        def in_metrics():
            has = lambda what, labels, *more: any(key.startswith(f"hertzd_{what}{{{labels}") and all(word in key for word in more) for key in self.metrics)
            is_refused = has("task_input_bad", f'task="{taker}",input="{name}"', *[f'reason="{reason}"'] * is_bad)
            has_value, has_bad = (has(what, f'task="{task}",value="{value}"') for what in ("task_value", "task_value_bad"))
            right = has_bad and has("task_value_bad", f'task="{task}",value="{value}"', f'reason="{reason}"') if kind == "bad" else not has_bad
            return right and has_value == (kind != "bad") and is_refused == is_bad and is_counted(self.metrics[f'hertzd_task_errors_total{{task="{task}"}}'])

        def in_csv():
            cells, raw = self.cells(task, value)
            if is_mixed:
                return "" in cells and any(cells)
            return (cells[-1] == "") == (kind == "bad") and (reason != "out-of-range" or raw[-1] != "")

        def in_mcap():
            qualities = [message.get("@quality", {}).get("v", "good" if "v" in message else "") for message in self.recorded.get(f"{taker}/values", [{}])]
            if is_mixed:
                return {"good", "none" if kind == "none" else "inherited"} <= set(qualities)
            return qualities[-1] == ("inherited" if is_bad else "good")

        shows = {"JSON": in_json, "status": in_status, "top": lambda: is_named(self.top) == is_bad, "log": in_log, "exporter": in_metrics,
                 "report": lambda: is_named(self.report[0]) == is_bad and is_counted(self.report[1][task]["counts"]["errors"]), "CSV": in_csv, "MCAP": in_mcap}
        # Until it is there, no other view needs a look.
        return wanted if "JSON" in wanted and not in_json() else {view for view in wanted if not shows[view]()}

def status():
    for _ in range(5):
        answer = run("hertzd", "status", "--json")
        if answer.returncode in (0, 1):
            return json.loads(answer.stdout)
    sys.exit(f"hertzd does not answer: {answer}")

# What is played.

def say(is_so, words):
    print(("ok    " if is_so else "FAIL  ") + words, flush=True)

def configure():
    write(CONFIG, '[worker.main]\npolicy = "other"\n' + "".join(source.toml() for source in ALL))

def reload():
    configure()
    answer = run("hertzd", "reload")
    if answer.returncode:
        say(False, f"a reload succeeds: {answer.stdout}{answer.stderr}")

def until(what, wanted=frozenset(VIEWS)):
    """Waits, from look to look, until `what` leaves nothing of what is wanted; a generator. Returns what is left when its patience is over."""
    end = time.monotonic() + PATIENCE
    while wanted and time.monotonic() < end:
        look = yield
        wanted = what(look, wanted)
    return wanted

def cell(source, fault, worth, since):
    begun = time.monotonic()
    lacking = yield from until(lambda look, wanted: look.lacking(source, fault, worth, since, wanted))
    of, taken = (LOOKS[-1].tasks[task] for task in (source.task, source.names(fault)[1]))
    detail = f"; not in {', '.join(sorted(lacking))}: {json.dumps(of['values'])} {json.dumps(taken.get('inputs'))}" if lacking else ""
    say(not lacking, f"{source.task}, {fault}: {' '.join(filter(None, worth))} in every view, after {time.monotonic() - begun:.0f} s{detail}")

def since(source):
    return {"log": len(Look.log), "errors": LOOKS[-1].tasks[source.task]["errors"]}

def play(source):
    """All its faults but the clock's, each from a good value on; a generator that takes a look at each step."""
    is_good = lambda look, wanted: look.lacking(source, "back", ("good", None), {}, wanted)
    for fault in FAULTS[:-1]:
        # A sentence of hertzd names five reasons at most.
        while (fault == "back" or PAGE[source, fault][0] not in ("good", "none")) and len(TROUBLED) == 5:
            yield
        TROUBLED.add(source)
        begun = since(source)
        source.cause(fault)
        if fault == "back":
            yield from until(lambda look, _: look.is_not(source, fault, "unavailable"))
            source.end(fault)
        yield from cell(source, fault, PAGE[source, fault], begun)
        source.end(fault)
        if (yield from until(is_good, {"JSON"})):
            say(False, f"{source.task} is good again after: {fault}")
            return
        TROUBLED.discard(source)

def together(players):
    """Plays all of them, each from look to look."""
    players = list(players)
    for player in players:
        next(player)
    while players:
        time.sleep(0.5)
        LOOKS[:] = [Look()]
        for player in players[:]:
            try:
                player.send(LOOKS[-1])
            except StopIteration:
                players.remove(player)

def writes(source):
    for n in range(1 << 40):
        try:
            source.write(n)
        except (OSError, IndexError, StopIteration):
            pass  # it is away
        time.sleep(0.3)  # more often would take a slow machine's time

def follow():
    lines = subprocess.Popen(["journalctl", "-q", "-u", "hertzd", "-o", "json", "-n", "all", "-f"], stdout=subprocess.PIPE, text=True).stdout
    for line in lines or []:
        entry = json.loads(line)
        Look.log.append((str(entry["MESSAGE"]), entry.get("HERTZD_REASON")))

def read_page():
    """Worth by source and fault."""
    page, by_name = {}, {name: next((it for it in ALL if type(it) is kind), None) for name, kind in NAMES.items()}
    with open("/srv/package/quality.md") as file:
        rows = file.read().split("<!-- sources and faults -->")[1].split("<!-- end -->")[0].strip().splitlines()[2:]
    for row in rows:
        name, fault, _, worth = (cell.strip() for cell in row.strip("|").split(" | "))
        found = [(kind, match) for pattern, kind in SEEN.items() if (match := re.fullmatch(pattern, worth))]
        if name not in by_name or fault not in FAULTS or not found and not by_name[name].elsewhere:
            say(False, f"there is no way to play: {row}")
        elif found:
            kind, match = found[0]
            page[by_name[name], fault] = kind, match.group(1) if match.groups() else None
    for source in ALL:
        for fault in FAULTS[-1:] if source.elsewhere else FAULTS:
            if (source, fault) not in page:
                say(False, f"the page has no row for {source.task}, {fault}")
                page[source, fault] = "good", None
    return page

def main():
    begun = time.monotonic()
    for work in [follow, *(partial(writes, source) for source in ALL)]:
        threading.Thread(target=work, daemon=True).start()
    LOOKS.append(Look())
    drivers = [source for source in ALL if not source.elsewhere]
    print(f"# hertzd_up {LOOKS[-1].metrics['hertzd_up']}, a look takes {time.monotonic() - begun:.1f} s")
    good = lambda source: cell(source, "at the start", ("good", None), {"log": 0, "errors": 0})
    together(map(good, ALL))
    together(map(play, drivers))
    print(f"# {len(drivers)} sources, after {time.monotonic() - begun:.0f} s")
    for hours in (3, -3):
        LOOKS[:] = [Look()]
        before = {source: since(source) for source in ALL}
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + hours * 3600 * 10 ** 9)
        time.sleep(3)
        together([cell(source, "clock step", PAGE[source, "clock step"], before[source]) for source in ALL])
        for source in ALL:
            # Sound is lost wherever this machine is late.
            lost = LOOKS[-1].tasks[source.task]["errors"] - before[source]["errors"]
            say(lost == 0 or isinstance(source, Sound), f"{source.task}: no tick failed when the clock was set by {hours} hours ({lost})")
    for source in drivers:
        source.cause("out of range")
    together(until(lambda look, _, source=source: look.is_not(source, "out of range", "out-of-range")) for source in drivers)
    run("systemctl", "stop", "hertzd")
    with open("/tmp/summary") as file:
        summary = {task["task"]: task for task in json.loads(file.read().splitlines()[-1])["tasks"]}
    for source in drivers:
        value, taker = source.names("out of range")
        of, taken = summary[source.task]["values"][value], summary[taker]["values"]["v"]
        is_so = of["quality"] == "bad" and of.get("reason") == "out-of-range" and of["last"] is None and of.get("refused") is not None and taken.get("reason") == "inherited"
        say(is_so, f"{source.task}: out of range in the summary" + ("" if is_so else f": {of} {taken}"))
    print(f"# in {time.monotonic() - begun:.0f} s")

ALL = [kind() for kind in NAMES.values()]
if sys.argv[1] == "configure":
    configure()
else:
    PAGE, RECORDING, LOOKS, TROUBLED = read_page(), Recording(), [], set()
    main()
