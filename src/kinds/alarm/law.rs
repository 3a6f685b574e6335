//! The law of an alarm, which decides when it begins and ends: levels with hysteresis, delays and a latch. Pure: time comes in as seconds.

use crate::channels::alarm::Level;

/// Settings that stay the same from tick to tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub limits: Limits,
    pub on_delay: f64,  // seconds
    pub off_delay: f64, // seconds
    pub latch: bool,
}

/// The limits a value is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limits {
    /// Infinite where no limit is set.
    Range { lolo: f64, low: f64, high: f64, hihi: f64, hysteresis: f64 },
    /// Any value but zero is an alarm.
    Condition,
}

/// A change of the level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub was: Level,
    pub is: Level,
}

/// The state of an alarm between two ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Law {
    settings: Settings,
    level: Level,
    worst: Level, // worst level since the last reset
    lasted: Lasted,
    reset: bool, // last known level of `reset`
    rose: bool,  // it rose while the value had nothing new
}

/// How many seconds something has lasted without a break; `None`: it does not hold now.
type Since = Option<f64>;

/// How long the value has been at which level. A missing value that has not lasted long enough to count leaves these times running.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lasted {
    is_below: bool,        // the side of the range that `or_worse` refers to
    or_worse: [Since; 2],  // at rank 1 or worse, at rank 2 or worse
    or_better: [Since; 3], // at rank 0, at rank 1 or better, at rank 2 or better
    missing: Since,
}

impl Law {
    pub(super) fn new(settings: Settings) -> Self {
        let (level, worst) = (Level::Normal, Level::Normal);
        Self { settings, level, worst, lasted: Lasted::default(), reset: true, rose: false }
    }

