//! The keys of the kind `pid`, and how a section becomes a controller. Pure.

use super::super::elapsed::Periods;
use super::law::{Action, AntiWindup, Gains, Settings, Takeover};
use super::{Inputs, Pid};
use crate::config::{Blueprint, Key, Kind, Preview, Rule, Section, Value, words};
use crate::task::{Input, Task};
use crate::time::Span;

#[derive(Clone, Copy, PartialEq)]
enum Windup {
    Conditional,
    BackCalculation,
    None,
}

const ACTIONS: [(&str, Action); 2] = [("reverse", Action::Reverse), ("direct", Action::Direct)];
const TAKEOVERS: [(&str, Takeover); 2] = [("bumpless", Takeover::Bumpless), ("reset", Takeover::Reset)];
const WINDUPS: [(&str, Windup); 3] =
    [("conditional", Windup::Conditional), ("back-calculation", Windup::BackCalculation), ("none", Windup::None)];

const INPUT: Key = Key::new("input", Value::Input, "The measurement that is to be held at the setpoint.")
    .required("name it, such as \"oven.temp1\"");
const SETPOINT: Key = Key::new("setpoint", Value::Input, "Where the input is to be held, in its unit.")
    .required("write a number in the unit of the input, or the value of a task");
const KP: Key = Key::new("kp", Value::Number, "Proportional gain: output per unit of error.")
    .required_unless(&["ki", "kd"], "write kp, ki or kd");
const KI: Key = Key::new("ki", Value::Number, "Integral gain: output per unit of error and second.").excludes(&["ti"]);
const KD: Key =
    Key::new("kd", Value::Number, "Derivative gain: output per unit of error per second.").excludes(&["td"]);
const TI: Key = Key::new(
    "ti",
    Value::DURATION,
    "Integral time, in place of `ki`: `ki` is `kp` divided by it (the standard form of ISA).",
)
.rules(&[Rule::with(&["kp"])]);
const TD: Key = Key::new("td", Value::DURATION, "Derivative time, in place of `kd`: `kd` is `kp` times it.")
    .rules(&[Rule::with(&["kp"])]);
const ACTION: Key = Key::new(
    "action",
    Value::Choice(&words(&ACTIONS)),
    "Which way the output goes when the input rises: down, as a heater's, or up, as a fan's.",
)
.default("\"reverse\"");
const SETPOINT_WEIGHT: Key = Key::new(
    "setpoint-weight",
    Value::Number,
    "How much of the setpoint the proportional part acts on: 1 for the whole error, 0 for the input alone, so that a step of the \
     setpoint makes none of the output.",
)
.default("1")
.rules(&[Rule::with(&["kp"])]);
const DEADBAND: Key = Key::new(
    "deadband",
    Value::Number,
    "Errors up to this size count as none; of a larger one, what lies beyond it acts.",
)
.default("0")
.rules(&[Rule::with(&["kp", "ki"])]);
const DERIVATIVE_FILTER: Key = Key::new(
    "derivative-filter",
    Value::Duration { min: Span::ZERO, max: Span::MAX },
    "Time constant of the low-pass filter of the derivative. The derivative is that of the input alone.",
)
.otherwise("a tenth of the derivative time, which is `kd` / `kp`; without `kp` one period")
.rules(&[Rule::with(&["kd", "td"])]);
const FEED_FORWARD: Key =
    Key::new("feed-forward", Value::Input, "What is added to the output, in its unit.").default("0");
const LIMITS: Key = Key::new("limits", Value::Range, "The range of the output.").otherwise("none");
const ANTI_WINDUP: Key = Key::new(
    "anti-windup",
    Value::Choice(&words(&WINDUPS)),
    "What keeps the integral from growing while the output is at a limit: of a step it takes no more than leads to the limit, and nothing \
     of one away from what the output of `track` puts out meanwhile; or it follows the output that was really applied, within `tracking-time`; or nothing.",
)
.default("\"conditional\"")
.rules(&[
    Rule::with(&["ki", "ti"]),
    Rule::with(&["limits", "track"]).for_word("conditional"),
    Rule::with(&["limits", "track"]).for_word("back-calculation"),
]);
const TRACKING_TIME: Key =
    Key::new("tracking-time", Value::DURATION, "How fast the integral follows the output that was really applied.")
        .otherwise("the integral time, which is `kp` / `ki`")
        .rules(&[Rule::when("anti-windup", &["back-calculation"])]);
