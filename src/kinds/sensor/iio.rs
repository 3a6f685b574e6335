//! Channels of an IIO device: names, scales, offsets and units according to the kernel's `Documentation/ABI/testing/sysfs-bus-iio`. Reads
//! small files of `/sys`; not for a hot thread.

use super::files::may_pass;
use super::number::Number;
use crate::kinds::device::file_names;
use crate::sys::clock::pause;
use crate::time::Span;
use std::fs;
use std::io;
use std::path::Path;

/// Channel types, the factor for their scaled values, and the resulting unit.
const UNITS: &[(&str, f64, &str)] = &[
    ("accel gravity", 1.0, "m/s²"),
    ("anglvel", 1.0, "rad/s"),
    ("angl deltaangl phase", 1.0, "rad"),
    ("incli", 1.0, "°"),
    ("magn", 1.0, "G"),
    ("temp", 0.001, "°C"),
    ("voltage altvoltage", 0.001, "V"),
    ("current", 0.001, "A"),
    ("power", 0.001, "W"),
    ("energy", 1.0, "J"),
    ("pressure", 1.0, "kPa"),
    ("humidityrelative", 0.001, "%"),
    ("concentration", 1.0, "%"),
    ("illuminance", 1.0, "lx"),
    ("colortemp", 1.0, "K"),
    ("distance", 1.0, "m"),
    ("velocity deltavelocity", 1.0, "m/s"),
    ("capacitance", 1.0, "nF"),
    ("resistance", 1.0, "Ω"),
    ("electricalconductivity", 1.0, "S/m"),
    ("massconcentration", 1.0, "µg/m³"),
];

/// The factor for the scaled value of a channel (`in_accel_x`), and the resulting unit.
pub(super) fn unit(channel: &str) -> (f64, &'static str) {
    let is_it = |known: &&(&str, f64, &str)| known.0.split(' ').any(|one| one == kind(channel));
    UNITS.iter().find(is_it).map_or((1.0, ""), |(_, factor, unit)| (*factor, *unit))
}

/// `accel` of `in_accel_x`.
fn kind(channel: &str) -> &str {
    let rest = channel.strip_prefix("in_").or_else(|| channel.strip_prefix("out_")).unwrap_or(channel);
    rest.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or(rest)
}

/// Name of the value of a channel or a file: `accel_x` for `in_accel_x_raw`.
pub(super) fn value_name(file: &str) -> &str {
    channel(file).strip_prefix("in_").unwrap_or(channel(file))
}

/// Names of the `count` values of a channel: for a quaternion `_x`, `_y`, `_z` and `_w`, in the order of the ABI; otherwise `_0`, `_1` and
/// so on.
pub(super) fn component_names(name: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |index| match QUATERNION.get(index) {
        _ if count == 1 => name.to_owned(),
        Some(axis) if is_quaternion(name) => format!("{name}_{axis}"),
        _ => format!("{name}_{index}"),
    })
}

const QUATERNION: [&str; 4] = ["x", "y", "z", "w"];

fn is_quaternion(name: &str) -> bool {
    name.ends_with("rot_quaternion")
}

/// The number of values that a channel has, judged by its name.
pub(super) fn usual_count(channel: &str) -> usize {
    if is_quaternion(channel) { QUATERNION.len() } else { 1 }
}

/// `in_accel_x` for `in_accel_x_raw`.
pub(in crate::kinds) fn channel(file: &str) -> &str {
    file.strip_suffix("_raw").or_else(|| file.strip_suffix("_input")).unwrap_or(file)
}

/// Whether the channel's offset and scale must still be applied to a file's number.
pub(in crate::kinds) fn is_raw(file: &str) -> bool {
    file.ends_with("_raw")
}

/// Whether a file holds the value of a channel, either raw or scaled by the driver.
pub(super) fn is_value(file: &str) -> bool {
    file.starts_with("in_") && channel(file) != file
}

/// All files with a channel's value, sorted, with the names of the values. The raw file wins if a channel has both.
pub(super) fn inputs(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let mut files = file_names(folder)?;
    files.retain(|file| is_value(file));
    let raw: Vec<_> = files.iter().filter(|file| is_raw(file)).map(|file| channel(file).to_owned()).collect();
    files.retain(|file| is_raw(file) || !raw.iter().any(|raw| raw == channel(file)));
    let named = |file: String| (file.clone(), value_name(&file).to_owned());
    Ok(files.into_iter().map(named).collect())
}

/// Scale and offset of a channel in hertzd's unit: `raw * scale + offset`. The device's files define `(raw + offset) * scale`. Each of the
/// two may be shared by the channel's type or by all channels; missing files mean offset 0 and scale 1.
pub(in crate::kinds) fn conversion(folder: &Path, channel: &str) -> Result<(f64, f64), String> {
    let (factor, _) = unit(channel);
    let scale = attribute(folder, channel, "scale")?.unwrap_or(1.0);
    let offset = attribute(folder, channel, "offset")?.unwrap_or(0.0);
    Ok((scale * factor, offset * scale * factor))
}

