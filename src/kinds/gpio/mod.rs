//! The kind `gpio`: levels of lines and edges since the last tick, through the character device (uAPI v2).
//!
//! The kernel stamps each edge with CLOCK_MONOTONIC and numbers it, so no edge is lost without being counted. A tick makes one system call
//! for the levels, one per 64 edges, and one more if the edges fill those exactly. It neither blocks nor allocates.

mod chip;
mod driven;
mod edges;
mod keys;
mod lines;
mod list;
mod settings;

pub(super) use driven::DrivenLine;
pub(super) use keys::kind;
pub(super) use list::list;
pub(super) use settings::LineId;

use crate::channels::{BlockSender, Format, Shape};
use crate::config::{BuildError, Preview};
use crate::kinds::device::{Missing, Reconnecting, preview};
use crate::site::{Label, Site};
use crate::task::{Column, Task, Tick, TickError};
use edges::{Edges, SAMPLE};
use lines::LineRequest;
use settings::GpioSettings;

/// A task that reads lines.
struct Gpio {
    lines: Reconnecting<LineRequest>,
    names: Vec<String>,
    edges: Option<Edges>, // `None`: edges are not requested
    blocks: Option<BlockSender>,
}

/// Average rate of edges per second that the queue of a recording is sized for.
const EDGES_PER_SECOND: f64 = 2_000.0;

impl Gpio {
    fn open(
        site: &mut Site,
        label: Label,
        names: Vec<String>,
        wanted: GpioSettings,
        missing: Missing,
    ) -> Result<Self, BuildError> {
        let edges = wanted.edges.is_some().then(|| Edges::new(names.len()));
        let lines = Reconnecting::open(site, label, missing, move || LineRequest::open(&wanted))?;
        let blocks = edges.as_ref().and_then(|_| site.stream(stream()));
        Ok(Self { lines, names, edges, blocks })
    }

    /// Previews `open`.
    fn look(
        site: &Site,
        label: &Label,
        names: &[String],
        wanted: &GpioSettings,
        missing: Missing,
    ) -> Result<Preview, BuildError> {
        let (edges, preview) = (wanted.edges.is_some(), preview(site, label, missing, lines::look(wanted))?);
        Ok(Preview { columns: Some(all_columns(names, edges)), stream: edges.then(stream), ..preview })
    }
}

impl Task for Gpio {
    fn columns(&self) -> Vec<Column> {
        all_columns(&self.names, self.edges.is_some())
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let Self { lines, edges, blocks, names } = self;
        let (levels, counts) = values.split_at_mut(names.len());
        // Edges that were read count, even if the rest of the tick fails.
        let bits = lines.with("cannot read the lines", tick.period, |lines| {
            if let Some(edges) = edges {
                edges.read(lines, tick.n, blocks.as_mut())?;
            }
            lines.levels()
        })?;
        levels.iter_mut().enumerate().for_each(|(index, level)| *level = f64::from(u8::from(bits >> index & 1 == 1)));
        if let Some(edges) = edges {
            edges.report(counts);
        }
        Ok(())
    }
}

fn column(name: impl Into<String>) -> Column {
    Column { name: name.into(), unit: String::new() }
}

fn all_columns(names: &[String], edges: bool) -> Vec<Column> {
    columns(names, edges).into_iter().map(column).collect()
}

/// Shape of the recorded edges.
#[expect(clippy::cast_precision_loss, reason = "a few bytes")]
fn stream() -> Shape {
    Shape {
        format: Format::Samples(["line", "level"].map(column).into()),
        largest: edges::BATCH * SAMPLE,
        bytes_per_second: EDGES_PER_SECOND * SAMPLE as f64,
    }
}

/// The names of the values: the level of each line; if edges are requested, also the edges of each line since the last tick, all edges
/// since the start, and the lost ones.
fn columns(names: &[String], edges: bool) -> Vec<String> {
    let mut columns = names.to_vec();
    if edges {
        columns.extend(names.iter().map(|name| format!("{name}-edges")));
        columns.extend(["edges".into(), "lost".into()]);
    }
    columns
}
