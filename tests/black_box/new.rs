//! `hertzd new`: the project that it writes builds offline, passes its own tests, runs under its own name, and matches the page "Your own
//! daemon". If something cannot be written, nothing is.

use crate::program::emulation;
use crate::program::emulation::{NO_RUST, cannot_be_emulated};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NAME: &str = "fly-wheel";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn hertzd(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hertzd"));
    command.arg("new").args(args).current_dir(folder).env_remove("HERTZD_LOG").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    stdout
}

/// Every file below the folder, by its relative path.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                all.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    all
}

/// A place where a text names hertzd but means this program, as in advice on a command.
fn names_hertzd(text: &str) -> Option<&str> {
    let is_hertzd = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_' && c != '/');
        matches!(word, "hertzd" | "hertzd's" | "hertzd(8" | "hertzd.toml(5") || word.contains("/hertzd")
    };
    // Plugins are for every daemon built on hertzd.
    let of_all = |line: &str| line.replace("/usr/lib/hertzd/plugins", "");
    text.lines().find(|line| of_all(line).split_whitespace().any(is_hertzd))
}

#[test]
fn the_project_builds_offline_passes_its_tests_and_runs_by_its_own_name() {
    if cannot_be_emulated(NO_RUST) {
        return;
    }
    let Some(cargo) = std::env::var_os("CARGO") else {
        emulation::say_skipped("needs cargo; run this with `cargo test`");
        return;
    };
    // The same folder every time, so that only the project itself is rebuilt.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new");
    let own = folder.join(NAME);
    let _ = fs::remove_dir_all(&own);
    fs::create_dir_all(&folder).unwrap();
    let output = hertzd(&folder, &[NAME, "--hertzd", root().to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        said.contains(&format!("it depends on hertzd {} in {}", env!("CARGO_PKG_VERSION"), root().display())),
        "{said}"
    );
    assert!(said.contains("cargo test") && said.contains("cargo run --release -- run --for 5s"), "{said}");
    let written = files(&own);
    assert!(said.contains(&format!("wrote {} files", written.len())), "{said}");
    assert_eq!(fs::metadata(own.join("package")).unwrap().permissions().mode() & 0o100, 0o100);

    // A single build, with the profile of these tests: dependencies that are built already are used.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let of_project = |args: &[&str]| {
        let mut command = Command::new(&cargo);
        command.args(args).current_dir(&own).env("CARGO_TARGET_DIR", target);
        command
    };
    let tested = succeeds(&mut of_project(&["test", "--offline", "--quiet"]));
    assert!(tested.contains("test result: ok. 3 passed"), "{tested}");
    // No version was resolved again: the project's lock file has the checkout's versions.
    let versions = |text: &str| -> Vec<(String, String)> {
        let lock: toml::Table = toml::from_str(text).unwrap();
        let word = |package: &toml::Value, key: &str| package[key].as_str().unwrap().to_owned();
        lock["package"]
            .as_array()
            .unwrap()
            .iter()
            .map(|package| (word(package, "name"), word(package, "version")))
            .collect()
    };
    let locked = versions(&fs::read_to_string(root().join("Cargo.lock")).unwrap());
    for package in versions(&fs::read_to_string(own.join("Cargo.lock")).unwrap()) {
        assert!(package.0 == NAME || locked.contains(&package), "{package:?}");
    }
    if has("cargo-clippy") {
        succeeds(&mut of_project(&["clippy", "--offline", "--all-targets", "--quiet", "--", "-D", "warnings"]));
    }

    let runtime = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(target.join("debug").join(NAME));
        command.args(args).current_dir(&own).env("XDG_RUNTIME_DIR", runtime.path());
        command.env_remove("HERTZD_LOG").env_remove("RUNTIME_DIRECTORY").output().unwrap()
    };
    let config = format!("config/{NAME}.toml");
    let checked = run(&["check", "--no-open", &config]);
    assert!(checked.status.success(), "{checked:?}");
    let ran = run(&["run", &config, "--for", "200ms", "--json", "--log-format", "json", "--log-level", "debug"]);
    assert!(ran.status.success(), "{ran:?}");
    let summary: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let wheel = &summary["tasks"][0];
    assert_eq!((&wheel["task"], &wheel["due"], &wheel["errors"]), (&"wheel".into(), &200.into(), &0.into()));
    assert_eq!(wheel["ran"].as_u64().unwrap() + wheel["skipped"].as_u64().unwrap(), 200);
    assert!(runtime.path().join(NAME).is_dir() && !runtime.path().join("hertzd").exists());
    for line in text(&ran.stderr).lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_eq!(names_hertzd(entry["message"].as_str().unwrap()), None);
    }
    if Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        // Without a folder of root's, on a private /run.
        let script = "mount -t tmpfs none /run && \"$0\" run \"$1\" --for 100ms && ls /run";
        let mut root = Command::new("unshare");
        root.args(["--mount", "sh", "-c", script]).arg(target.join("debug").join(NAME)).arg(&config).current_dir(&own);
        let made = succeeds(root.env_remove("XDG_RUNTIME_DIR").env_remove("RUNTIME_DIRECTORY"));
        assert_eq!(made.lines().last(), Some("fly-wheel-root"), "{made}");
    }
    says_its_own_name(&run);

    let made = own.join("generated");
    assert!(run(&["generate", made.to_str().unwrap()]).status.success());
    let pages: Vec<_> = files(&made).into_keys().collect();
    assert_eq!(
        pages,
        [
            format!("_{NAME}"),
            format!("{NAME}.8"),
            format!("{NAME}.bash"),
            format!("{NAME}.fish"),
            format!("{NAME}.toml.5")
        ]
    );
    for (name, page) in files(&made) {
        let page = page.replace("\\-", "-");
        let page: String = page.lines().filter(|line| !line.starts_with(".TH")).collect::<Vec<_>>().join("\n");
        assert_eq!(names_hertzd(&page), None, "{name}");
    }
}

