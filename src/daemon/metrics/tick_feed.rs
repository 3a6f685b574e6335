//! From the metrics thread to the recorder: recorded ticks, and which tasks have ended.
//!
//! Neither end waits for the other. Ticks that find no room are counted.

use crate::channels::size::TICKS_TO_RECORD;
use crate::channels::{TickRecord, Traffic};
use crate::metrics::{By, Verdicts};
use crate::recording::{RecordedTick, Why, Whys};
use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the metrics thread hands to the recorder.
#[derive(Debug)]
pub(crate) enum Fed {
    Tick(RecordedTick),
    /// This task will send no more ticks, values or blocks.
    Last(u32),
    /// The same, and the task leaves the set. This many of its ticks were never offered, because their records were dropped.
    Ended(u32, u64),
}

/// The metrics thread's end.
#[derive(Debug)]
pub(crate) struct TickFeed {
    sender: Sender<Fed>,
    recorded: BTreeMap<u32, Arc<Traffic>>,
}

/// Both ends. The channel grows as needed; most runs do not use it.
pub(crate) fn feed() -> (TickFeed, Receiver<Fed>) {
    let (sender, receiver) = unbounded();
    (TickFeed { sender, recorded: BTreeMap::new() }, receiver)
}

impl TickFeed {
    /// Records the ticks of this task from now on, counted in `traffic`.
    pub(crate) fn add(&mut self, id: u32, traffic: Arc<Traffic>) {
        self.recorded.insert(id, traffic);
    }

    /// This task has run its last tick, which was offered. Its recording can be finished.
    pub(crate) fn finish(&self, id: u32) {
        let _ = self.sender.send(Fed::Last(id));
    }

    /// This task has ended after `ran` ticks (`None`: unknown), and its last tick was offered. The recorder learns this after all its
    /// ticks.
    pub(crate) fn remove(&mut self, id: u32, ran: Option<u64>) {
        let offered = self.recorded.remove(&id).map(|traffic| traffic.sent() + traffic.dropped());
        let missing = ran.zip(offered).map_or(0, |(ran, offered)| ran.saturating_sub(offered));
        // Fails once the recorder has ended; that does not matter.
        let _ = self.sender.send(Fed::Ended(id, missing));
    }

    /// Hands over a tick, if its task is recorded, with the causes of missed releases. `name` names the culprit.
    pub(crate) fn offer(&self, record: &TickRecord, verdicts: &Verdicts, name: impl Fn(By) -> String) {
        let Some(traffic) = self.recorded.get(&record.task) else { return };
        let [before, overrun, after] = [verdicts.before, verdicts.overrun, verdicts.after].map(|verdict| {
            let verdict = verdict?;
            let by = verdict.by.map(|by| name(by).into());
            Some(Why { cause: Some(verdict.cause), by, count: verdict.count })
        });
        let some = before.is_some() || overrun.is_some() || after.is_some();
        let tick = RecordedTick {
            task: record.task,
            n: record.n,
            release: record.release,
            lateness: record.lateness,
            response: record.response,
            skipped: record.skipped(),
            woke: record.woke,
            oversleep: record.oversleep,
            missed: some.then(|| Box::new(Whys { before, overrun, after })),
        };
        traffic.count(self.sender.len() < TICKS_TO_RECORD && self.sender.send(Fed::Tick(tick)).is_ok());
    }
}

/// Everything in a channel, and whether its last sender is gone.
pub(crate) fn waiting<T>(receiver: &Receiver<T>) -> (Vec<T>, bool) {
    let mut taken = Vec::new();
    loop {
        match receiver.try_recv() {
            Ok(one) => taken.push(one),
            Err(TryRecvError::Empty) => return (taken, false),
            Err(TryRecvError::Disconnected) => return (taken, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_ends_says_how_many_of_its_ticks_were_never_offered() {
        let (mut feed, fed) = feed();
        let traffic = Arc::<Traffic>::default();
        feed.add(7, traffic.clone());
        [true, true, false].iter().for_each(|taken| traffic.count(*taken));
        feed.remove(7, Some(10));
        feed.remove(8, Some(10)); // its ticks are not recorded
        feed.remove(9, None);
        let told: Vec<_> = fed
            .try_iter()
            .map(|fed| match fed {
                Fed::Ended(id, missing) => (id, missing),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told, [(7, 7), (8, 0), (9, 0)]);
    }
}
