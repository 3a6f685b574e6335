//! `hertzd simulate` with measured times: the built binary, on the virtual clock.

use crate::on_virtual_clock::{MEETING, file, hertzd, text, word};
use serde_json::Value;
use std::path::Path;

fn summary(path: &Path, length: &str, more: &[&str]) -> Value {
    let output = hertzd(&[&["simulate", word(path), "--for", length, "--summary-only", "--json"], more].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn oversleeps_of_a_file_end_the_sleeps() {
    let (_folder, path) = file("my.toml", MEETING);
    let (_models, model) = file("late.json", r#"{"version": 1, "oversleep_ns": {"counts": [[5000, 3], [250000, 1]]}}"#);
    let played = summary(&path, "1s", &["--oversleep", word(&model)]);
    let oversleep = &played["workers"][0]["oversleep_ns"];
    assert_eq!((&oversleep["min"], &oversleep["max"]), (&5_000.into(), &250_000.into()), "{played}");
    // The output of `run --json` and `simulate --json` is such a file, too.
    let (_again, again) = file("summary.json", &played.to_string());
    let again = summary(&path, "20s", &["--oversleep", word(&again)]);
    assert_eq!(again["workers"][0]["oversleep_ns"]["max"], 250_000);
    let output = hertzd(&["simulate", word(&path), "--oversleep", word(&path)]);
    assert!(
        output.status.code() == Some(64) && text(&output.stderr).contains("name an MCAP recording, or JSON"),
        "{output:?}"
    );
}

#[cfg(feature = "mcap")]
#[test]
fn a_recording_sets_run_times_and_oversleeps_and_is_replayed() {
    use std::fs;

    let folder = tempfile::tempdir().unwrap();
    let (path, recording) = (folder.path().join("my.toml"), folder.path().join("day.mcap"));
    let config = |more: &str| {
        let text =
            format!("[worker.w]\npolicy = \"other\"\n[task.a]\nkind = \"load\"\nrate = 100\nrun = \"200us\"\n{more}");
        fs::write(&path, text).unwrap();
    };
    config(&format!("record = \"{}\"\n", word(&recording)));
    let output = hertzd(&["run", word(&path), "--for", "1s", "--json"]);
    let run: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let run = &run["tasks"][0];
    assert_eq!(run["recorded"]["lost"], 0, "{run}");

    // The same times, in order.
    config("");
    let ran = run["ran"].as_u64().unwrap();
    let length = format!("{}ms", 10 * ran);
    let played = summary(&path, &length, &["--runs", word(&recording), "--oversleep", word(&recording)]);
    let simulated = &played["tasks"][0];
    if simulated["ran"] == run["ran"] {
        assert_eq!(simulated["run_ns"], run["run_ns"]);
    }
    assert!(simulated["run_ns"]["min"].as_i64() >= Some(200_000), "{played}");
    assert!(played["workers"][0]["oversleep_ns"]["max"].as_i64() > Some(0), "{played}");

    // The whole recording, at its own times: the same number of releases, with the recording's own counts beside.
    let output = hertzd(&["simulate", word(&path), "--replay", word(&recording), "--summary-only", "--json"]);
    let replayed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let task = &replayed["tasks"][0];
    // Releases given up after the last tick are in no recording.
    let met = |of: &Value| of["due"].as_u64().unwrap() - of["missed"].as_u64().unwrap();
    assert_eq!(met(&task["as_recorded"]), met(run), "{replayed}");
    assert!(task["as_recorded"]["due"].as_u64() <= run["due"].as_u64(), "{replayed}");
    assert!(text(&output.stderr).contains("recorded sleeps set how late sleeps end"), "{output:?}");

    // A plan from the measurement.
    config("budget = \"9ms\"\n[task.b]\nkind = \"load\"\nworker = \"v\"\nrate = 100\nrun = \"1ms\"\n[worker.v]\n");
    let text_of_both = fs::read_to_string(&path)
        .unwrap()
        .replace("rate = 100\nrun = \"200us\"", "worker = \"w\"\nrate = 100\nrun = \"200us\"")
        .replace("policy = \"other\"\n", "");
    fs::write(&path, text_of_both).unwrap();
    let plan = hertzd(&["plan", word(&path), "--runs", word(&recording)]);
    let plan_text = text(&plan.stdout);
    assert!(plan_text.contains(&format!("(the longest of {ran} ticks or more): a.")), "{plan:?}");
}
