//! The hot thread makes no system call except its sleep: the tests count the calls of a worker with `strace`. tests/audio.rs does the same
//! for sound.

use crate::hot_thread::{EDGES, LOAD, assert_at_most_one_sleep_a_release, assert_nothing_else, trace_run};
use crate::program::{at_once, count, task};
use std::fs;

#[test]
fn one_sleep_a_tick_and_nothing_else() {
    at_once(["off", "auto"], |spin| {
        let Some((trace, summary)) = trace_run(spin, "off", LOAD) else {
            return;
        };
        assert_eq!(count(task(&summary, "load"), "due"), 12_000);
        assert_at_most_one_sleep_a_release(&trace, &summary);
        assert_nothing_else(&trace, &["clock_nanosleep"]);
    });
}

#[test]
fn evidence_costs_one_call_a_wake_up_and_more_only_where_something_was_missed() {
    let Some((trace, summary)) = trace_run("off", "wake", LOAD) else {
        return;
    };
    assert_at_most_one_sleep_a_release(&trace, &summary);
    assert_nothing_else(&trace, &["clock_nanosleep", "getrusage", "clock_gettime", "pread64"]);
    let load = task(&summary, "load");
    let missed = count(load, "overruns") + count(load, "skipped");
    let sleeps = trace.count("clock_nanosleep");
    assert!(trace.count("getrusage") + EDGES >= sleeps, "{:?}", trace.calls);
    assert!(trace.count("getrusage") <= sleeps + missed + EDGES, "{missed} missed: {:?}", trace.calls);
    for call in ["clock_gettime", "pread64"] {
        assert!(trace.count(call) <= missed, "{missed} missed: {:?}", trace.calls);
    }
}

#[test]
fn a_sensor_costs_one_read_a_tick_and_an_output_one_write_if_something_changes() {
    let single = "[task.sensor]\nkind = \"sensor\"\nrate = \"1 kHz\"\npath = \"/proc/loadavg\"\n";
    let value = |field: u32| format!("[[task.sensor.value]]\nname = \"{field}\"\nfield = {field}\n");
    // A plain file may be replaced. Checking for that costs the hot thread no call.
    let plain = tempfile::NamedTempFile::new().unwrap();
    fs::write(&plain, "1 2 3\n").unwrap();
    let several = single.replace("/proc/loadavg", plain.path().to_str().unwrap());
    let several = format!("{several}{}{}{}", value(1), value(2), value(3));
    at_once([single, &several], |sensor| {
        let written = tempfile::NamedTempFile::new().unwrap();
        fs::write(&written, "7\n").unwrap();
        let output = format!(
            "[task.output]\nkind = \"output\"\nrate = \"1 kHz\"\ninput = 5\nsafe = 6\nsafe-after = \"1h\"\nwrite = \"always\"\npath = \"{}\"\n",
            written.path().display()
        );
        let unchanged = tempfile::NamedTempFile::new().unwrap();
        fs::write(&unchanged, "7\n").unwrap();
        let unchanged_path = unchanged.path().to_str().unwrap();
        let output = format!(
            "{output}[task.still]\nkind = \"output\"\nrate = \"1 kHz\"\ninput = 5\nsafe = 6\nsafe-after = \"1h\"\npath = \"{unchanged_path}\"\n"
        );
        let Some((trace, summary)) = trace_run("off", "off", &format!("{LOAD}{sensor}{output}")) else {
            return;
        };
        assert_at_most_one_sleep_a_release(&trace, &summary);
        // The output asks how long its file is.
        assert_nothing_else(&trace, &["clock_nanosleep", "pread64", "pwrite64", "lseek"]);
        let of = |name: &str, key: &str| count(task(&summary, name), key);
        assert_eq!(of("sensor", "due"), 12_000);
        for (name, call) in [("sensor", "pread64"), ("output", "pwrite64"), ("output", "lseek")] {
            trace.assert_at_most_one_a_release(call, of(name, "due"), of(name, "ran"));
        }
        assert!(!trace.text.contains(unchanged_path), "an output that has not changed makes no call");
        assert_eq!(fs::read_to_string(&written).unwrap(), "6\n", "the end of the run");
    });
}

/// One program reads every tick and answers none; the other ends repeatedly.
#[test]
fn a_task_that_is_a_program_costs_no_call() {
    let program = |name: &str, script: &str| {
        format!(
            "[task.{name}]\nkind = \"process\"\nrate = \"1 kHz\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n\
             inputs = {{ run = 5 }}\n[[task.{name}.value]]\nname = \"out\"\n"
        )
    };
    let config = format!("{LOAD}{}{}", program("reading", "exec cat <&3 >/dev/null"), program("ending", "sleep 0.1"));
    let Some((trace, summary)) = trace_run("off", "off", &config) else {
        return;
    };
    assert_at_most_one_sleep_a_release(&trace, &summary);
    assert_nothing_else(&trace, &["clock_nanosleep"]);
    let last = |name: &str, value: &str| task(&summary, name)["values"][value]["last"].as_f64().unwrap();
    assert!(last("reading", "missing") > 1_000.0 && last("ending", "restarts") > 1.0, "{summary}");
}
