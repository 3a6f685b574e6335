//! What a task of this kind receives or sends, as its section defines it. Plain values.

use super::bus::BusSettings;
use super::signal::Signal;
use crate::kinds::output::law;
use crate::sys::can::Id;
use crate::task::{Column, Input};
use crate::time::Span;
use std::sync::Arc;

/// The frames and signals to receive.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) frames: Vec<(Id, Span)>, // each with its timeout
    /// In the order of the section, each with the index of its frame.
    pub(super) signals: Vec<(usize, Signal)>,
    pub(super) columns: Vec<Column>, // of the signals
}

/// The same, with the interface.
#[derive(Clone, Debug)]
pub(super) struct ReceiveSettings {
    pub(super) bus: BusSettings,
    pub(super) received: Received,
}

/// The frames to send.
#[derive(Clone, Debug)]
pub(super) struct SendSettings {
    pub(super) section: Arc<str>, // the section's text, without `worker`
    pub(super) bus: BusSettings,
    pub(super) bit_rate_switch: bool,
    pub(super) frames: Vec<SentFrame>,
    pub(super) columns: Vec<Column>, // of the signals
    pub(super) reset: Option<Input>,
    pub(super) always: bool,
    pub(super) safe_after: Span,
    pub(super) first_after: Span,
}

/// A frame to send.
#[derive(Clone, Debug)]
pub(super) struct SentFrame {
    pub(super) id: Id,
    pub(super) length: u8,
    pub(super) signals: Vec<SentSignal>,
}

/// A signal of a sent frame.
#[derive(Clone, Debug)]
pub(super) struct SentSignal {
    pub(super) column: usize,
    pub(super) signal: Signal,
    pub(super) input: Input,
    pub(super) safe: f64,
    pub(super) law: law::Settings,
}
