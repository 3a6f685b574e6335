//! Plays a story with the real program, and compares each file with the model when no process owns the file.

use crate::frozen::ended;
use crate::locks::Locks;
use crate::model::{May, Model, text};
use crate::output::{Output, Target, configuration};
use crate::program::disk::Disk;
use crate::program::{HERTZD, PATIENCE, is_root, pause, signal, stopwatch};
use crate::story::{End, Event};
use hertzd::time::Span;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// A story being played.
pub(crate) struct Stage<'a> {
    pub(crate) folder: TempDir,
    pub(crate) model: Model,
    running: Option<Child>,
    outputs: Vec<Output>,
    locks: Locks,
    disk: Option<&'a Disk>,
    given_up: Vec<Child>, // ended, except for a thread that waits for the disk
    /// How often a plan still had a value that was not written.
    pub(crate) owed: usize,
    /// How many reloads were refused.
    pub(crate) refused: usize,
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let _ = self.thaw();
        if let Some(mut running) = self.running.take() {
            let _ = running.kill();
            let _ = running.wait();
        }
    }
}

/// A description of what is wrong.
pub(crate) type Wrong = String;

impl<'a> Stage<'a> {
    pub(crate) fn new(disk: Option<&'a Disk>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        match disk {
            Some(disk) => std::os::unix::fs::symlink(&disk.path, folder.path().join("disk")).unwrap(),
            None => fs::create_dir(folder.path().join("disk")).unwrap(),
        }
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
        let (tenures, leaving, carried_out) = Default::default();
        let model = Model { files, tenures, leaving, carried_out, frozen: false };
        let (running, outputs, locks, given_up, owed, refused) = Default::default();
        Self { folder, model, running, outputs, locks, disk, given_up, owed, refused }
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
                let file = self.folder.path().join(Target::File(*number).value());
                let new = file.with_file_name("new-file");
                fs::write(&new, text(*value)).unwrap();
                fs::rename(&new, file).unwrap();
                self.model.replaced(Target::File(*number));
                Ok(())
            }
            Event::Removed(number) => {
                fs::remove_file(self.folder.path().join(Target::File(*number).value())).unwrap();
                self.model.replaced(Target::File(*number));
                Ok(())
            }
            Event::Locked(target, lock) => {
                self.locks.take(&self.folder.path().join(target.value()), *lock);
                Ok(())
            }
            Event::Unlocked => {
                self.locks.release();
                Ok(())
            }
            Event::Rival => self.rival(),
            Event::Ended(end) => self.end(*end),
            Event::Safe => self.safe(),
            Event::Frozen => {
                self.settle()?;
                assert!(self.disk.unwrap().freeze());
                self.model.frozen = true;
                Ok(())
            }
            Event::Thawed => self.thaw(),
        }
    }

    pub(crate) fn put(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).unwrap();
    }

    /// The content of a file. A chip's file is read as a driver would show it: without the rest of an earlier, longer text.
    pub(crate) fn read(&self, file: &str) -> String {
        let text = fs::read_to_string(self.folder.path().join(file)).unwrap_or_else(|error| format!("({error})"));
        match (file.starts_with("class"), text.split_once('\n')) {
            (true, Some((line, _))) => format!("{line}\n"),
            _ => text,
        }
    }

    /// A command for hertzd that sees the story's chip, if root can provide that.
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

    /// Removes the rest of longer texts from the chip's files that no output owns, because a driver would not show it.
    fn show_as_drivers_do(&self) {
        let free = [1, 2].map(Target::Fan).into_iter().filter(|fan| !self.model.tenures.contains_key(fan));
        free.flat_map(Target::files).for_each(|file| {
            if self.folder.path().join(&file).exists() {
                self.put(&file, &self.read(&file));
            }
        });
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn configure(&self, outputs: &[Output]) {
        let new = self.folder.path().join("new.toml");
        fs::write(&new, configuration(outputs, self.folder.path())).unwrap();
        fs::rename(&new, self.folder.path().join("story.toml")).unwrap();
    }

    /// Waits for a state of the running process; fails if it ends first.
    fn wait_for(&mut self, what: &str, mut state: impl FnMut(&Self) -> bool) -> Result<(), Wrong> {
        let passed = stopwatch();
        while !state(self) {
            let ended = self.running.as_mut().and_then(|running| running.try_wait().unwrap());
            if ended.is_some() || passed() > PATIENCE {
                return Err(format!("it ends or hangs before {what}: {ended:?}"));
            }
            pause(Span::from_millis(2));
        }
        Ok(())
    }

    fn start(&mut self, outputs: &[Output]) -> Result<(), Wrong> {
        self.configure(outputs);
        let log = File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let path = self.folder.path().join("notify");
        let _ = fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let mut command = self.hertzd("run");
        command.env("NOTIFY_SOCKET", path).args(["run", "--stop-timeout", "60s"]);
        command.arg(self.folder.path().join("story.toml")).stdout(Stdio::null());
        self.running = Some(command.stderr(log).spawn().unwrap());
        // Outputs might not have begun before hertzd reports ready.
        let mut message = [0; 4_096];
        let mut says_ready = |_: &Self| {
            let received = manager.recv(&mut message).map_or(0, |length| length);
            String::from_utf8_lossy(&message[..received]).contains("READY=1")
        };
        self.wait_for("it has started", &mut says_ready)?;
        // The start has dealt with whatever a killed process left.
        self.model.configure(outputs);
        self.model.settle();
        outputs.clone_into(&mut self.outputs);
        Ok(())
    }

    fn reload(&mut self, outputs: &[Output]) -> Result<(), Wrong> {
        self.settle()?;
        self.show_as_drivers_do();
        self.configure(outputs);
        let answers = |log: &str| [log.matches("reloaded: ").count(), log.matches("reload refused: ").count()];
        let before = answers(&self.log());
        signal(self.running.as_ref().unwrap().id(), "HUP");
        self.wait_for("it has reloaded", |stage| answers(&stage.log()) != before)?;
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

    /// Waits until the outputs ended by the last reload are safe.
    fn settle(&mut self) -> Result<(), Wrong> {
        let leaving = self.model.leaving.iter().filter(|it| !self.model.hangs(it));
        let files: Vec<_> = leaving.flat_map(|it| it.output.target.files()).collect();
        if files.is_empty() {
            return Ok(());
        }
        self.model.settle();
        let is_safe = |stage: &Self| files.iter().all(|file| stage.model.files[file].hold(&stage.read(file)));
        self.wait_for("what the reload has ended is safe", is_safe)
    }

    fn wait_until_live(&mut self) -> Result<(), Wrong> {
        self.settle()?;
        for (file, shows) in self.model.following() {
            self.wait_for(&format!("{file} is {shows:?}"), |stage| stage.read(&file) == shows)?;
        }
        self.model.live();
        Ok(())
    }

    /// Checks that another hertzd with these outputs is refused and changes nothing.
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

    /// Waits until this process has ended. If the disk hangs, one of its threads may still wait for the disk. Asks the process to end a
    /// second time once that `is_due`.
    fn wait(&mut self, mut child: Child, is_due: impl Fn(&Self) -> bool) -> Result<ExitStatus, Wrong> {
        let mut asked = false;
        let passed = stopwatch();
        loop {
            let lasted = passed();
            if let Some(status) = ended(&mut child) {
                self.given_up.push(child);
                return Ok(status);
            }
            if lasted > PATIENCE {
                self.running = Some(child);
                return Err("it does not end".into());
            }
            if !asked && is_due(self) {
                signal(child.id(), "TERM");
                asked = true;
            }
            pause(Span::from_millis(2));
        }
    }

    /// Thaws the disk: whatever waited for it ends.
    fn thaw(&mut self) -> Result<(), Wrong> {
        if std::mem::take(&mut self.model.frozen) {
            self.model.thawed();
            assert!(self.disk.unwrap().thaw());
        }
        for mut child in std::mem::take(&mut self.given_up) {
            child.wait().unwrap();
        }
        Ok(())
    }

    fn end(&mut self, end: End) -> Result<(), Wrong> {
        let (mut running, before) = (self.running.take().unwrap(), self.log().len());
        match end {
            End::Stop => signal(running.id(), "TERM"),
            End::Kill => running.kill().unwrap(),
            End::Crash => signal(running.id(), "SEGV"),
        }
        // The stop does not wait for a tick that hangs with the disk, once hertzd has reported what hangs.
        let hangs = self.model.frozen && self.outputs.iter().any(|output| output.target == Target::ON_DISK);
        let since = |stage: &Self| stage.log().split_off(before);
        let is_due = |stage: &Self| {
            hangs
                && since(stage).contains("stopping: waiting")
                && stage.is_said(false, "its log", &since(stage)).is_ok()
        };
        let status = self.wait(running, |stage| end == End::Stop && is_due(stage))?;
        match end {
            End::Stop => {
                let by_second = libc::SIGTERM + 128;
                match status.code() {
                    Some(0 | 1) if !hangs => self.model.all_safe(),
                    // Everything that could be written was written, but may be in the plan all the same.
                    Some(code) if hangs && [0, 1, 70, by_second].contains(&code) => self.model.carry_out(),
                    _ => return Err(format!("a stop ends with {status:?}")),
                }
                self.is_said(status.success(), "its log", &since(self))?;
                let plan = fs::read_to_string(self.folder.path().join("run/safe-plan.json")).unwrap_or_default();
                self.is_said(false, "its plan", &plan)?;
                self.compare(status.success(), true)
            }
            End::Kill => {
                self.model.left(false);
                self.compare(true, false)
            }
            End::Crash => {
                if status.signal() != Some(libc::SIGSEGV) && !self.model.frozen {
                    return Err(format!("a crash ends with {status:?}"));
                }
                self.model.left(true);
                self.compare(true, false)
            }
        }
    }

    fn safe(&mut self) -> Result<(), Wrong> {
        let (status, said) = self.carry_out()?;
        if !matches!(status.code(), Some(0 | 1 | 77)) {
            return Err(format!("`hertzd safe` ends so: {status:?}: {said}"));
        }
        self.model.carry_out();
        self.is_said(status.success(), "`hertzd safe`", &said)?;
        self.compare(status.success(), true).map_err(|wrong| format!("{wrong}: {said}"))
    }

    /// Runs `hertzd safe`, and returns its status and output.
    pub(crate) fn carry_out(&mut self) -> Result<(ExitStatus, String), Wrong> {
        let path = self.folder.path().join("safe");
        let file = File::create(&path).unwrap();
        let child = self.hertzd("run").arg("safe").stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let status = self.wait(child, |_| false)?;
        Ok((status, fs::read_to_string(path).unwrap()))
    }
}
