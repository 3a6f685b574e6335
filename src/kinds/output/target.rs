//! What an output writes to: from what its section names to what is open. May block and allocate.

#[cfg(feature = "gpio")]
use super::digits::Digits;
use super::digits::{Form, LONGEST};
use super::guard::PlannedWrite;
use super::place::{Place, RawScale, is_pwm};
use super::port::{Content, MANUAL, Port, SafeText, SafeWriter, Writer};
use super::pwm;
use crate::kinds::device::{DeviceId, Refusal, Sight, first_line, hidden};
#[cfg(feature = "gpio")]
use crate::kinds::gpio::{DrivenLine, LineId};
#[cfg(feature = "i2c")]
use crate::kinds::i2c::WrittenRegister;
use crate::kinds::sensor::{Class, find, iio_channel, iio_conversion, is_iio_raw};
use crate::sys::clock::pause;
use crate::sys::lock;
use crate::time::Span;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// How often a lock is asked for that another process has: one that only looks has it for an instant.
const LOCK_TRIES: u32 = 20;

/// A target that is there.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) ids: Vec<DeviceId>,
    /// What its raw numbers mean.
    pub(super) raw: RawScale,
    /// How they are written.
    pub(super) form: Form,
    means: Means,
}

#[derive(Clone, Debug)]
enum Means {
    Files(Files),
    #[cfg(feature = "gpio")]
    Line(DrivenLine),
    #[cfg(feature = "i2c")]
    Register(WrittenRegister),
}

#[derive(Clone, Debug)]
struct Files {
    path: PathBuf,                      // as the kernel names it: no symbolic link
    is_regular: bool,                   // it is no attribute of a driver: it holds any number, and nothing behind it
    enable: Option<PathBuf>,            // `pwmN_enable`
    witness: Option<(PathBuf, String)>, // shows that the path still leads to this device
}

impl Target {
    /// Finds it, and changes nothing. `None`: it is a regular file that is still to be made.
    pub(super) fn find(place: &Place, sys: &Path) -> Result<Option<Self>, Refusal> {
        let raw = place.raw();
        match place {
            Place::File(path) => match path.canonicalize() {
                Ok(path) => Self::at(path, "path", raw).map(Some),
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_makeable(path) => Ok(None),
                Err(error) => Err(Refusal::new("path", format!("cannot find {}: {error}", path.display()))),
            },
            Place::Hwmon(wanted, file) => {
                let device = find(Class::Hwmon, sys, wanted)?;
                let real = real(&device.folder.join(file))?;
                let enable = real.with_file_name(format!("{file}_enable"));
                let enable = Some(enable).filter(|enable| is_pwm(file) && enable.exists());
                Self::of_device(real, device.name, enable, raw).map(Some)
            }
            Place::Iio(wanted, file) => {
                let device = find(Class::Iio, sys, wanted)?;
                let real = real(&device.folder.join(file))?;
                let raw = if is_iio_raw(file) { iio_raw(&device.folder, file)? } else { raw };
                Self::of_device(real, device.name, None, raw).map(Some)
            }
            Place::Pwm { chip, channel, .. } => {
                let chip = pwm::find(chip, *channel, sys)?;
                let of_channel = DeviceId::Named(format!("{} channel {channel}", chip.display()));
                let folder = chip.join(format!("pwm{channel}"));
                let path = folder.join("duty_cycle");
                let ids = fs::metadata(&path).ok().map(|duty| DeviceId::of(&duty)).into_iter().chain([of_channel]);
                let files = Files { path, is_regular: false, enable: None, witness: None };
                Ok(Some(Self { ids: ids.collect(), raw, form: Form::Whole, means: Means::Files(files) }))
            }
            #[cfg(feature = "gpio")]
            Place::Line { chip, line, active_low } => {
                use crate::config::NumberOrName;
                let id = match line {
                    NumberOrName::Number(offset) => LineId::Offset(u32::try_from(*offset).unwrap_or(u32::MAX)),
                    NumberOrName::Name(name) => LineId::Name(name.clone()),
                };
                let line = DrivenLine::find(chip.as_deref(), &id)?;
                let form = Form::Level { active_low: *active_low };
                Ok(Some(Self { ids: vec![line.id()], raw, form, means: Means::Line(line) }))
            }
            #[cfg(feature = "i2c")]
            Place::Register(wanted) => {
                use crate::kinds::layout::Number;
                let register = WrittenRegister::find(wanted, sys)?;
                let form = if wanted.layout.number == Number::Float { Form::Any } else { Form::Whole };
                Ok(Some(Self { ids: register.ids(), raw, form, means: Means::Register(register) }))
            }
            #[cfg(not(feature = "gpio"))]
            Place::Line { .. } => Err(left_out("line", "gpio")),
            #[cfg(not(feature = "i2c"))]
            Place::Register(_) => Err(left_out("bus", "i2c")),
        }
    }

