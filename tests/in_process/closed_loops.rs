//! The closed loops of pages and examples behave as their pages state: simulated, and in real time as simulated. The tests compare the
//! output of each tick, so a busy machine does not matter; the comparison ends at the first skipped tick.


#[rustfmt::skip] // it has the usual format, not that of this crate
#[path = "../../src/cli/new/motor.rs.in"]
#[allow(missing_docs, unreachable_pub, reason = "it is written for a project of its own")]
mod motor;

use crate::program;
use crate::program::{HERE, signal};
use hertzd::cli::VirtualRun;
use hertzd::internals::Embedded;
use hertzd::time::Span;
use hertzd::{App, Kinds};
use std::fs;
use std::path::Path;

fn root(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn simulate(text: &str, length: Span) -> VirtualRun {
    App::new(Kinds::builtin()).simulate(text, length).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The values of one column at each tick of a task.
fn values(run: &VirtualRun, task: &str, column: usize) -> Vec<(u64, f64)> {
    run.ticks_of(task).iter().map(|tick| (tick.n, tick.values[column])).collect()
}

/// The rows of a recorded CSV: tick, and the value in this column after `lateness_ns`.
fn recorded(folder: &Path, name: &str, column: usize) -> Vec<(u64, f64)> {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.split(',').collect();
        (cells[0].parse().unwrap(), cells[3 + column].parse().unwrap_or(f64::NAN))
    };
    text.lines().skip(1).map(row).collect()
}

#[cfg(feature = "gpio")]
#[test]
fn the_light_goes_on_and_off_when_its_page_says() {
    let page = root("docs/tutorials/audio-gpio.md");
    let shown: Vec<_> = page.lines().filter(|line| line.ends_with(" dB  on") || line.ends_with(" dB  off")).collect();
    // The microphone's recording replaces the microphone, whether or not this build has the kind.
    let text = root("examples/audio-gpio/audio-gpio.toml");
    let text = text.replace("kind = \"audio\"", "kind = \"sensor\"\npath = \"/nowhere\"");
    let run = simulate(&text.replace("device = \"plughw:0\"\nchannels = 1\n", ""), Span::from_seconds(12));
    let (levels, light) = (values(&run, "loud", 0), values(&run, "light", 0));
    let mut was = 0.0;
    let mut seen = Vec::new();
    for ((n, level), (_, on)) in levels.into_iter().zip(light) {
        if on != std::mem::replace(&mut was, on) {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let seconds = n as f64 / 20.0;
            seen.push(format!("{seconds:5.2} s  {level:5.1} dB  {}", if on == 1.0 { "on" } else { "off" }));
        }
    }
    assert_eq!(seen, shown);
}

#[test]
fn the_thermostat_is_at_its_setpoint_when_its_page_says() {
    let page = root("docs/tutorials/thermostat.md");
    let text = root("examples/thermostat/thermostat.toml");
    let settled = |text: &str| {
        let board = values(&simulate(text, Span::from_seconds(600)), "board", 0);
        let highest = board.iter().map(|(_, temp)| *temp).fold(f64::MIN, f64::max);
        assert!(highest < 60.05, "it overshoots, up to {highest} °C");
        let away = board.iter().rev().find(|(_, temp)| (temp - 60.0).abs() >= 1.0).unwrap();
        (away.0 + 1).div_ceil(2)
    };
    let said = format!(
        "after {} s. With the default that takes {} s.",
        settled(&text.replace("kp = 0.05\n", "kp = 0.05\ntakeover = \"bumpless\"\n")),
        settled(&text)
    );
    assert!(page.contains(&said), "the page must say: {said}");
}

/// The thermostat on files: the board's temperature and the fan's speed. Each task records its values.
fn on_files() -> String {
    let mut text = root("examples/thermostat/thermostat.toml")
        .replace("hwmon = \"nct6775\"\nfile = \"temp1_input\"\n", "path = \"@HERE@/temp\"\nscale = 0.001\n")
        .replace("hwmon = \"nct6775\"\nfile = \"pwm1\"\n", "path = \"@HERE@/speed\"\n");
    for task in TASKS {
        text = text.replace(&format!("[task.{task}]\n"), &format!("[task.{task}]\nrecord = \"@HERE@/{task}.csv\"\n"));
    }
    text
}

const TASKS: [&str; 4] = ["board", "smooth", "control", "fan"];

#[test]
fn the_thermostat_does_in_real_time_what_it_does_when_simulated() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("temp"), "45000").unwrap();
    fs::write(folder.path().join("speed"), "0.5\n").unwrap();
    let text = on_files();
    let mut running = program::run_in(folder, std::process::Command::new(program::HERTZD), &text, &[]);
    let rows = |folder: &Path| fs::read_to_string(folder.join("fan.csv")).map_or(0, |text| text.lines().count());
    running.wait_for("some ticks", |running| rows(running.folder()) > 4);
    // A tick may read it at any time, and never finds it empty.
    fs::write(running.folder().join("new"), "71500").unwrap();
    fs::rename(running.folder().join("new"), running.folder().join("temp")).unwrap();
    running.wait_for("some more", |running| rows(running.folder()) > 9);
    signal(running.pid(), "TERM");
    let ended = running.wait();
    let folder = ended.folder.path();
    assert_eq!(fs::read_to_string(folder.join("speed")).unwrap().trim(), "1", "full speed before it ends");

    // The same simulation with the measured values, up to the first tick that any of them skipped.
    let (head, rest) = text.split_once("[task.board.simulate]").unwrap();
    let (_, rest) = rest.split_once("# The middle one").unwrap();
    let again = format!("{head}[task.board.simulate]\nvalues = \"@HERE@/board.csv\"\n#{rest}");
    let again: String =
        again.lines().filter(|line| !line.starts_with("record")).map(|line| format!("{line}\n")).collect();
    let run = simulate(&again.replace(HERE, folder.to_str().unwrap()), Span::from_seconds(60));
    let whole = |task: &str| {
        let ticks = recorded(folder, &format!("{task}.csv"), 0);
        (0..).zip(&ticks).take_while(|(wanted, (n, _))| wanted == n).count()
    };
    let compared = TASKS.into_iter().map(whole).min().unwrap();
    if compared == 0 {
        let why = "inconclusive: the machine was busy: a task skipped its first tick, so nothing can be compared";
        return program::emulation::say_skipped(why);
    }
    for (task, column) in [("board", 0), ("smooth", 0), ("control", 0), ("fan", 0), ("fan", 1)] {
        let (found, wanted) = (recorded(folder, &format!("{task}.csv"), column), values(&run, task, column));
        let pairs = found.into_iter().zip(wanted).take(compared);
        for (found, wanted) in pairs {
            let near = found.0 == wanted.0 && (found.1 - wanted.1).abs() < 1e-12;
            assert!(near, "{task}, value {column}: {found:?} in real time, {wanted:?} when simulated");
        }
    }
    let first = recorded(folder, "fan.csv", 0)[0].1;
    assert!(first > 0.9, "the fan begins at full speed: {first}");
}

