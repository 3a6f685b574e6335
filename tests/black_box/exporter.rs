//! `hertzd exporter` beside real daemons: a scrape shows what status shows, over reloads, restarts and clients of any kind.

use crate::program;
use crate::program::{HERTZD, Running, count, pause, run_in, skip, snapshot, task};
use crate::scraping::{Exporter, Samples, samples};
use hertzd::time::Span;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};

/// Misses releases all the time, whatever the machine does.
const FAULTY: &str = "[worker.main]\npolicy = \"other\"\n[task.ctl]\nkind = \"load\"\nrate = 1000\noverrun = \"drop\"\n\
    fault = \"long-run\"\nfault-every = 50\nfault-run = \"5ms\"\nmax-missed = \"100%\"\n\
    [task.\"temp\"]\nkind = \"sensor\"\nrate = 10\npath = \"@HERE@/value\"\nmax-file-age = \"off\"\nname = \"level\"\nunit = \"%\"\nmax-missed = \"100%\"\n";

/// A task of the same name that misses nothing: its only release is due long after the test.
const QUIET: &str =
    "[worker.main]\npolicy = \"other\"\n[task.ctl]\nkind = \"load\"\nperiod = \"10h\"\nmax-missed = \"100%\"\n";

/// A daemon with this configuration; its socket is `s` in its folder.
fn daemon(config: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("value"), "42\n").unwrap();
    let socket = folder.path().join("s");
    let args = ["--json", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), config, &args);
    running.wait_for("it has ticked", |running| snapshot(&running.folder().join("s"))["daemon"]["ready"] == true);
    running
}

