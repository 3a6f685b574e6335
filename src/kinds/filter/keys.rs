//! The keys of the kind `filter`, and how a section becomes a filter. Pure.

use super::super::elapsed::Periods;
use super::super::slope::Slope;
use super::Filter;
use super::law::{FirstOrder, Integral, Law, Median, MovingAverage, Response, SecondOrder, Shape};
use crate::config::{Blueprint, Key, Kind, Preview, Rule, Section, Value, words};
use crate::task::Task;
use crate::time::Span;

#[derive(Clone, Copy, PartialEq)]
enum Type {
    LowPass,
    HighPass,
    Notch,
    MovingAverage,
    Median,
    SlewLimit,
    Derivative,
    Integral,
}

const TYPES: [(&str, Type); 8] = [
    ("low-pass", Type::LowPass),
    ("high-pass", Type::HighPass),
    ("notch", Type::Notch),
    ("moving-average", Type::MovingAverage),
    ("median", Type::Median),
    ("slew-limit", Type::SlewLimit),
    ("derivative", Type::Derivative),
    ("integral", Type::Integral),
];

/// Maximum window of a moving average, in ticks: once per window, one tick adds up all of them.
const MOST_AVERAGED: i64 = 10_000;

/// Maximum window of a median, in ticks: each tick moves half of them.
const MOST_SORTED: i64 = 255;

/// Maximum time that one tick makes up for, in periods.
const MOST_GAP: u64 = 1_000;

const INPUT: Key = Key::new("input", Value::Input, "What is filtered.").required("name it, such as \"oven.temp1\"");
const TYPE: Key = Key::new(
    "type",
    Value::Choice(&words(&TYPES)),
    "What the filter does: keeps what is slower or faster than `cutoff` (Butterworth's filters); takes out one `frequency`; puts out the \
     mean or the median of the latest `window` ticks; follows by at most `rate-limit`; puts out the slope per second, or the integral over \
     seconds.",
)
.required("write \"low-pass\", \"median\" or another");
const CUTOFF: Key = Key::new(
    "cutoff",
    Value::Rate,
    "The frequency at which 3 dB are lost (a factor of 0.71), exactly. Below half the task's rate.",
)
.required("write a frequency, such as \"2 Hz\"")
.rules(&[Rule::when("type", &["low-pass", "high-pass"])]);
const ORDER: Key = Key::new(
    "order",
    Value::Integer { min: 1, max: 2 },
    "How steep it is: 20 dB a decade for each. The first order follows a step without overshoot, the second one overshoots by 4 %.",
)
.default("1")
.rules(&[Rule::when("type", &["low-pass", "high-pass"])]);
const FREQUENCY: Key =
    Key::new("frequency", Value::Rate, "The frequency that is taken out. Below half the task's rate.")
        .required("write a frequency, such as \"50 Hz\"")
        .rules(&[Rule::when("type", &["notch"])]);
const Q: Key = Key::new(
    "q",
    Value::Positive,
    "How narrow the notch is: its frequency divided by its width between the points where 3 dB are lost. A narrow one takes longer to settle.",
)
.default("10")
.rules(&[Rule::when("type", &["notch"])]);
const WINDOW: Key = Key::new(
    "window",
    Value::Integer { min: 2, max: MOST_AVERAGED },
    "How many ticks the mean or the median is of. For a median an odd number, at most 255.",
)
.required("write a number of ticks, such as 9")
.rules(&[Rule::when("type", &["moving-average", "median"])]);
const RATE_LIMIT: Key =
    Key::new("rate-limit", Value::Positive, "The most that the output changes by in a second, up or down.")
        .required("write a number in the unit of the input, per second")
        .rules(&[Rule::when("type", &["slew-limit"])]);
const TIME_CONSTANT: Key =
    Key::new("time-constant", Value::DURATION, "Time constant of the low-pass filter of the derivative.")
        .otherwise("none: the slope between the two latest rows")
        .rules(&[Rule::when("type", &["derivative"])]);
const RESET: Key =
    Key::new("reset", Value::Input, "The integral begins again at zero, and stays there while this is not 0.")
        .default("0")
        .rules(&[Rule::when("type", &["integral"])]);
const MAX_GAP: Key = Key::new(
    "max-gap",
    Value::DURATION,
    "The longest time between two values that is bridged: ticks that were skipped, or had no value, count as such with the value before them. \
     After a longer time the filter starts again, as if its input had always been what it is now. At most 1000 periods.",
)
.otherwise("ten periods");

