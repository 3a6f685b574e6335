//! A channel of a PWM chip: found by the chip's name or by that of its parent device, and set up. Reads and writes small files in `/sys`;
//! may block; not for a hot thread. Source: the kernel's `Documentation/ABI/testing/sysfs-class-pwm`.

use super::super::text::read_text;
use crate::kinds::device::{first_line, numbered};
use crate::site::{DeviceId, Refusal};
use crate::sys::clock::pause;
use crate::time::Span;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How long to wait for the files of an exported channel: udev gives them to their group, which takes seconds on a small board that is
/// booting.
const LOOKS: u32 = 1000;
const BETWEEN: Span = Span::from_millis(10);

/// The files beside `duty_cycle` that decide what the duty does.
pub(super) const BESIDE_DUTY: [&str; 3] = ["period", "enable", "polarity"];

/// A channel, with its wanted period.
#[derive(Clone, Debug)]
pub(in super::super) struct Channel {
    pub(super) chip: PathBuf, // its folder
    pub(super) number: u32,
    pub(super) period: Span,
    pub(super) duty: PathBuf, // `duty_cycle`, which might not exist yet
}

impl Channel {
    /// Finds the channel by the name of its chip.
    pub(super) fn find(chip: &str, number: u32, period: Span, sys: &Path) -> Result<Self, Refusal> {
        let chip = find(chip, number, sys)?;
        Ok(Self { duty: folder_of(&chip, number).join("duty_cycle"), chip, number, period })
    }

    /// Its id, whether its files exist or not.
    pub(super) fn id(&self) -> DeviceId {
        DeviceId::Named(format!("{} channel {}", self.chip.display(), self.number))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.duty.with_file_name(name)
    }

    /// Exports the channel, so that its files exist. Changes nothing that another process sees.
    pub(super) fn export(&self) -> Result<(), Refusal> {
        let (folder, channel) = (self.duty.parent().unwrap_or(&self.duty), self.number);
        if !folder.exists() {
            let export = folder.with_file_name("export");
            fs::write(&export, format!("{channel}\n"))
                .map_err(refuse(&format!("export channel {channel} by {}", export.display())))?;
            let is_there = || fs::OpenOptions::new().write(true).open(&self.duty).is_ok();
            let now = || folder_of(&self.chip, channel);
            let is_elsewhere = || now() != folder;
            let _ = (0..LOOKS).any(|_| is_there() || is_elsewhere() || (pause(BETWEEN), false).1);
            if is_elsewhere() {
                let text = format!(
                    "channel {channel} is exported now, as {}, where this kernel puts it; start hertzd again",
                    now().display()
                );
                return Err(Refusal::new("pwm", text));
            }
        }
        Ok(())
    }

    /// Refuses to change the period: the current output writes its duty in units of it.
    pub(super) fn keeps_period(&self) -> Result<(), Refusal> {
        let has = first_line(&self.file("period")).and_then(|line| line.trim().parse().ok()).map(Span::from_nanos);
        match has.filter(|has| *has != self.period) {
            None => Ok(()),
            Some(has) => Err(Refusal::new(
                "pwm-period",
                format!(
                    "cannot be changed while the channel is in use: it has {has}; restart hertzd, or remove the output by one reload and add it by the next"
                ),
            )),
        }
    }

    /// Whether the channel is on: while off it outputs nothing, whatever its duty.
    pub(super) fn is_on(&self) -> Result<bool, Refusal> {
        Ok(read(&self.file("enable"))? == 1)
    }

    /// The duty that keeps its share of the period once the wanted period is set; 0 if the channel is off. Writes nothing.
    pub(super) fn kept_duty(&self) -> Result<u64, Refusal> {
        if !self.is_on()? {
            return Ok(0);
        }
        let (had_period, had_duty) = (read(&self.file("period"))?, read(&self.duty)?);
        Ok(share(had_duty, had_period, self.nanos()))
    }

    fn nanos(&self) -> u64 {
        self.period.nanos().unsigned_abs()
    }

