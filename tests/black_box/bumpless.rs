//! Controllers and filters across interruptions: where a controller takes over, and how both continue after ticks that were skipped or had
//! no value. The simulation makes each instant exact. The change of gains by a reload runs in a real daemon, with an error in the dead
//! band: there no delay of the machine changes the expected output.

use crate::desk::{Desk, Table};
use crate::program;
use crate::program::{HERTZD, Running, run_in};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// One cell per tick.
type Cells = Vec<Option<f64>>;

/// A recording at 8 Hz with these columns; a cell without a value is empty.
fn recorded(columns: &[(&str, &Cells)]) -> String {
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = format!("tick,release_utc,lateness_ns,{}\n", names.join(","));
    for n in 0..columns[0].1.len() {
        let _ = write!(text, "{n},2026-11-21T00:00:{:02}.{:09}Z,0", n / 8, n % 8 * 125_000_000);
        for (_, cells) in columns {
            let _ = write!(text, ",{}", cells[n].map_or_else(String::new, |cell| cell.to_string()));
        }
        text.push('\n');
    }
    text
}

/// The cell of each tick: `usual`, except in these ranges.
fn cells(usual: impl Fn(usize) -> Option<f64>, others: &[(std::ops::Range<usize>, Option<f64>)]) -> Cells {
    let cell = |n| others.iter().find(|(range, _)| range.contains(&n)).map_or_else(|| usual(n), |(_, cell)| *cell);
    (0..40).map(cell).collect()
}

const TAKES_OVER: &str = "[task.board]\nkind = \"sensor\"\nrate = 8\npath = \"/nowhere\"\nsimulate.values = \"day.csv\"\n\
    [task.control]\nkind = \"pid\"\nrate = 8\ninput = \"board.level\"\nsetpoint = 1\nkp = 0.5\nki = 0.25\nkd = 0.03125\n\
    derivative-filter = \"0s\"\nenable = \"board.enable\"\nmanual = \"board.hand\"\nmax-gap = \"125ms\"\n";

const FAN: &str = "track = { previous = \"fan.applied\", initial = 0.125 }\n\
    [task.fan]\nkind = \"output\"\nrate = 8\ninput = \"control.out\"\npath = \"fan\"\nlimits = [0, 0.5]\nsafe = -0.25\n\
    recover-after = \"0s\"\n";