/// Whether this cargo tool exists; if not, prints that.
fn has(tool: &str) -> bool {
    let there = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        emulation::say_skipped(&format!("there is no {tool}"));
    }
    there
}

/// In help, advice and errors.
fn says_its_own_name(run: &dyn Fn(&[&str]) -> Output) {
    let version = text(&run(&["--version"]).stdout);
    assert_eq!(version, format!("{NAME} 0.1.0 (hertzd {})\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(text(&run(&["version"]).stdout), version);
    let help = text(&run(&["--help"]).stdout);
    let list = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let commands: Vec<_> = list.lines().filter(is_name).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"run") && !commands.contains(&"new"), "{commands:?}");
    for command in commands.iter().copied().filter(|command| *command != "help") {
        let help = text(&run(&[command, "--help"]).stdout);
        assert!(help.contains(&format!("Usage: {NAME} {command}")), "{help}");
        assert_eq!(names_hertzd(&help), None, "{command}");
    }
    assert_eq!(names_hertzd(&help), None);
    for (args, says) in [
        (&["status"][..], "no daemon answers at /run/fly-wheel/status.sock"),
        (&["my.toml"], "Usage: fly-wheel <COMMAND>"),
        (&["reload", "-c", "my.toml"], "Usage: fly-wheel reload"),
        (&["check", "/nonexistent"], "/nonexistent"),
        (&["report", "/dev/null"], "`fly-wheel run --json > FILE` writes one"),
    ] {
        let output = run(args);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{args:?}: {said}");
        assert_eq!(names_hertzd(&said), None, "{args:?}");
    }
    let schema: Value = serde_json::from_slice(&run(&["schema"]).stdout).unwrap();
    assert!(schema.to_string().contains("\"setpoint\"") && schema["title"] == "fly-wheel configuration");
    assert_eq!(names_hertzd(&serde_json::to_string_pretty(&schema).unwrap()), None);
}

/// An empty folder for a project.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}

