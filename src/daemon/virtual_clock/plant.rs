//! A plant: a first- or second-order process with dead time, driven by another task's output. Pure.
//!
//! An output acts until the next one (a zero-order hold), delayed by the dead time, no matter how the two tasks' ticks lie:
//!
//! ```text
//! put out       u0        u1   u2
//! acts          |--- u0 ---|-u1-|---- u2 ----      all of it later by the dead time
//! measured   r0            r1            r2
//! ```
//!
//! So an output made in the tick of a release shows at the next release, not before. Between two inputs the differential equation is solved
//! exactly, so the rate of the measuring task does not change the model.

use crate::channels::InputSource;
use crate::config::{Dynamics, PlantConfig};
use crate::time::{Instant, Span};
use std::collections::VecDeque;

/// A plant.
#[derive(Clone, Debug)]
pub(crate) struct Plant {
    gain: f64,
    offset: f64,
    dynamics: Dynamics,
    dead_time: Span,
    input: f64,                       // the one that acts
    step: Option<f64>,                // output at the first tick
    coming: VecDeque<(Instant, f64)>, // later inputs, and when they begin to act
    at: Option<Instant>,              // last measurement
    deviation: f64,                   // of the output from the offset, at that time
    slope: f64,                       // per second
}

impl Plant {
    /// A plant that has not been measured yet. Until then the input of `config` has driven it. If that input is a number and `initial` is
    /// not at rest with it, the number becomes a step at the first tick.
    pub(crate) fn new(config: &PlantConfig) -> Self {
        let input = config.input.get();
        let at_rest = config.offset + config.gain * input;
        let is_step =
            matches!(config.input.source(), InputSource::Number(_)) && config.initial.total_cmp(&at_rest).is_ne();
        Self {
            gain: config.gain,
            offset: config.offset,
            dynamics: config.dynamics,
            dead_time: config.dead_time,
            input: if is_step { 0.0 } else { input },
            step: is_step.then_some(input),
            coming: VecDeque::new(),
            at: None,
            deviation: config.initial - config.offset,
            slope: 0.0,
        }
    }

    /// An input that begins now, later than all before. A number that is not finite changes nothing.
    pub(super) fn drive(&mut self, now: Instant, input: f64) {
        let latest = self.coming.back().map_or(self.input, |(_, input)| *input);
        if input.is_finite() && input.total_cmp(&latest).is_ne() {
            self.coming.push_back((now + self.dead_time, input));
        }
    }

    /// The measurement now, from all inputs that have acted before.
    pub(crate) fn measure(&mut self, now: Instant) -> f64 {
        if let Some(step) = self.step.take() {
            self.coming.push_front((now + self.dead_time, step));
        }
        while let Some((at, input)) = self.coming.front().copied().filter(|(at, _)| *at < now) {
            self.coming.pop_front();
            self.pass(at);
            self.input = input;
        }
        self.pass(now);
        self.at = Some(now);
        self.offset + self.deviation
    }

    /// Continues with the same input.
    fn pass(&mut self, until: Instant) {
        let Some(at) = self.at.filter(|at| *at < until) else { return };
        self.at = Some(until);
        let step = matrix((until - at).seconds(), self.dynamics);
        let settled = self.gain * self.input;
        let distance = self.deviation - settled;
        (self.deviation, self.slope) = (
            settled + step[0][0] * distance + step[0][1] * self.slope,
            step[1][0] * distance + step[1][1] * self.slope,
        );
    }
}

/// How the distance from the settled output, and its slope, develop during a time of constant input.
fn matrix(seconds: f64, dynamics: Dynamics) -> [[f64; 2]; 2] {
    match dynamics {
        Dynamics::First { time_constant } if time_constant <= 0.0 => [[0.0; 2]; 2],
        Dynamics::First { time_constant } => [[(-seconds / time_constant).exp(), 0.0], [0.0, 0.0]],
        Dynamics::Second { natural_frequency, damping } => second_order(seconds, natural_frequency, damping),
    }
}

