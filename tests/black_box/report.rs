//! `hertzd report`: the page has the counts of its source, whatever the source is, stays small, and escapes all text.

use crate::program;
use crate::program::{HERTZD, Running, count, run_in, task};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// `hog` delays `fast` every third of a second, for several of its releases.
const CONFIG: &str = "[worker.main]\npolicy = \"other\"\n\
    [task.fast]\nkind = \"load\"\nworker = \"main\"\nrate = \"1 kHz\"\nmax-missed = \"100%\"\nrecord = \"@HERE@/ticks.mcap\"\n\
    [task.hog]\nkind = \"load\"\nworker = \"main\"\nperiod = \"300ms\"\nrun = \"7ms\"\nmax-missed = \"100%\"\nrecord = \"@HERE@/ticks.mcap\"\n";

/// The counts that every page shows for a task.
const COUNTS: [&str; 6] = ["due", "met", "missed", "ran", "skipped", "overruns"];

/// A long name that contains markup and changes the direction of text.
fn hostile() -> String {
    format!("<script>alert('x')</script>\"&\u{202e}\u{7}عربي{}", "n".repeat(200))
}

fn report(args: &[&str], folder: &Path) -> Output {
    Command::new(HERTZD).arg("report").args(args).current_dir(folder).output().unwrap()
}

