//! The settings of a `load` task. Plain data.

use crate::time::Span;
use std::num::NonZeroU64;

/// What a load does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadSettings {
    /// How long the ticks run, one after the other, cycled. Empty: no time at all; negative counts as zero.
    pub run: Vec<Span>,
    pub mode: Mode,           // how the time is spent
    pub fault: Option<Fault>, // what goes wrong, if anything
}

/// How a load spends its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// On the processor.
    #[default]
    Burn,
    /// Asleep, like a task that waits for a device.
    Sleep,
}

/// Something that goes wrong now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub effect: Effect,
    /// The fault comes in the last of each group of this many releases: in tick `n` when `n + 1` is a multiple. With 1, in every tick; with
    /// 100, first in tick 99. A fault whose release is skipped does not happen.
    pub every: NonZeroU64,
    pub run: Span, // how long the faulting tick runs, in place of the scripted time
}

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The tick burns [`Fault::run`], whatever the mode.
    LongRun,
    /// The tick touches [`FRESH_PAGES`] pages for the first time, and burns the rest of [`Fault::run`]. Each page faults if memory is
    /// locked on fault (`MLOCK_ONFAULT`); none does if all memory was locked at once; with transparent huge pages, one fault may bring in
    /// all of them. After [`PAGE_FAULT_TICKS`] such ticks no fresh page is left, and they fail.
    PageFaults,
    /// The tick sleeps [`Fault::run`], whatever the mode.
    Sleep,
    /// The tick runs [`Fault::run`] in the mode, then returns an error.
    Error,
    /// The tick runs [`Fault::run`] in the mode, then panics.
    Panic,
    /// The tick never returns; [`Fault::run`] has no effect. It sleeps, so that the processor stays usable and the tick ends with the
    /// process. On a virtual clock it never ends.
    Hang,
}

/// Pages touched by a tick with [`Effect::PageFaults`].
pub(crate) const FRESH_PAGES: usize = 64;

/// Ticks with [`Effect::PageFaults`] that find fresh pages.
pub(crate) const PAGE_FAULT_TICKS: usize = 64;
