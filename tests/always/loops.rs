//! `hertzd simulate` with values: running controllers, recordings and plants in place of sensors, and the table of all values. Runs the
//! built binary on the virtual clock, so the load of the machine does not matter.

use crate::desk::{Desk, Table};
use std::fs;
use std::path::Path;

/// A plant with time constants of 10 s and 1 s and a gain of 2, under a controller whose integral time cancels the slow one. The open loop
/// is 2·kp / (10·s·(1 + s)), so the closed loop is of second order with w² = 2·kp/10 and 2·z·w = 1, without zeros.
fn cancelled(kp: f64, more: &str) -> String {
    format!(
        "[task.oven]\nkind = \"sensor\"\nrate = 1000\npath = \"/nowhere\"\nunit = \"x\"\n{more}\n[task.oven.simulate.plant]\nvalue = \"y\"\n\
         input = \"control.out\"\ngain = 2\ntime-constant = [\"10s\", \"1s\"]\noffset = 5\n\
         [task.control]\nkind = \"pid\"\nrate = 1000\ninput = \"oven.y\"\nsetpoint = 6\nkp = {kp}\nti = \"10s\"\n"
    )
}

#[test]
fn a_closed_loop_overshoots_and_settles_as_theory_says() {
    for kp in [5.0_f64, 2.5] {
        let (w, z) = ((2.0 * kp / 10.0).sqrt(), 0.5 / (2.0 * kp / 10.0).sqrt());
        let swing = w * (1.0 - z * z).sqrt();
        let response =
            |t: f64| 1.0 - (-z * w * t).exp() * ((swing * t).cos() + z / (1.0 - z * z).sqrt() * (swing * t).sin());
        let overshoot = (-std::f64::consts::PI * z / (1.0 - z * z).sqrt()).exp();
        // The last instant at which the response is outside 2 % of the step.
        let settling = |outside: &dyn Fn(usize) -> bool| (0..20_000).rev().find(|tick| outside(*tick)).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let wanted = settling(&|tick| (response(tick as f64 / 1_000.0) - 1.0).abs() > 0.02);

        let step: Vec<f64> = Desk::with(&cancelled(kp, "")).table("20s").values("oven", "y");
        let found = settling(&|tick| (step[tick] - 6.0).abs() > 0.02);
        let highest = step.iter().copied().fold(f64::MIN, f64::max) - 6.0;
        // The controller acts 1000 times a second: half a period of delay moves the damping by a thousandth.
        assert!((highest - overshoot).abs() < 0.002, "kp {kp}: overshoot {highest}, in theory {overshoot}");
        assert!(found.abs_diff(wanted) <= 20, "kp {kp}: settled after {found} ms, in theory after {wanted} ms");
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let worst =
            (0..step.len()).map(|tick| (step[tick] - 5.0 - response(tick as f64 / 1_000.0)).abs()).fold(0.0, f64::max);
        assert!(worst < 0.002, "kp {kp}: off by {worst} from the response in theory");
    }
}

#[test]
fn skipped_ticks_take_their_time_in_plant_and_controller() {
    // Now and then the plant's task takes 3.5 periods; all releases meanwhile are skipped.
    let text = "[task.tank]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\noverrun = \"drop\"\n\
        [task.tank.simulate]\nrun = [\"0s\", \"0s\", \"350ms\"]\nplant = { value = \"level\", input = 3, gain = 2, time-constant = \"2s\", initial = 0 }\n\
        [task.still]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\n\
        simulate.plant = { value = \"level\", input = 0, offset = 10, time-constant = \"1s\" }\n\
        [task.control]\nkind = \"pid\"\nrate = 10\ninput = \"still.level\"\nsetpoint = 11\nki = 1\noverrun = \"drop\"\n";
    let table = Desk::with(text).table("20s");
    let levels = table.of("tank", "level");
    assert!(levels.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 2).count() > 10, "it skipped ticks");
    for (n, level) in levels {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let wanted = 6.0 * (1.0 - (-(n as f64) / 20.0).exp());
        assert!((level.unwrap() - wanted).abs() < 1e-9, "tick {n}: {level:?}, {wanted}");
    }
    let integral = table.of("control", "i");
    assert!(integral.windows(2).any(|pair| pair[1].0 - pair[0].0 > 1), "it skipped ticks");
    for (n, i) in integral {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let wanted = n as f64 / 10.0;
        assert!((i.unwrap() - wanted).abs() < 1e-9, "tick {n}: {i:?}, {wanted}");
    }
}

const RECORDED: &str = "tick,release_utc,lateness_ns,temp1 [°C],other\n\
    0,2026-11-21T03:13:18.500000000Z,70,1,0\n\
    1,2026-11-21T03:13:18.599999990Z,70,2,0\n\
    2,2026-11-21T03:13:18.700000010Z,70,,0\n\
    5,2026-11-21T03:13:19.000000000Z,70,6,0\n";

const PLAYED: &str = "[task.board]\nkind = \"sensor\"\nrate = 10\nphase = \"30ms\"\npath = \"/nowhere\"\nsimulate.values = \"day.csv\"\n\
    [task.control]\nkind = \"pid\"\nrate = 10\nphase = \"30ms\"\ninput = \"board.temp1\"\nsetpoint = 0\nkp = 1\n\
    max-gap = \"100ms\"\n";