/// The page that `report` makes from this source, and its JSON.
fn page(source: &[&str], folder: &Path) -> (String, Value) {
    let output = report(&[source, &["-o", "r.html", "--force", "--json"]].concat(), folder);
    assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
    (fs::read_to_string(folder.join("r.html")).unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

/// The `data-…` attributes of each element that has the first of them.
fn elements(page: &str, first: &str) -> Vec<BTreeMap<String, String>> {
    let marked = page.split('<').filter(|element| element.contains(&format!(" data-{first}=\"")));
    let attributes = |element: &str| {
        let pairs = element.split(" data-").skip(1).filter_map(|part| part.split_once("=\""));
        pairs.map(|(name, rest)| (name.to_owned(), rest.split('"').next().unwrap().to_owned())).collect()
    };
    marked.map(attributes).collect()
}

/// The counts of each task, in the order of the page.
fn counts(page: &str) -> Vec<(String, Vec<u64>)> {
    let of = |row: BTreeMap<String, String>| {
        let counts = COUNTS.iter().map(|name| row[*name].parse().unwrap()).collect();
        (row["task"].clone(), counts)
    };
    elements(page, "task").into_iter().map(of).collect()
}

fn counts_of(summary: &Value) -> Vec<(String, Vec<u64>)> {
    let tasks = summary["tasks"].as_array().unwrap();
    tasks
        .iter()
        .map(|task| (task["task"].as_str().unwrap().into(), COUNTS.map(|name| count(task, name)).into()))
        .collect()
}

/// Missed releases of each cause.
fn causes(page: &str) -> BTreeMap<String, u64> {
    let rows = elements(page, "cause").into_iter();
    rows.map(|row| (row["cause"].clone(), row["count"].parse().unwrap())).collect()
}

fn causes_of(summary: &Value) -> BTreeMap<String, u64> {
    let mut causes = BTreeMap::new();
    for task in summary["tasks"].as_array().unwrap() {
        for (cause, count) in task["causes"].as_object().unwrap() {
            *causes.entry(cause.clone()).or_default() += count.as_u64().unwrap();
        }
    }
    causes
}

fn daemon(folder: tempfile::TempDir, args: &[&str]) -> Running {
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    run_in(folder, command, CONFIG, args)
}

#[test]
fn every_source_of_one_run_shows_the_same_counts() {
    let ended = daemon(tempfile::tempdir().unwrap(), &["--for", "2s", "--json"]).wait();
    let (summary, folder) = (ended.summary(), ended.folder.path());
    fs::write(folder.join("s.json"), &ended.stdout).unwrap();
    let (html, json) = page(&["s.json"], folder);
    assert_eq!(counts(&html), counts_of(&summary));
    assert_eq!(causes(&html), causes_of(&summary));
    assert_eq!(json["run"]["tasks"][0]["counts"]["due"], summary["tasks"][0]["due"]);
    for sentence in ["A summary does not show lateness over time.", "A summary does not list single misses"] {
        assert!(html.contains(sentence), "{sentence}");
    }

    // Records that a busy machine dropped are only in the counts.
    let whole = count(&summary["records"], "dropped") == 0 && count(&summary["flight"], "lost") == 0;
    let (html, json) = page(&["flight"], folder);
    let told: u64 = counts(&html).iter().map(|(_, counts)| counts[2]).sum();
    assert_eq!(causes(&html).values().sum::<u64>(), told, "each missed release has one cause");
    if whole {
        assert_eq!(counts(&html), counts_of(&summary));
        assert_eq!(causes(&html), causes_of(&summary));
        let over_time = json["run"]["tasks"][0]["over_time"].as_array().unwrap();
        let sum = |key: &str| over_time.iter().map(|bin| count(bin, key)).sum::<u64>();
        let fast = task(&summary, "fast");
        assert_eq!(
            (sum("due"), sum("missed"), sum("ticks")),
            (count(fast, "due"), count(fast, "missed"), count(fast, "ran"))
        );
        if count(fast, "missed") > 0 {
            assert_eq!(elements(&html, "missed").iter().filter(|row| row.len() == 1).count().min(1), 1, "a worst miss");
            assert!(html.contains("after its release, ran for") && html.contains("Cause: "), "its story");
        }
    }

    let output = report(&["flight", "-o", "f.html", "--fail-if", "fast.due >= 1"], folder);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("hertzd: not well: --fail-if 'fast.due >= 1': fast.due is "), "{said}");
    assert!(folder.join("f.html").exists(), "the page is written all the same");
    let output = report(&["s.json", "--fail-if", "fats.due > 1"], folder);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean \"fast\"?"));

    if cfg!(feature = "mcap") {
        let (html, _) = page(&["ticks.mcap"], folder);
        if whole && count(&task(&summary, "fast")["recorded"], "lost") == 0 {
            let told = |counts: Vec<(String, Vec<u64>)>| counts.into_iter().collect::<BTreeMap<_, _>>();
            let (html, summary) = (told(counts(&html)), told(counts_of(&summary)));
            // Releases skipped after a task's last tick are in no tick.
            for (name, of_summary) in &summary {
                assert_eq!(
                    (html[name][3], html[name][5]),
                    (of_summary[3], of_summary[5]),
                    "ran and overruns of {name}"
                );
            }
        }
        assert!(html.contains("A recording does not say which machine it was made on."));
        let ran = |page: &str| counts(page).iter().map(|(_, counts)| counts[3]).sum::<u64>();
        let (part, _) = page(&["ticks.mcap", "--from", "1ms", "--for", "1m"], folder);
        assert!(ran(&part) <= ran(&html), "{} of {}", ran(&part), ran(&html));
        assert!(part.contains("This is a part of the recording: from 1.00 ms after its first tick, for 60.0 s."));
        let output = report(&["flight", "-o", "part.html", "--for", "1s"], folder);
        assert_eq!(output.status.code(), Some(64));
        assert!(String::from_utf8_lossy(&output.stderr).contains("this is no MCAP file"));
        let output = report(&["-", "-o", "part.html", "--for", "1s"], folder);
        assert_eq!(output.status.code(), Some(64));
        assert!(String::from_utf8_lossy(&output.stderr).contains("none is read from standard input: name a file"));
        let output = report(&["ticks.mcap", "--fail-if", "any.errors > 100000000"], folder);
        assert_eq!(output.status.code(), Some(1), "what is not available cannot be judged");
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be judged: this run has no errors"));
    }
}