    /// Sets up an exported and locked channel: writes its period and switches it on. `duty`: in units of the new period; `None`: keep the
    /// share of the period. If a write fails, it and the earlier ones are undone.
    pub(super) fn set_up(&self, duty: Option<u64>) -> Result<(), Refusal> {
        let write = |name: &str, number: u64| {
            let file = self.file(name);
            fs::write(&file, format!("{number}\n")).map_err(refuse(&format!("write {number} to {}", file.display())))
        };
        let (had_period, had_duty) = (read(&self.file("period"))?, read(&self.duty)?);
        let duty = duty.map_or_else(|| self.kept_duty(), Ok)?;
        let period = self.nanos();
        let is_on = self.is_on()?;
        // At no time may the duty exceed the period, or be a larger share of it than both before and after.
        let mut writes = [("duty_cycle", had_duty, duty), ("period", had_period, period)];
        if period > had_period {
            writes.reverse();
        }
        let enable = (!is_on).then_some(("enable", 0, 1));
        let writes: Vec<_> =
            writes.into_iter().filter(|(name, had, new)| *name != "period" || had != new).chain(enable).collect();
        for (at, (name, _, number)) in writes.iter().enumerate() {
            write(name, *number).inspect_err(|_| {
                for (name, had, _) in writes[..=at].iter().rev() {
                    _ = write(name, *had); // the caller checks whether the old values are back
                }
            })?;
        }
        Ok(())
    }
}

fn refuse(doing: &str) -> impl Fn(io::Error) -> Refusal + use<> {
    let doing = doing.to_owned();
    move |error| Refusal::new("pwm", format!("cannot {doing}: {error}"))
}

fn read(file: &Path) -> Result<u64, Refusal> {
    let text = read_text(file).map_err(refuse(&format!("read {}", file.display())))?;
    Ok(text.trim().parse().unwrap_or(0))
}

/// Scales a duty from the period the channel had to the new one.
pub(super) fn share(had_duty: u64, had_period: u64, period: u64) -> u64 {
    let share = u128::from(had_duty) * u128::from(period) / u128::from(had_period.max(1));
    u64::try_from(share).unwrap_or(period).min(period)
}

/// The chip's folder, without symbolic links.
fn find(wanted: &str, channel: u32, sys: &Path) -> Result<PathBuf, Refusal> {
    let class = sys.join("class/pwm");
    let refuse = |key, text: String| Err(Refusal::new(key, text));
    let mut all = Vec::new();
    for (_, name) in numbered(&class, "pwmchip").unwrap_or_default() {
        let Ok(folder) = class.join(&name).canonicalize() else { continue };
        let parent = folder.join("device").canonicalize().ok();
        let parent = parent.and_then(|parent| Some(parent.file_name()?.to_string_lossy().into_owned()));
        all.push((name, parent, folder));
    }
    let is_it =
        |(name, parent, _): &&(String, Option<String>, PathBuf)| name == wanted || parent.as_deref() == Some(wanted);
    let found: Vec<_> = all.iter().filter(is_it).collect();
    let folder = match &found[..] {
        [(.., folder)] => folder.clone(),
        [] => {
            let names = all.iter().map(|(name, parent, _)| parent.as_ref().unwrap_or(name).clone());
            let names: Vec<_> = names.collect();
            let there = if names.is_empty() {
                "there is no PWM chip at all".into()
            } else {
                format!("there are {}", names.join(", "))
            };
            return refuse("pwm", format!("no PWM chip is named {wanted:?}; {there}"));
        }
        several => {
            let names: Vec<_> = several.iter().map(|(name, ..)| name.as_str()).collect();
            return refuse("pwm", format!("several PWM chips belong to {wanted:?}; say which: {}", names.join(", ")));
        }
    };
    let channels = first_line(&folder.join("npwm")).and_then(|line| line.trim().parse::<u32>().ok()).unwrap_or(0);
    if channel >= channels {
        let text = format!("{} has {channels} channels, the first of which is 0", folder.display());
        return refuse("channel", text);
    }
    Ok(folder)
}

