//! `hertzd top`: the live view of a daemon on the terminal, or one frame of it as text.
//!
//! One thread asks the status socket once a second and reads the whole answer. This thread draws and reads keys; it waits neither for the
//! daemon nor for the other thread. The module `top` computes what is shown, and reads no clock.

mod ask;
mod screen;

use super::Stop;
use super::socket::SocketArg;
use super::terminal::{is_coloured, print, stdout_is_terminal};
use crate::snapshot::Summary;
use crate::sys::clock::KernelClock;
use crate::sys::fd::{Reading, reading};
use crate::sys::signals::{JobControl, end_flag};
use crate::time::{Clock, Instant, Span};
use crate::top::{Key, Look, Top};
use ask::{Asker, Heard};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use screen::Screen;
use std::env::{var, var_os};
use std::io::{self, IsTerminal};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long to wait for a key before checking for answers and signals.
const LOOK_EVERY: Span = Span::from_millis(100);

/// Ages on the screen advance even without answers.
const DRAW_EVERY: Span = Span::from_seconds(1);

/// The single frame covers at least this long, if this many answers are enough for that.
const OVER: Span = Span::from_millis(900);
const ANSWERS: u32 = 4;

/// The width of text if nothing specifies another.
const COLUMNS: usize = 80;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd top                                  the service, live\n  \
    hertzd top --socket /run/user/1000/h.sock   another daemon\n  \
    hertzd top --once | tee now.txt             one frame as text\n\n\
    Keys: ? shows all of them, and what the columns mean; q or Ctrl-C quits. \
    It asks the daemon once a second. NO_COLOR turns colours off. On a terminal \
    that cannot move its cursor (TERM=dumb) the frames follow each other. \
    --once takes a second, since rates are the difference of two answers; the \
    width is that of the terminal, of COLUMNS, or 80.\n\n\
    Exit codes: 0 it was ended by a key or a signal; 64 there is no terminal; \
    69 no daemon answers.")]
pub(super) struct TopArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Print one frame as text, to a pipe too
    #[arg(long)]
    once: bool,
}

pub(super) fn top(args: &TopArgs) -> Result<(), Stop> {
    let is_dumb = matches!(var("TERM").as_deref(), Err(_) | Ok("dumb" | ""));
    let look = Look { colour: is_coloured() && !is_dumb, unicode: shows_unicode() };
    let mut top = Top::new(look);
    if args.once {
        return once(&args.socket, &mut top);
    }
    if !io::stdin().is_terminal() && !is_dumb && stdout_is_terminal() {
        return Err(Stop::Usage(
            "top reads keys from standard input, and that is no terminal: `hertzd top --once` prints one frame as text"
                .into(),
        ));
    }
    if !stdout_is_terminal() {
        return Err(Stop::Usage(
            "top draws on a terminal, and standard output is none: `hertzd top --once` prints one frame as text, `hertzd \
             status --json` prints the numbers"
                .into(),
        ));
    }
    if is_dumb { follow(&args.socket, &mut top) } else { live(&args.socket, &mut top) }
}

