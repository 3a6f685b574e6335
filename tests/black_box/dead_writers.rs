//! Files whose writer has ended: their values are not used, and it is said.

use crate::program::{HERE, HERTZD, Running, run_in};
use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;

fn config(age: &str) -> String {
    format!(
        "[worker.main]\n[task.oven]\nkind = \"sensor\"\nrate = 100\npath = \"{HERE}/temp\"\n{age}\n[task.heater]\nkind = \"output\"\n\
         rate = 100\ninput = \"oven.value\"\npath = \"{HERE}/heater\"\nsafe = 0\nrecover-after = \"0s\"\nsafe-after = \"1h\"\n"
    )
}

/// hertzd on a file that was written two days ago.
fn start(age: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("heater"), "7\n").unwrap();
    fs::write(folder.path().join("temp"), "42\n").unwrap();
    let temp = File::options().write(true).open(folder.path().join("temp")).unwrap();
    let now = temp.metadata().unwrap().modified().unwrap();
    temp.set_modified(now - Duration::from_secs(2 * 86_400)).unwrap();
    run_in(folder, Command::new(HERTZD), &config(age), &[])
}

fn heater(running: &Running) -> String {
    fs::read_to_string(running.folder().join("heater")).unwrap_or_default()
}

#[test]
fn a_file_whose_writer_has_died_leaves_the_output_safe_until_it_is_written_again() {
    let mut running = start("");
    running.wait_for("it is said", |running| running.stderr().contains(" failed: the file was not written for longer"));
    running.wait_for("the heater is off", |running| heater(running) == "0\n");
    fs::write(running.folder().join("temp"), "42\n").unwrap();
    running.wait_for("it is written again", |running| heater(running) == "42\n");
    running.wait_for("that is said too", |running| running.stderr().contains("/temp is written again, and used"));
    running.signal("TERM");
    let ended = running.wait();
    let path = ended.folder.path().join("temp").display().to_string();
    for said in
        ["max-file-age = \"off\"", &format!("oven: {path} was not written"), &format!("oven: {path} is written again")]
    {
        assert!(ended.stderr.contains(said), "{said}: {}", ended.describe());
    }
}

#[test]
fn a_file_that_a_person_edits_may_be_old_and_check_says_how() {
    let mut running = start("max-file-age = \"off\"");
    running.wait_for("it is used", |running| heater(running) == "42\n");
    let said = |age: &str| {
        let path = running.folder().join("checked.toml");
        fs::write(&path, config(age).replace(HERE, running.folder().to_str().unwrap())).unwrap();
        let output = Command::new(HERTZD).arg("check").arg(&path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let of_file =
        format!("task oven: {}/temp has no value once it was not written for 60.0 s", running.folder().display());
    assert!(said("").contains(&of_file), "{}", said(""));
    assert!(!said("max-file-age = \"90s\"").contains("max-file-age"), "whoever writes it knows it");
    running.signal("TERM");
    running.wait();
}
