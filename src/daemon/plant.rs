//! A plant: a process of first or second order with dead time, between two ticks of the task that measures it. Pure.
//!
//! The input is held from tick to tick (a zero-order hold) and arrives after the dead time, so within a period the plant sees at
//! most two inputs, one after the other:
//!
//! ```text
//! ticks        |---------- period ----------|
//! input held   |----------- u(k) -----------|
//! arrives      |- u(k-d-1) -|--- u(k-d) ----|     dead time = d periods and the first part
//! ```
//!
//! For each part the solution of the differential equation is exact, so the rate of the task does not change the model.

use crate::config::{Dynamics, PlantConfig};
use crate::pacing::Rate;
use std::collections::VecDeque;

/// A plant between two ticks.
#[derive(Clone, Debug)]
pub(super) struct Plant {
    gain: f64,
    offset: f64,
    before: Step,          // with the input before the latest to arrive
    after: Step,           // with the latest
    inputs: VecDeque<f64>, // the latest first; as many as are on their way, and one
    deviation: f64,        // of the output from the offset
    slope: f64,            // per second
}

impl Plant {
    /// The plant at the first tick of a task with this rate; `input` drove it until then.
    pub(super) fn new(config: &PlantConfig, rate: Rate, input: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "far below a nanosecond")]
        let period = rate.den() as f64 / rate.num() as f64;
        let periods = (config.dead_time.seconds() / period).floor();
        let rest = (config.dead_time.seconds() - periods * period).clamp(0.0, period);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a million")]
        let waiting = periods as usize + 2;
        Self {
            gain: config.gain,
            offset: config.offset,
            before: Step::over(rest, config.dynamics),
            after: Step::over(period - rest, config.dynamics),
            inputs: vec![input; waiting].into(),
            deviation: config.initial - config.offset,
            slope: 0.0,
        }
    }

    /// What is measured now.
    pub(super) fn output(&self) -> f64 {
        self.offset + self.deviation
    }

    /// One period with this input.
    pub(super) fn advance(&mut self, input: f64) {
        self.inputs.pop_back();
        self.inputs.push_front(input);
        let mut arriving = self.inputs.iter().rev();
        for step in [self.before, self.after] {
            let settled = self.gain * arriving.next().copied().unwrap_or(input);
            let distance = self.deviation - settled;
            (self.deviation, self.slope) = (
                settled + step.matrix[0][0] * distance + step.matrix[0][1] * self.slope,
                step.matrix[1][0] * distance + step.matrix[1][1] * self.slope,
            );
        }
    }
}

/// What becomes of the distance from where the output settles, and of its slope, within a time of constant input.
#[derive(Clone, Copy, Debug)]
struct Step {
    matrix: [[f64; 2]; 2],
}

impl Step {
    fn over(seconds: f64, dynamics: Dynamics) -> Self {
        let matrix = match dynamics {
            _ if seconds <= 0.0 => [[1.0, 0.0], [0.0, 1.0]],
            Dynamics::First { time_constant } if time_constant <= 0.0 => [[0.0; 2]; 2],
            Dynamics::First { time_constant } => [[(-seconds / time_constant).exp(), 0.0], [0.0, 0.0]],
            Dynamics::Second { natural_frequency, damping } => second_order(seconds, natural_frequency, damping),
        };
        Self { matrix }
    }
}

