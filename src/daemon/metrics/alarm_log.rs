//! Writes alarm changes to the log, on the metrics thread, which may block and allocate.

use super::alarms::Alarms;
use crate::channels::alarm::{AlarmChange, Level, Severity};
use crate::log::Message;
use crate::time::{Instant, Span};
use std::collections::BTreeMap;
use std::mem;
use tracing::{error, info, warn};

/// An alarm gets at most this many entries in this time. Further changes are only counted.
const ENTRIES: u32 = 10;
const WITHIN: Span = Span::from_seconds(1);

/// The alarms, and how much was logged about each of them lately, by task name.
#[derive(Debug, Default)]
pub(crate) struct AlarmLog {
    pub(crate) all: Alarms,
    said: BTreeMap<String, Said>,
}

#[derive(Debug)]
struct Said {
    since: Instant,
    entries: u32,
    left_out: u64,
    latest: Option<AlarmChange>, // of those left out
}

impl AlarmLog {
    /// Logs the changes since the last call, and calls `goes_on` after each.
    pub(crate) fn report(&mut self, now: Instant, goes_on: impl Fn()) {
        let Self { all, said } = self;
        all.take_changes(now, |alarm, change, lost| {
            let task = alarm.task.clone();
            if let Some((change, left_out)) = said.entry(task).or_insert(Said::new(now)).take(change, lost, now) {
                log(&alarm.task, &change, left_out);
            }
            goes_on();
        });
        self.catch_up(now, false);
    }

    /// Logs the last change that was left out. Nothing more will be logged.
    pub(super) fn finish(&mut self, now: Instant) {
        self.catch_up(now, true);
    }

    fn catch_up(&mut self, now: Instant, ends: bool) {
        for (task, said) in &mut self.said {
            if let Some((change, left_out)) = said.catch_up(now, ends) {
                log(task, &change, left_out);
            }
        }
    }
}

impl Said {
    const fn new(since: Instant) -> Self {
        Self { since, entries: 0, left_out: 0, latest: None }
    }

    /// The change if it may be logged now, and the number of changes left out before it.
    fn take(&mut self, change: Option<AlarmChange>, lost: u64, now: Instant) -> Option<(AlarmChange, u64)> {
        self.left_out += lost;
        if now - self.since >= WITHIN {
            (self.since, self.entries) = (now, 0);
        }
        let change = change?;
        // An end by a reload, which has no tick number, is always logged: it is the last entry.
        if self.entries >= ENTRIES && change.n.is_some() {
            self.left_out += 1;
            self.latest = Some(change);
            return None;
        }
        self.entries += 1;
        self.latest = None;
        Some((change, mem::take(&mut self.left_out)))
    }

    /// The last change that was left out, once entries are allowed again or the log `ends`. Without it, the log could show the wrong state.
    fn catch_up(&mut self, now: Instant, ends: bool) -> Option<(AlarmChange, u64)> {
        let is_time = ends || now - self.since >= WITHIN;
        let change = self.latest.take_if(|_| is_time)?;
        (self.since, self.entries) = (now, 1);
        Some((change, mem::take(&mut self.left_out).saturating_sub(1)))
    }
}

fn log(task: &str, AlarmChange { n, severity, was, is, value }: &AlarmChange, left_out: u64) {
    let (word, before) = (is.word(), was.word());
    let ends = *is == Level::Normal;
    let message_id = if ends { Message::AlarmEnded } else { Message::AlarmBegan }.id();
    let more = match left_out {
        0 => String::new(),
        1 => "; 1 change before it was not logged".to_owned(),
        _ => format!("; {left_out} changes before it were not logged one by one"),
    };
    let what = match is {
        Level::Normal if n.is_none() => format!("ended by the reload; it was {before}"),
        Level::Normal => format!("back to normal after {before}, at {value}"),
        Level::Bad => "no good value".into(),
        Level::On => format!("its condition holds ({value})"),
        _ => format!("{word} at {value}"),
    };
    macro_rules! entry {
        ($level:ident) => {
            $level!(message_id, task, tick = *n, alarm = word, value, left_out, "{task}: {what}{more}")
        };
    }
    match severity {
        _ if ends => entry!(info),
        Severity::Notice => entry!(info),
        Severity::Warning => entry!(warn),
        Severity::Error => entry!(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(n: u64) -> Option<AlarmChange> {
        let (was, is) = if n.is_multiple_of(2) { (Level::Normal, Level::High) } else { (Level::High, Level::Normal) };
        Some(AlarmChange { n: Some(n), severity: Severity::Error, was, is, value: 0.0 })
    }

    /// Which tick has an entry, and how many changes before it were left out.
    fn entry(said: Option<(AlarmChange, u64)>) -> Option<(u64, u64)> {
        said.map(|(change, left_out)| (change.n.unwrap(), left_out))
    }

    /// Thirteen changes within a second, ten of which are logged.
    fn chattered() -> Said {
        let mut said = Said::new(Instant::ZERO);
        let entries = (0..13).filter_map(|n| entry(said.take(change(n), 0, Instant::ZERO)));
        assert!(entries.eq((0..10).map(|n| (n, 0))));
        said
    }

    #[test]
    fn the_latest_change_that_was_left_out_has_an_entry_when_the_second_is_over() {
        let (mut said, over) = (chattered(), Instant::ZERO + WITHIN);
        assert_eq!(entry(said.catch_up(over - Span::from_nanos(1), false)), None);
        assert_eq!(entry(said.catch_up(over, false)), Some((12, 2)));
        assert_eq!(entry(said.catch_up(over + WITHIN, true)), None, "once");
        let entries: Vec<_> = (13..24).filter_map(|n| entry(said.take(change(n), 0, over))).collect();
        assert!(entries.into_iter().eq((13..22).map(|n| (n, 0))), "it is one of the ten of its second");
    }

    #[test]
    fn a_change_that_comes_then_has_the_entry_in_its_place() {
        let (mut said, over) = (chattered(), Instant::ZERO + WITHIN);
        assert_eq!(entry(said.take(change(13), 2, over)), Some((13, 5)));
        assert_eq!(entry(said.catch_up(over + WITHIN, true)), None);
    }

    #[test]
    fn the_latest_change_that_was_left_out_has_an_entry_at_the_end() {
        let mut said = chattered();
        assert_eq!(entry(said.catch_up(Instant::ZERO, true)), Some((12, 2)));
    }
}
