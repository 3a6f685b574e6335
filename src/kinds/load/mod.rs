//! The kind `load`: burns or sleeps a scripted time and misbehaves on request, for trials and tests.
//!
//! Time comes from its [`Clock`]. Run times are used in order, as in `hertzd simulate`; whether a tick fails depends on its index. Nothing
//! is allocated after construction.

mod keys;
mod settings;

pub(super) use keys::kind;

use crate::task::{Task, Tick, TickError};
use crate::time::{Clock, Instant, Span};
use settings::{Effect, FRESH_PAGES, LoadSettings, Mode, PAGE_FAULT_TICKS};

/// A task that burns or sleeps a scripted time.
#[derive(Debug)]
pub(crate) struct Load<C> {
    settings: LoadSettings,
    clock: C,
    untouched: Box<[u8]>, // zeroed by the kernel on first touch; empty unless page faults were requested
    fresh: usize,         // start of the untouched part
    ran: usize,           // ticks without a fault
}

impl<C: Clock> Load<C> {
    /// A load on `clock`. With [`Effect::PageFaults`] it reserves 128 MiB of address space, of which only touched pages take memory.
    pub(crate) fn new(mut settings: LoadSettings, clock: C) -> Self {
        // A script that takes no time is dropped, so that a tick reads no clock.
        if settings.run.iter().all(|run| *run <= Span::ZERO) {
            settings.run = Vec::new();
        }
        let faulting = settings.fault.is_some_and(|fault| fault.effect == Effect::PageFaults);
        let untouched = vec![0; if faulting { PAGE_FAULT_TICKS * STRIDE } else { 0 }].into_boxed_slice();
        Self { settings, clock, untouched, fresh: 0, ran: 0 }
    }

    fn spend(&self, mode: Mode, until: Instant) {
        match mode {
            Mode::Burn => {
                self.clock.spin_until(until);
            }
            Mode::Sleep => self.sleep(until),
        }
    }

    /// Sleeps to the end even when interrupted: a task that waits for a device does not react to the worker's signals.
    fn sleep(&self, until: Instant) {
        while self.clock.now() < until {
            self.clock.sleep_until(until);
        }
    }

    fn touch_fresh_pages(&mut self) -> Result<(), TickError> {
        let Some(region) = self.untouched.get_mut(self.fresh..).and_then(|rest| rest.get_mut(..STRIDE)) else {
            return Err(TickError::new("no memory is left that was never touched"));
        };
        for page in region.chunks_mut(PAGE).take(FRESH_PAGES) {
            page[0] = 1;
        }
        self.fresh += STRIDE;
        Ok(())
    }
}

impl<C: Clock + Send> Task for Load<C> {
    fn tick(&mut self, tick: &Tick, _values: &mut [f64]) -> Result<(), TickError> {
        let (mode, run) = (self.settings.mode, &self.settings.run);
        let fault = self.settings.fault.filter(|fault| tick.n % fault.every == fault.every.get() - 1);
        let Some(fault) = fault else {
            let entry = self.ran.checked_rem(run.len()).map_or(Span::ZERO, |entry| run[entry]);
            self.ran = self.ran.wrapping_add(1);
            if entry > Span::ZERO {
                self.spend(mode, self.clock.now() + entry);
            }
            return Ok(());
        };
        let until = self.clock.now() + fault.run;
        match fault.effect {
            Effect::LongRun => self.spend(Mode::Burn, until),
            Effect::Sleep => self.spend(Mode::Sleep, until),
            Effect::PageFaults => {
                self.touch_fresh_pages()?;
                self.spend(Mode::Burn, until);
            }
            Effect::Error => {
                self.spend(mode, until);
                return Err(TickError::new("the error that was asked for"));
            }
            Effect::Panic => {
                self.spend(mode, until);
                panic!("the panic that was asked for, in tick {}", tick.n);
            }
            Effect::Hang => loop {
                self.sleep(self.clock.now() + Span::from_seconds(1));
            },
        }
        Ok(())
    }
}

const PAGE: usize = 4096; // with larger pages, several touches share a fault

