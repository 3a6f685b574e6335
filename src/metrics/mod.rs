//! Evaluates the records: histograms, counts and causes of every task, and the events worth reporting.
//!
//! Time comes with the records and as an argument. Nothing here waits; it may allocate.
//! Runs on the metrics thread, or inside `hertzd simulate`.

mod buckets;
mod cause;
mod collect;
mod event;
mod facts;
mod health;
mod histogram;
mod history;
mod judge;
mod last_misses;
mod late_chains;
mod limiter;
mod machine;
mod missed;
mod parts;
mod pasts;
mod recent;
mod steps;
mod task;
mod tasks;
mod timeline;
mod weigh;
mod window;

pub(crate) use cause::{By, Cause, Program, Verdict, Verdicts};
pub(crate) use collect::Metrics;
pub(crate) use event::Event;
pub(crate) use event::{EventKind, LateChain};
pub(crate) use facts::TaskFacts;
pub(crate) use health::{Ailment, Progress, TaskHealth};
pub(crate) use histogram::Histogram;
pub(crate) use last_misses::RecentMiss;
pub(crate) use machine::{
    Accuser, Bandwidth, Certainty, Instants, MONOTONIC, NoAccuser, REALTIME, Stall, TAI, WorkerFacts,
};
#[cfg(test)]
pub(crate) use missed::LateTick;
pub(crate) use missed::{Missed, Share};
pub(crate) use task::{Spans, TaskSnapshot, Totals};
pub(crate) use weigh::Threads;

#[cfg(test)]
use crate::channels::TickRecord;

/// An overrun with nothing else set.
#[cfg(test)]
const RECORD: TickRecord = TickRecord { n: 7, overrun: true, ..TickRecord::EMPTY };
