//! The keys of the kind `can`, and how a section becomes a task. Pure: no socket is opened.

use super::bus::BusSettings;
use super::desk::AtTheDesk;
use super::receive::{self, Receiver};
use super::send::{self, Sender};
use super::settings::{ReceiveSettings, SendSettings};
use super::table_keys::{RECEIVE, SEND, TIMEOUT_TEXT};
use super::tables;
use crate::config::{Blueprint, Key, Kind, Rule, Section, Value, words};
use crate::kinds::device::{FIRST_VALUE, Missing};
use crate::kinds::output::law::Recover;
use crate::kinds::output::{TAKES_OVER_WITHIN, refuse_within_a_period};
use crate::site::{Built, Label, Site};
use crate::sys::can::is_interface;
use crate::task::Input;
use crate::time::Span;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Recovery {
    Auto,
    Latch,
}

const WRITES: [(&str, bool); 2] = [("always", true), ("change", false)];
const RECOVERIES: [(&str, Recovery); 2] = [("auto", Recovery::Auto), ("latch", Recovery::Latch)];

const INTERFACE: Key = Key::new(
    "interface",
    Value::Format { like: "INTERFACE", pattern: r"^[^/\s]{1,15}$" },
    "The CAN interface, which `hertzd devices` lists: `\"can0\"`.",
)
.required("name the CAN interface, such as \"can0\"");
const FD: Key = Key::new(
    "fd",
    Value::Bool,
    "Whether frames of CAN FD, with up to 64 bytes, are received as well, and those that are sent are of CAN FD.",
)
.default("false");
const BIT_RATE_SWITCH: Key =
    Key::new("bit-rate-switch", Value::Bool, "Whether the data of frames that are sent go at the higher bit rate.")
        .default("false")
        .rules(&[Rule::when_on("fd"), Rule::with(&["send"])]);
const TIMEOUT: Key = Key::new("timeout", Value::DURATION, TIMEOUT_TEXT)
    .otherwise("ten periods, at least 100 ms")
    .rules(&[Rule::with(&["receive"])]);
const WRITE: Key = Key::new(
    "write",
    Value::Choice(&words(&WRITES)),
    "Whether each frame is sent at each tick, or only when its data change.",
)
.default("\"always\"")
.rules(SENDING);
const RECOVER: Key = Key::new(
    "recover",
    Value::Choice(&words(&RECOVERIES)),
    "What ends the safe state of a signal: its input has been good for `recover-after`; or a rising edge of `reset`, or a new start of \
     the task. A reload that changes nothing in its section except `worker` is not a new start.",
)
.default("\"auto\"")
.rules(SENDING);
const RECOVER_AFTER: Key =
    Key::new("recover-after", Value::Duration { min: Span::ZERO, max: Span::MAX }, "How long that is.")
        .default("\"1s\"")
        .rules(&[Rule::with(&["send"]), Rule::when("recover", &["auto"])]);
const RESET: Key =
    Key::new("reset", Value::Input, "Ends latched safe states when it rises above 0, of signals whose input is good. While it is bad, stale or missing, it keeps the state that it had last.")
        .otherwise("only a new start of the task does")
        .rules(&[Rule::with(&["send"]), Rule::when("recover", &["latch"])]);
const SAFE_AFTER: Key = Key::new(
    "safe-after",
    Value::DURATION,
    "How long the task may go without a tick until another thread sends the safe values: its worker hangs, or gets no processor time. After \
     a reload also how long a first value is waited for until the input counts as missing.",
)
.otherwise("ten periods, at least 100 ms")
.rules(SENDING);

const SENDING: &[Rule] = &[Rule::with(&["send"])];

