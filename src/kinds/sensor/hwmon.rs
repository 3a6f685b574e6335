//! The meaning of numbers in hwmon files, by file name, according to the kernel's `Documentation/hwmon/sysfs-interface.rst` and
//! `Documentation/ABI/testing/sysfs-class-hwmon`. Reads small files of `/sys`; not for a hot thread.

use crate::kinds::device::{file_names, first_line};
use crate::task::TickError;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Kind and attributes of a file, the factor for its number, and the resulting unit. N is any number. Files not listed hold a flag, a
/// choice or a count: `temp1_alarm`, `temp1_type`, `fan1_div`.
const ATTRIBUTES: &[(&str, &str, f64, &str)] = &[
    ("inN", "input average lowest highest min max lcrit crit rated_min rated_max", 0.001, "V"),
    ("cpuN", "vid", 0.001, "V"),
    (
        "tempN",
        "input average lowest highest min max lcrit crit emergency min_hyst max_hyst lcrit_hyst crit_hyst \
         emergency_hyst offset rated_min rated_max auto_pointN_temp auto_pointN_temp_hyst",
        0.001,
        "°C",
    ),
    ("tempN", "auto_pointN_pwm", FULL_SPEED, "%"),
    ("pwmN", "", FULL_SPEED, "%"),
    ("pwmN", "auto_pointN_pwm", FULL_SPEED, "%"),
    ("pwmN", "auto_pointN_temp auto_pointN_temp_hyst", 0.001, "°C"),
    ("pwmN", "freq", 1.0, "Hz"),
    ("fanN", "input min max target", 1.0, "RPM"),
    ("currN", "input average lowest highest min max lcrit crit rated_min rated_max", 0.001, "A"),
    (
        "powerN",
        "input input_lowest input_highest average average_lowest average_highest average_min average_max min max \
         lcrit crit cap cap_hyst cap_min cap_max rated_min rated_max",
        1e-6,
        "W",
    ),
    ("powerN", "average_interval average_interval_min average_interval_max", 0.001, "s"),
    ("powerN", "accuracy", 1.0, "%"),
    ("energyN", "input", 1e-6, "J"),
    ("humidityN", "input min max min_hyst max_hyst rated_min rated_max", 0.001, "%"),
    ("freqN", "input", 1.0, "Hz"),
    ("update", "interval", 0.001, "s"),
];

/// `pwmN` ranges from 0 to 255.
const FULL_SPEED: f64 = 100.0 / 255.0;

/// The factor for the number in a file of this name, and the resulting unit.
pub(super) fn scale_and_unit(file: &str) -> (f64, &'static str) {
    let mut name = String::new();
    for character in file.chars().map(|c| if c.is_ascii_digit() { 'N' } else { c }) {
        if character != 'N' || !name.ends_with('N') {
            name.push(character);
        }
    }
    let (kind, attribute) = name.split_once('_').unwrap_or((&name, ""));
    let is_it = |known: &&(&str, &str, f64, &str)| known.0 == kind && known.1.split(' ').any(|one| one == attribute);
    ATTRIBUTES.iter().find(is_it).map_or((1.0, ""), |(_, _, scale, unit)| (*scale, *unit))
}

/// The file in which the chip reports that the value in this file cannot be trusted: `temp1_fault` for `temp1_input`. Not every chip has
/// one. `fan1_fault` is not used: it says that the fan has failed, and reading it clears the fault on some chips.
pub(super) fn fault_of(path: &Path) -> Option<PathBuf> {
    let channel = path.file_name()?.to_str()?.strip_suffix("_input").filter(|channel| channel.starts_with("temp"))?;
    Some(path.with_file_name(format!("{channel}_fault")))
}

macro_rules! broken {
    ($($channel:literal)*) => {
        &[$((
            concat!($channel, "_fault"),
            TickError::new(concat!(
                "the chip reports that a sensor is broken or not connected (", $channel, "_fault is not 0), so ", $channel,
                "_input is not used: look at the sensor and its cable",
            )),
        )),*]
    };
}

/// The errors for these files, prepared in advance so that a tick allocates nothing.
const BROKEN: &[(&str, TickError)] = broken!(
    "temp1" "temp2" "temp3" "temp4" "temp5" "temp6" "temp7" "temp8" "temp9" "temp10" "temp11" "temp12"
);
const ONE_IS_BROKEN: TickError = TickError::new(
    "the chip reports that a sensor is broken or not connected (the file _fault beside its _input is not 0), so its value is \
     not used: look at the sensor and its cable",
);

/// The error of a tick that finds a number other than 0 in this file.
pub(super) fn broken(fault: &Path) -> TickError {
    let known = BROKEN.iter().find(|(file, _)| fault.file_name().is_some_and(|name| name == *file));
    known.map_or(ONE_IS_BROKEN, |(_, error)| *error)
}

/// The default name of a value from a file of this name: `temp1` for `temp1_input`.
pub(super) fn stem(file: &str) -> &str {
    file.strip_suffix("_input").unwrap_or(file)
}

