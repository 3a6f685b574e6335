//! Captures sound through the real ALSA library, in real time and without a kernel driver: the test starts a PulseAudio
//! server that plays a sine. Without the server or the library's plugin, the tests are skipped with a message.

#![cfg(feature = "audio")]

#[path = "support/hot_thread.rs"]
#[allow(dead_code, reason = "the tests of other tasks need more")]
mod hot_thread;
#[path = "support/program/mod.rs"]
mod program;

use hertzd::Built;
use hertzd::config::Kinds;
use hertzd::internals::{Clock, Embedded, KernelClock};
use hertzd::task::{AudioFormat, Format, Head, SampleFormat, Tick};
use hertzd::time::Span;
use hot_thread::{LOAD, assert_nothing_else, trace_run};
use program::{Ended, HERTZD, Running, count, pause, run_by, signal, task};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Attempts before a wait for the server fails.
const ATTEMPTS: usize = 2_000;

const MODULE: &str = "module-null-sink sink_name=tone rate=48000";
const SINE: &str = "module-sine sink=tone rate=48000 frequency=440";

/// Root mean square of the sine relative to full scale: PulseAudio plays it at half of full scale.
const RMS: f64 = 0.5 * std::f64::consts::FRAC_1_SQRT_2;

/// Kills a process at the end of the test, also when the test fails.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // A stopped process would not end without SIGCONT. The process may already have ended: ignore the result.
        let _ = Command::new("sh").args(["-c", &format!("kill -CONT {} 2>/dev/null", self.0.id())]).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sound server that plays a sine of 440 Hz, and the ALSA device `tone` that captures it.
struct Server {
    reader: Option<KillOnDrop>, // declared before the server, so dropped first
    server: KillOnDrop,
    folder: TempDir,
}

impl Server {
    /// `None` if it cannot be started here; prints the reason.
    fn start() -> Option<Self> {
        let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if let Some(missing) = ["pulseaudio", "pactl", "parec"].into_iter().find(|program| !there(program)) {
            program::emulation::say_skipped(&format!("there is no {missing} here"));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let alsa = "</usr/share/alsa/alsa.conf>\npcm.tone { type pulse device tone.monitor }\n\
                    pcm.linear { type linear slave { pcm null format S16_LE } }\n";
        fs::write(folder.path().join("alsa.conf"), alsa).unwrap();
        let socket = folder.path().join("socket");
        let mut server = Command::new("pulseaudio");
        server.args(["-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1", "--disable-shm=yes"]);
        server.args(["--log-level=error", "--high-priority=no", "--realtime=no"]);
        let socket = format!("module-native-protocol-unix socket={} auth-anonymous=1", socket.display());
        server.args(["-L", &socket, "-L", MODULE, "-L", SINE]);
        set_environment(&mut server, folder.path());
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { reader: None, server: KillOnDrop(server), folder };
        for _ in 0..ATTEMPTS {
            if server.pactl(&["info"]) {
                server.keep_reading();
                return Some(server);
            }
            if let Some(status) = server.server.0.try_wait().unwrap() {
                program::emulation::say_skipped(&format!("PulseAudio does not run here: {status}"));
                return None;
            }
            pause(Span::from_millis(10));
        }
        panic!("PulseAudio runs and does not answer");
    }

    fn pid(&self) -> u32 {
        self.server.0.id()
    }

    fn pactl(&self, args: &[&str]) -> bool {
        let mut pactl = Command::new("pactl");
        set_environment(pactl.args(args), self.folder.path());
        pactl.output().is_ok_and(|output| output.status.success())
    }

    /// Keeps a reader on the device, so that the server delivers 10 ms at a time instead of two seconds.
    fn keep_reading(&mut self) {
        let mut reader = Command::new("parec");
        set_environment(reader.args(["-d", "tone.monitor", "--latency-msec=10"]), self.folder.path());
        let reader = reader.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.reader = Some(KillOnDrop(reader));
    }

    fn run(&self, config: &str, args: &[&str]) -> Running {
        let mut command = Command::new(HERTZD);
        set_environment(&mut command, self.folder.path());
        run_by(command, config, args)
    }

    /// `hertzd check` of what was run.
    fn check(&self, ended: &Ended) -> Output {
        let mut command = Command::new(HERTZD);
        set_environment(&mut command, self.folder.path());
        command.arg("check").arg(ended.folder.path().join("test.toml")).output().unwrap()
    }
}

/// The errors, as `run` and `check` begin their lines.
fn errors(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("error: ")).collect()
}