/// Of `e'' + 2·damping·w·e' + w²·e = 0`.
fn second_order(t: f64, w: f64, damping: f64) -> [[f64; 2]; 2] {
    let decay = damping * w;
    let square = 1.0 - damping * damping;
    // The parts of the solution that belong to e and to e' at the beginning: even, and odd over its frequency.
    let (even, odd) = if square > 1e-12 {
        let swing = w * square.sqrt();
        let envelope = (-decay * t).exp();
        (envelope * (swing * t).cos(), envelope * (swing * t).sin() / swing)
    } else if square < -1e-12 {
        let apart = w * (-square).sqrt();
        // The slow one of the two, without cancellation.
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

    fn rate(hertz: u64) -> Rate {
        Rate::new(hertz, 1).unwrap()
    }

    fn plant(keys: &str, rate: u64) -> Plant {
        let text = format!(
            "[task.oven]\nkind = \"sensor\"\nrate = {rate}\npath = \"/x\"\n[task.oven.simulate.plant]\nvalue = \"y\"\ninput = 0\n{keys}\n"
        );
        let facts = Facts { online_cpus: vec![0], cpu_set_size: 1_024 };
        let config = Config::parse(text, "test.toml", &Kinds::builtin(), &facts).unwrap();
        let Some(StandIn::Plant(plant)) = config.tasks[0].stand_in.as_deref() else { panic!("no plant") };
        Plant::new(plant, config.tasks[0].rate, 0.0)
    }

    /// By many small steps of the differential equation, of second order: `y'' + 2·z·w·y' + w²·y = w²·k·u(t - dead)`.
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
            let mut plant = plant("time-constant = \"2s\"\ngain = 3\noffset = 20\ninitial = 21", hertz);
            assert_eq!(plant.output(), 21.0);
            (0..5 * hertz).for_each(|_| plant.advance(0.5));
            let wanted = 20.0 + 1.5 + (1.0 - 1.5) * (-2.5_f64).exp();
            assert!((plant.output() - wanted).abs() < 1e-12, "{hertz}: {} {wanted}", plant.output());
        }
    }

    #[test]
    fn a_plant_of_second_order_follows_its_differential_equation() {
        for (damping, dead) in [(0.0, 0.0), (0.3, 0.25), (1.0, 0.1), (1.0 - 1e-9, 0.0), (2.5, 1.07)] {
            let keys = format!(
                "natural-frequency = 2.0\ndamping = {damping}\ngain = 1.5\ndead-time = \"{}ms\"",
                (dead * 1_000.0_f64).round()
            );
            let mut plant = plant(&keys, 10);
            // The input changes with every tick.
            let input = |tick: i32| f64::from(tick % 7) - 2.0;
            (0..40).for_each(|tick| plant.advance(input(tick)));
            #[expect(clippy::cast_possible_truncation, reason = "the index of a tick")]
            let held = |t: f64| if t < 0.0 { 0.0 } else { input((t / 0.1).floor() as i32) };
            let wanted = integrated(2.0, damping, 1.5, dead, 4.0, held);
            assert!((plant.output() - wanted).abs() < 1e-3, "{damping}, {dead}: {} {wanted}", plant.output());
        }
    }

    #[test]
    fn two_time_constants_are_one_lag_behind_another() {
        let mut plant = plant("time-constant = [\"1s\", \"3s\"]", 4);
        (0..20).for_each(|_| plant.advance(1.0));
        let wanted = 1.0 - (3.0 * (-5.0_f64 / 3.0).exp() - (-5.0_f64).exp()) / 2.0;
        assert!((plant.output() - wanted).abs() < 1e-12, "{} {wanted}", plant.output());
    }

    #[test]
    fn dead_time_is_exact_also_between_ticks() {
        // At 1 Hz and 2.25 s, a step at tick 0 has its first effect 2.25 s later; at tick 3 it has acted for 0.75 s.
        let mut plant = plant("time-constant = \"1s\"\ndead-time = \"2250ms\"", 1);
        let outputs: Vec<f64> = (0..4)
            .map(|_| {
                plant.advance(1.0);
                plant.output()
            })
            .collect();
        let wanted = [0.0, 0.0, 1.0 - (-0.75_f64).exp(), 1.0 - (-1.75_f64).exp()];
        assert!(outputs.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-12), "{outputs:?}");
    }

    #[test]
    fn without_a_time_constant_it_is_a_gain() {
        let mut plant = plant("time-constant = \"0s\"\ngain = -4\noffset = 1", 10);
        plant.advance(2.0);
        assert_eq!((plant.output(), rate(10).hertz()), (-7.0, 10.0));
    }
}