#[test]
fn a_running_daemon_is_asked() {
    let mut daemon = daemon(tempfile::tempdir().unwrap(), &[]);
    let snapshot = |running: &Running| {
        let args = ["status", "--json", "--socket", "status.sock"];
        let output = Command::new(HERTZD).args(args).current_dir(running.folder()).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout)
            .ok()
            .filter(|snapshot| snapshot["tasks"].as_array().is_some_and(|tasks| tasks.len() == 2))
    };
    daemon.wait_for("its tasks are there", |running| snapshot(running).is_some());
    let mut pages = Vec::new();
    daemon.wait_for("a snapshot before and after a report", |running| {
        let Some(before) = snapshot(running) else { return false };
        let output = report(&["--socket", "status.sock", "-o", "r.html"], running.folder());
        // On a machine too busy to answer, it reports that.
        assert!(matches!(output.status.code(), Some(0 | 69)), "{}", String::from_utf8_lossy(&output.stderr));
        let Some(after) = snapshot(running).filter(|_| output.status.success()) else { return false };
        pages.push((before, fs::read_to_string(running.folder().join("r.html")).unwrap(), after));
        true
    });
    let (before, html, after) = pages.remove(0);
    for ((name, counts), (before, after)) in counts(&html).iter().zip(counts_of(&before).iter().zip(&counts_of(&after)))
    {
        assert_eq!((name, name), (&before.0, &after.0));
        assert!(before.1[0] <= counts[0] && counts[0] <= after.1[0], "due of {name}: {before:?} {counts:?} {after:?}");
    }
    assert!(html.contains("The daemon says: ") && html.contains("does not show lateness over time"));
}

#[test]
fn a_page_of_hundreds_of_tasks_is_small_and_takes_no_name_for_markup() {
    let folder = tempfile::tempdir().unwrap();
    let tasks: Vec<_> = (0..256_u64)
        .map(|index| {
            let bounds = (0..7).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i64.pow(3 + power))).collect::<Vec<_>>();
            let at_most: Vec<_> = (0..19).map(|step| json!([bounds[step], step + 1])).collect();
            let mut times = json!({"count": 20, "min": 5, "p50": 80, "p90": 90, "p99": 900, "p99_9": 5_000, "p99_99": 9_000});
            (times["max"], times["at_most"]) = (4_000_000_000_i64.into(), at_most.into());
            let mut task = json!({"task": format!("{index} {}", hostile()), "worker": hostile(), "rate": "1000/1", "state": hostile()});
            for (key, value) in [("due", index + 9), ("met", 9), ("missed", index), ("pending", 0), ("ran", 9)] {
                task[key] = value.into();
            }
            for (key, value) in [("skipped", index), ("overruns", 0), ("errors", 0)] {
                task[key] = value.into();
            }
            (task["lateness_ns"], task["run_ns"]) = (times.clone(), times);
            (task["causes"], task["blockers"]) = (json!({"blocked": index}), json!({hostile(): index}));
            task
        })
        .collect();
    let summary = json!({"version": 1, "well": false, "reason": hostile(), "host": {"kernel": hostile()}, "workers": [], "tasks": tasks});
    fs::write(folder.path().join("s.json"), summary.to_string()).unwrap();
    let (html, _) = page(&["s.json"], folder.path());
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    let rows = counts(&html);
    assert_eq!((rows.len(), html.matches("<figure>").count()), (256, 256), "a row and a histogram of each");
    assert_eq!(rows.iter().map(|(_, counts)| counts[2]).sum::<u64>(), 255 * 256 / 2);
    assert!(!html.contains("<script") && !html.contains('\u{202e}') && !html.contains('\u{7}'));
    assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;\u{fffd}\u{fffd}عربي"));
    // The same with two thousand of them.
    let mut many = summary;
    let one = many["tasks"][200].clone();
    many["tasks"] = (0..2_000).map(|_| one.clone()).collect();
    fs::write(folder.path().join("m.json"), many.to_string()).unwrap();
    let (html, _) = page(&["m.json"], folder.path());
    assert!(
        html.len() < 1_000_000 && html.contains(" of 2000 tasks, so that the page stays small"),
        "{} bytes",
        html.len()
    );
}

