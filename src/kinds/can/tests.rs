//! The tasks on a socket whose other end belongs to the test. It is not a CAN interface, so frames that have left are never confirmed.

use super::bus::{Bus, BusSettings};
use super::interface::{Buses, NamedBus};
use super::receive::Receiver;
use super::send::{Had, Sender, target};
use super::settings::{ReceiveSettings, Received, SendSettings, SentFrame, SentSignal};
use super::signal::{ByteOrder, Layout, Signal};
use crate::channels::{Basis, Limits, NONE, ValueName, link};
use crate::kinds::device::{Missing, Reconnecting};
use crate::kinds::output::law::{self, OnStale, Recover};
use crate::safety::{Guard, LiveOutputs, PlannedWrite, SafeWrite, Watched};
use crate::site::{DeviceId, Holder, Label, Refusal, Site, Targets};
use crate::sys::can::{self, Frame, Id, Socket};
use crate::task::{Column, Input, Quality, Reason, Task, Tick, TickError};
use crate::time::{Instant, Span};
use std::io;
use std::sync::Arc;

const PERIOD: Span = Span::from_millis(10);
const ID: Id = Id { number: 0x181, extended: false };

fn tick(n: u64, skipped: u64) -> Tick {
    let release = Instant::ZERO.plus_nanos(i128::from(n) * i128::from(PERIOD.nanos()));
    Tick { n, release, started: release, lateness: Span::ZERO, skipped, credit: Span::ZERO, period: PERIOD }
}

fn signal(start: usize, scale: f64) -> Signal {
    let layout = Layout { start, length: 8, order: ByteOrder::Little, signed: true, scale, offset: 0.0 };
    Signal::new(layout).unwrap()
}

fn bus_settings() -> BusSettings {
    BusSettings { interface: "none-of-this".into(), fd: false }
}

fn columns(names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column { name: (*name).into(), unit: String::new() }).collect()
}

/// An interface, with the other end of its socket.
fn bus(sent: usize) -> (Reconnecting<Bus>, Socket) {
    let (own, other) = Socket::pair();
    let mut bus = Some(Bus::new(own, sent));
    let open = move || bus.take().ok_or_else(|| Refusal::new("interface", "gone"));
    (Reconnecting::open(&Site::default(), Label::new("interface", "test"), Missing::Refuse, open).unwrap(), other)
}

fn frame(id: Id, bytes: &[u8]) -> Frame {
    Frame::new(id, false, false, bytes).unwrap()
}

/// Two signals of one id, and one of another id that times out after 25 ms.
fn receiver() -> (Receiver, Socket) {
    let (bus, other) = bus(0);
    let received = Received {
        frames: vec![(ID, Span::from_seconds(1)), (Id { number: 7, extended: true }, Span::from_millis(25))],
        signals: vec![(0, signal(0, 1.0)), (1, signal(0, 0.5)), (0, signal(8, 1.0))],
        columns: columns(&["a", "b", "c"]),
    };
    (Receiver::new(bus, ReceiveSettings { bus: bus_settings(), received }), other)
}

/// The values of a tick, with `None` for NaN.
fn told(task: &mut impl Task, tick: &Tick) -> (Result<(), TickError>, Vec<Option<f64>>) {
    let mut values = vec![f64::NAN; task.columns().len()];
    let done = task.tick(tick, &mut values);
    (done, values.into_iter().map(|value| value.is_finite().then_some(value)).collect())
}

