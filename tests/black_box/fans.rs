//! Fans, PWM channels and converters of the real program, in a tree of files in place of /sys/class, which needs root. They cover a fan
//! that its firmware takes back, a chip that accepts a value in one mode only or drops it in others (`tests/support/program/chip.c`), a fan
//! that is given back to its chip, and a channel whose polarity is changed.

use crate::program;
use crate::program::{HERTZD, Running, at_once, run_in};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A source that reads the input in `in`.
const SOURCE: &str = "\
[worker.main]
policy = \"other\"
[task.source]
kind = \"sensor\"
rate = 100
path = \"@HERE@/in\"
max-file-age = \"off\"
";

fn output(keys: &str) -> String {
    format!(
        "{SOURCE}[task.out]\nkind = \"output\"\nrate = 100\ninput = \"source.value\"\nmax-age = \"100h\"\nsafe-after = \"100h\"\n\
         recover-after = \"0s\"\n{keys}\n"
    )
}

const FAN: &str = "hwmon = \"nct6798\"\nfile = \"pwm2\"\nreadback = \"100ms\"\n";

const CHANNEL: &str = "/sys/class/pwm/pwmchip0/pwm0";

/// A command that starts others with the tree in place of /sys/class. `modes`: those that the chip accepts.
fn in_tree(folder: &Path, modes: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount --bind \"$0\" /sys/class && exec \"$@\""]).arg(folder.join("class"));
    command.env("RUNTIME_DIRECTORY", folder).env("CHIP_MODES", modes);
    if folder.join("chip.so").exists() {
        command.env("LD_PRELOAD", folder.join("chip.so"));
    }
    command
}