/// Whether the locale supports more than ASCII.
fn shows_unicode() -> bool {
    let set = |name: &&str| var_os(name).is_some_and(|value| !value.is_empty());
    let Some(name) = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(set) else { return false };
    let locale = var(name).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The width of text: the terminal's, the one in `COLUMNS`, or the one all terminals have.
fn width() -> usize {
    let terminal = stdout_is_terminal().then(|| ratatui::crossterm::terminal::size().ok()).flatten();
    let terminal = terminal.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
    let named = || var("COLUMNS").ok()?.parse().ok().filter(|columns| (20..=1_000).contains(columns));
    terminal.or_else(named).unwrap_or(COLUMNS).min(1_000)
}

/// Reads at least two answers, because some figures are differences, and prints their frame.
fn once(socket: &SocketArg, top: &mut Top) -> Result<(), Stop> {
    let clock = KernelClock::monotonic();
    let asker = Asker::spawn(socket.clone())?;
    let mut answers = 0;
    while answers < 2 || (answers < ANSWERS && top.over().is_none_or(|over| over < OVER)) {
        match asker.wait(ask::PATIENCE) {
            Some(Heard::Asks) => top.asks(clock.now()),
            Some(Heard::Answer(Ok(snapshot))) if snapshot.error.is_some() => {
                let why = snapshot.error.unwrap_or_default();
                return Err(Stop::Unavailable(format!("the daemon runs but cannot answer yet: {why}; try again")));
            }
            Some(Heard::Answer(answer)) => {
                top.answered(Ok(*answer?), clock.now());
                answers += 1;
            }
            Some(Heard::Nothing) => return Err(asks_no_more()),
            None => return Err(no_answer(socket)),
        }
    }
    print(&top.text(width(), clock.now()))
}

fn asks_no_more() -> Stop {
    Stop::Fault("the thread that asks the daemon has ended; its message is above".into())
}

fn no_answer(socket: &SocketArg) -> Stop {
    let limit = ask::PATIENCE;
    Stop::Unavailable(format!(
        "no answer from {} within {limit}: the daemon there hangs, was stopped (SIGSTOP, a frozen cgroup) or gets no processor time",
        socket.path().display()
    ))
}

/// Prints one frame after another, for a terminal that can do no more.
fn follow(socket: &SocketArg, top: &mut Top) -> Result<(), Stop> {
    let (clock, asker) = (KernelClock::monotonic(), Asker::spawn(socket.clone())?);
    loop {
        match asker.wait(DRAW_EVERY + DRAW_EVERY) {
            Some(Heard::Asks) => {
                top.asks(clock.now());
                continue;
            }
            Some(Heard::Answer(answer)) => enter(top, answer, clock.now())?,
            Some(Heard::Nothing) => return Err(asks_no_more()),
            None => {}
        }
        print(&format!("{}\n", top.text(width(), clock.now())))?;
    }
}

/// Processes an answer. An error if there was no daemon from the start: most likely the path is wrong, or none is running.
fn enter(top: &mut Top, answer: Result<Box<Summary>, Stop>, now: Instant) -> Result<(), Stop> {
    match answer {
        Err(stop) if !top.has_figures() => Err(stop),
        Err(stop) => {
            let why = stop.reason().map(|(why, _)| why).unwrap_or_default();
            top.answered(Err(why), now);
            Ok(())
        }
        Ok(snapshot) => {
            top.answered(Ok(*snapshot), now);
            Ok(())
        }
    }
}

/// Runs the live screen until a key or a signal ends it.
fn live(socket: &SocketArg, top: &mut Top) -> Result<(), Stop> {
    let fault = |reason| Stop::Fault(format!("the terminal: {reason}"));
    let clock = KernelClock::monotonic();
    let end = end_flag().map_err(fault)?;
    let asker = Asker::spawn(socket.clone())?;
    // If no daemon listens, the terminal is left alone.
    while let Some(heard) = asker.wait(Span::from_millis(300)) {
        match heard {
            Heard::Asks => top.asks(clock.now()),
            Heard::Answer(answer) => {
                enter(top, answer, clock.now())?;
                break;
            }
            Heard::Nothing => return Err(asks_no_more()),
        }
    }
    let jobs = JobControl::caught().map_err(fault)?;
    let keys = io::stdin();
    let mut screen = Screen::open().map_err(fault)?;
    let mut drawn = None;
    while !end.load(Ordering::Relaxed) {
        let now = clock.now();
        if jobs.stops() {
            screen.stopped(|| jobs.stop()).map_err(fault)?;
            jobs.went_on();
            drawn = None;
            continue;
        }
        // SIGSTOP cannot be caught; another program may have used the terminal in the meantime.
        if jobs.went_on() {
            screen.taken_again().map_err(fault)?;
            drawn = None;
            continue;
        }
        if drawn.is_none_or(|drawn| now - drawn >= DRAW_EVERY) {
            screen.draw(top, now).map_err(fault)?;
            drawn = Some(now);
        }
        // If the terminal has gone, crossterm would keep reading nothing, forever.
        if reading(&keys, LOOK_EVERY) == Reading::HungUp {
            break;
        }
        while event::poll(Duration::ZERO).map_err(fault)? {
            drawn = None; // if it is not a key, the screen's size has changed
            match event::read().map_err(fault)? {
                Event::Key(key) if key.kind == KeyEventKind::Release => {}
                Event::Key(KeyEvent { code: KeyCode::Char('c' | 'd'), modifiers: KeyModifiers::CONTROL, .. }) => {
                    return Ok(());
                }
                // In raw mode the terminal sends no signal for this key.
                Event::Key(KeyEvent { code: KeyCode::Char('z'), modifiers: KeyModifiers::CONTROL, .. }) => {
                    jobs.ask_to_stop();
                }
                Event::Key(key) => {
                    // A terminal sends Alt as an escape before the key, so it may have been the Esc key.
                    let escaped = key.modifiers.contains(KeyModifiers::ALT).then_some(Key::Escape);
                    if !escaped.into_iter().chain(translated(key.code)).all(|key| top.press(key)) {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        while let Some(heard) = asker.heard() {
            match heard {
                Heard::Asks => top.asks(clock.now()),
                Heard::Answer(answer) => {
                    enter(top, answer, clock.now())?;
                    drawn = None;
                }
                Heard::Nothing => return Err(asks_no_more()),
            }
        }
    }
    Ok(())
}

fn translated(code: KeyCode) -> Option<Key> {
    Some(match code {
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Char(letter) => Key::Char(letter),
        _ => return None,
    })
}