#[test]
fn the_latest_frame_of_each_id_counts() {
    let (mut receiver, other) = receiver();
    let other_id = Id { number: 7, extended: true };
    let names: Vec<_> = receiver.columns().into_iter().map(|column| column.name).collect();
    assert_eq!(names, ["a", "b", "c", "frames", "error-frames", "dropped"]);
    // A frame that was in the socket before the first tick has an unknown age.
    other.send(&[frame(ID, &[1, 2])]).unwrap();
    let counts = |frames: f64| [Some(frames), Some(0.0), Some(0.0)];
    let with = |values: [Option<f64>; 3], frames| [values, counts(frames)].concat();
    assert_eq!(told(&mut receiver, &tick(0, 0)), (Ok(()), with([None; 3], 0.0)));
    other.send(&[frame(ID, &[1, 2]), frame(other_id, &[5]), frame(ID, &[3, 0xff])]).unwrap();
    assert_eq!(told(&mut receiver, &tick(1, 0)).1, with([Some(3.0), Some(2.5), Some(-1.0)], 3.0));
    assert_eq!(receiver.age(), PERIOD);
    other.send(&[frame(Id { number: 7, extended: false }, &[9]), frame(ID, &[4])]).unwrap();
    assert_eq!(told(&mut receiver, &tick(2, 0)).1, with([Some(4.0), Some(2.5), None], 4.0), "too short for c");
    assert_eq!(receiver.age(), Span::from_millis(20), "of b");
    // Two ticks were skipped: b has timed out.
    assert_eq!(told(&mut receiver, &tick(5, 2)).1, with([Some(4.0), None, None], 4.0));
    assert_eq!(receiver.age(), Span::from_millis(40), "of a");
}

#[test]
fn a_value_that_is_not_there_says_why() {
    use Quality::{Bad, Good};
    let (bus, other) = bus(0);
    let mut marked = signal(0, 1.0);
    marked.mark([-1, -1], Reason::NotAvailable);
    marked.mark([-2, -2], Reason::Failed);
    let received = Received {
        frames: vec![(ID, Span::from_millis(25))],
        signals: vec![(0, marked), (0, signal(8, 1.0))],
        columns: columns(&["a", "b"]),
    };
    let mut receiver = Receiver::new(bus, ReceiveSettings { bus: bus_settings(), received });
    let mut after = |n, skipped, bytes: Option<&[u8]>| {
        bytes.map(|bytes| other.send(&[frame(ID, bytes)]).unwrap());
        let mut values = [NONE; 5];
        receiver.tick(&tick(n, skipped), &mut values).unwrap();
        [values[0], values[1]].map(|value| Quality::of(value, Basis::Good, None))
    };
    assert_eq!(after(0, 0, None), [Quality::None; 2], "before the first frame");
    assert_eq!(after(9, 8, None), [Quality::None; 2], "for as long as it takes");
    assert_eq!(after(10, 0, Some(&[5, 6])), [Good; 2]);
    assert_eq!(after(11, 0, Some(&[0xff, 0xff])), [Bad(Reason::NotAvailable), Good]);
    assert_eq!(after(12, 0, Some(&[0xfe])), [Bad(Reason::Failed); 2], "b needs two bytes");
    assert_eq!(after(13, 0, Some(&[0, 1])), [Good; 2]);
    assert_eq!(after(16, 2, None), [Bad(Reason::Unavailable); 2], "after the timeout");
    assert_eq!(after(17, 0, Some(&[0, 1])), [Good; 2]);
}

#[test]
fn more_than_one_call_brings_is_taken_in_one_tick() {
    let (mut receiver, other) = receiver();
    assert_eq!(told(&mut receiver, &tick(0, 0)).0, Ok(()));
    let many: Vec<Frame> = (0..=100).map(|value| frame(ID, &[value])).collect();
    for part in many.chunks(can::BATCH) {
        // The queue of such a socket may be short.
        assert_eq!(other.send(part).unwrap_or(part.len()), part.len());
    }
    let (done, values) = told(&mut receiver, &tick(1, 0));
    assert!(done.is_ok() && values[0].is_some() && values[3] > Some(10.0), "{values:?}");
    assert_eq!(receiver.age(), PERIOD, "all was taken");
}

/// A frame with two signals: one follows `input` in steps of 0.5, the other is always 3. Their safe values are 10 and 20.
fn sender(input: Input, always: bool, test: &str) -> (Sender, Socket) {
    sender_at(&Site::default(), input, always, test)
}

fn sender_at(site: &Site, input: Input, always: bool, test: &str) -> (Sender, Socket) {
    sender_with(site, input, (always, Recover::Auto(0.0), f64::INFINITY), test, false)
}