/// Distance between the pages of two ticks: the size of a huge page, so that every tick has a fault of its own even if the kernel maps huge
/// pages.
const STRIDE: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::settings::Fault;
    use super::*;
    use crate::time::Wake;
    use std::cell::Cell;
    use std::fs;
    use std::num::NonZeroU64;

    /// Each reading takes 1 µs. Sleeps end on time, except that the first is interrupted half-way.
    #[derive(Default)]
    struct HandWound {
        now: Cell<i64>,
        sleeps: Cell<u32>,
    }

    impl Clock for HandWound {
        fn now(&self) -> Instant {
            self.now.set(self.now.get() + 1_000);
            Instant::ZERO + Span::from_nanos(self.now.get())
        }

        fn sleep_until(&self, at: Instant) -> Wake {
            let at = at.since(Instant::ZERO).nanos();
            let first = self.sleeps.get() == 0;
            assert!(self.sleeps.get() < 10, "asleep for good");
            self.sleeps.set(self.sleeps.get() + 1);
            self.now.set(if first { self.now.get().midpoint(at) } else { at });
            if first { Wake::Interrupted } else { Wake::Reached }
        }
    }

    fn load(run: &[i64], mode: Mode, fault: Option<(Effect, u64, i64)>) -> Load<HandWound> {
        let run = run.iter().copied().map(Span::from_micros).collect();
        let fault = fault.map(|(effect, every, run)| Fault {
            effect,
            every: NonZeroU64::new(every).unwrap(),
            run: Span::from_micros(run),
        });
        Load::new(LoadSettings { run, mode, fault }, HandWound::default())
    }

    /// Runs tick `n`: its outcome, the microseconds it took, and how often it slept.
    fn run(load: &mut Load<HandWound>, n: u64) -> (Result<(), TickError>, i64, u32) {
        let (now, sleeps) = (load.clock.now.get(), load.clock.sleeps.get());
        let (zero, at) = (Span::ZERO, Instant::ZERO);
        let tick = Tick { n, release: at, started: at, lateness: zero, skipped: 0, credit: zero, period: zero };
        let outcome = load.tick(&tick, &mut []);
        (outcome, (load.clock.now.get() - now) / 1_000, load.clock.sleeps.get() - sleeps)
    }

    #[test]
    fn the_script_is_cycled_tick_by_tick() {
        let mut burning = load(&[18, 3], Mode::Burn, None);
        for (n, micros) in [(0, 18), (1, 3), (9, 18), (10, 3), (u64::MAX, 18)] {
            assert_eq!(run(&mut burning, n), (Ok(()), micros + 1, 0), "tick {n}"); // the first clock reading takes 1 µs too
        }
        let mut idle = Load::new(LoadSettings::default(), HandWound::default());
        assert_eq!(run(&mut idle, 5), (Ok(()), 0, 0), "it does not look at the clock");
        assert_eq!(run(&mut load(&[-5], Mode::Sleep, None), 0), (Ok(()), 0, 0));
    }

    #[test]
    fn an_interrupted_sleep_goes_on() {
        let (outcome, micros, sleeps) = run(&mut load(&[500], Mode::Sleep, None), 0);
        assert_eq!((outcome, sleeps), (Ok(()), 2));
        assert!((500..510).contains(&micros), "{micros}");
    }

    #[test]
    fn faults_come_in_the_last_tick_of_each_round() {
        let mut long = load(&[10], Mode::Sleep, Some((Effect::LongRun, 3, 100)));
        let slow: Vec<_> = (0..9).filter(|&n| run(&mut long, n).1 >= 100).collect();
        assert_eq!(slow, [2, 5, 8]);
        let mut always = load(&[], Mode::Burn, Some((Effect::Sleep, 1, 100)));
        assert_eq!(run(&mut always, 0).2, 2);
    }

    #[test]
    fn an_error_comes_after_the_run() {
        let mut failing = load(&[10], Mode::Burn, Some((Effect::Error, 2, 50)));
        assert_eq!(run(&mut failing, 0), (Ok(()), 11, 0));
        assert_eq!(run(&mut failing, 1), (Err(TickError::new("the error that was asked for")), 51, 0));
    }

    #[test]
    #[should_panic(expected = "the panic that was asked for, in tick 4")]
    fn a_panic_names_its_tick() {
        let _ = run(&mut load(&[], Mode::Burn, Some((Effect::Panic, 5, 0))), 4);
    }

    #[test]
    #[should_panic(expected = "asleep for good")]
    fn a_hang_sleeps_for_good() {
        let _ = run(&mut load(&[], Mode::Burn, Some((Effect::Hang, 1, 0))), 0);
    }

    #[test]
    fn fresh_pages_fault_until_none_is_left() {
        fn minor_faults() -> u64 {
            let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit(')').next().unwrap().split_whitespace().nth(7).unwrap().parse().unwrap()
        }
        let mut faulting = load(&[], Mode::Burn, Some((Effect::PageFaults, 1, 20)));
        let before = minor_faults();
        for n in 0..PAGE_FAULT_TICKS as u64 {
            assert_eq!(run(&mut faulting, n), (Ok(()), 21, 0));
        }
        // One per tick is certain: huge pages may bring in the rest.
        assert!(minor_faults() - before >= PAGE_FAULT_TICKS as u64);
        assert!(run(&mut faulting, 64).0.is_err());
    }
}
