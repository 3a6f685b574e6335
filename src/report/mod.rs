//! `hertzd report`: a run as one HTML page, or two runs beside each other. Pure: takes what a source knows, returns text.
//!
//! ```text
//! summary, snapshot ──────▶ of_summary ─┐
//! flight file ────────────▶ of_flight ──┼─▶ Run ──▶ page
//! totals of a recording ──▶ cli/report ──┘        two of them ──▶ Comparison ──▶ page_of_two
//! ```

mod compare;
mod flight;
mod html;
mod model;
mod story;
mod summary;
mod ticks;
mod verdict;

pub(crate) use compare::Comparison;
pub(crate) use flight::of_flight;
pub(crate) use html::{page, page_of_two};
#[cfg(feature = "mcap")]
pub(crate) use model::{
    Available, Bin, Counts, Miss, NO_VALUES, SecondOfTask, SecondTick, Spread, Task, WORST, WORST_SECOND_TICKS,
    WorstSecond, largest_first,
};
pub(crate) use model::{Kind, Run, Source, as_summary};
#[cfg(feature = "mcap")]
pub(crate) use story::{ran, releases};
pub(crate) use summary::of_summary;
#[cfg(not(feature = "mcap"))]
pub(crate) use ticks::of_ticks;
pub(crate) use verdict::{compared, verdict};
