//! Finds the target, of any kind, that an output's section names. May block and allocate.

mod effect;
mod files;
mod left;
#[cfg(feature = "gpio")]
mod line;
mod make;
pub(super) mod means;
pub(super) mod pwm;
#[cfg(feature = "i2c")]
mod register;

use super::digits::{Digits, Form, number};
use super::fan;
use super::identity::Identity;
use super::left_writes::LeftWrites;
use super::place::{Place, RawScale};
use super::port::{Content, OpenSetting, SafeText, Writer};
use super::safe_writer::{SafeSetting, SafeWriter};
use super::setting::{Setting, Sort};
use super::text::{holds_a_number, read_text};
use crate::kinds::device::{Sight, hidden};
use crate::kinds::sensor::{ByName, Class, find, is_iio_raw};
use crate::safety::{PlannedWrite, SETTINGS};
use crate::site::{DeviceId, Refusal};
use crate::sys::entry::resolve;
use crate::sys::host::{has_own_network, missing_folder};
pub(super) use effect::is_given_back;
use files::{Files, iio_raw, is_makeable};
pub(super) use make::unmade;
use means::{Kept, Means};
use pwm::Channel;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A target that was found.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The key that names it in a section.
    pub(super) key: &'static str,
    pub(super) ids: Vec<DeviceId>,
    /// The scale of its raw numbers.
    pub(super) raw: RawScale,
    /// How its numbers are written.
    pub(super) form: Form,
    means: Arc<dyn Means>,
}

/// Everything that depends on the kind of target.
impl Deref for Target {
    type Target = dyn Means;

    fn deref(&self) -> &Self::Target {
        &*self.means
    }
}