    fn at(path: PathBuf, key: &'static str, raw: RawScale) -> Result<Self, Refusal> {
        let refuse = |why: String| Refusal::new(key, why);
        let facts = fs::metadata(&path).map_err(|error| refuse(format!("cannot find {}: {error}", path.display())))?;
        if !facts.is_file() {
            return Err(refuse(format!("{} is no file that holds a number", path.display())));
        }
        let is_regular = !path.starts_with("/sys") && !path.starts_with("/proc");
        let files = Files { path, is_regular, enable: None, witness: None };
        let form = if is_regular { Form::Any } else { Form::Whole };
        Ok(Self { ids: vec![DeviceId::of(&facts)], raw, form, means: Means::Files(files) })
    }

    /// A file beside the `name` of its device.
    fn of_device(path: PathBuf, name: String, enable: Option<PathBuf>, raw: RawScale) -> Result<Self, Refusal> {
        let witness = Some((path.with_file_name("name"), name));
        let found = Self::at(path.clone(), "file", raw)?;
        let means = Means::Files(Files { path, is_regular: false, enable, witness });
        Ok(Self { form: Form::Whole, means, ..found })
    }

    /// What messages call it.
    pub(super) fn shown(&self) -> String {
        match &self.means {
            Means::Files(files) => files.path.display().to_string(),
            #[cfg(feature = "gpio")]
            Means::Line(line) => format!("line {} of {} ({:?})", line.offset, line.node.display(), line.label),
            #[cfg(feature = "i2c")]
            Means::Register(register) => register.shown(),
        }
    }

