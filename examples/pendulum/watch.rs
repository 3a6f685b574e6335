//! The process that one starts: has the parts run, shows them as a drawing or as lines, and says at the end how it went.

use crate::Words;
use crate::parts::{Busy, Parts};
use crate::row::{Row, seconds};
use crate::time::{Stopwatch, sleep};
use crate::view::{Key, Screen};
use hertzd::time::{Instant, Span};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The busy loops of `--busy`, and the steps for which the pole stands without them.
const QUIET: u64 = 3_000;
const LOOPS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// What is shown of the parts beside the latest row.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) row: Row,
    /// The plant is gone, and how it ended.
    pub(crate) plant_ended: Option<String>,
    /// The latest line of the daemon's log.
    pub(crate) log: String,
    /// The name of the configuration.
    pub(crate) name: String,
    /// The process whose `hertzd top` it is.
    pub(crate) daemon: u32,
    /// The busy loops that are to come, and whether they have.
    pub(crate) busy: Option<Busy>,
    pub(crate) is_busy: bool,
}

impl Shown {
    /// How it goes, or how it went.
    pub(crate) fn verdict(&self) -> String {
        match self.row {
            Row { fell: Some(steps), .. } => format!("fell after {:.2} s", seconds(steps)),
            Row { free: 0, .. } => "is held by hand until the controller pushes".into(),
            Row { free, .. } => format!("stands for {:.1} s", seconds(free)),
        }
    }

    fn has_stood(&self) -> bool {
        self.row.free > 0 && self.row.fell.is_none() && self.plant_ended.is_none()
    }
}

/// Runs it; an error says why it could not be.
pub(crate) fn watch(words: &Words) -> Result<ExitCode, String> {
    let text = fs::read_to_string(&words.config).map_err(|error| format!("{}: {error}", words.config.display()))?;
    let busy = if words.busy { Some(Busy { loops: LOOPS, cpu: cpu(&text)? }) } else { None };
    let end = end_flag().map_err(|error| format!("handling signals: {error}"))?;
    let is_headless = words.headless || !io::stdout().is_terminal() || !io::stdin().is_terminal();
    let length = words.seconds.or(is_headless.then_some(10)).map(|seconds| Span::from_seconds(seconds.into()));

    let mut parts = Parts::start(&text).map_err(|error| format!("starting: {error}"))?;
    let name = words.config.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut shown = Shown { name, daemon: parts.daemon_id(), busy, ..Shown::default() };
    let until =
        |now: Instant| end.load(Ordering::Relaxed) || length.is_some_and(|length| now - Instant::ZERO >= length);
    let shows = if is_headless { lines(&mut parts, &mut shown, until) } else { drawing(&mut parts, &mut shown, until) };

    let ended_itself = parts.daemon_ended();
    let looked = look(&mut parts, &mut shown);
    let said = parts.end().map_err(|error| format!("ending: {error}"))?;
    // What cannot be shown, as the terminal is gone, changes nothing any more.
    let _ = write!(io::stderr(), "{}", said.log);
    let _ = writeln!(io::stdout(), "{}", said.summary);
    shows.and(looked).map_err(|error| format!("showing: {error}"))?;
    if let Some(status) = ended_itself {
        return Err(format!("the daemon ended by itself ({status}); its log is above"));
    }
    let stood = shown.has_stood();
    let until = shown.plant_ended.as_ref().map(|how| format!(", until the plant ended ({how})")).unwrap_or_default();
    let _ = writeln!(io::stdout(), "The pole {}{until}.", shown.verdict());
    Ok(if stood { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Takes over what is new, and lets the busy loops begin when the pole has stood for a while.
fn look(parts: &mut Parts, shown: &mut Shown) -> io::Result<()> {
    if let Some(row) = parts.row() {
        shown.row = row;
    }
    shown.plant_ended = parts.plant_ended().map(|status| status.to_string());
    if let Some(busy) = shown.busy.filter(|_| shown.row.free >= QUIET && !shown.is_busy) {
        parts.compete(busy)?;
        shown.is_busy = true;
    }
    Ok(())
}

/// A line per second.
fn lines(parts: &mut Parts, shown: &mut Shown, until: impl Fn(Instant) -> bool) -> io::Result<()> {
    let folder = parts.folder().display();
    writeln!(
        io::stdout(),
        "{}: daemon {}, plant {}, files in {folder}",
        shown.name,
        parts.daemon_id(),
        parts.plant_id()
    )?;
    let clock = Stopwatch::start();
    let mut next = 1;
    while !until(clock.now()) && parts.daemon_ended().is_none() {
        look(parts, shown)?;
        let now = clock.now() - Instant::ZERO;
        if now >= Span::from_seconds(next) {
            let Row { state, force, steps, .. } = shown.row;
            writeln!(
                io::stdout(),
                "{next:3} s  angle {:+6.1} deg  position {:+5.2} m  force {force:+6.2} N  step {steps:6}  {}",
                state.angle.to_degrees(),
                state.position,
                shown.verdict()
            )?;
            next = now.nanos() / 1_000_000_000 + 1;
        }
        sleep(Span::from_millis(10));
    }
    Ok(())
}

/// On the terminal, until a key, a signal or the time ends it.
fn drawing(parts: &mut Parts, shown: &mut Shown, until: impl Fn(Instant) -> bool) -> io::Result<()> {
    let mut screen = Screen::open()?;
    let clock = Stopwatch::start();
    while !until(clock.now()) && parts.daemon_ended().is_none() {
        look(parts, shown)?;
        shown.log = latest(&parts.log_end());
        screen.draw(shown)?;
        match screen.key(Span::from_nanos(1_000_000_000 / 60)) {
            Some(Key::Quit) => break,
            Some(Key::Plant(key)) => parts.press(key),
            None => {}
        }
    }
    Ok(())
}

/// The latest line of a log, without its time.
fn latest(log: &str) -> String {
    let line = log.lines().last().unwrap_or_default();
    line.split_once(' ').map_or(line, |(_, message)| message.trim_start()).to_owned()
}

/// Raised by the first SIGINT, SIGTERM or SIGHUP. A second one ends this process at once, and with it the others.
fn end_flag() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// The CPU that the configuration pins a worker to.
fn cpu(text: &str) -> Result<usize, String> {
    let config: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let workers = config.get("worker").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
    let cpu = workers.filter_map(|worker| worker.get("cpu")?.as_integer()).next();
    cpu.and_then(|cpu| cpu.try_into().ok()).ok_or("--busy needs a worker that the configuration pins with `cpu`".into())
}