impl Target {
    /// Finds the target and changes nothing. `None`: a regular file that has yet to be created.
    pub(super) fn find(place: &Place, sys: &Path) -> Result<Option<Self>, Refusal> {
        let (key, raw) = (place.key(), place.raw());
        let (ids, raw, form, means): Found = match place {
            Place::File(path) => match resolve(path).and_then(|path| path.symlink_metadata().map(|_| path)) {
                Ok(path) => {
                    let (ids, files) = Files::at(path, key, sys)?;
                    let form = if files.is_regular { Form::Any } else { Form::Whole };
                    (ids, raw, form, Arc::new(files))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_makeable(path) => return Ok(None),
                Err(error) => {
                    let text = format!("cannot find {}: {error}{}", path.display(), missing_folder(path));
                    return Err(Refusal::new(key, text));
                }
            },
            Place::Hwmon(wanted, file) => of_device(Class::Hwmon, wanted, file, raw, sys)?,
            Place::Iio(wanted, file) => of_device(Class::Iio, wanted, file, raw, sys)?,
            Place::Pwm { chip, channel, period } => of_channel(Channel::find(chip, *channel, *period, sys)?, raw),
            #[cfg(feature = "gpio")]
            Place::Line { chip, line, active_low } => {
                let line = line::find(chip.as_deref(), line)?;
                (vec![line.id()], raw, Form::Level { active_low: *active_low }, Arc::new(line))
            }
            #[cfg(feature = "i2c")]
            Place::Register(wanted) => {
                let register = crate::kinds::i2c::WrittenRegister::find(wanted, sys)?;
                let is_float = wanted.layout.number == crate::kinds::layout::Number::Float;
                (register.ids(), raw, if is_float { Form::Any } else { Form::Whole }, Arc::new(register))
            }
            #[cfg(not(all(feature = "gpio", feature = "i2c")))]
            _ => return Err(left_out(place)),
        };
        Ok(Some(Self { key, ids, raw, form, means }))
    }

    /// Exports a PWM channel, so that its files exist; any other target is returned unchanged.
    pub(super) fn exported(self) -> Result<Self, Refusal> {
        let Some(channel) = self.channel() else { return Ok(self) };
        channel.export()?;
        let (ids, raw, form, means) = of_channel(channel.clone(), self.raw);
        Ok(Self { key: self.key, ids, raw, form, means })
    }

    /// The name of its `pwmN_enable`; empty if it has none.
    pub(super) fn enable_name(&self) -> String {
        let name = self.enable().and_then(Path::file_name);
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its file, if it is a regular one.
    pub(super) fn regular_file(&self) -> Option<&Path> {
        self.file().filter(|_| self.form == Form::Any)
    }

    /// Refuses a regular file that holds anything but one number, which would be lost. Pointless once this process has the file: hertzd has
    /// overwritten it by then.
    pub(super) fn loses_nothing(&self) -> Result<(), Refusal> {
        self.regular_file().map_or(Ok(()), holds_a_number)
    }

    /// Refuses a target if only this process could make it safe by these writes: no other process could if this one were killed.
    pub(super) fn can_be_made_safe(&self, writes: &[PlannedWrite]) -> Result<(), Refusal> {
        writes.iter().try_for_each(PlannedWrite::can_be_made).map_err(|why| {
            let (shown, remedy) = match self.file() {
                Some(path) => (path.display().to_string(), "give `safe` a number"),
                None => (self.shown(), "name the device by its file in /dev"),
            };
            let text =
                format!("should this process be killed, `hertzd safe` could not make {shown} safe: {why}; {remedy}");
            Refusal::new(self.key, text)
        })
    }

    /// Takes the target for a task: no other hertzd process can have it until all copies of the returned files are closed. They are the
    /// value's file and those beside it. Nothing is written.
    pub(super) fn take(&self, left: &LeftWrites, task: &str) -> Result<(Kept, Vec<Kept>), Refusal> {
        Ok((self.means.take(left, self.key, task)?, self.take_beside(left, self.key, task)?))
    }

    /// What must be equal for one output to take the target over from another.
    pub(super) fn identity(&self) -> Identity {
        Identity { ids: self.ids.clone(), layout: self.layout(), shown: self.shown(), device: self.device() }
    }

    /// Makes a taken target ready for writes. `first`: raw number it holds from then on; `None`: keep its current value.
    pub(super) fn set_up(&self, taken: &File, first: Option<f64>) -> Result<(), Refusal> {
        self.means.set_up(taken, first.map(|raw| Digits::of(raw, self.form).bytes() == b"1\n"))
    }

    /// Content of the target and of `pwmN_enable`. `taken`: the file, once it was taken. A PWM channel that is to be switched on, but is
    /// still off, reads as 0, whatever its duty.
    pub(super) fn read(&self, taken: Option<&File>) -> io::Result<Content> {
        let enable = self.enable().map(read_text).transpose()?;
        let (mut value, stored) = self.stored(taken)?;
        if self.is_off() {
            "0\n".clone_into(&mut value);
        }
        let period = self.period().and_then(|period| read_text(&period).ok());
        Ok(Content { value, enable, stored, period })
    }

    /// Content of a taken target, if it is a number.
    pub(super) fn holds(&self, taken: &File) -> Option<Content> {
        self.read(Some(taken)).ok().filter(Content::is_number)
    }

    /// The file of the period, if the target is the duty of a PWM channel.
    fn period(&self) -> Option<PathBuf> {
        let duty = self.file().filter(|path| path.ends_with("duty_cycle") && self.form != Form::Any)?;
        Some(duty.with_file_name("period"))
    }

    /// The raw number that the target holds: the one in `found`, or for a PWM channel the duty that it keeps when it is set up. NaN:
    /// unknown.
    pub(super) fn there(&self, found: Option<&Content>) -> Result<f64, Refusal> {
        #[expect(clippy::cast_precision_loss, reason = "a duty of 2^53 ns is 104 days")]
        match self.channel() {
            Some(channel) => Ok(channel.kept_duty()? as f64),
            None => Ok(found.and_then(|content| number(&content.value)).unwrap_or(f64::NAN)),
        }
    }

    /// The text that makes the target safe: the value alone, or everything that was there.
    pub(super) fn safe_text(&self, content: &Content) -> SafeText {
        let enable = self.enable().map(|_| content.enable.clone().unwrap_or_else(|| fan::MANUAL.to_owned()));
        SafeText { value: content.value.clone(), enable, stored: content.stored.clone() }
    }

    /// The task's writer.
    pub(super) fn writer(&self, taken: &File) -> io::Result<Writer> {
        let port = self.port(taken)?;
        let open = |setting: &Setting| {
            let file = Arc::new(setting.open()?);
            Ok(OpenSetting { file, text: setting.text(), number: setting.number, sort: setting.sort })
        };
        let settings = self.settings().iter().map(open).collect::<io::Result<_>>()?;
        Ok(Writer::new(port, settings, self.is_prepared()))
    }

    /// The numbers of the settings; NaN: none.
    pub(super) fn settings_numbers(&self) -> [f64; SETTINGS] {
        std::array::from_fn(|at| self.settings().get(at).map_or(f64::NAN, |setting| setting.number))
    }

    /// The polarity setting of a PWM channel.
    pub(super) fn polarity(&self) -> Option<&Setting> {
        self.settings().iter().find(|setting| setting.sort == Sort::Polarity)
    }

    /// The same target with this polarity to keep.
    pub(super) fn with_polarity(mut self, polarity: Option<f64>) -> Self {
        if let Some(means) = polarity.and_then(|polarity| self.means.with_polarity(polarity)) {
            self.means = means;
        }
        self
    }

    /// Whether the settings are written before the first value, instead of together with it.
    pub(super) fn is_prepared(&self) -> bool {
        !self.settings().iter().any(Setting::is_set_with_value)
    }

    /// The writer with which others make the target safe.
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
        Ok(SafeWriter { port: self.port(taken)?, text, stored, number, settings, plan, put_out: Arc::default() })
    }

    /// Writes of arbitrary numbers, which show how a plan names the target.
    pub(super) fn any_writes(&self) -> Vec<PlannedWrite> {
        let enable = self.enable().map(|_| fan::MANUAL.to_owned());
        self.plan(&SafeText { value: "0\n".into(), enable, stored: None }, None)
    }

    /// What is known of the target without taking it.
    pub(super) fn look(&self) -> Result<Sight, Refusal> {
        self.loses_nothing()?;
        self.means.look(self.key, Sight::of(self.key, self.ids.clone()))
    }

    /// A warning if hertzd processes outside this network namespace do not see the target's lock.
    pub(super) fn locked_here_only(&self) -> Option<String> {
        let is_in_sys = self.file().is_some_and(|path| path.starts_with("/sys"));
        (is_in_sys && has_own_network(Path::new("/"))).then(|| {
            let shown = self.shown();
            format!(
                "the lock of {shown} keeps out only hertzds with the same /sys, and this one is in a network namespace of its own, as in a container: \
                 make sure that no hertzd outside it uses {shown}"
            )
        })
    }

    /// Whether only the service may open it.
    pub(super) fn is_hidden(&self) -> bool {
        self.file().is_some_and(|path| hidden(path, true).is_some())
    }
}

/// The parts of a target that was found.
type Found = (Vec<DeviceId>, RawScale, Form, Arc<dyn Means>);

/// A file beside its device's `name`.
fn of_device(class: Class, wanted: &ByName, file: &str, raw: RawScale, sys: &Path) -> Result<Found, Refusal> {
    let is_raw = matches!(class, Class::Iio) && is_iio_raw(file);
    let device = find(class, sys, wanted)?;
    let path = real(&device.folder.join(file))?;
    let raw = if is_raw { iio_raw(&device.folder, file)? } else { raw };
    let witness = Some((path.with_file_name("name"), device.name));
    let (ids, files) = Files::at(path, "file", sys)?;
    Ok((ids, raw, Form::Whole, Arc::new(Files { witness, ..files })))
}

fn of_channel(channel: Channel, raw: RawScale) -> Found {
    let id = channel.id();
    let files = Files::of_channel(channel, raw.full);
    (files.ids().into_iter().chain([id]).collect(), raw, Form::Whole, Arc::new(files))
}

#[cfg(not(all(feature = "gpio", feature = "i2c")))]
fn left_out(place: &Place) -> Refusal {
    let feature = if let Place::Line { .. } = place { "gpio" } else { "i2c" };
    let text = format!("this hertzd was built without the feature {feature}, which is one of the default features");
    Refusal::new(place.key(), text)
}

/// For a place that was not found: a part of it that only the service may open.
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
