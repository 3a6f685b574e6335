//! The readback thread: has targets of outputs read, each at its interval, and says what differs from what was written: all of it with
//! `readback`, and always what decides whether it has any effect.
//!
//! It sleeps for up to 100 ms at a time. A read may block for as long as the device takes: threads of the pool make them, one after
//! the other while none hangs. There is no such thread without such outputs.

use super::readback_record::{News, Record};
use crate::io::{Pool, Queue};
use crate::log::Message;
use crate::safety::{Guard, ReadBack, Reading};
use crate::snapshot::ReadbackSummary;
use crate::sys::clock::KernelClock;
use crate::sys::thread::helper;
use crate::time::{Clock, Instant, Span};
use crossbeam_channel::unbounded;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::{error, info, warn};

/// How long it sleeps at most, to find outputs that are new, and at least.
const AT_MOST: Span = Span::from_millis(100);
const AT_LEAST: Span = Span::from_millis(10);

/// A read that takes longer is reported.
const LONG: Span = Span::from_seconds(1);

/// The thread, if there is one, as main and the builder see it.
#[derive(Debug, Default)]
pub(crate) struct ReadbackThread {
    records: Mutex<BTreeMap<String, Record>>, // by task, of all that there have been
    running: AtomicBool,
    ends: AtomicBool,
    pool: Arc<Pool>,
}

/// When a target is read.
struct Due {
    next: Instant,
    under_way: Option<Instant>, // a reading, since then
    hangs: bool,                // and that was said
}

impl ReadbackThread {
    /// Not started yet. Targets are read by threads of this pool.
    pub(super) fn with(pool: Arc<Pool>) -> Self {
        Self { pool, ..Self::default() }
    }

    /// Makes the thread, if there is none yet. `guards` are those of the outputs that are open.
    ///
    /// # Errors
    /// The system's reason why there is no thread.
    pub(crate) fn start(self: &Arc<Self>, guards: impl Fn() -> Vec<Arc<Guard>> + Send + 'static) -> io::Result<()> {
        if !self.running.load(Ordering::Relaxed) {
            let shared = self.clone();
            helper::spawn("hertzd-readback", move || shared.run(guards))?;
            self.running.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Of each target that is not as it was written, or cannot be read: what is wrong.
    pub(crate) fn troubles(&self, now: Instant) -> Vec<String> {
        self.records().iter().filter_map(|(task, record)| record.trouble(task, now)).collect()
    }

    /// What came of all readings of the outputs with these names; `None`: there were none.
    pub(crate) fn summary(&self, tasks: &BTreeSet<&str>, now: Instant) -> Option<Vec<ReadbackSummary>> {
        let records = self.records();
        let of_tasks = records.iter().filter(|(task, _)| tasks.contains(task.as_str()));
        let summaries: Vec<_> = of_tasks.map(|(task, record)| record.summary(task, now)).collect();
        (!summaries.is_empty()).then_some(summaries)
    }

    /// The run ends: nothing is read any more.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, guards: impl Fn() -> Vec<Arc<Guard>>) {
        let (readings, (read, returned)) = (Queue::default(), unbounded::<(String, Arc<dyn ReadBack>, Reading)>());
        let (clock, mut dues): (_, BTreeMap<usize, Due>) = (KernelClock::monotonic(), BTreeMap::new());
        let (mut rest, mut refused) = (AT_LEAST, false);
        loop {
            let first = returned.recv_timeout(Duration::from_nanos(rest.nanos().unsigned_abs()));
            let done: Vec<_> = first.into_iter().chain(returned.try_iter()).collect();
            let now = clock.now();
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            let guards = guards();
            let open: Vec<_> =
                guards.iter().filter_map(|guard| Some((guard.task(), guard.readback()?.clone()))).collect();
            for (task, readback, reading) in done {
                // That of an output which has ended meanwhile says nothing.
                if let Some(due) = dues.get_mut(&key(&readback))
                    && open.iter().any(|(_, open)| key(open) == key(&readback))
                {
                    (due.under_way, due.hangs) = (None, false);
                    self.took(&task, reading, now);
                }
            }
            dues.retain(|at, _| open.iter().any(|(_, readback)| key(readback) == *at));
            let names: BTreeSet<_> = open.iter().map(|(task, _)| *task).collect();
            let end = |(task, record): (&String, &mut Record)| Some((task.clone(), record.ends(now)?));
            let ended: Vec<_> = {
                let mut records = self.records();
                records.iter_mut().filter(|(task, _)| !names.contains(task.as_str())).filter_map(end).collect()
            };
            ended.into_iter().for_each(|(task, news)| say(&task, news));
            rest = AT_MOST;
            for (task, readback) in &open {
                let due = dues.entry(key(readback)).or_insert_with(|| {
                    self.records().entry((*task).into()).or_default().begins(readback.shown(), readback.every());
                    Due { next: now + readback.every(), under_way: None, hangs: false }
                });
                match due.under_way {
                    Some(since) if now - since > LONG && !due.hangs => {
                        due.hangs = true;
                        let why = format!("the read has not returned for {}", now - since);
                        self.took(task, Reading::Unreadable(why), now);
                    }
                    None if now >= due.next => {
                        (due.under_way, due.next) = (Some(now), now + readback.every());
                        let (task, readback, read) = ((*task).to_owned(), (*readback).clone(), read.clone());
                        readings.add(move || {
                            let reading = readback.read();
                            let _ = read.send((task, readback, reading));
                        });
                    }
                    _ => {}
                }
                rest = rest.min(due.next - now).max(AT_LEAST);
            }
            if let Err(reason) = readings.work_on(&self.pool)
                && !std::mem::replace(&mut refused, true)
            {
                warn!(
                    "no further thread can read outputs back ({reason}): while devices hold up those that there are, no other output is read back"
                );
            }
        }
    }

    fn took(&self, task: &str, reading: Reading, now: Instant) {
        let news = self.records().entry(task.to_owned()).or_default().took(reading, now);
        if let Some(news) = news {
            say(task, news);
        }
    }
}

fn say(task: &str, news: News) {
    let number = |written: Option<f64>| written.map_or_else(|| "not compared".to_owned(), |it| it.to_string());
    match news {
        News::Fails { what, advice, written, read } => {
            let written = number(written);
            error!(message_id = Message::ReadbackFailed.id(), task, written, read, "{task}: {what}; {advice}");
        }
        News::Passes { what, written, lasted } => info!(
            message_id = Message::ReadbackPassed.id(),
            task,
            written = number(written),
            lasted_ns = lasted.nanos(),
            "{task}: {what}, after {lasted}"
        ),
    }
}

fn key(readback: &Arc<dyn ReadBack>) -> usize {
    Arc::as_ptr(readback).addr()
}
