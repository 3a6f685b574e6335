//! The page of `hertzd report` in a real browser: no error on its console in light, dark and narrow views, nothing that axe-core rates
//! serious, and nothing wider than a phone. Needs chromium, and axe-core in target/node, as .ci/run installs it.

use crate::program;
use crate::program::{HERTZD, run_in};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `hog` delays `fast`, so that most runs have a miss with its story.
const CONFIG: &str = "[worker.main]\npolicy = \"other\"\n\
    [task.fast]\nkind = \"load\"\nworker = \"main\"\nrate = \"500 Hz\"\nmax-missed = \"100%\"\n\
    [task.hog]\nkind = \"load\"\nworker = \"main\"\nperiod = \"250ms\"\nrun = \"9ms\"\nmax-missed = \"100%\"\n";

/// A view of the page: a name, options, and the width of a frame around it. No window is narrower than 500.
type View = (&'static str, &'static [&'static str], Option<u32>);
const LIGHT: View = ("light", &["--window-size=1200,900"], None);
const DARK: View = ("dark", &["--window-size=1200,900", "--blink-settings=preferredColorScheme=0"], None);
const NARROW: View = ("narrow", &["--window-size=1200,900"], Some(360));

/// Opens all tables, and reports what axe finds. `wide`: by how many pixels the page is wider than its window.
const RUNNER: &str = "document.querySelectorAll('details').forEach(d => d.open = true);\
    const root = document.documentElement, wide = root.scrollWidth - root.clientWidth;\
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;\
    axe.run(document, {resultTypes: ['violations']}).then(found => ({wide, dark, width: innerWidth, passes: found.passes.length, violations:\
    found.violations.map(v => ({id: v.id, impact: v.impact, first: v.nodes[0].html.slice(0, 200), why: v.nodes[0].failureSummary}))}),\
    error => ({error: String(error)})).then(told => parent.postMessage('TOLD' + JSON.stringify(told) + 'END', '*'));";

/// Puts the reported text in place of the page.
const LISTENER: &str = "addEventListener('message', event => { document.body.textContent = '';\
    const pre = document.createElement('pre'); pre.textContent = event.data; document.body.append(pre); });";

struct Browser {
    program: PathBuf,
    axe: String,
    folder: tempfile::TempDir,
}

impl Browser {
    /// `None`: not available here, which was printed.
    fn find() -> Option<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&paths).map(|folder| folder.join("chromium")).find(|path| path.is_file());
        let Some(program) = found else {
            program::skip("there is no chromium");
            return None;
        };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/node/node_modules/axe-core/axe.min.js");
        let Ok(axe) = fs::read_to_string(&path) else {
            program::skip("there is no axe-core in target/node");
            return None;
        };
        Some(Self { program, axe, folder: tempfile::tempdir().unwrap() })
    }

    /// Opens a page and prints the result. A browser that does not start is started again: that is not a fault of the page.
    fn open(&self, page: &Path, how: &[&str]) -> Output {
        for attempt in 0..5 {
            let profile = tempfile::tempdir_in(self.folder.path()).unwrap();
            // A browser that hangs is ended by timeout(1).
            let mut command = Command::new("timeout");
            command.args(["--kill-after=5", "120"]).arg(&self.program).args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--enable-logging=stderr",
                "--virtual-time-budget=60000",
                "--dump-dom",
            ]);
            command.arg(format!("--user-data-dir={}", profile.path().display())).args(how).arg(page);
            command.env("HOME", self.folder.path()).stdin(Stdio::null());
            let output = command.output().unwrap();
            if output.status.success() && String::from_utf8_lossy(&output.stdout).contains("</html>") {
                return output;
            }
            println!("attempt {attempt}: {:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        panic!("chromium does not come up");
    }

    /// The content of the console.
    fn console(&self, page: &Path, (_, how, width): View) -> Vec<String> {
        let framed = width.map(|width| self.frame(page, width));
        let output = self.open(framed.as_deref().unwrap_or(page), how);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
    }

    /// A page that shows this one in a frame.
    fn frame(&self, page: &Path, width: u32) -> PathBuf {
        let outer = self.folder.path().join("outer.html");
        let html = format!(
            "<!DOCTYPE html><html><head><link rel=\"icon\" href=\"data:,\"><script>{LISTENER}</script></head><body>\
             <iframe src=\"{}\" width=\"{width}\" height=\"800\"></iframe></body></html>",
            page.display()
        );
        fs::write(&outer, html).unwrap();
        outer
    }

    /// The findings of axe in this page, and its width.
    fn axe(&self, html: &str, (_, how, width): View) -> Value {
        let copy = self.folder.path().join("copy.html");
        let policy = html.find("<meta http-equiv").map(|at| at..at + html[at..].find('>').unwrap() + 1).unwrap();
        // Only the copy runs a script.
        let mut page = html.to_owned();
        page.replace_range(policy, "");
        let scripts =
            format!("<script>{LISTENER}</script><script>{}</script><script>{RUNNER}</script></body>", self.axe);
        fs::write(&copy, page.replace("</body>", &scripts)).unwrap();
        let framed = width.map(|width| self.frame(&copy, width));
        for _ in 0..5 {
            let output = self.open(framed.as_deref().unwrap_or(&copy), how);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let told = text.split_once(">TOLD").and_then(|(_, rest)| rest.split_once("END</pre>"));
            if let Some((told, _)) = told {
                let plain = told.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ").replace("&amp;", "&");
                return serde_json::from_str(&plain).unwrap_or_else(|error| panic!("{error}: {plain}"));
            }
        }
        panic!("axe did not come to an end");
    }

    fn check(&self, what: &str, html: &str, view: View) {
        let (name, _, width) = view;
        let told = self.axe(html, view);
        assert_eq!((&told["error"], &told["dark"]), (&Value::Null, &json!(name == "dark")), "{what}, {name}: {told}");
        assert!(told["passes"].as_u64().unwrap() > 10, "{what}, {name}: {told}");
        let violations = told["violations"].as_array().unwrap();
        let serious = |one: &&Value| one["impact"] == "serious" || one["impact"] == "critical";
        let serious: Vec<_> = violations.iter().filter(serious).collect();
        assert!(serious.is_empty(), "{what}, {name}: {serious:#?}");
        assert!(width.is_none_or(|width| told["width"] == width), "{what}, {name}: {told}");
        assert!(told["wide"].as_i64().unwrap() <= 0, "{what}, {name}: wider than its window of {}", told["width"]);
    }
}