#[test]
fn a_recording_is_played_in_place_of_the_sensor() {
    let desk = Desk::with(PLAYED);
    desk.put("day.csv", RECORDED);
    let output = desk.simulate(&["--for", "1s", "--csv", "values.csv", "--summary-only"]);
    assert!(output.status.success(), "{output:?}");
    let note = "note: task.board: what was recorded lasts 800 ms; after that it has no values\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), note);
    let table = Table::read(&fs::read_to_string(desk.0.path().join("values.csv")).unwrap());
    let played: Vec<_> = table.of("board", "temp1 [°C]").into_iter().map(|(_, value)| value).collect();
    // The cell of tick 2 was empty, and ticks 3 and 4 were skipped.
    let wanted = [Some(1.0), Some(2.0), None, None, None, Some(6.0), Some(6.0), Some(6.0), None, None];
    assert_eq!(played, wanted);
    let out: Vec<_> = table.of("control", "out").into_iter().map(|(_, value)| value.map(|value| -value)).collect();
    assert_eq!(out, wanted, "the controller sees no value where there was none");
}

#[test]
fn a_plant_has_the_unit_of_what_it_stands_in_for() {
    let plant = |task: &str, kind: &str, value: &str| {
        format!(
            "[task.{task}]\nrate = 10\n{kind}\nsimulate.plant = {{ value = \"{value}\", input = 1, time-constant = \"1s\" }}\n"
        )
    };
    let text = [
        plant("a", "kind = \"sensor\"\npath = \"/nowhere\"\nname = \"level\"\nunit = \"m\"", "level"),
        plant("b", "kind = \"sensor\"\nhwmon = \"chip\"\nfile = \"temp1_input\"\nname = \"board\"", "board"),
        plant("c", "kind = \"sensor\"\nhwmon = \"chip\"", "in3"),
        plant("d", "kind = \"sensor\"\niio = \"chip\"", "accel_x"),
        plant(
            "e",
            "kind = \"i2c\"\nbus = 1\naddress = 0x48\nregister = 0\ntype = \"s16be\"\nname = \"t\"\nunit = \"°C\"",
            "t",
        ),
        plant("f", "kind = \"sensor\"\npath = \"/nowhere\"\nname = \"bare\"", "bare"),
        plant(
            "g",
            "kind = \"process\"\ncommand = [\"x\"]\nvalue = [{ name = \"y\", unit = \"rad/s\" }, { name = \"z\", unit = \"A\" }]\n\
             valid = { z = [0, 1] }",
            "y",
        ),
        plant(
            "h",
            "kind = \"can\"\ninterface = \"can0\"\nreceive = [{ id = 1, name = \"speed\", start-bit = 0, length = 8, unit = \"rpm\" }]",
            "speed",
        ),
        plant("i", "kind = \"video\"\ndevice = \"/dev/video0\"\nformat = \"YUYV\"\nsize = \"64x48\"", "age"),
    ];
    let output = Desk::with(&text.concat()).simulate(&["--for", "1s", "--csv", "-"]);
    let table = String::from_utf8(output.stdout).unwrap();
    let wanted = "task,tick,release_s,lateness_ns,skipped,a.level [m],b.board [°C],c.in3 [V],d.accel_x [m/s²],e.t [°C],f.bare,\
         g.y [rad/s],g.z [A],h.speed [rpm],i.age [ms]";
    assert_eq!(table.lines().next(), Some(wanted), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_recording_without_units_has_those_of_its_task() {
    let desk = Desk::with(
        "[task.cart]\nrate = 10\nkind = \"process\"\ncommand = [\"x\"]\n\
         value = [{ name = \"v\", unit = \"m/s\" }, { name = \"i\", unit = \"A\" }]\nsimulate.values = \"day.csv\"\n",
    );
    desk.put("day.csv", "tick,release_utc,lateness_ns,v,i [A]\n0,2026-11-21T00:00:00Z,0,1,2\n");
    let output = desk.simulate(&["--for", "1s", "--csv", "-"]);
    let table = String::from_utf8(output.stdout).unwrap();
    let wanted = "task,tick,release_s,lateness_ns,skipped,cart.v [m/s],cart.i [A]";
    assert_eq!(table.lines().next(), Some(wanted), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_recording_in_another_unit_is_played_with_a_note() {
    let desk = Desk::with(
        "[task.cart]\nrate = 10\nkind = \"process\"\ncommand = [\"x\"]\n\
         value = [{ name = \"v\", unit = \"m/s\" }, { name = \"i\", unit = \"A\" }, { name = \"n\" }]\nsimulate.values = \"day.csv\"\n",
    );
    desk.put("day.csv", "tick,release_utc,lateness_ns,v [km/h],i [A],n [V]\n0,2026-11-21T00:00:00Z,0,1,2,3\n");
    let output = desk.simulate(&["--for", "1s", "--csv", "-"]);
    let said = String::from_utf8(output.stderr).unwrap();
    let note = "note: task.cart: v is in m/s, but in km/h in day.csv; its numbers are taken as they are\n";
    assert_eq!((said.contains(note), said.matches("taken as they are").count()), (true, 1), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.lines().next().unwrap().ends_with(",cart.v [km/h],cart.i [A],cart.n [V]"), "{table}");
}

#[test]
fn between_workers_a_value_arrives_when_its_tick_has_finished() {
    let text = |first: &str, second: &str, phase: &str| {
        format!(
            "[worker.{first}]\n[worker.{second}]\n\
             [task.board]\nworker = \"sense\"\nkind = \"sensor\"\nrate = 100\npath = \"/nowhere\"\n\
             [task.board.simulate]\nrun = \"3ms\"\nvalues = \"day.csv\"\n\
             [task.control]\nworker = \"act\"\nkind = \"pid\"\nrate = 100\nphase = \"{phase}\"\ninput = \"board.n\"\nsetpoint = 0\nkp = 1\n"
        )
    };
    let mut recorded = "tick,release_utc,lateness_ns,n\n".to_owned();
    (0..200).for_each(|n| recorded += &format!("{n},2026-11-21T00:00:0{}.{:02}Z,0,{n}\n", n / 100, n % 100));
    // At 2 ms the sensor's tick is still running. At 3 ms it has just finished, as far as a worker declared after it can see.
    for (first, second, phase, behind) in
        [("sense", "act", "2ms", 1), ("sense", "act", "3ms", 0), ("act", "sense", "3ms", 1), ("act", "sense", "4ms", 0)]
    {
        let desk = Desk::with(&text(first, second, phase));
        desk.put("day.csv", &recorded);
        let table = desk.table("1s");
        for (n, error) in table.of("control", "error") {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let wanted = n.checked_sub(behind).map(|n| -(n as f64));
            assert_eq!(error, wanted, "tick {n} at {phase}, {first} first");
        }
        // Ticks are printed in the order in which they finish.
        let releases: Vec<f64> = table.rows.iter().map(|row| row[2].parse().unwrap()).collect();
        assert!(releases.windows(2).all(|pair| pair[1] > pair[0] - 0.004), "in one order of time");
    }
}

#[test]
fn the_same_configuration_does_the_same_every_time() {
    // On three workers that affect each other's values; and on one worker that runs by itself and repeats.
    let text = cancelled(5.0, "worker = \"one\"")
        .replace("kind = \"pid\"", "kind = \"pid\"\nworker = \"two\"\nsimulate.run = [\"10us\", \"2ms\", \"1us\"]")
        + "[task.third]\nkind = \"pid\"\nworker = \"three\"\nrate = 700\ninput = \"oven.y\"\nsetpoint = \"control.out\"\nki = 1\n\
           [task.alone]\nkind = \"load\"\nworker = \"four\"\nrate = 100\n\
           [worker.one]\n[worker.one.simulate]\noversleep = [\"5us\", \"60us\"]\n[worker.two]\n[worker.three]\n[worker.four]\n";
    let desk = Desk::with(&text);
    for args in [&["--csv", "-"][..], &["--json"], &["--summary-only"], &[]] {
        let [one, other] = [(); 2].map(|()| desk.simulate(&[&["--for", "1500ms"], args].concat()));
        assert!(one.status.success() && one.stderr.is_empty(), "{one:?}");
        assert!(one.stdout == other.stdout && one.stdout.len() > 500, "{args:?}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_where_it_is_written() {
    let desk = Desk::with(PLAYED);
    let refused = |desk: &Desk, wanted: &[&str], code: i32| {
        let (said, found) = desk.refusal(&["--for", "1s", "--csv", "-"]);
        assert_eq!(found, Some(code), "{said}");
        wanted.iter().for_each(|wanted| assert!(said.contains(wanted), "{wanted}\n{said}"));
    };
    refused(&desk, &["task.board.simulate: values = \"day.csv\"; day.csv: No such file", "loop.toml:6:19"], 78);
    desk.put("day.csv", &RECORDED.replace("70,2", "70,warm"));
    refused(
        &desk,
        &["task.board.simulate: values = \"day.csv\"; day.csv:3: \"warm\" is no number", "loop.toml:6:19"],
        78,
    );
    desk.put("day.csv", "a,b\n1,2\n");
    refused(&desk, &["day.csv:1: this is no recording of values"], 78);
    desk.put("day.csv", &RECORDED.replace("temp1", "temp"));
    refused(
        &desk,
        &[
            "task.control: input = \"board.temp1\"",
            "in what was recorded, task board has no value \"temp1\"; did you mean \"temp\"?",
        ],
        78,
    );
    let desk = Desk::with(&cancelled(1.0, "").replace("\"control.out\"", "\"control.uot\""));
    refused(
        &desk,
        &["task.oven.simulate.plant: input = \"control.uot\"", "did you mean \"out\"?", "loop.toml:9:9"],
        78,
    );
    let desk = Desk::with("[task.a]\nkind = \"load\"\nrate = 10\n");
    refused(&desk, &["--csv: no task has values here"], 64);
    let desk = Desk::with(&cancelled(1.0, ""));
    let (said, code) = desk.refusal(&["--first-tick", "5"]);
    assert!(said.contains("--first-tick: here values flow between tasks") && code == Some(64), "{said}");
    let (said, code) = desk.refusal(&["--csv", "-", "--json"]);
    assert!(said.contains("--csv -: --json writes to stdout as well") && code == Some(64), "{said}");
    let (said, code) = desk.refusal(&["--csv", "no/such/folder.csv"]);
    assert!(said.contains("--csv no/such/folder.csv: cannot write there: No such file") && code == Some(64), "{said}");
    assert!(Path::new("/dev/full").exists());
    let output = desk.simulate(&["--for", "10s", "--csv", "/dev/full", "--summary-only"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--csv /dev/full: No space left on device") && output.status.code() == Some(70), "{said}");
}

/// A recording of ten rows a second, with the column `level`; a cell may be empty.
fn recorded(levels: &[&str]) -> String {
    let row = |(n, level): (usize, &&str)| format!("{n},2026-11-21T00:00:0{}.{}Z,0,{level}\n", n / 10, n % 10);
    "tick,release_utc,lateness_ns,level\n".to_owned() + &levels.iter().enumerate().map(row).collect::<String>()
}

#[test]
fn outputs_are_run_and_nothing_is_written() {
    // Rows 10 to 13 are missing; the last row is at 1.9 s.
    let mut levels = ["0.5"; 20];
    levels[..4].copy_from_slice(&["0", "0.25", "0.5", "7"]);
    levels[10..14].fill("");
    let desk = Desk::with(
        "[task.board]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\nsimulate.values = \"day.csv\"\n\
         [task.fan]\nkind = \"output\"\nrate = 10\ninput = \"board.level\"\nhwmon = \"nowhere\"\nfile = \"pwm1\"\n\
         limits = [0.125, 0.75]\nsafe = 1.0\nrecover-after = \"200ms\"\n\
         [task.slow]\nkind = \"output\"\nrate = 10\ninput = \"board.level\"\npwm = \"nowhere\"\npwm-period = \"40us\"\n\
         slew = 2.5\nsafe-slew = 1.25\nsafe = 0\nrecover = \"latch\"\nstart = \"keep\"\n\
         [task.held]\nkind = \"output\"\nrate = 10\ninput = \"board.level\"\npath = \"held\"\nscale = 1000\n\
         on-stale = \"hold\"\nhold-max = \"200ms\"\nsafe = -4\n\
         [task.back]\nkind = \"output\"\nrate = 10\ninput = \"board.level\"\npath = \"/sys/nowhere\"\nsafe = \"restore\"\n\
         [task.kept]\nkind = \"output\"\nrate = 10\ninput = \"board.level\"\npath = \"kept\"\nsafe = \"hold\"\nrecover-after = \"0s\"\n",
    );
    desk.put("day.csv", &recorded(&levels));
    let output = desk.simulate(&["--for", "1800ms", "--csv", "-"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let table = Table::read(&String::from_utf8(output.stdout).unwrap());
    let of = |task: &str, value: &str| table.of(task, value).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    let good = |values: [f64; 18]| values.map(Some);
    let mut fan = [0.5; 18];
    fan[..4].copy_from_slice(&[0.125, 0.25, 0.5, 0.75]);
    fan[10..16].fill(1.0); // good again at 14; for 200 ms, at 16
    assert_eq!(of("fan", "applied"), good(fan));
    assert_eq!(of("fan", "is-safe"), good(fan.map(|value| f64::from(u8::from(value == 1.0)))));
    assert_eq!(of("fan", "write-errors"), good([0.0; 18]));
    let mut held_back = [0.0; 18];
    (held_back[0], held_back[3]) = (-1.0, 1.0); // at its limits
    held_back[10..14].fill(2.0);
    held_back[14..16].fill(-1.0); // the safe value exceeds the input
    assert_eq!(of("fan", "held-back"), good(held_back));
    // It moves to the limit of its target by 0.25 a tick, and to its safe value by 0.125. It stays there.
    let mut slow = [0.5; 18];
    slow[..6].copy_from_slice(&[0.0, 0.25, 0.5, 0.75, 0.5, 0.5]);
    slow[10..14].copy_from_slice(&[0.375, 0.25, 0.125, 0.0]);
    slow[14..].fill(0.0);
    assert_eq!(of("slow", "applied"), good(slow));
    let mut slewed = [0.0; 18];
    slewed[3] = 1.0;
    slewed[10..14].fill(2.0);
    slewed[14..].fill(1.0);
    assert_eq!(of("slow", "held-back"), good(slewed));
    let mut held = [0.5; 18];
    held[..4].copy_from_slice(&[0.0, 0.25, 0.5, 7.0]);
    held[12..].fill(-4.0); // after 200 ms; and for a second after it is good again
    assert_eq!(of("held", "applied"), good(held));
    // Here hertzd does not know what a target held before.
    let back = of("back", "applied");
    assert_eq!((&back[..4], &back[10..]), (&[0.0, 0.25, 0.5, 7.0].map(Some)[..], &[None; 8][..]));
    assert_eq!(of("back", "is-safe")[9..11], [Some(0.0), Some(1.0)]);
    let mut kept = [0.5; 18];
    kept[..4].copy_from_slice(&[0.0, 0.25, 0.5, 7.0]);
    assert_eq!(of("kept", "applied"), good(kept));
    assert_eq!(of("kept", "is-safe")[9..15], [Some(0.0); 6], "what it keeps is not called safe");
    let mut there: Vec<_> = fs::read_dir(&desk.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, ["day.csv", "loop.toml"], "no file was made");
}

#[test]
fn a_loop_is_closed_by_what_its_output_applied() {
    // The integral must not run away from an output that can only reach 0.5: it follows the output within a tenth of a second.
    let text = "[task.oven]\nkind = \"sensor\"\nrate = 100\npath = \"/nowhere\"\n[task.oven.simulate.plant]\nvalue = \"y\"\n\
        input = \"heater.applied\"\ngain = 100\ntime-constant = \"2s\"\noffset = 20\n\
        [task.control]\nkind = \"pid\"\nrate = 100\ninput = \"oven.y\"\nsetpoint = 90\nkp = 0.02\nti = \"2s\"\n\
        anti-windup = \"back-calculation\"\ntracking-time = \"100ms\"\ntrack = { previous = \"heater.applied\", initial = 0.0 }\n\
        [task.heater]\nkind = \"output\"\nrate = 100\ninput = \"control.out\"\npath = \"/sys/nowhere\"\nlimits = [0, 0.5]\n\
        slew = 0.25\nsafe = 0\n";
    let table = Desk::with(text).table("20s");
    let (applied, measured) = (table.values("heater", "applied"), table.values("oven", "y"));
    // At most 0.25 a second, up to the limit; the plant follows.
    assert!(applied.windows(2).all(|pair| (pair[1] - pair[0]).abs() <= 0.0025 + 1e-12));
    assert!((applied.last().unwrap() - 0.5).abs() < 1e-12, "{applied:?}");
    assert!((measured.last().unwrap() - 70.0).abs() < 0.01, "{:?}", measured.last());
    let level = |t: f64| {
        // A ramp of 0.25 a second for two seconds, then 0.5.
        let ramp = |t: f64| if t > 0.0 { 25.0 * (t - 2.0 * (1.0 - (-t / 2.0).exp())) } else { 0.0 };
        20.0 + ramp(t) - ramp(t - 2.0)
    };
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let worst = (0..2_000).map(|n| (measured[n] - level(n as f64 / 100.0)).abs()).fold(0.0, f64::max);
    assert!(worst < 0.5, "off by {worst} from what the output that was applied leads to");
    let integral = table.values("control", "i");
    assert!(integral[1_999] < 0.5, "{}", integral[1_999]);
}

/// An oven whose sensor fails for a moment, so that its heater is latched in its safe state for 200 s. The integral time cancels the
/// plant's time constant. So the closed loop is of first order, and recovers from any state without overshoot, unless the integral was
/// wound up.
const LATCHED: &str = "[task.oven]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\n[task.oven.simulate]\n\
    fails-at = \"300s\"\nfails-for = \"500ms\"\n\
    plant = { value = \"y\", input = \"heater.applied\", gain = 100, time-constant = \"20s\", offset = 20 }\n\
    [task.control]\nkind = \"pid\"\nrate = 10\ninput = \"oven.y\"\nsetpoint = 70\nkp = 0.005\nti = \"20s\"\nlimits = [0, 1]\n\
    max-gap = \"100ms\"\ntrack = { previous = \"heater.applied\", initial = 0 }\n\
    [task.heater]\nkind = \"output\"\nrate = 10\ninput = \"control.out\"\npath = \"/sys/nowhere\"\nsafe = 0\nrecover = \"latch\"\n\
    reset = \"button.out\"\n\
    [task.button]\nkind = \"profile\"\nrate = 10\nshape = \"steps\"\n\
    step = [{ level = 0, lasting = \"500s\" }, { level = 1, lasting = \"1s\" }]\n";

#[test]
fn a_loop_whose_output_was_held_safe_for_long_comes_back_without_overshoot() {
    // Without `track` the controller does not know that the heater is latched, and its integral continues to its limit.
    for (text, least, most) in [
        (LATCHED.to_owned(), -1.0, 0.05),
        (LATCHED.replace("track = { previous = \"heater.applied\", initial = 0 }\n", ""), 5.0, 50.0),
    ] {
        let table = Desk::with(&text).table("900s");
        let measured: Vec<_> = table.of("oven", "y").into_iter().map(|(_, y)| y).collect();
        let (held, i) = (table.values("heater", "held-back"), table.of("control", "i"));
        let safe = table.values("heater", "is-safe");
        assert!(
            safe.iter().enumerate().all(|(n, safe)| (*safe == 1.0) == (3_000..5_000).contains(&n)),
            "it is latched"
        );
        assert_eq!((held[2_999], held[3_000], held[4_999], held[5_000]), (0.0, 2.0, 1.0, 0.0));
        assert!((measured[4_999].unwrap() - 20.0).abs() < 0.01, "it was off: {:?}", measured[4_999]);
        let highest = measured[5_000..].iter().flatten().copied().fold(f64::MIN, f64::max) - 70.0;
        assert!((least..most).contains(&highest), "overshoot {highest}; i at the end of it {:?}", i[4_999]);
        assert!((measured[8_999].unwrap() - 70.0).abs() < 0.1, "{:?}", measured[8_999]);
    }
}

#[test]
fn what_fails_for_a_while_makes_the_output_safe_and_the_plant_goes_on() {
    let text = "[task.tank]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\nsimulate.fails-at = \"1s\"\nsimulate.fails-for = \"500ms\"\n\
        simulate.plant = { value = \"level\", input = \"valve.applied\", gain = 2, time-constant = \"2s\", initial = 0 }\n\
        [task.valve]\nkind = \"output\"\nrate = 10\ninput = \"target.out\"\nrecover-after = \"0s\"\npath = \"valve\"\nsafe = -1\n\
        [task.target]\nkind = \"expr\"\nrate = 10\ninputs = { level = \"tank.level\" }\nexpression = \"level * 0 + 3\"\n";
    let table = Desk::with(text).table("3s");
    let (mut level, mut applied) = (0.0, f64::NAN);
    for ((n, measured), (_, out)) in table.of("tank", "level").into_iter().zip(table.of("valve", "applied")) {
        let fails = (10..15).contains(&n);
        if n > 0 {
            level += (2.0 * applied - level) * (1.0 - (-0.05_f64).exp());
        }
        applied = if fails { -1.0 } else { 3.0 };
        assert_eq!((measured.is_none(), out), (fails, Some(applied)), "tick {n}");
        assert!(measured.is_none_or(|measured| (measured - level).abs() < 1e-9), "tick {n}: {measured:?}, {level}");
    }
    let all = text.replace("simulate.fails-for = \"500ms\"\n", "");
    let failing = Desk::with(&all).table("3s").of("tank", "level");
    assert!(failing.iter().all(|(n, level)| level.is_none() == (*n >= 10)), "to the end: {failing:?}");
}

#[test]
fn a_table_leaves_out_what_must_not_be_used() {
    let text = "[task.level]\nkind = \"profile\"\nrate = 10\nshape = \"steps\"\nvalid = [0, 5]\nstuck-after = \"700ms\"\n\
        step = [{ level = 1, lasting = \"300ms\" }, { level = 9, lasting = \"200ms\" }, { level = 2, lasting = \"2s\" }]\n\
        [task.next]\nkind = \"expr\"\nrate = 10\ninputs = { x = \"level.out\" }\n\
        value = [{ name = \"known\", expression = \"default(x, 7)\" }, { name = \"v\", expression = \"x\" }]\n";
    let table = Desk::with(text).table("2s");
    let (level, next) = (table.of("level", "out"), table.of("next", "v"));
    for (n, level) in &level {
        let wanted = match n {
            0..3 => Some(1.0),
            3..5 => None, // outside `valid`
            5..12 => Some(2.0),
            _ => None, // it has not changed for 700 ms
        };
        assert_eq!((*level, next[usize::try_from(*n).unwrap()].1), (wanted, wanted), "tick {n}");
    }
    assert!(level.len() == 20 && table.of("next", "known").iter().all(|(_, known)| known.is_some()));
}

#[test]
fn a_value_that_nothing_makes_is_said_to_be_missing() {
    let text = "[task.oven]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\nvalid = { temp1 = [0, 9], temp2 = [0, 9] }\n\
        [task.control]\nkind = \"pid\"\nrate = 10\ninput = \"oven.temp1\"\nsetpoint = 6\nkp = 1\nki = 1\n\
        feed-forward = \"oven.temp2\"\n";
    let desk = Desk::with(text);
    let output = desk.simulate(&["--for", "1s", "--csv", "-"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("note: nothing makes oven.temp1 here, so tasks that read it get no value; write values"),
        "{said}"
    );
    let out = Table::read(&String::from_utf8(output.stdout).unwrap()).of("control", "out");
    assert_eq!(out, (0..10).map(|n| (n, None)).collect::<Vec<_>>());
}

#[test]
fn a_latch_opens_when_its_reset_rises_and_not_when_that_is_missing() {
    let desk = Desk::with(
        "[task.board]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\nsimulate.values = \"day.csv\"\n\
         [task.full]\nkind = \"alarm\"\nrate = 10\ninput = \"board.level\"\nhigh = 5\nlatch = true\nreset = \"board.reset\"\n\
         [task.valve]\nkind = \"output\"\nrate = 10\ninput = \"board.command\"\npath = \"valve\"\nsafe = 9\n\
         recover = \"latch\"\nreset = \"board.reset\"\n",
    );
    // For each tick: the level, the command, the reset; whether the alarm is active; and the output.
    let ticks = [
        ("9", "1", "0", 1.0, 1.0),
        ("0", "", "0", 1.0, 9.0),
        ("0", "2", "0", 1.0, 9.0),
        ("0", "2", "", 1.0, 9.0),
        ("0", "2", "0", 1.0, 9.0),
        ("0", "2", "-1", 0.0, 9.0),
        ("9", "2", "0", 1.0, 9.0),
        ("0", "2", "", 1.0, 9.0),
        ("0", "2", "1", 0.0, 2.0),
    ];
    let row = |(n, (level, command, reset, ..)): (usize, &(&str, &str, &str, f64, f64))| {
        format!("{n},2026-11-21T00:00:00.{n}Z,0,{level},{command},{reset}\n")
    };
    let rows: String = ticks.iter().enumerate().map(row).collect();
    desk.put("day.csv", &format!("tick,release_utc,lateness_ns,level,command,reset\n{rows}"));
    let table = desk.table("900ms");
    assert_eq!(table.values("full", "active"), ticks.map(|tick| tick.3));
    assert_eq!(table.values("valve", "applied"), ticks.map(|tick| tick.4));
}

#[test]
fn what_a_run_reads_it_does_not_write_over_and_a_pipe_is_no_recording() {
    let desk = Desk::with(
        "[task.oven]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\nsimulate.values = \"oven.csv\"\n\
         [task.twice]\nkind = \"expr\"\nrate = 10\ninputs = { y = \"oven.y\" }\nexpression = \"2 * y\"\n",
    );
    let recorded = "tick,release_utc,lateness_ns,y\n0,2026-01-01T00:00:00.000000000Z,0,1\n";
    desk.put("oven.csv", recorded);
    let folder = desk.0.path();
    let link = folder.join("link.csv");
    std::os::unix::fs::symlink("oven.csv", &link).unwrap();
    for table in ["loop.toml", "oven.csv", "link.csv"] {
        let (said, code) = desk.refusal(&["--for", "1s", "--csv", table]);
        assert!(code == Some(64) && said.contains("reads that file, which would be lost"), "{code:?}: {said}");
    }
    assert_eq!(fs::read_to_string(folder.join("oven.csv")).unwrap(), recorded);
    assert!(desk.table("1s").of("twice", "out").iter().all(|(_, value)| *value == Some(2.0)));
    fs::remove_file(folder.join("oven.csv")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(folder.join("oven.csv")).status().unwrap();
    assert!(made.success());
    let (said, code) = desk.refusal(&["--for", "1s"]);
    assert!(code == Some(78) && said.contains("oven.csv: it is no regular file"), "{code:?}: {said}");
}

#[test]
fn what_is_put_out_shows_in_a_plant_afterwards_whichever_task_is_first() {
    // A step at 1.25 s into a lag of 1 s. The step comes from a task that measures nothing, so nothing orders the two.
    let tank = "[task.tank]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\n\
        simulate.plant = { value = \"level\", input = \"pump.out\", time-constant = \"1s\" }\n";
    let pump = |more: &str| {
        format!(
            "[task.pump]\nkind = \"profile\"\nshape = \"steps\"\n{more}\n\
             step = [{{ level = 0, lasting = \"1250ms\" }}, {{ level = 1, lasting = \"1s\" }}]\n"
        )
    };
    let other = "[worker.one]\n[worker.two]\n";
    let beside = |task: String, worker: &str| task.replace("rate =", &format!("worker = \"{worker}\"\nrate ="));
    for (text, from) in [
        (pump("rate = 100") + tank, 1.25),
        (tank.to_owned() + &pump("rate = 100"), 1.25),
        // The tank's tick at 1.3 s is its first one after the step.
        (pump("rate = 10") + tank, 1.3),
        (tank.to_owned() + &pump("rate = 10"), 1.3),
        (pump("rate = 10\nphase = \"50ms\"") + tank, 1.35), // its own time begins later
        // A value that takes time to compute is output later.
        (pump("rate = 10\nsimulate.run = \"30ms\"") + tank, 1.33),
        (other.to_owned() + &beside(pump("rate = 100"), "one") + &beside(tank.to_owned(), "two"), 1.25),
        (other.to_owned() + &beside(pump("rate = 100"), "two") + &beside(tank.to_owned(), "one"), 1.25),
    ] {
        for (n, level) in Desk::with(&text).table("2s").of("tank", "level") {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let lasts = n as f64 / 10.0 - from;
            let wanted = if lasts > 0.0 { 1.0 - (-lasts).exp() } else { 0.0 };
            assert!((level.unwrap() - wanted).abs() < 1e-9, "tick {n}: {level:?}, not {wanted}\n{text}");
        }
    }
}

/// A heater with a lag of 60 s, which the integral time cancels: the closed loop is of first order, with a time constant of 3 s.
fn heater(setpoint: &str, more: &str) -> String {
    format!(
        "[task.oven]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\n\
         simulate.plant = {{ value = \"y\", input = \"heater.applied\", time-constant = \"60s\" }}\n\
         [task.target]\nkind = \"profile\"\nrate = 10\n{setpoint}\n\
         [task.control]\nkind = \"pid\"\nrate = 10\ninput = \"oven.y\"\nsetpoint = \"target.out\"\nkp = 20\nti = \"60s\"\n\
         track = {{ previous = \"heater.applied\", initial = 0 }}\n{more}\n\
         [task.heater]\nkind = \"output\"\nrate = 10\ninput = \"control.out\"\npath = \"/sys/nowhere\"\nsafe = 0\n"
    )
}

#[test]
fn a_controller_that_starts_far_from_its_setpoint_is_as_fast_as_one_that_is_sent_there() {
    let measured = |setpoint: &str, more: &str| Desk::with(&heater(setpoint, more)).table("400s").values("oven", "y");
    let settled = |y: &[f64]| y.iter().rposition(|y| (y - 1.0).abs() > 0.02).unwrap() + 1;
    let started = measured("shape = \"constant\"\nlevel = 1", "");
    let steps = "shape = \"steps\"\nstep = [{ level = 0, lasting = \"10s\" }, { level = 1, lasting = \"1s\" }]";
    let sent = &measured(steps, "")[100..];
    // The first tick takes over without adding to the integral.
    assert!(started.iter().zip(sent).all(|(one, other)| (one - other).abs() < 0.002));
    assert!((110..125).contains(&settled(&started)), "ln(50) · 3 s: {}", settled(&started));
    assert_eq!(started, measured("shape = \"constant\"\nlevel = 1", "takeover = \"reset\""));
    let bumpless = measured("shape = \"constant\"\nlevel = 1", "takeover = \"bumpless\"");
    assert!(settled(&bumpless) > 2_000, "as slow as the lag: {}", settled(&bumpless));
}

#[test]
fn a_chain_without_a_measurement_is_not_said_to_hold_its_max_latency() {
    let chain = |source: &str| {
        format!(
            "{source}[task.out]\nkind = \"output\"\nrate = 50\ninput = \"first.out\"\npath = \"/sys/nowhere\"\nsafe = 0\n\
             max-latency = \"50ms\"\n"
        )
    };
    let counts = "[task.first]\nkind = \"expr\"\nrate = 50\ninputs = { was = { previous = \"first.out\", initial = 0 } }\n\
                  expression = \"was + 1\"\n";
    let measures = "[task.oven]\nkind = \"sensor\"\nrate = 50\npath = \"/nowhere\"\n\
                    simulate.plant = { value = \"y\", input = 1, time-constant = \"1s\" }\n\
                    [task.first]\nkind = \"expr\"\nrate = 50\ninputs = { y = \"oven.y\" }\nexpression = \"y\"\n";
    for (source, wanted) in [
        (counts, "out: no measurement came that max-latency 50.0 ms could apply to"),
        (measures, "out: no tick used a measurement older than max-latency 50.0 ms"),
    ] {
        let output = Desk::with(&chain(source)).simulate(&["--for", "2s", "--summary-only"]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(wanted), "{said}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The thermostat of the examples. After ten minutes its sensor shows nothing good for this long.
fn thermostat(gap: &str, more: &str) -> Table {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/thermostat/thermostat.toml"));
    let text = text.unwrap().replace("fails-for = \"2min\"", &format!("fails-for = \"{gap}\""));
    Desk::with(&text.replace("kp = 0.05\n", &format!("kp = 0.05\n{more}\n"))).table("15min")
}

#[test]
fn readings_that_are_missing_for_a_moment_move_neither_fan_nor_temperature() {
    for (gap, missing) in [("500ms", 1), ("1s", 2), ("4500ms", 9)] {
        let table = thermostat(gap, "");
        let (temp, error) = (table.of("board", "temp"), table.of("control", "error"));
        let fan = table.values("fan", "applied");
        let is_missing = |values: &[(u64, Option<f64>)], n: usize| values[n].1.is_none();
        assert_eq!((1_200..1_800).filter(|n| is_missing(&temp, *n)).count(), missing);
        assert_eq!((1_200..1_800).filter(|n| is_missing(&error, *n)).count(), missing, "no error is made up");
        assert!(fan[1_200..].iter().all(|after| (after - fan[1_199]).abs() < 0.001), "{:?}", &fan[1_190..1_240]);
    }
    // Without a bridged gap, the fan is at full speed at the next tick.
    let fan = thermostat("500ms", "max-gap = \"500ms\"").values("fan", "applied");
    assert_eq!(fan[1_200], 1.0);
}

#[test]
fn an_output_that_is_held_grows_as_old_as_what_it_came_from() {
    let text = |gap: &str, age: &str| {
        format!(
            "[task.oven]\nkind = \"sensor\"\nrate = 10\npath = \"/nowhere\"\nsimulate.fails-at = \"1s\"\n\
             simulate.plant = {{ value = \"y\", input = 1, time-constant = \"1s\" }}\n\
             [task.control]\nkind = \"pid\"\nrate = 10\ninput = \"oven.y\"\nsetpoint = 2\nkp = 1\nmax-gap = \"{gap}\"\n\
             [task.heater]\nkind = \"output\"\nrate = 10\ninput = \"control.out\"\npath = \"/sys/nowhere\"\nsafe = 0\n\
             max-age = \"{age}\"\n"
        )
    };
    // The last good reading is that of tick 9.
    for (gap, age, safe_at) in [("10s", "300ms", 13), ("400ms", "10s", 13), ("100ms", "10s", 10), ("10s", "10s", 109)] {
        let table = Desk::with(&text(gap, age)).table("15s");
        let safe = table.values("heater", "is-safe");
        let wanted = (0..150).map(|n| f64::from(u8::from(n >= safe_at))).collect::<Vec<_>>();
        assert_eq!(safe, wanted, "max-gap {gap}, max-age {age}");
    }
}