#[test]
fn a_controller_takes_over_where_the_output_is() {
    // Never the same twice in a row: after an interruption, all parts but the integral differ from those of the output before it.
    let level = cells(
        |n| Some([0.5, 0.75, 0.25, 1.5, 1.25][n % 5]),
        &[(26..30, None), (32..34, None)], // a sensor that fails; and one that fails during manual control
    );
    let enable = cells(|_| Some(1.0), &[(6..10, Some(0.0)), (12..14, None)]);
    let hand = cells(|_| None, &[(7..8, Some(2.0)), (18..20, Some(0.75)), (20..21, Some(0.25)), (32..34, Some(-0.5))]);
    let words = [None, Some("bumpless"), Some("reset")];
    for (tracks, takeover) in words.iter().flat_map(|word| [(false, *word), (true, *word)]) {
        let written = takeover.map_or_else(String::new, |word| format!("takeover = \"{word}\"\n"));
        let desk = Desk::with(&(TAKES_OVER.to_owned() + &written + if tracks { FAN } else { "" }));
        desk.put("day.csv", &recorded(&[("level", &level), ("enable", &enable), ("hand", &hand)]));
        let table = desk.table("5s");
        let [out, p, i, d, error] = ["out", "p", "i", "d", "error"].map(|value| plain(&table, "control", value));
        let applied = tracks.then(|| plain(&table, "fan", "applied"));
        let held = tracks.then(|| plain(&table, "fan", "held-back"));
        let (mut latest, mut takes_over, mut by_hand, mut times) = (None, true, false, 0);
        for n in 0..40 {
            let is_on = enable[n] == Some(1.0);
            let Some(now) = out[n] else {
                assert!(!is_on || level[n].is_none() && hand[n].is_none(), "tick {n} puts nothing out");
                (takes_over, by_hand) = (true, false);
                continue;
            };
            assert!(is_on, "tick {n}");
            if let Some(hand) = hand[n] {
                assert_eq!((now, i[n]), (hand, Some(hand)), "tick {n}, by hand");
                (takes_over, by_hand) = (true, true);
            } else if std::mem::take(&mut takes_over) {
                let resets = match takeover {
                    None => latest.is_none(), // it starts
                    Some(word) => word == "reset" && !by_hand,
                };
                let applied = applied.as_ref().map(|applied| n.checked_sub(1).map_or(0.125, |n| applied[n].unwrap()));
                let rest = p[n].unwrap() + d[n].unwrap();
                let wanted = match applied.or(latest.filter(|_| !resets)) {
                    Some(from) if resets => (rest + from, from),
                    Some(from) => (from, from - rest),
                    None => (rest, 0.0),
                };
                assert_eq!((now, i[n]), (wanted.0, Some(wanted.1)), "tick {n}, tracks: {tracks}, {takeover:?}");
                times += 1;
            } else {
                // The integral ignores changes that would lead further away from the applied output.
                let change = 0.25 * error[n].unwrap() / 8.0;
                let held = held.as_ref().map_or(0.0, |held| held[n - 1].unwrap());
                let change = if held == 2.0 || held * change > 0.0 { 0.0 } else { change };
                assert_eq!(i[n].unwrap() - i[n - 1].unwrap(), change, "tick {n}, tracks: {tracks}");
                assert_eq!(now, p[n].unwrap() + i[n].unwrap() + d[n].unwrap(), "tick {n}, tracks: {tracks}");
            }
            latest = Some(now);
        }
        assert_eq!(times, 6, "first tick, twice enabled, twice by hand, once recovered");
        if let Some(applied) = applied {
            // It continues from the safe value, not from the controller's own last output.
            assert_eq!([applied[9], out[21], applied[20]], [-0.25, 0.25, 0.25].map(Some));
            assert_eq!(out[10] == Some(-0.25), takeover != Some("reset"), "{takeover:?}");
        }
    }
}

/// The values of a task that skips no tick.
fn plain(table: &Table, task: &str, value: &str) -> Cells {
    let ticks = table.of(task, value);
    assert!(ticks.iter().enumerate().all(|(at, (n, _))| at as u64 == *n) && ticks.len() == 40, "{ticks:?}");
    ticks.into_iter().map(|(_, value)| value).collect()
}

/// A worker that is delayed now and then: by 4 periods, and by 16, of which ten are `max-gap`.
const HELD_UP: &str = "[worker.sense]\n[worker.act]\n\
    [task.board]\nworker = \"sense\"\nkind = \"sensor\"\nrate = 8\npath = \"/nowhere\"\nsimulate.values = \"day.csv\"\n\
    [task.stall]\nworker = \"act\"\nkind = \"load\"\nrate = 8\noverrun = \"drop\"\n\
    simulate.run = [\"0s\", \"0s\", \"0s\", \"550ms\", \"0s\", \"0s\", \"0s\", \"2050ms\", \"0s\", \"0s\"]\n";

