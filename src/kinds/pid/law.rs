//! The law of a PID controller: what it puts out at a tick, from numbers alone. Pure: time comes in as seconds.
//!
//! The integral is kept in the unit of the output, so that a change of gains does not make the output jump. The derivative is that
//! of the measurement, over the releases of distinct rows: a sensor slower than the controller makes no spikes. Nothing that
//! is not finite enters the state.

/// The gains of the parallel form: `out = kp·e + ki·∫e + kd·de/dt`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gains {
    pub kp: f64,
    pub ki: f64, // per second
    pub kd: f64, // seconds
}

/// Which way the output goes when the input rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Down, as a heater's.
    Reverse,
    /// Up, as a fan's.
    Direct,
}

/// What keeps the integral from growing while the output cannot follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AntiWindup {
    /// It stands still while the output is at a limit and the next step would lead further beyond it.
    Conditional,
    /// It follows what the output really did, within this many seconds.
    BackCalculation { tracking_time: f64 },
    /// Nothing.
    None,
}

/// What stays the same from tick to tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub gains: Gains,
    pub action: Action,
    pub setpoint_weight: f64, // of the proportional part: 1 acts on the error, 0 on the input alone
    pub deadband: f64,        // errors up to this count as none
    pub derivative_filter: f64, // time constant in seconds; 0: none
    pub limits: [f64; 2],
    pub anti_windup: AntiWindup,
    pub max_gap: f64, // seconds; after a longer gap the integral holds and the derivative begins again
}

/// Who decides what is put out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Automatic,
    /// A person: this value, within the limits.
    Manual(f64),
    /// Nobody: it puts nothing out.
    Off,
}

/// What it learns at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub mode: Mode,
    /// Seconds since the release of its previous tick: skipped ones count.
    pub elapsed: f64,
    pub input: f64,
    /// Seconds from the release of the row before to that of this one; 0: it is still the same row.
    pub row_elapsed: f64,
    pub setpoint: f64,
    pub feed_forward: f64,
    /// What the output really did last, where that is fed back.
    pub applied: Option<f64>,
}

/// What it puts out, and how it came about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Output {
    pub out: f64,
    pub error: f64, // setpoint - input
    pub p: f64,
    pub i: f64,
    pub d: f64,
    pub ff: f64,
    pub saturated: f64,     // 1 at the upper limit, -1 at the lower one, otherwise 0
    pub saturated_for: f64, // seconds
}

impl Output {
    /// Nothing is put out, since something it needs is missing.
    const NONE: Self = Self {
        out: f64::NAN,
        error: f64::NAN,
        p: f64::NAN,
        i: f64::NAN,
        d: f64::NAN,
        ff: f64::NAN,
        saturated: f64::NAN,
        saturated_for: f64::NAN,
    };
}

/// A controller between two ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Law {
    settings: Settings,
    integral: f64,
    derivative: f64,
    input: Option<f64>, // of the latest row; `None`: the derivative begins anew
    out: Option<f64>,   // the latest one, in any mode
    wanted: f64,        // the latest automatic one, before the limits
    smooth: bool,       // the next automatic tick goes on from what was put out last
    saturated_for: f64,
}

