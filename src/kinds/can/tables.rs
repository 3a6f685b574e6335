//! Turns the tables of signals from text into settings. Pure.

use super::receive;
use super::send;
use super::settings::{Received, SentFrame, SentSignal};
use super::signal::{Layout, Signal};
use super::table_keys::{
    BYTE_ORDER, ERROR, EXTENDED, FRAME_LENGTH, ID, INPUT, J1939, LENGTH, LIMITS, MOST, NAME, NOT_AVAILABLE, OFFSET,
    ORDERS, RECEIVE, SAFE, SCALE, SEND, SIGNED, START_BIT, TABLE_TIMEOUT, UNIT,
};
use crate::config::{Key, Section};
use crate::kinds::output::law::{self, OnStale, Recover};
use crate::sys::can::{Id, LONGEST};
use crate::task::{Column, Reason};
use crate::time::Span;
use std::collections::BTreeSet;

/// Lengths that a CAN FD frame can have.
const FD_LENGTHS: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64];

/// Bytes of the longest classic CAN frame.
const CLASSIC: usize = 8;

/// What every signal has, received or sent.
struct Common {
    id: Id,
    signal: Signal,
    column: Column,
}

/// The frames read so far, each with the setting its tables share and the bits already in use.
struct Frames<T> {
    found: Vec<Frame<T>>,
    names: BTreeSet<String>,
    reserved: &'static [&'static str],
    longest: usize, // maximum bytes of a frame
}

struct Frame<T> {
    id: Id,
    shared: Option<T>,
    taken: Vec<(String, [u8; LONGEST])>, // the bits of each signal
}

impl<T: PartialEq + Copy> Frames<T> {
    fn new(reserved: &'static [&'static str], fd: bool) -> Self {
        Self { found: Vec::new(), names: BTreeSet::new(), reserved, longest: if fd { LONGEST } else { CLASSIC } }
    }

    /// Reads the keys that every signal has. Reports conflicts with earlier signals.
    fn read(&mut self, table: &mut Section<'_>, key: &Key, shared: Option<T>) -> Option<(usize, Common)> {
        let id = id(table);
        let (name, unit) = (table.text(&NAME), table.text(&UNIT));
        let (start, length) = (table.integer(&START_BIT), table.integer(&LENGTH));
        let (order, signed) = (table.choice(&BYTE_ORDER, &ORDERS), table.boolean(&SIGNED));
        let (scale, offset) = (table.number(&SCALE), table.number(&OFFSET));
        let layout =
            Layout { start: start?, length: length?, order: order?, signed: signed?, scale: scale?, offset: offset? };
        let (id, name) = (id?, name?);
        let Some(signal) = Signal::new(layout).filter(|signal| signal.bytes() <= self.longest) else {
            let more = if self.longest == CLASSIC { "; with fd = true a frame has up to 64" } else { "" };
            table.problem(&START_BIT, format!("the signal reaches past the {} bytes of a frame{more}", self.longest));
            return None;
        };
        if self.reserved.contains(&name.as_str()) {
            table.problem(&NAME, "the task has a value of its own with this name; choose another");
        } else if !self.names.insert(name.clone()) {
            table.problem(&NAME, "another value of this task has this name");
        }
        let at = self.found.iter().position(|frame| frame.id == id).unwrap_or_else(|| {
            self.found.push(Frame { id, shared: None, taken: Vec::new() });
            self.found.len() - 1
        });
        let frame = &mut self.found[at];
        match (frame.shared, shared) {
            (None, _) => frame.shared = shared,
            (Some(one), Some(other)) if one != other => {
                table.problem(key, format!("another table with the id {id} says something else"));
            }
            _ => {}
        }
        let bits = signal.bits();
        let overlaps = |(_, taken): &&(String, [u8; LONGEST])| taken.iter().zip(&bits).any(|(a, b)| a & b != 0);
        if let Some((other, _)) = frame.taken.iter().find(overlaps) {
            table.problem(&START_BIT, format!("the signal has bits that the signal {other} has as well"));
        }
        frame.taken.push((name.clone(), bits));
        Some((at, Common { id, signal, column: Column { name, unit: unit? } }))
    }

    fn refuse_many(&self, section: &mut Section<'_>, key: &Key) {
        if self.found.len() > MOST {
            section.problem(key, format!("has {} ids; a task may have {MOST}", self.found.len()));
        }
    }
}

fn id(table: &mut Section<'_>) -> Option<Id> {
    let number: u32 = table.integer(&ID)?;
    let extended = match table.has(&EXTENDED) {
        true => table.boolean(&EXTENDED)?,
        false => number > 0x7ff,
    };
    if !extended && number > 0x7ff {
        table.problem(&ID, "has more than 11 bits; remove extended = false, or write an id up to 0x7ff");
        return None;
    }
    Some(Id { number, extended })
}

/// Reads the tables of received signals.
pub(super) fn receive(section: &mut Section<'_>, fd: bool, timeout: Span) -> Option<Received> {
    let tables = section.tables(&RECEIVE);
    let count = tables.len();
    let mut frames = Frames::new(&receive::COUNTS, fd);
    let (mut signals, mut columns) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for mut table in tables {
        let own = table.duration(&TABLE_TIMEOUT);
        let codes = Codes::read(&mut table);
        if let Some((at, Common { mut signal, column, .. })) = frames.read(&mut table, &TABLE_TIMEOUT, own) {
            codes.mark(&mut table, &mut signal);
            signals.push((at, signal));
            columns.push(column);
        }
        section.absorb(table);
    }
    frames.refuse_many(section, &RECEIVE);
    let frames = frames.found.iter().map(|frame| (frame.id, frame.shared.unwrap_or(timeout))).collect();
    (count > 0 && signals.len() == count).then_some(Received { frames, signals, columns })
}