/// Points a program to this server, away from the user's own.
fn set_environment(command: &mut Command, folder: &Path) {
    let socket = format!("unix:{}", folder.join("socket").display());
    command.env("PULSE_SERVER", socket).env("ALSA_CONFIG_PATH", folder.join("alsa.conf"));
    command.env("XDG_RUNTIME_DIR", folder).env("HOME", folder);
    for leads_elsewhere in ["DBUS_SESSION_BUS_ADDRESS", "PULSE_COOKIE", "PULSE_CONFIG_PATH", "DISPLAY"] {
        command.env_remove(leads_elsewhere);
    }
}

fn value(summary: &Value, name: &str, part: &str) -> f64 {
    let values = &task(summary, "tone")["values"];
    values[name][part].as_f64().unwrap_or_else(|| panic!("no {part} of {name}: {values}"))
}

const TONE: &str = "[task.tone]\nkind = \"audio\"\nrate = \"100 Hz\"\ndevice = \"tone\"\nchannels = 1\n";

#[test]
fn a_tone_is_captured() {
    let Some(server) = Server::start() else { return };
    // Large enough that a busy machine loses no sound.
    let config = TONE.replace("100 Hz", "10 Hz") + "buffer = \"5s\"\nrecord = \"@HERE@/tone.wav\"\n";
    let ended = server.run(&config, &["--for", "16s", "--json"]).wait();
    assert!(ended.status.success(), "{}", ended.describe());
    let summary = ended.summary();
    println!("{}", task(&summary, "tone")["values"]);
    assert!(value(&summary, "frames", "last") >= 48_000.0, "{}", ended.describe());
    // The last tick may end anywhere in a period of the sine.
    assert!((value(&summary, "rms", "last") / RMS - 1.0).abs() < 0.05, "{summary}");
    assert!((value(&summary, "peak", "max") / 0.5 - 1.0).abs() < 0.01, "{summary}");
    assert!(task(&summary, "tone")["values"]["drift-ppm"]["unit"] == "ppm");
    if value(&summary, "xruns", "last") > 0.0 {
        println!("not looked at as a whole: this machine stood still for longer than 5 s\n{}", ended.describe());
        return;
    }

    let path = ended.folder.path().join("tone.wav");
    if !fs::read(&path).unwrap().starts_with(b"RIFF") {
        program::emulation::say_skipped("this hertzd does not write WAV");
        return;
    }
    let wav = hound::WavReader::open(path).unwrap();
    assert_eq!((wav.spec().channels, wav.spec().sample_rate, wav.spec().bits_per_sample), (1, 48_000, 16));
    let samples: Vec<i16> = wav.into_samples().map(Result::unwrap).collect();
    assert_eq!(samples.len() as f64, value(&summary, "frames", "last"), "every captured frame");
    assert_tone(&samples);
}

#[test]
fn capture_continues_after_a_stall_and_after_an_unplug() {
    let Some(mut server) = Server::start() else { return };
    let other = "[task.other]\nkind = \"load\"\nrate = \"100 Hz\"\n";
    let config = format!("{TONE}record = \"@HERE@/tone.csv\"\n{other}");
    let mut hertzd = server.run(&config, &["--json"]);
    let more = |hertzd: &mut Running, what: &str| {
        let before = frames(hertzd);
        hertzd.wait_for(what, |hertzd| frames(hertzd) > before + 9_600.0);
    };
    let logged = |hertzd: &Running, what: &str| hertzd.stderr().matches(what).count();
    more(&mut hertzd, "sound comes");

    let stalls = logged(&hertzd, "delivers no frames");
    signal(server.pid(), "STOP");
    hertzd.wait_for("the stall is logged", |hertzd| logged(hertzd, "delivers no frames") > stalls);
    signal(server.pid(), "CONT");
    more(&mut hertzd, "sound comes after the stall");

    let (lost, again) = (logged(&hertzd, "stopped working; trying"), logged(&hertzd, " was reopened after"));
    assert!(server.pactl(&["unload-module", "module-null-sink"]));
    hertzd.wait_for("the loss is logged", |hertzd| logged(hertzd, "stopped working; trying") > lost);
    hertzd.wait_for("it is retried", |hertzd| logged(hertzd, "cannot be reopened yet") > 0);
    server.reader = None;
    for module in [MODULE, SINE] {
        let words: Vec<_> = ["load-module"].into_iter().chain(module.split(' ')).collect();
        assert!(server.pactl(&words), "{module}");
    }
    server.keep_reading();
    hertzd.wait_for("it is reopened", |hertzd| logged(hertzd, " was reopened after") > again);
    more(&mut hertzd, "sound comes after the unplugging");

    hertzd.signal("INT");
    let ended = hertzd.wait();
    assert!(ended.status.success(), "{}", ended.describe());
    let summary = ended.summary();
    let (tone, other) = (task(&summary, "tone"), task(&summary, "other"));
    println!("{tone}\n{}", ended.stderr);
    assert!(count(tone, "errors") > 0);
    assert_eq!(count(other, "errors"), 0);
}

