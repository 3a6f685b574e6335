//! The law of an output: its value at each tick, and when it is in its safe state. Pure: time comes in as seconds, values are in the unit
//! of the input. The law never outputs a non-finite value.

use std::cmp::Ordering;

/// Settings that stay the same from tick to tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::kinds) struct Settings {
    pub limits: [f64; 2],
    pub slew: f64, // per second; infinite: no limit
    /// The safe value; `None`: what the target held before, or holds now.
    pub safe: Option<f64>,
    pub safe_slew: f64, // per second; infinite: at once
    pub on_stale: OnStale,
    pub recover: Recover,
    /// How long to wait for the first input value before the input counts as missing: seconds.
    pub patience: f64,
}

/// What the output does while its input is stale, bad or missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::kinds) enum OnStale {
    Safe,
    /// It keeps its last value for at most this many seconds.
    Hold(f64),
}

/// What ends the safe state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::kinds) enum Recover {
    /// The input has been good for this many seconds.
    Auto(f64),
    /// `reset` rises while the input is good.
    Latch,
}

/// The inputs of one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::kinds) struct Step {
    /// NaN unless good.
    pub input: f64,
    /// There is nothing new, and no error.
    pub is_none: bool,
    /// No value has arrived yet.
    pub is_missing: bool,
    /// Another thread has made the output safe since the last tick.
    pub tripped: bool,
    /// `None`: unknown, which does not count as a fall.
    pub reset: Option<bool>,
    /// Seconds since the release of the previous tick; skipped ticks are included.
    pub elapsed: f64,
}

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::kinds) enum Wanted {
    /// Nothing: the target keeps its value.
    Nothing,
    /// This value.
    Value(f64),
    /// This value, on the ramp to the safe one.
    Ramp(f64),
    /// The safe state, at once; repeated until [`Law::is_safe`] is true.
    Safe,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing written yet, or another task wrote last. Waits for the first good value; the number is the seconds waited so far.
    Beginning(f64),
    /// Safe since the start; waits for the first good value.
    Waiting,
    /// Follows its input. The number is the seconds since the input was last good.
    Live(f64),
    /// Safe because the input failed or another thread made it safe. The number is the seconds for which the input has been good again;
    /// `None`: it is not good.
    Safe(Option<f64>),
}

/// The state of an output between two ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::kinds) struct Law {
    settings: Settings,
    state: State,
    made_safe: bool, // the last write was the safe value
    at_once: bool,   // no ramp
    applied: f64,    // NaN: unknown
    reset: bool,     // last known level of `reset`
}

impl Law {
    /// An output that was made safe.
    pub(in crate::kinds) fn safe(settings: Settings, applied: f64) -> Self {
        Self { settings, state: State::Waiting, made_safe: true, at_once: false, applied, reset: true }
    }

    /// An output that continues from what the target holds.
    pub(in crate::kinds) fn going_on(settings: Settings, applied: f64) -> Self {
        Self { state: State::Beginning(0.0), made_safe: false, ..Self::safe(settings, applied) }
    }

    /// An output that takes over from one that was safe; it writes its own safe value.
    pub(in crate::kinds) fn made_safe_by_another(settings: Settings, applied: f64) -> Self {
        Self { made_safe: false, ..Self::safe(settings, applied) }
    }

    /// An output that takes over from one that has not recovered; it writes its own safe value. The time its input has been good starts
    /// again at zero.
    pub(in crate::kinds) fn unrecovered(settings: Settings, applied: f64) -> Self {
        Self { state: State::Safe(None), ..Self::made_safe_by_another(settings, applied) }
    }

    /// Whether the output is safe or on its way there, and has to recover first.
    pub(in crate::kinds) fn has_to_recover(&self) -> bool {
        matches!(self.state, State::Safe(_))
    }

    /// The last value written; NaN: unknown.
    pub(in crate::kinds) fn applied(&self) -> f64 {
        self.applied
    }

    /// Whether the last value written is the safe value.
    pub(in crate::kinds) fn is_safe(&self) -> bool {
        self.made_safe && matches!(self.state, State::Safe(_) | State::Waiting)
    }

    /// How the last value written compares with this input: 1 if it is lower, -1 if it is higher, 0 if equal; 2 if the input is not good or
    /// the last value is unknown. Exact: compared before any rounding.
    pub(in crate::kinds) fn held_back(&self, input: f64) -> f64 {
        match input.partial_cmp(&self.applied) {
            Some(Ordering::Greater) => 1.0,
            Some(Ordering::Less) => -1.0,
            Some(Ordering::Equal) => 0.0,
            None => 2.0,
        }
    }

    /// Whether the output follows its input, or still holds its last value within the allowed time.
    pub(in crate::kinds) fn follows(&self) -> bool {
        matches!(self.state, State::Live(_))
    }

