//! The keys of the kind `load`, and how a section becomes a task. Pure.

use super::Load;
use super::settings::{Effect, Fault, LoadSettings, Mode};
use crate::config::{Blueprint, Exceptional, Key, Kind, Preview, Rule, Section, Value, words};
use crate::site::Site;
use crate::sys::clock::KernelClock;
use crate::time::Span;
use std::num::NonZeroU64;

const MODES: [(&str, Mode); 2] = [("burn", Mode::Burn), ("sleep", Mode::Sleep)];
const FAULTS: [(&str, Effect); 6] = [
    ("long-run", Effect::LongRun),
    ("page-faults", Effect::PageFaults),
    ("sleep", Effect::Sleep),
    ("error", Effect::Error),
    ("panic", Effect::Panic),
    ("hang", Effect::Hang),
];

const RUN: Key =
    Key::new("run", Value::Durations, "How long a tick takes. The values of a list are used in turn, cyclically.")
        .default("\"0s\"");
const MODE: Key = Key::new(
    "mode",
    Value::Choice(&words(&MODES)),
    "How that time is spent: on the processor, or asleep like a task that waits for a device.",
)
.default("\"burn\"");
const FAULT: Key = Key::new(
    "fault",
    Value::Choice(&words(&FAULTS)),
    "What goes wrong now and then: a long run, fresh pages touched, a blocking sleep, an error returned, a panic, a tick \
     that never returns.",
);
const WITH_FAULT: Rule = Rule::with(&["fault"]).advice("remove it, or say what goes wrong");
const FAULT_EVERY: Key = Key::new(
    "fault-every",
    Value::Integer { min: 1, max: i64::MAX },
    "The fault comes once in this many releases, in the last of them: with 100 first in tick 99.",
)
.default("1000")
.rules(&[WITH_FAULT]);
const FAULT_RUN: Key = Key::new(
    "fault-run",
    Value::DURATION,
    "How long the faulty tick takes, in place of `run`; with `\"sleep\"`, how long it sleeps.",
)
.otherwise("`\"5ms\"` for `\"long-run\"` and `\"sleep\"`, otherwise none")
.rules(&[
    WITH_FAULT,
    Rule::unless("fault", &["hang"]).message("has no effect with fault = \"hang\", which never returns; remove it"),
]);

const KEYS: &[Key] = &[RUN, MODE, FAULT, FAULT_EVERY, FAULT_RUN];

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("load", "Burns or sleeps a scripted time, and fails on request; for trials and tests.", KEYS, parse)
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let (run, mode) = (section.durations(&RUN), section.choice(&MODE, &MODES));
    let effect = section.choice(&FAULT, &FAULTS);
    let every = section.integer(&FAULT_EVERY);
    let asked = section.duration(&FAULT_RUN);
    let (run, every) = (run?, NonZeroU64::new(every?)?);
    let fault = effect.map(|effect| {
        let usual = match effect {
            Effect::LongRun | Effect::Sleep => Span::from_millis(5),
            _ => Span::ZERO,
        };
        Fault { effect, every, run: asked.unwrap_or(usual) }
    });
    // An unwritten run time counts as unknown: simulate then uses the budget.
    let known = if section.has(&RUN) { run.clone() } else { Vec::new() };
    let mode = mode?;
    let burns = fault.is_some_and(|fault| matches!(fault.effect, Effect::LongRun | Effect::PageFaults));
    let settings = LoadSettings { run, mode, fault };
    let build = move |_: &mut Site| Ok(Load::new(settings, KernelClock::monotonic()).into());
    let preview = |_: &mut Site| Ok(Preview { columns: Some(Vec::new()), ..Preview::default() });
    let mut blueprint = Blueprint::new(build).looking(preview).taking(known);
    if let Some(fault) = fault.filter(|fault| fault.effect != Effect::Hang && fault.run > Span::ZERO) {
        let sleeps = match fault.effect {
            Effect::Sleep => true,
            Effect::LongRun | Effect::PageFaults => false,
            Effect::Error | Effect::Panic | Effect::Hang => mode == Mode::Sleep,
        };
        blueprint = blueprint.now_and_then(Exceptional { run: fault.run, sleeps });
    }
    Some(if mode == Mode::Sleep && !burns { blueprint.sleeping() } else { blueprint })
}
