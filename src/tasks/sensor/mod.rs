//! The kind `sensor`: polls a number from a file of `/proc` or `/sys`.
//!
//! The file is opened once and read again from its start at every tick, with one system call into memory set aside
//! before the start; nothing is allocated after that. A read blocks for as long as the file's driver takes: for a bus
//! sensor that can be milliseconds, so such a one belongs on a worker of its own.

mod keys;

pub(super) use keys::kind;

use super::{BuildError, Column, Task, Tick, TickError};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// Where the number is, and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorSettings {
    /// The file. It must allow reading at a position, as files of `/proc` and `/sys` do and pipes do not.
    pub path: PathBuf,
    /// The line the number is in.
    pub line: Line,
    /// Which field of the line, from 1. Fields are separated by white space and colons, several count as one. In a line
    /// found by its text the fields after the text are counted: field 1 of `MemAvailable:` is the number itself.
    pub field: usize,
    /// What the number is multiplied by: the worth of one in `unit`. Finite, not zero.
    pub scale: f64,
    /// What is added after that, in `unit`. Finite.
    pub offset: f64,
    /// Name of the value. Not empty.
    pub name: String,
    /// Unit of the value after scaling; empty for a plain number.
    pub unit: String,
}

/// How a line is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// By its number, from 1.
    Number(usize),
    /// By the text it starts with, white space before it aside: the first such line. The text must end where a field
    /// ends, so `cpu1` does not find `cpu10`.
    Text(String),
}

/// The first number of the first line, as it is, under the name `value`. The path is missing.
impl Default for SensorSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            line: Line::Number(1),
            field: 1,
            scale: 1.0,
            offset: 0.0,
            name: String::from("value"),
            unit: String::new(),
        }
    }
}

/// A task that polls a number from a file.
#[derive(Debug)]
pub struct Sensor {
    settings: SensorSettings,
    file: File,
    buffer: Box<[u8]>,
}

impl Sensor {
    /// Opens the file and reads the number once. It must lie in the first 64 KiB of the file.
    ///
    /// The number may be decimal, with a fraction or an exponent, or a hexadecimal integer as in `0x1f`; either may
    /// have a sign. Infinity and NaN are no numbers here.
    ///
    /// # Errors
    /// At the key to blame: `path` when the file cannot be opened or read, `line` and `field` when there is no number
    /// at that place (with what was found there), `scale`, `offset` and `name` outside their range.
    pub fn open(settings: SensorSettings) -> Result<Self, BuildError> {
        let refuse = |key, message| Err(BuildError { key, message });
        let path = settings.path.display();
        if settings.line == Line::Number(0) {
            return refuse("line", String::from("lines are counted from 1"));
        }
        if matches!(&settings.line, Line::Text(text) if text.trim().is_empty()) {
            return refuse("line", String::from("the text that the line starts with is empty"));
        }
        if settings.field == 0 {
            return refuse("field", String::from("fields are counted from 1"));
        }
        if !settings.scale.is_finite() || settings.scale == 0.0 {
            return refuse("scale", format!("{} is not a finite number other than 0", settings.scale));
        }
        if !settings.offset.is_finite() {
            return refuse("offset", format!("{} is not a finite number", settings.offset));
        }
        if settings.name.is_empty() {
            return refuse("name", String::from("a value needs a name"));
        }

        // Not to wait for the other end, should the path be a pipe or a device; close-on-exec is the default.
        let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&settings.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return refuse(
                    "path",
                    format!("cannot open {path}: {error}; hertzd's user needs to be allowed to read it"),
                );
            }
            Err(error) => return refuse("path", format!("cannot open {path}: {error}")),
        };
        let mut buffer = vec![0; LARGEST];
        let (_, needed) = read(&file, &mut buffer, &settings).map_err(|failure| failure.explained(&settings))?;
        // Twice what was needed today, in whole pages. Reading into it once more is the test that it will do.
        let mut buffer = vec![0; (2 * needed).next_multiple_of(4096).min(LARGEST)].into_boxed_slice();
        read(&file, &mut buffer, &settings).map_err(|failure| failure.explained(&settings))?;
        Ok(Self { settings, file, buffer })
    }
}

