//! Targets that are files: attributes of `/sys`, and regular files. May block and allocate.

use super::identity::Device;
use super::means::{Kept, Means, ONE_ONLY, PassedOver, keep_others_out};
use super::place::{RawScale, is_pwm};
use super::port::{Content, Port, SafeText};
use super::setting::{Setting, Sort};
use crate::kinds::device::{Sight, first_line, hidden};
use crate::kinds::sensor::{iio_channel, iio_conversion};
use crate::safety::PlannedWrite;
use crate::site::{DeviceId, Refusal};
use crate::sys::entry;
use crate::sys::lock::{self, Taken};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file, and what stands beside it.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) path: PathBuf,                      // as the kernel names it: no symbolic link
    pub(super) is_regular: bool, // it is no attribute of a driver: it holds any number, and nothing behind it
    pub(super) enable: Option<PathBuf>, // `pwmN_enable`
    pub(super) settings: Vec<Setting>, // what gives the value its effect: that file; or of a PWM channel `period`, `polarity` and `enable`
    pub(super) beside: Vec<PathBuf>, // what else decides what the value does: of a PWM channel these two and its polarity
    pub(super) witness: Option<(PathBuf, String)>, // shows that the path still leads to this device
}

impl Files {
    /// A file that is there, by its real path, and what makes it one device.
    pub(super) fn at(path: PathBuf, key: &'static str, sys: &Path) -> Result<(Vec<DeviceId>, Self), Refusal> {
        let refuse = |why: String| Refusal::new(key, why);
        let facts = fs::metadata(&path).map_err(|error| refuse(format!("cannot find {}: {error}", path.display())))?;
        if !facts.is_file() {
            return Err(refuse(format!("{} is no file that holds a number", path.display())));
        }
        let files = if is_attribute(&path, sys) { Self::of_driver(path) } else { Self::regular(path) };
        // `hertzd safe` leaves such a file alone: its other name may be that of something else.
        if files.is_regular && facts.nlink() > 1 {
            let path = files.path.display();
            return Err(refuse(format!("{path} has another name too (a hard link); name a file that has only one")));
        }
        Ok((files.ids(), files))
    }

    fn regular(path: PathBuf) -> Self {
        Self { path, is_regular: true, enable: None, settings: Vec::new(), beside: Vec::new(), witness: None }
    }

    /// An attribute. A fan is the same target whether it is named by its path or by its device: what belongs to it is known by the files.
    fn of_driver(path: PathBuf) -> Self {
        let enable = path.file_name().and_then(|name| name.to_str()).filter(|name| is_pwm(name));
        let enable = enable.map(|name| path.with_file_name(format!("{name}_enable"))).filter(|enable| enable.exists());
        let name = path.with_file_name("name");
        let witness = first_line(&name).map(|text| (name, text));
        let mode = |path: &PathBuf| Setting { path: path.clone(), number: 1.0, sort: Sort::Mode };
        let polarity = Some(&path).filter(|path| path.ends_with("duty_cycle")).and_then(|path| polarity_beside(path));
        let beside = polarity.iter().map(|polarity| polarity.path.clone()).collect();
        let settings = enable.iter().map(mode).chain(polarity).collect();
        Self { path, is_regular: false, enable, settings, beside, witness }
    }

