//! A fan of hwmon whose device goes away while hertzd runs, and comes back with another number. The tree consists of plain files, named as
//! in `/sys`, without a driver. The daemon runs in this process: only so can a test set the tree's location.

use crate::program::{HERE, pause};
use hertzd::config::Kinds;
use hertzd::internals::{Embedded, EmbeddedRun};
use hertzd::time::Span;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A machine of plain files, and a daemon on it.
struct Machine {
    folder: TempDir,
    daemon: EmbeddedRun,
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

    /// Starts a machine whose fan has number 3.
    fn start(output: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::device(folder.path(), 3, "fake");
        let daemon =
            Embedded::of(Kinds::builtin(), Self::section(folder.path(), output)).sys(&folder.path().join("sys"));
        let daemon = daemon.safe_plan(&folder.path().join("plan.json")).start();
        Self { folder, daemon }
    }

    fn section(folder: &Path, output: &str) -> String {
        let terms = "kind = \"output\"\nrate = 100\nsafe-after = \"1h\"\nrecover-after = \"0s\"";
        format!("[task.fan]\n{terms}\n{}\n", output.replace(HERE, folder.to_str().unwrap()))
    }

    fn reload(&self, output: &str) {
        self.daemon.reload(Self::section(self.folder.path(), output));
    }

    fn stop(self) -> TempDir {
        self.daemon.stop();
        self.daemon.end();
        self.folder
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The file's first line, as a driver would show it.
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
    machine.daemon.until("it is live", || line(&before.join("pwm1")) == "128");
    fs::rename(&before, folder.join("unplugged")).unwrap();
    let after = Machine::device(folder, 5, "fake");
    machine.daemon.until("it is written where it is now", || line(&after.join("pwm1")) == "128");
    assert_eq!(line(&after.join("pwm1_enable")), "1", "it is set by hand");
    machine.daemon.until("the plan has its path", || {
        read(&plan).contains("hwmon5/pwm1_enable") && !read(&plan).contains("hwmon3")
    });
    let _folder = machine.stop();
    assert_eq!(line(&after.join("pwm1")), "255");
}

/// After a reload, the section names the target in another way.
#[test]
fn a_device_is_looked_for_by_the_keys_that_are_in_force() {
    let machine = Machine::start(BY_PATH);
    let folder = machine.folder.path();
    let before = folder.join("sys/class/hwmon/hwmon3");
    machine.daemon.until("it is live", || line(&before.join("pwm1")) == "64");
    machine.reload(BY_NAME);
    machine.daemon.until("it has reloaded", || line(&before.join("pwm1")) == "128");
    fs::rename(&before, folder.join("unplugged")).unwrap();
    let after = Machine::device(folder, 5, "fake");
    machine.daemon.until("it is written where it is now", || line(&after.join("pwm1")) == "128");
    let _folder = machine.stop();
    assert_eq!(line(&after.join("pwm1")), "255");
}

#[test]
fn another_device_that_has_its_number_now_is_left_alone() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let logging = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::new(log.reopen().unwrap())).finish();
    tracing::subscriber::set_global_default(logging).unwrap();
    let machine = Machine::start(BY_PATH);
    let folder = machine.folder.path();
    let place = folder.join("sys/class/hwmon/hwmon3");
    machine.daemon.until("it is live", || line(&place.join("pwm1")) == "64");
    let (unplugged, other) = (folder.join("unplugged"), folder.join("other"));
    fs::rename(&place, &unplugged).unwrap();
    Machine::device(folder, 3, "another");
    // The daemons of other tests log there too.
    let refused = format!("{} is another device now", place.join("pwm1").display());
    machine.daemon.until("it was looked for", || read(log.path()).contains(&refused));
    // Repeatedly.
    for _ in 0..400 {
        assert_eq!(["pwm1", "pwm1_enable"].map(|name| line(&place.join(name))), ["77", "2"]);
        pause(Span::from_millis(5));
    }
    fs::write(unplugged.join("pwm1"), "9\n").unwrap();
    fs::rename(&place, &other).unwrap();
    fs::rename(&unplugged, &place).unwrap();
    machine.daemon.until("it has its own again", || line(&place.join("pwm1")) == "64");
    let _folder = machine.stop();
    assert_eq!([line(&place.join("pwm1")), line(&other.join("pwm1"))], ["255", "77"]);
}
