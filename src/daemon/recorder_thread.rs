//! The recorder's thread: empties the tasks' queues a few times a second, and writes.
//!
//! It reads the monotonic clock and the offset of UTC, and may block on the disk: what finds no room in a ring meanwhile
//! is counted as lost.

use super::tick_feed::{Passed, ROOM};
use crate::recording::{OutputState, Recorder, TaskOutput};
use crate::sys::clock::{KernelClock, pause, utc_offset};
use crate::time::{Clock, Span};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long it rests between two looks.
const REST: Span = Span::from_millis(50);

/// What lies in a channel, and whether nobody is left to put more into it.
pub(super) fn waiting<T>(orders: &Receiver<T>) -> (Vec<T>, bool) {
    let mut taken = Vec::new();
    loop {
        match orders.try_recv() {
            Ok(order) => taken.push(order),
            Err(TryRecvError::Empty) => return (taken, false),
            Err(TryRecvError::Disconnected) => return (taken, true),
        }
    }
}

enum Command {
    Add(Vec<TaskOutput>),
    Look(Sender<Vec<OutputState>>),
    Close(Sender<Vec<OutputState>>),
    Finish,
}

/// Main's end of the recorder's thread.
#[derive(Debug)]
pub(super) struct Recording {
    commands: Sender<Command>,
    thread: JoinHandle<()>,
}

impl Recording {
    pub(super) fn spawn(passed: Receiver<Passed>) -> io::Result<Self> {
        let (commands, orders) = unbounded();
        let body = move || {
            let mut recorder = Recorder::default();
            loop {
                let (commands, left_alone) = waiting(&orders);
                let mut later = Vec::new();
                for command in commands {
                    match command {
                        Command::Add(streams) => streams.into_iter().for_each(|stream| recorder.add(stream)),
                        command => later.push(command),
                    }
                }
                let mut gone = Vec::new();
                // All that lies there: ticks have room for so many, and the ended tasks are few.
                for passed in passed.try_iter().take(2 * ROOM) {
                    match passed {
                        Passed::Tick(tick) => recorder.tick(tick),
                        Passed::Gone(id) => gone.push(id),
                    }
                }
                recorder.drain(KernelClock::monotonic().now(), utc_offset);
                recorder.remove(&gone);
                for command in later {
                    match command {
                        Command::Add(_) => {}
                        Command::Look(reply) => {
                            let _ = reply.send(recorder.states());
                        }
                        Command::Close(reply) => {
                            recorder.finish();
                            let _ = reply.send(recorder.states());
                        }
                        Command::Finish => return,
                    }
                }
                if left_alone {
                    return;
                }
                pause(REST);
            }
        };
        let thread = Builder::new().name("hertzd-recorder".into()).spawn(body)?;
        Ok(Self { commands, thread })
    }

    pub(super) fn add(&self, streams: Vec<TaskOutput>) {
        self.order(Command::Add(streams));
    }

    /// Finishes all recordings, with all that was handed over before; what has become of each task's values.
    pub(super) fn close(&self) -> Vec<OutputState> {
        let (reply, answer) = bounded(1);
        self.order(Command::Close(reply));
        answer.recv().unwrap_or_default()
    }

    /// What has become of each task's values so far; `None`: the disk is slow, and so is the answer.
    pub(super) fn look_within(&self, patience: Duration) -> Option<Vec<OutputState>> {
        let (reply, answer) = bounded(1);
        self.order(Command::Look(reply));
        answer.recv_timeout(patience).ok()
    }

    /// Ends the thread. False: it had panicked.
    pub(super) fn finish(self) -> bool {
        self.order(Command::Finish);
        self.thread.join().is_ok()
    }

    fn order(&self, command: Command) {
        // The thread ends before its time only by a panic, which `finish` reports.
        let _ = self.commands.send(command);
    }
}