/// The tasks on that worker, and their keys.
const TASKS: [(&str, &str); 10] = [
    ("seen", "kind = \"expr\"\ninputs = { x = \"board.level\" }\nexpression = \"x\"\n"),
    ("zero", "kind = \"expr\"\ninputs = { x = \"board.zero\" }\nexpression = \"x\"\n"),
    ("low", "kind = \"filter\"\ninput = \"board.level\"\ntype = \"low-pass\"\ncutoff = \"1 Hz\"\n"),
    ("high", "kind = \"filter\"\ninput = \"board.level\"\ntype = \"high-pass\"\ncutoff = \"1 Hz\"\n"),
    ("mean", "kind = \"filter\"\ninput = \"board.level\"\ntype = \"moving-average\"\nwindow = 4\n"),
    ("middle", "kind = \"filter\"\ninput = \"board.level\"\ntype = \"median\"\nwindow = 3\n"),
    ("slew", "kind = \"filter\"\ninput = \"board.level\"\ntype = \"slew-limit\"\nrate-limit = 2\n"),
    ("slope", "kind = \"filter\"\ninput = \"board.level\"\ntype = \"derivative\"\n"),
    ("sum", "kind = \"filter\"\ninput = \"board.level\"\ntype = \"integral\"\nreset = \"board.zero\"\n"),
    (
        "control",
        "kind = \"pid\"\ninput = \"board.level\"\nsetpoint = 2\nki = 1\nkd = 0.5\nderivative-filter = \"0s\"\n",
    ),
];

/// The expected outputs of the filters, computed from the most recent ticks on the grid; a skipped tick repeats the tick before it.
#[derive(Default)]
struct Expected {
    held: f64,
    window: VecDeque<f64>, // of four ticks, the newest last
    low: f64,
    high: f64,
    slew: f64,
    slope: f64,
    sum: f64,
}

impl Expected {
    /// Begins again, as if the input had always been this value; the sum stays.
    fn begin(&mut self, x: f64) {
        *self = Self { held: x, window: [x; 4].into(), low: x, slew: x, sum: self.sum, ..Self::default() };
    }

    /// One tick of the grid.
    fn push(&mut self, x: f64) {
        // 1 Hz at 8 ticks a second: the bilinear transform uses this in place of half of 2·pi times the frequency.
        let w = (std::f64::consts::PI / 8.0).tan();
        self.low = (w * (x + self.held) + (1.0 - w) * self.low) / (1.0 + w);
        self.high = (x - self.held + (1.0 - w) * self.high) / (1.0 + w);
        self.slew += (x - self.slew).clamp(-0.25, 0.25);
        self.sum += self.held / 8.0;
        self.window.pop_front();
        self.window.push_back(x);
        self.held = x;
    }

    fn goes_on(&mut self, x: f64, skipped: u64) {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let slope = (x - self.held) / ((skipped + 1) as f64 / 8.0);
        self.slope = slope;
        (0..skipped).for_each(|_| self.push(self.held));
        self.push(x);
    }

    fn mean(&self) -> f64 {
        self.window.iter().sum::<f64>() / 4.0
    }

    fn middle(&self) -> f64 {
        let mut last: Vec<f64> = self.window.range(1..).copied().collect();
        last.sort_by(f64::total_cmp);
        last[1]
    }
}

