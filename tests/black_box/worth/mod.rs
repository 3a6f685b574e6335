//! What a value is worth when its source misbehaves: each source × fault × view, generated from three lists. All views show the same truth,
//! and the table in docs/quality.md is made of the same lists. What is not played here is in `tests/system/in-vm/worth.sh`.

mod faults;
mod lists;
mod views;

#[cfg(feature = "plugin")]
use crate::plugin;
use crate::program::{HERTZD, run_in, skip, snapshot, task};
use crate::recorded;
use crate::scraping::Exporter;
use faults::{cause, config};
use lists::{FAULTS, Fault, Source, VIEWS, Worth, wanted};
use serde_json::Value;
use std::fs;
use std::process::Command;
use views::{Since, check, is_shown};

const GOOD: (Fault, Worth) = (Fault::Back, Worth::Good);

fn every_fault_of(source: Source) {
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
    running.wait_for("its first value", |running| is_shown(&snapshot(&running.folder().join("s")), GOOD, 0));
    let exporter = Exporter::start(&socket);
    // Setting the clock is for the virtual machine.
    for fault in FAULTS.into_iter().filter(|fault| *fault != Fault::ClockStep) {
        drop(writer.take());
        let errors = task(&snapshot(&socket), "source")["errors"].as_u64().unwrap();
        let since = Since { logged: running.stderr().len(), errors };
        writer = cause(source, fault, &here);
        let worth = wanted(source, fault);
        for view in VIEWS {
            let what = format!("{source:?}, {fault:?} in {view:?}: {worth:?}");
            running.wait_for(&what, |running| check(view, (fault, worth), since, running, &exporter).is_some());
        }
        // The next fault begins from a good value.
        drop(writer.take());
        writer = cause(source, Fault::Back, &here);
        running
            .wait_for("the value is good again", |running| is_shown(&snapshot(&running.folder().join("s")), GOOD, 0));
    }
    drop(writer.take());
    writer = cause(source, Fault::OutOfRange, &here);
    let last = (Fault::OutOfRange, Worth::Bad("out-of-range"));
    running.wait_for("the last fault", |running| is_shown(&snapshot(&running.folder().join("s")), last, 0));
    running.signal("TERM");
    let ended = running.wait();
    drop(writer);
    assert!(is_shown(&ended.summary(), last, 0), "{}", ended.describe());
    let messages = recorded::messages(&here.join("copy.mcap"));
    let topics = recorded::by_topic(&messages);
    let qualities: Vec<_> =
        topics["copy/values"].iter().map(|message| serde_json::from_slice::<Value>(&message.data).unwrap()).collect();
    for message in &qualities {
        let quality = &message["@quality"]["v"];
        assert!(message["v"].is_f64() == quality.is_null() || quality == "held", "{message}");
    }
    let has = |word: &str| qualities.iter().any(|message| message["@quality"]["v"] == word);
    assert!(has("inherited") && qualities.iter().any(|message| message["v"].is_f64()));
    assert!(source == Source::Program || has("none"), "{source:?}");
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
