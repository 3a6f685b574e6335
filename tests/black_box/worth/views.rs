//! What each view shows of a value.

use super::lists::{Fault, View, Worth};
use crate::program::{HERTZD, Running, snapshot, task};
use crate::scraping::Exporter;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The value in question, and who takes it: of a slow source it is another one.
pub(super) fn names(fault: Fault) -> (&'static str, &'static str) {
    if fault == Fault::Slow { ("rare", "waits") } else { ("source", "copy") }
}

fn value_of<'a>(snapshot: &'a Value, task_name: &str) -> &'a Value {
    &task(snapshot, task_name)["values"]["v"]
}

/// What there was when a fault began.
#[derive(Clone, Copy, Default)]
pub(super) struct Since {
    pub(super) logged: usize, // bytes
    pub(super) errors: u64,   // ticks of the source that had failed
}

/// Whether a snapshot or summary shows this.
pub(super) fn is_shown(snapshot: &Value, (fault, worth): (Fault, Worth), errors: u64) -> bool {
    let (source, taker) = names(fault);
    let (value, input) = (value_of(snapshot, source), &task(snapshot, taker)["inputs"][format!("{source}.v")]);
    let taken = value_of(snapshot, taker);
    match worth {
        Worth::Good => {
            value["quality"] == "good" && value["last"].is_f64() && input.is_null() && taken["quality"] == "good"
        }
        Worth::None => {
            let is_so = ["none", "good"].iter().any(|word| value["quality"] == *word);
            is_so && value["last"].is_f64() && value["reason"].is_null() && input.is_null()
        }
        Worth::Bad(reason) => {
            let is_told = value["last"].is_null() && value["since_ns"].is_i64() && value["last_good"].is_f64();
            let taken = taken["quality"] == "bad" && taken["reason"] == "inherited" && taken["last"].is_null();
            value["quality"] == "bad" && value["reason"] == reason && is_told && input["reason"] == reason && taken
        }
        Worth::Passing(_) => {
            let is_counted = task(snapshot, source)["errors"].as_u64() > Some(errors);
            is_counted && value["quality"] == "good" && taken["quality"] == "good"
        }
        Worth::Refused(reason) | Worth::Silent(reason) => {
            let quality = if matches!(worth, Worth::Silent(_)) { "none" } else { "good" };
            value["quality"] == quality && input["reason"] == reason && taken["reason"] == "inherited"
        }
    }
}

/// The words of a reason, for people.
fn meaning(reason: &str) -> &'static str {
    match reason {
        "stuck" => "it has not changed for stuck-after",
        "stale" => "it is too old",
        "unavailable" => "its source is not there",
        "failed" => "it could not be read or computed",
        "not-available" => "its source says that it has none",
        "not-finite" => "it is infinite or not a number",
        "out-of-range" => "is outside valid 0 to 10",
        other => panic!("{other}"),
    }
}

