//! Ten thousand tasks that are due at the same instant: every record of the burst finds room.

use crate::program::emulation;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::Command;

const TASKS: u64 = 10_000;

#[test]
fn a_burst_of_ten_thousand_aligned_ticks_loses_no_record() {
    let _turn = crate::turn(module_path!());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("burst.toml");
    let mut text = "[worker.main]\npolicy = \"other\"\n".to_owned();
    for task in 0..TASKS {
        writeln!(text, "[task.t{task}]\nkind = \"load\"\nperiod = \"1h\"").unwrap();
    }
    std::fs::write(&path, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hertzd"))
        .args(["run", "--json", "--for", "1s", "--log-level", "error"])
        .arg(&path)
        .output()
        .unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    if summary["reason"].as_str().is_some_and(|reason| reason.contains("the metrics thread did not answer")) {
        emulation::say_skipped("other programs left hertzd too little processor time to sum up");
        return;
    }
    assert_eq!(summary["records"], serde_json::json!({ "sent": TASKS, "dropped": 0 }));
    let tasks = summary["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), usize::try_from(TASKS).unwrap());
    assert!(tasks.iter().all(|task| task["ran"] == 1 && task["lateness_ns"]["count"] == 1));
}
