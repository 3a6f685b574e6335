//! The keys of the kind `output`, and how a section becomes a task. Pure: no device is opened.

use super::desk::AtTheDesk;
use super::law::{self, OnStale, Recover};
use super::look::look;
use super::named;
use super::open::open_output;
use super::settings::{Conversion, OutputSettings, Safe, Start};
use crate::config::{Blueprint, Key, Kind, Rule, Section, Value, words};
use crate::site::{Built, Site};
use crate::task::Input;
use crate::time::Span;
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stale {
    Safe,
    Hold,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Recovery {
    Auto,
    Latch,
}

const SAFES: [(&str, Safe); 2] = [("restore", Safe::Restore), ("hold", Safe::Hold)];
const STALES: [(&str, Stale); 2] = [("safe", Stale::Safe), ("hold", Stale::Hold)];
const STARTS: [(&str, Start); 2] = [("safe", Start::Safe), ("keep", Start::Keep)];
const RECOVERIES: [(&str, Recovery); 2] = [("auto", Recovery::Auto), ("latch", Recovery::Latch)];
const WRITES: [(&str, bool); 2] = [("change", false), ("always", true)];

const INPUT: Key = Key::new("input", Value::Input, "What is put out.").required("name it, such as \"control.out\"");
const SCALE: Key =
    Key::new("scale", Value::Factor, "What the value is multiplied by, after limits and slew.").default("1");
const OFFSET: Key = Key::new("offset", Value::Number, "What is added after that.").default("0");
const LIMITS: Key =
    Key::new("limits", Value::Range, "The value stays within, in the unit of the input. The safe value need not.")
        .otherwise("none but those of the target");
const SLEW: Key = Key::new(
    "slew",
    Value::Positive,
    "How fast the value may change: by so much per second, in the unit of the input.",
)
.otherwise("as fast as the input");
const SAFE: Key = Key::new(
    "safe",
    Value::NumberOr(&words(&SAFES)),
    "What is written when the input is stale, bad or missing, when the task ends or is disabled, and at each end of a run: a value in the \
     unit of the input; `\"restore\"`: what the target held before; `\"hold\"`: nothing, it keeps what was written last.",
)
.required("say in what state it is to be left, such as 1.0 for a fan at full speed")
.rules(&[Rule::without(&["pwm"]).for_word("restore").message(
    "a PWM channel that hertzd sets up has no earlier state to restore; write a duty from 0 to 1",
)]);
const ON_STALE: Key = Key::new(
    "on-stale",
    Value::Choice(&words(&STALES)),
    "What happens while the input is stale, bad or missing: the safe value is written, or what was written last stays for `hold-max`.",
)
.default("\"safe\"");
const HOLD_MAX: Key = Key::new("hold-max", Value::DURATION, "After that the safe value is written all the same.")
    .required_unless(&[], "say for how long what was written last may stay")
    .rules(&[Rule::when("on-stale", &["hold"])]);
const START: Key = Key::new(
    "start",
    Value::Choice(&words(&STARTS)),
    "What is written before the first good value: the safe value, when the task is opened; or nothing, so that what is there stays.",
)
.default("\"safe\"");
const RECOVER: Key = Key::new(
    "recover",
    Value::Choice(&words(&RECOVERIES)),
    "What ends the safe state: the input has been good for `recover-after`; or a rising edge of `reset`, or a new start of the task. A reload \
     that changes nothing in its section except `worker` is not a new start.",
)
.default("\"auto\"");
const RECOVER_AFTER: Key =
    Key::new("recover-after", Value::Duration { min: Span::ZERO, max: Span::MAX }, "How long that is.")
        .default("\"1s\"")
        .rules(&[Rule::when("recover", &["auto"])]);
const RESET: Key = Key::new(
    "reset",
    Value::Input,
    "Ends a latched safe state when it rises above 0 while the input is good. While it is bad, stale or missing, it keeps the state that it had last.",
)
.otherwise("only a new start of the task does")
.rules(&[Rule::when("recover", &["latch"])]);
const SAFE_SLEW: Key = Key::new(
    "safe-slew",
    Value::Positive,
    "How fast the value goes to the safe one when the input fails: by so much per second. At an end it is there at once.",
)
.otherwise("at once");
const SAFE_AFTER: Key = Key::new(
    "safe-after",
    Value::DURATION,
    "How long the task may go without a tick until another thread writes the safe value: its worker hangs, or gets no processor time. With \
     `start = \"keep\"`, and after a reload, also how long a first value is waited for until the input counts as missing.",
)
.otherwise("ten periods, at least 100 ms");
const WRITE: Key = Key::new(
    "write",
    Value::Choice(&words(&WRITES)),
    "Whether to write at ticks that change nothing: needed where something else may write there, or the device forgets. With \
     `\"always\"` the safe value is written at each tick too; and `pwmN_enable`, and the period and `enable` of a PWM channel, once they are seen to have changed.",
)
.default("\"change\"");

const READBACK: Key = Key::new(
    "readback",
    Value::Duration { min: Span::from_millis(100), max: Span::MAX },
    "How often the target is read, by another thread, and compared with what was written to it last. A difference is logged and counted, and \
     hertzd is not well until it is gone. What gives the value its effect, `pwmN_enable` or the period and `enable` of a PWM channel, is read in \
     any case, every second without this key.",
)
.otherwise("never");

/// How long, in addition to a period, a reload may take from the last tick of an output to the first tick of the one that takes over its
/// target.
pub(in crate::kinds) const TAKES_OVER_WITHIN: Span = Span::from_seconds(5);

const KEYS: &[Key] = &[
    INPUT,
    named::PATH,
    named::HWMON,
    named::IIO,
    named::DEVICE,
    named::FILE,
    named::PWM,
    named::CHANNEL,
    named::PWM_PERIOD,
    named::CHIP,
    named::LINE,
    named::ACTIVE_LOW,
    named::BUS,
    named::ADDRESS,
    named::REGISTER,
    named::TYPE,
    named::BITS,
    named::SHIFT,
    named::FORCE_ADDRESS,
    named::INIT,
    SCALE,
    OFFSET,
    LIMITS,
    SLEW,
    SAFE,
    ON_STALE,
    HOLD_MAX,
    START,
    RECOVER,
    RECOVER_AFTER,
    RESET,
    SAFE_SLEW,
    SAFE_AFTER,
    WRITE,
    READBACK,
];

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    let about = "Writes one value to a device or a file, and leaves it in a safe state.";
    Kind::new("output", about, KEYS, parse).also(json!({
        "if": {"required": ["line"], "properties": {"line": {"type": "integer"}}},
        "then": {"required": ["chip"]},
    }))
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    section.acts();
    let settings = settings(section)?;
    let task = section.name().to_owned();
    let (of_look, of_desk, its_task) = (settings.clone(), settings.clone(), task.clone());
    if section.is_shadow() {
        return Some(Blueprint::built(at_the_desk(settings)));
    }
    let build = move |site: &mut Site| open_output(site, settings, &task);
    let look = move |site: &mut Site| look(site, &of_look, &its_task);
    Some(Blueprint::new(build).looking(look).at_the_desk(move || at_the_desk(of_desk)))
}

