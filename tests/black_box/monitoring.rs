//! The files in docs/monitoring, and a real Prometheus that scrapes the exporter.

use crate::program;
use crate::program::{HERTZD, PATIENCE, Running, count, pause, run_in, skip, start, stopwatch, task};
use crate::scraping::{Exporter, Samples};
use hertzd::time::Span;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: &str = "there is no Prometheus (Debian's package prometheus) here";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring")
}

fn is_there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

#[test]
fn the_alert_rules_are_valid_and_raise_what_they_should() {
    if !is_there("promtool") {
        return skip(TOOLS);
    }
    for args in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let output = Command::new("promtool").args(args).current_dir(folder()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("hertzd_")).collect()
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    let config = "[worker.main]\npolicy = \"other\"\n[task.ctl]\nkind = \"sensor\"\nrate = 10\npath = \"/proc/sys/kernel/pid_max\"\n\
        record = \"@HERE@/a.csv\"\n\
        [task.fan]\nkind = \"output\"\nrate = 10\ninput = \"ctl.value\"\npath = \"@HERE@/fan\"\nsafe = 0\n";
    let running = daemon(config);
    let exporter = Exporter::start(&running.folder().join("s"));
    exporter.scrape_until(|samples| {
        samples["hertzd_up"] == 1.0
            && samples.contains_key("hertzd_task_value{task=\"fan\",value=\"applied\",unit=\"\"}")
            && samples.get("hertzd_tick_age_seconds_count{task=\"fan\"}").is_some_and(|count| *count > 0.0)
    });
    let scraped = exporter.get("/metrics", "");
    let mut there = names(&scraped);
    // Only if the log goes to the journal.
    there.extend(["hertzd_journal_entries_total", "hertzd_journal_entries_lost_total"]);
    let dashboard = fs::read_to_string(folder().join("dashboard.json")).unwrap();
    let panels = serde_json::from_str::<Value>(&dashboard).unwrap();
    assert!(panels["panels"].as_array().is_some_and(|panels| panels.len() > 10));
    for file in ["dashboard.json", "alerts.yml", "alerts_test.yml", "README.md"] {
        let text = fs::read_to_string(folder().join(file)).unwrap();
        let asked = names(&text);
        let missing: Vec<_> = asked.difference(&there).collect();
        assert!(missing.is_empty() && !asked.is_empty(), "{file}: {missing:?}");
        // Queries ask for an output's values by name.
        let text = text.replace("\\\"", "\"");
        let values: BTreeSet<_> = text.split("value=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let missing: Vec<_> = values.iter().filter(|value| !scraped.contains(&format!("value=\"{value}\""))).collect();
        assert!(missing.is_empty() && (values.len() > 1 || file == "README.md"), "{file}: {missing:?} of {values:?}");
    }
}

/// A daemon with this configuration; its socket is `s` in its folder.
fn daemon(config: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let args = ["--json", "--status-socket", socket.to_str().unwrap()];
    let mut running = run_in(folder, Command::new(HERTZD), config, &args);
    running.wait_for("it has ticked", |running| status(running)["daemon"]["ready"] == true);
    running
}

fn status(running: &Running) -> Value {
    program::snapshot(&running.folder().join("s"))
}