/// A number from the channel's own file, or from a shared one.
fn attribute(folder: &Path, channel: &str, what: &str) -> Result<Option<f64>, String> {
    for file in names(channel, what) {
        let path = folder.join(file);
        match patiently(|| fs::read(&path)) {
            Ok(bytes) => {
                let read = Number::parse(bytes.trim_ascii()).map(Number::value);
                return read.map(Some).ok_or_else(|| format!("{} holds no number", path.display()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        }
    }
    Ok(None)
}

/// Reads once more after an error that may be over then, such as of a bus: without its scale, a channel cannot be used at all.
fn patiently<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match read() {
            Err(error) if may_pass(&error) => pause(BETWEEN),
            done => return done,
        }
    }
    read()
}

const ATTEMPTS: u32 = 3;
const BETWEEN: Span = Span::from_millis(20);

/// The files that may hold an attribute of a channel: its own first, then shared ones.
pub(super) fn names(channel: &str, what: &str) -> Vec<String> {
    let (kind, way) = (kind(channel), if channel.starts_with("out_") { "out" } else { "in" });
    let mut names = vec![format!("{channel}_{what}")];
    if channel.contains('-') {
        names.push(format!("{way}_{kind}-{kind}_{what}"));
    }
    names.extend([format!("{way}_{kind}_{what}"), format!("{way}_{what}"), what.to_owned()]);
    names
}

/// The message for an error of a device's file, with the remedy.
pub(super) fn file_error(doing: &str, path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; hertzd's user needs permission: the package's udev rule /usr/lib/udev/rules.d/60-hertzd.rules gives it to \
             the group hertzd"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; the unit must let hertzd write to it: ReadWritePaths=/sys/devices",
        _ => "",
    };
    format!("cannot {doing} {}: {error}{remedy}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_names_and_units() {
        for (file, name, wanted) in [
            ("in_accel_x_raw", "accel_x", (1.0, "m/s²")),
            ("in_anglvel_z_raw", "anglvel_z", (1.0, "rad/s")),
            ("in_voltage0_raw", "voltage0", (0.001, "V")),
            ("in_voltage1-voltage2_raw", "voltage1-voltage2", (0.001, "V")),
            ("in_temp_raw", "temp", (0.001, "°C")),
            ("in_humidityrelative_input", "humidityrelative", (0.001, "%")),
            ("in_activity_walking_input", "activity_walking", (1.0, "")),
        ] {
            assert!(is_value(file));
            assert_eq!((value_name(file), unit(channel(file))), (name, wanted), "{file}");
        }
        assert!(!is_value("in_accel_scale") && !is_value("out_voltage0_raw"));
    }

    #[test]
    fn scale_and_offset_may_be_shared() {
        let folder = tempfile::tempdir().unwrap();
        for (file, content) in [
            ("in_accel_scale", "0.01\n"),
            ("in_accel_x_scale", "0.02\n"),
            ("in_accel_y_offset", "-5\n"),
            ("in_voltage-voltage_scale", "3"),
            ("in_voltage_scale", "2"),
            ("scale", "7"),
            ("in_temp_offset", "warm"),
            ("out_voltage_scale", "0.5"),
            ("out_voltage0_offset", "-2048"),
        ] {
            fs::write(folder.path().join(file), content).unwrap();
        }
        let of = |channel| conversion(folder.path(), channel);
        assert_eq!(of("in_accel_x"), Ok((0.02, 0.0)));
        assert_eq!(of("in_accel_y"), Ok((0.01, -0.05)));
        assert_eq!(of("in_voltage1-voltage2"), Ok((0.003, 0.0)));
        assert_eq!(of("in_voltage1"), Ok((0.002, 0.0)));
        assert_eq!(of("in_magn_x"), Ok((7.0, 0.0)));
        assert_eq!(of("out_voltage0"), Ok((0.0005, -1.024)));
        assert!(of("in_temp").unwrap_err().ends_with("in_temp_offset holds no number"));
    }

    #[test]
    fn an_error_that_may_pass_is_given_another_chance() {
        let errors = |errno, count: u32| {
            let mut reads = 0;
            let done = patiently(|| {
                reads += 1;
                if reads > count { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
            });
            (done.is_ok(), reads)
        };
        assert_eq!(errors(libc::EREMOTEIO, 2), (true, 3));
        assert_eq!(errors(libc::EREMOTEIO, 9), (false, 3));
        assert_eq!(errors(libc::EACCES, 9), (false, 1));
    }

    #[test]
    fn every_channel_is_listed_once() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["in_temp_raw", "in_temp_input", "in_pressure_input", "in_temp_scale", "name", "out_voltage0_raw"] {
            fs::write(folder.path().join(file), "1").unwrap();
        }
        let files: Vec<_> = inputs(folder.path()).unwrap().into_iter().map(|(file, _)| file).collect();
        assert_eq!(files, ["in_pressure_input", "in_temp_raw"]);
    }
}