/// The channel of a file with a measured value: `power1` for `power1_input` and `power1_average`.
pub(super) fn channel(file: &str) -> &str {
    file.strip_suffix("_average").unwrap_or_else(|| stem(file))
}

/// All files with a measured value, ordered by kind and number, each with a name: `power1_input`, or `power1_average` of a chip that only
/// averages. The name is the label, unless another channel has the same label or that name; otherwise it is the channel's.
pub(super) fn inputs(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let mut files = file_names(folder)?;
    let measured: BTreeSet<_> =
        files.iter().filter_map(|file| file.strip_suffix("_input")).map(str::to_owned).collect();
    files.retain(|file| {
        file.ends_with("_input") || file.strip_suffix("_average").is_some_and(|channel| !measured.contains(channel))
    });
    files.sort_by_key(|file| {
        let (head, digits) = file.split_at(file.find(|c: char| c.is_ascii_digit()).unwrap_or(file.len()));
        let number = digits.split('_').next().and_then(|digits| digits.parse::<u64>().ok());
        (head.to_owned(), number, digits.to_owned())
    });
    let label = |file: &String| first_line(&folder.join(format!("{}_label", channel(file))));
    let labels: Vec<_> = files.iter().map(label).collect();
    let is_taken = |label: &String, index: usize| {
        let mut others = files.iter().zip(&labels).enumerate().filter(|(other, _)| *other != index);
        others.any(|(_, (file, other))| channel(file) == label || other.as_ref() == Some(label))
    };
    let name = |(index, file): (usize, &String)| {
        let label = labels[index].clone().filter(|label| !is_taken(label, index));
        (file.clone(), label.unwrap_or_else(|| channel(file).to_owned()))
    };
    Ok(files.iter().enumerate().map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_say_scale_and_unit() {
        for (files, scale, unit) in [
            ("temp1_input temp12_crit temp1_max_hyst temp1_offset temp2_auto_point12_temp", 0.001, "°C"),
            ("pwm1_auto_point1_temp pwm1_auto_point1_temp_hyst", 0.001, "°C"),
            ("in0_input in10_lcrit in3_lowest in1_rated_max cpu0_vid", 0.001, "V"),
            ("curr1_max curr1_average", 0.001, "A"),
            ("power1_average power1_input_highest power1_cap power2_cap_hyst power1_average_max", 1e-6, "W"),
            ("power1_average_interval power1_average_interval_max update_interval", 0.001, "s"),
            ("power1_accuracy", 1.0, "%"),
            ("energy3_input", 1e-6, "J"),
            ("humidity1_input humidity1_rated_min", 0.001, "%"),
            ("fan2_input fan2_target fan1_min", 1.0, "RPM"),
            ("freq1_input pwm1_freq", 1.0, "Hz"),
            ("pwm1 pwm12 pwm1_auto_point3_pwm temp1_auto_point1_pwm", 100.0 / 255.0, "%"),
            ("temp1_alarm temp1_crit_alarm temp1_fault temp1_type temp1_beep fan1_div fan1_pulses", 1.0, ""),
            ("pwm1_enable pwm1_mode pwm1_auto_channels_temp intrusion0_alarm intrusion0_beep", 1.0, ""),
            ("alarms beep_enable beep_mask vrm samples in_samples in0_enable", 1.0, ""),
        ] {
            for file in files.split(' ') {
                assert_eq!(scale_and_unit(file), (scale, unit), "{file}");
            }
        }
        assert_eq!((stem("temp1_input"), stem("temp1_max")), ("temp1", "temp1_max"));
    }

    #[test]
    fn inputs_are_listed_with_their_labels() {
        let folder = tempfile::tempdir().unwrap();
        for (file, content) in [
            ("name", "x"),
            ("temp10_input", "1"),
            ("temp2_input", "1"),
            ("temp2_label", "Core 0\n"),
            ("temp3_input", "1"),
            ("temp3_label", "twin"),
            ("temp4_input", "1"),
            ("temp4_label", "twin"),
            ("temp5_input", "1"),
            ("temp5_label", "temp2"),
            ("fan1_input", "1"),
            ("fan1_label", "fan1"),
            ("temp2_max", "1"),
            ("power1_average", "1"),
            ("power1_average_interval", "1"),
            ("power2_average", "1"),
            ("power2_input", "1"),
            ("power3_average", "1"),
            ("power3_label", "PPT"),
        ] {
            fs::write(folder.path().join(file), content).unwrap();
        }
        let inputs = inputs(folder.path()).unwrap();
        let files = ["fan1_input", "power1_average", "power2_input", "power3_average"].map(str::to_owned);
        let temps = [2, 3, 4, 5, 10].map(|number| format!("temp{number}_input"));
        let files = files.into_iter().chain(temps);
        let names =
            ["fan1", "power1", "power2", "PPT", "Core 0", "temp3", "temp4", "temp5", "temp10"].map(str::to_owned);
        assert!(inputs.iter().cloned().eq(files.zip(names)), "{inputs:?}");
    }
}
