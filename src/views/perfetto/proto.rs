//! The messages of a Perfetto trace that hertzd writes, with the field numbers of its schema, `perfetto_trace.proto`. Pure.

use prost::{Message, Oneof};

pub(super) const BEGIN: i32 = 1;
pub(super) const END: i32 = 2;
pub(super) const INSTANT: i32 = 3;

pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;
pub(super) const BOOTTIME: u32 = 6;

/// `STATE_CLEARED`: the sequence's interned names start over with this packet. `NEEDS_STATE`: the packet uses them.
pub(super) const STATE_CLEARED: u32 = 1;
pub(super) const NEEDS_STATE: u32 = 2;

/// A file is one such message; the concatenated bytes of several are one as well.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) sequence: Option<u32>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned: Option<Interned>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) flags: Option<u32>,
    #[prost(uint32, optional, tag = "58")]
    pub(super) clock: Option<u32>,
    #[prost(oneof = "Data", tags = "1, 6, 11, 60")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "1")]
    Kernel(KernelEvents),
    #[prost(message, tag = "6")]
    Clocks(ClockSnapshot),
    #[prost(message, tag = "11")]
    Event(TrackEvent),
    #[prost(message, tag = "60")]
    Track(Track),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Reading>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) primary: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Reading {
    #[prost(uint32, optional, tag = "1")]
    pub(super) clock: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Track {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<Process>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<Thread>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Process {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(super) tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub(super) categories: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) notes: Vec<Note>,
    #[prost(int32, optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track: Option<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flows: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Note {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name: Option<u64>,
    #[prost(bool, optional, tag = "2")]
    pub(super) yes: Option<bool>,
    #[prost(int64, optional, tag = "4")]
    pub(super) number: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub(super) text: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Interned {
    #[prost(message, repeated, tag = "1")]
    pub(super) categories: Vec<Name>,
    #[prost(message, repeated, tag = "2")]
    pub(super) events: Vec<Name>,
    #[prost(message, repeated, tag = "3")]
    pub(super) notes: Vec<Name>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Name {
    #[prost(uint64, optional, tag = "1")]
    pub(super) id: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
}

/// The contents of the kernel's trace of one CPU, on the boot-time clock.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KernelEvents {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) events: Vec<KernelEvent>,
    #[prost(bool, optional, tag = "3")]
    pub(super) lost: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KernelEvent {
    #[prost(uint64, optional, tag = "1")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(oneof = "Happened", tags = "4, 17, 20")]
    pub(super) what: Option<Happened>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Happened {
    #[prost(message, tag = "4")]
    Switch(Switch),
    #[prost(message, tag = "17")]
    Wakeup(Wake),
    #[prost(message, tag = "20")]
    Waking(Wake),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Switch {
    #[prost(string, optional, tag = "1")]
    pub(super) previous: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) previous_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) previous_priority: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(super) previous_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) next: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub(super) next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(super) next_priority: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Wake {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) priority: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) success: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) cpu: Option<i32>,
}
