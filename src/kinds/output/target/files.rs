//! Targets that are files: `/sys` attributes and regular files. May block and allocate.

use super::super::digits::number;
use super::super::fan::gives_back;
use super::super::identity::Device;
use super::super::left_writes::LeftWrites;
use super::super::place::{RawScale, is_pwm};
use super::super::port::{Content, Port, SafeText};
use super::super::setting::{Setting, Sort, powered_down_by};
use super::super::text::{read_text, text_in};
use super::means::{Kept, Means, ONE_ONLY, PassedOver, keep_others_out};
use super::pwm::{BESIDE_DUTY, Channel};
use crate::kinds::device::{Sight, first_line, hidden};
use crate::kinds::sensor::{iio_channel, iio_conversion};
use crate::safety::PlannedWrite;
use crate::site::{DeviceId, Refusal};
use crate::sys::dir::effective_user;
use crate::sys::entry::{self, Entry};
use crate::sys::lock::{self, Taken};
use crate::sys::trust::may_be_planted;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file, and the files beside it.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    pub(super) path: PathBuf,                         // the kernel's path, without symbolic links
    pub(super) is_regular: bool, // not a driver's attribute: holds any number, and nothing after it
    pub(super) file_system: Option<u64>, // of a regular file's folder
    pub(super) enable: Option<PathBuf>, // `pwmN_enable`
    pub(super) settings: Vec<Setting>, // what gives the value its effect: `enable`; `period`, `polarity`, `enable` (PWM); `powerdown` (converter)
    pub(super) beside: Vec<PathBuf>,   // other files that decide what the value does, and belong to this target alone
    pub(super) shares: Option<(PathBuf, Range<u32>)>, // a `powerdown` of all channels of a converter, and this target's channels
    pub(super) witness: Option<(PathBuf, String)>,    // shows that the path still leads to this device
    pub(super) channel: Option<Channel>,              // PWM channel that is to be switched on
}

impl Files {
    /// The target at a resolved path, and the ids of its device.
    pub(super) fn at(path: PathBuf, key: &'static str, sys: &Path) -> Result<(Vec<DeviceId>, Self), Refusal> {
        let refuse = |why: String| Refusal::new(key, why);
        let facts = fs::metadata(&path).map_err(|error| refuse(format!("cannot find {}: {error}", path.display())))?;
        if !facts.is_file() {
            return Err(refuse(format!("{} is no file that holds a number", path.display())));
        }
        let mut files = if is_attribute(&path, sys) { Self::of_driver(path) } else { Self::regular(path) };
        let folder = files.is_regular.then(|| fs::metadata(folder_of(&files.path)).ok()).flatten();
        files.file_system = folder.as_ref().map(MetadataExt::dev);
        // `hertzd safe` leaves such a file alone.
        if folder.is_some_and(|folder| may_be_planted(&facts, &folder, effective_user())) {
            let path = files.path.display();
            return Err(refuse(format!(
                "{path} has another name too (a hard link), in a folder that other users may write to, so it may be another file; name one that has \
                 only one name, or one in a folder that only root and hertzd's user may write to"
            )));
        }
        Ok((files.ids(), files))
    }

    fn regular(path: PathBuf) -> Self {
        Self { path, is_regular: true, ..Self::default() }
    }

    /// An attribute. A fan is the same target whether it is named by path or by device: its other files are found from its path.
    fn of_driver(path: PathBuf) -> Self {
        let enable = path.file_name().and_then(|name| name.to_str()).filter(|name| is_pwm(name));
        let enable = enable.map(|name| path.with_file_name(format!("{name}_enable")));
        let enable = enable.filter(|enable| enable.exists() && !follows_always(enable));
        let name = path.with_file_name("name");
        let witness = first_line(&name).map(|text| (name, text));
        let mode = |path: &PathBuf| Setting { path: path.clone(), number: 1.0, sort: Sort::Mode };
        let polarity = Some(&path).filter(|path| path.ends_with("duty_cycle")).and_then(|path| polarity_beside(path));
        let power = power_beside(&path);
        let shares = match &power {
            Some((power, Some(channel))) => Some((power.path.clone(), *channel..channel + 1)),
            _ => powered_down_by(&path).map(|channels| (path.clone(), channels)),
        };
        let own = power.iter().filter(|(_, shared)| shared.is_none()).map(|(power, _)| power.path.clone());
        let beside = polarity.iter().map(|polarity| polarity.path.clone()).chain(own).collect();
        let power = power.map(|(power, _)| power);
        let settings = enable.iter().map(mode).chain(polarity).chain(power).collect();
        Self { path, enable, settings, beside, shares, witness, ..Self::default() }
    }