    /// The name of its `pwmN_enable`, if it has one.
    pub(super) fn enable_name(&self) -> String {
        let name = self.files().and_then(|files| files.enable.as_ref()?.file_name());
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    fn files(&self) -> Option<&Files> {
        match &self.means {
            Means::Files(files) => Some(files),
            #[cfg(any(feature = "gpio", feature = "i2c"))]
            _ => None,
        }
    }

    /// Its file `duty_cycle`, of a PWM channel.
    pub(super) fn file(&self) -> Option<&Path> {
        self.files().map(|files| &*files.path)
    }

    /// Takes it: no other process of hertzd has it until all copies of the file are closed that this returns. Nothing is written.
    pub(super) fn take(&self, key: &'static str) -> Result<File, Refusal> {
        match &self.means {
            Means::Files(files) => {
                let path = files.path.display();
                let file =
                    self.open_file(files).map_err(|error| Refusal::new(key, cannot_open(&files.path, &error)))?;
                let holder = || {
                    let holder = file.metadata().ok().and_then(|facts| lock::holder(&facts));
                    holder.map_or_else(|| "another process".to_owned(), |holder| holder.to_string())
                };
                match is_granted(|| file.try_lock().is_ok()) {
                    true => Ok(file),
                    false => Err(Refusal::new(key, format!("{path} is in use by {}; {ONE_ONLY}", holder()))),
                }
            }
            #[cfg(feature = "gpio")]
            Means::Line(line) => line.request(),
            #[cfg(feature = "i2c")]
            Means::Register(register) => {
                let mut locked = None;
                for _ in 0..LOCK_TRIES {
                    locked = register.lock()?;
                    if locked.is_some() {
                        break;
                    }
                    pause(Span::from_millis(5));
                }
                let in_use = || format!("{} is in use by another process; {ONE_ONLY}", register.shown());
                locked.ok_or_else(|| Refusal::new(key, in_use()))
            }
        }
    }

    /// Sends a chip what it needs to begin with, once it was taken.
    pub(super) fn init(&self) -> Result<(), Refusal> {
        match &self.means {
            #[cfg(feature = "i2c")]
            Means::Register(register) => register.init(),
            _ => Ok(()),
        }
    }

    /// Makes a line ready to be written, once it was taken. `first`: what it is to hold from then on; `None`: what it holds.
    pub(super) fn set_up(&self, taken: &File, first: Option<f64>) -> Result<(), Refusal> {
        match &self.means {
            Means::Files(_) => Ok(()),
            #[cfg(feature = "gpio")]
            Means::Line(line) => {
                let failed = |doing: &str, error: io::Error| {
                    let shown = format!("line {} of {}", line.offset, line.node.display());
                    Refusal::new("line", format!("cannot {doing} {shown}: {error}"))
                };
                let high = match first {
                    Some(raw) => Digits::of(raw, self.form).bytes() == b"1\n",
                    None => DrivenLine::level(taken).map_err(|error| failed("read", error))?,
                };
                DrivenLine::drive(taken, high).map_err(|error| failed("make an output of", error))
            }
            #[cfg(feature = "i2c")]
            Means::Register(_) => Ok(()),
        }
        .map(|()| _ = (taken, first))
    }

    fn open_file(&self, files: &Files) -> io::Result<File> {
        OpenOptions::new().write(true).open(&files.path)
    }

    /// What it and `pwmN_enable` hold, once it was taken.
    pub(super) fn read(&self, taken: Option<&File>) -> io::Result<Content> {
        match &self.means {
            Means::Files(files) => {
                let enable = files.enable.as_ref().map(fs::read_to_string).transpose()?;
                Ok(Content { value: fs::read_to_string(&files.path)?, enable })
            }
            #[cfg(feature = "gpio")]
            Means::Line(_) => {
                let line = taken.ok_or(io::ErrorKind::Unsupported)?;
                let value = if DrivenLine::level(line)? { "1\n" } else { "0\n" };
                Ok(Content { value: value.into(), enable: None })
            }
            #[cfg(feature = "i2c")]
            Means::Register(register) => {
                // To some chips a read is a command: a look does without.
                taken.ok_or(io::ErrorKind::Unsupported)?;
                let mut open = register.open().map_err(|refusal| io::Error::other(refusal.message))?;
                Ok(Content { value: format!("{}\n", open.read()?), enable: None })
            }
        }
        .inspect(|_| _ = taken)
    }

    /// Whether what it holds can be looked at without taking it.
    pub(super) fn shows_content(&self) -> bool {
        self.files().is_some()
    }

    /// What is written to make it safe: by the value alone, or by all that was there.
    pub(super) fn safe_text(&self, content: &Content) -> SafeText {
        let has_enable = self.files().is_some_and(|files| files.enable.is_some());
        let enable = has_enable.then(|| content.enable.clone().unwrap_or_else(|| MANUAL.to_owned()));
        SafeText { value: content.value.clone(), enable }
    }

    fn port(&self, taken: &File) -> io::Result<Port> {
        match &self.means {
            Means::Files(files) => {
                let file = self.open_file(files)?;
                Ok(if files.is_regular { Port::Regular(file) } else { Port::Attribute(file) })
            }
            #[cfg(feature = "gpio")]
            Means::Line(_) => taken.try_clone().map(Port::Line),
            #[cfg(feature = "i2c")]
            Means::Register(register) => {
                register.open().map(Port::Register).map_err(|refusal| io::Error::other(refusal.message))
            }
        }
        .inspect(|_| _ = taken)
    }

    /// What the task writes with.
    pub(super) fn writer(&self, taken: &File) -> io::Result<Writer> {
        let port = self.port(taken)?;
        // Another task may still write to it, and nothing longer than this.
        let length = if let Port::Regular(file) = &port { file.metadata()?.len().max(LONGEST as u64) } else { 0 };
        let enable = self.files().and_then(|files| files.enable.as_ref());
        let enable = enable.map(|path| OpenOptions::new().write(true).open(path)).transpose()?;
        Ok(Writer::new(port, enable, length))
    }

    /// What others make it safe with.
    pub(super) fn safe_writer(&self, taken: &File, text: SafeText) -> io::Result<SafeWriter> {
        let plan = self.plan(&text);
        let enable = match (self.files().and_then(|files| files.enable.as_ref()), text.enable) {
            (Some(path), Some(text)) => Some((path.clone(), open_both(path)?, text)),
            _ => None,
        };
        Ok(SafeWriter { port: self.port(taken)?, text: text.value, enable, plan })
    }

    /// What another process would have to write.
    pub(super) fn plan(&self, text: &SafeText) -> Vec<PlannedWrite> {
        match &self.means {
            Means::Files(files) => {
                let file = |path: &Path, text: &str, cut| PlannedWrite::File {
                    path: path.into(),
                    witness: files.witness.clone(),
                    text: text.into(),
                    cut,
                };
                let enable =
                    files.enable.as_ref().zip(text.enable.as_ref()).map(|(path, text)| file(path, text, false));
                [file(&files.path, &text.value, files.is_regular)].into_iter().chain(enable).collect()
            }
            #[cfg(feature = "gpio")]
            Means::Line(line) => {
                let (chip, label, offset) = (line.node.clone(), line.label.clone(), line.offset);
                vec![PlannedWrite::Line { chip, label, offset, high: text.value.starts_with('1') }]
            }
            #[cfg(feature = "i2c")]
            Means::Register(register) => {
                let (address, force) = register.address();
                let (bus, adapter) = (register.node.clone(), register.adapter.clone());
                let bytes = register.encode(&text.value).unwrap_or_default();
                vec![PlannedWrite::Register { bus, adapter, address, force, bytes }]
            }
        }
    }

    /// What can be seen of it without taking it.
    pub(super) fn look(&self, key: &'static str) -> Result<Sight, Refusal> {
        let sight = Sight::of(key, self.ids.clone());
        match &self.means {
            Means::Files(files) => {
                if let Some(hidden) = hidden(&files.path, true) {
                    return Ok(hidden);
                }
                let file =
                    self.open_file(files).map_err(|error| Refusal::new(key, cannot_open(&files.path, &error)))?;
                let holder = file.metadata().ok().and_then(|facts| lock::holder(&facts));
                let taken = holder.filter(lock::Holder::is_ours);
                Ok(Sight { taken: taken.map(|holder| format!("{} is in use by {holder}", self.shown())), ..sight })
            }
            #[cfg(feature = "gpio")]
            Means::Line(line) => {
                let taken = line.taken()?;
                Ok(Sight { taken, ..sight.unknown(format!("whether {} can be an output", self.shown())) })
            }
            #[cfg(feature = "i2c")]
            Means::Register(register) => {
                if let Some(hidden) = register.hidden() {
                    return Ok(hidden);
                }
                register.open()?;
                Ok(sight.unknown(format!("whether a chip answers that has {}", register.shown())))
            }
        }
    }

    /// Whether only the service may open it.
    pub(super) fn is_hidden(&self) -> bool {
        self.files().is_some_and(|files| hidden(&files.path, true).is_some())
    }
}

/// What only the service may open, of a place that was not found.
pub(super) fn hidden_place(place: &Place) -> Option<Sight> {
    match place {
        #[cfg(feature = "gpio")]
        Place::Line { chip, .. } => DrivenLine::hidden(chip.as_deref()),
        _ => None,
    }
}

const ONE_ONLY: &str = "only one output at a time can have it";

fn is_granted(mut ask: impl FnMut() -> bool) -> bool {
    (0..LOCK_TRIES).any(|_| ask() || (pause(Span::from_millis(5)), false).1)
}

#[cfg(not(all(feature = "gpio", feature = "i2c")))]
fn left_out(key: &'static str, feature: &str) -> Refusal {
    Refusal::new(
        key,
        format!("this hertzd was built without the feature {feature}, which is one of the default features"),
    )
}

fn real(path: &Path) -> Result<PathBuf, Refusal> {
    path.canonicalize().map_err(|error| Refusal::new("file", format!("cannot find {}: {error}", path.display())))
}

/// What the raw numbers of a channel mean, in hertzd's unit: by the kernel's ABI, (raw + offset) * scale is mV, or mA.
fn iio_raw(folder: &Path, file: &str) -> Result<RawScale, Refusal> {
    let channel = iio_channel(file);
    let (scale, offset) = iio_conversion(folder, channel).map_err(|why| Refusal::new("file", why))?;
    // "[lowest step highest]"
    let range = first_line(&folder.join(format!("{file}_available"))).and_then(|line| {
        let numbers = line.trim().strip_prefix('[')?.strip_suffix(']')?.split_whitespace();
        let numbers: Vec<f64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
        <[f64; 3]>::try_from(numbers).ok().map(|[low, _, high]| [low, high]).filter(|[low, high]| low < high)
    });
    Ok(RawScale { full: 1.0 / scale, zero: -offset / scale, range })
}

/// Whether a file could be made here.
fn is_makeable(path: &Path) -> bool {
    !path.starts_with("/sys")
        && !path.starts_with("/proc")
        && folder_of(path).is_dir()
        && path.symlink_metadata().is_err()
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open_both(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn cannot_open(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "; hertzd's user needs permission to write it",
        _ => "",
    };
    format!("cannot open {}: {error}{remedy}", path.display())
}
