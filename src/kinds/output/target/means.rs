//! What the sorts of target have in common: files, GPIO lines and registers are each taken, read and opened in a way of their own. May
//! block and allocate.

use super::super::identity::Device;
use super::super::left_writes::LeftWrites;
use super::super::port::{Content, Port, SafeText};
use super::super::setting::Setting;
use super::pwm::Channel;
use crate::kinds::device::Sight;
use crate::kinds::layout::SampleLayout;
use crate::safety::PlannedWrite;
use crate::site::Refusal;
use crate::sys::clock::pause;
use crate::sys::lock::{self, Holder, Taken};
use crate::time::Span;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tracing::{debug, error, info, warn};

/// How often a lock is asked for that another process has: one that only looks has it for an instant.
const LOCK_TRIES: u32 = 20;

/// What is said where another process has it.
pub(super) const ONE_ONLY: &str = "only one output at a time can have it";

/// What sorts of target differ in.
pub(in super::super) trait Means: fmt::Debug + Send + Sync {
    /// What messages call it.
    fn shown(&self) -> String;

    /// What it is a part of.
    fn device(&self) -> Device;

    /// Takes it for a task: no other process of hertzd has it until all copies of the file are closed that this returns. Nothing is written.
    /// `left`: what processes before this one have left.
    fn take(&self, left: &LeftWrites, key: &'static str, task: &str) -> Result<Kept, Refusal>;

    /// Takes the other files that belong to it in the same way: two outputs that write one of them drive one device.
    fn take_beside(&self, _left: &LeftWrites, _key: &'static str, _task: &str) -> Result<Vec<Kept>, Refusal> {
        Ok(Vec::new())
    }

    /// How a number is stored in its bytes, if that is no text.
    fn layout(&self) -> Option<SampleLayout> {
        None
    }

    /// Whether a chip needs something to begin with.
    fn has_init(&self) -> bool {
        false
    }

    /// Sends a chip what it needs to begin with, once it was taken.
    fn init(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Makes it ready to be written, once it was `taken`. `high`: whether a line is to be high from then on; `None`: as it is.
    fn set_up(&self, _taken: &File, _high: Option<bool>) -> Result<(), Refusal> {
        Ok(())
    }

    /// The text of the number that it holds. `None`: it was not taken, and is only looked at.
    fn value(&self, taken: Option<&File>) -> io::Result<String>;

    /// The same, with the bytes that it is stored in where a text does not hold all of them.
    fn stored(&self, taken: Option<&File>) -> io::Result<(String, Option<Vec<u8>>)> {
        Ok((self.value(taken)?, None))
    }

    /// The text of the number that is stored so, if it is no text itself.
    fn text_of(&self, _stored: &[u8]) -> Option<String> {
        None
    }

    /// Whether only what taking it has returned can read it.
    fn is_read_by_what_was_taken(&self) -> bool {
        false
    }

    /// What it holds after this raw number was written to it.
    fn as_held(&self, number: f64) -> f64 {
        number
    }

    /// Opens it to be written, once it was `taken`.
    fn port(&self, taken: &File) -> io::Result<Port>;

    /// A file that is there for as long as it is: itself, or the device file that leads to it.
    fn node(&self) -> &Path;

    /// What another process would have to write. `found`: what it held before hertzd wrote to it.
    fn plan(&self, text: &SafeText, found: Option<&Content>) -> Vec<PlannedWrite>;

    /// What can be seen of it without taking it, beyond `sight`.
    fn look(&self, key: &'static str, sight: Sight) -> Result<Sight, Refusal>;

    /// Its file, if it is one: what that holds can be looked at without taking it.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// `pwmN_enable`, if it has one.
    fn enable(&self) -> Option<&Path> {
        None
    }

    /// What has to be set for its value to have any effect, in the order in which that is written.
    fn settings(&self) -> &[Setting] {
        &[]
    }

    /// Itself, as a channel of a PWM chip that is to be switched on.
    fn channel(&self) -> Option<&Channel> {
        None
    }

    /// The same target that is to have this polarity, if it has one.
    fn with_polarity(&self, _polarity: f64) -> Option<Arc<dyn Means>> {
        None
    }
}

/// A file of a target that others are kept from.
#[derive(Debug)]
pub(in super::super) struct Kept {
    pub(in super::super) file: File,
    /// Its lock, if that was passed over.
    pub(in super::super) lock: Option<PassedOver>,
}

/// A lock that could not be had, because of who keeps nobody out. It is asked for again: a hertzd that starts once it is free would find nobody.
#[derive(Debug)]
pub(in super::super) struct PassedOver {
    file: File, // a copy
    registers: Option<(u32, u32)>,
    shown: String,
    task: String,         // or tasks
    planner: Option<u32>, // had it before, as a plan says
    peer: Option<String>, // another hertzd had it at the last question
}

impl PassedOver {
    /// `registers`: the first, and how many; of a file the one byte that stands for it. Says that `task` goes on without it, as `holder` has it.
    pub(in super::super) fn of(
        file: &File,
        registers: Option<(u32, u32)>,
        (task, shown): (&str, String),
        (holder, planner): (Option<Holder>, Option<u32>),
    ) -> Option<Self> {
        let task = task.to_owned();
        let (its, target) = (task.clone(), shown.clone());
        lock::stranger(file, registers, holder).name(move |holder| {
            let (task, holder) = (its, named(holder));
            warn!(
                task,
                "{task}: {target} is locked by {holder}, in a way that keeps hertzd from its own lock but not from the target; continuing without \
                 the lock, and asking for it again every second: make sure that no other program writes to the target"
            );
        });
        Some(Self { file: file.try_clone().ok()?, registers, shown, task, planner, peer: None })
    }

    /// Asks for it. `tasks`: who has the target now, if that is known. Whether it is still not held.
    pub(in super::super) fn is_still(&mut self, tasks: String) -> bool {
        if !tasks.is_empty() {
            self.task = tasks;
        }
        let (task, shown) = (&self.task, &self.shown);
        let asked = match self.registers {
            Some((first, count)) => lock::take_register(&self.file, first, count),
            None => lock::take(&self.file),
        };
        match asked.map(|taken| taken.once_had_by(self.planner)) {
            Ok(Taken::Peer(holder)) => {
                let peer = named(holder);
                if self.peer.as_ref() != Some(&peer) {
                    error!(task, "{}", not_alone(task, shown, &peer));
                    self.peer = Some(peer);
                }
                true
            }
            Ok(Taken::Stranger(_)) => {
                self.peer = None;
                true
            }
            Ok(Taken::Locked) => {
                info!(task, "{task}: {shown} is locked now: the process that held its lock has released it");
                false
            }
            Ok(Taken::Unsupported) | Err(_) => false,
        }
    }

    /// What is wrong: another hertzd has the target too.
    pub(in super::super) fn trouble(&self) -> Option<String> {
        self.peer.as_ref().map(|peer| not_alone(&self.task, &self.shown, peer))
    }
}

fn not_alone(task: &str, shown: &str, peer: &str) -> String {
    format!(
        "{task}: {shown} is also in use by {peer}, which locked it after this hertzd had started without the lock: stop one of the two"
    )
}

/// Keeps other processes of hertzd from a target, by a file of it that is open to write. Asks again, for a limited time, while another one
/// has it. `shown` is the target. `planner`: the process that had it, where it was planned by one.
///
/// `Some`: its lock is passed over, and who has that, if that was looked for.
///
/// # Errors
/// Who has it, in a clause, or why that cannot be asked.
pub(in super::super) fn keep_others_out(
    file: &File,
    shown: &dyn fmt::Display,
    planner: Option<u32>,
) -> Result<Option<Option<Holder>>, String> {
    let take = || lock::take(file).map(|taken| taken.once_had_by(planner));
    let taken = in_time(take).map_err(|error| format!("cannot be locked: {error}"))?;
    // Another hertzd that a stranger has kept from its lock has none to be seen.
    let writer = || lock::writer(file);
    not_a_peer(taken, shown, writer)
}

/// The same for a lock that was asked for; `writer` finds another hertzd that has the target without one.
pub(in super::super) fn not_a_peer(
    taken: Taken,
    shown: &dyn fmt::Display,
    writer: impl FnOnce() -> Option<Holder>,
) -> Result<Option<Option<Holder>>, String> {
    let in_use = |holder: Option<Holder>| format!("is in use by {}", named(holder));
    match taken {
        Taken::Locked => {}
        Taken::Unsupported => debug!("{shown} is not locked: its file system has no locks"),
        Taken::Peer(holder) => return Err(in_use(holder)),
        Taken::Stranger(holder) => match writer() {
            Some(writer) => return Err(in_use(Some(writer))),
            None => return Ok(Some(holder)),
        },
    }
    Ok(None)
}

/// What messages call a holder that may not be seen.
pub(in super::super) fn named(holder: Option<Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |holder| holder.to_string())
}

/// Asks for a lock until another hertzd has it no more, for a limited time.
pub(in super::super) fn in_time<E>(mut ask: impl FnMut() -> Result<Taken, E>) -> Result<Taken, E> {
    for _ in 1..LOCK_TRIES {
        match ask()? {
            Taken::Peer(_) => pause(Span::from_millis(5)),
            taken => return Ok(taken),
        }
    }
    ask()
}