#[test]
fn what_cannot_be_written_is_refused_and_nothing_is_written() {
    let (_folder, at) = place();
    fs::create_dir_all(at.join("full/src")).unwrap();
    fs::write(at.join("a-file"), "mine").unwrap();
    symlink("nowhere", at.join("dangling")).unwrap();
    fs::create_dir(at.join("other")).unwrap();
    fs::write(at.join("other/Cargo.toml"), "[package]\nname = \"other\"\nversion = \"1.0.0\"\n").unwrap();
    fs::create_dir(at.join("broken")).unwrap();
    fs::write(at.join("broken/Cargo.toml"), "[package\n").unwrap();
    fs::create_dir_all(at.join("killed/.hertzd-new-77/src")).unwrap();
    let before = (files(&at), fs::read_dir(&at).unwrap().count());
    for (args, says) in [
        (&["full"][..], "full is not empty; nothing was written"),
        (&["killed"], "; killed/.hertzd-new-77 is what is left of a `hertzd new` that was killed, and can be deleted"),
        (&["a-file"], "a-file cannot be the project's folder"),
        (&["dangling"], "dangling cannot be the project's folder"),
        (&["away/flywheel"], "there is no folder away for away/flywheel"),
        (&["My_Daemon"], "lower-case letters, digits and hyphens only; "),
        (&["My_Daemon"], "such as --name my-daemon"),
        (&["flywheel", "--name", "1st"], "--name \"1st\" cannot be the name"),
        (&["flywheel", "--name", "fn"], "it is a word of Rust"),
        (&["flywheel", "--name", "root"], "it is a user or a group of the system"),
        (&["flywheel", "--name", "hertzd"], "a crate of this name is in the way"),
        (&["hertzd-mine"], "names that begin so are hertzd's own"),
        (&["true"], "it is a word of Rust"),
        (&["sleep"], "this machine has a program of this name"),
        (&["flywheel", "--name", ""], "it must have 2 to 31 characters"),
        (&["flywheel", "--hertzd", "away"], "--hertzd away: away/Cargo.toml: No such file"),
        (&["flywheel", "--hertzd", "other"], "this is the crate other, not hertzd"),
        (&["flywheel", "--hertzd", "broken"], "broken/Cargo.toml"),
        (&[], "<DIR>"),
    ] {
        let output = hertzd(&at, args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
        assert_eq!((files(&at), fs::read_dir(&at).unwrap().count()), before, "{args:?}");
    }
}

#[test]
fn a_folder_that_may_not_be_written_to_is_left_as_it_is() {
    let (_folder, at) = place();
    let closed = at.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(closed.join("probe"), "").is_ok() {
        emulation::say_skipped("this user may write everywhere");
        return;
    }
    let output = hertzd(&closed, &["flywheel"]);
    assert_eq!(output.status.code(), Some(70), "{output:?}");
    assert!(text(&output.stderr).contains("Permission denied"), "{output:?}");
}

#[test]
fn an_empty_folder_is_filled_and_an_older_checkout_is_said() {
    let (_folder, at) = place();
    let (checkout, own) = (at.join("an \"old\" one"), at.join("flywheel"));
    fs::create_dir(&checkout).unwrap();
    fs::create_dir(&own).unwrap();
    fs::write(checkout.join("Cargo.toml"), "[package]\nname = \"hertzd\"\nversion = \"0.0.9\"\n").unwrap();
    let args = [".", "--hertzd", checkout.to_str().unwrap()];
    let output = hertzd(&own, &args);
    assert!(output.status.code() == Some(64) && text(&output.stderr).contains("Cargo.lock"), "{output:?}");
    fs::write(checkout.join("Cargo.lock"), "version = 4\n").unwrap();
    let output = hertzd(&own, &args);
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("the daemon flywheel") && said.contains("hertzd 0.0.9 in "),
        "{output:?}"
    );
    assert!(said.contains("the code may not fit"), "{said}");
    let manifest: toml::Table = toml::from_str(&fs::read_to_string(own.join("Cargo.toml")).unwrap()).unwrap();
    assert_eq!(manifest["dependencies"]["hertzd"]["path"].as_str(), checkout.to_str());
    assert_eq!(fs::read_to_string(own.join("Cargo.lock")).unwrap(), "version = 4\n");
    assert!(
        fs::read_dir(&own).unwrap().all(|entry| !entry.unwrap().file_name().to_str().unwrap().starts_with(".hertzd"))
    );
}

/// Outside this repository, which has a different style.
#[test]
fn the_project_has_the_usual_format_whatever_its_name() {
    let Some(cargo) = std::env::var_os("CARGO").filter(|_| has("cargo-fmt")) else { return };
    let (_folder, at) = place();
    for name in ["aa", "a-daemon-with-the-longest-name1"] {
        let output = hertzd(&at, &[name, "--hertzd", root().to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        succeeds(Command::new(&cargo).args(["fmt", "--check"]).current_dir(at.join(name)));
    }
}

/// Blocks of the page that are introduced by a line "`FILE`:" match these files of a project called flywheel.
#[test]
fn the_page_shows_what_is_written() {
    let (_folder, at) = place();
    let output = hertzd(&at, &["flywheel", "--hertzd", root().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let written = files(&at.join("flywheel"));
    let page = fs::read_to_string(root().join("docs/own-daemon.md")).unwrap();
    let mut shown = Vec::new();
    for part in page.split("\n```").collect::<Vec<_>>().chunks_exact(2) {
        let Some(file) = part[0].lines().last().and_then(|line| line.strip_prefix('`')?.strip_suffix("`:")) else {
            continue;
        };
        let block = part[1].split_once('\n').unwrap().1.to_owned() + "\n";
        let text = written.get(file).unwrap_or_else(|| panic!("no {file} is written"));
        let text = text.replace(&format!("\"{}\"", root().display()), "\"../hertzd\"");
        assert!(text == block, "{file} is not what docs/own-daemon.md shows:\n{text}");
        shown.push(file.to_owned());
    }
    assert_eq!(
        shown,
        ["Cargo.toml", "src/motor.rs", "src/lib.rs", "src/main.rs", "config/flywheel.toml", "tests/virtual_clock.rs"]
    );
}