/// Like `sender_at`, with more settings; `follows`: it takes over from the sender before it in this test.
fn sender_with(
    site: &Site,
    input: Input,
    (always, recover, slew): (bool, Recover, f64),
    test: &str,
    follows: bool,
) -> (Sender, Socket) {
    let (bus, other) = bus(1);
    let sent = |column, start, scale, input, safe| {
        let law = law::Settings {
            limits: [-50.0, 50.0],
            slew,
            safe: Some(safe),
            safe_slew: f64::INFINITY,
            on_stale: OnStale::Safe,
            recover,
            patience: 1.0,
        };
        SentSignal { column, signal: signal(start, scale), input, safe, law }
    };
    let signals = vec![sent(0, 0, 0.5, input, 10.0), sent(1, 16, 1.0, Input::number(3.0), 20.0)];
    let settings = SendSettings {
        section: "".into(),
        bus: bus_settings(),
        bit_rate_switch: false,
        frames: vec![SentFrame { id: ID, length: 4, signals }],
        columns: columns(&["a", "b"]),
        reset: None,
        always,
        safe_after: Span::from_seconds(1),
        first_after: Span::from_seconds(1),
    };
    let (label, target) = (Label::new("interface", test), DeviceId::Named(test.into()));
    let named = NamedBus::new(site, &label, "none-of-this");
    (Sender::new(site, bus, settings, &label, &named, (&[target], &[follows])), other)
}

fn came(socket: &Socket) -> Vec<String> {
    let mut came = Vec::new();
    socket
        .receive(|received| {
            if let can::Received::Frame(frame) = received {
                came.push(frame.to_string());
            }
        })
        .unwrap();
    came
}

#[test]
fn a_value_goes_out_in_its_bits() {
    let (mut sender, other) = sender(Input::number(7.3), true, "a_value_goes_out");
    let (done, values) = told(&mut sender, &tick(0, 0));
    assert_eq!(done, Ok(()));
    assert_eq!(values, [7.3, 3.0, 0.0, 1.0, 0.0].map(Some), "as it was before it was rounded");
    assert_eq!(came(&other), ["181#0F000300"], "7.5 in steps of a half");
}

#[test]
fn one_frame_of_each_id_is_under_way() {
    let (mut sender, other) = sender(Input::number(7.0), true, "one_frame_of_each_id");
    assert_eq!(told(&mut sender, &tick(0, 0)).0, Ok(()));
    assert_eq!(came(&other).len(), 1);
    let (done, values) = told(&mut sender, &tick(1, 0));
    assert!(done.unwrap_err().to_string().contains("has not left yet"));
    assert_eq!(values[2..], [0.0, 1.0, 1.0].map(Some), "one was sent, and one was not");
    assert!(came(&other).is_empty());
    // After a second without confirmation it counts as lost.
    let (done, values) = told(&mut sender, &tick(101, 99));
    assert!(done.unwrap_err().to_string().contains("counts as lost"));
    assert_eq!(values[3..], [2.0, 2.0].map(Some), "the next one was sent");
    assert_eq!(came(&other).len(), 1);
}

#[test]
fn a_frame_that_is_lost_is_sent_again_though_nothing_has_changed() {
    let (mut sender, other) = sender(Input::number(7.0), false, "a_frame_that_is_lost");
    assert_eq!(told(&mut sender, &tick(0, 0)).0, Ok(()));
    assert_eq!(came(&other).len(), 1);
    assert_eq!(told(&mut sender, &tick(99, 98)).0, Ok(()), "it may be on its way");
    assert!(came(&other).is_empty());
    let (done, values) = told(&mut sender, &tick(100, 0));
    assert!(done.unwrap_err().to_string().contains("counts as lost"));
    assert_eq!(values[3..], [2.0, 1.0].map(Some));
    assert_eq!(came(&other), ["181#0E000300"]);
}

#[test]
fn safe_values_that_are_lost_are_trouble() {
    let nothing = Input::value_of(ValueName { task: "x".into(), value: "y".into(), previous: None });
    let (mut sender, _other) = sender(nothing, true, "safe_values_that_are_lost");
    let guard = sender.frames[0].guard().clone();
    assert_eq!((told(&mut sender, &tick(0, 0)).0, guard.trouble()), (Ok(()), None));
    for n in [100, 150, 200] {
        assert!(told(&mut sender, &tick(n, if n == 100 { 99 } else { 49 })).0.is_err());
        let trouble = guard.trouble().unwrap_or_default();
        let wanted = "could not be written: no word has come that it left";
        assert!(trouble.contains(wanted), "at {n}: {trouble:?}");
    }
}

