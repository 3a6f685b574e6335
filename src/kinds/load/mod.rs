//! The kind `load`: burns or sleeps a scripted time and misbehaves on request, for trials and tests.
//!
//! Time comes from the [`Clock`] it is given. Run times are taken one after the other, as `hertzd simulate` takes them;
//! whether a tick goes wrong depends on its index. Nothing is allocated after construction.

mod keys;

pub(super) use keys::kind;

use crate::task::{Task, Tick, TickError};
use crate::time::{Clock, Instant, Span};
use std::num::NonZeroU64;

/// What a load does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadSettings {
    /// How long the ticks run, one after the other, cycled. Empty: no time at all; below zero counts as zero.
    pub run: Vec<Span>,
    /// How the time is spent.
    pub mode: Mode,
    /// What goes wrong, if anything.
    pub fault: Option<Fault>,
}

/// How a load spends its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// On the processor.
    #[default]
    Burn,
    /// Asleep, as a task does that waits for a device.
    Sleep,
}

/// Something that goes wrong now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What.
    pub kind: FaultKind,
    /// In the last of every so many releases: in tick `n` when `n + 1` is a multiple. With 1 in every tick; with 100
    /// first in tick 99. A fault whose release is skipped does not happen.
    pub every: NonZeroU64,
    /// How long the faulting tick runs, in place of the scripted time.
    pub run: Span,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The tick burns [`Fault::run`], whatever the mode.
    LongRun,
    /// The tick touches [`FRESH_PAGES`] pages of memory that were never touched before, and burns what is left of
    /// [`Fault::run`].
    ///
    /// The memory is set aside before the start, so the pages are missing only if nothing has brought them in: with
    /// memory locked on fault (`MLOCK_ONFAULT`) each still faults on its first touch, with all memory locked at once
    /// none does. With transparent huge pages one fault may bring in all the pages of a tick. There are pages for
    /// [`PAGE_FAULT_TICKS`] ticks; those after that fail.
    PageFaults,
    /// The tick sleeps [`Fault::run`], whatever the mode.
    Sleep,
    /// The tick runs [`Fault::run`] in the mode, then returns an error.
    Error,
    /// The tick runs [`Fault::run`] in the mode, then panics.
    Panic,
    /// The tick never returns; [`Fault::run`] has no effect. It sleeps, so that the processor stays usable and the end
    /// of the process ends it. On a virtual clock it never ends.
    Hang,
}

/// Pages touched by a tick with [`FaultKind::PageFaults`].
pub(crate) const FRESH_PAGES: usize = 64;

/// Ticks with [`FaultKind::PageFaults`] that find fresh pages.
pub(crate) const PAGE_FAULT_TICKS: usize = 64;

/// A task that burns or sleeps a scripted time.
#[derive(Debug)]
pub(crate) struct Load<C> {
    settings: LoadSettings,
    clock: C,
    untouched: Box<[u8]>, // zeroed by the kernel on first touch; empty unless page faults were asked for
    fresh: usize,         // start of the part never touched
    ran: usize,           // ticks without a fault
}

impl<C: Clock> Load<C> {
    /// A load on `clock`. With [`FaultKind::PageFaults`] it sets 128 MiB of address space aside, of which only touched
    /// pages take memory.
    pub(crate) fn new(settings: LoadSettings, clock: C) -> Self {
        let faulting = settings.fault.is_some_and(|fault| fault.kind == FaultKind::PageFaults);
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

    /// Sleeps to the end even when interrupted: a task that waits for a device does not hear the worker's signals.
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
        let begun = self.clock.now();
        let (mode, run) = (self.settings.mode, &self.settings.run);
        let fault = self.settings.fault.filter(|fault| tick.n % fault.every == fault.every.get() - 1);
        let Some(fault) = fault else {
            let entry = self.ran.checked_rem(run.len()).map_or(Span::ZERO, |entry| run[entry]);
            self.spend(mode, begun + entry);
            self.ran = self.ran.wrapping_add(1);
            return Ok(());
        };
        let until = begun + fault.run;
        match fault.kind {
            FaultKind::LongRun => self.spend(Mode::Burn, until),
            FaultKind::Sleep => self.spend(Mode::Sleep, until),
            FaultKind::PageFaults => {
                self.touch_fresh_pages()?;
                self.spend(Mode::Burn, until);
            }
            FaultKind::Error => {
                self.spend(mode, until);
                return Err(TickError::new("the error that was asked for"));
            }
            FaultKind::Panic => {
                self.spend(mode, until);
                panic!("the panic that was asked for, in tick {}", tick.n);
            }
            FaultKind::Hang => loop {
                self.sleep(self.clock.now() + Span::from_seconds(1));
            },
        }
        Ok(())
    }
}

