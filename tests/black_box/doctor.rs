//! `hertzd doctor` with a single right missing: it names that right, and the line that it prints fixes it. The systemd units are tested in
//! tests/system.

use crate::program;
use crate::program::{HERTZD, copy_program, is_root, pause, skip};
use hertzd::time::Span;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const CONFIG: &str = "[worker.main]\npriority = 7\n[task.a]\nkind = \"load\"\nrate = 100\nrun = \"10us\"\n";

/// An ordinary user, with both capabilities as a service gets them.
const USER: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";

/// A folder that everyone can read, with the program and a configuration in it.
struct Place(TempDir);

impl Place {
    fn new(config: &str) -> Self {
        Self::with(config, false)
    }

    fn with(config: &str, own_program: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(folder.path());
        // Use a copy if the line that fixes it changes the file itself.
        let program = folder.path().join("hertzd");
        if own_program || fs::hard_link(HERTZD, &program).is_err() {
            copy_program(&program);
        }
        let config = config.replace("@HERE@", folder.path().to_str().unwrap());
        fs::write(folder.path().join("test.toml"), config).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The output of a shell that runs `before` and then, by `prefix`, the program.
    fn run(&self, before: &str, prefix: &str, options: &str) -> Output {
        let (program, config) = (self.path("hertzd"), self.path("test.toml"));
        let line = format!("{before}\nexec {prefix} {} doctor {} {options}", program.display(), config.display());
        Command::new("sh").args(["-ec", &line]).stdin(Stdio::null()).output().unwrap()
    }

    fn report(&self, before: &str, prefix: &str) -> Report {
        let output = self.run(before, prefix, "--json");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let works = report["works"].as_bool().unwrap();
        assert_eq!(output.status.code(), Some(if works { 0 } else { 1 }), "{report}");
        Report(report)
    }

    /// Only `about` fails, and the line for `place` fixes it. Returns the first report.
    fn is_mended(&self, before: &str, prefix: &str, about: &str, place: &str) -> Report {
        let broken = self.report(before, prefix);
        assert_eq!(broken.fails(), [about], "{}", broken.0);
        let line = broken.line(about, place);
        let mended = self.run_line(&line);
        let report = self.report(before, prefix);
        assert_eq!(report.fails(), [""; 0], "{line}: {mended:?}: {}", report.0);
        assert_valid(&[&broken.0, &report.0]);
        broken
    }

    /// Runs a line as a shell user would; root runs it as root.
    fn run_line(&self, line: &str) -> Output {
        let output = Command::new("sh").args(["-ec", &line.replace("sudo ", "")]).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        output
    }
}

struct Report(Value);

impl Report {
    fn findings(&self) -> impl Iterator<Item = &Value> {
        self.0["findings"].as_array().unwrap().iter()
    }

    fn fails(&self) -> Vec<&str> {
        self.findings()
            .filter(|finding| finding["weight"] == "fails")
            .map(|finding| finding["about"].as_str().unwrap())
            .collect()
    }

