//! The keys of the kind `load`, and how a section becomes a task. Pure.

use super::{Fault, FaultKind, Load, LoadSettings, Mode};
use crate::config::{Blueprint, Kind};
use crate::config::{Key, Section, Value};
use crate::sys::clock::KernelClock;
use crate::task::Task;
use crate::time::Span;
use std::num::NonZeroU64;

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("load", "Burns or sleeps a scripted time, and misbehaves on request; for trials and tests.", KEYS, parse)
}

const KEYS: &[Key] = &[
    Key {
        name: "run",
        value: Value::Durations,
        default: "\"0s\"",
        about: "How long a tick takes; of a list, one tick after the other, cycled.",
    },
    Key {
        name: "mode",
        value: Value::Choice(&["burn", "sleep"]),
        default: "\"burn\"",
        about: "How that time is spent: on the processor, or asleep as a task does that waits for a device.",
    },
    Key {
        name: "fault",
        value: Value::Choice(&["long-run", "page-faults", "sleep", "error", "panic", "hang"]),
        default: "",
        about: "What goes wrong now and then: a long run, fresh pages touched, a blocking sleep, an error returned, a \
                panic, a tick that never returns.",
    },
    Key {
        name: "fault-every",
        value: Value::Integer { min: 1, max: i64::MAX },
        default: "1000",
        about: "It goes wrong in the last of every so many releases: with 100 first in tick 99. Only with fault.",
    },
    Key {
        name: "fault-run",
        value: Value::Duration,
        default: "\"5ms\" for long-run and sleep, otherwise none",
        about: "How long the faulting tick takes, in place of run; under \"sleep\", how long it sleeps. Only with fault, \
                and not with \"hang\".",
    },
];

const FAULTS: &[(&str, FaultKind)] = &[
    ("long-run", FaultKind::LongRun),
    ("page-faults", FaultKind::PageFaults),
    ("sleep", FaultKind::Sleep),
    ("error", FaultKind::Error),
    ("panic", FaultKind::Panic),
    ("hang", FaultKind::Hang),
];

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let run = section.durations("run").unwrap_or_default();
    let mode = section.choice("mode", &[("burn", Mode::Burn), ("sleep", Mode::Sleep)]).unwrap_or_default();
    let kind = section.choice("fault", FAULTS);
    for key in ["fault-every", "fault-run"] {
        if section.has(key) && !section.has("fault") {
            section.problem(key, "has no effect without fault; remove it, or say what goes wrong");
        }
    }
    if section.has("fault-run") && kind == Some(FaultKind::Hang) {
        section.problem("fault-run", "has no effect with fault = \"hang\", which never returns; remove it");
    }
    let every = section.integer("fault-every", 1..=i64::MAX).unwrap_or(1_000);
    let every = NonZeroU64::new(every.unsigned_abs()).unwrap_or(NonZeroU64::MIN);
    let asked = section.duration("fault-run");
    let fault = kind.map(|kind| {
        let usual = match kind {
            FaultKind::LongRun | FaultKind::Sleep => Span::from_millis(5),
            _ => Span::ZERO,
        };
        Fault { kind, every, run: asked.unwrap_or(usual) }
    });
    let known = run.clone();
    let settings = LoadSettings { run, mode, fault };
    let build = move || Ok(Box::new(Load::new(settings, KernelClock::monotonic())) as Box<dyn Task>);
    Some(Blueprint::new(build).taking(known))
}