    /// A channel of a PWM chip, whose files might not exist yet.
    pub(super) fn of_channel(channel: Channel, period: f64) -> Self {
        let (path, file) = (channel.duty.clone(), |name: &&str| channel.duty.with_file_name(name));
        let number = |name, number| Some(Setting { path: file(&name), number, sort: Sort::Number });
        let settings =
            [number("period", period), polarity_beside(&path), number("enable", 1.0)].into_iter().flatten().collect();
        let beside = BESIDE_DUTY.iter().map(file).collect();
        Self { path, settings, beside, channel: Some(channel), ..Self::default() }
    }

    /// All files that are written, read back or relied on, whether they exist or not, except a shared one. The value's file comes first.
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.path).chain(&self.enable).chain(&self.beside)
    }

    /// The ids that identify the target.
    pub(super) fn ids(&self) -> Vec<DeviceId> {
        let files = self.all().filter_map(|file| Some(DeviceId::of(&fs::metadata(file).ok()?)));
        let shares =
            self.shares.iter().filter_map(|(file, channels)| Some((fs::metadata(file).ok()?, channels.clone())));
        let channels = shares.flat_map(|(file, channels)| {
            let id = move |channel| format!("channel {channel} powered down by file {}:{}", file.dev(), file.ino());
            channels.map(move |channel| DeviceId::Named(id(channel)))
        });
        files.chain(channels).collect()
    }

    fn open(&self) -> io::Result<File> {
        if !self.is_regular {
            return OpenOptions::new().write(true).open(&self.path);
        }
        // Another file may have taken its place since it was checked: do not follow a link, and do not wait for a pipe.
        let entry = Entry::find(&self.path)?;
        // Reading is for what another program leaves after the number.
        let file = entry.open(libc::O_RDWR).or_else(|_| entry.open(libc::O_WRONLY))?;
        let facts = file.metadata()?;
        match facts.is_file() && !may_be_planted(&facts, &entry.folder().metadata()?, effective_user()) {
            true => Ok(file),
            false => Err(io::Error::other("something else has taken its place meanwhile")),
        }
    }

    fn open_by(&self, key: &'static str) -> Result<File, Refusal> {
        self.open().map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => "; hertzd's user needs permission to write it",
                _ => "",
            };
            Refusal::new(key, format!("cannot open {}: {error}{remedy}", self.path.display()))
        })
    }
}

/// Whether `pwmN_enable` is read-only and says that the fan follows its value: then it is neither set nor given back.
fn follows_always(enable: &Path) -> bool {
    let is_fixed = fs::metadata(enable).is_ok_and(|facts| facts.mode() & 0o222 == 0);
    is_fixed && read_text(enable).ok().and_then(|text| number(&text)).is_some_and(|mode| !gives_back(mode))
}

/// The current polarity of a PWM channel. It decides what the duty does, because the duty is the time in which the line is active.
fn polarity_beside(duty_cycle: &Path) -> Option<Setting> {
    let path = duty_cycle.with_file_name("polarity");
    let number = Sort::Polarity.number(&read_text(&path).ok()?)?;
    Some(Setting { path, number, sort: Sort::Polarity })
}

