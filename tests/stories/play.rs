//! Plays a story with the real program, and compares each file with the model when no process has it.

use crate::model::{May, Model, text};
use crate::output::{Output, Target, configuration};
use crate::program::{HERTZD, PATIENCE, is_root, signal};
use crate::story::{End, Event, Lock};
use hertzd::internals::{KernelClock, pause};
use hertzd::time::{Clock, Span};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// A story that is being played.
pub(crate) struct Stage {
    folder: TempDir,
    model: Model,
    running: Option<Child>,
    outputs: Vec<Output>,
    reloads: usize, // that were answered
    locks: Vec<Locked>,
    /// How often a plan still had what was not written.
    pub(crate) owed: usize,
    /// How many reloads were refused.
    pub(crate) refused: usize,
}

enum Locked {
    Flock(#[expect(dead_code, reason = "held")] File),
    Record(Child),
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.kill();
            let _ = running.wait();
        }
        self.unlock();
    }
}

/// What does not hold that must.
type Wrong = String;

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let chip = folder.path().join("class/hwmon/hwmon0");
        fs::create_dir_all(&chip).unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        fs::write(chip.join("name"), "chip\n").unwrap();
        let mut files = BTreeMap::new();
        let numbers = (0..3).map(|number| (Target::File(number).value(), text(0.25 * f64::from(number + 1))));
        let fans = [1, 2].map(|fan| (Target::Fan(fan).value(), text(f64::from(fan) * 10.0)));
        let modes = [1, 2].map(|fan| (Target::Fan(fan).enable().unwrap(), "2\n".to_owned()));
        for (file, holds) in numbers.chain(fans).chain(modes) {
            fs::write(folder.path().join(&file), &holds).unwrap();
            files.insert(file, May::only(holds));
        }
        let model = Model { files, tenures: BTreeMap::new(), leaving: Vec::new(), carried_out: Vec::new() };
        Self { folder, model, running: None, outputs: Vec::new(), reloads: 0, locks: Vec::new(), owed: 0, refused: 0 }
    }

    pub(crate) fn play(&mut self, event: &Event) -> Result<(), Wrong> {
        match event {
            Event::Start(outputs) => self.start(outputs),
            Event::Reload(outputs) => self.reload(outputs),
            Event::Live => self.wait_until_live(),
            Event::Value(target, number, times) => {
                for _ in 0..*times {
                    self.put(&target.value(), &text(*number));
                    pause(Span::from_millis(1));
                }
                self.model.written(*target, *number);
                Ok(())
            }
            Event::Mode(fan, mode) => {
                self.put(&Target::Fan(*fan).enable().unwrap(), &format!("{mode}\n"));
                self.model.mode_set(Target::Fan(*fan), *mode);
                Ok(())
            }
            Event::Replaced(number, value) => {
                let (file, new) = (Target::File(*number).value(), self.folder.path().join("new-file"));
                fs::write(&new, text(*value)).unwrap();
                fs::rename(&new, self.folder.path().join(file)).unwrap();
                self.model.replaced(Target::File(*number));
                Ok(())
            }
            Event::Removed(number) => {
                fs::remove_file(self.folder.path().join(Target::File(*number).value())).unwrap();
                self.model.replaced(Target::File(*number));
                Ok(())
            }
            Event::Locked(target, lock) => {
                self.lock(*target, *lock);
                Ok(())
            }
            Event::Unlocked => {
                self.unlock();
                Ok(())
            }
            Event::Rival => self.rival(),
            Event::Ended(end) => self.end(*end),
            Event::Safe => self.safe(),
        }
    }

    fn put(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).unwrap();
    }

    /// What a file holds. One of a chip is read as a driver would show it: what was there before a shorter text is none of its.
    fn read(&self, file: &str) -> String {
        let text = fs::read_to_string(self.folder.path().join(file)).unwrap_or_else(|error| format!("({error})"));
        match (file.starts_with("class"), text.split_once('\n')) {
            (true, Some((line, _))) => format!("{line}\n"),
            _ => text,
        }
    }

    /// hertzd, which sees the story's chip where root may show it that.
    fn hertzd(&self, runtime: &str) -> Command {
        let mut command;
        if is_root() {
            command = Command::new("unshare");
            command.args(["--mount", "sh", "-ec", "mount --bind \"$1\" /sys/class; shift; exec \"$@\"", "sh"]);
            command.arg(self.folder.path().join("class")).arg(HERTZD);
        } else {
            command = Command::new(HERTZD);
        }
        command.env("RUNTIME_DIRECTORY", self.folder.path().join(runtime)).env_remove("HERTZD_LOG");
        command.stdin(Stdio::null());
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn configure(&self, outputs: &[Output]) {
        let new = self.folder.path().join("new.toml");
        fs::write(&new, configuration(outputs, self.folder.path())).unwrap();
        fs::rename(&new, self.folder.path().join("story.toml")).unwrap();
    }

    /// Waits for a state of the running process; fails if it ends first.
    fn wait_for(&mut self, what: &str, mut state: impl FnMut(&Self) -> bool) -> Result<(), Wrong> {
        let begun = KernelClock::monotonic().now();
        while !state(self) {
            let ended = self.running.as_mut().and_then(|running| running.try_wait().unwrap());
            if ended.is_some() || KernelClock::monotonic().now() - begun > PATIENCE {
                return Err(format!("it ends or hangs before {what}: {ended:?}"));
            }
            pause(Span::from_millis(2));
        }
        Ok(())
    }

    fn start(&mut self, outputs: &[Output]) -> Result<(), Wrong> {
        self.configure(outputs);
        let log = File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let granted = self.log().matches(" granted ").count();
        let mut command = self.hertzd("run");
        command.args(["run", "--stop-timeout", "60s"]).arg(self.folder.path().join("story.toml")).stdout(Stdio::null());
        self.running = Some(command.stderr(log).spawn().unwrap());
        self.wait_for("it has started", |stage| stage.log().matches(" granted ").count() > granted)?;
        // What a process left that was killed is dealt with by the start.
        self.model.configure(outputs);
        self.model.settle();
        outputs.clone_into(&mut self.outputs);
        Ok(())
    }

    fn reload(&mut self, outputs: &[Output]) -> Result<(), Wrong> {
        self.settle()?;
        self.configure(outputs);
        let answers = |log: &str| [log.matches("reloaded: ").count(), log.matches("reload refused: ").count()];
        let before = answers(&self.log());
        signal(self.running.as_ref().unwrap().id(), "HUP");
        self.wait_for("it has reloaded", |stage| answers(&stage.log()) != before)?;
        self.reloads += 1;
        if answers(&self.log())[1] == before[1] {
            self.model.configure(outputs);
            outputs.clone_into(&mut self.outputs);
            return Ok(());
        }
        self.refused += 1;
        let changes = |old: &&Output| outputs.iter().any(|new| new.target == old.target && !new.has_layout_of(old));
        match self.outputs.iter().find(changes) {
            Some(_) => Ok(()),
            None => Err("a reload was refused that changes no target's layout".into()),
        }
    }

    /// Waits until what the latest reload has ended is safe.
    fn settle(&mut self) -> Result<(), Wrong> {
        if self.model.leaving.is_empty() {
            return Ok(());
        }
        let files: Vec<_> = self.model.leaving.iter().flat_map(|it| it.output.target.files()).collect();
        self.model.settle();
        let is_safe = |stage: &Self| files.iter().all(|file| stage.model.files[file].hold(&stage.read(file)));
        self.wait_for("what the reload has ended is safe", is_safe)
    }

    fn wait_until_live(&mut self) -> Result<(), Wrong> {
        self.settle()?;
        let expected: Vec<_> =
            self.model.tenures.values().filter(|it| it.follows).map(|it| it.output.clone()).collect();
        for output in expected {
            let (file, value) = (output.target.value(), text(output.value));
            self.wait_for(&format!("{file} is {value:?}"), |stage| stage.read(&file) == value)?;
        }
        self.model.live();
        Ok(())
    }

    /// Another hertzd with these outputs is refused, and changes nothing.
    fn rival(&mut self) -> Result<(), Wrong> {
        let path = self.folder.path().join("rival.toml");
        fs::write(&path, configuration(&self.outputs, self.folder.path())).unwrap();
        fs::create_dir_all(self.folder.path().join("rival")).unwrap();
        let rival = self.hertzd("rival").args(["run", "--for", "50ms"]).arg(path).output().unwrap();
        let is_refused = rival.status.code() == Some(78);
        (is_refused || self.outputs.is_empty())
            .then_some(())
            .ok_or_else(|| format!("a second hertzd was not refused: {rival:?}"))
    }

    fn wait(&mut self, mut each: impl FnMut(u32)) -> Result<ExitStatus, Wrong> {
        let begun = KernelClock::monotonic().now();
        let running = self.running.as_mut().unwrap();
        loop {
            if let Some(status) = running.try_wait().unwrap() {
                self.running = None;
                return Ok(status);
            }
            if KernelClock::monotonic().now() - begun > PATIENCE {
                return Err("it does not end".into());
            }
            each(running.id());
            pause(Span::from_millis(2));
        }
    }

    fn end(&mut self, end: End) -> Result<(), Wrong> {
        let running = self.running.as_mut().unwrap();
        match end {
            End::Stop => signal(running.id(), "TERM"),
            End::Kill => running.kill().unwrap(),
            End::Crash => signal(running.id(), "SEGV"),
        }
        let status = self.wait(|_| ())?;
        match end {
            End::Stop => {
                if !matches!(status.code(), Some(0 | 1)) {
                    return Err(format!("a stop ends with {status:?}"));
                }
                self.model.all_safe();
                self.compare(status.success(), true)
            }
            End::Kill => {
                self.model.left(false);
                self.compare(true, false)
            }
            End::Crash => {
                if status.signal() != Some(libc::SIGSEGV) {
                    return Err(format!("a crash ends with {status:?}"));
                }
                self.model.left(true);
                self.compare(true, false)
            }
        }
    }

    fn safe(&mut self) -> Result<(), Wrong> {
        let safe = self.hertzd("run").arg("safe").output().unwrap();
        self.put("safe", &format!("{safe:?}"));
        if !matches!(safe.status.code(), Some(0 | 1 | 77)) {
            return Err(format!("`hertzd safe` ends so: {safe:?}"));
        }
        self.model.carry_out();
        self.compare(safe.status.success(), true).map_err(|wrong| format!("{wrong}: {safe:?}"))
    }

    /// What does not hold what it may.
    fn different(&self) -> Option<Wrong> {
        self.model.files.iter().find_map(|(file, may)| {
            let holds = self.read(file);
            (!may.hold(&holds)).then(|| format!("{file} holds {holds:?} in place of {may:?}"))
        })
    }

    /// Compares all files. Where it has `failed`, a plan may still have what is not right yet, and says so.
    fn compare(&mut self, succeeded: bool, safe: bool) -> Result<(), Wrong> {
        if let Some(wrong) = self.different() {
            let may_be_owed = safe && !succeeded;
            if !may_be_owed {
                return Err(wrong);
            }
            let again = self.hertzd("run").arg("safe").output().unwrap();
            self.owed += 1;
            if let Some(wrong) = self.different() {
                return Err(format!("{wrong}, and by the plan: {again:?}"));
            }
        }
        // From here on it is known. What a driver would not show is gone.
        let known: Vec<_> = self.model.files.keys().map(|file| (file.clone(), self.read(file))).collect();
        for (file, holds) in known {
            if file.starts_with("class") {
                self.put(&file, &holds);
            }
            self.model.files.insert(file, May::only(holds));
        }
        Ok(())
    }

    /// A lock that takes no more than the right to read.
    fn lock(&mut self, target: Target, lock: Lock) {
        let path = self.folder.path().join(target.value());
        match lock {
            Lock::Flock => {
                let Ok(file) = File::open(&path) else { return };
                if file.try_lock().is_ok() {
                    self.locks.push(Locked::Flock(file));
                }
            }
            Lock::Record => self.locks.extend(record_lock(&path).map(Locked::Record)),
        }
    }

    fn unlock(&mut self) {
        for lock in self.locks.drain(..) {
            if let Locked::Record(mut holder) = lock {
                let _ = holder.kill();
                let _ = holder.wait();
            }
        }
    }

    /// What a failure shows.
    pub(crate) fn describe(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        let files: String = self.model.files.keys().map(|file| format!("{file}: {:?}\n", read(file))).collect();
        let log: String =
            self.log().lines().filter(|line| !line.contains(" missed ")).map(|line| format!("{line}\n")).collect();
        format!(
            "{files}--- configuration\n{}--- plan\n{}\n--- safe\n{}\n--- log\n{log}",
            read("story.toml"),
            read("run/safe-plan.json"),
            read("safe")
        )
    }
}

/// A process that holds a read lock on the whole file, of the kind that belongs to a descriptor.
fn record_lock(path: &Path) -> Option<Child> {
    const HOLD: &str = "import fcntl, os, struct, sys\n\
        file = os.open(sys.argv[1], os.O_RDONLY)\n\
        fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))\n\
        print(flush=True)\n\
        sys.stdin.read()\n";
    let mut python = Command::new("python3");
    python.args(["-c", HOLD]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut holder = python.spawn().ok()?;
    let mut line = [0];
    // It has the lock, or has ended.
    let _ = std::io::Read::read(holder.stdout.as_mut()?, &mut line);
    let _ = holder.stdin.as_mut()?.flush();
    Some(holder)
}