fn at_the_desk(settings: OutputSettings) -> Built {
    Built::from(AtTheDesk::new(settings)).measures_nothing()
}

/// Rejects a duration that passes between any two ticks of the task.
pub(in crate::kinds) fn refuse_within_a_period(section: &mut Section<'_>, key: &Key, after: Option<Span>) {
    if let (Some(after), Some(period)) = (after, section.period())
        && after <= period
    {
        section.problem(
            key,
            format!("must be longer than the task's period, {period}: between two ticks it would count as hung"),
        );
    }
}

fn settings(section: &mut Section<'_>) -> Option<OutputSettings> {
    let (input, reset) = (section.input_that_ages(&INPUT), section.input(&RESET).map(Input::acted_on));
    let place = named::place(section);
    let (scale, offset) = (section.number(&SCALE), section.number(&OFFSET));
    let (limits, slew, safe_slew) = (section.range(&LIMITS), section.number(&SLEW), section.number(&SAFE_SLEW));
    let safe = section.number_or(&SAFE, &SAFES).map(|safe| safe.map_or_else(|word| word, Safe::Value));
    let hold_max = section.duration(&HOLD_MAX);
    let on_stale = match section.choice(&ON_STALE, &STALES) {
        Some(Stale::Hold) => hold_max.map(|most| OnStale::Hold(most.seconds())),
        stale => stale.map(|_| OnStale::Safe),
    };
    let after = section.duration(&RECOVER_AFTER);
    let recover = match section.choice(&RECOVER, &RECOVERIES) {
        Some(Recovery::Auto) => after.map(|after| Recover::Auto(after.seconds())),
        recover => recover.map(|_| Recover::Latch),
    };
    let (start, always, safe_after) =
        (section.choice(&START, &STARTS), section.choice(&WRITE, &WRITES), section.duration(&SAFE_AFTER));
    let readback = section.duration(&READBACK);
    let (place, safe) = (place?, safe?);
    let raw = place.raw();
    let conversion = Conversion { scale: scale?, offset: offset?, full: raw.full, zero: raw.zero };
    let natural = conversion.natural(&raw);
    if let Safe::Value(value) = safe {
        refuse_safe(section, value, natural, conversion);
    }
    let [low, high] = limits.unwrap_or(natural);
    if low > natural[1] || high < natural[0] {
        section.problem(&LIMITS, format!("lies outside what the target takes, {} to {}", natural[0], natural[1]));
        return None;
    }
    let period = section.period()?;
    refuse_within_a_period(section, &SAFE_AFTER, safe_after);
    let safe_after =
        safe_after.unwrap_or_else(|| Span::from_nanos(period.nanos().saturating_mul(10)).max(Span::from_millis(100)));
    // The phase lies within the period, and a new worker may wait a whole second for its clock, or for its bandwidth.
    let first_after = Span::from_nanos(period.nanos().saturating_add(TAKES_OVER_WITHIN.nanos()));
    let law = law::Settings {
        limits: [low.max(natural[0]), high.min(natural[1])],
        slew: slew.unwrap_or(f64::INFINITY),
        safe: if let Safe::Value(value) = safe { Some(value) } else { None },
        safe_slew: safe_slew.unwrap_or(f64::INFINITY),
        on_stale: on_stale?,
        recover: recover?,
        patience: safe_after.seconds(),
    };
    let (input, start, always) = (input?, start?, always?);
    Some(OutputSettings {
        section: section.says(),
        place,
        input,
        reset,
        conversion,
        law,
        safe,
        start,
        always,
        readback,
        safe_after,
        first_after,
    })
}

fn refuse_safe(section: &mut Section<'_>, value: f64, [low, high]: [f64; 2], conversion: Conversion) {
    if value < low || value > high {
        section.problem(&SAFE, format!("is not what the target takes, {low} to {high}"));
    } else if !conversion.raw(value).is_finite() {
        section.problem(&SAFE, "is too large for a floating-point number after scale and offset");
    }
}