impl Law {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            integral: 0.0,
            derivative: 0.0,
            input: None,
            out: None,
            wanted: 0.0,
            smooth: true,
            saturated_for: 0.0,
        }
    }

    /// Goes on from what another controller put out last, so that the output does not jump; NaN: it put out nothing.
    pub(super) fn go_on_from(&mut self, out: f64) {
        self.out = Some(out).filter(|out| out.is_finite());
    }

    /// One tick.
    pub(super) fn step(&mut self, step: &Step) -> Output {
        let numbers = [step.input, step.setpoint, step.feed_forward, step.applied.unwrap_or(0.0)];
        let known = numbers.iter().all(|number| number.is_finite());
        match step.mode {
            Mode::Automatic if known => self.automatic(step),
            Mode::Manual(value) if value.is_finite() => self.manual(step, value),
            // What was put out last is where it goes on from.
            _ => {
                self.interrupt();
                Output::NONE
            }
        }
    }

    fn interrupt(&mut self) {
        (self.smooth, self.input, self.saturated_for) = (true, None, 0.0);
    }

    fn manual(&mut self, step: &Step, value: f64) -> Output {
        self.interrupt();
        let [low, high] = self.settings.limits;
        let out = value.clamp(low, high);
        self.out = Some(out);
        let error = step.setpoint - step.input;
        Output { out, error, p: 0.0, i: out, d: 0.0, ff: 0.0, saturated: side(value, [low, high]), saturated_for: 0.0 }
    }

    fn automatic(&mut self, step: &Step) -> Output {
        let Settings { gains, action, setpoint_weight, deadband, limits, anti_windup, max_gap, .. } = self.settings;
        let sign = if action == Action::Reverse { 1.0 } else { -1.0 };
        let gap = step.elapsed > max_gap;
        let error = step.setpoint - step.input;
        let acting = beyond(error, deadband);
        let p = sign * gains.kp * (acting - (1.0 - setpoint_weight) * step.setpoint);
        let d = self.differentiate(step, sign, gap);
        let ff = step.feed_forward;
        if std::mem::take(&mut self.smooth) {
            self.integral = match step.applied.or(self.out) {
                Some(out) if gains.ki != 0.0 => out - p - d - ff,
                _ => 0.0,
            };
        } else {
            if let AntiWindup::BackCalculation { tracking_time } = anti_windup {
                let really = step.applied.unwrap_or(self.wanted.clamp(limits[0], limits[1]));
                self.integral += (really - self.wanted) * (step.elapsed / tracking_time).min(1.0);
            }
            if !gap {
                self.integrate(sign * gains.ki * acting * step.elapsed, p + d + ff, limits, anti_windup);
            }
        }
        self.wanted = p + self.integral + d + ff;
        let out = self.wanted.clamp(limits[0], limits[1]);
        self.out = Some(out);
        let saturated = side(self.wanted, limits);
        self.saturated_for = if saturated == 0.0 { 0.0 } else { self.saturated_for + step.elapsed };
        Output { out, error, p, i: self.integral, d, ff, saturated, saturated_for: self.saturated_for }
    }

    /// Adds a step to the integral, whose other parts are `rest`, as far as it may.
    fn integrate(&mut self, step: f64, rest: f64, [low, high]: [f64; 2], anti_windup: AntiWindup) {
        let then = self.integral + step;
        let further = (rest + then > high && step > 0.0) || (rest + then < low && step < 0.0);
        if anti_windup != AntiWindup::Conditional || !further {
            self.integral = then;
        }
    }

    /// The derivative of the measurement, with the sign that the output has.
    fn differentiate(&mut self, step: &Step, sign: f64, gap: bool) -> f64 {
        let before = self.input.filter(|_| !gap && step.row_elapsed <= self.settings.max_gap);
        match before {
            None => self.derivative = 0.0,
            Some(_) if step.row_elapsed <= 0.0 => return self.derivative,
            Some(before) => {
                let slope = (step.input - before) / step.row_elapsed;
                let share = step.row_elapsed / (self.settings.derivative_filter + step.row_elapsed);
                self.derivative += share * (-sign * self.settings.gains.kd * slope - self.derivative);
            }
        }
        self.input = Some(step.input);
        self.derivative
    }
}

/// What of an error lies beyond the dead band.
fn beyond(error: f64, deadband: f64) -> f64 {
    if error.abs() <= deadband { 0.0 } else { error - deadband.copysign(error) }
}

/// At which limit a value is cut off.
fn side(wanted: f64, [low, high]: [f64; 2]) -> f64 {
    if wanted > high {
        1.0
    } else if wanted < low {
        -1.0
    } else {
        0.0
    }
}
