//! What a section says of a program. Plain values.

use crate::task::Column;
use crate::time::Span;
use std::path::PathBuf;

/// A program, and what it is told and asked for.
#[derive(Clone, Debug)]
pub(super) struct ProgramSettings {
    /// The name of its task, for the log and the program.
    pub(super) task: String,
    /// The program and its arguments; never empty.
    pub(super) command: Vec<String>,
    pub(super) folder: Option<PathBuf>,
    /// Beside the environment of the daemon, or in place of its: names and values.
    pub(super) environment: Vec<(String, String)>,
    /// Most bytes of address space.
    pub(super) memory: Option<u64>,
    /// Most processor time, as a share of one CPU; above zero.
    pub(super) cpu: Option<f64>,
    pub(super) period: Span,
    /// The share of its ticks that may go without an answer in time.
    pub(super) max_missed: f64,
    /// The names of its inputs.
    pub(super) inputs: Vec<String>,
    /// What it gives back.
    pub(super) values: Vec<Column>,
}
