//! How a relay ends its program: at the end of its task, and when the program has closed its socket. It reads the monotonic clock, and
//! sleeps a few milliseconds at a time.

use super::{Relay, Step, log};
use crate::sys::clock::pause;
use crate::time::{Clock, Instant, Span};
use tracing::{info, warn};

/// How long a program may take to end after its socket is finished, and then after SIGTERM. After that it is killed.
const ENDS_WITHIN: Span = Span::from_millis(300);
const ASKED_WITHIN: Span = Span::from_millis(200);

impl Relay {
    /// Ends a program that has closed its socket, because it can do nothing more for its task. It is then restarted like one that has ended
    /// by itself.
    pub(super) fn end_without_socket(&mut self, now: Instant) {
        if !self.exchange.is_closed() {
            return;
        }
        let (since, step) = *self.closed.get_or_insert((now, Step::Seen));
        let Some(program) = &mut self.program else { return };
        // The program may be about to end by itself.
        if program.ended().is_some() {
            return;
        }
        let passed = now - since;
        if step == Step::Seen && passed >= ENDS_WITHIN {
            let task = &self.settings.task;
            warn!(
                task,
                "{task}: its program closed its socket (descriptor 3) but kept running: it is ended and restarted; keep descriptor 3 open"
            );
            program.child().release();
            program.child().ask_to_end();
            self.closed = Some((since, Step::Asked));
        } else if step == Step::Asked && passed >= ENDS_WITHIN + ASKED_WITHIN {
            program.child().kill();
            self.closed = Some((since, Step::Killed));
        }
    }

    /// Ends the program: first by finishing its socket, then with SIGTERM, then with SIGKILL to its whole group.
    pub(super) fn end(&mut self) {
        self.shared.change_program(|program| program.runs = false);
        let Some(mut program) = self.program.take() else { return };
        let began = self.clock.now();
        program.child().release();
        program.socket.finish();
        let mut asked = false;
        let status = loop {
            let (passed, now) = (self.clock.now() - began, self.clock.now());
            let Self { lines, settings, .. } = self;
            program.read(|bytes| lines.take(bytes, now, &mut |what| log(&settings.task, what)));
            if let Some(status) = program.ended() {
                break Some(status);
            }
            if passed >= ENDS_WITHIN + ASKED_WITHIN {
                program.child().kill();
                if passed >= ENDS_WITHIN + ASKED_WITHIN + ASKED_WITHIN {
                    break None;
                }
            } else if passed >= ENDS_WITHIN && !std::mem::replace(&mut asked, true) {
                program.child().ask_to_end();
            }
            pause(Span::from_millis(2));
        };
        self.program = Some(program);
        self.log_rest(self.clock.now());
        self.program = None;
        let task = &self.settings.task;
        match status {
            Some(status) => info!(task, "{task}: its program was ended ({status})"),
            None => warn!(
                task,
                "{task}: its program was killed and has not ended yet: the kernel waits for something it uses"
            ),
        }
    }
}
