//! What the names of hwmon's files say of their numbers, by the kernel's `Documentation/hwmon/sysfs-interface.rst`.

use super::find;
use std::fs;
use std::io;
use std::path::Path;

/// Prefix, what the number is multiplied by, the unit then.
const RULES: &[(&str, f64, &str)] = &[
    ("temp", 0.001, "°C"),
    ("in", 0.001, "V"),
    ("curr", 0.001, "A"),
    ("power", 1e-6, "W"),
    ("energy", 1e-6, "J"),
    ("humidity", 0.001, "%"),
    ("fan", 1.0, "RPM"),
    ("freq", 1.0, "Hz"),
];

/// Endings of files that hold a number of the unit; `temp1_type` or `temp1_alarm` do not.
const MEASURED: &[&str] = &[
    "input",
    "average",
    "lowest",
    "highest",
    "min",
    "max",
    "crit",
    "lcrit",
    "emergency",
    "target",
    "cap",
    "rated_min",
    "rated_max",
    "reset_history",
];

/// What the number in a file of this name is multiplied by, and the unit then.
pub(super) fn rule(file: &str) -> (f64, &'static str) {
    let parts = || {
        let (head, ending) = file.split_once('_')?;
        let prefix = head.trim_end_matches(|c: char| c.is_ascii_digit());
        MEASURED.contains(&ending).then(|| RULES.iter().find(|(known, ..)| *known == prefix))?
    };
    parts().map_or((1.0, ""), |(_, scale, unit)| (*scale, *unit))
}

/// What a value from a file of this name is called: `temp1` for `temp1_input`.
pub(super) fn stem(file: &str) -> &str {
    file.strip_suffix("_input").unwrap_or(file)
}

/// All files that hold a measured value, in the order of their kinds and numbers, each with its label or its stem.
pub(super) fn inputs(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with("_input") {
            files.push(name);
        }
    }
    files.sort_by_key(|file| {
        let (head, digits) = file.split_at(file.find(|c: char| c.is_ascii_digit()).unwrap_or(file.len()));
        let number = digits.split('_').next().and_then(|digits| digits.parse::<u64>().ok());
        (head.to_owned(), number, digits.to_owned())
    });
    let label = |file: &String| find::text(&folder.join(format!("{}_label", stem(file))));
    let labels: Vec<_> = files.iter().map(label).collect();
    let alone = |label: &String| labels.iter().flatten().filter(|other| *other == label).count() == 1;
    let names: Vec<_> = files
        .iter()
        .zip(&labels)
        .map(|(file, label)| label.clone().filter(alone).unwrap_or_else(|| stem(file).to_owned()))
        .collect();
    Ok(files.into_iter().zip(names).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_scale_and_unit() {
        for (file, wanted) in [
            ("temp1_input", (0.001, "°C")),
            ("temp12_crit", (0.001, "°C")),
            ("in0_input", (0.001, "V")),
            ("curr1_max", (0.001, "A")),
            ("power1_average", (1e-6, "W")),
            ("energy3_input", (1e-6, "J")),
            ("humidity1_input", (0.001, "%")),
            ("fan2_input", (1.0, "RPM")),
            ("freq1_input", (1.0, "Hz")),
            ("temp1_alarm", (1.0, "")),
            ("temp1_type", (1.0, "")),
            ("pwm1", (1.0, "")),
            ("intrusion0_alarm", (1.0, "")),
        ] {
            assert_eq!(rule(file), wanted, "{file}");
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
            ("fan1_input", "1"),
            ("temp2_max", "1"),
        ] {
            fs::write(folder.path().join(file), content).unwrap();
        }
        let inputs = inputs(folder.path()).unwrap();
        let pairs: Vec<_> = inputs.iter().map(|(file, name)| (file.as_str(), name.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("fan1_input", "fan1"),
                ("temp2_input", "Core 0"),
                ("temp3_input", "temp3"),
                ("temp4_input", "temp4"),
                ("temp10_input", "temp10")
            ]
        );
    }
}