/// The folder of a channel: `pwmM`, or `pwm-N:M` of chip N on BeagleBoard's kernels. Before the channel is exported neither exists; then it
/// is the mainline name, `pwmM`.
pub(in super::super) fn folder_of(chip: &Path, channel: u32) -> PathBuf {
    let usual = chip.join(format!("pwm{channel}"));
    let number = chip.file_name().and_then(|name| name.to_str()?.strip_prefix("pwmchip"));
    let other = number.map(|number| chip.join(format!("pwm-{number}:{channel}")));
    other.filter(|other| !usual.is_dir() && other.is_dir()).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;
    use crate::kinds::output::left_writes::{LeftWrite, LeftWrites};
    use crate::kinds::output::place::Place;
    use crate::kinds::output::port::SafeText;

    #[test]
    fn the_folder_of_a_channel_has_either_name() {
        let folder = tempfile::tempdir().unwrap();
        let chip = folder.path().join("pwmchip4");
        fs::create_dir_all(chip.join("pwm-4:1")).unwrap();
        fs::create_dir_all(chip.join("pwm-3:0")).unwrap();
        assert_eq!(folder_of(&chip, 1), chip.join("pwm-4:1"));
        assert_eq!(folder_of(&chip, 0), chip.join("pwm0"), "that one is of another chip");
        let channel = Channel { duty: chip.join("pwm1/duty_cycle"), chip: chip.clone(), number: 1, period: Span::ZERO };
        let refused = channel.export().unwrap_err();
        assert!(refused.message.contains("pwmchip4/pwm-4:1, where this kernel puts it; start"), "{}", refused.message);
        fs::create_dir_all(chip.join("pwm1")).unwrap();
        assert_eq!(folder_of(&chip, 1), chip.join("pwm1"));
    }

    #[test]
    fn what_a_killed_run_has_found_is_restored_by_the_period_that_it_has_left() {
        let sys = tempfile::tempdir().unwrap();
        let chip = sys.path().join("class/pwm/pwmchip0");
        let channel = chip.join("pwm0");
        fs::create_dir_all(&channel).unwrap();
        fs::write(chip.join("npwm"), "1\n").unwrap();
        let put = |period: &str, duty: &str| {
            [("period", period), ("duty_cycle", duty)]
                .into_iter()
                .for_each(|(file, text)| fs::write(channel.join(file), text).unwrap());
        };
        put("1000000\n", "500000\n");
        let place = Place::Pwm { chip: "pwmchip0".into(), channel: 0, period: Span::from_nanos(40_000) };
        let killed = Target::find(&place, sys.path()).unwrap().unwrap();
        let found = killed.read(None).unwrap();
        let safe = SafeText { value: "30000\n".into(), enable: None, stored: None };
        let writes = killed.plan(&safe, Some(&found));
        let all = LeftWrites::default();
        let leave = || {
            all.leave_behind(
                writes.iter().map(|write| LeftWrite { write: write.clone(), is_written: false, planner: 0 }).collect(),
            )
        };
        let originals: Vec<_> = writes.iter().filter_map(|write| write.original()).collect();
        assert_eq!(originals, ["500000", "1000000"], "as it was found");
        let by_path = Target::find(&Place::File(channel.join("duty_cycle")), sys.path()).unwrap().unwrap();
        for (period, original) in [("40000\n", "20000\n"), ("1000000\n", "500000\n")] {
            put(period, "10000\n");
            for target in [&by_path, &killed] {
                let now = target.read(None).unwrap();
                leave();
                let left = target.left_original(&all, Some(&now));
                writes.iter().for_each(|write| all.forget_left(write));
                assert_eq!(left.map(|left| left.value).as_deref(), Some(original), "{period}");
            }
        }
        fs::write(channel.join("enable"), "0\n").unwrap();
        assert_eq!(killed.read(None).unwrap().value, "0\n", "a channel that is off puts nothing out");
        assert_eq!(by_path.read(None).unwrap().value, "10000\n", "by its path it is not switched on");
    }

    #[test]
    fn a_channel_is_set_up_and_its_duty_never_exceeds_its_period() {
        let folder = tempfile::tempdir().unwrap();
        let channel = folder.path().join("pwm1");
        fs::create_dir(&channel).unwrap();
        let put = |name: &str, number: u64| fs::write(channel.join(name), format!("{number}\n")).unwrap();
        let get = |name: &str| fs::read_to_string(channel.join(name)).unwrap().trim().parse::<u64>().unwrap();
        let of = |period| Channel { duty: channel.join("duty_cycle"), chip: folder.path().into(), number: 1, period };
        let own = of(Span::from_micros(40));
        for (had_period, had_duty, is_on, wanted, then) in [
            (0, 0, 0, Some(40_000), 40_000),
            (80_000, 60_000, 0, Some(10_000), 10_000),
            (80_000, 60_000, 1, None, 30_000),
            (20_000, 5_000, 1, None, 10_000),
            (80_000, 60_000, 0, None, 0),
        ] {
            put("period", had_period);
            put("duty_cycle", had_duty);
            put("enable", is_on);
            own.set_up(wanted).unwrap();
            assert_eq!([get("period"), get("duty_cycle"), get("enable")], [40_000, then, 1]);
        }
        assert!(own.keeps_period().is_ok());
        let other = of(Span::from_micros(50)).keeps_period().unwrap_err();
        assert!(other.key == "pwm-period" && other.message.contains("it has 40.0 "), "{}", other.message);
        fs::remove_file(channel.join("enable")).unwrap();
        assert!(own.set_up(None).unwrap_err().message.contains("cannot read"));
    }
}
