//! What an output writes to: from what its section names to a target that is there, of any sort. May block and allocate.

mod effect;
pub(super) mod files;
#[cfg(feature = "gpio")]
mod line;
pub(super) mod means;
pub(super) mod pwm;
#[cfg(feature = "i2c")]
mod register;

use super::digits::{Digits, Form, number};
use super::fan;
use super::identity::Identity;
use super::left_writes::{LeftWrite, LeftWrites};
use super::place::{Place, RawScale};
use super::port::{Content, OpenSetting, SafeSetting, SafeText, SafeWriter, Writer};
use super::setting::{Setting, Sort};
use crate::kinds::device::{Sight, hidden};
use crate::kinds::sensor::{Class, find, is_iio_raw};
use crate::safety::{PlannedWrite, SETTINGS};
use crate::site::{DeviceId, Refusal};
use crate::sys::entry::resolve;
use crate::sys::host::missing_folder;
pub(super) use effect::is_given_back;
use files::{Files, holds_a_number, iio_raw, is_makeable, polarity_beside, text_of};
use means::{Kept, Means};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A target that is there.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) ids: Vec<DeviceId>,
    /// What its raw numbers mean.
    pub(super) raw: RawScale,
    /// How they are written.
    pub(super) form: Form,
    means: Arc<dyn Means>,
}

impl Target {
    /// Finds it, and changes nothing. `None`: it is a regular file that is still to be made.
    pub(super) fn find(place: &Place, sys: &Path) -> Result<Option<Self>, Refusal> {
        let raw = place.raw();
        match place {
            Place::File(path) => match resolve(path).and_then(|path| path.symlink_metadata().map(|_| path)) {
                Ok(path) => Self::at(path, "path", raw, sys).map(Some),
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_makeable(path) => Ok(None),
                Err(error) => {
                    let text = format!("cannot find {}: {error}{}", path.display(), missing_folder(path));
                    Err(Refusal::new("path", text))
                }
            },
            Place::Hwmon(wanted, file) => {
                let device = find(Class::Hwmon, sys, wanted)?;
                Self::of_device(real(&device.folder.join(file))?, device.name, raw, sys).map(Some)
            }
            Place::Iio(wanted, file) => {
                let device = find(Class::Iio, sys, wanted)?;
                let real = real(&device.folder.join(file))?;
                let raw = if is_iio_raw(file) { iio_raw(&device.folder, file)? } else { raw };
                Self::of_device(real, device.name, raw, sys).map(Some)
            }
            Place::Pwm { chip, channel, .. } => {
                let chip = pwm::find(chip, *channel, sys)?;
                let of_channel = DeviceId::Named(format!("{} channel {channel}", chip.display()));
                let folder = pwm::folder_of(&chip, *channel);
                let beside = pwm::BESIDE_DUTY.iter().map(|name| folder.join(name)).collect();
                let path = folder.join("duty_cycle");
                let number = |file, number| Some(Setting { path: folder.join(file), number, sort: Sort::Number });
                let settings = [number("period", raw.full), polarity_beside(&path), number("enable", 1.0)];
                let settings = settings.into_iter().flatten().collect();
                let files = Files { path, is_regular: false, enable: None, settings, beside, witness: None };
                let ids = files.ids().into_iter().chain([of_channel]).collect();
                Ok(Some(Self { ids, raw, form: Form::Whole, means: Arc::new(files) }))
            }
            Place::Line { chip, line, active_low } => line_of(chip.as_deref(), line, *active_low, raw).map(Some),
            Place::Register(wanted) => register_of(wanted, sys, raw).map(Some),
        }
    }

    fn at(path: PathBuf, key: &'static str, raw: RawScale, sys: &Path) -> Result<Self, Refusal> {
        let (ids, files) = Files::at(path, key, sys)?;
        let form = if files.is_regular { Form::Any } else { Form::Whole };
        Ok(Self { ids, raw, form, means: Arc::new(files) })
    }

    /// A file beside the `name` of its device.
    fn of_device(path: PathBuf, name: String, raw: RawScale, sys: &Path) -> Result<Self, Refusal> {
        let witness = Some((path.with_file_name("name"), name));
        let (ids, files) = Files::at(path, "file", sys)?;
        let files = Files { witness, ..files };
        Ok(Self { ids, raw, form: Form::Whole, means: Arc::new(files) })
    }

    /// What messages call it.
    pub(super) fn shown(&self) -> String {
        self.means.shown()
    }

