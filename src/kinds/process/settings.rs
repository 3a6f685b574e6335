//! The settings of a program from its section. Plain values.

use crate::task::Column;
use crate::time::Span;
use std::path::PathBuf;

/// A program, with its inputs and outputs.
#[derive(Clone, Debug)]
pub(super) struct ProgramSettings {
    /// The name of its task, for the log and the program.
    pub(super) task: String,
    /// The program and its arguments; never empty.
    pub(super) command: Vec<String>,
    pub(super) folder: Option<PathBuf>,
    /// Names and values that extend or override the daemon's environment.
    pub(super) environment: Vec<(String, String)>,
    /// The most address space, in bytes.
    pub(super) memory: Option<u64>,
    /// The most processor time, as a share of one CPU; above zero.
    pub(super) cpu: Option<f64>,
    pub(super) period: Span,
    /// The share of its ticks that may go without an answer in time.
    pub(super) max_missed: f64,
    /// The names of its inputs.
    pub(super) inputs: Vec<String>,
    /// The values that it returns.
    pub(super) values: Vec<Column>,
}