fn put(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// The number or the word that a file begins with.
fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// hertzd in a tree with a fan and a PWM channel; `None`: impossible on this machine. `mode`: the fan's; `modes`: those of its chip, if the
/// fan has a chip of its own.
fn start(config: &str, mode: &str, modes: Option<&str>) -> Option<Running> {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let converter = [("out_voltage0_raw", "4095"), ("out_voltage0_powerdown", "1")];
    let shared = [("out_voltage1_raw", "100"), ("out_voltage_powerdown", "1")];
    let converter = converter.into_iter().chain(shared);
    for (file, text) in [("name", "nct6798"), ("pwm2", "60"), ("pwm2_enable", mode)].into_iter().chain(converter) {
        put(at, &format!("class/hwmon/hwmon0/{file}"), text);
    }
    put(at, "class/pwm/pwmchip0/npwm", "2");
    for (channel, is_on) in [("pwm0", "1"), ("pwm1", "0")] {
        for (file, text) in [("period", "40000"), ("duty_cycle", "10000"), ("enable", is_on), ("polarity", "normal")] {
            put(at, &format!("class/pwm/pwmchip0/{channel}/{file}"), text);
        }
    }
    put(at, "in", "0.5");
    if !in_tree(at, "").arg("true").output().is_ok_and(|output| output.status.success()) {
        program::skip("nothing may be mounted here");
        return None;
    }
    if modes.is_some() {
        program::preload(at, "chip");
    }
    let mut command = in_tree(at, modes.unwrap_or_default());
    command.arg(HERTZD);
    Some(run_in(folder, command, config, &["--json"]))
}

fn snapshot(running: &Running) -> Value {
    program::snapshot(&running.folder().join("status.sock"))
}

fn reason(running: &Running) -> String {
    snapshot(running)["reason"].as_str().unwrap_or_default().to_owned()
}

fn hwmon(running: &Running, file: &str) -> String {
    read(running.folder(), &format!("class/hwmon/hwmon0/{file}"))
}

fn wait_until(running: &mut Running, file: &str, wanted: &str) {
    running.wait_for(&format!("{file} is {wanted}"), |running| read(running.folder(), file) == wanted);
}

/// Waits for enough readings that the last settings are surely compared, and asserts that none is wrong.
fn is_in_force(running: &mut Running) {
    let compared = |running: &Running| snapshot(running)["readbacks"][0]["compared"].as_u64().unwrap_or(0);
    running.wait_for("it was compared", |running| compared(running) > 0);
    let before = compared(running);
    running.wait_for("it was compared again", |running| compared(running) >= before + 40);
    let found = snapshot(running)["readbacks"][0].clone();
    assert!(found["state"] == "agrees" && found["differences"] == 0 && found["unreadable"] == 0, "{found}");
    assert!(!reason(running).contains("in place of"), "{}", reason(running));
}

fn stop(running: Running) -> program::Ended {
    running.signal("TERM");
    let ended = running.wait();
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", ended.describe());
    assert!(!ended.stderr.contains("could not be written"), "{}", ended.describe());
    ended
}

#[test]
fn a_fan_that_its_firmware_takes_back_is_not_in_force_or_set_again() {
    at_once([false, true], |always| {
        let write = if always { "write = \"always\"\n" } else { "" };
        let Some(mut running) = start(&output(&format!("{FAN}safe = 1.0\n{write}")), "1", None) else { return };
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2", "128");
        is_in_force(&mut running);
        put(running.folder(), "class/hwmon/hwmon0/pwm2_enable", "5");
        if always {
            wait_until(&mut running, "class/hwmon/hwmon0/pwm2_enable", "1");
        } else {
            running.wait_for("it is said", |running| {
                reason(running).contains("pwm2_enable reads 5 in place of 1, so") && hwmon(running, "pwm2") == "128"
            });
            assert_eq!(snapshot(&running)["well"], false);
            put(running.folder(), "class/hwmon/hwmon0/pwm2_enable", "1");
        }
        running.wait_for("that has an end", |running| !reason(running).contains("in place of"));
        stop(running);
    });
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_chip_that_takes_a_value_in_one_mode_only_is_taken_whatever_its_mode() {
    at_once(["0", "2", "5"], |mode| {
        let config = output(&format!("{FAN}safe = 1.0\n"));
        let Some(mut running) = start(&config, mode, Some("0 1 2 5")) else { return };
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2", "128");
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2_enable", "1");
        put(running.folder(), "in", "nothing");
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2", "255");
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2_enable", "0"); // as such a chip shows full speed
        is_in_force(&mut running);
        let ended = stop(running);
        assert_eq!(read(ended.folder.path(), "class/hwmon/hwmon0/pwm2_mode"), "1");
    });
}

const DROPS: &str = "drops 0 1 2";
const DROPPED: &str = "hwmon = \"nct6798\"\nfile = \"pwm2\"\nsafe = 1.0\n"; // without readback, which would detect it

/// Gives the fan back to its chip, at the chip's own speed.
fn take_back(folder: &Path) {
    for (file, text) in [("pwm2_mode", "2"), ("pwm2_enable", "2"), ("pwm2", "60")] {
        put(folder, &format!("class/hwmon/hwmon0/{file}"), text);
    }
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_value_that_its_chip_drops_is_written_again_once_the_fan_follows_it() {
    // Neither reaches a second value: an input that is never good, and one that never changes.
    let never_good =
        output(&format!("{DROPPED}write = \"always\"\n")).replace("/in\"", "/in\"\nvalid = { value = [2, 3] }");
    let constant = output(&format!("{DROPPED}start = \"keep\"\n"));
    at_once([(never_good, "255"), (constant, "128")], |(config, wanted)| {
        let Some(mut running) = start(&config, "2", Some(DROPS)) else { return };
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2", wanted);
        // A start is refused if it does not find the mode that it set.
        let ticks = |running: &Running| {
            let tasks = snapshot(running)["tasks"].as_array().cloned().unwrap_or_default();
            tasks.iter().any(|task| task["task"] == "out" && task["ran"].as_u64() > Some(0))
        };
        running.wait_for("its first tick", ticks);
        assert_eq!(hwmon(&running, "pwm2_mode"), "1");
        if wanted == "255" {
            take_back(running.folder());
            wait_until(&mut running, "class/hwmon/hwmon0/pwm2", wanted);
        }
        // By another process, and by a start without that output.
        running.signal("KILL");
        let ended = running.wait();
        let plan = fs::read(ended.folder.path().join("safe-plan.json")).unwrap();
        take_back(ended.folder.path());
        let safe = in_tree(ended.folder.path(), DROPS).args([HERTZD, "safe"]).output().unwrap();
        let said = String::from_utf8_lossy(&safe.stdout).matches("wrote 255").count();
        assert!(safe.status.success() && said == 1, "{safe:?}");
        assert_eq!(read(ended.folder.path(), "class/hwmon/hwmon0/pwm2"), "255");
        take_back(ended.folder.path());
        fs::write(ended.folder.path().join("safe-plan.json"), plan).unwrap();
        let mut command = in_tree(ended.folder.path(), DROPS);
        command.arg(HERTZD);
        let mut running = run_in(ended.folder, command, SOURCE, &["--json"]);
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2", "255");
        let ended = stop(running);
        assert!(!ended.stderr.contains("in place of"), "{}", ended.describe());
    });
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_safe_value_that_its_chip_drops_all_the_same_is_said_at_the_start() {
    let Some(mut running) = start(&output(DROPPED), "2", Some("deaf 1 2")) else { return };
    let said = "pwm2 reads 60 after its safe value, 255, was written and pwm2_enable was set to 1";
    running.wait_for("it is said", |running| running.stderr().contains(said));
    stop(running);
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_fan_whose_chip_refuses_the_safe_value_stays_its_chips() {
    let Some(running) = start(&output(DROPPED), "2", Some("refuses 0 1 2")) else { return };
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert!(ended.stderr.contains("pwm2: Invalid argument"), "{}", ended.describe());
    let found = ["pwm2", "pwm2_enable", "pwm2_mode"]
        .map(|file| read(ended.folder.path(), &format!("class/hwmon/hwmon0/{file}")));
    assert_eq!(found, ["60", "2", "2"]);
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_converter_that_refuses_the_safe_value_stays_powered_down() {
    let config = output("path = \"/sys/class/hwmon/hwmon0/out_voltage0_raw\"\nscale = 4095\nsafe = 0\n");
    let Some(running) = start(&config, "1", Some("refuses 0 1 2")) else { return };
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert!(ended.stderr.contains("out_voltage0_raw: Invalid argument"), "{}", ended.describe());
    let found = ["out_voltage0_raw", "out_voltage0_powerdown"]
        .map(|file| read(ended.folder.path(), &format!("class/hwmon/hwmon0/{file}")));
    assert_eq!(found, ["4095", "1"]);
}

/// The later write of the two would win.
#[test]
fn a_channel_and_the_file_that_powers_it_down_are_not_targets_of_two_outputs() {
    let channel = output("path = \"/sys/class/hwmon/hwmon0/out_voltage1_raw\"\nsafe = 0\n");
    let power = "[task.power]\nkind = \"output\"\nrate = 20\ninput = 0\npath = \"/sys/class/hwmon/hwmon0/out_voltage_powerdown\"\n\
                 safe = 1\n";
    let found = |at: &Path| {
        ["out_voltage1_raw", "out_voltage_powerdown"].map(|file| read(at, &format!("class/hwmon/hwmon0/{file}")))
    };
    let is_refused = |at: &Path, command: &str, config: &Path, by: &str| {
        let runtime = tempfile::tempdir().unwrap();
        let mut refused = in_tree(at, "");
        let refused = refused.env("RUNTIME_DIRECTORY", runtime.path()).arg(HERTZD).arg(command).arg(config).output();
        let (refused, whole) = (refused.as_ref().unwrap(), format!("{refused:?}"));
        let said = [&refused.stdout, &refused.stderr].map(|said| String::from_utf8_lossy(said)).concat();
        // A check succeeds if another hertzd has the target: a reload of that one could take it.
        let goes_well = command == "check" && by.contains("pid");
        assert_eq!(refused.status.success(), goes_well, "{command}: {whole}");
        assert!(said.contains("power") && said.contains(by), "{command}: {whole}");
    };
    let Some(running) = start(&(channel.clone() + power), "1", None) else { return };
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    let at = ended.folder.path();
    ["run", "check"].iter().for_each(|command| is_refused(at, command, &at.join("test.toml"), "in use by task out"));
    assert_eq!(found(at), ["100", "1"]);
    // By another hertzd.
    let Some(mut running) = start(&channel, "1", None) else { return };
    wait_until(&mut running, "class/hwmon/hwmon0/out_voltage_powerdown", "0");
    let at = running.folder();
    let alone = at.join("power.toml");
    fs::write(&alone, power).unwrap();
    ["run", "check"].iter().for_each(|command| is_refused(at, command, &alone, "is in use by hertzd (pid "));
    assert_eq!(found(at)[1], "0");
    stop(running);
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_channel_that_refuses_its_period_keeps_its_duty() {
    let config = output("pwm = \"pwmchip0\"\nchannel = 0\npwm-period = \"20us\"\nsafe = 0\n");
    let Some(running) = start(&config, "1", Some("refuses 0 1 2")) else { return };
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    assert!(
        ended.stderr.contains("cannot write 20000 to ") && ended.stderr.contains("/period"),
        "{}",
        ended.describe()
    );
    let found = ["period", "duty_cycle", "enable"]
        .map(|file| read(ended.folder.path(), &format!("class/pwm/pwmchip0/pwm0/{file}")));
    assert_eq!(found, ["40000", "10000", "1"]);
}

#[test]
fn a_channel_that_is_off_is_not_switched_on_by_a_duty_that_was_left_in_it() {
    at_once(["safe = \"hold\"", "safe = 0\nstart = \"keep\""], |keys| {
        let config = output(&format!("pwm = \"pwmchip0\"\nchannel = 1\npwm-period = \"40us\"\n{keys}\n"));
        let never = config.replace("path = \"@HERE@/in\"\n", "path = \"@HERE@/in\"\nvalid = [2, 3]\n");
        let Some(mut running) = start(&never, "1", None) else { return };
        running.wait_for("it ticks", |running| {
            let tasks = snapshot(running)["tasks"].clone();
            tasks
                .as_array()
                .is_some_and(|tasks| tasks.iter().any(|task| task["task"] == "out" && task["ran"].as_u64() > Some(5)))
        });
        let duty = |folder: &Path| read(folder, "class/pwm/pwmchip0/pwm1/duty_cycle");
        assert_eq!(duty(running.folder()), "0", "{keys}");
        running.signal("TERM");
        assert_eq!(duty(running.wait().folder.path()), "0", "{keys}");
    });
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn a_fan_that_was_given_back_is_its_chips() {
    // The third chip shows a mode that it does not accept: such a fan is left at full speed.
    let chips = [("5", "1 5", ("5", "60")), ("0", "0 1", ("0", "60")), ("0", "1", ("1", "255"))];
    at_once(chips, |(mode, modes, then)| {
        let config = output(&format!("{FAN}safe = \"restore\"\nwrite = \"always\"\n"));
        let Some(mut running) = start(&config, mode, Some(modes)) else { return };
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2", "128");
        put(running.folder(), "in", "nothing");
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2_mode", then.0);
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2", then.1);
        if mode != "0" {
            put(running.folder(), "class/hwmon/hwmon0/pwm2", "99"); // by its chip
        }
        is_in_force(&mut running);
        let left = hwmon(&running, "pwm2");
        assert_eq!(left, if mode == "0" { then.1 } else { "99" }, "hertzd leaves it alone");
        let ended = stop(running);
        assert_eq!(read(ended.folder.path(), "class/hwmon/hwmon0/pwm2_mode"), then.0);
    });
}

#[test]
#[cfg_attr(target_feature = "crt-static", ignore = "LD_PRELOAD does nothing with a static program")]
fn hertzd_safe_gives_such_a_fan_back() {
    at_once([("5", "1 5", "5"), ("0", "1", "1")], |(mode, modes, then)| {
        let config = output(&format!("{FAN}safe = \"restore\"\n"));
        let Some(mut running) = start(&config, mode, Some(modes)) else { return };
        wait_until(&mut running, "class/hwmon/hwmon0/pwm2", "128");
        running.signal("KILL");
        let ended = running.wait();
        let folder = ended.folder.path();
        for _ in 0..2 {
            let plan = fs::read(folder.join("safe-plan.json")).unwrap();
            let safe = in_tree(folder, modes).args([HERTZD, "safe"]).output().unwrap();
            assert!(safe.status.success(), "{safe:?}");
            assert_eq!(read(folder, "class/hwmon/hwmon0/pwm2_mode"), then);
            put(folder, "class/hwmon/hwmon0/pwm2", if then == "1" { "255" } else { "99" }); // by its chip
            fs::write(folder.join("safe-plan.json"), plan).unwrap();
        }
    });
}

#[test]
fn a_channel_keeps_the_polarity_that_it_was_found_with() {
    let polarity = "class/pwm/pwmchip0/pwm0/polarity";
    let by_name = "pwm = \"pwmchip0\"\nchannel = 0\npwm-period = \"40us\"\nsafe = 0\n".to_owned();
    let by_path = format!("path = \"{CHANNEL}/duty_cycle\"\nscale = 40000\nsafe = 0\n");
    let cases = [&by_name, &by_path].map(|keys| [false, true].map(|always| (keys, always)));
    at_once(cases.into_iter().flatten(), |(keys, always)| {
        let write = if always { "write = \"always\"\n" } else { "" };
        let Some(mut running) = start(&output(&format!("{keys}{write}")), "1", None) else { return };
        wait_until(&mut running, "class/pwm/pwmchip0/pwm0/duty_cycle", "20000");
        let compared = |running: &Running| snapshot(running)["readbacks"][0]["compared"].as_u64().unwrap_or_default();
        running.wait_for("it was compared", |running| compared(running) > 3);
        put(running.folder(), polarity, "inversed");
        if always {
            wait_until(&mut running, polarity, "normal");
        } else {
            running.wait_for("it is said", |running| {
                reason(running).contains("polarity reads inversed in place of normal, so ")
                    && reason(running).contains("the opposite of what it did when hertzd started")
            });
            put(running.folder(), polarity, "normal");
        }
        running.wait_for("that has an end", |running| !reason(running).contains("in place of"));
        // The value is safe only with that polarity: every writer sets the polarity too.
        if !always {
            put(running.folder(), polarity, "inversed");
            running.signal("KILL");
            let ended = running.wait();
            let safe = in_tree(ended.folder.path(), "").args([HERTZD, "safe"]).output().unwrap();
            // A file keeps old digits after a shorter number; a driver never does.
            assert!(!String::from_utf8_lossy(&safe.stderr).contains("polarity"), "{safe:?}");
            let found = ["duty_cycle", "polarity"]
                .map(|file| read(ended.folder.path(), &format!("class/pwm/pwmchip0/pwm0/{file}")));
            assert_eq!(found, ["0", "normal"]);
        }
    });
}

#[test]
fn a_safe_value_of_the_task_is_put_in_force_and_one_that_is_undone_is_not_called_safe() {
    let channel = "pwm = \"pwmchip0\"\nchannel = 0\npwm-period = \"40us\"\n";
    let converter = "path = \"/sys/class/hwmon/hwmon0/out_voltage0_raw\"\nscale = 4000\n";
    let [duty, raw] = ["class/pwm/pwmchip0/pwm0/duty_cycle", "class/hwmon/hwmon0/out_voltage0_raw"];
    let [polarity, enable] = ["polarity", "enable"].map(|file| duty.replace("duty_cycle", file));
    let power = &*raw.replace("_raw", "_powerdown");
    let cases = [
        (format!("{channel}safe = 0\n"), duty, "20000", "0", (&*polarity, "normal", "inversed")),
        (format!("{channel}safe = 1\n"), duty, "20000", "40000", (&enable, "1", "0")),
        (format!("{converter}safe = 0.9\n"), raw, "2000", "3600", (power, "0", "1")),
        // The ramp would take hours to get there.
        (format!("{channel}safe = 1\nsafe-slew = 0.0001\n"), duty, "20000", "", (&enable, "1", "0")),
    ];
    at_once(cases, |(keys, value, live, safe, (file, set, changed))| {
        let Some(mut running) = start(&output(&keys), "1", None) else { return };
        wait_until(&mut running, value, live);
        put(running.folder(), file, changed);
        running.wait_for("it is said", |running| reason(running).contains("in place of"));
        assert_eq!(read(running.folder(), file), changed, "{keys}");
        put(running.folder(), "in", "nothing");
        wait_until(&mut running, file, set);
        if !safe.is_empty() {
            wait_until(&mut running, value, safe);
            let is_safe = |running: &Running| {
                let tasks = snapshot(running)["tasks"].clone();
                let out = tasks.as_array().and_then(|tasks| tasks.iter().find(|task| task["task"] == "out").cloned());
                out.unwrap_or_default()["values"]["is-safe"]["last"].clone()
            };
            running.wait_for("it is safe", |running| is_safe(running) == 1.0);
            put(running.folder(), file, changed);
            running.wait_for("it is not in force", |running| is_safe(running) == 0.0);
            put(running.folder(), file, set);
            running.wait_for("it is in force", |running| is_safe(running) == 1.0);
        }
        stop(running);
    });
}

#[test]
fn a_lock_that_no_hertzd_outside_the_network_namespace_sees_is_said() {
    let config = output("path = \"/sys/class/hwmon/hwmon0/valve\"\nsafe = 0\n");
    for is_own in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "class/hwmon/hwmon0/valve", "0");
        put(folder.path(), "in", "0.5");
        let by = || {
            let inside = in_tree(folder.path(), "");
            let mut command = Command::new("unshare");
            command.args(if is_own { &["-n", "unshare"][..] } else { &["-m", "unshare"] }).args(inside.get_args());
            command.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command
        };
        if !by().arg("true").output().is_ok_and(|output| output.status.success()) {
            return program::skip("nothing may be mounted here, or there are no network namespaces");
        }
        // The tests may run in a container.
        let is_first = Path::new("/proc/sys/net/core/netdev_max_backlog").exists() && !is_own;
        let said = "the lock of /sys/class/hwmon/hwmon0/valve keeps out only hertzds with the same /sys";
        let (mut start, mut check) = (by(), by());
        start.arg(HERTZD);
        check.args([HERTZD, "check"]).arg(folder.path().join("test.toml"));
        let mut running = run_in(folder, start, &config, &[]);
        running.wait_for("it runs", |running| running.folder().join("status.sock").exists());
        let check = check.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&check.stdout).contains(said), !is_first, "{check:?}");
        let ended = stop(running);
        assert_eq!(ended.stderr.matches(said).count(), usize::from(!is_first), "{}", ended.describe());
    }
}

#[test]
fn check_asks_no_age_of_the_files_of_a_device() {
    let config = "[worker.main]\n[task.speed]\nkind = \"sensor\"\nrate = 1\nhwmon = \"nct6798\"\nfile = \"pwm2\"\n";
    let Some(mut running) = start(config, "1", None) else { return };
    running.wait_for("it runs", |running| running.folder().join("status.sock").exists());
    let mut check = in_tree(running.folder(), "");
    let check = check.args([HERTZD, "check"]).arg(running.folder().join("test.toml")).output().unwrap();
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success() && said.contains("speed") && !said.contains("max-file-age"), "{check:?}");
    stop(running);
}
