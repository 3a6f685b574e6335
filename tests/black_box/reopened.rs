//! Targets of outputs that go away while hertzd runs and come back: what is in them afterwards, read from outside. A fan of hwmon whose device
//! comes back with another number is a tree of plain files, named as in `/sys`; no driver is behind them.

use crate::program;
use crate::program::run_in;
use hertzd::config::{Config, Facts, Kinds};
use hertzd::internals::{
    Connections, Host, Loader, Options, Request, Requests, cpu_set_size, output_kind_under, pause, run_daemon,
};
use hertzd::time::Span;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;

const CONFIG: &str = "\
[task.follows]
kind = \"output\"
rate = 100
input = 128
path = \"@HERE@/follows\"
safe = 255
safe-after = \"1h\"
recover-after = \"0s\"
readback = \"100ms\"
[task.latched]
kind = \"output\"
rate = 100
input = 128
path = \"@HERE@/latched\"
safe = 255
safe-after = \"1h\"
recover = \"latch\"
[task.restores]
kind = \"output\"
rate = 100
input = 128
path = \"@HERE@/folder/restores\"
safe = \"restore\"
safe-after = \"1h\"
recover-after = \"0s\"
";

/// Without the newlines that a text may have behind it while it gets shorter.
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}

#[test]
fn a_file_that_was_replaced_or_removed_is_written_again_and_safe_at_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let paths = [at("follows"), at("latched"), at("folder/restores")];
    let [follows, latched, restores] = &paths;
    let (new, inner, away, socket) = (at("new"), at("folder"), at("away"), at("s"));
    fs::create_dir(&inner).unwrap();
    fs::write(restores, "42\n").unwrap();
    let args = ["--log-format", "json", "--json", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(program::HERTZD), CONFIG, &args);
    running.wait_for("all are live", |_| paths.iter().all(|path| read(path) == "128"));
    for path in [latched, follows] {
        fs::write(&new, "7\n").unwrap();
        fs::rename(&new, path).unwrap();
    }
    running.wait_for("the new file is written", |_| read(follows) == "128");
    running.wait_for("the latched one is safe", |_| read(latched) == "255");
    fs::remove_file(follows).unwrap();
    running.wait_for("it is made again", |_| read(follows) == "128");
    running.wait_for("it is read back again", |_| program::snapshot(&socket)["readbacks"][0]["state"] == "agrees");
    // Its folder goes, and another one comes.
    fs::rename(&inner, &away).unwrap();
    let trouble = "restores: its target is gone, and is looked for";
    running.wait_for("it is noticed", |_| {
        program::snapshot(&socket)["reason"].as_str().is_some_and(|reason| reason.contains(trouble))
    });
    running.wait_for("failed writes are counted", |_| {
        let snapshot = program::snapshot(&socket);
        let errors = &program::task(&snapshot, "restores")["values"]["write-errors"]["last"];
        errors.as_f64() > Some(0.0)
    });
    assert_eq!(read(&away.join("restores")), "128", "what was written last stays");
    fs::create_dir(&inner).unwrap();
    fs::write(&new, "9\n").unwrap();
    fs::rename(&new, restores).unwrap();
    running.wait_for("it is written again", |_| read(restores) == "128");
    running.wait_for("all is well with it", |_| {
        let reason = program::snapshot(&socket)["reason"].clone();
        !reason.as_str().unwrap_or_default().contains(trouble)
    });
    assert_eq!(read(latched), "255", "nothing has reset it");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!([read(follows), read(restores)], ["255", "42"], "{}", ended.describe());
    assert_eq!(read(&away.join("restores")), "128", "it is not the target any more");
    for text in [
        "task follows disconnected; trying to reopen it",
        "task latched was reopened after",
        "task restores cannot be reopened yet",
    ] {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
}

/// A machine of plain files, and a daemon on it.
struct Machine {
    folder: TempDir,
    text: Arc<Mutex<String>>,
    requests: Requests,
    thread: JoinHandle<()>,
}

