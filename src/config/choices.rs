//! Choices of keys that other rooms know by their types.

/// The clock that releases are on.
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
    /// The word for it in the configuration and in every output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::Tai => "tai",
            Self::Realtime => "realtime",
        }
    }
}

/// When a worker takes evidence of why a release was missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TakeEvidence {
    /// Never: the cause of a late wake-up or a long run stays open.
    Off,
    /// Once each wake-up, before the sleep, and after each tick in which something was missed.
    #[default]
    Wake,
    /// After each tick.
    Tick,
}

/// What follows too many overruns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAction {
    /// A warning.
    Warn,
    /// No more ticks of this task.
    Disable,
    /// The end of the daemon.
    Exit,
}

/// What follows a failed tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The next tick.
    Continue,
    /// No more ticks of this task.
    Disable,
    /// The end of the daemon.
    Exit,
}
