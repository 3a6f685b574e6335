//! The interface common to all kinds of target: files, GPIO lines and registers are each taken, read and opened in their own way. May block
//! and allocate.

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

/// How many times to ask for a lock that another process holds. A process that only probes holds it for an instant.
const LOCK_TRIES: u32 = 20;

/// Part of the message when another process has the target.
pub(super) const ONE_ONLY: &str = "only one output at a time can have it";

/// The operations that differ between kinds of target.
pub(in super::super) trait Means: fmt::Debug + Send + Sync {
    /// The target's name in messages.
    fn shown(&self) -> String;

    /// The device that the target belongs to.
    fn device(&self) -> Device;

    /// Takes the target for a task: no other hertzd process can have it until all copies of the returned file are closed. Nothing is
    /// written. `left`: what earlier processes left behind.
    fn take(&self, left: &LeftWrites, key: &'static str, task: &str) -> Result<Kept, Refusal>;

    /// Takes the other files that belong to the target in the same way: two outputs that write one of these files drive one device.
    fn take_beside(&self, _left: &LeftWrites, _key: &'static str, _task: &str) -> Result<Vec<Kept>, Refusal> {
        Ok(Vec::new())
    }

    /// How a number is stored in the target's bytes, if not as text.
    fn layout(&self) -> Option<SampleLayout> {
        None
    }

    /// Whether the target is on a chip with an `init` sequence.
    fn has_init(&self) -> bool {
        false
    }

    /// Sends the chip its `init` sequence, once the target is taken.
    fn init(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Makes a taken target ready for writes. `high`: level of a line from then on; `None`: keep its current level.
    fn set_up(&self, _taken: &File, _high: Option<bool>) -> Result<(), Refusal> {
        Ok(())
    }

    /// The text of the number the target holds. `taken`: `None` if the target was not taken and is only previewed.
    fn value(&self, taken: Option<&File>) -> io::Result<String>;

    /// Like [`value`](Self::value), with the stored bytes where a text does not hold all of them.
    fn stored(&self, taken: Option<&File>) -> io::Result<(String, Option<Vec<u8>>)> {
        Ok((self.value(taken)?, None))
    }

    /// The text of the number in these stored bytes; `None` for targets that store text.
    fn text_of(&self, _stored: &[u8]) -> Option<String> {
        None
    }

    /// Whether the target can be read only through the file that taking it returned.
    fn is_read_by_what_was_taken(&self) -> bool {
        false
    }

    /// The raw number that the target holds after this one was written to it.
    fn as_held(&self, number: f64) -> f64 {
        number
    }

    /// Opens a taken target for writing.
    fn port(&self, taken: &File) -> io::Result<Port>;

    /// A file that exists as long as the target does: the target itself, or the device file that leads to it.
    fn node(&self) -> &Path;

    /// The writes another process would have to make. `found`: what the target held before hertzd wrote to it.
    fn plan(&self, text: &SafeText, found: Option<&Content>) -> Vec<PlannedWrite>;

    /// Adds to `sight` what is known of the target without taking it.
    fn look(&self, key: &'static str, sight: Sight) -> Result<Sight, Refusal>;

    /// The target's file, if it is one: its content can be read without taking it.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Its `pwmN_enable`, if it has one.
    fn enable(&self) -> Option<&Path> {
        None
    }

    /// The settings that the value needs to have any effect, in the order in which they are written.
    fn settings(&self) -> &[Setting] {
        &[]
    }

    /// The target as a PWM channel that is to be switched on, if it is one.
    fn channel(&self) -> Option<&Channel> {
        None
    }

    /// The same target with this polarity to keep, if it has a polarity.
    fn with_polarity(&self, _polarity: f64) -> Option<Arc<dyn Means>> {
        None
    }
}

/// A file of a target, locked against others.
#[derive(Debug)]
pub(in super::super) struct Kept {
    pub(in super::super) file: File,
    /// Its lock, if hertzd continued without it.
    pub(in super::super) lock: Option<PassedOver>,
}

/// A lock that hertzd continued without, because its holder does not keep anyone from the target. hertzd keeps asking for it: otherwise a
/// hertzd that starts once the lock is free would see no owner.
#[derive(Debug)]
pub(in super::super) struct PassedOver {
    file: File,                    // a copy
    registers: Option<(u32, u32)>, // or channels
    shown: String,
    task: String,         // one or several
    planner: Option<u32>, // the earlier owner named in a plan
    peer: Option<String>, // another hertzd that held the lock when last asked
}

impl PassedOver {
    /// `registers`: the number of the first register, or of the first channel of a shared file, and how many; `None` for a file, which has
    /// a single lock byte. Warns that `task` continues without the lock, which `holder` has.
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

    /// Asks for the lock. `tasks`: the target's current tasks, if known. Returns whether the lock is still missing.
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

    /// The problem, if another hertzd has the target too.
    pub(in super::super) fn trouble(&self) -> Option<String> {
        self.peer.as_ref().map(|peer| not_alone(&self.task, &self.shown, peer))
    }
}

fn not_alone(task: &str, shown: &str, peer: &str) -> String {
    format!(
        "{task}: {shown} is also in use by {peer}, which locked it after this hertzd had started without the lock: stop one of the two"
    )
}

/// Locks a target against other hertzd processes, through one of its files that is open for writing. Asks repeatedly, for a limited time,
/// while another process has it. `channels`: the first, and how many, of a file that several targets share; `None`: the whole file.
/// `shown`: the target's name. `planner`: the process that planned a write to the target and had it before.
///
/// Returns `Some` if a lock is ignored, with its holder if one was found.
///
/// # Errors
/// Who has the target, as a clause, or why it cannot be locked.
pub(in super::super) fn keep_others_out(
    file: &File,
    channels: Option<(u32, u32)>,
    shown: &dyn fmt::Display,
    planner: Option<u32>,
) -> Result<Option<Option<Holder>>, String> {
    let ask = || channels.map_or_else(|| lock::take(file), |(first, count)| lock::take_register(file, first, count));
    let take = || ask().map(|taken| taken.once_had_by(planner));
    let taken = in_time(take).map_err(|error| format!("cannot be locked: {error}"))?;
    // Another hertzd that a foreign lock holder kept from locking is found by its open file.
    let writer = || lock::writer(file).filter(|_| channels.is_none());
    not_a_peer(taken, shown, writer)
}

/// Like [`keep_others_out`], for the result of a lock request. `writer` finds another hertzd that has the target without a lock.
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

/// The name of a lock holder in messages, which may be unknown.
pub(in super::super) fn named(holder: Option<Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |holder| holder.to_string())
}

/// Asks for a lock until no other hertzd holds it, for a limited time.
pub(in super::super) fn in_time<E>(mut ask: impl FnMut() -> Result<Taken, E>) -> Result<Taken, E> {
    for _ in 1..LOCK_TRIES {
        match ask()? {
            Taken::Peer(_) => pause(Span::from_millis(5)),
            taken => return Ok(taken),
        }
    }
    ask()
}