/// An MCAP file of these tasks, each with a tick outside any chunk.
fn recording_of(names: impl Iterator<Item = String>) -> Vec<u8> {
    let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    let record = |opcode: u8, body: &[u8]| [&[opcode][..], &(body.len() as u64).to_le_bytes(), body].concat();
    let mut file = b"\x89MCAP0\r\n".to_vec();
    file.extend(record(0x01, &[text(""), text("test")].concat()));
    for (id, name) in (0_u16..).zip(names) {
        let id = id.to_le_bytes();
        let topic = [&id[..], &[0; 2], &text(&format!("{name}/ticks")), &text("json"), &[0; 4]].concat();
        let tick = br#"{"n":0,"run_ns":1000,"response_ns":2000,"skipped":0,"overrun":false}"#;
        let at = 1_700_000_000_000_000_000_u64.to_le_bytes();
        file.extend([record(0x04, &topic), record(0x05, &[&id[..], &[0; 4], &at, &at, tick].concat())].concat());
    }
    file.extend(record(0x0f, &[0; 4]));
    file
}

/// Anyone may have made the file: reading it takes no longer than its length justifies.
#[test]
fn a_recording_of_very_many_tasks_is_read_in_one_go() {
    const TASKS: usize = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let names = (0..TASKS).map(|task| format!("{}-{task:05}", "long".repeat(40)));
    fs::write(folder.path().join("many.mcap"), recording_of(names)).unwrap();
    let begin = |folder, args: &[&str]| {
        let mut command = Command::new(HERTZD);
        command.args(args).current_dir(tempfile::TempDir::path(&folder));
        program::start(folder, command).wait()
    };
    let ended = begin(folder, &["trace", "many.mcap", "-o", "many.pftrace"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    let ended = begin(ended.folder, &["report", "many.mcap", "-o", "many.html"]);
    assert!(ended.stdout.contains("None of the 20,000 releases of 20000 tasks was missed"), "{}", ended.describe());
}

#[test]
fn two_are_shown_beside_each_other_with_what_is_noise() {
    let folder = tempfile::tempdir().unwrap();
    let summary = |missed: u64, p50: i64| {
        let times = json!({"count": 1_000, "min": 5, "p50": p50, "p90": p50, "p99": 2 * p50, "p99_9": 2 * p50, "max": 3 * p50, "at_most": [[1_000, 900]]});
        let task = json!({"task": "a", "due": 1_000, "met": 1_000 - missed, "missed": missed, "ran": 1_000, "lateness_ns": times, "run_ns": times,
            "causes": {"blocked": missed}, "blockers": {}});
        json!({"version": 1, "well": true, "tasks": [task]}).to_string() + "\n"
    };
    let runs = |name: &str, offset: i64| {
        let text: String =
            [3_i64, 0, 4, 1, 2].map(|more| summary(3 + more.cast_unsigned() % 2, 2_000 + offset + more)).concat();
        fs::write(folder.path().join(name), text).unwrap();
    };
    runs("a.json", 0);
    runs("b.json", 5_000);
    let verdicts = |a: &str, b: &str| {
        let (html, json) = page(&["--compare", a, b], folder.path());
        let rows = elements(&html, "number");
        let verdicts: Vec<_> = rows.iter().map(|row| row["verdict"].clone()).collect();
        (verdicts, json["verdict"].as_str().unwrap().to_owned(), html)
    };
    let (found, verdict, html) = verdicts("a.json", "b.json");
    assert_eq!(found, ["noise", "significant", "significant"]);
    assert_eq!(
        verdict,
        "2 of the 3 numbers that were judged differ by more than the noise: lateness p50 of a, lateness p99 of a."
    );
    assert!(
        html.contains("data-due-a=\"1000\" data-due-b=\"1000\" data-missed-a=\"3\"")
            && html.contains("one of 126 comparisons")
    );
    assert_eq!(verdicts("a.json", "a.json").0, ["noise"; 3]);
    fs::write(folder.path().join("one.json"), summary(0, 900)).unwrap();
    let (found, verdict, html) = verdicts("one.json", "b.json");
    assert_eq!(found, ["not judged"; 3]);
    assert!(verdict.contains("fewer than five rounds") && html.contains("It is a single round"), "{verdict}");
    let output = report(&["--compare", "a.json", "b.json", "--fail-if", "a.lateness.p50 > 5us"], folder.path());
    assert_eq!(output.status.code(), Some(1), "B is judged");
    let output =
        report(&["--compare", "b.json", "a.json", "--force", "--fail-if", "a.lateness.p50 > 5us"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_cannot_be_read_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.json"), "hello").unwrap();
    fs::write(folder.path().join("x.csv"), "n,release\n").unwrap();
    fs::write(folder.path().join("s.json"), "{\"version\":1,\"tasks\":[]}").unwrap();
    for (args, code, said) in [
        (&["none"][..], 64, "none: No such file or directory"),
        (&["x.json"], 64, "x.json: neither a flight file, nor an MCAP recording, nor a summary"),
        (&["x.csv"], 64, "x.csv: "),
        (&["s.json", "-o", "no/r.html"], 64, "-o no/r.html: cannot write there: No such file or directory"),
        (&["s.json", "-o", "-", "--json"], 64, "both write to standard output"),
        (&["--socket", "none.sock"], 69, "none.sock"),
    ] {
        let output = report(args, folder.path());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && stderr.contains(said), "{args:?}: {:?}: {stderr}", output.status);
    }
    // A pipe is read once, from its start.
    let summary = Command::new(HERTZD).args(["run", "--for", "100ms", "--json"]).output().unwrap().stdout;
    fs::write(folder.path().join("run.json"), &summary).unwrap();
    let (from, to) = (fs::File::open(folder.path().join("run.json")).unwrap(), folder.path().join("piped.html"));
    let piped = Command::new("sh")
        .args(["-c", &format!("cat | {HERTZD} report /dev/stdin -o {}", to.display())])
        .stdin(from)
        .output()
        .unwrap();
    assert!(piped.status.success() && to.exists(), "{piped:?}");
    let output = report(&["/dev/null"], folder.path());
    assert!(String::from_utf8_lossy(&output.stderr).contains("`hertzd run --json > FILE` writes one"), "{output:?}");
    let output = report(&["s.json", "-o", "-"], folder.path());
    assert!(
        output.status.success()
            && output.stdout.starts_with(b"<!DOCTYPE html>")
            && output.stdout.ends_with(b"</html>\n")
    );
}

#[test]
fn no_command_writes_over_what_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let summary = Command::new(HERTZD).args(["run", "--for", "100ms", "--json"]).output().unwrap().stdout;
    fs::write(folder.path().join("s.json"), &summary).unwrap();
    std::os::unix::fs::symlink("s.json", folder.path().join("link")).unwrap();
    let hertzd = |line: &str| {
        let line = format!("{HERTZD} {line}");
        Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap()
    };
    for line in [
        "report s.json -o s.json",
        "report s.json -o link --force",
        "report - -o s.json --force <s.json",
        "report --compare s.json s.json -o ./s.json --force",
        "trace s.json -o s.json --force",
        "measure --for 1s --against s.json --save s.json --force",
        "simulate --oversleep s.json --csv link --force",
    ] {
        let output = hertzd(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{line}: {said}");
        assert!(fs::read(folder.path().join("s.json")).unwrap() == summary, "{line}: {said}");
        let is_read_first = line.starts_with("measure") || line.starts_with("simulate");
        assert!(said.contains("this command reads that file") || is_read_first, "{line}: {said}");
    }
    let asked = "it exists already; add --force to replace it";
    fs::write(folder.path().join("old.html"), "old").unwrap();
    let said = String::from_utf8_lossy(&hertzd("report s.json -o old.html").stderr).into_owned();
    assert!(said.contains(asked), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("old.html")).unwrap(), "old");
    assert!(hertzd("report s.json -o old.html --force").status.success());
    assert!(fs::read_to_string(folder.path().join("old.html")).unwrap().starts_with("<!"));
    for line in
        ["report s.json -o /dev/stdout | cat", "report s.json -o /dev/stdout >page", "report s.json -o /dev/null"]
    {
        let output = hertzd(line);
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
    }
}
