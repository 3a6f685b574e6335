//! The output of each kind for its inputs, as its page states it. Written plainly, from whole histories where that is simpler.

use super::case::{Does, Task};
use super::kinds::{Given, given};

/// What a value is worth, as a probe shows it.
pub(crate) mod worth {
    pub(crate) const GOOD: u8 = 0;
    pub(crate) const BAD: u8 = 1;
    pub(crate) const STALE: u8 = 2;
    pub(crate) const NONE: u8 = 3;
    pub(crate) const HELD: u8 = 4;
}

/// An input at a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) value: f64, // NaN unless it is good or held
    pub(crate) quality: u8,
    pub(crate) origin: Option<i64>,
    pub(crate) release: Option<i64>,
    /// Since when there is nothing new.
    pub(crate) waits: Option<i64>,
    /// Whether no value could have come yet.
    pub(crate) first: bool,
    /// The origin of the last good or held value.
    pub(crate) measured: Option<i64>,
    /// With `hold`: the last good value, its origin and release, and when it was last seen.
    pub(crate) kept: Option<(f64, Option<i64>, i64, i64)>,
}

impl Seen {
    pub(crate) fn is_usable(&self) -> bool {
        [worth::GOOD, worth::HELD].contains(&self.quality)
    }
}

/// The result of a tick.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The compared values: the first ones.
    pub(crate) values: Vec<f64>,
    pub(crate) failed: bool,
    /// It wrote nothing.
    pub(crate) left: bool,
    /// It has given up waiting for its input.
    pub(crate) gave_up: bool,
    /// The origin, if the values come from an earlier tick's measurement.
    pub(crate) origin: Option<i64>,
}