#[test]
fn a_frame_that_does_not_change_is_left_out_if_that_is_asked_for() {
    let (mut sender, other) = sender(Input::number(7.0), false, "a_frame_that_does_not_change");
    assert_eq!(told(&mut sender, &tick(0, 0)).0, Ok(()));
    assert_eq!(came(&other).len(), 1);
    let (done, values) = told(&mut sender, &tick(1, 0));
    assert_eq!((done, &values[3..]), (Ok(()), &[1.0, 0.0].map(Some)[..]), "nothing was to be sent");
    assert!(came(&other).is_empty());
}

#[test]
fn a_frame_that_does_not_change_counts_as_sent() {
    let nothing = Input::value_of(ValueName { task: "x".into(), value: "y".into(), previous: None });
    let (_, mut receiver) = link(1, [(0, &nothing)], Limits { max_age: Span::ZERO, first: Span::ZERO });
    for now in [0, 1] {
        receiver.refresh(Instant::from_nanos(now)); // nothing has come for too long
    }
    let how = (false, Recover::Auto(0.0), 1.0);
    let (mut sender, other) = sender_with(&Site::default(), Input::number(10.0), how, "counts_as_sent", false);
    let still = |values: &[Option<f64>]| (values[0], values[2], values[3]);
    assert_eq!(still(&told(&mut sender, &tick(0, 0)).1), (Some(10.0), Some(0.0), Some(1.0)));
    sender.frames[0].signal(0).input = nothing;
    assert_eq!(still(&told(&mut sender, &tick(1, 0)).1), (Some(10.0), Some(1.0), Some(1.0)), "it is safe, and was so");
    // One step of the slew is smaller than the resolution, but the value arrives nevertheless.
    sender.frames[0].signal(0).input = Input::number(11.0);
    let sent: Vec<_> = (2..12).map(|n| still(&told(&mut sender, &tick(n, 0)).1).0.unwrap()).collect();
    assert!(sent.windows(2).all(|two| two[0] < two[1]), "{sent:?}");
    assert_eq!(came(&other).len(), 1);
}

#[test]
fn a_signal_without_an_input_is_safe_and_the_others_go_on() {
    let nothing = Input::value_of(ValueName { task: "x".into(), value: "y".into(), previous: None });
    let (mut sender, other) = sender(nothing, true, "a_signal_without_an_input");
    let (done, values) = told(&mut sender, &tick(0, 0));
    assert_eq!((done, values), (Ok(()), [10.0, 3.0, 1.0, 1.0, 0.0].map(Some).to_vec()));
    assert_eq!(came(&other), ["181#14000300"]);
}

#[test]
fn a_latched_signal_stays_safe_after_a_hand_over() {
    let (site, test) = (Site::default(), "can");
    let next = |input, follows| sender_with(&site, input, (true, Recover::Latch, f64::INFINITY), test, follows);
    let nothing = || Input::value_of(ValueName { task: "x".into(), value: "y".into(), previous: None });
    let _first = next(Input::number(7.0), false);
    let (mut before, _other) = next(nothing(), true);
    // It waits one second for its first value.
    for (n, skipped) in [(0, 0), (200, 199), (201, 0)] {
        _ = told(&mut before, &tick(n, skipped));
    }
    let (mut after, other) = next(Input::number(7.0), true);
    let (done, values) = told(&mut after, &tick(0, 0));
    assert_eq!((done, &values[..3]), (Ok(()), &[10.0, 3.0, 1.0].map(Some)[..]));
    assert_eq!(came(&other), ["181#14000300"]);
}

