//! Reads outputs' targets back, each at its interval, and reports differences from what was written. With `readback` the value itself is
//! compared. The settings that give it its effect are always compared.
//!
//! The keeper runs this at least every 100 ms. A read may block for as long as the device takes, so pool threads make the reads, one after
//! the other while none hangs.

use super::readback_record::{News, Record};
use crate::io::{Keeper, Kept, Pool, Queue};
use crate::log::Message;
use crate::safety::{Guard, ReadBack, Reading};
use crate::snapshot::ReadbackSummary;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tracing::{error, info, warn};

/// Longest time between two checks for new outputs.
const LOOK_EVERY: Span = Span::from_millis(100);

/// A read that takes longer is reported.
const LONG: Span = Span::from_seconds(1);

/// The results, as main and the builder see them.
#[derive(Debug, Default)]
pub(crate) struct Readbacks {
    records: Mutex<BTreeMap<String, Record>>, // by task, including outputs that have ended
    running: AtomicBool,
    ends: AtomicBool,
}

/// A reading that has returned.
type Returned = (String, Arc<dyn ReadBack>, Reading);

/// When a target is read.
struct Due {
    next: Instant,
    under_way: Option<Asked>, // a reading
    hangs: bool,              // and this was logged
}

/// When a reading was requested, and when a thread began it.
type Asked = (Instant, Arc<OnceLock<Instant>>);

/// The keeper's state. `guards` returns the guards of open outputs.
struct Reader<G> {
    shared: Arc<Readbacks>,
    pool: Arc<Pool>,
    guards: G,
    dues: BTreeMap<usize, Due>,
    readings: Queue,
    read: Sender<Returned>,
    returned: Receiver<Returned>,
    next: Instant, // when to check next
    refused: bool, // a further thread; this was logged
}

impl Readbacks {
    /// Begins, unless it has already. `guards` returns the guards of open outputs.
    ///
    /// # Errors
    /// The system's reason for refusing a thread.
    pub(crate) fn start(
        self: &Arc<Self>,
        keeper: &Keeper,
        guards: impl Fn() -> Vec<Arc<Guard>> + Send + 'static,
    ) -> io::Result<()> {
        if !self.running.load(Ordering::Relaxed) {
            let (read, returned) = unbounded();
            let (dues, readings, next) = (BTreeMap::new(), Queue::default(), Instant::ZERO);
            let (shared, pool) = (self.clone(), keeper.pool().clone());
            keeper.keep(Reader { shared, pool, guards, dues, readings, read, returned, next, refused: false })?;
            self.running.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// What is wrong with each target that differs from what was written, or cannot be read.
    pub(crate) fn troubles(&self, now: Instant) -> Vec<String> {
        self.records().iter().filter_map(|(task, record)| record.trouble(task, now)).collect()
    }

    /// The results for the outputs of these tasks; `None`: there are none.
    pub(crate) fn summary(&self, tasks: &BTreeSet<&str>, now: Instant) -> Option<Vec<ReadbackSummary>> {
        let records = self.records();
        let of_tasks = records.iter().filter(|(task, _)| tasks.contains(task.as_str()));
        let summaries: Vec<_> = of_tasks.map(|(task, record)| record.summary(task, now)).collect();
        (!summaries.is_empty()).then_some(summaries)
    }

    /// The run ends: stops reading.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn took(&self, task: &str, reading: Reading, now: Instant) {
        let news = self.records().entry(task.to_owned()).or_default().took(reading, now);
        if let Some(news) = news {
            say(task, news);
        }
    }
}

impl<G: Fn() -> Vec<Arc<Guard>> + Send> Kept for Reader<G> {
    fn is_over(&self) -> bool {
        self.shared.ends.load(Ordering::Relaxed)
    }

    fn is_due(&mut self, now: Instant) -> bool {
        now >= self.next || !self.returned.is_empty()
    }

    fn work(&mut self) {
        if self.is_over() {
            return;
        }
        let now = KernelClock::monotonic().now();
        let guards = (self.guards)();
        let open: Vec<_> = guards.iter().filter_map(|guard| Some((guard.task(), guard.readback()?.clone()))).collect();
        for (task, readback, reading) in self.returned.try_iter() {
            // Ignore readings of outputs that have ended meanwhile.
            if let Some(due) = self.dues.get_mut(&key(&readback))
                && open.iter().any(|(_, open)| key(open) == key(&readback))
            {
                (due.under_way, due.hangs) = (None, false);
                self.shared.took(&task, reading, now);
            }
        }
        self.dues.retain(|at, _| open.iter().any(|(_, readback)| key(readback) == *at));
        let names: BTreeSet<_> = open.iter().map(|(task, _)| *task).collect();
        let end = |(task, record): (&String, &mut Record)| Some((task.clone(), record.ends(now)?));
        let ended: Vec<_> = {
            let mut records = self.shared.records();
            records.iter_mut().filter(|(task, _)| !names.contains(task.as_str())).filter_map(end).collect()
        };
        ended.into_iter().for_each(|(task, news)| say(&task, news));
        self.next = now + LOOK_EVERY;
        for (task, readback) in &open {
            let due = self.dues.entry(key(readback)).or_insert_with(|| {
                self.shared.records().entry((*task).into()).or_default().begins(readback.shown(), readback.every());
                Due { next: now + readback.every(), under_way: None, hangs: false }
            });
            match &due.under_way {
                Some((asked, begun)) if now - *begun.get().unwrap_or(asked) > LONG && !due.hangs => {
                    due.hangs = true;
                    let why = match begun.get() {
                        Some(begun) => format!("the read has not returned for {}", now - *begun),
                        None => format!("no thread has been free to read it for {}", now - *asked),
                    };
                    self.shared.took(task, Reading::Unreadable(why), now);
                }
                None if now >= due.next => {
                    // Keep the pace, even if this check came late.
                    let (paced, every) = (due.next + readback.every(), readback.every());
                    let begun = Arc::<OnceLock<Instant>>::default();
                    due.under_way = Some((now, begun.clone()));
                    due.next = if paced > now { paced } else { now + every };
                    let (task, readback, read) = ((*task).to_owned(), (*readback).clone(), self.read.clone());
                    self.readings.add(move || {
                        let _ = begun.set(KernelClock::monotonic().now());
                        let reading = readback.read();
                        let _ = read.send((task, readback, reading));
                    });
                }
                _ => {}
            }
            self.next = self.next.min(due.next);
        }
        if let Err(reason) = self.readings.work_on(&self.pool)
            && !std::mem::replace(&mut self.refused, true)
        {
            warn!(
                "no further thread can read outputs back ({reason}): while devices block the existing ones, no other output is read back"
            );
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
