//! Who takes part, what one run is asked for, and what comes of it.

use serde::{Deserialize, Serialize};

/// The real-time priority of all.
pub(crate) const PRIORITY: u8 = 80;

/// Who takes part.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Kind {
    Cyclictest,
    /// `clock_nanosleep` until an absolute instant, in a loop.
    Plain,
    /// As `Plain`, but asleep only until this many microseconds before, and then spinning.
    Tail(u32),
    SpinSleep,
    Tokio,
    /// Never asleep.
    Spin,
    /// hertzd without a spin tail.
    HertzdOff,
    /// With a learned one that may take this many thousandths of the CPU.
    HertzdAuto(u32),
    /// The same again.
    HertzdAgain(u32),
}

impl Kind {
    pub(crate) fn name(self) -> String {
        let percent = |thousandths: u32| f64::from(thousandths) / 10.0;
        match self {
            Self::Cyclictest => "cyclictest".into(),
            Self::Plain => "absolute sleep".into(),
            Self::Tail(micros) => format!("fixed tail, {micros} µs"),
            Self::SpinSleep => "spin_sleep".into(),
            Self::Tokio => "tokio interval".into(),
            Self::Spin => "pure spin".into(),
            Self::HertzdOff => "hertzd, spin off".into(),
            Self::HertzdAuto(share) => format!("hertzd, auto, {} %", percent(share)),
            Self::HertzdAgain(share) => format!("hertzd, auto, {} %, again", percent(share)),
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) rate: u32, // of each task
    pub(crate) tasks: u32,
    pub(crate) seconds: u32,
    pub(crate) cpu: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Sample {
    /// Nanoseconds from the instant that a tick was for to its own first reading of the clock.
    pub(crate) late: Vec<i64>,
    /// The same to what hertzd calls the start of the tick.
    pub(crate) started: Vec<i64>,
    /// Processor time of the whole process and the time in which it was used, in nanoseconds.
    pub(crate) used: [i64; 2],
}