const KEYS: &[Key] = &[
    INTERFACE,
    FD,
    RECEIVE,
    TIMEOUT,
    SEND,
    BIT_RATE_SWITCH,
    WRITE,
    RECOVER,
    RECOVER_AFTER,
    RESET,
    SAFE_AFTER,
    Missing::KEY,
];

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("can", "Receives or sends signals in frames of CAN and CAN FD, by SocketCAN.", KEYS, parse)
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let (interface, fd) = (section.text(&INTERFACE), section.boolean(&FD));
    if interface.as_ref().is_some_and(|name| !is_interface(name)) {
        section.problem(
            &INTERFACE,
            "is no name of an interface: 1 to 15 bytes, without /, :, spaces and control characters",
        );
    }
    let missing = Missing::of(section);
    let (sends, bit_rate_switch, always) =
        (section.has(&SEND), section.boolean(&BIT_RATE_SWITCH), section.choice(&WRITE, &WRITES));
    if sends {
        section.acts();
    }
    let timeout = section.duration(&TIMEOUT);
    let (recovery, recover_after) = (section.choice(&RECOVER, &RECOVERIES), section.duration(&RECOVER_AFTER));
    let reset = section.input(&RESET).map(Input::acted_on);
    let safe_after = section.duration(&SAFE_AFTER);
    refuse_within_a_period(section, &SAFE_AFTER, safe_after);
    let usual =
        Span::from_nanos(section.period().map_or(0, Span::nanos).saturating_mul(10)).max(Span::from_millis(100));
    let fd_known = fd.unwrap_or_default();
    if !sends {
        let read = tables::receive(section, fd_known, timeout.unwrap_or(usual));
        let bus = BusSettings { interface: interface.filter(|name| is_interface(name))?, fd: fd? };
        return receiver(section, ReceiveSettings { bus, received: read? }, missing);
    }
    let recover = match recovery? {
        Recovery::Auto => Recover::Auto(recover_after?.seconds()),
        Recovery::Latch => Recover::Latch,
    };
    let safe_after = safe_after.unwrap_or(usual);
    let first_after = section.period()? + TAKES_OVER_WITHIN;
    let read = tables::send(section, fd_known, recover, safe_after);
    let bus = BusSettings { interface: interface.filter(|name| is_interface(name))?, fd: fd? };
    let (frames, columns) = read?;
    let settings = SendSettings {
        section: section.says().into(),
        bus,
        bit_rate_switch: bit_rate_switch?,
        frames,
        columns,
        reset,
        always: always?,
        safe_after,
        first_after,
    };
    sender(section, settings, missing)
}

fn receiver(section: &Section<'_>, settings: ReceiveSettings, missing: Missing) -> Option<Blueprint> {
    let label = label(section, &settings.bus);
    // A frame is taken by the tick after its arrival, and its value is held until the timeout.
    let timeout = settings.received.frames.iter().map(|(_, timeout)| *timeout).max()?;
    let held = timeout + section.period()?;
    let looked = (label.clone(), settings.clone());
    let columns = receive::columns(&settings);
    let build = move |site: &mut Site| Ok(Receiver::open(site, label, settings, missing)?.into());
    let look = move |site: &mut Site| Receiver::look(site, &looked.0, &looked.1, missing);
    Some(Blueprint::new(build).looking(look).with_columns(columns).holding(held).first_value_within(FIRST_VALUE))
}

fn sender(section: &Section<'_>, settings: SendSettings, missing: Missing) -> Option<Blueprint> {
    let label = label(section, &settings.bus);
    if section.is_shadow() {
        return Some(Blueprint::built(at_the_desk(settings)));
    }
    let (looked, of_desk) = ((label.clone(), settings.clone()), settings.clone());
    let build = move |site: &mut Site| Sender::open(site, &label, settings, missing);
    Some(
        Blueprint::new(build)
            .looking(move |site| send::look(site, &looked.0, &looked.1, missing))
            .at_the_desk(move || at_the_desk(of_desk)),
    )
}

fn at_the_desk(settings: SendSettings) -> Built {
    Built::from(AtTheDesk::new(settings)).measures_nothing()
}

fn label(section: &Section<'_>, bus: &BusSettings) -> Label {
    Label::new(format!("interface {}", bus.interface), section.name())
}