#[test]
fn a_heartbeat_sees_whether_all_signals_follow_and_their_frames_leave() {
    let (site, test) = (Site::default(), "can");
    let seen = site.common::<LiveOutputs>().named(test);
    let begin = || site.common::<LiveOutputs>().begin();
    let (mut following, other) = sender_at(&site, Input::number(7.0), true, test);
    assert!(!seen.is_open(), "the start may be refused yet");
    begin();
    assert!(seen.is_open() && !seen.follows(), "it has not ticked");
    assert_eq!(told(&mut following, &tick(0, 0)).0, Ok(()));
    assert_eq!((seen.follows(), seen.ticks(), seen.safe_after()), (true, 1, Span::from_seconds(1)));
    told(&mut following, &tick(1, 0)).0.unwrap_err();
    assert_eq!((seen.follows(), seen.ticks()), (false, 2), "the frame before it has not left");
    drop((following, other));
    assert!(!seen.is_open());
    let (mut unchanged, other) = sender_at(&site, Input::number(7.0), false, test);
    begin();
    assert_eq!([0, 1].map(|n| told(&mut unchanged, &tick(n, 0)).0), [Ok(()), Ok(())]);
    assert_eq!((seen.follows(), seen.ticks()), (true, 4), "there is nothing to be sent");
    unchanged.disabled();
    assert!(!seen.follows());
    drop((unchanged, other));
    let nothing = Input::value_of(ValueName { task: "x".into(), value: "y".into(), previous: None });
    let (mut half_safe, _other) = sender_at(&site, nothing, true, test);
    begin();
    assert_eq!(told(&mut half_safe, &tick(0, 0)).0, Ok(()));
    assert!(seen.is_open() && !seen.follows(), "one of its signals is safe");
}

/// A frame on a bus without another node.
struct NoWord;

impl SafeWrite for NoWord {
    fn write_safe(&self) -> io::Result<()> {
        panic!("a worker does not wait as long as another thread")
    }

    fn write_safe_within(&self, patience: &mut Span) -> io::Result<()> {
        *patience = *patience - Span::from_millis(15);
        Err(io::ErrorKind::TimedOut.into())
    }

    fn plan(&self) -> Vec<PlannedWrite> {
        Vec::new()
    }
}

#[test]
fn a_task_that_ends_without_word_of_its_frames_leaves_them_to_another_thread() {
    let after = Span::from_seconds(1);
    let guard = || Guard::new("t", Arc::new(Watched::default()), (after, after), Some(Box::new(NoWord)));
    let mut patience = Span::from_millis(20);
    for left in [5, -10] {
        let guard = guard();
        assert!(!guard.end_within(&mut patience) && guard.is_wanted() && guard.trouble().is_some());
        assert_eq!(patience, Span::from_millis(left), "what was waited for one is not waited for the next");
    }
}

#[test]
fn who_sends_an_id_is_known_while_it_has_it() {
    let other = Id { number: 0x181, extended: true };
    let site = Site::default();
    let label = Label::new("interface", "one");
    let bus = site.common::<Buses>().of(&NamedBus::new(&site, &label, "can-of-this-test"));
    let claim = site.claim([target(bus, ID)], "one");
    assert!(super::sends(&site, "can-of-this-test", ID) && !super::sends(&site, "can-of-this-test", other));
    assert!(!super::sends(&site, "another-can", ID));
    drop(claim);
    assert!(!super::sends(&site, "can-of-this-test", ID));
}

#[test]
fn a_bus_that_turns_out_to_be_another_tasks_is_refused() {
    let (site, interface) = (Site::default(), ("motor", &[ID][..]));
    let is_had = |bus| site.find_holder(&mut Refusal::in_use("send", "", [target(bus, ID)])) == Some(Holder::Task);
    let others = site.claim([target(1, ID)], "other");
    let claim = Arc::new(site.claim([target(0, ID)], "own"));
    let held = site.common::<Targets>().add(target(0, ID));
    let mut had = Had { bus: 0, claim: Arc::downgrade(&claim), targets: vec![Arc::downgrade(&held)] };
    had.is_now(0, interface, &site.claims()).unwrap();
    let refused = had.is_now(1, interface, &site.claims()).unwrap_err();
    assert_eq!(refused.message, "id 0x181 on motor is in use by task other; only one task at a time can have it");
    assert!(refused.in_use.is_empty() && is_had(0), "it has what it had");
    had.is_now(2, interface, &site.claims()).unwrap();
    assert!(!is_had(0) && is_had(1) && is_had(2), "no other task has that one");
    assert!(site.common::<Targets>().join(&target(2, ID)).is_some_and(|it| Arc::ptr_eq(&it, &held)));
    drop(others);
    had.is_now(1, interface, &site.claims()).unwrap();
    drop(claim);
    assert!(had.is_now(0, interface, &site.claims()).is_err(), "its task is not there yet");
}