/// For `e'' + 2·damping·w·e' + w²·e = 0`.
fn second_order(t: f64, w: f64, damping: f64) -> [[f64; 2]; 2] {
    let decay = damping * w;
    let square = 1.0 - damping * damping;
    // The parts of the solution for the initial e and e': the even one, and the odd one divided by its frequency.
    let (even, odd) = if square > 1e-12 {
        let swing = w * square.sqrt();
        let envelope = (-decay * t).exp();
        (envelope * (swing * t).cos(), envelope * (swing * t).sin() / swing)
    } else if square < -1e-12 {
        let apart = w * (-square).sqrt();
        // The slower of the two exponentials, computed without cancellation.
        let (slow, fast) = ((-w * w / (decay + apart) * t).exp(), (-(decay + apart) * t).exp());
        (f64::midpoint(slow, fast), (slow - fast) / 2.0 / apart)
    } else {
        let envelope = (-decay * t).exp();
        (envelope, envelope * t)
    };
    [[even + decay * odd, odd], [-w * w * odd, even - decay * odd]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Facts, Kinds, StandIn};

    fn plant(keys: &str) -> Plant {
        plant_of("0", keys)
    }

    fn plant_of(input: &str, keys: &str) -> Plant {
        let text = format!(
            "[task.oven]\nkind = \"sensor\"\nrate = 1\npath = \"/x\"\n[task.oven.simulate.plant]\nvalue = \"y\"\ninput = {input}\n{keys}\n"
        );
        let facts = Facts { online_cpus: vec![0], cpu_set_size: 1_024 };
        let config = Config::parse(text, "test.toml", &Kinds::builtin(), &facts).unwrap();
        let Some(StandIn::Plant(plant)) = config.tasks[0].stand_in.as_deref() else { panic!("no plant") };
        Plant::new(plant)
    }

    /// The measurements at each of these releases and the one after. At each release `input` is output, before or after the measurement.
    fn run(plant: &mut Plant, hertz: i64, ticks: i64, before: bool, input: impl Fn(i64) -> f64) -> Vec<f64> {
        let at = |n: i64| Instant::ZERO + Span::from_nanos(n * 1_000_000_000 / hertz);
        let mut measure = |n: i64| {
            if before {
                plant.drive(at(n), input(n));
            }
            let measured = plant.measure(at(n));
            if !before {
                plant.drive(at(n), input(n));
            }
            measured
        };
        (0..=ticks).map(&mut measure).collect()
    }

    /// Integrates the second-order differential equation in many small steps: `y'' + 2·z·w·y' + w²·y = w²·k·u(t - dead)`.
    fn integrated(w: f64, z: f64, k: f64, dead: f64, until: f64, input: impl Fn(f64) -> f64) -> f64 {
        const STEPS: u32 = 200_000;
        let h = until / f64::from(STEPS);
        let (mut y, mut v) = (0.0, 0.0);
        for step in 0..STEPS {
            let u = input((f64::from(step) + 0.5) * h - dead);
            let f = |y: f64, v: f64| w * w * (k * u - y) - 2.0 * z * w * v;
            let (k1y, k1v) = (v, f(y, v));
            let (k2y, k2v) = (v + h / 2.0 * k1v, f(y + h / 2.0 * k1y, v + h / 2.0 * k1v));
            (y, v) = (y + h * (k1y + k2y) / 2.0, v + h * (k1v + k2v) / 2.0);
        }
        (y, v).0
    }

    #[test]
    fn a_plant_of_first_order_is_exact_at_any_rate() {
        for hertz in [1, 7, 100] {
            let mut plant = plant("time-constant = \"2s\"\ngain = 3\noffset = 20\ninitial = 21");
            let measured = run(&mut plant, hertz, 5 * hertz, true, |_| 0.5);
            let wanted = 20.0 + 1.5 + (1.0 - 1.5) * (-2.5_f64).exp();
            let last = measured.last().unwrap();
            assert!(measured[0] == 21.0 && (last - wanted).abs() < 1e-12, "{hertz}: {last} {wanted}");
        }
    }

    #[test]
    fn a_plant_of_second_order_follows_its_differential_equation() {
        for (damping, dead) in [(0.0, 0.0), (0.3, 0.25), (1.0, 0.1), (1.0 - 1e-9, 0.0), (2.5, 1.07)] {
            let keys = format!(
                "natural-frequency = 2.0\ndamping = {damping}\ngain = 1.5\ndead-time = \"{}ms\"",
                (dead * 1_000.0_f64).round()
            );
            // The input changes at every tick.
            let input = |tick: i32| f64::from(tick % 7) - 2.0;
            #[expect(clippy::cast_possible_truncation, reason = "the index of a tick")]
            let held = |t: f64| if t < 0.0 { 0.0 } else { input((t / 0.1).floor() as i32) };
            let wanted = integrated(2.0, damping, 1.5, dead, 4.0, held);
            for before in [false, true] {
                let measured = run(&mut plant(&keys), 10, 40, before, |n| input(n.try_into().unwrap()));
                assert!((measured[40] - wanted).abs() < 1e-3, "{damping}, {dead}: {} {wanted}", measured[40]);
            }
        }
    }

    #[test]
    fn what_is_put_out_acts_from_then_on_whoever_measures_when() {
        // Measured once a second, but driven at any time, even several times between two measurements.
        let mut plant = plant("time-constant = \"2s\"\ndead-time = \"500ms\"");
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        assert_eq!(plant.measure(at(0)), 0.0);
        for (millis, input) in [(0, 1.0), (300, 3.0), (600, f64::NAN), (700, 3.0), (1_250, -1.0)] {
            plant.drive(at(millis), input);
        }
        let mut y = 0.0;
        let mut pass = |input: f64, seconds: f64| {
            y = input + (y - input) * (-seconds / 2.0_f64).exp();
            y
        };
        pass(0.0, 0.5);
        pass(1.0, 0.3);
        assert!((plant.measure(at(1_000)) - pass(3.0, 0.2)).abs() < 1e-12);
        pass(3.0, 0.75);
        assert!((plant.measure(at(2_000)) - pass(-1.0, 0.25)).abs() < 1e-12);
    }

    #[test]
    fn two_time_constants_are_one_lag_behind_another() {
        let measured = run(&mut plant("time-constant = [\"1s\", \"3s\"]"), 4, 20, false, |_| 1.0);
        let wanted = 1.0 - (3.0 * (-5.0_f64 / 3.0).exp() - (-5.0_f64).exp()) / 2.0;
        assert!((measured[20] - wanted).abs() < 1e-12, "{} {wanted}", measured[20]);
    }

    #[test]
    fn dead_time_is_exact_also_between_ticks() {
        // At 1 Hz and 2.25 s, a step at tick 0 has its first effect 2.25 s later; at tick 3 it has acted for 0.75 s.
        let measured = run(&mut plant("time-constant = \"1s\"\ndead-time = \"2250ms\""), 1, 4, true, |_| 1.0);
        let wanted = [0.0, 0.0, 0.0, 1.0 - (-0.75_f64).exp(), 1.0 - (-1.75_f64).exp()];
        assert!(measured.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-12), "{measured:?}");
    }

    #[test]
    fn a_number_passes_the_dead_time_as_what_another_task_puts_out() {
        let text = "time-constant = \"1s\"\ngain = 3\noffset = 1\ndead-time = \"2s\"\ninitial = ";
        let measured = |input: &str, initial: &str, driven: f64| {
            run(&mut plant_of(input, &format!("{text}{initial}")), 10, 50, true, |_| driven)
        };
        for initial in ["1", "5"] {
            let constant = measured("2", initial, f64::NAN);
            assert_eq!(constant, measured("0", initial, 2.0), "{initial}: as a step at the first tick");
            assert!(constant[21] > constant[20] && constant[19] >= constant[20], "{initial}: {constant:?}");
        }
        let at_rest = run(&mut plant_of("2", &text.replace("\ninitial = ", "")), 10, 50, true, |_| f64::NAN);
        assert_eq!(at_rest, [7.0; 51], "without `initial` it has always been there");
    }

    #[test]
    fn without_a_time_constant_it_is_a_gain() {
        let mut plant = plant("time-constant = \"0s\"\ngain = -4\noffset = 1");
        assert_eq!(run(&mut plant, 10, 2, true, |n| [2.0, 3.0, 4.0][usize::try_from(n).unwrap()]), [1.0, -7.0, -11.0]);
    }
}