    /// Records that this value was written.
    pub(in crate::kinds) fn put_out(&mut self, value: f64) {
        self.applied = value;
    }

    /// Records that the safe value was written, and its value; NaN: unknown.
    pub(in crate::kinds) fn put_out_safe(&mut self, value: f64) {
        (self.applied, self.made_safe) = (value, true);
    }

    /// Records that the safe value could not be written, perhaps on a repeat: the target might not hold the last value.
    pub(in crate::kinds) fn put_out_no_safe(&mut self) {
        self.made_safe = false;
    }

    /// One tick.
    pub(in crate::kinds) fn step(&mut self, step: &Step) -> Wanted {
        let reset = step.reset.unwrap_or(self.reset);
        let before = std::mem::replace(&mut self.reset, reset);
        let rose = reset && !before;
        let is_good = step.input.is_finite();
        if step.tripped {
            self.enter_safe(true);
        }
        self.state = match self.state {
            State::Beginning(_) | State::Waiting | State::Live(_) if is_good => State::Live(0.0),
            State::Waiting => State::Waiting,
            State::Beginning(waited) if (step.is_missing || step.is_none) && waited < self.settings.patience => {
                State::Beginning(waited + step.elapsed)
            }
            State::Live(since) if step.is_none => State::Live(since),
            State::Live(since) if self.holds(since + step.elapsed) => State::Live(since + step.elapsed),
            State::Beginning(_) | State::Live(_) => {
                self.enter_safe(false);
                self.state
            }
            State::Safe(good) => {
                let good = is_good.then(|| good.map_or(0.0, |good| good + step.elapsed));
                let recovers = match self.settings.recover {
                    Recover::Auto(after) => good.is_some_and(|good| good >= after) && !step.tripped,
                    Recover::Latch => is_good && rose && !step.tripped,
                };
                if recovers { State::Live(0.0) } else { State::Safe(good) }
            }
        };
        match self.state {
            State::Live(_) if is_good => {
                self.made_safe = false;
                let [low, high] = self.settings.limits;
                Wanted::Value(toward(self.applied, step.input.clamp(low, high), self.settings.slew * step.elapsed))
            }
            State::Safe(_) | State::Waiting if !self.made_safe => self.way_to_safe(step.elapsed),
            _ => Wanted::Nothing,
        }
    }

    fn enter_safe(&mut self, at_once: bool) {
        (self.state, self.made_safe, self.at_once) = (State::Safe(None), false, at_once);
    }

    fn holds(&self, since: f64) -> bool {
        matches!(self.settings.on_stale, OnStale::Hold(most) if since <= most)
    }

    fn way_to_safe(&self, elapsed: f64) -> Wanted {
        let Some(safe) = self.settings.safe.filter(|_| !self.at_once) else { return Wanted::Safe };
        let next = toward(self.applied, safe, self.settings.safe_slew * elapsed);
        if next.total_cmp(&safe).is_eq() { Wanted::Safe } else { Wanted::Ramp(next) }
    }
}