#[test]
fn skipped_ticks_and_missing_samples_are_held_and_past_max_gap_all_begins_anew() {
    let tasks =
        TASKS.map(|(name, keys)| format!("[task.{name}]\nworker = \"act\"\nrate = 8\noverrun = \"drop\"\n{keys}"));
    let desk = Desk::with(&(HELD_UP.to_owned() + &tasks.concat()));
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let wave = |n: usize| Some((n * n * 5 % 64) as f64 / 16.0 - 1.0);
    let is_missing = |n: usize| (79..81).contains(&n) || (100..128).contains(&n) || n % 11 == 4;
    let level: Cells = (0..200).map(|n| if is_missing(n) { None } else { wave(n) }).collect();
    let zero: Cells =
        (0..200).map(|n| if n % 59 == 0 { None } else { Some(f64::from(u8::from(n % 9 == 1))) }).collect();
    desk.put("day.csv", &recorded(&[("level", &level), ("zero", &zero)]));
    let table = desk.table("24s");
    let seen = table.of("seen", "out");
    let of = |task: &str, value: &str| {
        let found = table.of(task, value);
        assert!(found.iter().map(|(n, _)| n).eq(seen.iter().map(|(n, _)| n)), "{task} ran with the others");
        found.into_iter().map(|(_, value)| value).collect::<Cells>()
    };
    let [zeros, low, high, mean, middle, slew, slope, sum] =
        ["zero", "low", "high", "mean", "middle", "slew", "slope", "sum"].map(|task| of(task, "out"));
    let [out, i, d] = ["out", "i", "d"].map(|value| of("control", value));
    let (mut all, mut integral, mut pid) = (Expected::default(), Expected::default(), 0.0);
    // The last ticks that had all their inputs, unless they are too long ago.
    let (mut last, mut sum_last, mut put_out) = (None::<u64>, None::<u64>, None);
    let mut shown = None;
    let (mut gaps, mut holds, mut resets, mut waits, mut begun) = (0, 0, 0, 0, 0);
    for at in 0..seen.len() {
        let (n, x) = seen[at];
        let may_wait = |last: &u64| n - *last < 10;
        if zeros[at].is_some_and(|zero| zero != 0.0) {
            (integral.sum, integral.held) = (0.0, 0.0);
            resets += 1;
        }
        let Some(x) = x else {
            let all = [&low, &high, &mean, &middle, &slew, &slope, &sum].map(|values| values[at]);
            assert_eq!(all, [None; 7], "tick {n} has no input");
            (last, sum_last) = (last.filter(may_wait), sum_last.filter(may_wait));
            assert_eq!(out[at], shown.filter(|_| last.is_some()), "tick {n}: the controller holds its output");
            waits += usize::from(last.is_some());
            continue;
        };
        let since = |last: Option<u64>| last.map_or((0, false), |last| (n - last - 1, n - last > 10));
        let (skipped, is_gap) = since(last);
        gaps += usize::from(is_gap);
        holds += usize::from(skipped > 0 && !is_gap);
        begun += usize::from(last.is_none());
        // The controller's step: the error at this tick, over all the time since the tick before.
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let step = (2.0 - x) * (skipped + 1) as f64 / 8.0;
        let is_first = last.replace(n).is_none();
        if is_first || is_gap {
            all.begin(x)
        } else {
            all.goes_on(x, skipped)
        }
        let d_is = 0.0 - 0.5 * all.slope;
        pid = match put_out {
            Some(out) if is_first => out - d_is,
            None if is_first => 0.0,
            _ if is_gap => pid,
            _ => pid + step,
        };
        (put_out, shown) = (Some(pid + d_is), out[at]);
        let found = [&i, &d, &out, &mean, &middle, &slew, &slope, &low, &high].map(|values| values[at].unwrap());
        let wanted = [pid, d_is, pid + d_is, all.mean(), all.middle(), all.slew, all.slope, all.low, all.high];
        let worst = found.iter().zip(wanted).map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-12, "tick {n}, {skipped} skipped: {found:?} instead of {wanted:?}");
        // The integral, with its reset.
        let Some(zero) = zeros[at] else {
            assert_eq!(sum[at], None, "tick {n}: not known whether to begin again");
            sum_last = sum_last.filter(may_wait);
            continue;
        };
        let (skipped, is_gap) = since(sum_last);
        if sum_last.replace(n).is_none() || is_gap {
            integral.begin(x)
        } else {
            integral.goes_on(x, skipped)
        }
        assert_eq!(sum[at], Some(integral.sum), "tick {n}, {skipped} skipped, reset {zero}");
    }
    let counts = [gaps, holds, resets, waits, begun];
    assert!(counts.iter().all(|count| *count > 1), "gaps, holds, resets, ticks that wait, beginnings: {counts:?}");
}

/// A controller whose error lies within its dead band, so that its integral stays constant for any number of ticks. Its proportional part
/// is -`kp`, because that part acts on the setpoint of 1 with a weight of 0.
fn controller(name: &str, kp: f64, more: &str) -> String {
    format!(
        "[task.{name}]\nkind = \"pid\"\nworker = \"main\"\nrate = 200\nmax-age = \"100h\"\nsetpoint = 1\nsetpoint-weight = 0\n\
         deadband = 1\nkp = {kp}\nki = 1\n{more}\n"
    )
}

