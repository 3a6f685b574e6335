//! What the program is asked for.

use clap::Parser;
use std::path::PathBuf;

/// Measures hertzd beside its peers, and prints a page of results (Markdown) and a plot (SVG).
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// How often each contender runs; the medians of the rounds are printed.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// How long each run takes.
    #[arg(long, default_value_t = 4, value_name = "SECONDS")]
    pub(crate) seconds: u32,
    /// Rates of one task, in Hz.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    pub(crate) rates: Vec<u32>,
    /// Numbers of tasks that share 20,000 ticks a second.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000")]
    pub(crate) tasks: Vec<u32>,
    /// Without the rounds beside stress-ng.
    #[arg(long)]
    pub(crate) idle_only: bool,
    /// The CPU that all run on [default: the last one].
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// Where `peers.md` and `peers.svg` are written, besides what is printed.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Runs one contender, for the program itself.
    #[arg(long, hide = true)]
    pub(crate) contender: Option<String>,
}