/// The file that must be 0 for a converter channel to output anything: many accept values while powered down. Also the channel's number, if
/// all channels share this file.
fn power_beside(raw: &Path) -> Option<(Setting, Option<u32>)> {
    let channel = raw.file_name()?.to_str()?.strip_suffix("_raw").filter(|channel| channel.starts_with("out_"))?;
    let of = |channel: &str| raw.with_file_name(format!("{channel}_powerdown"));
    let all = channel.trim_end_matches(|it: char| it.is_ascii_digit());
    // A number too large for any converter does not identify a channel: the first output gets the whole file.
    let number = channel[all.len()..].parse::<u8>().ok().map(u32::from);
    let (path, shared) = [(of(channel), None), (of(all), number)].into_iter().find(|(path, _)| path.exists())?;
    Some((Setting { path, number: 0.0, sort: Sort::Power }, shared))
}

/// Locks a file of a task's target against other hertzd processes. `channels`: the target's channels, if the file is shared.
fn keep_out(
    file: File,
    (path, channels): (&Path, Option<&Range<u32>>),
    left: &LeftWrites,
    (key, task): (&'static str, &str),
) -> Result<Kept, Refusal> {
    let shown = path.display().to_string();
    let planner = left.planner_of(|left| matches!(left, PlannedWrite::File { path: its, .. } if its == path));
    let bytes = channels.map(|channels| (channels.start, channels.end - channels.start));
    let holder = keep_others_out(&file, bytes, &shown, planner)
        .map_err(|why| Refusal::new(key, format!("{shown} {why}; {ONE_ONLY}")))?;
    let lock = holder.and_then(|holder| PassedOver::of(&file, bytes, (task, shown), (holder, planner)));
    Ok(Kept { file, lock })
}

/// Whether a path without symbolic links is a driver's file: below `sys`, or in the kernel's own trees.
fn is_attribute(path: &Path, sys: &Path) -> bool {
    let is_below = |root: &Path| path.starts_with(root);
    is_below(Path::new("/sys")) || is_below(Path::new("/proc")) || sys.canonicalize().is_ok_and(|sys| is_below(&sys))
}

impl Means for Files {
    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn device(&self) -> Device {
        match self.is_regular {
            true => Device::default(),
            false => Device {
                path: Some(self.path.clone()),
                name: self.witness.as_ref().map(|(_, name)| name.trim_end().to_owned()),
            },
        }
    }

    fn take(&self, left: &LeftWrites, key: &'static str, task: &str) -> Result<Kept, Refusal> {
        keep_out(self.open_by(key)?, (&self.path, None), left, (key, task))
    }

    fn take_beside(&self, left: &LeftWrites, key: &'static str, task: &str) -> Result<Vec<Kept>, Refusal> {
        let mut taken = Vec::new();
        let shared = self.shares.iter().map(|(path, channels)| (path, Some(channels)));
        for (path, channels) in self.all().skip(1).map(|path| (path, None)).chain(shared) {
            // Skip a file that cannot be opened for writing: hertzd does not write it, so there is nothing to lock.
            let Ok(file) = File::options().write(true).open(path) else { continue };
            taken.push(keep_out(file, (path, channels), left, (key, task))?);
        }
        Ok(taken)
    }

    fn value(&self, _: Option<&File>) -> io::Result<String> {
        if self.is_regular {
            text_in(entry::open(&self.path, libc::O_RDONLY | libc::O_NONBLOCK)?)
        } else {
            read_text(&self.path)
        }
    }

    fn port(&self, _: &File) -> io::Result<Port> {
        let file = Arc::new(self.open()?);
        Ok(if self.is_regular { Port::Regular(file) } else { Port::Attribute(file) })
    }

    fn plan(&self, text: &SafeText, found: Option<&Content>) -> Vec<PlannedWrite> {
        let file = |path: &Path, text: &str, cut, found: Option<&str>| PlannedWrite::File {
            path: path.into(),
            witness: self.witness.clone(),
            text: text.into(),
            cut,
            file_system: self.file_system.filter(|_| cut),
            original: found.map(|text| if cut { text } else { text.trim_end() }.to_owned()),
        };
        let enable_found = found.and_then(|found| found.enable.as_deref());
        let enable = self.enable.as_ref().zip(text.enable.as_ref());
        let enable = enable.map(|(path, text)| file(path, text, false, enable_found));
        let value = file(&self.path, &text.value, self.is_regular, found.map(|found| &*found.value));
        // The other settings that a channel needs; another program may have changed them.
        let prepared = self.settings.iter().filter(|_| self.enable.is_none());
        let period_found = found.and_then(|found| found.period.as_deref());
        let prepared = prepared.map(|setting| {
            let found = period_found.filter(|_| setting.path.ends_with("period"));
            file(&setting.path, &setting.text(), false, found)
        });
        [value].into_iter().chain(enable).chain(prepared).collect()
    }

    fn look(&self, key: &'static str, sight: Sight) -> Result<Sight, Refusal> {
        if let Some(channel) = self.channel.as_ref().filter(|_| !self.path.exists()) {
            return Ok(sight.unknown(format!("whether channel {} can be exported and set up", channel.number)));
        }
        if let Some(hidden) = hidden(&self.path, true) {
            return Ok(hidden);
        }
        let own = self.open_by(key)?;
        let open = |path: &PathBuf| if *path == self.path { own.try_clone() } else { File::open(path) };
        let by = |path: &PathBuf, taken: Taken| match taken {
            Taken::Peer(Some(holder)) if holder.is_ours() => Some(format!("{} is in use by {holder}", path.display())),
            Taken::Peer(None) => Some(format!("{} is in use by another process", path.display())),
            _ => None,
        };
        let in_use = |path: &PathBuf| by(path, lock::probe(&open(path).ok()?).ok()?);
        let is_shared = |(path, channels): &(PathBuf, Range<u32>)| {
            let file = open(path).ok()?;
            channels.clone().find_map(|channel| by(path, lock::probe_register(&file, channel).ok()?))
        };
        Ok(Sight { taken: self.all().find_map(in_use).or_else(|| self.shares.as_ref().and_then(is_shared)), ..sight })
    }

    fn node(&self) -> &Path {
        &self.path
    }

    fn file(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn enable(&self) -> Option<&Path> {
        self.enable.as_deref()
    }

    fn settings(&self) -> &[Setting] {
        &self.settings
    }

    fn channel(&self) -> Option<&Channel> {
        self.channel.as_ref()
    }

    fn with_polarity(&self, polarity: f64) -> Option<Arc<dyn Means>> {
        let mut files = self.clone();
        let its = files.settings.iter_mut().find(|setting| setting.sort == Sort::Polarity)?;
        its.number = polarity;
        Some(Arc::new(files))
    }
}

/// The scale of a channel's raw numbers in hertzd's unit: in the kernel's ABI, (raw + offset) * scale is mV or mA.
pub(super) fn iio_raw(folder: &Path, file: &str) -> Result<RawScale, Refusal> {
    let channel = iio_channel(file);
    let (scale, offset) = iio_conversion(folder, channel).map_err(|why| Refusal::new("file", why))?;
    // Format: "[lowest step highest]"
    let range = first_line(&folder.join(format!("{file}_available"))).and_then(|line| {
        let numbers = line.trim().strip_prefix('[')?.strip_suffix(']')?.split_whitespace();
        let numbers: Vec<f64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
        <[f64; 3]>::try_from(numbers).ok().map(|[low, _, high]| [low, high]).filter(|[low, high]| low < high)
    });
    Ok(RawScale { full: 1.0 / scale, zero: -offset / scale, range })
}

/// Whether a file could be created here.
pub(super) fn is_makeable(path: &Path) -> bool {
    !path.starts_with("/sys")
        && !path.starts_with("/proc")
        && folder_of(path).is_dir()
        && path.symlink_metadata().is_err()
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::super::super::digits::Digits;
    use super::super::super::place::Place;
    use super::super::Target;
    use super::*;
    use crate::kinds::output::is_left_to_another;
    use crate::kinds::sensor::ByName;
    use crate::safety::LastWritten;
    use crate::safety::SafeWrite;

    #[test]
    fn a_converter_that_is_powered_down_is_switched_on_by_whoever_writes_its_value() {
        for power in ["out_voltage0_powerdown", "out_voltage_powerdown"] {
            let sys = tempfile::tempdir().unwrap();
            let folder = sys.path().canonicalize().unwrap().join("bus/iio/devices/iio:device0");
            fs::create_dir_all(&folder).unwrap();
            let put = |file: &str, text: &str| fs::write(folder.join(file), format!("{text}\n")).unwrap();
            [("name", "ad5504"), ("out_voltage0_raw", "100"), ("out_voltage0_scale", "1"), (power, "1")]
                .iter()
                .for_each(|(file, text)| put(file, text));
            let place = Place::Iio(ByName { name: "ad5504".into(), device: None }, "out_voltage0_raw".into());
            let target = Target::find(&place, sys.path()).unwrap().unwrap();
            assert_eq!(target.ids.len(), 2);
            let (Kept { file: taken, .. }, beside) = target.take(&LeftWrites::default(), "fan").unwrap();
            let is = |value: &str| {
                let holds = ["out_voltage0_raw", power].map(|file| fs::read_to_string(folder.join(file)).unwrap());
                assert_eq!(holds, [format!("{value}\n"), "0\n".to_owned()]);
                put(power, "1");
            };
            let (mut writer, last) = (target.writer(&taken).unwrap(), LastWritten::default());
            writer.write(&Digits::of(300.0, target.form), &last).unwrap();
            is("300");
            writer.write(&Digits::of(400.0, target.form), &last).unwrap();
            assert_eq!(fs::read_to_string(folder.join(power)).unwrap(), "1\n", "once is enough");
            last.lapse();
            writer.write(&Digits::of(500.0, target.form), &last).unwrap();
            is("500");
            let text = SafeText { value: "250\n".into(), enable: None, stored: None };
            writer.write_safe(&text, &last).unwrap();
            is("250");
            writer.write_safe(&text, &last).unwrap();
            assert_eq!(fs::read_to_string(folder.join(power)).unwrap(), "1\n", "it is repeated");
            writer.was_made_safe();
            writer.write_safe(&text, &last).unwrap();
            is("250");
            target.safe_writer(&taken, text.clone(), None).unwrap().write_safe().unwrap();
            is("250");
            drop((taken, beside));
            target.plan(&text, None).iter().for_each(|write| drop(write.make_of("fan", None).unwrap()));
            is("250");
        }
    }

    #[test]
    fn no_channel_has_an_output_beside_one_of_the_file_that_powers_all_down() {
        let sys = tempfile::tempdir().unwrap();
        let folder = sys.path().canonicalize().unwrap().join("class/iio/iio:device0");
        fs::create_dir_all(&folder).unwrap();
        let all = ["out_voltage0_raw", "out_voltage1_raw", "out_voltage_powerdown"];
        all.iter().for_each(|file| fs::write(folder.join(file), "1\n").unwrap());
        let find = |file: &str| Target::find(&Place::File(folder.join(file)), sys.path()).unwrap().unwrap();
        let [one, other, power] = all.map(find);
        let overlap = |one: &Target, other: &Target| one.identity().overlaps(&other.identity());
        assert!(!overlap(&one, &other) && overlap(&one, &power) && overlap(&power, &other));
        assert!(!one.identity().is(&power.identity()), "no reload takes one over from the other");
        // Other hertzds.
        let take = |target: &Target| target.take(&LeftWrites::default(), "fan");
        let is_in_use = |result: Result<_, Refusal>| {
            let _: (Kept, Vec<Kept>) = match result {
                Err(refusal) => return refusal.message.contains("out_voltage_powerdown is in use by "),
                Ok(taken) => taken,
            };
            false
        };
        // From a plan: an output of the file itself, and one of a channel.
        let write = |text: &str| {
            let text = SafeText { value: text.into(), enable: None, stored: None };
            power.plan(&text, None)[0].make_of("fan", None).map(drop)
        };
        let channels = [take(&one).unwrap(), take(&other).unwrap()];
        assert!(is_in_use(take(&power)));
        assert!(is_left_to_another(&write("1\n").unwrap_err()));
        write("0\n").unwrap();
        drop(channels);
        // A start that hangs in another device writes what is left to a target that it has open.
        let own = take(&power).unwrap();
        assert!(is_left_to_another(&write("1\n").unwrap_err()));
        let text = SafeText { value: "1\n".into(), enable: None, stored: None };
        power.plan(&text, None)[0].make_before_begin("fan", None).unwrap();
        drop(own);
        write("1\n").unwrap();
        let _power = take(&power).unwrap();
        assert!(is_in_use(take(&one)) && is_in_use(take(&other)));
        assert!(["0\n", "1\n"].iter().all(|text| is_left_to_another(&write(text).unwrap_err())));
    }

    #[test]
    fn after_a_safe_write_that_failed_all_of_a_channel_is_written_and_known_again() {
        let sys = tempfile::tempdir().unwrap();
        let channel = sys.path().canonicalize().unwrap().join("class/pwm/pwmchip0/pwm0");
        fs::create_dir_all(&channel).unwrap();
        let put = |file: &str, text: &str| fs::write(channel.join(file), format!("{text}\n")).unwrap();
        fs::write(channel.with_file_name("npwm"), "1\n").unwrap();
        [("period", "40000"), ("duty_cycle", "9"), ("enable", "1")].iter().for_each(|(file, text)| put(file, text));
        let place = Place::Pwm { chip: "pwmchip0".into(), channel: 0, period: crate::time::Span::from_micros(40) };
        let target = Target::find(&place, sys.path()).unwrap().unwrap();
        let (Kept { file: taken, .. }, _beside) = target.take(&LeftWrites::default(), "fan").unwrap();
        let (mut writer, last) = (target.writer(&taken).unwrap(), LastWritten::default());
        last.set(target.settings_numbers());
        // Written by another thread.
        last.was_set(None);
        writer.was_made_safe();
        put("enable", "0");
        writer.write(&Digits::of(0.5, target.form), &last).unwrap();
        assert_eq!(fs::read_to_string(channel.join("enable")).unwrap().trim(), "1");
        assert!(!last.has_lapsed());
        assert_eq!(last.settings().unwrap().0.map(f64::to_bits), target.settings_numbers().map(f64::to_bits));
    }

    #[test]
    fn a_safe_write_of_the_task_puts_its_channel_in_force_and_a_value_leaves_it() {
        let sys = tempfile::tempdir().unwrap();
        let channel = sys.path().canonicalize().unwrap().join("class/pwm/pwmchip0/pwm0");
        fs::create_dir_all(&channel).unwrap();
        let put = |file: &str, text: &str| fs::write(channel.join(file), format!("{text}\n")).unwrap();
        let holds = |file: &str| fs::read_to_string(channel.join(file)).unwrap().lines().next().unwrap().to_owned();
        fs::write(channel.with_file_name("npwm"), "1\n").unwrap();
        let settings = [("period", "40000", "80000"), ("polarity", "normal", "inversed"), ("enable", "1", "0")];
        settings.iter().for_each(|(file, text, _)| put(file, text));
        put("duty_cycle", "9");
        let by_name = Place::Pwm { chip: "pwmchip0".into(), channel: 0, period: crate::time::Span::from_micros(40) };
        for (place, settings) in [(by_name, &settings[..]), (Place::File(channel.join("duty_cycle")), &settings[1..2])]
        {
            let target = Target::find(&place, sys.path()).unwrap().unwrap();
            let (Kept { file: taken, .. }, _beside) = target.take(&LeftWrites::default(), "fan").unwrap();
            let (mut writer, last) = (target.writer(&taken).unwrap(), LastWritten::default());
            last.set(target.settings_numbers());
            let text = SafeText { value: "7\n".into(), enable: None, stored: None };
            for (file, text_set, other) in settings {
                put(file, other);
                writer.write(&Digits::of(5.0, target.form), &last).unwrap();
                assert_eq!([holds("duty_cycle"), holds(file)], ["5", other]);
                writer.write_safe(&text, &last).unwrap();
                assert_eq!([holds("duty_cycle"), holds(file)], ["7", text_set]);
                assert!(last.settings().unwrap().0[0].total_cmp(&target.settings_numbers()[0]).is_eq());
                // On the ramp to the safe value.
                put(file, other);
                writer.sets_again();
                writer.write(&Digits::of(6.0, target.form), &last).unwrap();
                assert_eq!([holds("duty_cycle"), holds(file)], ["6", text_set]);
            }
        }
    }
}