/// The state of a task.
#[derive(Clone, Debug)]
pub(crate) struct State {
    last: Option<u64>, // tick
    waited: u64,       // ticks without a value since the last with one
    ran: bool,         // there has been an output
    history: Vec<f64>, // a filter's inputs, tick by tick; empty: it begins
    low: f64,
    from: Option<f64>,   // where it begins then, after a restart
    handed: Option<f64>, // where the task after a restart continues
    pi: Pi,
    alarm: Alarm,
    asked: Option<(f64, i64)>,
    origin: Option<i64>,
    plant: Plant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pi {
    integral: f64,
    out: Option<f64>, // the last output
    runs: bool,       // else it takes over
    goes_on: bool,    // from another one's output
    measured: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Alarm {
    level: i32,   // 0 to 2, or 3: no good value
    highest: i32, // of a value, since the last reset
    reset: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Plant {
    at: Option<i64>,
    level: f64,
    input: f64,
    coming: Vec<(i64, f64)>,
}

impl State {
    pub(crate) fn of(task: &Task) -> Self {
        let input = if let Does::Plant { constant, .. } = task.does { constant } else { 0.0 };
        Self {
            last: None,
            waited: 0,
            ran: false,
            history: Vec::new(),
            low: 0.0,
            from: None,
            handed: None,
            pi: Pi::default(),
            alarm: Alarm { level: 0, highest: 0, reset: true },
            asked: None,
            origin: None,
            plant: Plant { at: None, level: 1.0, input, coming: Vec::new() },
        }
    }

    /// Sets the input of a plant from now on.
    pub(crate) fn drive(&mut self, now: i64, input: f64) {
        if input.is_finite() {
            self.plant.coming.push((now, input));
        }
    }

    /// Tick `n`, with its inputs in the order of the task's links; it begins at `start`.
    pub(crate) fn tick(&mut self, task: &Task, (n, release, start): (u64, i64, i64), seen: &[Seen]) -> Made {
        if task.restarts_at.is_some_and(|at| n >= at && self.last.is_none_or(|last| last < at)) && self.last.is_some() {
            // A new controller or filter continues from the old one's output, a new alarm from its levels.
            let handed = self.handed;
            let alarm = Alarm { reset: true, ..self.alarm };
            let pi = Pi { out: handed, goes_on: handed.is_some(), ..Pi::default() };
            *self = Self { last: self.last, pi, alarm, from: handed, handed, ..Self::of(task) };
        }
        let periods = n - self.last.map_or(0, |last| last + 1) + self.waited + 1;
        self.last = Some(n);
        let value = seen.first().map_or(f64::NAN, |seen| seen.value);
        let mut made = Made { values: Vec::new(), failed: false, left: false, gave_up: false, origin: None };
        made.values = match &task.does {
            Does::Source { script, .. } => match given(*script, n) {
                Given::Number(number) => vec![number],
                Given::Nothing => {
                    made.left = true;
                    vec![f64::NAN]
                }
                Given::Error => {
                    made.failed = true;
                    vec![f64::NAN]
                }
            },
            Does::Plant { gain, time_constant, .. } => vec![self.plant.measure(release, *gain, *time_constant)],
            Does::Mean(_) | Does::Median(_) | Does::LowPass(_) => vec![self.filter(task, value, periods)],
            Does::Pi { .. } => {
                let values = self.pi(task, seen, periods);
                self.ran |= values[0].is_finite();
                made.gave_up = self.ran && values[0].is_nan();
                values
            }
            Does::Alarm { .. } if seen[0].quality == worth::NONE => {
                vec![f64::from(u8::from(self.alarm.level != 0)), f64::from(self.alarm.level)]
            }
            Does::Alarm { .. } => {
                let reset = seen.get(1).map(|reset| reset.value).filter(|reset| reset.is_finite());
                self.alarm.step(&task.does, value, reset.map(|reset| reset != 0.0));
                vec![f64::from(u8::from(self.alarm.level != 0)), f64::from(self.alarm.level)]
            }
            Does::Echo => {
                made.left = self.asked.is_none();
                vec![self.echo(seen, release)]
            }
            Does::Probe => {
                let Seen { quality, origin, release, .. } = seen[0];
                #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
                let age = origin.or(release).map_or(-1.0, |since| (start - since) as f64);
                vec![value, f64::from(quality), age]
            }
        };
        made.origin = match task.does {
            Does::Pi { .. } => self.pi.measured.filter(|_| self.waited > 0),
            Does::Echo => self.origin,
            _ => None,
        };
        made
    }

    /// A missing value or a skipped tick counts as the value before, for up to `max-gap`.
    fn filter(&mut self, task: &Task, value: f64, periods: u64) -> f64 {
        if !value.is_finite() {
            self.waited = periods;
            if periods >= task.max_gap {
                self.history.clear();
                (self.from, self.handed) = (None, None);
            }
            return f64::NAN;
        }
        self.waited = 0;
        let before = self.history.last().copied().filter(|_| periods <= task.max_gap);
        if before.is_none() {
            let begins_at = self.from.take().unwrap_or(value);
            self.history = vec![begins_at; 10]; // as if the input had always been this value
            self.low = begins_at;
        }
        let held = before.map_or(0, |_| periods - 1);
        for next in (0..held).map(|_| before.unwrap_or(value)).chain([value]) {
            if let Does::LowPass(cutoff) = task.does {
                // Tustin's rule, prewarped so that the cutoff is exact.
                let gain = (std::f64::consts::PI * cutoff).tan();
                let last = self.history[self.history.len() - 1];
                self.low = (gain * (next + last) + (1.0 - gain) * self.low) / (1.0 + gain);
            }
            self.history.push(next);
        }
        let latest = |ticks: usize| self.history[self.history.len() - ticks..].to_vec();
        let out = match task.does {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            Does::Mean(ticks) => latest(ticks).iter().sum::<f64>() / ticks as f64,
            Does::Median(ticks) => {
                let mut latest = latest(ticks);
                latest.sort_by(f64::total_cmp);
                latest[ticks / 2]
            }
            _ => self.low,
        };
        self.handed = Some(out);
        out
    }

    fn pi(&mut self, task: &Task, seen: &[Seen], periods: u64) -> Vec<f64> {
        let Does::Pi { kp, ki, setpoint, limit } = task.does else { unreachable!() };
        let Seen { value, origin, release, .. } = seen[0];
        let pi = &mut self.pi;
        // The value before the first row is only for a first start.
        let track = seen.get(1).filter(|track| !(pi.goes_on && track.release.is_none()));
        let applied = track.map(|track| track.value).filter(|applied| applied.is_finite());
        if !value.is_finite() {
            if pi.runs && periods < task.max_gap {
                self.waited = periods;
                return vec![pi.out.unwrap(), f64::NAN];
            }
            (pi.runs, self.waited) = (false, 0);
            self.handed = self.handed.map(|before| applied.unwrap_or(before));
            return vec![f64::NAN, f64::NAN];
        }
        self.waited = 0;
        let error = setpoint - value;
        let p = kp * error;
        let wanted = if !pi.runs {
            // At the first start the integral begins at the applied value, or else at zero; later the output continues where it was.
            match (pi.out, applied) {
                (None, applied) => pi.integral = applied.unwrap_or(0.0).clamp(-limit, limit),
                (Some(out), applied) => pi.integral = applied.unwrap_or(out).clamp(-limit, limit) - p,
            }
            p + pi.integral
        } else if periods > task.max_gap {
            p + pi.integral
        } else {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let change = ki * error * (periods as f64 * task.period as f64 / 1e9);
            let all = p + pi.integral + change;
            // The integral moves at most to the limit.
            let to_limit = if change > 0.0 { (limit - p).max(pi.integral) } else { (-limit - p).min(pi.integral) };
            let next = pi.integral + change;
            pi.integral = if change > 0.0 { next.min(to_limit) } else { next.max(to_limit) };
            all
        };
        let out = wanted.clamp(-limit, limit);
        (pi.runs, pi.out, pi.measured) = (true, Some(out), origin.or(release));
        self.handed = Some(out);
        vec![out, error]
    }

    /// The answer to the tick before. It has the age of that tick's input; if it depends on its own answer, it has no age.
    fn echo(&mut self, seen: &[Seen], release: i64) -> f64 {
        let answer = self.asked.map_or(f64::NAN, |(answer, origin)| {
            self.origin = Some(origin);
            answer
        });
        let good = seen.iter().filter(|seen| seen.is_usable()).filter_map(|seen| seen.origin);
        self.asked = Some((seen[0].value + 0.5 * seen[1].value, good.fold(release, i64::min)));
        answer
    }
}

impl Alarm {
    /// Without delays. A latched alarm ends only at a rising reset.
    fn step(&mut self, does: &Does, value: f64, reset: Option<bool>) {
        let Does::Alarm { high, hihi, hysteresis, latch } = *does else { unreachable!() };
        let reset = reset.unwrap_or(self.reset);
        let before = std::mem::replace(&mut self.reset, reset);
        let rose = reset && !before;
        let still = |limit: f64, at: bool| if at { limit - hysteresis } else { limit };
        let present = if latch && self.level == 3 { self.highest } else { self.level };
        let found = match value {
            value if !value.is_finite() => 3,
            value if value >= still(hihi, present == 2) => 2,
            value if value >= still(high, present == 1 || present == 2) => 1,
            _ => 0,
        };
        // After a gap without values, an out-of-range value takes precedence over the gap.
        let kept = if self.level == 3 && found > 0 { self.highest } else { self.level };
        if found == self.level || (latch && found < kept && !(rose && found == 0)) {
            return;
        }
        self.level = found;
        if found != 3 && (rose || found >= self.highest) {
            self.highest = found;
        }
    }
}

impl Plant {
    /// An output acts from then on, and shows after it has acted.
    fn measure(&mut self, now: i64, gain: f64, time_constant: f64) -> f64 {
        let pass = |plant: &mut Self, until: i64| {
            if let Some(at) = plant.at.replace(until) {
                #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
                let seconds = (until - at) as f64 / 1e9;
                let settled = gain * plant.input;
                plant.level = settled + (plant.level - settled) * (-seconds / time_constant).exp();
            }
        };
        let acted: Vec<_> = self.coming.iter().copied().filter(|(at, _)| *at < now).collect();
        self.coming.retain(|(at, _)| *at >= now);
        for (at, input) in acted {
            if self.at.is_some() {
                pass(self, at);
            }
            self.input = input;
        }
        pass(self, now);
        self.at = Some(now);
        self.level
    }
}