/// The error names the key and what the device supports. For an unknown device it says how to list devices.
#[test]
fn an_unsupported_setting_is_refused_with_what_the_device_supports() {
    let Some(server) = Server::start() else { return };
    for (device, key, value, offered) in [
        ("linear", "sample-format", "\"f32\"", "\"s16\", \"s24\", \"s32\"\n"),
        ("tone", "sample-rate", "\"1 MHz\"", "1 to 384000 Hz\n"),
        ("tone", "channels", "64", "1 to 32\n"),
    ] {
        let config = TONE.replace("channels = 1\n", "").replace("\"tone\"", &format!("{device:?}"));
        let ended = server.run(&format!("{config}{key} = {value}\n"), &["--for", "1s"]).wait();
        let wanted = format!("task.tone: {key} = {value}; {device:?} does not support ");
        println!("{}", ended.stderr);
        assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
        assert!(ended.stderr.contains(&wanted), "{}", ended.describe());
        assert!(ended.stderr.contains(&format!("it offers {offered}")), "{}", ended.describe());
        let checked = server.check(&ended);
        assert_eq!(checked.status.code(), Some(78));
        assert_eq!(errors(&String::from_utf8(checked.stderr).unwrap()), errors(&ended.stderr));
    }
    // A device of a sound server may be shared.
    let both = TONE.to_owned() + &TONE.replace("task.tone", "task.other");
    let ended = server.run(&both, &["--for", "100ms"]).wait();
    let checked = server.check(&ended);
    assert_eq!((ended.status.code(), checked.status.code()), (Some(0), Some(0)), "{} {checked:?}", ended.describe());
    let config = TONE.replace("\"tone\"", "\"nowhere\"");
    let ended = server.run(&config, &["--for", "1s"]).wait();
    println!("{}", ended.stderr);
    assert_eq!(ended.status.code(), Some(78), "{}", ended.describe());
    let wanted = "cannot open \"nowhere\": No such file or directory (os error 2); `arecord -L` lists the names";
    assert!(ended.stderr.contains(wanted), "{}", ended.describe());
    let waiting = format!("{config}missing = \"wait\"\n");
    let ended = server.run(&waiting, &["--for", "1s", "--json"]).wait();
    assert!(ended.status.success(), "{}", ended.describe());
    let summary = ended.summary();
    let tone = task(&summary, "tone");
    assert!(count(tone, "ran") > 0, "{tone}");
    assert_eq!(count(tone, "errors"), count(tone, "ran"), "each tick fails without the device");
    assert!(ended.stderr.contains("audio device nowhere of task tone cannot be opened yet"), "{}", ended.describe());
}

/// A buffer may be shorter than the steps in which the device reports its position.
#[test]
fn no_sample_rate_makes_a_tick_panic() {
    for rate in [1, 7, 40, 1_000, 1_000_000] {
        let text =
            format!("[task.tone]\nkind = \"audio\"\ndevice = \"null\"\nrate = \"100 Hz\"\nsample-rate = {rate}\n");
        let (mut blueprints, mut site) = Embedded::of(Kinds::builtin(), text).parts();
        let Ok(built) = blueprints[0].build(&mut site) else { continue };
        let mut task = built.task;
        let mut values = vec![f64::NAN; task.columns().len()];
        for n in 0..20 {
            let at = KernelClock::monotonic().now();
            let mut tick = Tick::default();
            (tick.n, tick.release, tick.started, tick.period) = (n, at, at, Span::from_millis(10));
            let _ = task.tick(&tick, &mut values);
        }
        assert!(values[0] >= 0.0, "frames at {rate} Hz: {values:?}");
    }
}

