"""Random stories of outputs on real drivers. Usage: stories.py BUS ADDRESS HWMON GPIOCHIP GPIO_LINES [SEED]

The reference is plain: what each cell (a byte of a register, a file of the fan) may hold. It knows nothing of how hertzd does it."""
import copy, ctypes, fcntl, os, random, shutil, signal, subprocess, sys, time

BUS, ADDRESS, HWMON, CHIP, LINES = sys.argv[1], int(sys.argv[2], 16), *sys.argv[3:6]
HERE = "/run/stories"
STORIES, SECONDS, PATIENCE = 300, 600, 120
LINE = 5
# Layouts of registers, some of which share bytes: type, first register, bytes.
LAYOUTS = [("u24be", 0x10, 3), ("u24be", 0x13, 3), ("u64be", 0x10, 8), ("u8", 0x20, 1), ("u24be", 0x20, 3), ("u16be", 0x22, 2)]

bus = open(BUS, "rb+", buffering=0)
fcntl.ioctl(bus, 0x0706, ADDRESS)  # I2C_SLAVE_FORCE

def byte(register, value=None):
    data = (ctypes.c_uint8 * 34)(value or 0)
    class Transfer(ctypes.Structure):
        _fields_ = [("reads", ctypes.c_uint8), ("command", ctypes.c_uint8), ("size", ctypes.c_uint32), ("data", ctypes.c_void_p)]
    fcntl.ioctl(bus, 0x0720, Transfer(value is None, register, 2, ctypes.addressof(data)))  # I2C_SMBUS, a byte
    return data[0]

def read(cell):
    if isinstance(cell, int):
        return byte(cell)
    with open(f"{HWMON}/{cell}") as file:
        return int(file.read())

def put(cell, value):
    if isinstance(cell, int):
        return byte(cell, value)
    with open(f"{HWMON}/{cell}", "w") as file:
        file.write(str(value))

def level():
    with open(f"{LINES}/sim_gpio{LINE}/value") as file:
        return int(file.read())

class Wrong(Exception):
    pass

class Output:
    """A section. `target` is what it drives, in which layout."""
    def __init__(self, rng, target):
        self.target, self.task = target, f"out{rng.randrange(100)}"
        self.value, self.safe = self.number(rng), rng.choice([self.number(rng), self.number(rng), "restore", "hold"])
        self.keep, self.always, self.rate = rng.random() < 0.3, rng.random() < 0.3, rng.choice([20, 50])
        if target[0] == "line" and self.safe == "restore":
            self.safe = 1 - self.value  # what a line holds after its release is up to its driver

    def number(self, rng):
        most = {"fan": 255, "line": 1}.get(self.target[0]) or 256 ** min(self.target[3], 5) - 1
        return rng.randrange(most + 1)

    def cells(self):
        if self.target[0] == "fan":
            return ["pwm1", "pwm1_enable"]
        return list(range(self.target[2], self.target[2] + self.target[3])) if self.target[0] == "register" else []

    def holding(self, number):
        """What its cells hold with this number."""
        if self.target[0] == "fan":
            return {"pwm1": number, "pwm1_enable": 1}
        return dict(zip(self.cells(), number.to_bytes(self.target[3], "big"))) if self.cells() else {}

    def toml(self):
        kind = self.target[0]
        unit = 255 if self.target == ("fan", "name") else 1
        where = {
            ("fan", "name"): 'hwmon = "amc6821"\nfile = "pwm1"',
            ("fan", "path"): f'path = "{HWMON}/pwm1"',
            ("line",): f'chip = "{os.path.basename(CHIP)}"\nline = {LINE}',
        }.get(self.target) or (
            f'bus = "SMBus stub driver"\naddress = {ADDRESS}\nregister = {self.target[2]}\ntype = "{self.target[1]}"')
        safe = f'"{self.safe}"' if isinstance(self.safe, str) else repr(self.safe / unit)
        write = "" if kind == "line" else f'write = "{"always" if self.always else "change"}"\n'
        return (f'[task.{self.task}]\nkind = "output"\nrate = {self.rate}\ninput = {self.value / unit!r}\nsafe = {safe}\n{where}\n{write}'
                f'start = "{"keep" if self.keep else "safe"}"\nsafe-after = "60s"\n')

    def __repr__(self):
        return f"{self.task}: {self.target} = {self.value}, safe {self.safe}, keep {self.keep}, always {self.always}"

class Tenure:
    """An output from when it first has its target until its safe state is there."""
    def __init__(self, output, before, follows):
        self.output, self.before, self.follows = output, before, follows

