//! Encodes tracks and events as packets of a Perfetto trace. Pure; allocates.
//!
//! Repeated names are written once and then referenced by number, so a tick takes about 200 bytes.

use super::proto::{
    BEGIN, ClockSnapshot, Data, END, INSTANT, Interned, MONOTONIC, NEEDS_STATE, Name, Note, Packet, Reading,
    STATE_CLEARED, Trace, Track, TrackEvent,
};
use prost::Message;
use std::collections::HashMap;

/// All of hertzd's packets form one sequence; the kernel's form another.
const SEQUENCE: u32 = 1;
const KERNEL_SEQUENCE: u32 = 2;

/// A track, by its number in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TrackId(pub(super) u64);

/// A note on an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Noted {
    Number(i64),
    Text(String),
    Yes,
}

/// What is attached to an event.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    pub(super) notes: Vec<(&'static str, Noted)>,
    pub(super) flows: Vec<u64>,
}

/// A trace that is being written.
#[derive(Debug)]
pub(super) struct Packets {
    out: Vec<u8>,
    clock: u32, // the clock of the events
    categories: Names,
    events: Names,
    notes: Names,
    begun: bool,
}

#[derive(Debug, Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// The number of a name, and the name itself if it is new.
    fn number(&mut self, name: &str) -> (u64, Option<Name>) {
        if let Some(id) = self.0.get(name) {
            return (*id, None);
        }
        let id = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), id);
        (id, Some(Name { id: Some(id), name: Some(name.to_owned()) }))
    }
}

impl Packets {
    /// An empty trace whose events use this clock.
    pub(super) fn on(clock: u32) -> Self {
        let names = Names::default;
        Self { out: Vec::new(), clock, categories: names(), events: names(), notes: names(), begun: false }
    }

    /// The readings of several clocks at one instant. The first clock is the trace's own time.
    pub(super) fn clocks(&mut self, readings: &[(u32, i64)]) {
        let reading =
            |&(clock, at): &(u32, i64)| Reading { clock: Some(clock), timestamp: Some(at.max(0).cast_unsigned()) };
        let clocks = readings.iter().map(reading).collect();
        let primary = readings.first().map(|(clock, _)| *clock);
        let data = Data::Clocks(ClockSnapshot { clocks, primary });
        self.push(Packet { sequence: Some(SEQUENCE), data: Some(data), ..Packet::default() });
    }

    pub(super) fn track(&mut self, track: Track) {
        self.push(Packet { sequence: Some(SEQUENCE), data: Some(Data::Track(track)), ..Packet::default() });
    }

    /// The kernel's recording of a CPU.
    pub(super) fn kernel(&mut self, data: Data) {
        self.push(Packet { sequence: Some(KERNEL_SEQUENCE), data: Some(data), ..Packet::default() });
    }

    /// A slice. Slices on a track must follow one another, or be nested.
    pub(super) fn slice(&mut self, track: TrackId, (from, to): (i64, i64), category: &str, name: &str, beside: Beside) {
        self.event(track, BEGIN, from, Some((category, name)), beside);
        self.event(track, END, to, None, Beside::default());
    }

    pub(super) fn instant(&mut self, track: TrackId, at: i64, category: &str, name: &str, beside: Beside) {
        self.event(track, INSTANT, at, Some((category, name)), beside);
    }

    fn event(&mut self, track: TrackId, kind: i32, at: i64, named: Option<(&str, &str)>, beside: Beside) {
        let mut interned = Interned::default();
        let mut event =
            TrackEvent { kind: Some(kind), track: Some(track.0), flows: beside.flows, ..TrackEvent::default() };
        if let Some((category, name)) = named {
            let (id, new) = self.categories.number(category);
            (event.categories, interned.categories) = (vec![id], new.into_iter().collect());
            let (id, new) = self.events.number(name);
            (event.name, interned.events) = (Some(id), new.into_iter().collect());
        }
        for (name, noted) in beside.notes {
            let (id, new) = self.notes.number(name);
            interned.notes.extend(new);
            let note = Note { name: Some(id), ..Note::default() };
            event.notes.push(match noted {
                Noted::Number(number) => Note { number: Some(number), ..note },
                Noted::Text(text) => Note { text: Some(text), ..note },
                Noted::Yes => Note { yes: Some(true), ..note },
            });
        }
        let cleared = if std::mem::replace(&mut self.begun, true) { 0 } else { STATE_CLEARED };
        self.push(Packet {
            timestamp: Some(at.max(0).cast_unsigned()),
            sequence: Some(SEQUENCE),
            interned: (interned != Interned::default()).then_some(interned),
            flags: Some(NEEDS_STATE | cleared),
            clock: (self.clock != 0).then_some(self.clock),
            data: Some(Data::Event(event)),
        });
    }

    fn push(&mut self, packet: Packet) {
        // Cannot fail: a Vec grows as needed.
        let _ = Trace { packet: vec![packet] }.encode(&mut self.out);
    }

    /// The bytes of the file.
    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }
}

impl Default for Packets {
    fn default() -> Self {
        Self::on(MONOTONIC)
    }
}