/// Moves `from` towards `to` by at most `step`; if `from` is unknown, jumps to `to`.
fn toward(from: f64, to: f64, step: f64) -> f64 {
    if from.is_finite() && (to - from).abs() > step { from + step.copysign(to - from) } else { to }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        limits: [0.0, 10.0],
        slew: f64::INFINITY,
        safe: Some(100.0),
        safe_slew: f64::INFINITY,
        on_stale: OnStale::Safe,
        recover: Recover::Auto(2.0),
        patience: 3.0,
    };
    const GONE: f64 = f64::NAN;

    /// Runs ticks of one second each, with all writes succeeding. Returns the value written at each; `None` where nothing was.
    fn run(law: &mut Law, inputs: &[f64]) -> Vec<Option<f64>> {
        let tick = |input: &f64| {
            tick(
                law,
                Step {
                    input: *input,
                    is_none: false,
                    is_missing: false,
                    tripped: false,
                    reset: Some(false),
                    elapsed: 1.0,
                },
            )
        };
        inputs.iter().map(tick).collect()
    }

    fn tick(law: &mut Law, step: Step) -> Option<f64> {
        match law.step(&step) {
            Wanted::Nothing => None,
            Wanted::Value(value) | Wanted::Ramp(value) => {
                law.put_out(value);
                Some(value)
            }
            Wanted::Safe => {
                let safe = law.settings.safe.unwrap_or(-1.0);
                law.put_out_safe(safe);
                Some(safe)
            }
        }
    }

    #[test]
    fn it_follows_within_its_limits_and_its_slew() {
        let mut law = Law::safe(Settings { slew: 4.0, safe: Some(0.0), ..SETTINGS }, 0.0);
        assert_eq!(run(&mut law, &[3.0, 50.0, 50.0, 50.0, -9.0]), [3.0, 7.0, 10.0, 10.0, 6.0].map(Some));
        let mut after_a_gap = law;
        let skipped =
            Step { input: 0.0, is_none: false, is_missing: false, tripped: false, reset: Some(false), elapsed: 1.25 };
        assert_eq!(after_a_gap.step(&skipped), Wanted::Value(1.0), "skipped ticks count");
    }

    #[test]
    fn a_stale_input_makes_it_safe_and_a_good_one_live_after_a_while() {
        let mut law = Law::safe(SETTINGS, 100.0);
        assert!(law.is_safe());
        assert_eq!(run(&mut law, &[GONE, 1.0, GONE, GONE]), [None, Some(1.0), Some(100.0), None], "beyond the limits");
        assert!(law.is_safe() && !law.follows());
        // The count starts again.
        assert_eq!(run(&mut law, &[2.0, 2.0, GONE, 2.0, 2.0, 3.0]), [None, None, None, None, None, Some(3.0)]);
        assert!(!law.is_safe() && law.follows());
    }

    #[test]
    fn it_holds_for_so_long() {
        let mut law = Law::safe(Settings { on_stale: OnStale::Hold(2.0), ..SETTINGS }, 100.0);
        assert!(!law.follows(), "before the first good value");
        assert_eq!(run(&mut law, &[1.0, GONE, GONE, GONE]), [Some(1.0), None, None, Some(100.0)]);
        let mut law = Law::safe(Settings { on_stale: OnStale::Hold(2.0), ..SETTINGS }, 100.0);
        assert_eq!(run(&mut law, &[1.0, GONE, GONE, 2.0, GONE, GONE]), [Some(1.0), None, None, Some(2.0), None, None]);
    }

    #[test]
    fn a_latch_needs_a_rising_edge_while_the_input_is_good() {
        let mut law = Law::safe(Settings { recover: Recover::Latch, ..SETTINGS }, 100.0);
        let mut at = |input: f64, reset: bool| {
            tick(
                &mut law,
                Step { input, is_none: false, is_missing: false, tripped: false, reset: Some(reset), elapsed: 1.0 },
            )
        };
        assert_eq!(at(1.0, true), Some(1.0), "the start is not latched");
        assert_eq!(at(GONE, true), Some(100.0));
        assert_eq!([at(1.0, true), at(1.0, true), at(1.0, false)], [None; 3], "no edge");
        assert_eq!([at(GONE, true), at(1.0, true)], [None; 2], "it rose while the input was bad");
        assert_eq!([at(1.0, false), at(1.0, true)], [None, Some(1.0)]);
        at(1.0, false);
        at(GONE, true);
        let unknown = Step { input: 1.0, is_none: false, is_missing: false, tripped: false, reset: None, elapsed: 1.0 };
        assert_eq!(
            [tick(&mut law, unknown), tick(&mut law, Step { reset: Some(true), ..unknown })],
            [None; 2],
            "it has not fallen"
        );
        let fallen = Step { reset: Some(false), ..unknown };
        assert_eq!(
            [fallen, unknown, Step { reset: Some(true), ..unknown }].map(|step| tick(&mut law, step)),
            [None, None, Some(1.0)]
        );
        tick(&mut law, fallen);
        let tripped =
            Step { input: 1.0, is_none: false, is_missing: false, tripped: true, reset: Some(true), elapsed: 1.0 };
        assert_eq!(tick(&mut law, tripped), Some(100.0), "an edge in the tick that finds it made safe comes too early");
        assert_eq!(run(&mut law, &[1.0]), [None]);
    }

    #[test]
    fn a_ramp_leads_to_the_safe_value_but_not_after_a_trip() {
        let mut law = Law::safe(Settings { safe: Some(9.0), safe_slew: 3.0, ..SETTINGS }, 9.0);
        assert_eq!(run(&mut law, &[2.0, GONE, GONE]), [2.0, 5.0, 8.0].map(Some));
        assert!(!law.is_safe());
        assert_eq!(run(&mut law, &[2.0]), [Some(9.0)]);
        assert!(law.is_safe());
        let mut law = Law::safe(Settings { safe: Some(9.0), safe_slew: 3.0, ..SETTINGS }, 9.0);
        run(&mut law, &[2.0]);
        let tripped =
            Step { input: 2.0, is_none: false, is_missing: false, tripped: true, reset: Some(false), elapsed: 1.0 };
        assert_eq!(tick(&mut law, tripped), Some(9.0));
        assert_eq!(run(&mut law, &[2.0, 2.0]), [None, Some(2.0)]);
        let at_once = Settings { safe: Some(9.0), recover: Recover::Auto(0.0), ..SETTINGS };
        let mut law = Law::going_on(at_once, 2.0);
        assert_eq!(tick(&mut law, tripped), Some(9.0), "also where nothing is waited for");
        assert_eq!(run(&mut law, &[2.0]), [Some(2.0)]);
        let mut law = Law::going_on(Settings { safe: Some(9.0), safe_slew: 3.0, ..SETTINGS }, 1.0);
        let skipped =
            Step { input: GONE, is_none: false, is_missing: false, tripped: false, reset: Some(false), elapsed: 2.0 };
        assert_eq!(law.step(&skipped), Wanted::Ramp(7.0), "skipped ticks count");
    }

    #[test]
    fn a_safe_write_that_fails_is_wanted_again() {
        let mut law = Law::going_on(Settings { safe: None, ..SETTINGS }, 5.0);
        assert_eq!(run(&mut law, &[1.0]), [Some(1.0)]);
        let stale =
            Step { input: GONE, is_none: false, is_missing: false, tripped: false, reset: Some(false), elapsed: 1.0 };
        for _ in 0..3 {
            assert_eq!(law.step(&stale), Wanted::Safe);
            assert!(!law.is_safe());
        }
        law.put_out_safe(f64::NAN);
        assert_eq!(law.step(&stale), Wanted::Nothing);
        assert!(law.applied().is_nan());
        // A repeated safe write has failed.
        for mut law in [law, Law::safe(SETTINGS, 100.0)] {
            law.put_out_no_safe();
            assert_eq!((law.step(&stale), law.is_safe()), (Wanted::Safe, false));
            law.put_out_safe(100.0);
            assert_eq!((law.step(&stale), law.is_safe()), (Wanted::Nothing, true));
        }
    }

    #[test]
    fn nothing_new_leaves_the_target_as_it_is() {
        let settings = Settings { on_stale: OnStale::Safe, ..SETTINGS };
        let mut law = Law::going_on(settings, 5.0);
        let step =
            |input, is_none| Step { input, is_none, is_missing: false, tripped: false, reset: None, elapsed: 1.0 };
        assert_eq!(law.step(&step(1.0, false)), Wanted::Value(1.0));
        law.put_out(1.0);
        for _ in 0..100 {
            assert_eq!((law.step(&step(GONE, true)), law.follows()), (Wanted::Nothing, true));
        }
        assert_eq!(law.step(&step(2.0, false)), Wanted::Value(2.0));
        law.put_out(2.0);
        law.step(&step(GONE, true));
        assert_ne!(law.step(&step(GONE, false)), Wanted::Nothing, "bad is bad at once");
        assert!(law.has_to_recover());
        law.put_out_safe(0.0);
        assert_eq!(law.step(&step(GONE, true)), Wanted::Nothing, "and nothing new ends no safe state");
        assert!(law.is_safe());
    }

    #[test]
    fn one_that_keeps_what_is_there_waits_for_a_first_value_for_a_while() {
        let missing =
            Step { input: GONE, is_none: true, is_missing: true, tripped: false, reset: Some(false), elapsed: 1.0 };
        let mut law = Law::going_on(SETTINGS, 5.0);
        assert_eq!([0; 3].map(|_| tick(&mut law, missing)), [None; 3]);
        assert_eq!(tick(&mut law, missing), Some(100.0));
        let mut law = Law::going_on(SETTINGS, 5.0);
        assert_eq!(
            tick(&mut law, Step { is_none: false, is_missing: false, ..missing }),
            Some(100.0),
            "a bad value is one"
        );
        let mut law = Law::made_safe_by_another(SETTINGS, 7.0);
        assert_eq!(tick(&mut law, missing), Some(100.0));
    }

    #[test]
    fn one_that_goes_on_from_another_recovers_as_that_one_would() {
        let good =
            Step { input: 5.0, is_none: false, is_missing: false, tripped: false, reset: Some(false), elapsed: 1.0 };
        let mut law = Law::unrecovered(SETTINGS, 7.0);
        assert!(law.has_to_recover());
        assert_eq!([0; 4].map(|_| tick(&mut law, good)), [Some(100.0), None, Some(5.0), Some(5.0)]);
        assert!(!law.has_to_recover());
        let mut law = Law::unrecovered(Settings { recover: Recover::Latch, ..SETTINGS }, 7.0);
        assert_eq!([0; 4].map(|_| tick(&mut law, good)), [Some(100.0), None, None, None]);
        assert_eq!(tick(&mut law, Step { reset: Some(true), ..good }), Some(5.0));
        assert!(!Law::safe(SETTINGS, 7.0).has_to_recover(), "it waits for its first good value");
    }
}
