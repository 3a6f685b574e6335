//! An exporter under test, and the samples scraped from it.

#![allow(dead_code, reason = "each test file is a separate crate and uses a part of this")]

use crate::program::{HERTZD, pause, stopwatch};
use hertzd::time::Span;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The maximum time to wait: only a hang takes this long.
const PATIENCE: Span = Span::from_seconds(120);

/// A running exporter. Killed on drop.
pub(crate) struct Exporter {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// The resources an exporter holds.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    pub(crate) resident: u64, // bytes
}

/// The values by series: `hertzd_task_due_total{task="a"}`.
pub(crate) type Samples = BTreeMap<String, f64>;

impl Exporter {
    /// Starts an exporter on a free port.
    pub(crate) fn start(socket: &Path) -> Self {
        let mut command = Command::new(HERTZD);
        command.args(["exporter", "--listen", "127.0.0.1:0", "--socket"]).arg(socket);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).map(str::parse);
        let address = address.unwrap_or_else(|| panic!("{line}")).unwrap();
        // Drain its stderr so that it can continue to write.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, address }
    }

    /// The whole answer to a GET request with these fields.
    pub(crate) fn get(&self, path: &str, fields: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n").as_bytes())
    }

    /// The whole answer to these bytes.
    pub(crate) fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn scrape(&self) -> Samples {
        samples(&self.get("/metrics", ""))
    }

    /// Scrapes until `wanted` accepts the samples.
    pub(crate) fn scrape_until(&self, wanted: impl Fn(&Samples) -> bool) -> Samples {
        let waited = stopwatch();
        loop {
            let samples = self.scrape();
            if wanted(&samples) {
                return samples;
            }
            assert!(waited() < PATIENCE, "{samples:?}");
            pause(Span::from_millis(50));
        }
    }

    pub(crate) fn left(&self) -> Left {
        let process = Path::new("/proc").join(self.child.id().to_string());
        let entries = |folder: &str| fs::read_dir(process.join(folder)).unwrap().count();
        let pages = fs::read_to_string(process.join("statm")).unwrap();
        let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
        Left { threads: entries("task"), descriptors: entries("fd"), resident: pages * 4_096 }
    }

    /// Waits until `seen` accepts the resources it holds.
    pub(crate) fn wait_for(&self, what: &str, seen: impl Fn(&Left) -> bool) {
        let waited = stopwatch();
        while !seen(&self.left()) {
            assert!(waited() < PATIENCE, "{what}: {:?}", self.left());
            pause(Span::from_millis(20));
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The samples in an answer, in either format.
pub(crate) fn samples(answer: &str) -> Samples {
    let body = answer.split_once("\r\n\r\n").map_or(answer, |(_, body)| body);
    let lines = body.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (series.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    lines.map(sample).collect()
}