fn reload(running: &Running, config: &str) {
    fs::write(running.folder().join("test.toml"), config).unwrap();
    let socket = running.folder().join("s");
    let output = Command::new(HERTZD).args(["reload", "--socket"]).arg(socket).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The misses of tasks of this name since the daemon started.
fn missed(summary: &Value) -> u64 {
    let task = task(summary, "ctl");
    count(task, "missed") + task["before_reload"]["missed"].as_u64().unwrap_or(0)
}

/// A running Prometheus that scrapes one exporter.
struct Prometheus {
    running: Running,
    port: u16,
}

impl Prometheus {
    /// Starts one that answers.
    fn start(exporter: &Exporter) -> Self {
        for _ in 0..10 {
            let mut prometheus = Self::try_to_start(exporter);
            let waited = stopwatch();
            while !prometheus.running.has_ended() {
                if prometheus.number("vector(1)").is_some() && !prometheus.running.has_ended() {
                    return prometheus;
                }
                assert!(waited() < PATIENCE, "{}", prometheus.running.stderr());
                pause(Span::from_millis(50));
            }
        }
        panic!("no Prometheus stays");
    }

    /// Another program may take the port first: then Prometheus ends.
    fn try_to_start(exporter: &Exporter) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\n\
             scrape_configs: [{{ job_name: hertzd, static_configs: [{{ targets: ['{}'] }}] }}]\n",
            exporter.address
        );
        fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let mut command = Command::new("prometheus");
        command.current_dir(folder.path()).args([
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            &format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn",
        ]);
        Self { running: start(folder, command), port }
    }

    /// The only number in a query's result; `None`: no result yet.
    fn number(&self, query: &str) -> Option<f64> {
        let encoded = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        let query: String = query.bytes().map(encoded).collect();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        // With HTTP 1.0 the answer comes in one piece.
        stream.write_all(format!("GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        match answer["data"]["result"].as_array()?.as_slice() {
            [only] => only["value"][1].as_str()?.parse().ok(),
            _ => None,
        }
    }

    /// The only number in a query's result. The result exists already, but the machine may delay the answer.
    fn value(&mut self, query: &str) -> f64 {
        let waited = stopwatch();
        loop {
            if let Some(number) = self.number(query) {
                return number;
            }
            assert!(!self.running.has_ended() && waited() < PATIENCE, "{query}");
            pause(Span::from_millis(50));
        }
    }

    /// Waits until a query has this result.
    fn wait_for(&mut self, query: &str, wanted: f64) {
        let mut latest = None;
        let port = self.port;
        let waited = stopwatch();
        while latest != Some(wanted) {
            latest = self.number(query);
            let waited = waited();
            assert!(!self.running.has_ended() && waited < PATIENCE, "{port}: {query} is {latest:?}");
            pause(Span::from_millis(50));
        }
    }
}

/// The task misses nothing at the beginning and the end, so Prometheus has seen all of its misses.
#[test]
fn prometheus_counts_what_the_summary_counts() {
    if !is_there("prometheus") {
        return skip(TOOLS);
    }
    let worker = "[worker.main]\npolicy = \"other\"\n[task.ctl]\nkind = \"load\"\nmax-missed = \"100%\"\n";
    let quiet = format!("{worker}period = \"10h\"\n");
    let faulty = format!(
        "{worker}rate = 1000\noverrun = \"drop\"\nfault = \"long-run\"\nfault-every = 50\nfault-run = \"5ms\"\n"
    );
    let running = daemon(&quiet);
    let exporter = Exporter::start(&running.folder().join("s"));
    let mut prometheus = Prometheus::start(&exporter);
    let counter = "hertzd_task_missed_total{task=\"ctl\"}";
    prometheus.wait_for(counter, 0.0);

    // The environment can set the length of the scrape, for example to a minute.
    let length = std::env::var("HERTZD_TEST_SCRAPE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    reload(&running, &faulty);
    pause(Span::from_seconds(length));
    // Meanwhile the task restarts, with another rate.
    reload(&running, &faulty.replace("1000", "500"));
    let until = |samples: &Samples| samples[counter] > 0.0;
    exporter.scrape_until(until);
    reload(&running, &quiet);
    let all = missed(&status(&running));
    assert!(all > 0, "the test would show nothing");
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let wanted = all as f64;
    prometheus.wait_for(counter, wanted);
    prometheus.wait_for("sum(hertzd_task_missed_causes_total{task=\"ctl\"})", wanted);
    let mut of = |query: &str| prometheus.value(&query.replace("X", &format!("{counter}[1h]")));
    assert_eq!(of("max_over_time(X) - min_over_time(X)").to_bits(), wanted.to_bits());
    assert_eq!(of("resets(X)").to_bits(), 0_f64.to_bits(), "it never shrinks");
    // Prometheus extrapolates beyond the first and the last scrape, by at most about an interval each.
    let (scrapes, increase) = (of("count_over_time(X)"), of("increase(X)"));
    println!("{all} missed in {scrapes} scrapes; increase() says {increase}");
    assert!(increase >= wanted - 1e-6 && increase <= wanted * (1.0 + 2.5 / (scrapes - 1.0)), "{increase}, {wanted}");
    // Every scrape was valid and reached the daemon, unless the machine delayed it past its limit of 0.5 s.
    let failed = of("max_over_time((count(up == 0 and scrape_duration_seconds < 0.45) or vector(0))[1h:100ms])");
    assert_eq!(failed.to_bits(), 0_f64.to_bits());
    let none_was_held_up = of("min_over_time(up[1h])").to_bits() == 1_f64.to_bits();
    assert!(!none_was_held_up || of("min_over_time(hertzd_up[1h])").to_bits() == 1_f64.to_bits());
    running.signal("TERM");
    assert_eq!(missed(&running.wait().summary()), all);
}