const TRACK: Key = Key::new(
    "track",
    Value::Input,
    "What the output really did, such as `{ previous = \"fan.applied\", initial = 0 }`: where the controller takes over from, and what \
     `anti-windup` goes by.",
)
.otherwise("the controller's last output, within its limits")
.rules(&[Rule::with(&["ki", "ti"])]);
const TAKEOVER: Key = Key::new(
    "takeover",
    Value::Choice(&words(&TAKEOVERS)),
    "What the integral begins with at the first start, after `enable` and after a gap longer than `max-gap`. `bumpless`: the output continues from \
     the value applied last. `reset`: the integral begins at what was applied last by `track`, else at 0, and `kp` acts at once: a controller \
     that begins far from its setpoint gets there sooner. After `manual` and after a reload it is always `bumpless`.",
)
.otherwise("`reset` at the first start, `bumpless` later on")
.rules(&[Rule::with(&["ki", "ti"])]);
const ENABLE: Key = Key::new(
    "enable",
    Value::Input,
    "Puts out nothing while this is 0, or is no good value. How it comes back is for `takeover` to say.",
)
.default("1");
const MANUAL: Key = Key::new(
    "manual",
    Value::Input,
    "While this value is good, it is the output, within the limits, in place of the controller's own.",
)
.otherwise("always automatic");
const UNIT: Key = Key::new(
    "unit",
    Value::Text,
    "Unit of its output: of the values `out`, `p`, `i`, `d` and `ff`. Empty: none is stated.",
)
.default("\"\"");
const MAX_GAP: Key = Key::new(
    "max-gap",
    Value::DURATION,
    "The longest time between two ticks with all values that is bridged: the output stays for as long as a value is missing, and the next tick \
     counts for all of that time. After a longer time without a tick the integral stands still for that tick, and the derivative starts again; \
     after a longer time without a value nothing is put out, and `takeover` says how it comes back. One period: nothing is bridged.",
)
.otherwise("ten periods");

const KEYS: &[Key] = &[
    INPUT,
    SETPOINT,
    KP,
    KI,
    KD,
    TI,
    TD,
    ACTION,
    SETPOINT_WEIGHT,
    DEADBAND,
    DERIVATIVE_FILTER,
    FEED_FORWARD,
    LIMITS,
    ANTI_WINDUP,
    TRACKING_TIME,
    TRACK,
    TAKEOVER,
    ENABLE,
    MANUAL,
    MAX_GAP,
    UNIT,
];

pub(in crate::kinds) fn kind() -> Kind {
    Kind::new(
        "pid",
        "Holds a measurement at a setpoint: a PID controller that knows how many ticks were skipped.",
        KEYS,
        parse,
    )
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let periods = Periods::of(section, &MAX_GAP, u64::MAX);
    let settings = settings(section, periods);
    let (inputs, unit) = (inputs(section), section.text(&UNIT));
    let label = section.name().to_owned();
    let pid = Pid::new(settings?, periods?, inputs?).in_unit(unit?);
    let columns = pid.columns();
    let preview = Preview { columns: Some(columns), ..Preview::default() };
    Some(Blueprint::new(move |site| Ok(pid.going_on(site, &label).into())).looking(move |_| Ok(preview)).computing())
}