/// Frames captured so far, by the recording.
fn frames(hertzd: &Running) -> f64 {
    let text = fs::read_to_string(hertzd.folder().join("tone.csv")).unwrap_or_default();
    let mut lines = text.lines();
    let Some(column) = lines.next().and_then(|head| head.split(',').position(|name| name.starts_with("frames"))) else {
        return 0.0;
    };
    // The last line may be incomplete.
    let whole = &text[..text.rfind('\n').unwrap_or(0)];
    let last = whole.lines().last().and_then(|line| line.split(',').nth(column)?.parse().ok());
    last.unwrap_or(0.0)
}

/// Runs the test `name` of this binary in a process that uses the server.
fn run_inside(server: &Server, name: &str) {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", name, "--ignored", "--nocapture"]);
    set_environment(&mut test, server.folder.path());
    let output = test.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    assert!(output.status.success() && text.contains("1 passed"), "{name} failed");
}

#[test]
fn the_blocks_are_the_whole_tone() {
    let Some(server) = Server::start() else { return };
    run_inside(&server, "inside_the_blocks_are_the_whole_tone");
}

/// Asserts 440 Hz to 0.1 %, the loudness played, and periods of equal length.
fn assert_tone(samples: &[i16]) {
    // The server may start with silence.
    let first = samples.iter().position(|&sample| sample.abs() > 8_000).unwrap();
    assert!(first < 2 * 48_000, "silent for {first} frames");
    let samples = &samples[first..];
    let up: Vec<_> = samples.windows(2).enumerate().filter(|(_, pair)| pair[0] < 0 && pair[1] >= 0).collect();
    // Where the line through the two samples crosses zero.
    let at = |(index, pair): &(usize, &[i16])| *index as f64 + f64::from(pair[0]) / f64::from(pair[0] - pair[1]);
    let periods = (up.len() - 1) as f64;
    let hertz = 48_000.0 * periods / (at(&up[up.len() - 1]) - at(&up[0]));
    println!("{hertz} Hz");
    assert!((hertz / 440.0 - 1.0).abs() < 0.001, "{hertz} Hz");
    let whole = &samples[up[0].0..up[up.len() - 1].0];
    let squares: f64 = whole.iter().map(|&sample| (f64::from(sample) / 32_768.0).powi(2)).sum();
    let rms = (squares / whole.len() as f64).sqrt();
    assert!((rms / RMS - 1.0).abs() < 0.001, "{rms}");
    // No sample is missing: consecutive crossings are one period apart.
    for two in up.windows(2) {
        let length = at(&two[1]) - at(&two[0]);
        assert!((length - 48_000.0 / 440.0).abs() < 0.5, "a period of {length} frames at {}", two[0].0);
    }
}

/// The task, built from a configuration.
fn build_task(keys: &str) -> Built {
    let config = format!("[task.tone]\nkind = \"audio\"\n{keys}");
    let (mut blueprints, mut site) = Embedded::of(Kinds::builtin(), config).parts();
    blueprints[0].build(&mut site).unwrap_or_else(|no| panic!("{no}"))
}

/// Ticks until `frames` frames were captured; returns all blocks and their bytes.
fn captured(built: Built, frames: u64, frame: u64) -> (Vec<(Head, u64)>, Vec<u8>) {
    let clock = KernelClock::monotonic();
    let Built { mut task, stream, .. } = built;
    let mut receiver = stream.unwrap().blocks.unwrap();
    let (mut heads, mut bytes) = (Vec::new(), Vec::new());
    let mut n = 0;
    while (bytes.len() as u64) < frames * frame {
        let now = clock.now();
        let mut tick = Tick::default();
        (tick.n, tick.release, tick.started) = (n, now, now);
        let mut values = [f64::NAN; 5];
        task.tick(&tick, &mut values).unwrap();
        while let Some(block) = receiver.take() {
            assert_eq!((block.head.n, block.bytes.len() as u64 % frame), (n, 0));
            heads.push((block.head, block.bytes.len() as u64 / frame));
            bytes.extend_from_slice(block.bytes);
        }
        assert_eq!(values[0], (bytes.len() as u64 / frame) as f64, "frames");
        n += 1;
        assert!(n < 10_000, "{} frames after {n} ticks", bytes.len() as u64 / frame);
        pause(Span::from_millis(10));
    }
    assert_eq!(receiver.traffic().dropped(), 0);
    (heads, bytes)
}

