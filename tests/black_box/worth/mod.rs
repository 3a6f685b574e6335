//! What a value is worth when its source misbehaves: each source × fault × view, generated from three lists. All views show the same truth,
//! and the table in docs/quality.md is made of the same lists. What is not played here is in `tests/system/in-vm/worth.sh`.

mod faults;
mod lists;
mod views;

#[cfg(feature = "plugin")]
use crate::plugin;
use crate::program::{HERTZD, Running, run_in, skip, snapshot, task};
use crate::recorded;
use crate::scraping::Exporter;
use faults::{cause, config};
use lists::{FAULTS, Fault, Source, VIEWS, View, Worth, wanted};
use serde_json::Value;
use std::fs;
use std::process::Command;
use views::{Since, check, is_shown, names};

const GOOD: (Fault, Worth) = (Fault::Back, Worth::Good);

/// Each fault has a run of its own, because a summary is written at its end, and a recording is complete then.
fn every_fault_of(source: Source) {
    // Setting the clock is for the virtual machine.
    for fault in FAULTS.into_iter().filter(|fault| *fault != Fault::ClockStep) {
        play(source, fault);
    }
}

fn play(source: Source, fault: Fault) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_owned();
    let socket = here.join("s");
    let mut writer = cause(source, Fault::Back, &here);
    let args = ["--json", "--status-socket", socket.to_str().unwrap()];
    fs::write(here.join("number"), "3\n").unwrap();
    #[cfg(feature = "plugin")]
    if source == Source::Library {
        plugin::build_c("number.c", &here.join("number.so"), &[]);
    }
    let mut running = run_in(folder, Command::new(HERTZD), &config(source), &args);
    running.wait_for("it has ticked", |running| snapshot(&running.folder().join("s"))["daemon"]["ready"] == true);
    let is_good = |running: &Running| is_shown(&snapshot(&running.folder().join("s")), GOOD, 0);
    running.wait_for("its first value", is_good);
    let exporter = Exporter::start(&socket);
    if fault == Fault::Back {
        drop(writer.take());
        writer = cause(source, Fault::Away, &here);
        running.wait_for("it is away", |running| !is_good(running));
    }
    let errors = task(&snapshot(&socket), "source")["errors"].as_u64().unwrap();
    let since = Since { logged: running.stderr().len(), errors };
    drop(writer.take());
    writer = cause(source, fault, &here);
    let worth = wanted(source, fault);
    for view in VIEWS.into_iter().filter(|view| !matches!(view, View::Mcap | View::Summary)) {
        let what = format!("{source:?}, {fault:?} in {view:?}: {worth:?}");
        running.wait_for(&what, |running| check(view, (fault, worth), since, running, &exporter).is_some());
    }
    running.signal("TERM");
    let ended = running.wait();
    drop(writer);
    // A fault that passes may leave any tick as the last one.
    let is_mixed = matches!(worth, Worth::None | Worth::Passing(_));
    let what = format!("{source:?}, {fault:?} at the end: {worth:?}\n{}", ended.describe());
    assert!(is_mixed || is_shown(&ended.summary(), (fault, worth), since.errors), "{what}");
    let messages = recorded::messages(&here.join("copy.mcap"));
    let topics = recorded::by_topic(&messages);
    let taker = format!("{}/values", names(fault).1);
    let values: Vec<Value> =
        topics[&*taker].iter().map(|message| serde_json::from_slice(&message.data).unwrap()).collect();
    for message in &values {
        let quality = &message["@quality"]["v"];
        assert!(message["v"].is_f64() == quality.is_null() || quality == "held", "{message}");
    }
    let has = |word: &str| values.iter().any(|message| message["@quality"]["v"] == word);
    let last = &values.last().unwrap()["@quality"]["v"];
    assert!(values.iter().any(|message| message["v"].is_f64()), "{what}");
    match worth {
        Worth::Good => assert!(last.is_null(), "{what}"),
        Worth::None => assert!(has("none") && !has("inherited"), "{what}"),
        Worth::Passing(_) => assert!(has("inherited"), "{what}"),
        Worth::Bad(_) | Worth::Refused(_) | Worth::Silent(_) => assert!(last == "inherited", "{what}"),
    }
}

#[test]
fn every_fault_of_a_file_is_the_same_truth_in_every_view() {
    every_fault_of(Source::File);
}

#[test]
fn every_fault_of_a_program_is_the_same_truth_in_every_view() {
    if !crate::program::works(Command::new("python3")) {
        return skip("there is no python3");
    }
    every_fault_of(Source::Program);
}

#[cfg(feature = "plugin")]
#[test]
fn every_fault_of_a_library_is_the_same_truth_in_every_view() {
    every_fault_of(Source::Library);
}
