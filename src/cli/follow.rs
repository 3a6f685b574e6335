//! `hertzd status --follow`: one snapshot per second, each on its own line, for programs. Blocks.

use super::Stop;
use super::socket::{self, SocketArg};
use super::terminal::{Shown, note};
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use serde_json::Value;

/// The time between lines.
const EVERY: Span = Span::from_seconds(1);

/// What is known about the followed daemon.
#[derive(Debug, Default)]
struct Followed {
    pid: Option<u64>, // once it has answered
    missed: bool,     // its most recent answer did not arrive
}

/// What to do after an answer.
#[derive(Debug)]
enum Next {
    /// Print this line.
    Line(String),
    /// Ask again: the daemon knows nothing about its tasks yet, or was just stopping.
    Again,
    /// The daemon has ended; this text says how.
    Ended(String),
}

/// Prints a line per second until the daemon has ended or no one reads.
pub(super) fn follow(socket: &SocketArg) -> Result<(), Stop> {
    // The same daemon for all lines, even if another one starts.
    let socket = &socket.found()?;
    let clock = KernelClock::monotonic();
    let (begun, mut followed) = (clock.now(), Followed::default());
    loop {
        match followed.next(socket::fetch(socket), || socket.is_listened_at())? {
            Next::Line(line) => Shown::json(line).print()?,
            Next::Again => {}
            Next::Ended(how) => {
                note(&how);
                return Ok(());
            }
        }
        let next = after(begun, clock.now());
        while clock.now() < next {
            clock.sleep_until(next);
        }
    }
}

/// The next instant for a line: always whole seconds after `begun`, however long an answer takes.
fn after(begun: Instant, now: Instant) -> Instant {
    let passed = (now - begun).nanos().max(0) / EVERY.nanos();
    begun + Span::from_nanos((passed + 1) * EVERY.nanos())
}

impl Followed {
    /// What to do after this answer. `listens` says whether anyone still listens at the socket.
    ///
    /// # Errors
    /// There was no daemon from the beginning, it is there but does not respond, or its answer cannot be used.
    fn next(&mut self, answer: Result<String, Stop>, listens: impl FnOnce() -> bool) -> Result<Next, Stop> {
        let text = match (answer, self.pid) {
            (Ok(text), _) => text,
            (Err(Stop::Unavailable(_)), Some(pid)) if !listens() => {
                return Ok(Next::Ended(format!("process {pid} no longer answers: it has ended")));
            }
            // A daemon that stops closes connections without an answer before its socket disappears.
            (Err(Stop::Unavailable(_)), Some(_)) if !std::mem::replace(&mut self.missed, true) => {
                return Ok(Next::Again);
            }
            (Err(stop), _) => return Err(stop),
        };
        self.missed = false;
        let snapshot: Value = serde_json::from_str(&text).map_err(socket::not_understood)?;
        if snapshot["error"].is_string() {
            return Ok(Next::Again);
        }
        let Some(now) = snapshot["daemon"]["pid"].as_u64() else {
            return Err(Stop::Fault("the answer names no process: it is not from a hertzd of this version".into()));
        };
        let pid = *self.pid.get_or_insert(now);
        match now == pid {
            true => Ok(Next::Line(text.trim_end().to_owned() + "\n")),
            false => Ok(Next::Ended(format!("process {pid} has ended; process {now} listens in its place"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(pid: u64) -> Result<String, Stop> {
        Ok(format!("{{\"daemon\":{{\"pid\":{pid}}}}}\n"))
    }

    fn nothing() -> Result<String, Stop> {
        Err(Stop::Unavailable("no daemon answers".into()))
    }

    #[test]
    fn lines_stay_on_whole_seconds() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        for (now, next) in [(250, 1_250), (400, 1_250), (1_250, 2_250), (4_251, 5_250), (100, 1_250)] {
            assert_eq!(after(at(250), at(now)), at(next), "{now}");
        }
    }

    #[test]
    fn it_goes_on_until_that_daemon_has_ended() {
        let mut followed = Followed::default();
        assert!(matches!(followed.next(nothing(), || false), Err(Stop::Unavailable(_))), "there was none");
        let held_up = Ok("{\"error\":\"the tasks are being set up\"}\n".into());
        assert!(matches!(followed.next(held_up, || true), Ok(Next::Again)));
        assert!(matches!(followed.next(answer(7), || true), Ok(Next::Line(line)) if line.ends_with("}\n")));
        assert!(matches!(followed.next(nothing(), || true), Ok(Next::Again)), "it may be about to stop");
        assert!(matches!(followed.next(answer(7), || true), Ok(Next::Line(_))));
        assert!(matches!(followed.next(nothing(), || true), Ok(Next::Again)));
        assert!(matches!(followed.next(nothing(), || true), Err(Stop::Unavailable(_))), "it hangs");
        assert!(matches!(followed.next(nothing(), || false), Ok(Next::Ended(how)) if how.contains("process 7 ")));
        assert!(matches!(followed.next(answer(8), || true), Ok(Next::Ended(how)) if how.contains("process 8 ")));
        assert!(matches!(followed.next(Ok("[]".into()), || true), Err(Stop::Fault(_))));
    }
}
