//! Why releases were missed: the words for causes, and the culprits.
//!
//! Plain values; other modules determine them. Reads no clock, allocates nothing.

use crate::time::Span;
use std::fmt;

/// Why a release was missed. The order is the order of the words in every output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The worker's sleep ended late, but not because it waited for a processor: the kernel, a timer or the host was late.
    WokenLate,
    /// Another task of the same worker ran.
    Blocked,
    /// The task's own previous tick was still running, or its debt was being worked off.
    OwnDebt,
    /// The tick itself took too long, and was on the processor during that time.
    RanLong,
    /// The worker was ready to run, but did not get the processor.
    Preempted,
    /// The tick waited for pages of memory.
    PageFault,
    /// The tick slept: for a device, a lock, a timer.
    Waited,
    /// The process or the machine was stopped, or a clock was set.
    Stalled,
    /// The processor time that the kernel grants real-time threads was used up.
    Throttled,
    /// The task had been ended.
    Disabled,
    /// There is no evidence, or it fits more than one cause.
    Unknown,
}

impl Cause {
    /// Every cause, ordered by its [`index`](Self::index).
    pub(crate) const ALL: [Self; 11] = [
        Self::WokenLate,
        Self::Blocked,
        Self::OwnDebt,
        Self::RanLong,
        Self::Preempted,
        Self::PageFault,
        Self::Waited,
        Self::Stalled,
        Self::Throttled,
        Self::Disabled,
        Self::Unknown,
    ];

    /// The word for this cause in every output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::WokenLate => "woken-late",
            Self::Blocked => "blocked",
            Self::OwnDebt => "own-debt",
            Self::RanLong => "ran-long",
            Self::Preempted => "preempted",
            Self::PageFault => "page-fault",
            Self::Waited => "waited",
            Self::Stalled => "stalled",
            Self::Throttled => "throttled",
            Self::Disabled => "disabled",
            Self::Unknown => "unknown",
        }
    }

    /// Its index in [`ALL`](Self::ALL).
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// Who delayed a task, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The task with this number, on the same worker.
    Task(u32),
    /// The worker with this number, on the same CPU.
    Worker(usize),
    /// A thread other than hertzd's workers.
    Program(Program),
    /// The host of this virtual machine.
    Steal,
    /// Interrupts.
    Interrupts,
}

/// A thread, identified by its name and its process. Displayed as `stress-ng (pid 123)`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    name: [u8; 16], // UTF-8, up to the first zero
    pid: u32,
}

impl Program {
    /// A program with this name, truncated to the length that the kernel keeps, and its process ID.
    pub(crate) fn new(name: &str, pid: u32) -> Self {
        let length = (0..=name.len().min(15)).rev().find(|&length| name.is_char_boundary(length)).unwrap_or(0);
        let mut bytes = [0; 16];
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self { name: bytes, pid }
    }

    /// Its name, up to the first zero, and its process ID.
    pub(crate) const fn parts(&self) -> ([u8; 16], u32) {
        (self.name, self.pid)
    }

    /// The program with these [`parts`](Self::parts).
    pub(crate) const fn from_parts(name: [u8; 16], pid: u32) -> Self {
        Self { name, pid }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        write!(f, "{} (pid {})", str::from_utf8(&self.name[..length]).unwrap_or("?"), self.pid)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why some releases of a task were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) cause: Cause,
    /// The culprit, if known; always a task if the cause is [`Cause::Blocked`].
    pub(crate) by: Option<By>,
    /// How much of the delay this cause explains.
    pub(crate) time: Span,
    /// How many releases it covers; at least 1.
    pub(crate) count: u64,
}

impl Verdict {
    /// `count` releases about which nothing but `cause` is known.
    pub(crate) const fn plain(cause: Cause, count: u64) -> Self {
        Self { cause, by: None, time: Span::ZERO, count }
    }
}

/// The verdicts on one record. Together they cover everything missed in it, each release once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    /// The verdict on the releases given up before the tick.
    pub(crate) before: Option<Verdict>,
    /// The verdict on the tick, if it is an overrun.
    pub(crate) overrun: Option<Verdict>,
    /// The verdict on the releases given up when the tick had finished.
    pub(crate) after: Option<Verdict>,
    /// How many of the releases before the tick were already entered while the task waited.
    pub(crate) known: u64,
}

impl Verdicts {
    /// The verdicts without what was already entered while the task waited.
    pub(crate) fn unknown(&self) -> Self {
        let rest = |verdict: Verdict| Verdict { count: verdict.count - self.known, ..verdict };
        Self { before: self.before.map(rest).filter(|rest| rest.count > 0), known: 0, ..*self }
    }

    /// All verdicts, in the order of the releases.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Verdict> {
        [&self.before, &self.overrun, &self.after].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_indices_and_words_of_their_own() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause.index(), index);
            assert_eq!(Cause::ALL.iter().filter(|other| other.word() == cause.word()).count(), 1);
        }
    }

    #[test]
    fn a_program_shows_its_name_as_the_kernel_keeps_it() {
        assert_eq!(Program::new("stress-ng", 123).to_string(), "stress-ng (pid 123)");
        assert_eq!(Program::new("äääääääääääää", 1).to_string(), "äääääää (pid 1)");
    }
}