#[test]
fn the_flywheel_does_in_real_time_what_it_does_when_simulated() {
    let kinds = || Kinds::builtin().with_computing::<motor::Motor>("motor", "The motor of a new project.");
    let text = root("src/cli/new/config.toml.in").replace("@NAME@", "flywheel");
    let simulated = App::new(kinds()).simulate(&text, Span::from_seconds(2)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let record = format!("rate = \"1 kHz\"\nrecord = \"{}/wheel.csv\"\n", folder.path().display());
    let recording = text.replace("rate = \"1 kHz\"\n", &record);
    let ended = Embedded::of(kinds(), recording).lasting(Span::from_seconds(2)).run();
    let lost = ended.summary.tasks[0].recorded.as_ref().unwrap().lost;
    if lost > 0 {
        let why = format!("inconclusive: the machine was busy: {lost} rows are not in the recording");
        return program::emulation::say_skipped(&why);
    }
    let (found, wanted) = (recorded(folder.path(), "wheel.csv", 0), values(&simulated, "wheel", 0));
    assert!(!found.is_empty() && found.len() <= wanted.len());
    // Each tick advances the wheel by the same share, whichever ticks were skipped.
    for ((n, speed), (_, wanted)) in found.into_iter().zip(wanted) {
        assert!((speed - wanted).abs() < 1e-9, "tick {n}: {speed}, when simulated {wanted}");
    }
}
