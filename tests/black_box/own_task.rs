//! The task of the README's example, pasted into a new crate: it builds, and hertzd's commands run it.

use crate::program::emulation;
use crate::program::emulation::{NO_RUST, cannot_be_emulated};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The block of the README that begins with `start`.
fn block(start: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let blocks: Vec<_> = readme.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect();
    let found = blocks.iter().find(|(_, text)| text.starts_with(start));
    found.unwrap_or_else(|| panic!("no block that begins with {start:?}")).1.to_owned()
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    output
}

#[test]
fn the_readme_shows_the_example() {
    let example = include_str!("../../examples/own_task.rs");
    assert!(
        example.ends_with(&format!("\n\n{}", block("use hertzd::"))),
        "examples/own_task.rs is not the README's block"
    );
}

#[test]
fn the_readmes_example_builds_in_a_new_crate_and_ticks() {
    if cannot_be_emulated(NO_RUST) {
        return;
    }
    let Some(cargo) = std::env::var_os("CARGO") else {
        emulation::say_skipped("needs cargo; run this with `cargo test`");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The same folder every time, so it is rebuilt only after a change.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-task");
    let own = folder.join("wheel");
    fs::create_dir_all(own.join("src")).unwrap();

    let dependencies = block("[dependencies]");
    assert_eq!(dependencies.lines().count(), 3);
    // tests/black_box/new.rs builds hertzd from this path too, so the build is shared.
    assert!(dependencies.contains("path = \"../hertzd\""), "{dependencies}");
    let dependencies = dependencies.replace("../hertzd", root.to_str().unwrap());
    let package = "[package]\nname = \"wheel\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let code = block("use hertzd::");
    fs::write(own.join("Cargo.toml"), format!("{package}\n{dependencies}\n[workspace]\n")).unwrap();
    fs::write(own.join("src/main.rs"), &code).unwrap();
    fs::copy(root.join("Cargo.lock"), own.join("Cargo.lock")).unwrap();

    // Reuses dependencies that are already built.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    succeeds(Command::new(cargo).args(["build", "--offline"]).current_dir(&own).env("CARGO_TARGET_DIR", target));

    let config = code.split("r#\"").nth(1).and_then(|rest| rest.split("\"#").next()).unwrap();
    fs::write(own.join("wheel.toml"), config).unwrap();
    let wheel = |args: &[&str]| succeeds(Command::new(target.join("debug/wheel")).args(args).current_dir(&own));
    wheel(&["check", "wheel.toml"]);
    let ticks = String::from_utf8(wheel(&["simulate", "wheel.toml", "--for", "10ms", "--json"]).stdout).unwrap();
    let summary: Value = serde_json::from_str(ticks.lines().last().unwrap()).unwrap();
    let task = &summary["tasks"][0];
    assert_eq!((&task["task"], &task["ran"]), (&"wheel".into(), &10.into()));
    let schema: Value = serde_json::from_slice(&wheel(&["schema"]).stdout).unwrap();
    assert!(schema.to_string().contains("\"setpoint\""), "{schema}");
}
