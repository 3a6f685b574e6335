//! What is printed for a made-up machine is a configuration.

use super::*;
use crate::config::{Config, Facts};
use std::fs;

/// Files and their content, below a folder of their own.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

fn full() -> tempfile::TempDir {
    machine(&[
        ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
        ("sys/class/hwmon/hwmon0/temp1_input", "42000\n"),
        ("sys/class/hwmon/hwmon0/temp1_label", "Package \u{1b}[31m\n"),
        ("sys/class/hwmon/hwmon1/name", "lm75\n"),
        ("sys/class/hwmon/hwmon1/temp1_input", "25500\n"),
        ("sys/class/hwmon/hwmon10/name", "lm75\n"),
        ("sys/class/hwmon/hwmon10/temp1_input", "24000\n"),
        ("sys/class/hwmon/hwmon2/name", "nothing to read\n"),
        ("sys/bus/iio/devices/iio:device0/name", "mpu6050\n"),
        ("sys/bus/iio/devices/iio:device0/in_accel_x_raw", "1\n"),
        ("sys/bus/iio/devices/iio:device0/scan_elements/in_accel_x_en", "0\n"),
        ("sys/bus/iio/devices/trigger0/name", "tick\n"),
        ("dev/iio:device0", ""),
        ("sys/bus/i2c/devices/i2c-0/name", "SMBus stub driver\n"),
        ("sys/bus/i2c/devices/0-0048/name", "lm75\n"),
        ("sys/bus/i2c/devices/0-0048/driver/uevent", ""),
        ("sys/bus/i2c/devices/i2c-1/name", "DDC \"1\" \u{7f}\n"),
        ("dev/i2c-0", ""),
        ("sys/bus/gpio/devices/gpiochip0/dev", "254:0\n"),
        ("dev/gpiochip0", ""),
        (
            "proc/asound/pcm",
            "00-00: ALC257 Analog : ALC257 Analog : playback 1 : capture 1\n00-03: HDMI 0 : HDMI 0 : playback 1\n01-01: Loopback PCM : Loopback PCM : playback 8 : capture 8\n",
        ),
        ("proc/asound/card1/id", "Loopback\n"),
        ("sys/class/video4linux/video0/name", "vivid-000-vid-cap\n"),
        ("dev/video0", ""),
    ])
}

fn printed(root: &Path, kinds: &Kinds) -> (String, Vec<Offer>) {
    let offers = find(&Places::under(root), kinds);
    let text = as_text(&offers).replace(root.to_str().unwrap(), "");
    (text, offers)
}

fn parse(text: &str) -> Config {
    let facts = Facts { online_cpus: vec![0], cpu_set_size: 1024 };
    Config::parse(text, "devices.toml", &Kinds::builtin(), &facts).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The text without the # before what is no prose.
fn uncommented(text: &str) -> String {
    let bare = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(bare).collect()
}

#[test]
fn what_is_printed_is_a_configuration() {
    let root = full();
    let kinds = Kinds::builtin();
    let (text, offers) = printed(root.path(), &kinds);
    let classes: Vec<_> = offers.iter().map(|offer| offer.class).collect();
    let wanted = ["hwmon", "hwmon", "hwmon", "iio", "i2c", "i2c", "gpio", "alsa", "alsa", "v4l2"];
    assert_eq!(classes, wanted, "{text}");
    let names: Vec<_> = offers.iter().map(|offer| offer.task.as_str()).collect();
    let wanted = [
        "coretemp",
        "lm75",
        "lm75-2",
        "mpu6050",
        "i2c-0",
        "i2c-1",
        "gpiochip0",
        "0-0",
        "loopback-1",
        "vivid-000-vid-cap",
    ];
    assert_eq!(names, wanted);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");

    // As it is: what needs nothing first.
    let ready: Vec<_> = offers.iter().filter(|offer| offer.needs.is_empty()).map(|offer| &offer.task).collect();
    let config = parse(&text);
    assert_eq!(config.tasks.iter().map(|task| &task.name).collect::<Vec<_>>(), ready);
    assert!(ready.len() >= 4, "{text}");

    // And each section by itself, as far as this build has its kind.
    let mut parsed = 0;
    for offer in offers.iter().filter(|offer| unfit(offer, &kinds).is_none()) {
        let config = parse(&uncommented(&offer.to_string()));
        assert_eq!((config.tasks.len(), config.tasks[0].name.as_str()), (1, offer.task.as_str()));
        parsed += 1;
    }
    let expected = offers.iter().filter(|offer| kinds.get(offer.kind).is_some()).count();
    assert_eq!(parsed, expected, "a kind of this build does not know a key that is printed:\n{text}");
}

#[test]
fn what_is_needed_is_said() {
    let root = full();
    let (text, offers) = printed(root.path(), &Kinds::builtin());
    for line in [
        "# hwmon: coretemp\n#   temp1_input (Package ?[31m): now 42000\n",
        "device = \"hwmon10\"\n",
        "# iio: mpu6050, /dev/iio:device0\n#   polled: in_accel_x_raw\n#   buffered: in_accel_x\n#   triggers: tick\n",
        "#   0x48: lm75, which a driver of the kernel has: read it as a sensor\n",
        "# Needed: the address and registers of a chip, from its data sheet\n#[task.i2c-0]\n",
        "#bus = \"SMBus stub driver\"\n",
        "# Needed: /dev/i2c-1: load the module i2c-dev (`modprobe i2c-dev`)\n",
        "#bus = \"DDC \\\"1\\\" \\u007f\"\n",
        "# Needed: a choice of lines: each that is asked for becomes an input\n",
        "# alsa: Loopback, Loopback PCM, /dev/snd/pcmC1D1c\n",
    ] {
        assert!(text.contains(line), "{line}is not in\n{text}");
    }
    let empty = Kinds::empty().leaving_out("audio", "build it so");
    let (text, _) = printed(root.path(), &empty);
    assert!(
        text.contains("# Needed: this build was made without the kind \"audio\": build it so\n#[task.0-0]"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&as_json(&offers)).unwrap();
    assert_eq!(json["devices"].as_array().unwrap().len(), offers.len());
    assert_eq!(json["devices"][4]["name"], "SMBus stub driver");
    assert_eq!(json["devices"][4]["refused"], serde_json::Value::Null);
}

#[test]
fn a_machine_without_any_says_so() {
    let root = machine(&[]);
    let (text, _) = printed(root.path(), &Kinds::builtin());
    assert!(text.starts_with("# This machine offers nothing to hertzd"), "{text}");
    assert!(text.lines().all(|line| line.starts_with("# ")));
    let json: serde_json::Value = serde_json::from_str(&as_json(&[])).unwrap();
    assert_eq!(json["devices"], serde_json::json!([]));
}
