//! What is printed for a made-up machine is a valid configuration.

use super::*;
use crate::config::{Config, Facts};
use crate::sys::host::tests::tree as machine;

fn full() -> tempfile::TempDir {
    machine(&[
        ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
        ("sys/class/hwmon/hwmon0/temp1_input", "42000\n"),
        ("sys/class/hwmon/hwmon0/temp1_label", "Package \u{1b}[31m\n"),
        ("sys/class/hwmon/hwmon1/name", "lm75\n"),
        ("sys/class/hwmon/hwmon1/temp1_input", "25562\n"),
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
        ("sys/class/pwm/pwmchip0/npwm", "2\n"),
        ("sys/class/pwm/pwmchip0/pwm0/enable", "1\n"),
        ("sys/class/pwm/pwmchip0/pwm0/period", "40000\n"),
        ("sys/class/pwm/pwmchip0/pwm0/duty_cycle", "0\n"),
        ("sys/class/pwm/pwmchip0/pwm0/polarity", "inversed\n"),
        (
            "proc/asound/pcm",
            "00-00: ALC257 Analog : ALC257 Analog : playback 1 : capture 1\n00-03: HDMI 0 : HDMI 0 : playback 1\n01-01: Loopback PCM : Loopback PCM : playback 8 : capture 8\n",
        ),
        ("proc/asound/card1/id", "Loopback\n"),
        ("sys/class/video4linux/video0/name", "vivid-000-vid-cap\n"),
        ("dev/video0", ""),
    ])
}

fn printed(root: &Path, kinds: &Kinds) -> (String, Vec<FoundDevice>) {
    let devices = find(&Roots::under(root), kinds);
    let text = as_text(&devices).replace(root.to_str().unwrap(), "");
    (text, devices)
}

fn parse(text: &str) -> Config {
    let facts = Facts { online_cpus: vec![0], cpu_set_size: 1024 };
    Config::parse(text, "devices.toml", &Kinds::builtin(), &facts).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The text without the # in front of lines that are not prose.
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
    let (text, devices) = printed(root.path(), &kinds);
    let classes: Vec<_> = devices.iter().map(|device| device.class).collect();
    let wanted = ["hwmon", "hwmon", "hwmon", "iio", "i2c", "i2c", "gpio", "pwm", "alsa", "alsa", "v4l2"];
    assert_eq!(classes, wanted, "{text}");
    let names: Vec<_> = devices.iter().map(|device| device.task.as_str()).collect();
    let wanted = "coretemp lm75 lm75-2 mpu6050 i2c-0 i2c-1 gpiochip0 pwmchip0 0-0 loopback-1 vivid-000-vid-cap";
    assert_eq!(names.join(" "), wanted);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");

    // The text as it is: only devices that need nothing first.
    let ready: Vec<_> = devices.iter().filter(|device| device.needs.is_empty()).map(|device| &device.task).collect();
    let config = parse(&text);
    assert_eq!(config.tasks.iter().map(|task| &task.name).collect::<Vec<_>>(), ready);
    assert!(ready.len() >= 4, "{text}");

    // Then each section alone, if this build has its kind.
    let mut parsed = 0;
    for device in devices.iter().filter(|device| unfit(device, &kinds).is_none()) {
        let config = parse(&uncommented(&entry(device)));
        assert_eq!((config.tasks.len(), config.tasks[0].name.as_str()), (1, device.task.as_str()));
        parsed += 1;
    }
    let expected = devices.iter().filter(|device| kinds.get(device.kind).is_some()).count();
    assert_eq!(parsed, expected, "a kind of this build does not know a key that is printed:\n{text}");
}

