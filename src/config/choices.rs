//! Choices of keys that other modules use as types.

/// The clock of a worker's releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockKind {
    /// Since boot; never set.
    Monotonic,
    /// International atomic time.
    Tai,
    /// Civil time.
    Realtime,
}

impl ClockKind {
    /// Its name in the configuration and in every output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::Tai => "tai",
            Self::Realtime => "realtime",
        }
    }
}

/// When a worker collects evidence of why a release was missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TakeEvidence {
    /// Never: the cause of a late wake-up or a long run stays unknown.
    Off,
    /// Once per wake-up, before the sleep, and after each tick in which something was missed.
    #[default]
    Wake,
    /// After each tick.
    Tick,
}

/// What happens after too many overruns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAction {
    /// Log a warning.
    Warn,
    /// Stop running this task.
    Disable,
    /// End the daemon.
    Exit,
}

/// What happens after a failed tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Run the next tick as usual.
    Continue,
    /// Stop running this task.
    Disable,
    /// End the daemon.
    Exit,
}
