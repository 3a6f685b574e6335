//! The traffic between a task and its program: ticks, and answers, each of which is checked. Each poll does a bounded amount of work;
//! neither side is waited for, and no clock is read.

use super::crossing::{CoolEnds, Shared};
use super::frames;
use super::settings::ProgramSettings;
use crate::sys::process::{Packets, Ready};
use crate::task::Reason;
use crate::time::{Instant, Span};
use std::collections::VecDeque;
use std::io;

/// The most ticks and frames that one poll moves.
const ROWS_AT_ONCE: usize = 256;
const FRAMES_AT_ONCE: usize = 64;

/// How many unanswered ticks are remembered; only these can still be answered late.
const REMEMBERED: usize = 4_096;

/// The link between the task's relay and the program.
#[derive(Debug)]
pub(super) struct Exchange {
    ends: CoolEnds,
    newest: Option<u64>,       // the most recent tick from the task
    unanswered: VecDeque<u64>, // ticks sent to the program and not yet answered, in order
    is_closed: bool,           // whether the program has closed the socket
    frame: Vec<u8>,
    room: Vec<u8>, // room for an answer, plus one byte
    values: Vec<f64>,
}

impl Exchange {
    /// An exchange for a task with this many values.
    pub(super) fn new(ends: CoolEnds, values: usize) -> Self {
        Self {
            ends,
            newest: None,
            unanswered: VecDeque::with_capacity(REMEMBERED),
            is_closed: false,
            frame: Vec::new(),
            room: vec![0; frames::answer_length(values) + 1],
            values: vec![f64::NAN; values],
        }
    }

    /// Greets a program that has just started, with a description of what it will receive. It owes no answers to ticks that a previous
    /// program was sent.
    pub(super) fn greet(&mut self, socket: &Packets, settings: &ProgramSettings) {
        let ProgramSettings { task, inputs, values, period, .. } = settings;
        let names: Vec<String> = values.iter().map(|column| column.name.clone()).collect();
        frames::hello(&mut self.frame, task, period.nanos(), inputs, &names);
        // The socket has room: nothing else was sent.
        let _ = socket.send(&self.frame);
        self.unanswered.clear();
        self.is_closed = false;
    }

    /// Whether the program has closed its socket, so that nothing more can be sent to it.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether the program has yet to answer the newest tick, and can.
    pub(super) fn is_owed(&self) -> bool {
        !self.is_closed && self.newest.is_some_and(|newest| self.unanswered.back() == Some(&newest))
    }

    /// Discards the pending ticks, because there is no program.
    pub(super) fn pass_over(&mut self) {
        self.send_ticks(None, |_| ());
    }

    /// Sends the pending ticks to the program. `came` is called with each release, on the monotonic clock.
    pub(super) fn send_ticks(&mut self, socket: Option<&Packets>, mut came: impl FnMut(Instant)) {
        for _ in 0..ROWS_AT_ONCE {
            let Some((head, inputs)) = self.ends.take() else { return };
            self.newest = Some(head.n);
            let late = head.started.saturating_sub(head.release);
            came(Instant::from_nanos(head.monotonic.saturating_sub(late).into()));
            let Some(socket) = socket else { continue };
            if self.is_closed {
                drop(inputs);
                Shared::count(&self.ends.shared.dropped);
                continue;
            }
            frames::tick(&mut self.frame, head, inputs);
            match socket.send(&self.frame) {
                Ok(()) => {
                    if self.unanswered.len() == REMEMBERED {
                        self.unanswered.pop_front();
                    }
                    self.unanswered.push_back(head.n);
                }
                Err(error) => {
                    Shared::count(&self.ends.shared.dropped);
                    self.is_closed |= error.kind() != io::ErrorKind::WouldBlock;
                }
            }
        }
    }

    /// Passes on the answers that have arrived. `wrong` is called with each error. Returns whether there may be more answers than one poll
    /// takes.
    pub(super) fn take_answers(&mut self, socket: &Packets, mut wrong: impl FnMut(&'static str)) -> bool {
        for _ in 0..FRAMES_AT_ONCE {
            let length = match socket.receive(&mut self.room) {
                Ok(length) => length,
                Err(error) => {
                    self.is_closed |= error.kind() != io::ErrorKind::WouldBlock;
                    return false;
                }
            };
            // Without this check, an empty frame and the end of the stream look alike.
            if length == 0 && socket.wait(Span::ZERO) == Ready::Closed {
                self.is_closed = true;
                return false;
            }
            if let Err(what) = self.take_frame(length) {
                wrong(what);
            }
        }
        true
    }

    /// # Errors
    /// What is wrong with the frame or with a part of it; at most one error per frame.
    fn take_frame(&mut self, length: usize) -> Result<(), &'static str> {
        let frame = self.room.get(..length).ok_or("a frame that is longer than an answer")?;
        let n = frames::answer(frame, &mut self.values)?;
        let Ok(at) = self.unanswered.binary_search(&n) else {
            return Err("an answer to a tick that it was never sent, or has already answered");
        };
        self.unanswered.remove(at);
        // A program sends NaN when it has no value, for instance at first. That is not an error, but the value is bad, like any missing
        // value.
        let finite = !self.values.iter().any(|value| value.is_infinite());
        for value in self.values.iter_mut().filter(|value| !value.is_finite()) {
            *value = if value.is_nan() { Reason::NotAvailable.value() } else { Reason::NotFinite.value() };
        }
        if self.newest == Some(n) {
            self.ends.answer(n, &self.values);
        } else {
            Shared::count(&self.ends.shared.late);
        }
        if finite { Ok(()) } else { Err("an infinite value: it is bad") }
    }
}