    /// The name of its `pwmN_enable`, if it has one.
    pub(super) fn enable_name(&self) -> String {
        let name = self.means.enable().and_then(Path::file_name);
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its file, if it is one: `duty_cycle` of a PWM channel.
    pub(super) fn file(&self) -> Option<&Path> {
        self.means.file()
    }

    /// Its file, if it is a regular one.
    pub(super) fn regular_file(&self) -> Option<&Path> {
        self.file().filter(|_| self.form == Form::Any)
    }

    /// Refuses a regular file that holds anything but one number: it would be lost. Of one that this process has, that is over.
    pub(super) fn loses_nothing(&self) -> Result<(), Refusal> {
        self.regular_file().map_or(Ok(()), holds_a_number)
    }

    /// Refuses what only this process would make safe: should it be killed, nobody could.
    pub(super) fn can_be_made_safe(&self, key: &'static str) -> Result<(), Refusal> {
        self.any_writes().iter().try_for_each(PlannedWrite::can_be_made).map_err(|why| {
            let shown = self.shown();
            let text = format!(
                "should this process be killed, `hertzd safe` could not make {shown} safe: {why}; name the device by its file in /dev"
            );
            Refusal::new(key, text)
        })
    }

    /// A file that is there for as long as it is.
    pub(super) fn node(&self) -> &Path {
        self.means.node()
    }

    /// Takes it for a task: no other process of hertzd has it until all copies of the files are closed that this returns, that of the value and those
    /// beside it. Nothing is written.
    pub(super) fn take(&self, left: &LeftWrites, key: &'static str, task: &str) -> Result<(Kept, Vec<Kept>), Refusal> {
        Ok((self.means.take(left, key, task)?, self.means.take_beside(left, key, task)?))
    }

    /// What must be equal where one output takes it over from another.
    pub(super) fn identity(&self) -> Identity {
        Identity {
            ids: self.ids.clone(),
            layout: self.means.layout(),
            shown: self.shown(),
            device: self.means.device(),
        }
    }

    /// Whether a chip needs something to begin with.
    pub(super) fn has_init(&self) -> bool {
        self.means.has_init()
    }

    /// Sends a chip what it needs to begin with, once it was taken.
    pub(super) fn init(&self) -> Result<(), Refusal> {
        self.means.init()
    }

    /// Makes a line ready to be written, once it was taken. `first`: what it is to hold from then on; `None`: what it holds.
    pub(super) fn set_up(&self, taken: &File, first: Option<f64>) -> Result<(), Refusal> {
        self.means.set_up(taken, first.map(|raw| Digits::of(raw, self.form).bytes() == b"1\n"))
    }

    /// What it and `pwmN_enable` hold, once it was taken. A PWM channel that is to be switched on, and is off, holds 0, whatever its duty is.
    pub(super) fn read(&self, taken: Option<&File>) -> io::Result<Content> {
        let enable = self.means.enable().map(text_of).transpose()?;
        let (mut value, stored) = self.means.stored(taken)?;
        if self.is_off() {
            "0\n".clone_into(&mut value);
        }
        let period = self.period().and_then(|period| text_of(&period).ok());
        Ok(Content { value, enable, stored, period })
    }

    /// The file of its period, if it is the duty of a PWM channel.
    fn period(&self) -> Option<PathBuf> {
        let duty = self.file().filter(|path| path.ends_with("duty_cycle") && self.form != Form::Any)?;
        Some(duty.with_file_name("period"))
    }

    /// The text of the number that it holds. `None`: it was not taken, and is only looked at.
    pub(super) fn value(&self, taken: Option<&File>) -> io::Result<String> {
        self.means.value(taken)
    }

    /// Whether only what taking it has returned can read it.
    pub(super) fn is_read_by_what_was_taken(&self) -> bool {
        self.means.is_read_by_what_was_taken()
    }

    /// What it holds after this raw number was written to it.
    pub(super) fn as_held(&self, number: f64) -> f64 {
        self.means.as_held(number)
    }

    /// Whether what it holds can be looked at without taking it.
    pub(super) fn shows_content(&self) -> bool {
        self.means.file().is_some()
    }

    /// What is written to make it safe: by the value alone, or by all that was there.
    pub(super) fn safe_text(&self, content: &Content) -> SafeText {
        let enable = self.means.enable().map(|_| content.enable.clone().unwrap_or_else(|| fan::MANUAL.to_owned()));
        SafeText { value: content.value.clone(), enable, stored: content.stored.clone() }
    }

    /// What the task writes with.
    pub(super) fn writer(&self, taken: &File) -> io::Result<Writer> {
        let port = self.means.port(taken)?;
        let open = |setting: &Setting| {
            let file = Arc::new(setting.open()?);
            Ok(OpenSetting { file, text: setting.text(), number: setting.number, sort: setting.sort })
        };
        let settings = self.settings().iter().map(open).collect::<io::Result<_>>()?;
        Ok(Writer::new(port, settings, self.is_prepared()))
    }

    /// What has to be set for its value to have any effect.
    pub(super) fn settings(&self) -> &[Setting] {
        self.means.settings()
    }

    /// The numbers of that; NaN: there is none.
    pub(super) fn settings_numbers(&self) -> [f64; SETTINGS] {
        std::array::from_fn(|at| self.settings().get(at).map_or(f64::NAN, |setting| setting.number))
    }

    /// What a PWM channel's polarity is to be.
    pub(super) fn polarity(&self) -> Option<&Setting> {
        self.settings().iter().find(|setting| setting.sort == Sort::Polarity)
    }

    /// The same target, whose polarity is to be this one.
    pub(super) fn with_polarity(mut self, polarity: Option<f64>) -> Self {
        if let Some(means) = polarity.and_then(|polarity| self.means.with_polarity(polarity)) {
            self.means = means;
        }
        self
    }

    /// Whether it is a fan that its chip may have: then its value says nothing.
    pub(super) fn has_mode(&self) -> bool {
        self.means.enable().is_some()
    }

    /// Whether that is set before its first value is written, and not with it.
    pub(super) fn is_prepared(&self) -> bool {
        !self.settings().iter().any(Setting::is_set_with_value)
    }

    /// What others make it safe with.
    pub(super) fn safe_writer(&self, taken: &File, text: SafeText, found: Option<&Content>) -> io::Result<SafeWriter> {
        let plan = Arc::new(Mutex::new(self.plan(&text, found)));
        let number = number(&text.value).unwrap_or(f64::NAN);
        let open = |setting: &Setting| {
            let file = Arc::new(setting.open()?);
            let name = setting.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = text.enable.clone().unwrap_or_else(|| setting.text());
            let (sort, is_replaced) = (setting.sort, AtomicBool::new(false));
            Ok(SafeSetting { file, name, text, sort, value: number, is_replaced })
        };
        let settings = self.settings().iter().map(open).collect::<io::Result<_>>()?;
        let (text, stored) = (text.value, text.stored);
        Ok(SafeWriter { port: self.means.port(taken)?, text, stored, number, settings, plan })
    }

    /// What another process would have to write. `found`: what it held before hertzd wrote to it.
    pub(super) fn plan(&self, text: &SafeText, found: Option<&Content>) -> Vec<PlannedWrite> {
        self.means.plan(text, found)
    }

    /// Writes of any number, which show what a plan calls it.
    pub(super) fn any_writes(&self) -> Vec<PlannedWrite> {
        let enable = self.means.enable().map(|_| fan::MANUAL.to_owned());
        self.plan(&SafeText { value: "0\n".into(), enable, stored: None }, None)
    }

    /// Writes for a task what a process before this one has left of registers that have some of its bytes, and others.
    pub(super) fn settle_overlapping(&self, left: &LeftWrites, key: &'static str, task: &str) -> Result<(), Refusal> {
        let make = |left: &LeftWrite| left.write.make_of(task, Some(left.planner)).map(drop);
        let refuse = |why: String| Refusal::new(key, format!("{} cannot be taken: {why}", self.shown()));
        self.any_writes().iter().try_for_each(|own| left.make_overlapping(own, make)).map_err(refuse)
    }

    /// What it held before hertzd wrote to it for the first time, if a process before this one has left it without its safe value. `now`: what it
    /// holds now.
    pub(super) fn left_original(&self, left: &LeftWrites, now: Option<&Content>) -> Option<Content> {
        let planned = self.any_writes();
        // Of a register whose bytes are known each byte counts for itself.
        if let Some(now) = now.and_then(|now| now.stored.as_ref()) {
            let stored = left.left_bytes(planned.first()?, now)?;
            let value = self.means.text_of(&stored)?;
            return Some(Content { value, enable: None, stored: Some(stored), period: None });
        }
        let numbers = now.map(|now| [number(&now.value), now.enable.as_deref().and_then(number)]).unwrap_or_default();
        let mut found = left.left_writes(&planned, &numbers).into_iter();
        let (value, enable) = (found.next().flatten(), found.next().flatten().filter(|_| self.has_mode()));
        if value.is_none() && enable.is_none() {
            return None;
        }
        // An output may have had only one of the two.
        let original = |left: Option<&PlannedWrite>, now: Option<&String>| match left {
            Some(left) => left.raw_original().map(str::to_owned),
            None => now.cloned(),
        };
        let (now_value, now_enable) = (now.map(|now| &now.value), now.and_then(|now| now.enable.as_ref()));
        let period = now.and_then(|now| now.period.clone());
        let duty = original(value.as_ref(), now_value)?;
        Some(Content {
            value: period.as_ref().and_then(|period| self.left_duty(left, &duty, period)).unwrap_or(duty),
            enable: original(enable.as_ref(), now_enable),
            stored: value.and_then(|value| value.held()),
            period,
        })
    }

    /// The same share of the period that a PWM channel has now, of a duty from before an output that a process before this one has left gave it
    /// another period.
    fn left_duty(&self, left: &LeftWrites, duty: &str, period: &str) -> Option<String> {
        let text = period.to_owned();
        let write = PlannedWrite::File { path: self.period()?, witness: None, text, cut: false, original: None };
        let left = left.left_writes(&[write], &[number(period)]).pop().flatten()?;
        let [duty, had, has] = [duty, left.raw_original()?, period].map(|text| text.trim().parse().ok());
        Some(format!("{}\n", pwm::share(duty?, had?, has?)))
    }

    /// What can be seen of it without taking it.
    pub(super) fn look(&self, key: &'static str) -> Result<Sight, Refusal> {
        self.loses_nothing()?;
        self.means.look(key, Sight::of(key, self.ids.clone()))
    }

    /// Whether only the service may open it.
    pub(super) fn is_hidden(&self) -> bool {
        self.means.file().is_some_and(|path| hidden(path, true).is_some())
    }
}

#[cfg(feature = "gpio")]
fn line_of(
    chip: Option<&str>,
    line: &crate::config::NumberOrName,
    active_low: bool,
    raw: RawScale,
) -> Result<Target, Refusal> {
    let line = line::find(chip, line)?;
    let form = Form::Level { active_low };
    Ok(Target { ids: vec![line.id()], raw, form, means: Arc::new(line) })
}

#[cfg(not(feature = "gpio"))]
fn line_of(_: Option<&str>, _: &crate::config::NumberOrName, _: bool, _: RawScale) -> Result<Target, Refusal> {
    Err(left_out("line", "gpio"))
}

#[cfg(feature = "i2c")]
fn register_of(
    wanted: &crate::kinds::register::RegisterSettings,
    sys: &Path,
    raw: RawScale,
) -> Result<Target, Refusal> {
    let register = crate::kinds::i2c::WrittenRegister::find(wanted, sys)?;
    let form = if wanted.layout.number == crate::kinds::layout::Number::Float { Form::Any } else { Form::Whole };
    Ok(Target { ids: register.ids(), raw, form, means: Arc::new(register) })
}

#[cfg(not(feature = "i2c"))]
fn register_of(_: &crate::kinds::register::RegisterSettings, _: &Path, _: RawScale) -> Result<Target, Refusal> {
    Err(left_out("bus", "i2c"))
}

#[cfg(not(all(feature = "gpio", feature = "i2c")))]
fn left_out(key: &'static str, feature: &str) -> Refusal {
    let text = format!("this hertzd was built without the feature {feature}, which is one of the default features");
    Refusal::new(key, text)
}

/// What only the service may open, of a place that was not found.
pub(super) fn hidden_place(place: &Place) -> Option<Sight> {
    match place {
        #[cfg(feature = "gpio")]
        Place::Line { chip, .. } => crate::kinds::gpio::DrivenLine::hidden(chip.as_deref()),
        _ => None,
    }
}

fn real(path: &Path) -> Result<PathBuf, Refusal> {
    path.canonicalize().map_err(|error| Refusal::new("file", format!("cannot find {}: {error}", path.display())))
}

#[cfg(all(test, feature = "i2c"))]
mod tests {
    use super::*;
    use crate::config::NumberOrName;
    use crate::kinds::layout::TYPES;
    use crate::kinds::register::RegisterSettings;