    /// Each file that is written, read back or relied upon, as far as it is there; the one for the value comes first.
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.path).chain(&self.enable).chain(&self.beside)
    }

    /// What makes it one target.
    pub(super) fn ids(&self) -> Vec<DeviceId> {
        self.all().filter_map(|file| Some(DeviceId::of(&fs::metadata(file).ok()?))).collect()
    }

    fn open(&self) -> io::Result<File> {
        if !self.is_regular {
            return OpenOptions::new().write(true).open(&self.path);
        }
        // Something else may have taken the place of the file that was looked at: it is neither followed nor waited for.
        let file = entry::open(&self.path, libc::O_WRONLY)?;
        let facts = file.metadata()?;
        match facts.is_file() && facts.nlink() <= 1 {
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

/// The polarity of a PWM channel, as it is now. The duty is the time in which the line is active: it decides what that is.
pub(super) fn polarity_beside(duty_cycle: &Path) -> Option<Setting> {
    let path = duty_cycle.with_file_name("polarity");
    let number = Sort::Polarity.number(&text_of(&path).ok()?)?;
    Some(Setting { path, number, sort: Sort::Polarity })
}

/// Locks a file of a target against other processes of hertzd.
fn keep_out(file: File, path: &Path, key: &'static str) -> Result<Kept, Refusal> {
    let shown = path.display().to_string();
    let is_passed_over =
        keep_others_out(&file, &shown, None).map_err(|why| Refusal::new(key, format!("{shown} {why}; {ONE_ONLY}")))?;
    let lock = if is_passed_over { PassedOver::of(&file, None, shown) } else { None };
    Ok(Kept { file, lock })
}

/// Whether a file without symbolic links is a driver's, below the root of such files or where the kernel has them.
fn is_attribute(path: &Path, sys: &Path) -> bool {
    let is_below = |root: &Path| path.starts_with(root);
    is_below(Path::new("/sys")) || is_below(Path::new("/proc")) || sys.canonicalize().is_ok_and(|sys| is_below(&sys))
}

/// Refuses a file that holds anything but one number: it would be lost.
pub(super) fn holds_a_number(path: &Path) -> Result<(), Refusal> {
    let mut head = Vec::new();
    // Without permission to read it, nobody knows.
    let file = entry::open(path, libc::O_RDONLY);
    let Ok(_) = file.and_then(|file| file.take(LONGEST_NUMBER + 1).read_to_end(&mut head)) else { return Ok(()) };
    let is_whole = head.len() as u64 <= LONGEST_NUMBER;
    let text = String::from_utf8_lossy(&head);
    let text = text.trim_matches(|it: char| it.is_whitespace() || it == '\0');
    if is_whole && (text.is_empty() || text.parse::<f64>().is_ok()) {
        return Ok(());
    }
    let what = match is_whole {
        true => "something else than a number".to_owned(),
        false => {
            let size = fs::metadata(path).map_or_else(|_| String::new(), |found| format!(" ({} bytes)", found.len()));
            format!("more than one number{size}")
        }
    };
    let path = path.display();
    Err(Refusal::new(
        "path",
        format!("{path} holds {what}, which would be lost; name another file, or empty this one before"),
    ))
}

/// The text of a file that holds one number. Whatever another program has put in its place: no link is followed, nothing is waited for, and no
/// more of it is read than a number has.
pub(super) fn text_of(path: &Path) -> io::Result<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    text_in(OpenOptions::new().read(true).custom_flags(flags).open(path)?)
}

fn text_in(file: File) -> io::Result<String> {
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is no file that holds a number"));
    }
    let mut text = Vec::with_capacity(1_024); // one read of an attribute, and one that finds its end
    file.take(LONGEST_NUMBER + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST_NUMBER {
        return Err(io::Error::other(format!("it holds more than one number ({} bytes)", facts.len())));
    }
    String::from_utf8(text).map_err(|_| io::Error::other("it holds bytes that are no text"))
}

/// The most that a file with one number has, with the white space around it. What is longer is something else, whatever it begins with.
const LONGEST_NUMBER: u64 = 512;

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

    fn take(&self, key: &'static str) -> Result<Kept, Refusal> {
        keep_out(self.open_by(key)?, &self.path, key)
    }

    fn take_beside(&self, key: &'static str) -> Result<Vec<Kept>, Refusal> {
        let mut taken = Vec::new();
        for path in self.all().skip(1) {
            // One that may not be written is locked by nobody who writes it.
            let Ok(file) = File::options().write(true).open(path) else { continue };
            taken.push(keep_out(file, path, key)?);
        }
        Ok(taken)
    }

    fn value(&self, _: Option<&File>) -> io::Result<String> {
        if self.is_regular {
            text_in(entry::open(&self.path, libc::O_RDONLY | libc::O_NONBLOCK)?)
        } else {
            text_of(&self.path)
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
            original: found.map(|text| if cut { text } else { text.trim_end() }.to_owned()),
        };
        let enable_found = found.and_then(|found| found.enable.as_deref());
        let enable = self.enable.as_ref().zip(text.enable.as_ref());
        let enable = enable.map(|(path, text)| file(path, text, false, enable_found));
        let value = file(&self.path, &text.value, self.is_regular, found.map(|found| &*found.value));
        // What a channel needs besides, which no other program may have left as it was.
        let prepared = self.settings.iter().filter(|_| self.enable.is_none());
        let prepared = prepared.map(|setting| file(&setting.path, &setting.text(), false, None));
        [value].into_iter().chain(enable).chain(prepared).collect()
    }

    fn look(&self, key: &'static str, sight: Sight) -> Result<Sight, Refusal> {
        if let Some(hidden) = hidden(&self.path, true) {
            return Ok(hidden);
        }
        let own = self.open_by(key)?;
        let open = |path: &PathBuf| if *path == self.path { own.try_clone() } else { File::open(path) };
        let in_use = |path: &PathBuf| match lock::probe(&open(path).ok()?) {
            Ok(Taken::Peer(Some(holder))) if holder.is_ours() => {
                Some(format!("{} is in use by {holder}", path.display()))
            }
            Ok(Taken::Peer(None)) => Some(format!("{} is in use by another process", path.display())),
            _ => None,
        };
        Ok(Sight { taken: self.all().find_map(in_use), ..sight })
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

    fn with_polarity(&self, polarity: f64) -> Option<Arc<dyn Means>> {
        let mut files = self.clone();
        let its = files.settings.iter_mut().find(|setting| setting.sort == Sort::Polarity)?;
        its.number = polarity;
        Some(Arc::new(files))
    }
}

/// What the raw numbers of a channel mean, in hertzd's unit: by the kernel's ABI, (raw + offset) * scale is mV, or mA.
pub(super) fn iio_raw(folder: &Path, file: &str) -> Result<RawScale, Refusal> {
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
pub(super) fn is_makeable(path: &Path) -> bool {
    !path.starts_with("/sys")
        && !path.starts_with("/proc")
        && folder_of(path).is_dir()
        && path.symlink_metadata().is_err()
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
