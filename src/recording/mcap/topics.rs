//! The topics of a task in an MCAP file, each with its schema. Pure.

use super::chunks::Schema;
use super::foxglove;
use super::json::{self, Keys};
use crate::channels::Format;
use crate::recording::content::Content;

/// A recorded task.
#[derive(Debug)]
pub(super) struct TaskTopics {
    pub(super) name: String,
    pub(super) format: Option<Format>,
    pub(super) topics: Vec<Topic>, // by `Kind`
    pub(super) values: Keys,
    pub(super) samples: Keys,
}

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) encoding: &'static str,
    pub(super) schema: Schema,
    pub(super) channel: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Values,
    Blocks,
    Ticks,
    Overruns,
}

impl TaskTopics {
    pub(super) fn of(content: &Content) -> Self {
        let Content { task, format, .. } = content;
        let columns = &content.recorded();
        let topic = |kind, word: &str, encoding, schema| {
            Some(Topic { kind, name: format!("{task}/{word}"), encoding, schema, channel: None })
        };
        let json =
            |word: &str, columns| json::schema(&format!("hertzd.{task}.{word}"), &format!("{word} of {task}"), columns);
        let blocks = match format {
            None => None,
            Some(Format::Audio(_)) => topic(Kind::Blocks, "audio", "protobuf", foxglove::audio_schema()),
            Some(Format::Image(format)) => topic(Kind::Blocks, "image", "protobuf", foxglove::image_schema(*format)),
            Some(Format::Samples(columns)) => topic(Kind::Blocks, "samples", "json", json("samples", columns)),
        };
        let values = match columns.is_empty() {
            true => None,
            false => topic(Kind::Values, "values", "json", json("values", columns)),
        };
        let ticks = topic(Kind::Ticks, "ticks", "json", json::tick_schema());
        let overruns = topic(Kind::Overruns, "overruns", "json", json::overrun_schema());
        let samples = match format {
            Some(Format::Samples(columns)) => columns.as_slice(),
            _ => &[],
        };
        Self {
            name: task.clone(),
            format: format.clone(),
            topics: [values, blocks, ticks, overruns].into_iter().flatten().collect(),
            values: Keys::of(columns),
            samples: Keys::of(samples),
        }
    }
}