/// Three controllers; their sensors, each with one tick in hours; and a task that continues throughout and records everything.
fn loops(kp: f64) -> String {
    let sensor = |name: &str, worker: &str| {
        format!(
            "[task.{name}]\nkind = \"sensor\"\nworker = \"{worker}\"\nperiod = \"10h\"\npath = \"@HERE@/level\"\nmax-file-age = \"off\"\n"
        )
    };
    let track = "input = \"board.value\"\ntrack = { previous = \"fan.applied\", initial = 0.5 }";
    "[worker.main]\n[worker.beside]\n".to_owned()
        + &sensor("board", "main")
        + &sensor("far", "beside")
        + &controller("free", kp, "input = \"board.value\"")
        + &controller("tracking", kp, track)
        + &controller("across", kp, "input = \"far.value\"")
        + "[task.fan]\nkind = \"output\"\nworker = \"main\"\nrate = 200\ninput = \"tracking.out\"\nmax-age = \"100h\"\n\
           path = \"@HERE@/fan\"\nlimits = [0, 0.25]\nsafe = 0.125\nrecover-after = \"0s\"\n\
           [task.seen]\nkind = \"expr\"\nworker = \"main\"\nrate = 200\nmax-age = \"100h\"\nrecord = \"@HERE@/seen.csv\"\n\
           inputs = { free = \"free.out\", p = \"free.p\", tracking = \"tracking.out\", q = \"tracking.p\", r = \"across.p\", fan = \"fan.applied\" }\n"
        + &["free", "p", "tracking", "q", "fan", "r"]
            .map(|name| format!("[[task.seen.value]]\nname = \"{name}\"\nexpression = \"{name}\"\n"))
            .concat()
}

/// Waits until `seen` shows this proportional part for all controllers.
fn wait_for(running: &mut Running, kp: f64) {
    let socket = running.folder().join("s");
    running.wait_for(&format!("all have the gain {kp}"), |_| {
        let snapshot = program::snapshot(&socket);
        let seen = snapshot["tasks"].as_array().into_iter().flatten().find(|task| task["task"] == "seen").cloned();
        let values = &seen.unwrap_or_default()["values"];
        ["p", "q", "r"].iter().all(|value| values[*value]["last"] == -kp)
    });
}

#[test]
fn a_reload_that_changes_the_gains_makes_no_jump() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("level"), "0.5\n").unwrap();
    let socket = folder.path().join("s");
    let args = ["--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), &loops(2.0), &args);
    wait_for(&mut running, 2.0);
    for kp in [5.0, 0.75] {
        let text = loops(kp).replace(program::HERE, running.folder().to_str().unwrap());
        fs::write(running.folder().join("test.toml"), text).unwrap();
        let reload = Command::new(HERTZD).args(["reload", "--socket"]).arg(&socket).output().unwrap();
        assert!(reload.status.success(), "{reload:?}");
        wait_for(&mut running, kp);
    }
    running.signal("TERM");
    let ended = running.wait();
    let text = fs::read_to_string(ended.folder.path().join("seen.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("tick,release_utc,lateness_ns,free,p,tracking,q,fan,r"));
    let cells = |line: &str| line.split(',').skip(3).map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
    let rows: Vec<Vec<f64>> = lines.map(cells).collect();
    for row in &rows {
        let [free, p, tracking, q, fan] = row[..5] else { panic!("{row:?}") };
        // Nothing was applied before the first tick, so it begins with its other parts alone.
        assert_eq!(free, -2.0, "with p {p}: {rows:?}");
        // It starts with `initial` as its integral, below the output's range. The following controllers continue from the output's lower
        // limit.
        assert_eq!((tracking, fan), (if q == -2.0 { -1.5 } else { 0.0 }, 0.0), "with p {q}: {rows:?}");
    }
    for p in [-2.0, -5.0, -0.75] {
        assert!(rows.iter().any(|row| row[1] == p && row[3] == p), "{p}: {rows:?}");
    }
}