    fn line(&self, about: &str, place: &str) -> String {
        let mut lines = self
            .findings()
            .filter(|finding| finding["about"] == about && finding["weight"] == "fails")
            .flat_map(|finding| finding["mend"].as_array().unwrap());
        let line = lines.find(|mend| mend["for"] == place).unwrap_or_else(|| panic!("no line for {place}: {}", self.0));
        line["line"].as_str().unwrap().to_owned()
    }
}

/// The schema in docs accepts these reports, and rejects others.
fn assert_valid(reports: &[&Value]) {
    const VALIDATOR: &str = "import json, sys\nfrom jsonschema_rs import Draft202012Validator as V\nschema, reports = json.load(sys.stdin)\n\
        v = V(schema)\nprint(json.dumps([[e.message[:300] for e in v.iter_errors(r)] for r in reports]))";
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/doctor.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    if !Command::new("python3")
        .args(["-c", "import jsonschema_rs"])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        program::emulation::say_skipped("python3 has no package jsonschema-rs");
        return;
    }
    let mut wrong = reports[0].clone();
    wrong["findings"][0]["weight"] = json!("bad");
    let all: Vec<&Value> = reports.iter().copied().chain([&wrong]).collect();
    let mut python = Command::new("python3");
    let mut child = python.args(["-c", VALIDATOR]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(json!([schema, all]).to_string().as_bytes()).unwrap();
    let refused: Vec<Vec<String>> = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    let (last, right) = refused.split_last().unwrap();
    assert!(right.iter().all(Vec::is_empty) && !last.is_empty(), "{refused:?}");
}

/// Whether this test can give rights to an ordinary user and take them away.
fn can_set_rights() -> bool {
    let works = is_root()
        && Command::new("sh")
            .args(["-c", &format!("{} true", with("+sys_nice,+ipc_lock"))])
            .status()
            .is_ok_and(|status| status.success());
    if !works {
        skip("only root, with setpriv and the capabilities, can give and take rights");
    }
    works
}

/// The ordinary user with these capabilities.
fn with(capabilities: &str) -> String {
    format!("{USER} --inh-caps={capabilities} --ambient-caps={capabilities}")
}

#[test]
fn without_a_priority_or_locked_memory_the_file_is_given_the_capability() {
    if !can_set_rights() {
        return;
    }
    for (capabilities, about) in [("+ipc_lock", "policy"), ("+sys_nice", "memory")] {
        let place = Place::with(CONFIG, true);
        let limits = "ulimit -l 64; ulimit -r 0 2>/dev/null || :";
        let report = place.is_mended(limits, &with(capabilities), about, "shell");
        assert!(report.line(about, "login").starts_with("USER - "), "{}", report.0);
    }
}

#[test]
fn a_file_that_may_not_be_read_is_named_with_what_opens_it() {
    if !can_set_rights() {
        return;
    }
    let config = format!("{CONFIG}[task.secret]\nkind = \"sensor\"\nrate = 1\npath = \"@HERE@/in/value\"\n");
    let place = Place::new(&config);
    fs::create_dir(place.path("in")).unwrap();
    fs::write(place.path("in/value"), "5\n").unwrap();
    let mode = |name, mode| fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    let user = with("+sys_nice,+ipc_lock");
    mode("in", 0o755);
    mode("in/value", 0o600);
    assert_eq!(place.report("", "").fails(), [""; 0], "root may");
    let report = place.is_mended("", &user, "devices", "shell");
    assert!(report.0.to_string().contains("task.secret: "), "{}", report.0);
    mode("in", 0o700);
    place.is_mended("", &user, "devices", "shell");
}

/// A control group for the test; removed on drop, when it is empty.
struct Group(PathBuf);

impl Group {
    /// Creates it in the hierarchy of this controller of the first version, if one exists with this file.
    fn new(controller: &str, file: &str) -> Option<Self> {
        let folder = PathBuf::from(format!("/sys/fs/cgroup/{controller}/hertzd-doctor-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        group.0.join(file).exists().then_some(group)
    }

    fn enter(&self) -> String {
        format!("echo $$ >{}/cgroup.procs", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel releases ended processes a little later.
        while fs::remove_dir(&self.0).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)) {
            pause(Span::from_millis(1));
        }
    }
}

#[test]
fn a_control_group_without_realtime_bandwidth_is_named() {
    let Some(group) = Group::new("cpu", "cpu.rt_runtime_us") else {
        program::emulation::say_skipped(
            "this kernel has no real-time bandwidth for groups, or this user may not make one",
        );
        return;
    };
    // The machine has a single supply of bandwidth. The tests of the policy "deadline" lock the same file.
    let alone = fs::File::open("/proc/sys/kernel/sched_rt_runtime_us").unwrap();
    alone.lock().unwrap();
    let place = Place::new(CONFIG);
    place.is_mended(&group.enter(), "", "policy", "shell");
}

#[test]
fn a_cpuset_without_the_cpu_is_named() {
    let Some(group) = Group::new("cpuset", "cpuset.cpus") else {
        program::emulation::say_skipped("there is no cpuset here in which this user could make a group");
        return;
    };
    let read = |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/cpuset/{file}")).unwrap();
    let set = |file: &str, text: &str| fs::write(group.0.join(file), text).unwrap();
    set("cpuset.mems", &read("cpuset.effective_mems"));
    if read("cpuset.effective_cpus").trim() != "0-1" {
        program::emulation::say_skipped("this test knows machines with two CPUs only");
        return;
    }
    set("cpuset.cpus", "0");
    let pinned = CONFIG.replace("priority", "cpu = 1\npriority");
    let place = Place::new(&pinned);
    let report = place.is_mended(&group.enter(), "", "cpus", "shell");
    // The other line, in the configuration.
    set("cpuset.cpus", "0");
    let other = Place::new(&pinned.replace("cpu = 1", &report.line("cpus", "configuration")));
    assert_eq!(other.report(&group.enter(), "").fails(), [""; 0]);
}

#[test]
fn the_text_says_the_same_and_fits_a_terminal() {
    let place = Place::new(CONFIG);
    let report = place.report("", "");
    assert_valid(&[&report.0]);
    let text = String::from_utf8(place.run("", "", "").stdout).unwrap();
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains(report.0["verdict"].as_str().unwrap()), "{text}");
    for finding in report.findings() {
        // Leave out what changes from one reading to the next.
        let tried = finding["tried"].as_str().unwrap();
        let is_whole = !matches!(finding["weight"].as_str(), Some("well" | "unseen"));
        assert!(
            !is_whole || joined.contains(&tried.split_whitespace().collect::<Vec<_>>().join(" ")),
            "{tried}: {text}"
        );
        assert!(text.contains(finding["about"].as_str().unwrap()), "{text}");
    }
    // Only lines to be copied are longer; each stands by itself.
    let long = text.lines().find(|line| line.chars().count() > 80 && !line.starts_with("             "));
    assert_eq!(long, None);
    let all = String::from_utf8(place.run("", "", "--all").stdout).unwrap();
    assert_eq!(all.matches("  tried    ").count(), report.findings().count(), "{all}");
}

#[test]
fn a_deadline_that_cannot_hold_and_a_wrong_configuration_are_no_success() {
    let place = Place::new(&CONFIG.replace("10us", "12ms"));
    let output = place.run("", "", "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("CANNOT WORK  deadlines"), "{text}");
    let place = Place::new(&CONFIG.replace("rate = 100", "rate = 0"));
    let output = place.run("", "", "");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(78) && text.ends_with("nothing was tried\n"), "{text}");
}
