//! One contender, in a process of its own: pinned, real-time, with locked memory, ticking for some seconds.

use crate::cyclictest;
use crate::spec::{Kind, PRIORITY, Sample, Spec};
use hertzd::config::Kinds;
use hertzd::internals::{Embedded, pin, set_fifo};
use hertzd::time::Span;
use hertzd::{Column, Task, Tick, TickError};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use serde::Deserialize;
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn nanos(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).expect("every kernel has this clock");
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

pub(crate) fn now() -> i64 {
    nanos(ClockId::CLOCK_MONOTONIC)
}

/// Collects what one loop or task sees.
#[derive(Debug, Default)]
struct Notes {
    late: Vec<i64>,
    started: Vec<i64>,
    used: [[i64; 2]; 2], // at the first look and the last one: processor time, time
}

impl Notes {
    fn with_room(ticks: usize) -> Self {
        let mut late = vec![1; ticks];
        late.clear();
        Self { late, ..Self::default() }
    }

    fn note(&mut self, late: i64) {
        if self.late.len() < self.late.capacity() {
            self.late.push(late);
        }
    }

    fn look(&mut self) {
        let look = [nanos(ClockId::CLOCK_PROCESS_CPUTIME_ID), now()];
        if self.used[0] == [0, 0] {
            self.used[0] = look;
        }
        self.used[1] = look;
    }

    fn sample(self) -> Sample {
        let [first, last] = self.used;
        Sample { late: self.late, started: self.started, used: [last[0] - first[0], last[1] - first[1]] }
    }
}

impl Spec {
    pub(crate) fn run(self) -> Sample {
        match self.kind {
            Kind::Cyclictest => cyclictest::run(self),
            Kind::HertzdOff => self.hertzd("spin = \"off\""),
            Kind::HertzdAuto(share) | Kind::HertzdAgain(share) => {
                self.hertzd(&format!("spin = \"auto\"\nspin-cpu-max = \"{}%\"", f64::from(share) / 10.0))
            }
            _ => {
                // Refused to ordinary users: then all contenders run without.
                let _ = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE);
                let _ = pin(&[self.cpu]);
                let _ = set_fifo(PRIORITY);
                if self.kind == Kind::Tokio { self.tokio() } else { self.alone() }
            }
        }
    }

    fn ticks(self) -> usize {
        (self.rate * self.seconds) as usize
    }

    /// One loop on a grid.
    #[expect(clippy::disallowed_methods, reason = "spin_sleep takes instants of the standard library")]
    fn alone(self) -> Sample {
        let mut notes = Notes::with_room(self.ticks());
        let period = 1_000_000_000 / i64::from(self.rate);
        let sleeper = spin_sleep::SpinSleeper::default();
        let (base, origin) = (Instant::now(), now());
        let mut release = origin + 5_000_000;
        let end = release + i64::from(self.seconds) * 1_000_000_000;
        let until = |instant: i64| {
            let instant = TimeSpec::new(instant / 1_000_000_000, instant % 1_000_000_000);
            let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &instant);
        };
        notes.look();
        while release < end {
            let mut seen = 0;
            match self.kind {
                Kind::Plain => until(release),
                Kind::Tail(micros) => until(release - i64::from(micros) * 1_000),
                Kind::SpinSleep => {
                    sleeper.sleep_until(base + Duration::from_nanos(u64::try_from(release - origin).unwrap_or(0)));
                }
                _ => {}
            }
            if matches!(self.kind, Kind::Tail(_) | Kind::Spin) {
                while seen < release {
                    seen = now();
                    std::hint::spin_loop();
                }
            }
            // The last reading of the spin is the first one after it.
            let first = if seen == 0 { now() } else { seen };
            notes.note(first - release);
            release += period;
            if release < first {
                release += (first - release) / period * period + period;
            }
        }
        notes.look();
        notes.sample()
    }

    /// One task each, on one thread.
    fn tokio(self) -> Sample {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a timer");
        let period = Duration::from_nanos(1_000_000_000 / u64::from(self.rate));
        let ticks = self.ticks();
        runtime.block_on(async move {
            let start = tokio::time::Instant::now() + Duration::from_millis(20);
            let mut whole = Notes::default();
            let one = move || async move {
                let mut notes = Notes::with_room(ticks);
                let mut interval = tokio::time::interval_at(start, period);
                interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                for _ in 0..ticks {
                    let due = interval.tick().await;
                    notes.note(i64::try_from(due.elapsed().as_nanos()).unwrap_or(i64::MAX));
                    if start.elapsed() > period * u32::try_from(ticks).unwrap_or(u32::MAX) {
                        break;
                    }
                }
                notes.late
            };
            let tasks: Vec<_> = (0..self.tasks).map(|_| tokio::spawn(one())).collect();
            whole.look();
            for task in tasks {
                whole.late.extend(task.await.expect("no panic"));
            }
            whole.look();
            whole.sample()
        })
    }

    fn hertzd(self, spin: &str) -> Sample {
        let Self { rate, tasks, cpu, .. } = self;
        let mut text = format!("[worker.main]\ncpu = {cpu}\npolicy = \"fifo\"\npriority = {PRIORITY}\n{spin}\n");
        for task in 0..tasks {
            text += &format!(
                "[task.t{task}]\nkind = \"reader\"\nrate = {rate}\nticks = {}\nfirst = {}\n",
                self.ticks(),
                task == 0
            );
        }
        let kinds = Kinds::empty().with::<Reader>("reader", "Reads the clock.");
        let length = Span::from_seconds(i64::from(self.seconds));
        Embedded::of(kinds, text).lasting(length).telling(|| {}).run();
        std::mem::take(&mut *ENDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)).sample()
    }
}

/// What the tasks that have ended saw.
static ENDED: Mutex<Notes> = Mutex::new(Notes { late: Vec::new(), started: Vec::new(), used: [[0, 0]; 2] });

/// A task that reads the clock first thing.
#[derive(Debug, Deserialize)]
#[serde(from = "Keys")]
struct Reader {
    first: bool,
    notes: Notes,
    looked: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    /// How often it will tick.
    ticks: usize,
    /// It looks at the processor time of the process as well.
    first: bool,
}

impl From<Keys> for Reader {
    fn from(Keys { ticks, first }: Keys) -> Self {
        // Touched here, not in a tick.
        let started = Notes::with_room(ticks).late;
        Self { first, notes: Notes { started, ..Notes::with_room(ticks) }, looked: 0 }
    }
}

impl Task for Reader {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        let first = now();
        self.notes.note(first - i64::try_from(tick.release.nanos()).unwrap_or(0));
        if self.notes.started.len() < self.notes.started.capacity() {
            self.notes.started.push((tick.started - tick.release).nanos());
        }
        if self.first && first - self.looked > 250_000_000 {
            self.looked = first;
            self.notes.look();
        }
        Ok(())
    }

    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut ended = ENDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        ended.late.append(&mut self.notes.late);
        ended.started.append(&mut self.notes.started);
        if self.first {
            ended.used = self.notes.used;
        }
    }
}