#[test]
fn what_is_needed_is_said() {
    let root = full();
    let (text, devices) = printed(root.path(), &Kinds::builtin());
    for line in [
        "# hwmon: coretemp\n#   temp1_input (Package ?[31m): now 42000\n",
        "device = \"hwmon10\"\n",
        "device = \"hwmon1\"\n#stuck-after = \"60s\" # if its readings always move a little\n",
        "#stuck-after = \"10s\" # if its readings always move a little; with a buffer",
        "#type = \"s16be\"\n#stuck-after = \"10s\" # if its readings always move a little\n",
        "# iio: mpu6050, /dev/iio:device0\n#   polled: in_accel_x_raw\n#   buffered: in_accel_x\n#   triggers: tick\n",
        "#   0x48: lm75, used by a driver of the kernel: read it as a sensor\n",
        "# Needed: the address and registers of a chip, from its data sheet\n#[task.i2c-0]\n",
        "#bus = \"SMBus stub driver\"\n",
        "# Needed: /dev/i2c-1: load the module i2c-dev (`modprobe i2c-dev`)\n",
        "#bus = \"DDC \\\"1\\\" \\u007f\"\n",
        "# Needed: a choice of lines: each one in the section becomes an input\n",
        "# pwm: pwmchip0\n#   2 channels\n#   channel 0: exported, enabled, period 40.0 µs, polarity inversed\n# Needed: what it drives",
        "#channel = 1\n",
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
    let json: serde_json::Value = serde_json::from_str(&as_json(&devices)).unwrap();
    assert_eq!(json["devices"].as_array().unwrap().len(), devices.len());
    assert_eq!(json["devices"][4]["name"], "SMBus stub driver");
    assert_eq!(json["devices"][4]["refused"], serde_json::Value::Null);
}

/// If several devices share a name, the section uses something that identifies only one.
#[test]
fn names_that_several_devices_have_are_made_clear() {
    let root = machine(&[
        ("sys/bus/i2c/devices/i2c-0/name", "DDC\n"),
        ("sys/bus/i2c/devices/i2c-1/name", "DDC\n"),
        ("sys/bus/i2c/devices/i2c-2/name", "i2c-0\n"),
        ("sys/bus/iio/devices/iio:device0/name", "adc\n"),
        ("sys/bus/iio/devices/iio:device0/in_voltage0_raw", "1\n"),
        ("sys/bus/iio/devices/iio:device1/name", "other\n"),
        ("sys/bus/iio/devices/iio:device1/label", "adc\n"),
        ("sys/bus/iio/devices/iio:device1/in_voltage0_raw", "1\n"),
        ("sys/bus/iio/devices/iio:device2/name", "silent\n"),
        ("sys/class/video4linux/video0/name", "Webcam\n"),
        ("sys/class/video4linux/video1/name", "Webcam HD\n"),
        ("sys/bus/gpio/devices/gpiochip0/dev", "254:0\n"),
    ]);
    let (text, devices) = printed(root.path(), &Kinds::builtin());
    let keys = |name: &str| {
        let device = devices.iter().find(|device| device.task == name).unwrap_or_else(|| panic!("{name} in {text}"));
        let keys = device.keys.iter().map(|(key, value, _)| format!("{key} = {value}")).collect::<Vec<_>>().join("; ");
        keys.replace(root.path().to_str().unwrap(), "")
    };
    for (task, wanted) in [
        ("i2c-0", "bus = 0;"),
        ("i2c-1", "bus = 1;"),
        ("i2c-2", "bus = 2;"),
        ("adc", "iio = \"adc\"; device = \"iio:device0\""),
        ("adc-2", "iio = \"adc\"; device = \"iio:device1\""),
        ("webcam", "device = \"/dev/video0\";"),
        ("webcam-hd", "device = \"Webcam HD\";"),
        ("gpiochip0", "chip = \"gpiochip0\";"),
    ] {
        let keys = keys(task);
        // All made-up devices lie in one folder, which therefore counts as their parent device.
        assert!(keys.starts_with(wanted), "{task}: {keys}");
    }
    assert!(text.contains("# Needed: a channel that can be read; none can now\n#[task.silent]"), "{text}");
}

#[test]
fn a_machine_without_any_says_so() {
    let root = machine(&[]);
    let (text, _) = printed(root.path(), &Kinds::builtin());
    assert!(text.starts_with("# This machine has no device that hertzd can use"), "{text}");
    assert!(text.lines().all(|line| line.starts_with("# ")));
    let json: serde_json::Value = serde_json::from_str(&as_json(&[])).unwrap();
    assert_eq!(json["devices"], serde_json::json!([]));
}