/// Reloads with this configuration, and waits until it runs.
fn reload(running: &mut Running, config: &str) {
    let here = running.folder().to_str().unwrap().to_owned();
    fs::write(running.folder().join("test.toml"), config.replace(program::HERE, &here)).unwrap();
    let socket = running.folder().join("s");
    let output = Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The misses of tasks of this name since the daemon started.
fn missed(summary: &Value, name: &str) -> u64 {
    let task = task(summary, name);
    count(task, "missed") + task["before_reload"]["missed"].as_u64().unwrap_or(0)
}

#[test]
fn what_is_scraped_is_what_status_says() {
    let mut running = daemon(FAULTY);
    let socket = running.folder().join("s");
    let exporter = Exporter::start(&socket);
    // Values arrive through another thread than counts.
    let value = "hertzd_task_value{task=\"temp\",value=\"level\",unit=\"%\"}";
    let runs = |samples: &Samples, part: &str| samples[&format!("hertzd_tick_run_seconds_{part}")];
    let long =
        |samples: &Samples| runs(samples, "bucket{task=\"ctl\",le=\"0.002\"}") < runs(samples, "count{task=\"ctl\"}");
    exporter.scrape_until(|samples| samples.contains_key(value) && long(samples));
    // A snapshot may be as old as the time between two scrapes.
    pause(Span::from_millis(300));
    let before = snapshot(&socket);
    // If the machine delays the daemon, there is no answer at first.
    let answered = |fields: &str| {
        exporter.scrape_until(|samples| samples["hertzd_up"] == 1.0);
        exporter.get("/metrics", fields)
    };
    let text = answered("");
    pause(Span::from_millis(300));
    let open = answered("Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    let after = snapshot(&socket);
    assert!(text.contains("\r\nContent-Type: text/plain; version=0.0.4;"), "{text}");
    assert!(open.contains("\r\nContent-Type: application/openmetrics-text;") && open.ends_with("\n# EOF\n"), "{open}");
    let (text, open) = (samples(&text), samples(&open));
    for name in ["ctl", "temp"] {
        for key in ["due", "met", "missed", "ran", "skipped", "overruns", "errors"] {
            let series = format!("hertzd_task_{key}_total{{task=\"{name}\"}}");
            let counts = [
                count(task(&before, name), key) as f64,
                text[&series],
                open[&series],
                count(task(&after, name), key) as f64,
            ];
            assert!(counts.is_sorted(), "{series}: {counts:?}");
        }
    }
    let causes: f64 = text
        .iter()
        .filter(|(name, _)| name.starts_with("hertzd_task_missed_causes_total{task=\"ctl\""))
        .map(|(_, count)| count)
        .sum();
    assert!(causes <= text["hertzd_task_missed_total{task=\"ctl\"}"]);
    assert!(text["hertzd_task_missed_total{task=\"ctl\"}"] > 0.0, "the test would show nothing");
    assert_eq!(text[value].to_bits(), 42_f64.to_bits());
    for (name, of) in [("lateness", &before), ("run", &before), ("response", &before)] {
        let series = |le: &str| text[&format!("hertzd_tick_{name}_seconds_bucket{{task=\"ctl\",le=\"{le}\"}}")];
        let bounds =
            ["1e-06", "2e-06", "5e-06", "1e-05", "2e-05", "5e-05", "0.0001", "0.001", "0.01", "0.1", "1.0", "+Inf"];
        assert!(bounds.map(series).is_sorted(), "{name}");
        assert_eq!(
            series("+Inf").to_bits(),
            text[&format!("hertzd_tick_{name}_seconds_count{{task=\"ctl\"}}")].to_bits()
        );
        assert!(series("+Inf") >= count(&task(of, "ctl")[format!("{name}_ns")], "count") as f64);
    }
    // Each fault runs for 5 ms, which exceeds 2 ms.
    assert!(long(&text));

    // Counts continue when a reload ends the task and another one takes its name, and when one comes back.
    let mut last = 0.0;
    for config in [QUIET, FAULTY, QUIET] {
        reload(&mut running, config);
        pause(Span::from_millis(300));
        let scraped = exporter.scrape_until(|samples| samples["hertzd_up"] == 1.0);
        let scraped = scraped["hertzd_task_missed_total{task=\"ctl\"}"];
        assert!(scraped >= last && last + 1.0 > 0.0, "{scraped} after {last}");
        last = scraped;
    }
    assert_eq!(last.to_bits(), (missed(&snapshot(&socket), "ctl") as f64).to_bits());
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(last.to_bits(), (missed(&ended.summary(), "ctl") as f64).to_bits(), "that of the summary");

    // Without a daemon there are no stale numbers; the next daemon begins from zero.
    let down = exporter.scrape_until(|samples| samples["hertzd_up"] == 0.0);
    assert!(!down.keys().any(|name| name.starts_with("hertzd_t") || name.starts_with("hertzd_w")), "{down:?}");
    let args = ["--status-socket", socket.to_str().unwrap()];
    let folder = ended.folder;
    let _running = run_in(folder, Command::new(HERTZD), QUIET, &args);
    let up = exporter.scrape_until(|samples| samples.contains_key("hertzd_task_missed_total{task=\"ctl\"}"));
    assert_eq!(up["hertzd_task_missed_total{task=\"ctl\"}"].to_bits(), 0_f64.to_bits());
}

#[test]
fn only_reading_is_served_and_mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(&folder.path().join("s"));
    let first = |answer: String| answer.lines().next().unwrap_or_default().to_owned();
    assert_eq!(first(exporter.get("/", "")), "HTTP/1.1 200 OK");
    assert_eq!(first(exporter.get("/nothing", "")), "HTTP/1.1 404 Not Found");
    assert_eq!(first(exporter.get("/metrics?x=1", "")), "HTTP/1.1 200 OK");
    let long = format!("X: {}\r\n", "x".repeat(9_000));
    assert_eq!(first(exporter.get("/metrics", &long)), "HTTP/1.1 431 Request Header Fields Too Large");
    assert_eq!(first(exporter.get("/metrics", &"X: y\r\n".repeat(70))), "HTTP/1.1 431 Request Header Fields Too Large");
    assert_eq!(first(exporter.send(b"DELETE /metrics HTTP/1.1\r\n\r\n")), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(first(exporter.send(b"\x16\x03\x01\x02\x00\r\n\r\n")), "HTTP/1.1 400 Bad Request");
    let head = exporter.send(b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.contains("Content-Length: ") && head.ends_with("\r\n\r\n"), "{head}");
    let output = Command::new(HERTZD).args(["exporter", "--listen", &exporter.address.to_string()]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(70) && said.contains("cannot listen at 127.0.0.1:"), "{said}");
}

/// Clients that hang, send half a request, flood or send garbage; and a daemon that hangs.
#[test]
fn no_client_keeps_others_out_or_leaves_anything_behind() {
    let running = daemon(FAULTY);
    let socket = running.folder().join("s");
    let exporter = Exporter::start(&socket);
    exporter.scrape();
    let connect = || TcpStream::connect(exporter.address).unwrap();
    let round = || {
        let mut held: Vec<_> = (0..100).map(|_| connect()).collect();
        for (index, stream) in held.iter_mut().enumerate() {
            // The connection may have been closed in favour of another; then this fails.
            let _ = match index % 4 {
                0 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n"),
                1 => stream.write_all(&[0xff; 3_000]),
                2 => stream.shutdown(Shutdown::Write),
                _ => Ok(()),
            };
        }
        // These clients read nothing of their answers.
        let asking = b"GET /metrics HTTP/1.1\r\n\r\n";
        held.extend((0..100).map(|_| connect()));
        held.iter_mut().skip(100).for_each(|stream| _ = stream.write_all(asking));
        // While all of them are connected.
        exporter.scrape_until(|samples| samples["hertzd_up"] == 1.0);
        drop(held);
        exporter.wait_for("nothing of them is left", |left| left.threads <= 2 && left.descriptors <= 5 + 1);
        exporter.left().resident
    };
    let first = (0..3).map(|_| round()).max().unwrap();
    let last = (0..6).map(|_| round()).max().unwrap();
    assert!(last <= first + (8 << 20), "{first} bytes, then {last}");
    let due = |snapshot: &Value| count(task(snapshot, "ctl"), "due");
    let before = due(&snapshot(&socket));
    // A stopped daemon does not answer.
    running.signal("STOP");
    let answer = exporter.scrape_until(|samples| samples["hertzd_up"] == 0.0);
    assert!(!answer.contains_key("hertzd_task_due_total{task=\"ctl\"}"));
    running.signal("CONT");
    let answer = exporter.scrape_until(|samples| samples["hertzd_up"] == 1.0);
    assert!(answer["hertzd_task_due_total{task=\"ctl\"}"] >= before as f64);
}

/// As `promtool check metrics` judges it.
#[test]
fn promtool_finds_nothing_to_mend() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return skip("there is no promtool (Debian's package prometheus) here");
    }
    let running = daemon(FAULTY);
    let exporter = Exporter::start(&running.folder().join("s"));
    exporter.scrape_until(|samples| samples["hertzd_up"] == 1.0);
    let answer = exporter.get("/metrics", "");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}