/// The controller needs each of these at some ticks only, and outputs nothing if one it needs is bad. Manual mode therefore works beside a
/// dead sensor.
fn inputs(section: &mut Section<'_>) -> Option<Inputs> {
    let [input, setpoint, feed_forward, enable] =
        [&INPUT, &SETPOINT, &FEED_FORWARD, &ENABLE].map(|key| section.input(key).map(Input::spared));
    let (track, held) = section.input_with(&TRACK, "held-back").unzip();
    let manual = section.input(&MANUAL).map(Input::spared);
    Some(Inputs {
        input: input?,
        setpoint: setpoint?,
        feed_forward: feed_forward?,
        enable: enable?,
        track: track.map(Input::spared),
        held: held.flatten(),
        manual,
    })
}

fn settings(section: &mut Section<'_>, periods: Option<Periods>) -> Option<Settings> {
    let gains = gains(section);
    let deadband = section.number(&DEADBAND)?;
    if deadband < 0.0 {
        section.problem(&DEADBAND, "must be at least 0");
    }
    let filter = section.duration(&DERIVATIVE_FILTER).map(Span::seconds);
    let usual = if gains.kp == 0.0 { periods?.seconds() } else { gains.kd / gains.kp / 10.0 };
    Some(Settings {
        gains,
        action: section.choice(&ACTION, &ACTIONS)?,
        setpoint_weight: section.number(&SETPOINT_WEIGHT)?,
        deadband,
        derivative_filter: filter.unwrap_or(usual),
        limits: section.range(&LIMITS).unwrap_or([f64::NEG_INFINITY, f64::INFINITY]),
        anti_windup: anti_windup(section, gains)?,
        takeover: section.choice(&TAKEOVER, &TAKEOVERS),
    })
}

fn gains(section: &mut Section<'_>) -> Gains {
    let [kp, ki, kd] = [&KP, &KI, &KD].map(|key| section.number(key).unwrap_or(0.0));
    let [ti, td] = [&TI, &TD].map(|key| section.duration(key).map(Span::seconds));
    if kp == 0.0 {
        for (key, time, gain) in [(&TI, ti, "ki"), (&TD, td, "kd")] {
            if time.is_some() && section.has(&KP) {
                section.problem(key, format!("has no effect where kp is 0; write {gain}"));
            }
        }
    }
    let gains = Gains { kp, ki: ti.map_or(ki, |ti| kp / ti), kd: td.map_or(kd, |td| kp * td) };
    refuse_gains(section, gains);
    gains
}

fn anti_windup(section: &mut Section<'_>, gains: Gains) -> Option<AntiWindup> {
    let tracking = section.duration(&TRACKING_TIME).map(Span::seconds);
    match section.choice(&ANTI_WINDUP, &WINDUPS)? {
        Windup::Conditional => Some(AntiWindup::Conditional),
        Windup::None => Some(AntiWindup::None),
        Windup::BackCalculation => {
            let integral_time = (gains.ki != 0.0 && gains.kp != 0.0).then(|| gains.kp / gains.ki);
            let Some(tracking_time) = tracking.or(integral_time) else {
                section.problem(
                    &ANTI_WINDUP,
                    "needs tracking-time, since without kp and ki there is no integral time to use",
                );
                return None;
            };
            Some(AntiWindup::BackCalculation { tracking_time })
        }
    }
}

/// Gains of mixed sign counteract each other, and without any gain there is no controller.
fn refuse_gains(section: &mut Section<'_>, Gains { kp, ki, kd }: Gains) {
    let gains = [(&KP, kp), (&KI, ki), (&KD, kd)];
    let first = gains.iter().find(|(_, gain)| *gain != 0.0);
    let Some((name, sign)) = first.map(|(key, gain)| (key.name, gain.signum())) else {
        if let Some((key, _)) = gains.iter().find(|(key, _)| section.has(key)) {
            section.problem(key, "all gains are zero: the output would be the feed-forward alone");
        }
        return;
    };
    if let Some((key, _)) = gains.iter().find(|(_, gain)| gain * sign < 0.0) {
        let text = format!("has another sign than {name}; gains of mixed sign act against each other");
        section.problem_with_help(
            key,
            text,
            "for a process whose input falls as the output rises, write action = \"direct\"",
        );
    }
}
