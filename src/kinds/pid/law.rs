//! The law of a PID controller: its output at a tick, computed from numbers alone. Pure: time is passed in as seconds.
//!
//! The integral is kept in the unit of the output, so a change of gains does not make the output jump. The derivative is taken of the
//! measurement, over the releases of distinct rows. Only finite numbers enter the state. If an input is missing, the last output is held as
//! long as the input may still arrive in time. After that, and if a sum would overflow, nothing is output, and the law takes over again
//! later.

use super::super::elapsed::{Elapsed, Row};
use super::super::slope::Slope;

/// The gains of the parallel form: `out = kp·e + ki·∫e + kd·de/dt`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gains {
    pub kp: f64,
    pub ki: f64, // per second
    pub kd: f64, // seconds
}

/// The direction of the output when the input rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Down, as for a heater.
    Reverse,
    /// Up, as for a fan.
    Direct,
}

/// How the integral is kept from growing while the output cannot follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AntiWindup {
    /// A step may move the integral to the limit but not beyond it. Steps away from what the output applies meanwhile are dropped.
    Conditional,
    /// The integral follows what was really applied, with this time constant in seconds.
    BackCalculation { tracking_time: f64 },
    /// The integral grows freely.
    None,
}

/// The integral's initial value when the controller takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takeover {
    /// The value that continues the output from what was last applied.
    Bumpless,
    /// The value last applied, if that is fed back, otherwise zero. The proportional part acts at once.
    Reset,
}

/// The parameters that stay the same from tick to tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub gains: Gains,
    pub action: Action,
    pub setpoint_weight: f64, // share that the proportional part uses: 1 acts on the error, 0 on the input alone
    pub deadband: f64,        // errors up to this size are ignored
    pub derivative_filter: f64, // time constant in seconds; 0: none
    pub limits: [f64; 2],
    pub anti_windup: AntiWindup,
    /// `None`: `Reset` at the start, `Bumpless` from then on.
    pub takeover: Option<Takeover>,
}

/// What determines the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Automatic,
    /// A person sets the output to this value, within the limits.
    Manual(f64),
    /// Disabled: there is no output.
    Off,
}

/// The inputs of a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub mode: Mode,
    pub elapsed: Elapsed,
    pub input: f64,
    pub row: Row, // of the input
    pub setpoint: f64,
    pub feed_forward: f64,
    /// What was really applied last, if that is fed back.
    pub applied: Option<f64>,
    /// How that differs from what was requested, according to the output task.
    pub held: Held,
}

impl Step {
    pub(super) fn lacks_a_value(&self) -> bool {
        !(self.input.is_finite() && self.setpoint.is_finite() && self.feed_forward.is_finite())
    }
}

/// How the applied value differs from the requested one. Only the output task knows: the applied value may belong to an earlier tick, and a
/// mere rounding difference must not stop the integral.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// No difference, or unknown.
    No,
    /// The applied value is lower, so a higher request would change nothing.
    Below,
    /// The applied value is higher.
    Above,
    /// No request changes it.
    Altogether,
}

impl Held {
    /// Decodes the value `held-back` of an output.
    pub(super) fn of(value: f64) -> Self {
        match value {
            2.0 => Self::Altogether,
            value if value > 0.0 => Self::Below,
            value if value < 0.0 => Self::Above,
            _ => Self::No,
        }
    }

    /// Whether a change of the request would move further away from the applied value.
    fn forbids(self, change: f64) -> bool {
        match self {
            Self::No => false,
            Self::Below => change > 0.0,
            Self::Above => change < 0.0,
            Self::Altogether => true,
        }
    }
}

/// The output, and the parts it is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Output {
    pub out: f64,
    pub error: f64, // setpoint - input
    pub p: f64,
    pub i: f64,
    pub d: f64,
    pub ff: f64,
    pub saturated: f64,     // 1: clamped to the upper limit, -1: to the lower one, otherwise 0
    pub saturated_for: f64, // seconds since the tick at which the saturation began
    pub waits: bool,        // held from an earlier tick, because this one lacks a value
}

impl Output {
    /// No output, because an input is missing.
    const NONE: Self = Self {
        out: f64::NAN,
        error: f64::NAN,
        p: f64::NAN,
        i: f64::NAN,
        d: f64::NAN,
        ff: f64::NAN,
        saturated: f64::NAN,
        saturated_for: f64::NAN,
        waits: false,
    };
}

/// What precedes a takeover by the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    /// No output for a while: the controller starts, was off, or lacked a value for too long.
    Pause,
    /// A person or another controller.
    Other,
}

/// The state of a controller between two ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Law {
    settings: Settings,
    integral: f64,
    slope: Slope,                // of the measurement
    out: Option<f64>,            // the last one, in any mode
    latest: Output,              // the last automatic one
    wanted: f64,                 // the last automatic output, before the limits
    takes_over: Option<Follows>, // at the next automatic tick; `None`: the controller continues
    saturated: f64,
    saturated_for: f64,
}