impl Machine {
    /// A fan of this chip.
    fn device(folder: &Path, number: u8, chip: &str) -> PathBuf {
        let (new, device) = (folder.join("new"), folder.join(format!("sys/class/hwmon/hwmon{number}")));
        fs::create_dir_all(device.parent().unwrap()).unwrap();
        fs::create_dir_all(&new).unwrap();
        for (file, text) in [("name", chip), ("pwm1", "77"), ("pwm1_enable", "2")] {
            fs::write(new.join(file), format!("{text}\n")).unwrap();
        }
        fs::rename(&new, &device).unwrap();
        device
    }

    /// One whose fan has number 3.
    fn start(output: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::device(folder.path(), 3, "fake");
        let options = Options { safe_plan: Some(folder.path().join("plan.json")), ..Options::default() };
        let (requests, kinds) =
            (Requests::default(), Kinds::empty().add(output_kind_under(&folder.path().join("sys"))));
        let (asked, text) = (requests.clone(), Arc::new(Mutex::new(Self::section(folder.path(), output))));
        let loaded = text.clone();
        let thread = std::thread::spawn(move || {
            let facts = Facts { online_cpus: Host::read().online_cpus, cpu_set_size: cpu_set_size() };
            let load = Loader::new(move || Config::parse(loaded.lock().unwrap().clone(), "test.toml", &kinds, &facts));
            run_daemon(load, &options, Connections { requests: asked, ..Connections::default() }).unwrap();
        });
        Self { folder, text, requests, thread }
    }

    fn section(folder: &Path, output: &str) -> String {
        let terms = "kind = \"output\"\nrate = 100\nsafe-after = \"1h\"\nrecover-after = \"0s\"";
        format!("[task.fan]\n{terms}\n{}\n", output.replace(program::HERE, folder.to_str().unwrap()))
    }

    fn reload(&self, output: &str) {
        *self.text.lock().unwrap() = Self::section(self.folder.path(), output);
        self.requests.ask(Request::Reload);
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        while !is_so() {
            assert!(!self.thread.is_finished(), "the daemon has ended before {what}");
            pause(Span::from_millis(2));
        }
    }

    fn stop(self) -> TempDir {
        self.requests.ask(Request::Stop(15));
        self.thread.join().unwrap();
        self.folder
    }
}

/// As a driver would show it.
fn line(path: &Path) -> String {
    read(path).lines().next().unwrap_or_default().to_owned()
}

const BY_NAME: &str = "hwmon = \"fake\"\nfile = \"pwm1\"\ninput = 0.5\nsafe = 1.0";
const BY_PATH: &str = "path = \"@HERE@/sys/class/hwmon/hwmon3/pwm1\"\ninput = 64\nsafe = 255";

#[test]
fn a_device_that_comes_back_with_another_number_is_found_and_the_plan_follows() {
    let machine = Machine::start(BY_NAME);
    let folder = machine.folder.path();
    let (before, plan) = (folder.join("sys/class/hwmon/hwmon3"), folder.join("plan.json"));
    machine.until("it is live", || line(&before.join("pwm1")) == "128");
    fs::rename(&before, folder.join("unplugged")).unwrap();
    let after = Machine::device(folder, 5, "fake");
    machine.until("it is written where it is now", || line(&after.join("pwm1")) == "128");
    assert_eq!(line(&after.join("pwm1_enable")), "1", "it is set by hand");
    machine.until("the plan has its path", || {
        read(&plan).contains("hwmon5/pwm1_enable") && !read(&plan).contains("hwmon3")
    });
    let _folder = machine.stop();
    assert_eq!(line(&after.join("pwm1")), "255");
}

/// The section names it in another way since a reload.
#[test]
fn a_device_is_looked_for_by_the_keys_that_are_in_force() {
    let machine = Machine::start(BY_PATH);
    let folder = machine.folder.path();
    let before = folder.join("sys/class/hwmon/hwmon3");
    machine.until("it is live", || line(&before.join("pwm1")) == "64");
    machine.reload(BY_NAME);
    machine.until("it has reloaded", || line(&before.join("pwm1")) == "128");
    fs::rename(&before, folder.join("unplugged")).unwrap();
    let after = Machine::device(folder, 5, "fake");
    machine.until("it is written where it is now", || line(&after.join("pwm1")) == "128");
    let _folder = machine.stop();
    assert_eq!(line(&after.join("pwm1")), "255");
}

