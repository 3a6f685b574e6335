"""Random stories of outputs on real drivers: stories.py BUS FAN CHIP HWMON GPIOCHIP GPIO_LINES COUNT SEED

The reference is plain: which value each cell must hold, a cell being a byte of a chip's registers or a line's level. It knows nothing of how
hertzd does it, and cells are read past hertzd and past the drivers that it uses."""
import ctypes, fcntl, os, random, shutil, signal, subprocess, sys, time
from copy import copy

BUS, FAN, CHIP, HWMON, GPIOCHIP, LINES, COUNT, SEED = sys.argv[1:]
HERE, PATIENCE, LINE = "/run/stories", 120, 5
# Layouts of registers, of which some share bytes. None has two bytes: those i2c-stub keeps as a word beside its bytes.
LAYOUTS = [("u24be", 0x10), ("u24le", 0x10), ("u24be", 0x13), ("u64be", 0x10), ("u8", 0x20), ("u24be", 0x20), ("u32le", 0x21)]
# The cells of each target: a fan has its duty, and a mode that says who sets it.
TARGETS = {"fan": ["duty", "mode"], "line": ["line"]}
TARGETS |= {layout: [*range(layout[1], layout[1] + int(layout[0].strip("ubel")) // 8)] for layout in LAYOUTS}
BY_HAND, BY_CHIP = 0x00, [0x40, 0x60]
REGISTERS = {"duty": (int(FAN, 16), 0x22, 0xFF), "mode": (int(FAN, 16), 0x00, 0x60)}
REGISTERS |= {byte: (int(CHIP, 16), byte, 0xFF) for cells in TARGETS.values() for byte in cells if isinstance(byte, int)}

class Transfer(ctypes.Structure):
    _fields_ = [("reads", ctypes.c_uint8), ("register", ctypes.c_uint8), ("size", ctypes.c_uint32), ("data", ctypes.c_void_p)]

def transfer(chip, register, value=None):
    data = (ctypes.c_uint8 * 34)(value or 0)
    with open(BUS, "rb+", buffering=0) as bus:
        fcntl.ioctl(bus, 0x0706, chip)  # I2C_SLAVE_FORCE
        fcntl.ioctl(bus, 0x0720, Transfer(value is None, register, 2, ctypes.addressof(data)))  # I2C_SMBUS, a byte
    return data[0]

def text(path):
    with open(path) as file:
        return file.read().strip()

def read(cell):
    if cell == "line":
        return int(text(f"{LINES}/sim_gpio{LINE}/value"))
    chip, register, bits = REGISTERS[cell]
    return transfer(chip, register) & bits

def put(cell, value):
    chip, register, bits = REGISTERS[cell]
    transfer(chip, register, transfer(chip, register) & ~bits | value)

def shown():
    """What the fan's driver shows, which it has read from its chip up to a second or two ago."""
    return int(text(f"{HWMON}/pwm1")), {"1": BY_HAND, "2": 0x40, "3": 0x60}[text(f"{HWMON}/pwm1_enable")]

class Wrong(Exception):
    pass

class Output:
    """A section of the configuration."""
    def __init__(self, rng, target):
        self.target, self.cells, self.task = target, TARGETS[target], f"out{rng.randrange(100)}"
        self.value, self.safe = self.number(rng), rng.choice([self.number(rng), self.number(rng), "restore", "hold"])
        if target == "line" and self.safe == "restore":
            self.safe = 1 - self.value
        self.by_path, self.keep, self.always, self.rate = rng.random() < 0.5, rng.random() < 0.3, rng.random() < 0.3, rng.choice([20, 50])

    def number(self, rng):
        return rng.randrange(2 if self.target == "line" else 256 ** min(len(self.cells), 5) if self.target != "fan" else 256)

    def holding(self, number):
        """What its cells hold with this number."""
        if isinstance(self.target, str):
            return dict(zip(self.cells, [number, BY_HAND]))
        return dict(zip(self.cells, number.to_bytes(len(self.cells), "little" if self.target[0].endswith("le") else "big")))

    def toml(self):
        unit = 1
        if self.target == "line":
            where = f'chip = "{os.path.basename(GPIOCHIP)}"\nline = {LINE}\n'
        elif self.target == "fan" and self.by_path:
            where = f'path = "{HWMON}/pwm1"\n'
        elif self.target == "fan":
            where, unit = 'hwmon = "amc6821"\nfile = "pwm1"\n', 255
        else:
            where = f'bus = "SMBus stub driver"\naddress = {CHIP}\ntype = "{self.target[0]}"\nregister = {self.target[1]}\n'
        if self.target != "line":
            where += f'write = "{"always" if self.always else "change"}"\n'
        safe = f'"{self.safe}"' if isinstance(self.safe, str) else self.safe / unit
        return (f'[task.{self.task}]\nkind = "output"\nrate = {self.rate}\ninput = {self.value / unit}\nsafe = {safe}\n{where}'
                f'start = "{"keep" if self.keep else "safe"}"\nsafe-after = "60s"\n')

    def __repr__(self):
        words = " ".join(word for word in ["by_path", "keep", "always"] if getattr(self, word))
        return f"{self.task}: {self.target} = {self.value}, safe {self.safe}, {self.rate} Hz {words}"

class Tenure:
    """An output, from when it first has its target until its safe state is there. `before`: what each cell held before, one of these;
    `None`: nobody knows."""
    def __init__(self, output, before):
        self.output, self.before, self.disturbed = output, before, False

    def safe(self):
        if self.output.target == "line":
            return {"line": None}  # what becomes of it once it is released is up to its driver
        if isinstance(self.output.safe, int):
            return {cell: {value} for cell, value in self.output.holding(self.output.safe).items()}
        return self.before if self.output.safe == "restore" else {}

def either(one, other):
    return one | other if one is not None and other is not None else None

class Story:
    def __init__(self, seed):
        self.rng, self.events, self.refused, self.process, self.locks = random.Random(seed), [], 0, None, []
        shutil.rmtree(HERE, ignore_errors=True)
        os.makedirs(f"{HERE}/run")
        open(f"{HERE}/log", "w").close()
        for cell in REGISTERS:
            put(cell, self.rng.choice(BY_CHIP) if cell == "mode" else self.rng.randrange(256))
        self.holds = {cell: {read(cell)} for cell in REGISTERS} | {"line": None}
        # By target: outputs that run, or that a killed process has left; and those that end by a reload, or that `hertzd safe` has made safe.
        self.tenures, self.leaving, self.made_safe, self.outputs = {}, [], [], []
        self.wait("the driver shows what its chip holds", lambda: shown() == (read("duty"), read("mode")))

    def play(self):
        for _ in range(self.rng.randrange(4, 9)):
            if self.process is None:
                self.start()
            else:
                self.rng.choice([self.reload, self.reload, self.firmware, self.lock, self.end])()
            if self.process is not None and self.rng.random() < 0.2 and all(it.safe != "hold" for it in self.outputs):
                self.end("kill")  # at any instant
            elif self.process is not None:
                self.settle()
        if self.process is not None:
            self.end()
        if self.tenures:
            self.make_safe()

    # What happens.

    def edited(self, outputs):
        new = [copy(output) for output in outputs if self.rng.random() < 0.7]
        for output in new:
            other = Output(self.rng, output.target)
            for key in self.rng.sample(["task", "value", "safe", "by_path", "keep", "always", "rate"], self.rng.randrange(3)):
                setattr(output, key, getattr(other, key))
        new += [Output(self.rng, self.rng.choice([*TARGETS])) for _ in range(self.rng.randrange(1, 4))]
        kept = []
        for output in new:
            if all(output.task != other.task and not set(output.cells) & set(other.cells) for other in kept):
                kept.append(output)
        return kept

    def configure(self, outputs):
        with open(f"{HERE}/new.toml", "w") as file:
            file.write('[worker.main]\npolicy = "other"\n[task.beat]\nkind = "load"\nrate = 5\n' + "".join(output.toml() for output in outputs))
        os.rename(f"{HERE}/new.toml", f"{HERE}/story.toml")

    def said(self, *texts):
        log = text(f"{HERE}/log")
        return [log.count(each) for each in texts]

    def start(self):
        outputs = self.edited([])
        self.events.append(("start", *outputs))
        self.configure(outputs)
        before = self.said(" granted ")
        with open(f"{HERE}/log", "a") as log:
            self.process = subprocess.Popen(["hertzd", "run", "--stop-timeout", "60s", f"{HERE}/story.toml"], stdout=log, stderr=log)
        self.wait("it has started", lambda: self.said(" granted ") != before)
        self.take(outputs)
        for tenure in self.tenures.values():
            tenure.disturbed = False
        self.follow()

    def reload(self):
        outputs = self.edited(self.outputs)
        self.events.append(("reload", *outputs))
        self.configure(outputs)
        before = self.said("reloaded: ", "reload refused: ")
        self.process.send_signal(signal.SIGHUP)
        self.wait("it has reloaded", lambda: self.said("reloaded: ", "reload refused: ") != before)
        old = self.outputs + [tenure.output for tenure in self.leaving]
        overlaps = any(set(one.cells) & set(other.cells) and one.target != other.target for one in outputs for other in old)
        if self.said("reload refused: ") == before[1:]:
            self.leaving = []
            self.take(outputs)
            self.follow()
        elif overlaps:
            self.refused += 1  # the safe value of the old one is to be written first
        else:
            raise Wrong("a reload was refused in which no target overlaps another one")

    def firmware(self):
        tenure = self.rng.choice([it for it in self.tenures.values() if it.output.target != "line"] or [None])
        if tenure is not None:
            cell = self.rng.choice(tenure.output.cells)
            value = self.rng.choice(BY_CHIP) if cell == "mode" else self.rng.randrange(256)
            self.events.append(("firmware", cell, value))
            put(cell, value)
            if not tenure.output.always:  # else hertzd writes it again
                tenure.disturbed = True
                self.holds |= dict.fromkeys(tenure.output.cells)

    def lock(self):
        """By a stranger who may only read."""
        self.events.append(("lock",))
        self.locks = [open(f"{HWMON}/{name}") for name in ["pwm1", "pwm1_enable"]]
        for file in self.locks:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # hertzd has that one

    def end(self, how=None):
        how = how or self.rng.choice(["stop", "kill"])
        self.events.append((how,))
        self.process.send_signal(signal.SIGTERM if how == "stop" else signal.SIGKILL)
        code = self.process.wait(PATIENCE)
        self.process, self.outputs = None, []
        if how == "stop":
            if code < 0:
                raise Wrong(f"a stop ends by signal {-code}")
            self.all_safe("a stop")
            return
        # What a reload has ended may be safe already, and then no plan has it. What is to hold what it has is in none.
        for tenure in self.leaving:
            tenure.before = {cell: either(may, tenure.safe().get(cell, may)) for cell, may in tenure.before.items()}
        self.tenures = {tenure.output.target: tenure for tenure in self.leaving} | self.tenures
        self.tenures = {target: tenure for target, tenure in self.tenures.items() if tenure.output.safe != "hold"}
        self.holds["line"] = None
        if self.rng.random() < 0.6:
            self.make_safe()

    def make_safe(self):
        self.events.append(("safe",))
        done = subprocess.run(["hertzd", "safe"], capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise Wrong(f"hertzd safe: {done}")
        self.made_safe += self.tenures.values()
        self.all_safe("hertzd safe")

    # The reference.

    def take(self, outputs):
        """A start or a reload with these outputs."""
        self.outputs, targets = outputs, [output.target for output in outputs]
        ended = [tenure for target, tenure in self.tenures.items() if target not in targets]
        self.leaving += ended
        for tenure in ended:
            self.holds |= tenure.safe()
        old, self.tenures = self.tenures, {}
        for output in outputs:
            tenure = old.get(output.target)
            if tenure is None:
                tenure = Tenure(output, {cell: self.holds[cell] for cell in output.cells})
                # Where a process before has left something, what that had found may count as what was there.
                for other in ended + self.made_safe:
                    for cell in set(other.before) & set(tenure.before):
                        tenure.before[cell] = either(tenure.before[cell], other.before[cell])
            tenure.output = output
            self.tenures[output.target] = tenure

    def follow(self):
        for tenure in self.tenures.values():
            if not tenure.disturbed:
                self.holds |= {cell: {value} for cell, value in tenure.output.holding(tenure.output.value).items()}

    def differs(self):
        """Cells that do not hold what they must."""
        return {cell: f"{read(cell)} in place of {may}" for cell, may in self.holds.items() if may is not None and read(cell) not in may}

    def settle(self):
        self.wait("each cell holds what it must", lambda: not self.differs())
        self.leaving, self.made_safe = [], []

    def all_safe(self, when):
        for tenure in self.leaving + [*self.tenures.values()]:
            self.holds |= tenure.safe()
        self.holds["line"] = None
        self.tenures, self.leaving = {}, []
        if wrong := self.differs():
            raise Wrong(f"after {when}: {wrong}")
        self.holds = {cell: {read(cell)} for cell in REGISTERS} | {"line": None}

    def wait(self, what, state):
        end = time.monotonic() + PATIENCE
        while not state():
            if self.process is not None and self.process.poll() is not None or time.monotonic() > end:
                raise Wrong(f"it ends or hangs before {what}: {self.differs()}")
            time.sleep(0.02)

def main():
    os.environ["RUNTIME_DIRECTORY"] = f"{HERE}/run"
    begun, events, refused, wrong = time.monotonic(), 0, 0, 0
    for seed in range(int(SEED), int(SEED) + int(COUNT)):
        story = Story(seed)
        try:
            story.play()
        except (Wrong, subprocess.TimeoutExpired) as why:
            wrong += 1
            print(f"# story {seed}: {why}", *story.events, sep="\n#   ")
            log = text(f"{HERE}/log").splitlines()
            print(*(f"#   {line}" for line in log if " missed " not in line), sep="\n")
        finally:
            if story.process is not None:
                story.process.kill()
                story.process.wait()
        events, refused = events + len(story.events), refused + story.refused
    took = time.monotonic() - begun
    print(f"# {COUNT} stories from {SEED} on, {events} events, {refused} reloads refused, in {took:.0f} s; {wrong} stories wrong")
    return wrong > 0

sys.exit(main())