impl Law {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            integral: 0.0,
            slope: Slope::default(),
            out: None,
            latest: Output::NONE,
            wanted: 0.0,
            takes_over: Some(Follows::Pause),
            saturated: 0.0,
            saturated_for: 0.0,
        }
    }

    /// Continues from another controller's last output, so that the output does not jump.
    pub(super) fn go_on_from(&mut self, out: f64) {
        (self.out, self.takes_over) = (Some(out), Some(Follows::Other));
    }

    /// One tick.
    pub(super) fn step(&mut self, step: &Step) -> Output {
        let before = *self;
        let output = match step.mode {
            Mode::Automatic => self.automatic(step),
            Mode::Manual(value) => self.manual(step, value),
            Mode::Off => Output::NONE,
        };
        let Output { out, p, i, d, ff, .. } = output;
        if [out, p, i, d, ff, self.wanted].iter().all(|number| number.is_finite()) {
            return output;
        }
        *self = before;
        let is_running = step.mode == Mode::Automatic && self.takes_over.is_none();
        if is_running && step.lacks_a_value() && step.elapsed.may_wait {
            return Output { error: step.setpoint - step.input, waits: true, ..self.latest };
        }
        (self.saturated, self.saturated_for) = (0.0, 0.0);
        self.interrupt(Follows::Pause);
        Output::NONE
    }

    /// Makes the next automatic tick take over.
    fn interrupt(&mut self, by: Follows) {
        self.takes_over = Some(by);
        self.slope.restart();
    }

    fn manual(&mut self, step: &Step, value: f64) -> Output {
        self.interrupt(Follows::Other);
        let [low, high] = self.settings.limits;
        let out = value.clamp(low, high);
        self.out = Some(out);
        self.saturate(value, step.elapsed);
        let error = step.setpoint - step.input;
        let Self { saturated, saturated_for, .. } = *self;
        Output { out, error, p: 0.0, i: out, d: 0.0, ff: 0.0, saturated, saturated_for, waits: false }
    }

    fn automatic(&mut self, step: &Step) -> Output {
        let Settings { gains, action, setpoint_weight, deadband, limits: [low, high], .. } = self.settings;
        let sign = if action == Action::Reverse { 1.0 } else { -1.0 };
        let error = step.setpoint - step.input;
        let acting = beyond(error, deadband);
        let p = sign * gains.kp * (acting - (1.0 - setpoint_weight) * step.setpoint);
        if step.elapsed.gap {
            self.slope.restart();
        }
        let d = 0.0 - sign * gains.kd * self.slope.step(step.input, step.row, self.settings.derivative_filter);
        let ff = step.feed_forward;
        let rest = p + d + ff;
        let wanted = if let Some(follows) = self.takes_over.take() {
            self.take_over(follows, rest, step.applied)
        } else if step.elapsed.gap {
            rest + self.integral
        } else {
            self.integrate(sign * gains.ki * acting * step.elapsed.seconds, rest, step)
        };
        self.wanted = rest + self.integral;
        let out = wanted.clamp(low, high);
        self.out = Some(out);
        self.saturate(wanted, step.elapsed);
        let Self { integral: i, saturated, saturated_for, .. } = *self;
        self.latest = Output { out, error, p, i, d, ff, saturated, saturated_for, waits: false };
        self.latest
    }

    /// Sets the integral for an output whose other parts add up to `rest`. Returns the output.
    fn take_over(&mut self, follows: Follows, rest: f64, applied: Option<f64>) -> f64 {
        let [low, high] = self.settings.limits;
        let resets = match self.settings.takeover {
            None => self.out.is_none(),
            Some(takeover) => takeover == Takeover::Reset && follows == Follows::Pause,
        };
        let from = if resets { applied } else { applied.or(self.out) };
        match from.map(|out| out.clamp(low, high)) {
            Some(out) if self.settings.gains.ki != 0.0 && !resets => {
                self.integral = out - rest;
                out // exact: the sum could round
            }
            Some(out) if self.settings.gains.ki != 0.0 => {
                self.integral = out;
                rest + out
            }
            _ => {
                self.integral = 0.0;
                rest
            }
        }
    }

    /// Adds as much of `change` to the integral as is allowed. Returns the output before the limits, as if all of it had been added. If the
    /// output task holds back, none is added.
    fn integrate(&mut self, change: f64, rest: f64, step: &Step) -> f64 {
        let [low, high] = self.settings.limits;
        if let AntiWindup::BackCalculation { tracking_time } = self.settings.anti_windup {
            let really = step.applied.unwrap_or(self.wanted.clamp(low, high));
            self.integral += (really - self.wanted) * (step.elapsed.seconds / tracking_time).min(1.0);
        }
        let holds = self.settings.anti_windup == AntiWindup::Conditional && step.held.forbids(change);
        let whole = self.integral + if holds { 0.0 } else { change };
        self.integral = match self.settings.anti_windup {
            AntiWindup::Conditional if holds => whole,
            AntiWindup::Conditional if change > 0.0 => whole.min(self.integral.max(high - rest)),
            AntiWindup::Conditional if change < 0.0 => whole.max(self.integral.min(low - rest)),
            _ => whole,
        };
        rest + whole
    }

    /// Tracks how long the output has been clamped to the same limit.
    fn saturate(&mut self, wanted: f64, elapsed: Elapsed) {
        let now = side(wanted, self.settings.limits);
        let goes_on = now != 0.0 && now == self.saturated;
        self.saturated_for = if goes_on { self.saturated_for + elapsed.seconds } else { 0.0 };
        self.saturated = now;
    }
}

/// The part of an error beyond the dead band.
fn beyond(error: f64, deadband: f64) -> f64 {
    if error.abs() <= deadband { 0.0 } else { error - deadband.copysign(error) }
}

/// The limit to which a value is clamped: 1 for the upper, -1 for the lower, 0 for none.
fn side(wanted: f64, [low, high]: [f64; 2]) -> f64 {
    if wanted > high {
        1.0
    } else if wanted < low {
        -1.0
    } else {
        0.0
    }
}