fn text_of(args: &[&str], folder: &Path) -> String {
    let socket = folder.join("s");
    let mut command = Command::new(HERTZD);
    command.args(args).arg("--socket").arg(&socket).current_dir(folder).stdin(Stdio::null());
    let output = command.env("LC_ALL", "C").env("COLUMNS", "400").output().unwrap();
    // Lines may be wrapped anywhere.
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks one view while the fault lasts. `None`: not shown yet.
pub(super) fn check(
    view: View,
    (fault, worth): (Fault, Worth),
    since: Since,
    running: &Running,
    exporter: &Exporter,
) -> Option<()> {
    let folder = running.folder();
    let (source, taker) = names(fault);
    // A task that has no device is a reason itself.
    let sentence = match worth {
        Worth::Bad("unavailable" | "failed" | "stale") => "task source".to_owned(),
        Worth::Bad(_) | Worth::Refused(_) | Worth::Silent(_) => format!("task {taker} cannot use {source}.v: "),
        _ => String::new(),
    };
    let holds = match (view, worth) {
        (View::Json, _) => is_shown(&snapshot(&folder.join("s")), (fault, worth), since.errors),
        (View::Status, Worth::Bad(reason)) => {
            let text = text_of(&["status"], folder);
            text.contains("source: v bad for ") && text.contains(meaning(reason)) && text.contains(" old)")
        }
        (View::Status, Worth::Refused(_) | Worth::Silent(_)) => {
            text_of(&["status"], folder).contains(&format!("{taker}: its input {source}.v is stale for "))
        }
        (View::Status, Worth::Passing(_)) => {
            let text = text_of(&["status"], folder);
            text.contains("failed, ") && text.contains("source: ") && !text.contains("source: v bad")
        }
        (View::Status, _) => !text_of(&["status"], folder).contains("source: v bad"),
        // It has no room for each value: what is said of all is said here.
        (View::Top, Worth::Bad(_) | Worth::Refused(_) | Worth::Silent(_)) => {
            text_of(&["top", "--once"], folder).contains(&sentence)
        }
        (View::Top, _) => !text_of(&["top", "--once"], folder).contains("cannot use source.v"),
        (View::Log, Worth::Bad(_) | Worth::Refused(_) | Worth::Silent(_)) => {
            let said = running.stderr();
            let line = format!("{taker}: cannot use {source}.v: ");
            // A slow source is slow from the start.
            let (before, after) = said.split_at(since.logged);
            let why = if let Worth::Bad(reason) = worth { meaning(reason) } else { "" };
            let tells = |said: &str| said.lines().any(|one| one.contains(&line) && one.contains(why));
            tells(after) || fault == Fault::Slow && tells(before)
        }
        (View::Log, _) => {
            let said = &running.stderr()[since.logged..];
            let is_told =
                !matches!(worth, Worth::Passing(_)) || said.contains("source: tick ") && said.contains(" failed: ");
            is_told && !said.contains(": cannot use source.v: ")
        }
        (View::Exporter, _) => {
            let samples = exporter.scrape();
            let value =
                samples.keys().any(|key| key.starts_with(&format!("hertzd_task_value{{task=\"{source}\",value=\"v\"")));
            let bad =
                |reason: &str| format!("hertzd_task_value_bad{{task=\"source\",value=\"v\",reason=\"{reason}\"}}");
            let refused = |reason: &str| {
                samples.contains_key(&format!(
                    "hertzd_task_input_bad{{task=\"{taker}\",input=\"{source}.v\",reason=\"{reason}\"}}"
                ))
            };
            match worth {
                Worth::Good | Worth::None => {
                    value && !samples.keys().any(|key| key.starts_with("hertzd_task_value_bad{task=\"source\""))
                }
                Worth::Passing(_) => {
                    #[expect(clippy::cast_precision_loss, reason = "a count of a test")]
                    let before = since.errors as f64;
                    value && samples["hertzd_task_errors_total{task=\"source\"}"] > before
                }
                Worth::Bad(reason) => !value && samples.contains_key(&bad(reason)) && refused(reason),
                Worth::Refused(reason) | Worth::Silent(reason) => value && refused(reason),
            }
        }
        (View::Report, _) => {
            let mut command = Command::new(HERTZD);
            command.args(["report", "--socket", "s", "-o", "r.html", "--force", "--json"]).current_dir(folder);
            let output = command.output().unwrap();
            assert!(output.status.success());
            let page = fs::read_to_string(folder.join("r.html")).unwrap();
            match worth {
                Worth::Bad(reason) => page.contains(&sentence) && page.contains(meaning(reason)),
                Worth::Refused(_) | Worth::Silent(_) => page.contains(&sentence),
                Worth::Passing(_) => {
                    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
                    task(&told["run"], source)["counts"]["errors"].as_u64() > Some(since.errors)
                }
                _ => !page.contains("cannot use source.v"),
            }
        }
        (View::Csv, _) => {
            let text = fs::read_to_string(folder.join("values.csv")).unwrap();
            let cells: Vec<_> = text.lines().last().unwrap_or_default().split(',').collect();
            let place = text.lines().next().unwrap_or_default().split(',').position(|name| name == "v raw").unwrap();
            let (row, raw) = (cells.get(3).copied().unwrap_or("?"), cells.get(place).copied().unwrap_or("?"));
            match worth {
                Worth::Good | Worth::Refused(_) => row.parse::<f64>().is_ok(),
                Worth::Bad("out-of-range") => row.is_empty() && raw.parse::<f64>().is_ok_and(|raw| raw >= 16.0),
                Worth::None | Worth::Passing(_) => {
                    let last: Vec<_> = text.lines().rev().take(50).map(|line| line.split(',').nth(3)).collect();
                    last.contains(&Some("")) && last.iter().flatten().any(|cell| cell.parse::<f64>().is_ok())
                }
                Worth::Bad(_) | Worth::Silent(_) => row.is_empty(),
            }
        }
        (View::Mcap | View::Summary, _) => unreachable!("what these hold is known only at the end of the run"),
    };
    holds.then_some(())
}