/// The whole numbers of a received signal that are no value.
struct Codes {
    not_available: Vec<i64>,
    error: Vec<i64>,
    j1939: bool,
}

impl Codes {
    fn read(table: &mut Section<'_>) -> Self {
        let [not_available, error] = [&NOT_AVAILABLE, &ERROR].map(|key| table.integers(key).unwrap_or_default());
        Self { not_available, error, j1939: table.boolean(&J1939).unwrap_or_default() }
    }

    /// Marks them in the signal. Reports those that it cannot have.
    fn mark(&self, table: &mut Section<'_>, signal: &mut Signal) {
        let [low, high] = signal.raw_range();
        let lists =
            [(&NOT_AVAILABLE, &self.not_available, Reason::NotAvailable), (&ERROR, &self.error, Reason::Failed)];
        for (key, list, reason) in lists {
            if let Some(raw) = list.iter().find(|raw| !(low..=high).contains(raw)) {
                table.problem(key, format!("{raw} is not what the signal's bits can say, {low} to {high}"));
            }
            list.iter().for_each(|raw| signal.mark([*raw; 2], reason));
        }
        if let Some(raw) = self.error.iter().find(|raw| self.not_available.contains(raw)) {
            table.problem(&ERROR, format!("{raw} is in not-available as well"));
        }
        let is_signed = signal.raw_range()[0] < 0; // a rule refuses that
        if self.j1939 && !signal.mark_j1939() && !is_signed {
            table.problem(&J1939, "is for signals of 2 to 32 bits");
        }
    }
}

/// Reads the tables of sent signals.
pub(super) fn send(
    section: &mut Section<'_>,
    fd: bool,
    recover: Recover,
    safe_after: Span,
) -> Option<(Vec<SentFrame>, Vec<Column>)> {
    let tables = section.tables(&SEND);
    let count = tables.len();
    let mut frames = Frames::new(&send::COUNTS, fd);
    let mut sent: Vec<SentFrame> = Vec::new();
    let mut columns = Vec::with_capacity(count);
    for mut table in tables {
        let length = table.integer(&FRAME_LENGTH);
        refuse_length(&mut table, length, fd);
        let (input, limits, safe) = (table.input_that_ages(&INPUT), table.range(&LIMITS), table.number(&SAFE));
        let read = frames.read(&mut table, &FRAME_LENGTH, length);
        if let (Some((at, Common { id, signal, column })), Some(input), Some(safe)) = (read, input, safe) {
            if !signal.fits(safe) {
                let [low, high] = signal.range();
                table.problem(&SAFE, format!("is not what the signal's bits can say, {low} to {high}"));
            }
            let natural = signal.range();
            let [low, high] = limits.unwrap_or(natural);
            if low > natural[1] || high < natural[0] {
                let [low, high] = natural;
                table.problem(&LIMITS, format!("lies outside what the signal's bits can say, {low} to {high}"));
            }
            if at == sent.len() {
                sent.push(SentFrame { id, length: 0, signals: Vec::new() });
            }
            let law = law::Settings {
                limits: [low.max(natural[0]), high.min(natural[1])],
                slew: f64::INFINITY,
                safe: Some(safe),
                safe_slew: f64::INFINITY,
                on_stale: OnStale::Safe,
                recover,
                patience: safe_after.seconds(),
            };
            let bytes = signal.bytes();
            if let Some(frame) = sent.get_mut(at) {
                let needed = frame.signals.iter().map(|signal| signal.signal.bytes()).max().unwrap_or(0).max(bytes);
                if let Some(length) = frames.found[at].shared.filter(|length| *length < needed) {
                    let key = if table.has(&FRAME_LENGTH) { FRAME_LENGTH } else { START_BIT };
                    table.problem(
                        &key,
                        format!("the signals of this id need {needed} bytes, and the frame has {length}"),
                    );
                }
                frame.signals.push(SentSignal { column: columns.len(), signal, input, safe, law });
            }
            columns.push(column);
        }
        section.absorb(table);
    }
    frames.refuse_many(section, &SEND);
    for (frame, Frame { shared, .. }) in sent.iter_mut().zip(&frames.found) {
        let needed = frame.signals.iter().map(|signal| signal.signal.bytes()).max().unwrap_or(0).max(CLASSIC);
        let usual = FD_LENGTHS.into_iter().find(|length| *length >= needed).unwrap_or(LONGEST);
        frame.length = u8::try_from(shared.unwrap_or(usual)).unwrap_or(0);
    }
    (count > 0 && columns.len() == count).then_some((sent, columns))
}

/// Reports a length that a frame cannot have.
fn refuse_length(table: &mut Section<'_>, length: Option<usize>, fd: bool) {
    let Some(length) = length else { return };
    if !fd && length > CLASSIC {
        table.problem(&FRAME_LENGTH, "must be at most 8; with fd = true a frame has up to 64 bytes");
    } else if !FD_LENGTHS.contains(&length) {
        table.problem(&FRAME_LENGTH, "must be a length of CAN FD: 0 to 8, 12, 16, 20, 24, 32, 48 or 64");
    }
}