#[test]
fn another_device_that_has_its_number_now_is_left_alone() {
    let machine = Machine::start(BY_PATH);
    let folder = machine.folder.path();
    let place = folder.join("sys/class/hwmon/hwmon3");
    machine.until("it is live", || line(&place.join("pwm1")) == "64");
    let (unplugged, other) = (folder.join("unplugged"), folder.join("other"));
    fs::rename(&place, &unplugged).unwrap();
    Machine::device(folder, 3, "another");
    // It is looked for at once, and again and again.
    for _ in 0..400 {
        assert_eq!(["pwm1", "pwm1_enable"].map(|name| line(&place.join(name))), ["77", "2"]);
        pause(Span::from_millis(5));
    }
    fs::rename(&place, &other).unwrap();
    fs::rename(&unplugged, &place).unwrap();
    fs::write(place.join("pwm1"), "9\n").unwrap();
    machine.until("it has its own again", || line(&place.join("pwm1")) == "64");
    let _folder = machine.stop();
    assert_eq!([line(&place.join("pwm1")), line(&other.join("pwm1"))], ["255", "77"]);
}

/// The task that ends has still to open it again, and would do so after the one that begins.
#[test]
fn a_target_that_has_just_come_back_has_one_holder_after_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (one, new, socket, config) = (at("one"), at("new"), at("s"), at("test.toml"));
    let place = folder.path().to_str().unwrap().to_owned();
    let output = |rate: u32| {
        format!(
            "[task.a]\nkind = \"output\"\nrate = {rate}\ninput = 128\npath = \"@HERE@/one\"\nsafe = 255\nsafe-after = \"1h\"\n\
             recover-after = \"0s\"\n[task.beat]\nkind = \"load\"\nrate = 10\n"
        )
    };
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(program::HERTZD), &output(50), &args);
    running.wait_for("it is live", |_| read(&one) == "128" && socket.exists());
    for rate in [100, 200, 50, 100] {
        fs::write(&new, "7\n").unwrap();
        fs::write(&config, output(rate).replace(program::HERE, &place)).unwrap();
        fs::rename(&new, &one).unwrap();
        let reload = Command::new(program::HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
        assert!(reload.status.success(), "{reload:?}");
        running.wait_for("it is live again", |_| read(&one) == "128");
        running.wait_for("nobody looks for it", |_| {
            !program::snapshot(&socket)["reason"].as_str().unwrap_or_default().contains("its target is gone")
        });
    }
    running.signal("TERM");
    let ended = running.wait();
    assert!(read(&one) == "255" && ended.status.success(), "{}", ended.describe());
}

/// What opens the target again was there before the reload, and must not go by what was in force then.
#[test]
fn a_reload_is_seen_by_what_opens_the_target_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (one, socket, config) = (at("one"), at("s"), at("test.toml"));
    ["one", "two"].iter().for_each(|name| fs::write(at(name), "7\n").unwrap());
    let place = folder.path().to_str().unwrap().to_owned();
    let output = |task: &str, file: &str, rate: u32, safe: &str| {
        format!(
            "[task.{task}]\nkind = \"output\"\nrate = {rate}\ninput = 128\npath = \"@HERE@/{file}\"\nsafe = {safe}\n\
             safe-after = \"1h\"\nrecover-after = \"0s\"\n"
        )
    };
    let text = output("a", "one", 100, "\"hold\"") + &output("b", "two", 100, "255");
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(program::HERTZD), &text, &args);
    running.wait_for("it is live", |_| read(&one) == "128" && socket.exists());
    let reload = |text: String| {
        fs::write(&config, text.replace(program::HERE, &place)).unwrap();
        let reload = Command::new(program::HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
        assert!(reload.status.success(), "{reload:?}");
    };
    reload(output("a", "one", 100, "255") + &output("b", "two", 100, "255"));
    fs::remove_file(&one).unwrap();
    running.wait_for("it is made, as it has a safe value by now", |_| read(&one) == "128");
    // The names are swapped; then the task that has it now is begun again, and the other one goes on.
    reload(output("b", "one", 100, "255") + &output("a", "two", 100, "255"));
    reload(output("b", "one", 50, "255") + &output("a", "two", 100, "255"));
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(read(&one), "255", "{}", ended.describe());
}