const KEYS: &[Key] = &[INPUT, TYPE, CUTOFF, ORDER, FREQUENCY, Q, WINDOW, RATE_LIMIT, TIME_CONSTANT, RESET, MAX_GAP];

pub(in crate::kinds) fn kind() -> Kind {
    let about =
        "Filters a value: low-pass, high-pass, notch, moving average, median, slew limit, derivative or integral.";
    Kind::new("filter", about, KEYS, parse)
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let (input, reset) = (section.input(&INPUT), section.input(&RESET));
    let periods = Periods::of(section, &MAX_GAP, MOST_GAP);
    let chosen = section.choice(&TYPE, &TYPES)?;
    let (shape, name) = (shape(section, chosen, periods), section.name().to_owned());
    let word = TYPES.iter().find(|(_, of)| *of == chosen).map_or("", |(word, _)| *word);
    let filter = Filter::new(Law::new(shape?), periods?, input?, reset?);
    let preview = Preview { columns: Some(filter.columns()), ..Preview::default() };
    Some(
        Blueprint::new(move |site| Ok(filter.going_on(site, word, &name).into()))
            .looking(move |_| Ok(preview))
            .computing(),
    )
}

fn shape(section: &mut Section<'_>, chosen: Type, periods: Option<Periods>) -> Option<Shape> {
    Some(match chosen {
        Type::LowPass => pass(section, Response::LowPass)?,
        Type::HighPass => pass(section, Response::HighPass)?,
        Type::Notch => notch(section)?,
        Type::MovingAverage => Shape::MovingAverage(MovingAverage::new(section.integer(&WINDOW)?)),
        Type::Median => Shape::Median(Median::new(sorted(section)?)),
        Type::SlewLimit => {
            let change = section.number(&RATE_LIMIT)? * periods?.seconds();
            Shape::SlewLimit { out: 0.0, change }
        }
        Type::Derivative => {
            let time_constant = section.duration(&TIME_CONSTANT).map_or(0.0, Span::seconds);
            Shape::Derivative { slope: Slope::default(), time_constant }
        }
        Type::Integral => Shape::Integral(Integral::new(periods?.seconds())),
    })
}

fn pass(section: &mut Section<'_>, response: Response) -> Option<Shape> {
    let (cutoff, order) = (below_half(section, &CUTOFF), section.integer::<u8>(&ORDER));
    Some(match (cutoff?, order?) {
        (cutoff, 1) => Shape::FirstOrder(FirstOrder::new(response, cutoff)),
        (cutoff, _) => Shape::SecondOrder(SecondOrder::butterworth(response, cutoff)),
    })
}

fn notch(section: &mut Section<'_>) -> Option<Shape> {
    let (frequency, q) = (below_half(section, &FREQUENCY), section.number(&Q));
    let (frequency, q) = (frequency?, q?);
    if q <= 2.0 * frequency {
        section.problem(&Q, format!("must be above {}: a wider notch leaves no frequency to pass", 2.0 * frequency));
        return None;
    }
    Some(Shape::SecondOrder(SecondOrder::notch(frequency, q)))
}

/// A frequency as a fraction of the task's rate; it must be below one half.
fn below_half(section: &mut Section<'_>, key: &Key) -> Option<f64> {
    let (frequency, rate) = (section.rate(key)?, section.task_rate()?);
    // Exact: each factor is below 10^15.
    let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let (over, under) = (times(frequency.num(), rate.den()), times(frequency.den(), rate.num()));
    if 2 * over >= under {
        let half = rate.hertz() / 2.0;
        section.problem(
            key,
            format!("must be below half the rate of the task, {half} Hz: what is faster does not show in its ticks"),
        );
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "rounded once, in the quotient's operands")]
    Some(over as f64 / under as f64)
}

fn sorted(section: &mut Section<'_>) -> Option<usize> {
    let window: i64 = section.integer(&WINDOW)?;
    if window % 2 == 0 {
        section.problem_with_help(
            &WINDOW,
            "must be odd for a median, so that one tick is in the middle",
            format!("write {}", (window + 1).min(MOST_SORTED)),
        );
    } else if window > MOST_SORTED {
        section.problem(&WINDOW, format!("must be at most {MOST_SORTED} for a median"));
    } else {
        return usize::try_from(window).ok();
    }
    None
}
