//! `hertzd report`: a run as one page of HTML, or two runs beside each other. Pure: what sources tell goes in, text comes out.
//!
//! ```text
//! summary, snapshot ─┐
//! ticks of a flight file ─┼─▶ model: Run ──▶ html
//! recording (cli/report/recorded.rs) ─┘
//! ```

#[expect(dead_code, reason = "the sources and the page that use it come next")]
mod model;

#[expect(unused_imports, reason = "the sources and the page that use it come next")]
pub(crate) use model::{
    BINS, Bin, Counts, Kind, Machine, Miss, Run, SecondOfTask, SecondTick, Source, Spread, Task, Told, WORST,
    WORST_SECOND_TICKS, Worker, WorstSecond,
};
