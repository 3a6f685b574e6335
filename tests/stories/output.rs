//! The outputs of a story and their configuration.

use std::fmt::{self, Write};
use std::path::Path;

/// The target that an output drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A regular file, `file0`; the last one lies on a separate disk.
    File(u8),
    /// A chip's fan: `pwm1`, and `pwm1_enable`, which selects who controls it.
    Fan(u8),
}

impl Target {
    /// The target that hangs when the disk does.
    pub(crate) const ON_DISK: Self = Self::File(2);

    /// The file that holds its value, relative to the story's folder.
    pub(crate) fn value(self) -> String {
        match self {
            Self::ON_DISK => "disk/file2".into(),
            Self::File(number) => format!("file{number}"),
            Self::Fan(number) => format!("class/hwmon/hwmon0/pwm{number}"),
        }
    }

    /// The file that selects who controls a fan.
    pub(crate) fn enable(self) -> Option<String> {
        matches!(self, Self::Fan(_)).then(|| self.value() + "_enable")
    }

    /// All its files.
    pub(crate) fn files(self) -> impl Iterator<Item = String> {
        [Some(self.value()), self.enable()].into_iter().flatten()
    }
}

/// The safe state of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Safe {
    /// This number, as the target shows it.
    Number(f64),
    Restore,
    Hold,
}

/// A section of kind `output`. Numbers are as the target shows them.
#[derive(Clone, PartialEq)]
pub(crate) struct Output {
    pub(crate) task: String,
    pub(crate) target: Target,
    /// A fan is configured by the path of its file instead of the chip's name.
    pub(crate) by_path: bool,
    pub(crate) value: f64,
    pub(crate) safe: Safe,
    /// A power of two.
    pub(crate) scale: f64,
    pub(crate) limits: bool,
    pub(crate) keep: bool,
    pub(crate) always: bool,
    pub(crate) rate: u32,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, target, by_path, value, safe, scale, limits, keep, always, rate } = self;
        write!(f, "{task}: {target:?} = {value}, safe {safe:?}, {rate} Hz")?;
        let words = [
            ("by path", *by_path),
            ("scaled", *scale != 1.0),
            ("limits", *limits),
            ("keep", *keep),
            ("always", *always),
        ];
        words.into_iter().filter(|(_, is)| *is).try_for_each(|(word, _)| write!(f, ", {word}"))
    }
}

impl Output {
    /// Whether both write to the same target in the same way.
    pub(crate) fn has_layout_of(&self, other: &Self) -> bool {
        (self.target, self.by_path, self.scale) == (other.target, other.by_path, other.scale)
    }

    fn toml(&self, folder: &Path) -> String {
        let Self { task, target, by_path, value, safe, scale, limits, keep, always, rate } = self;
        let (place, unit) = match target {
            Target::Fan(number) if !by_path => (format!("hwmon = \"chip\"\nfile = \"pwm{number}\""), 255.0),
            // The path as hertzd sees it.
            Target::Fan(number) => (format!("path = \"/sys/class/hwmon/hwmon0/pwm{number}\""), 1.0),
            Target::File(_) => {
                (format!("path = \"{}\"\nscale = {scale}", folder.join(target.value()).display()), *scale)
            }
        };
        let safe = match safe {
            Safe::Number(number) => format!("{}", number / unit),
            Safe::Restore => "\"restore\"".into(),
            Safe::Hold => "\"hold\"".into(),
        };
        let input = value / unit;
        let mut text =
            format!("[task.{task}]\nkind = \"output\"\nrate = {rate}\n{place}\ninput = {input}\nsafe = {safe}\n");
        if *limits {
            let _ = writeln!(text, "limits = [{}, {}]", input / 2.0, input);
        }
        // With a separate worker, a hanging disk delays no other task.
        let _ = writeln!(text, "worker = \"{}\"", if *target == Target::ON_DISK { "disk" } else { "main" });
        // A worker that is starved by a busy machine should not count as hanging; one that hangs with the disk should.
        if *target != Target::ON_DISK {
            text += "safe-after = \"60s\"\n";
        }
        let _ = writeln!(text, "start = \"{}\"", if *keep { "keep" } else { "safe" });
        let _ = writeln!(text, "write = \"{}\"", if *always { "always" } else { "change" });
        text
    }
}

/// The whole configuration. It always contains one task without an output.
pub(crate) fn configuration(outputs: &[Output], folder: &Path) -> String {
    let has_disk = outputs.iter().any(|output| output.target == Target::ON_DISK);
    let disk = if has_disk { "[worker.disk]\npolicy = \"other\"\n" } else { "" };
    let outputs: String = outputs.iter().map(|output| output.toml(folder)).collect();
    format!(
        "[worker.main]\npolicy = \"other\"\n{disk}[task.beat]\nkind = \"load\"\nworker = \"main\"\nrate = 50\n{outputs}"
    )
}