class Story:
    def __init__(self, seed):
        self.rng, self.events, self.process, self.log = random.Random(seed), [], None, f"{HERE}/log"
        shutil.rmtree(HERE, ignore_errors=True)
        os.makedirs(f"{HERE}/run")
        cells = ["pwm1", "pwm1_enable", *range(0x10, 0x18), *range(0x20, 0x24)]
        put("pwm1_enable", 1)
        for cell in cells:
            put(cell, 2 if cell == "pwm1_enable" else self.rng.randrange(256))
        self.may = {cell: {read(cell)} for cell in cells}  # an empty set: anything
        self.tenures, self.made_safe = {}, []

    def play(self):
        left = False
        for _ in range(self.rng.randrange(4, 9)):
            if self.process is None:
                self.start(self.outputs([]))
            else:
                [self.reload, self.reload, self.live, self.disturb, self.end][self.rng.randrange(5)]()
        if self.process is not None:
            self.end()
        if self.tenures:
            self.carry_out()

    # What happens.

    def outputs(self, old):
        new = [copy.copy(output) for output in old if self.rng.random() < 0.7]
        for output in new:
            change = self.rng.randrange(4)
            other = Output(self.rng, output.target)
            if change == 0: output.task = other.task
            if change == 1: output.value = other.value
            if change == 2: output.safe = other.safe
        for _ in range(self.rng.randrange(1, 4)):
            targets = [("fan", "name"), ("fan", "path"), ("line",)] + [("register", *layout) for layout in LAYOUTS]
            output = Output(self.rng, self.rng.choice(targets))
            taken = [cell for other in new for cell in other.cells() or ["line"]]
            if not set(output.cells() or ["line"]) & set(taken) and all(output.task != other.task for other in new):
                new.append(output)
        names = set()
        return [output for output in new if output.task not in names and not names.add(output.task)]

    def configure(self, outputs):
        with open(f"{HERE}/new.toml", "w") as file:
            beat = '[worker.main]\npolicy = "other"\n[task.beat]\nkind = "load"\nrate = 5\n'
            file.write(beat + "".join(output.toml() for output in outputs))
        os.rename(f"{HERE}/new.toml", f"{HERE}/story.toml")

    def said(self, text):
        with open(self.log) as file:
            return file.read().count(text)

    def hertzd(self, *args):
        return subprocess.run(["hertzd", *args], env={**os.environ, "RUNTIME_DIRECTORY": f"{HERE}/run"}, capture_output=True, text=True)

    def start(self, outputs):
        self.events.append(("start", outputs))
        self.configure(outputs)
        with open(self.log, "a") as log:
            before = self.said(" granted ")
            self.process = subprocess.Popen(["hertzd", "run", "--stop-timeout", "60s", f"{HERE}/story.toml"], stdout=log, stderr=log,
                env={**os.environ, "RUNTIME_DIRECTORY": f"{HERE}/run"})
        self.wait("it has started", lambda: self.said(" granted ") > before)
        self.now = outputs
        self.take(outputs)

    def reload(self):
        outputs = self.outputs(self.now)
        self.events.append(("reload", outputs))
        self.configure(outputs)
        before = self.said("reloaded: "), self.said("reload refused: ")
        self.process.send_signal(signal.SIGHUP)
        self.wait("it has reloaded", lambda: (self.said("reloaded: "), self.said("reload refused: ")) != before)
        if self.said("reload refused: ") > before[1]:
            overlaps = [new for new in outputs for old in self.now
                        if new.target != old.target and set(new.cells()) & set(old.cells())]
            if not overlaps:
                raise Wrong("a reload was refused that changes no target's layout")
            return
        self.now = outputs
        self.take(outputs)

    def live(self):
        self.events.append(("live",))
        for tenure in self.tenures.values():
            output = tenure.output
            if output.target == ("line",):
                self.wait(f"the line is {output.value}", lambda: level() == output.value)
            elif tenure.follows:
                holding = output.holding(output.value)
                self.wait(f"{output} is live", lambda: all(read(cell) == value for cell, value in holding.items()))
                self.may.update({cell: {value} for cell, value in holding.items()})
            tenure.follows = False

    def disturb(self):
        cells = [cell for tenure in self.tenures.values() for cell in tenure.output.cells()]
        if cells:
            cell = self.rng.choice(cells)
            value = 2 if cell == "pwm1_enable" else self.rng.randrange(256)
            self.events.append(("firmware", cell, value))
            try:
                put(cell, value)
            except OSError:
                return  # the driver takes it only in another mode
            for tenure in self.tenures.values():
                if cell in tenure.output.cells():
                    tenure.follows = False
                    self.may.update({cell: set() for cell in tenure.output.cells()})

    def end(self):
        how = self.rng.choice(["stop", "stop", "kill"])
        self.events.append(("end", how))
        self.process.send_signal(signal.SIGTERM if how == "stop" else signal.SIGKILL)
        code = self.process.wait(PATIENCE)
        self.process = None
        if how == "stop":
            if code not in (0, 1):
                raise Wrong(f"a stop ends with {code}")
            self.all_safe()
            self.compare("after a stop")
            return
        # What is to hold what it has is not in the plan: it is over. So is a line, which the kernel has released.
        self.tenures = {key: it for key, it in self.tenures.items() if it.output.safe != "hold"}
        if self.rng.random() < 0.6:
            self.carry_out()

    def carry_out(self):
        self.events.append(("safe",))
        done = self.hertzd("safe")
        if done.returncode != 0:
            raise Wrong(f"hertzd safe: {done}")
        self.made_safe += self.tenures.values()
        self.all_safe()
        self.compare("after hertzd safe")

    def wait(self, what, state):
        end = time.monotonic() + PATIENCE
        while not state():
            if self.process is not None and self.process.poll() is not None or time.monotonic() > end:
                raise Wrong(f"it ends or hangs before {what}")
            time.sleep(0.02)

    # The reference.

    def take(self, outputs):
        targets = [output.target for output in outputs]
        ended = [self.tenures.pop(target) for target in list(self.tenures) if target not in targets]
        for tenure in ended:
            self.make_safe(tenure)
        self.wait("what has ended is safe", lambda: all(
            self.holds(cell) for tenure in ended for cell in tenure.output.cells()
            if all(cell not in output.cells() for output in outputs)))
        for output in outputs:
            had = self.tenures.get(output.target)
            before = had.before if had else {cell: set(self.may[cell]) for cell in output.cells()}
            for other in ([] if had else self.made_safe + ended):  # what the one before found may count as the original
                for cell in set(other.before) & set(before):
                    before[cell] = self.either(before[cell], other.before[cell])
            follows = had is None or had.follows or had.output.value != output.value
            numbers = [output.value] + ([] if isinstance(output.safe, str) else [output.safe])
            for number in numbers:
                for cell, value in output.holding(number).items():
                    self.may[cell] = self.either(self.may[cell], {value})
            for cell in before:
                self.may[cell] = self.either(self.may[cell], before[cell])
            self.tenures[output.target] = Tenure(output, before, follows)

    def either(self, one, other):
        return one | other if one and other else set()

    def holds(self, cell):
        return not self.may[cell] or read(cell) in self.may[cell]

    def make_safe(self, tenure):
        safe = tenure.output.safe
        if safe == "restore":
            self.may.update({cell: set(may) for cell, may in tenure.before.items()})
        elif safe != "hold":
            self.may.update({cell: {value} for cell, value in tenure.output.holding(safe).items()})

    def all_safe(self):
        for tenure in self.tenures.values():
            self.make_safe(tenure)
            if tenure.output.keep and tenure.follows:  # it may have come to no tick
                for cell, may in tenure.before.items():
                    self.may[cell] = self.either(self.may[cell], may)
        self.tenures = {}

    def compare(self, when):
        # Drivers show what they have seen a second or two ago.
        end = time.monotonic() + 5
        while not all(map(self.holds, self.may)) and time.monotonic() < end:
            time.sleep(0.1)
        for cell, may in self.may.items():
            if not self.holds(cell):
                raise Wrong(f"{when} {cell} holds {read(cell)} in place of {sorted(may)}")
        self.may = {cell: {read(cell)} for cell in self.may}

def main():
    seeds = [int(sys.argv[6])] if len(sys.argv) > 6 else range(STORIES)
    begun, played, failed = time.monotonic(), 0, 0
    for seed in seeds:
        if time.monotonic() - begun > SECONDS:
            break
        story = Story(seed)
        played += 1
        try:
            story.play()
        except (Wrong, subprocess.TimeoutExpired) as wrong:
            failed += 1
            print(f"# story {seed}: {wrong}", *story.events, sep="\n#   ")
            with open(story.log) as log:
                print(*("#   " + line for line in log.read().splitlines() if " missed " not in line), sep="\n")
        finally:
            if story.process is not None:
                story.process.kill()
                story.process.wait()
    print(f"# {played} stories in {time.monotonic() - begun:.0f} s, {failed} of them wrong")
    return failed > 0 or played == 0

sys.exit(main())