const PAGE: usize = 4096; // where pages are larger, several touches share a fault

/// From one tick's pages to the next one's: the size of a huge page, so that every tick has a fault of its own even
/// where the kernel brings in huge ones.
const STRIDE: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wake;
    use std::cell::Cell;
    use std::fs;

    /// Each reading takes 1 µs. Sleeps end when asked to, but the first is interrupted half-way.
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

    fn load(run: &[i64], mode: Mode, fault: Option<(FaultKind, u64, i64)>) -> Load<HandWound> {
        let run = run.iter().copied().map(Span::from_micros).collect();
        let fault = fault.map(|(kind, every, run)| Fault {
            kind,
            every: NonZeroU64::new(every).unwrap(),
            run: Span::from_micros(run),
        });
        Load::new(LoadSettings { run, mode, fault }, HandWound::default())
    }

    /// Runs tick `n`: its outcome, the microseconds it took, and how often it slept.
    fn run(load: &mut Load<HandWound>, n: u64) -> (Result<(), TickError>, i64, u32) {
        let (now, sleeps) = (load.clock.now.get(), load.clock.sleeps.get());
        let tick = Tick {
            n,
            release: Instant::ZERO,
            started: Instant::ZERO,
            lateness: Span::ZERO,
            skipped: 0,
            credit: Span::ZERO,
            period: Span::from_millis(1),
        };
        let outcome = load.tick(&tick, &mut []);
        (outcome, (load.clock.now.get() - now) / 1_000, load.clock.sleeps.get() - sleeps)
    }

    #[test]
    fn the_script_is_cycled_tick_by_tick() {
        let mut burning = load(&[18, 3], Mode::Burn, None);
        for (n, micros) in [(0, 18), (1, 3), (9, 18), (10, 3), (u64::MAX, 18)] {
            assert_eq!(run(&mut burning, n), (Ok(()), micros + 1, 0), "tick {n}"); // the first reading takes 1 µs too
        }
        let mut idle = Load::new(LoadSettings::default(), HandWound::default());
        assert_eq!(run(&mut idle, 5), (Ok(()), 2, 0));
        assert_eq!(run(&mut load(&[-5], Mode::Sleep, None), 0), (Ok(()), 2, 0));
    }

    #[test]
    fn an_interrupted_sleep_goes_on() {
        let (outcome, micros, sleeps) = run(&mut load(&[500], Mode::Sleep, None), 0);
        assert_eq!((outcome, sleeps), (Ok(()), 2));
        assert!((500..510).contains(&micros), "{micros}");
    }

    #[test]
    fn faults_come_in_the_last_tick_of_each_round() {
        let mut long = load(&[10], Mode::Sleep, Some((FaultKind::LongRun, 3, 100)));
        let slow: Vec<_> = (0..9).filter(|&n| run(&mut long, n).1 >= 100).collect();
        assert_eq!(slow, [2, 5, 8]);
        let mut always = load(&[], Mode::Burn, Some((FaultKind::Sleep, 1, 100)));
        assert_eq!(run(&mut always, 0).2, 2);
    }

    #[test]
    fn an_error_comes_after_the_run() {
        let mut failing = load(&[10], Mode::Burn, Some((FaultKind::Error, 2, 50)));
        assert_eq!(run(&mut failing, 0), (Ok(()), 11, 0));
        assert_eq!(run(&mut failing, 1), (Err(TickError::new("the error that was asked for")), 51, 0));
    }

    #[test]
    #[should_panic(expected = "the panic that was asked for, in tick 4")]
    fn a_panic_names_its_tick() {
        let _ = run(&mut load(&[], Mode::Burn, Some((FaultKind::Panic, 5, 0))), 4);
    }

    #[test]
    #[should_panic(expected = "asleep for good")]
    fn a_hang_sleeps_for_good() {
        let _ = run(&mut load(&[], Mode::Burn, Some((FaultKind::Hang, 1, 0))), 0);
    }

    #[test]
    fn fresh_pages_fault_until_none_is_left() {
        fn minor_faults() -> u64 {
            let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit(')').next().unwrap().split_whitespace().nth(7).unwrap().parse().unwrap()
        }
        let mut faulting = load(&[], Mode::Burn, Some((FaultKind::PageFaults, 1, 20)));
        let before = minor_faults();
        for n in 0..PAGE_FAULT_TICKS as u64 {
            assert_eq!(run(&mut faulting, n), (Ok(()), 21, 0));
        }
        // One a tick is certain: huge pages may bring in the rest.
        assert!(minor_faults() - before >= PAGE_FAULT_TICKS as u64);
        assert!(run(&mut faulting, 64).0.is_err());
    }
}