fn hertzd(args: &[&str], folder: &Path) {
    let output = Command::new(HERTZD).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_browser_shows_the_report_without_an_error_to_every_reader() {
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(HERTZD);
    command.env("RUNTIME_DIRECTORY", folder.path());
    let ended = run_in(folder, command, CONFIG, &["--for", "2s", "--json"]).wait();
    let mut summary = ended.summary();
    let folder = ended.folder.path();
    let name = format!("<script>alert('x')</script>\"&\u{202e}عربي{}", "n".repeat(200));
    summary["tasks"][0]["task"] = name.into();
    fs::write(folder.join("s.json"), summary.to_string()).unwrap();
    hertzd(&["report", "flight", "-o", "flight.html"], folder);
    hertzd(&["report", "s.json", "-o", "summary.html"], folder);

    for view in [LIGHT, DARK, NARROW] {
        assert_eq!(browser.console(&folder.join("flight.html"), view), [""; 0], "{}", view.0);
    }
    // Proof that an error would be noticed.
    let html = fs::read_to_string(folder.join("flight.html")).unwrap();
    fs::write(folder.join("bad.html"), html.replace("</body>", "<script>1</script></body>")).unwrap();
    let seen = browser.console(&folder.join("bad.html"), LIGHT);
    assert!(seen.iter().any(|line| line.contains("Content Security Policy")), "a script is refused: {seen:?}");

    for view in [LIGHT, DARK, NARROW] {
        browser.check("flight file", &html, view);
    }
    browser.check("summary", &fs::read_to_string(folder.join("summary.html")).unwrap(), NARROW);
    // Proof that a fault would be noticed.
    let bad = html
        .replace("--quiet:#515a64", "--quiet:#c5c9ce")
        .replace(".scroll{overflow-x:auto", ".scroll{overflow-x:visible");
    let told = browser.axe(&bad, NARROW);
    assert!(told["violations"].as_array().unwrap().iter().any(|one| one["id"] == "color-contrast"), "{told}");
    assert!(told["wide"].as_i64().unwrap() > 0, "{told}");
}
