//! What hertzd reports about each tick, from the lines it logs at the level `trace`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A tick with hertzd's verdicts. Times are in nanoseconds, relative to the release unless stated otherwise.
#[derive(Clone, Debug)]
pub(crate) struct TickLine {
    pub(crate) task: String,
    pub(crate) n: u64,
    /// When the worker's last sleep ended.
    pub(crate) woke: i64,
    /// How late that sleep ended, if this is the first tick after it.
    pub(crate) oversleep: Option<i64>,
    pub(crate) lateness: i64,
    pub(crate) run: i64,
    /// The verdicts on releases given up before the tick, on its overrun, and on releases given up after it.
    pub(crate) verdicts: [Option<Verdict>; 3],
}

/// A cause, the culprit if known, and the number of releases.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) cause: String,
    pub(crate) by: Option<String>,
    pub(crate) count: u64,
}

/// Every tick logged by a daemon with `--log-level trace --log-format json`.
pub(crate) fn tick_lines(stderr: &Path) -> Vec<TickLine> {
    let text = std::fs::read_to_string(stderr).unwrap();
    text.lines().filter_map(|line| tick_line(&serde_json::from_str(line).ok()?)).collect()
}

/// The totals of the log's events for `task`: missed releases by cause, overruns and skipped releases.
pub(crate) fn event_sums(stderr: &Path, task: &str) -> (BTreeMap<String, u64>, [u64; 2]) {
    let text = std::fs::read_to_string(stderr).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut sums = (BTreeMap::new(), [0, 0]);
    for event in lines.filter(|line| line["missed"].is_u64() && line["task"] == task) {
        for (sum, key) in sums.1.iter_mut().zip(["overrun", "skipped"]) {
            *sum += event[key].as_u64().unwrap();
        }
        for cause in event["causes"].as_str().unwrap().split(' ') {
            let (cause, count) = cause.split_once('=').unwrap();
            *sums.0.entry(cause.to_owned()).or_default() += count.parse::<u64>().unwrap();
        }
    }
    sums
}

fn tick_line(line: &Value) -> Option<TickLine> {
    if line["level"] != "trace" {
        return None;
    }
    let text = |key: &str| line[key].as_str().map(str::to_owned);
    let verdict = |part: &str, count: u64| {
        let (cause, by) = (text(&format!("cause{part}"))?, text(&format!("by{part}")));
        Some(Verdict { cause, by, count })
    };
    let given_up = |part: &str| verdict(part, line[format!("skipped{part}")].as_u64()?);
    Some(TickLine {
        task: text("task")?,
        n: line["tick"].as_u64()?,
        woke: line["woke_ns"].as_i64()?,
        oversleep: line["oversleep_ns"].as_i64(),
        lateness: line["lateness_ns"].as_i64()?,
        run: line["run_ns"].as_i64()?,
        verdicts: [given_up("_before"), verdict("", 1), given_up("_after")],
    })
}