impl Task for Sensor {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: self.settings.name.clone(), unit: self.settings.unit.clone() }]
    }

    fn tick(&mut self, _tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let (scale, offset) = (self.settings.scale, self.settings.offset);
        let (number, _) = read(&self.file, &mut self.buffer, &self.settings).map_err(|failure| failure.brief())?;
        if let Some(value) = values.first_mut() {
            *value = number * scale + offset;
        }
        Ok(())
    }
}

/// Why there is no number; borrows what was found instead.
enum Failure<'a> {
    Read(io::Error),
    /// With the number of lines there are.
    NoLine(usize),
    /// With the line.
    NoField(&'a [u8]),
    /// With the field.
    NotANumber(&'a [u8]),
    TooFar,
}

impl Failure<'_> {
    fn brief(&self) -> TickError {
        match self {
            Self::Read(error) => TickError::from_io("cannot read the file", error),
            Self::NoLine(_) => TickError::new("the file no longer has the line"),
            Self::NoField(_) => TickError::new("the line no longer has the field"),
            Self::NotANumber(_) => TickError::new("what stands in the field is not a number"),
            Self::TooFar => TickError::new("the file has grown: the field is no longer where it can be read"),
        }
    }

    fn explained(&self, settings: &SensorSettings) -> BuildError {
        let (path, field) = (settings.path.display(), settings.field);
        let line = match &settings.line {
            Line::Number(number) => format!("line {number}"),
            Line::Text(text) => format!("the line that starts with {text:?}"),
        };
        let (key, message) = match self {
            Self::Read(error) => ("path", format!("cannot read {path}: {error}")),
            Self::NoLine(count) => ("line", format!("{path} does not have {line}; it has {count} lines")),
            Self::NoField(found) => ("field", format!("{line} of {path} has no field {field}: {}", quoted(found))),
            Self::NotANumber(found) => {
                ("field", format!("field {field} in {line} of {path} is not a number: {}", quoted(found)))
            }
            Self::TooFar => ("line", format!("{line} of {path} is not in the first {LARGEST} bytes")),
        };
        BuildError { key, message }
    }
}

/// What was found, short enough for one line of a log.
fn quoted(found: &[u8]) -> String {
    let text = String::from_utf8_lossy(found);
    let text = text.trim();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The number as it stands in the file, and how many bytes were read to get at it.
fn read<'a>(file: &File, buffer: &'a mut [u8], settings: &SensorSettings) -> Result<(f64, usize), Failure<'a>> {
    let (mut filled, mut ended) = (0, false);
    // The kernel may hand out a file in pieces; the piece that decides is the last one asked for.
    while !ended && filled < buffer.len() && find(&buffer[..filled], false, settings).is_none() {
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => ended = true,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Read(error)),
        }
    }
    let data = &buffer[..filled];
    match find(data, ended, settings) {
        Some(Place::Field(field)) => match number(field) {
            Some(number) => Ok((number, filled)),
            None => Err(Failure::NotANumber(field)),
        },
        Some(Place::NoLine) => Err(Failure::NoLine(lines(data).count())),
        Some(Place::NoField(line)) => Err(Failure::NoField(line)),
        None => Err(Failure::TooFar),
    }
}

enum Place<'a> {
    Field(&'a [u8]),
    NoLine,
    NoField(&'a [u8]),
}

/// Finds the field in what has been read; `None` while what follows could still change the answer.
fn find<'a>(data: &'a [u8], ended: bool, settings: &SensorSettings) -> Option<Place<'a>> {
    let found = match &settings.line {
        Line::Number(number) => lines(data).nth(number - 1).map(|line| (line, line)),
        Line::Text(text) => lines(data).find_map(|line| Some((line, after(line, text.trim_start().as_bytes())?))),
    };
    let Some((line, fields)) = found else {
        return ended.then_some(Place::NoLine);
    };
    // Each piece still has the separator that ended it, if one did.
    let pieces = fields.split_inclusive(|&byte| separates(byte));
    match pieces.filter(|piece| !separates(piece[0])).nth(settings.field - 1) {
        Some(piece) => match piece.split_last() {
            Some((&last, field)) if separates(last) => Some(Place::Field(field)),
            _ => ended.then_some(Place::Field(piece)),
        },
        None => (ended || line.ends_with(b"\n")).then_some(Place::NoField(line)),
    }
}

fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split_inclusive(|&byte| byte == b'\n')
}

/// What follows `text` in a line that starts with it.
fn after<'a>(line: &'a [u8], text: &[u8]) -> Option<&'a [u8]> {
    let rest = line.trim_ascii_start().strip_prefix(text)?;
    let ends_a_field = |byte: Option<&u8>| byte.is_none_or(|&byte| separates(byte));
    (ends_a_field(rest.first()) || ends_a_field(text.last())).then_some(rest)
}

fn separates(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b':'
}

#[expect(clippy::cast_precision_loss, reason = "values are floating-point numbers; registers rarely pass 2^53")]
fn number(field: &[u8]) -> Option<f64> {
    let text = str::from_utf8(field).ok()?;
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1.0, unsigned),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if unsigned.starts_with(['+', '-']) {
        return None;
    }
    let size = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(digits) if digits.starts_with('+') => return None,
        Some(digits) => u64::from_str_radix(digits, 16).ok()? as f64,
        None => unsigned.parse::<f64>().ok()?,
    };
    size.is_finite().then_some(sign * size)
}

const LARGEST: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Instant, Span};
    use std::fs;
    use std::path::Path;

    fn at(path: impl AsRef<Path>, line: Line, field: usize) -> SensorSettings {
        SensorSettings { path: path.as_ref().into(), line, field, ..SensorSettings::default() }
    }

    fn text(text: &str) -> Line {
        Line::Text(text.into())
    }

    fn tick(sensor: &mut Sensor) -> Result<f64, TickError> {
        let zero = Span::ZERO;
        let (release, started) = (Instant::ZERO, Instant::ZERO);
        let tick = Tick { n: 0, release, started, lateness: zero, skipped: 0, credit: zero, period: zero };
        let mut values = [f64::NAN];
        sensor.tick(&tick, &mut values).map(|()| values[0])
    }

    fn file(content: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        file
    }

    fn reads(content: &str, line: Line, field: usize) -> f64 {
        let file = file(content);
        tick(&mut Sensor::open(at(&file, line, field)).unwrap()).unwrap()
    }

    fn refused(content: &str, line: Line, field: usize) -> (&'static str, String) {
        let file = file(content);
        let error = Sensor::open(at(&file, line, field)).unwrap_err();
        (error.key, error.message.replace(&file.path().display().to_string(), "FILE"))
    }

    const STAT: &str = "cpu10 7 8\ncpu1 1 2 3\n  eth0: 44 55\nMemAvailable:   1234 kB\n\nhex 0x1f -0X10 +2.5e3";

    #[test]
    fn lines_and_fields_are_found() {
        for (line, field, wanted) in [
            (Line::Number(1), 2, 7.0),
            (Line::Number(2), 4, 3.0),
            (Line::Number(3), 2, 44.0),
            (Line::Number(6), 4, 2_500.0), // no line feed at the end
            (text("cpu1"), 1, 1.0),
            (text("cpu1 1"), 2, 3.0),
            (text("eth0"), 2, 55.0),
            (text("MemAvailable:"), 1, 1_234.0),
            (text("MemAvailable"), 1, 1_234.0),
            (text("hex "), 1, 31.0),
            (text("hex"), 2, -16.0),
        ] {
            assert_eq!(reads(STAT, line.clone(), field), wanted, "{line:?} {field}");
        }
    }

    #[test]
    fn numbers() {
        for (field, wanted) in [
            ("42", Some(42.0)),
            ("-4.2e1", Some(-42.0)),
            ("0xffffffff", Some(4_294_967_295.0)),
            ("0x", None),
            ("0x+1", None),
            ("--1", None),
            ("+-1", None),
            ("nan", None),
            ("-inf", None),
            ("1e999", None),
            ("45%", None),
            ("", None),
        ] {
            assert_eq!(number(field.as_bytes()), wanted, "{field}");
        }
        assert_eq!(number(&[0xff]), None);
    }

    #[test]
    fn what_is_found_instead_is_said() {
        let said = |key, message: &str| (key, String::from(message));
        assert_eq!(
            refused(STAT, text("MemAvailable:"), 2),
            said("field", r#"field 2 in the line that starts with "MemAvailable:" of FILE is not a number: "kB""#)
        );
        assert_eq!(refused(STAT, Line::Number(1), 4), said("field", r#"line 1 of FILE has no field 4: "cpu10 7 8""#));
        assert_eq!(refused(STAT, Line::Number(7), 1), said("line", "FILE does not have line 7; it has 6 lines"));
        assert_eq!(refused(STAT, text("MemAv"), 1).0, "line");
        assert_eq!(refused("", Line::Number(1), 1), said("line", "FILE does not have line 1; it has 0 lines"));
        assert_eq!(refused(STAT, Line::Number(0), 1).0, "line");
        assert_eq!(refused(STAT, text(" "), 1).0, "line");
        assert_eq!(refused(STAT, Line::Number(1), 0).0, "field");
        assert_eq!(refused(&"x ".repeat(LARGEST), Line::Number(2), 1).0, "line");
        let long = refused(&"y".repeat(LARGEST - 1), Line::Number(1), 1);
        assert!(long.0 == "field" && long.1.len() < 150, "{long:?}");
    }

    #[test]
    fn paths_and_settings_that_cannot_be() {
        let key = |settings| Sensor::open(settings).unwrap_err().key;
        for path in ["", "/nonexistent/file", "/proc", "/dev/null"] {
            let wanted = if path == "/dev/null" { "line" } else { "path" };
            assert_eq!(key(at(path, Line::Number(1), 1)), wanted, "{path}");
        }
        let good = at("/proc/uptime", Line::Number(1), 1);
        assert_eq!(key(SensorSettings { scale: 0.0, ..good.clone() }), "scale");
        assert_eq!(key(SensorSettings { scale: f64::NAN, ..good.clone() }), "scale");
        assert_eq!(key(SensorSettings { offset: f64::INFINITY, ..good.clone() }), "offset");
        assert_eq!(key(SensorSettings { name: String::new(), ..good }), "name");
    }

    #[test]
    fn values_are_scaled_and_follow_the_file() {
        let file = file("21500\n");
        let settings = SensorSettings {
            scale: 0.001,
            offset: 273.15,
            name: "temp".into(),
            unit: "K".into(),
            ..at(&file, Line::Number(1), 1)
        };
        let mut sensor = Sensor::open(settings).unwrap();
        assert_eq!(sensor.columns(), [Column { name: "temp".into(), unit: "K".into() }]);
        assert!((tick(&mut sensor).unwrap() - 294.65).abs() < 1e-9);
        fs::write(&file, "-3000\n").unwrap();
        assert!((tick(&mut sensor).unwrap() - 270.15).abs() < 1e-9);

        for (content, wanted) in
            [("", "no longer has the line"), (" \n", "no longer has the field"), ("off\n", "not a number")]
        {
            fs::write(&file, content).unwrap();
            let error = tick(&mut sensor).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        fs::write(&file, [b' '; 3 * 4096]).unwrap();
        assert!(tick(&mut sensor).unwrap_err().to_string().contains("has grown"));
    }

    #[test]
    fn the_end_of_a_large_file_can_be_read() {
        let content = "filler 0\n".repeat(7_000) + "last 7\n";
        assert_eq!(reads(&content, text("last"), 1), 7.0);
    }

    #[test]
    fn real_files() {
        for (path, line, field) in [
            ("/proc/uptime", Line::Number(1), 1),
            ("/proc/loadavg", Line::Number(1), 3),
            ("/proc/meminfo", text("MemAvailable:"), 1),
            ("/proc/stat", text("cpu0"), 4),
            ("/proc/stat", text("processes"), 1),
            ("/proc/self/status", text("VmRSS:"), 1),
        ] {
            let mut sensor = Sensor::open(at(path, line, field)).unwrap();
            assert!(tick(&mut sensor).unwrap() >= 0.0, "{path}");
        }
        let mut uptime = Sensor::open(at("/proc/uptime", Line::Number(1), 1)).unwrap();
        let (one, two) = (tick(&mut uptime).unwrap(), tick(&mut uptime).unwrap());
        assert!(0.0 < one && one <= two);
    }
}