    #[test]
    fn a_register_that_was_made_safe_and_has_changed_since_has_what_it_holds_as_its_original() {
        let layout = TYPES.iter().find(|(name, _)| *name == "u16be").unwrap().1.part(4, None).unwrap();
        let (bus, init) = (NumberOrName::Name("/dev/null".into()), Vec::new());
        let wanted = RegisterSettings { bus, address: 0x33, force: false, init, register: 0x50, layout };
        let target = Target::find(&Place::Register(wanted), Path::new("/sys")).unwrap().unwrap();
        let held = |bytes: [u8; 2], number: &str| Content {
            value: format!("{number}\n"),
            enable: None,
            stored: Some(bytes.into()),
            period: None,
        };
        let before = held([0x12, 0x30], "291");
        let text = SafeText { value: "5\n".into(), enable: None, stored: None };
        let write = target.plan(&text, Some(&before)).remove(0);
        let all = LeftWrites::default();
        let left = |is_written, now: &Content| {
            all.leave_behind(vec![LeftWrite { write: write.clone(), is_written, planner: 1 }]);
            let found = target.left_original(&all, Some(now));
            all.forget_left(&write);
            found
        };
        let (safe, changed) = (held([0x00, 0x50], "5"), held([0x10, 0x50], "261"));
        assert_eq!(left(false, &changed), Some(before.clone()), "it was not made safe");
        assert_eq!(left(true, &safe), Some(before.clone()));
        assert_eq!(left(true, &held([0x00, 0x57], "5")), Some(before), "the other bits are the chip's");
        assert_eq!(left(true, &changed), None);
    }
}