#[test]
#[ignore = "the_blocks_are_the_whole_tone runs it, where there is a server"]
fn inside_the_blocks_are_the_whole_tone() {
    let keys = "rate = 100\ndevice = \"tone\"\nchannels = 1\nsample-format = \"s16\"\nsample-rate = 48000\n";
    // Large enough that a busy machine loses no sound.
    let built = build_task(&format!("{keys}buffer = \"5s\"\n"));
    let format = AudioFormat { rate: 48_000, channels: 1, sample: SampleFormat::S16 };
    assert_eq!(built.stream.as_ref().unwrap().shape.format, Format::Audio(format));
    let (heads, bytes) = captured(built, 5 * 48_000, 2);
    let mut next = 0;
    for (head, frames) in &heads {
        assert_eq!(head.index, next, "no frame is missing or duplicated");
        next += frames;
    }
    assert!(heads.is_sorted_by_key(|(head, _)| head.at));

    let samples: Vec<_> = bytes.as_chunks().0.iter().map(|&bytes| i16::from_le_bytes(bytes)).collect();
    println!("{} blocks, {next} frames", heads.len());
    assert_tone(&samples);
}

/// ALSA's file device delivers frames as fast as they are read: the blocks must hold exactly the file's bytes.
#[test]
fn the_blocks_are_the_file_to_the_byte() {
    if !Path::new("/usr/share/alsa/alsa.conf").exists() {
        program::emulation::say_skipped("ALSA has no configuration here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let input: PathBuf = folder.path().join("in.raw");
    let bytes: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&input, &bytes).unwrap();
    let alsa = format!(
        "</usr/share/alsa/alsa.conf>\npcm.loop {{ type file slave.pcm null file /dev/null infile \"{}\" format raw }}\n",
        input.display()
    );
    fs::write(folder.path().join("alsa.conf"), alsa).unwrap();
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "inside_the_blocks_are_the_file_to_the_byte", "--ignored", "--nocapture"]);
    set_environment(&mut test, folder.path());
    let output = test.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "the_blocks_are_the_file_to_the_byte runs it, with the file"]
fn inside_the_blocks_are_the_file_to_the_byte() {
    // 400,000 frames of one 32-bit channel; each holds its own number.
    let built = build_task("rate = 100\ndevice = \"loop\"\nchannels = 1\nsample-format = \"s32\"\n");
    let (heads, bytes) = captured(built, 390_000, 4);
    println!("{} blocks", heads.len());
    for (index, bytes) in bytes.as_chunks().0.iter().take(390_000).enumerate() {
        assert_eq!(u32::from_le_bytes(*bytes), u32::try_from(index).unwrap());
    }
}

/// A real sound card adds its driver's call; tests/system/in-vm/hot-thread.sh counts that.
#[test]
fn audio_costs_no_call_of_its_own() {
    if !Path::new("/usr/share/alsa/alsa.conf").exists() {
        program::emulation::say_skipped("ALSA has no configuration here, and thus no null device");
        return;
    }
    let audio = "[task.sound]\nkind = \"audio\"\nrate = \"100 Hz\"\ndevice = \"null\"\nsample-rate = 8000\n\
                 buffer = \"40ms\"\nchannels = 1\n";
    let Some((trace, summary)) = trace_run("off", "off", &format!("{LOAD}{audio}")) else {
        return;
    };
    assert_nothing_else(&trace, &["clock_nanosleep"]);
    let sound = task(&summary, "sound");
    assert_eq!((count(sound, "due"), count(sound, "errors")), (1_200, 0));
    assert!(sound["values"]["frames"]["last"].as_f64() > Some(1_000.0), "{sound}");
}