    /// Continues from the level of the same alarm in an earlier task, and its worst level since the last reset. Delays start again.
    pub(super) fn go_on_from(&mut self, level: Level, worst: Level) {
        (self.level, self.worst) = (level, worst);
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    pub(super) fn worst(&self) -> Level {
        self.worst
    }

    /// Whether only the latch keeps the level: the value has been at a lower level for the whole `off_delay`.
    pub(super) fn is_latched(&self) -> bool {
        let below = usize::from(self.level.rank()).checked_sub(1).and_then(|rank| self.lasted.or_better[rank]);
        self.settings.latch && below.is_some_and(|lasted| lasted >= self.settings.off_delay)
    }

    /// Whether the latch keeps the level although the value is at `found`. If a missing value (`Bad`) comes back out of range, it replaces
    /// `Bad` once it is at least as bad as the worst level since the reset.
    fn keeps(&self, found: Level) -> bool {
        let floor = if self.level == Level::Bad && found != Level::Normal { self.worst } else { self.level };
        self.settings.latch && found.rank() < floor.rank()
    }

    /// A tick at which the value has nothing new: the level stays. A `reset` that rises counts at the next value.
    pub(super) fn waits(&mut self, reset: Option<bool>) {
        let reset = reset.unwrap_or(self.reset);
        self.rose |= reset && !std::mem::replace(&mut self.reset, reset);
    }

    /// Runs one tick. `reset`: `None` means unknown, which does not count as a fall. `elapsed`: seconds since the previous tick's release;
    /// skipped ticks are included.
    pub(super) fn step(&mut self, value: f64, reset: Option<bool>, elapsed: f64) -> Option<Change> {
        let reset = reset.unwrap_or(self.reset);
        let before = std::mem::replace(&mut self.reset, reset);
        let rose = std::mem::take(&mut self.rose) || reset && !before;
        let is = self.counts(self.found(value), elapsed, rose)?;
        if is == Level::Bad {
            self.lasted = Lasted::default();
        } else if rose || is.rank() >= self.worst.rank() {
            self.worst = is;
        }
        Some(Change { was: std::mem::replace(&mut self.level, is), is })
    }

    /// The level to change to, given that the value is at level `found`; `None`: no change.
    fn counts(&mut self, found: Level, elapsed: f64, rose: bool) -> Option<Level> {
        let Settings { on_delay, off_delay, .. } = self.settings;
        if found == Level::Bad && self.level == Level::Bad {
            self.lasted = Lasted::default();
            return None;
        }
        self.lasted.pass(found, elapsed);
        if found == Level::Bad {
            return (self.lasted.missing >= Some(on_delay)).then_some(found);
        }
        if found.rank() < self.level.rank() {
            let counts = self.lasted.or_better[usize::from(found.rank())] >= Some(off_delay);
            return (counts && (!self.keeps(found) || (rose && found == Level::Normal))).then_some(found);
        }
        let is = match self.lasted.or_worse.map(|lasted| lasted >= Some(on_delay)) {
            [false, _] => return None,
            [true, false] if found == Level::HiHi => Level::High,
            [true, false] if found == Level::LoLo => Level::Low,
            [true, _] => found,
        };
        (is != self.level && is.rank() >= self.level.rank()).then_some(is)
    }

    /// The level of a value by itself. The current level ends only beyond its hysteresis.
    fn found(&self, value: f64) -> Level {
        if !value.is_finite() {
            return Level::Bad;
        }
        let Limits::Range { lolo, low, high, hihi, hysteresis } = self.settings.limits else {
            return if value == 0.0 { Level::Normal } else { Level::On };
        };
        // The hysteresis of a latched alarm without a value is that of its worst level.
        let present = if self.settings.latch && self.level == Level::Bad { self.worst } else { self.level };
        let above =
            |limit: f64, levels: &[Level]| value >= if levels.contains(&present) { limit - hysteresis } else { limit };
        let below =
            |limit: f64, levels: &[Level]| value <= if levels.contains(&present) { limit + hysteresis } else { limit };
        if above(hihi, &[Level::HiHi]) {
            Level::HiHi
        } else if below(lolo, &[Level::LoLo]) {
            Level::LoLo
        } else if above(high, &[Level::High, Level::HiHi]) {
            Level::High
        } else if below(low, &[Level::Low, Level::LoLo]) {
            Level::Low
        } else {
            Level::Normal
        }
    }
}

impl Lasted {
    /// Adds a tick: the value is at level `found`, `elapsed` seconds after the previous tick.
    fn pass(&mut self, found: Level, elapsed: f64) {
        let longer = |lasted: f64| lasted + elapsed;
        if found == Level::Bad {
            self.or_worse = self.or_worse.map(|since| since.map(longer));
            self.or_better = self.or_better.map(|since| since.map(longer));
            self.missing = Some(self.missing.map_or(0.0, longer));
            return;
        }
        self.missing = None;
        let is_below = found.number() < 0.0;
        if is_below != std::mem::replace(&mut self.is_below, is_below) {
            self.or_worse = [None; 2];
        }
        let next = |since: Since, is_so: bool| is_so.then(|| since.map_or(0.0, longer));
        let [first, second] = self.or_worse;
        self.or_worse = [next(first, found.rank() >= 1), next(second, found.rank() >= 2)];
        let [normal, first, second] = self.or_better;
        self.or_better = [next(normal, found.rank() == 0), next(first, found.rank() <= 1), next(second, true)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Limits = Limits::Range { lolo: -10.0, low: -5.0, high: 5.0, hihi: 10.0, hysteresis: 1.0 };
    const SETTINGS: Settings = Settings { limits: RANGE, on_delay: 0.0, off_delay: 0.0, latch: false };

    /// The levels after each value, at one value per second.
    fn levels(settings: Settings, values: &[f64]) -> Vec<Level> {
        let mut law = Law::new(settings);
        let level = |value: &f64| {
            law.step(*value, Some(false), 1.0);
            law.level()
        };
        values.iter().map(level).collect()
    }

    #[test]
    fn a_level_ends_beyond_its_hysteresis() {
        use Level::{Bad, HiHi, High, LoLo, Low, Normal};
        let values = [4.9, 5.0, 4.1, 3.9, 10.0, 9.1, 8.9, 4.5, 3.9, -5.0, -4.1, -10.0, -9.5, -8.9, -3.9, f64::NAN, 0.0];
        let wanted = [
            Normal, High, High, Normal, HiHi, HiHi, High, High, Normal, Low, Low, LoLo, LoLo, Low, Normal, Bad, Normal,
        ];
        assert_eq!(levels(SETTINGS, &values), wanted);
        assert_eq!(
            levels(SETTINGS, &[10.0, 4.5, -10.0, -4.5]),
            [HiHi, High, LoLo, Low],
            "from the outer level as well"
        );
        assert_eq!(levels(SETTINGS, &[f64::INFINITY, f64::NEG_INFINITY]), [Bad, Bad]);
    }

    #[test]
    fn a_change_has_to_last() {
        let settings = Settings { on_delay: 2.0, off_delay: 1.0, ..SETTINGS };
        let values = [9.0, 0.0, 9.0, 9.0, 9.0, 0.0, 9.0, 0.0, 0.0];
        use Level::{High, Normal};
        assert_eq!(levels(settings, &values), [Normal, Normal, Normal, Normal, High, High, High, High, Normal]);
        let mut law = Law::new(settings);
        assert_eq!(law.step(9.0, Some(false), 1.0), None);
        assert_eq!(law.step(9.0, Some(false), 5.0), Some(Change { was: Normal, is: High }), "skipped ticks count");
        // The value changes sides, so no level has lasted.
        assert_eq!(levels(settings, &[9.0, -9.0, 9.0, -9.0, 9.0]), [Normal; 5]);
        // From one side to the other, `on-delay` applies, not `off-delay`.
        assert_eq!(
            levels(settings, &[9.0, 9.0, 9.0, -9.0, -9.0, -9.0]),
            [Normal, Normal, High, High, High, Level::Low]
        );
    }

    #[test]
    fn a_change_between_the_first_and_the_second_level_begins_no_delay_again() {
        use Level::{Bad, HiHi, High, LoLo, Low, Normal};
        let settings = Settings { on_delay: 2.0, off_delay: 2.0, ..SETTINGS };
        assert_eq!(levels(settings, &[9.0, 11.0, 9.0, 11.0]), [Normal, Normal, High, High], "at `high` or worse");
        assert_eq!(levels(settings, &[-9.0, -11.0, -11.0, -11.0]), [Normal, Normal, Low, LoLo], "each by itself");
        assert_eq!(levels(settings, &[11.0, 11.0, 11.0]), [Normal, Normal, HiHi], "both at once");
        let hihi = [11.0, 11.0, 11.0];
        let after = |values: &[f64]| levels(settings, &[&hihi, values].concat())[3..].to_vec();
        assert_eq!(after(&[6.0, 0.0, 6.0, 0.0, 0.0]), [HiHi, HiHi, High, High, High], "at `high` or better");
        assert_eq!(after(&[6.0, 0.0, 0.0, 0.0]), [HiHi, HiHi, HiHi, Normal], "never a level that the value is not at");
        assert_eq!(after(&[6.0, 0.0, 6.0, 11.0, 0.0, 0.0]), [HiHi, HiHi, High, High, High, High], "hihi is coming");
        assert_eq!(after(&[6.0, f64::NAN, 6.0]), [HiHi, HiHi, High], "missing for a moment");
        assert_eq!(after(&[-11.0, -9.0, -11.0, -9.0]), [HiHi, HiHi, HiHi, HiHi], "no better, and the other side");
        let gone = [f64::NAN; 3];
        assert_eq!(levels(settings, &[&gone[..], &[11.0, 6.0, 11.0]].concat())[2..], [Bad, Bad, Bad, HiHi]);
    }

    #[test]
    fn a_sample_that_is_missing_begins_no_delay_again() {
        use Level::{Bad, High, Normal};
        let settings = Settings { on_delay: 3.0, off_delay: 3.0, ..SETTINGS };
        const GONE: f64 = f64::NAN;
        assert_eq!(levels(settings, &[9.0, 9.0, GONE, 9.0, 9.0]), [Normal, Normal, Normal, High, High]);
        assert_eq!(
            levels(settings, &[9.0, 9.0, 9.0, 9.0, 0.0, GONE, GONE, 0.0]),
            [Normal, Normal, Normal, High, High, High, High, Normal]
        );
        assert_eq!(levels(settings, &[9.0, GONE, 0.0, 9.0, 9.0, 9.0]), [Normal; 6], "it was normal meanwhile");
        assert_eq!(levels(settings, &[9.0, GONE, GONE, GONE, GONE, 9.0]), [Normal, Normal, Normal, Normal, Bad, Bad]);
        assert_eq!(levels(settings, &[GONE, 9.0, GONE, 9.0, GONE]), [Normal, Normal, Normal, Normal, Normal]);
    }

    #[test]
    fn a_latched_alarm_ends_at_a_reset_while_the_value_is_back() {
        let mut law = Law::new(Settings { latch: true, ..SETTINGS });
        assert_eq!(law.step(9.0, Some(false), 1.0), Some(Change { was: Level::Normal, is: Level::High }));
        assert_eq!(
            [law.step(0.0, Some(false), 1.0), law.step(9.0, Some(true), 1.0), law.step(0.0, Some(true), 1.0)],
            [None; 3]
        );
        assert!(law.is_latched(), "the value is back");
        assert_eq!(law.step(7.0, Some(false), 1.0), None);
        assert!(!law.is_latched(), "and out of its range again");
        assert_eq!(law.step(9.0, Some(true), 1.0), None);
        assert_eq!([law.step(0.0, None, 1.0), law.step(0.0, Some(true), 1.0)], [None; 2], "it has not fallen");
        assert_eq!([law.step(0.0, Some(false), 1.0), law.step(0.0, None, 1.0)], [None; 2]);
        assert!(law.is_latched());
        assert_eq!(law.step(0.0, Some(true), 1.0), Some(Change { was: Level::High, is: Level::Normal }));
        assert!(!law.is_latched());
        assert_eq!(law.step(11.0, Some(true), 1.0), Some(Change { was: Level::Normal, is: Level::HiHi }));
        assert_eq!(
            [law.step(6.0, Some(true), 1.0), law.step(6.0, Some(false), 1.0)],
            [None; 2],
            "a lower level is latched as well"
        );
        assert!(law.is_latched(), "its value has come back from hihi");
        assert_eq!(law.step(6.0, Some(true), 1.0), None, "at `high` it is not back");
        assert_eq!([law.step(0.0, Some(true), 1.0), law.step(4.5, Some(false), 1.0)], [None; 2]);
        assert_eq!(law.step(4.5, Some(true), 1.0), None, "nor within the hysteresis, though it was normal before");
        assert_eq!(law.step(3.9, Some(false), 1.0), None);
        assert_eq!(law.step(3.9, Some(true), 1.0), Some(Change { was: Level::HiHi, is: Level::Normal }));
        law.step(11.0, Some(false), 1.0);
        law.step(f64::NAN, Some(false), 1.0);
        assert_eq!(law.step(6.0, Some(true), 1.0), None, "nor after a time without a value");
        law.step(f64::NAN, Some(false), 1.0);
        assert_eq!(law.step(4.5, Some(true), 1.0), None, "within the hysteresis likewise");
    }

    #[test]
    fn a_reset_counts_once_the_value_has_been_back_for_the_delay() {
        let mut law = Law::new(Settings { latch: true, off_delay: 2.0, ..SETTINGS });
        let mut at = |value, reset| {
            law.step(value, Some(reset), 1.0);
            law.level()
        };
        let level = [at(11.0, false), at(0.0, false), at(0.0, true), at(0.0, false), at(0.0, true)];
        assert_eq!(level, [Level::HiHi, Level::HiHi, Level::HiHi, Level::HiHi, Level::Normal]);
    }

    #[test]
    fn a_latch_keeps_the_highest_level_also_where_there_was_no_good_value() {
        use Level::{Bad, HiHi, High, Normal};
        let latch = Settings { latch: true, ..SETTINGS };
        assert_eq!(levels(latch, &[6.0, f64::NAN, 0.0, 6.0, 0.0]), [High, Bad, Bad, High, High]);
        assert_eq!(levels(latch, &[11.0, f64::NAN, 6.0, 0.0, 11.0, 6.0]), [HiHi, Bad, Bad, Bad, HiHi, HiHi]);
        assert_eq!(
            levels(latch, &[f64::NAN, 0.0, 6.0, 11.0, -11.0, -6.0]),
            [Bad, Bad, High, HiHi, Level::LoLo, Level::LoLo]
        );
        let mut law = Law::new(latch);
        let mut at = |value, reset| {
            law.step(value, Some(reset), 1.0);
            law.level()
        };
        assert_eq!([at(11.0, false), at(0.0, true), at(6.0, false), at(0.0, false)], [HiHi, Normal, High, High]);
    }

    #[test]
    fn one_that_goes_on_has_its_latch_and_its_worst_level() {
        let latch = Settings { latch: true, ..SETTINGS };
        let mut before = Law::new(latch);
        for value in [11.0, f64::NAN, 0.0] {
            before.step(value, Some(false), 1.0);
        }
        let mut law = Law::new(latch);
        law.go_on_from(before.level(), before.worst());
        let mut at = |value, reset| (law.step(value, Some(reset), 1.0), law.level());
        assert_eq!(at(0.0, true), (None, Level::Bad), "a reset that was on before has not risen");
        assert_eq!(at(11.0, false).1, Level::HiHi);
        assert_eq!(at(0.0, true), (Some(Change { was: Level::HiHi, is: Level::Normal }), Level::Normal));
        let mut unlatched = Law::new(SETTINGS);
        unlatched.go_on_from(Level::High, Level::High);
        assert_eq!(unlatched.step(9.0, Some(false), 1.0), None, "it has begun already");
        assert_eq!(unlatched.step(0.0, Some(false), 1.0), Some(Change { was: Level::High, is: Level::Normal }));
    }

    #[test]
    fn a_condition_is_on_or_off() {
        let settings = Settings { limits: Limits::Condition, ..SETTINGS };
        use Level::{Bad, Normal, On};
        assert_eq!(levels(settings, &[0.0, 1.0, -2.0, 0.0, f64::NAN]), [Normal, On, On, Normal, Bad]);
    }
}
