//! What the alarms have to say, into the log: on the metrics thread, which may block and allocate.

use crate::kinds::alarm::{Alarm, AlarmChange, Alarms, Level, Severity};
use crate::log::Message;
use crate::time::{Instant, Span};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::{error, info, warn};

/// An alarm that comes and goes faster has so many entries in this time; the others are counted.
const ENTRIES: u32 = 10;
const WITHIN: Span = Span::from_seconds(1);

/// How much was said of each alarm lately, by the name of its task.
#[derive(Debug, Default)]
pub(crate) struct AlarmLog {
    pub(crate) all: Arc<Alarms>,
    said: BTreeMap<String, Said>,
}

#[derive(Debug)]
struct Said {
    since: Instant,
    entries: u32,
    left_out: u64,
}

impl AlarmLog {
    pub(crate) fn new(all: Arc<Alarms>) -> Self {
        Self { all, said: BTreeMap::new() }
    }

    /// Says what has changed since this was last called, and calls `said` after each change.
    pub(crate) fn tell(&mut self, now: Instant, said: impl Fn()) {
        let all = self.all.clone();
        all.take_changes(now, |alarm, change, lost| {
            self.say(alarm, change, lost, now);
            said();
        });
    }

    fn say(&mut self, alarm: &Alarm, change: Option<AlarmChange>, lost: u64, now: Instant) {
        let said = self.said.entry(alarm.task.clone()).or_insert(Said { since: now, entries: 0, left_out: 0 });
        said.left_out += lost;
        if now - said.since >= WITHIN {
            *said = Said { since: now, entries: 0, left_out: said.left_out };
        }
        match change {
            // The end of an alarm that a reload ends is its last entry.
            Some(change) if said.entries >= ENTRIES && change.n.is_some() => said.left_out += 1,
            Some(change) => {
                said.entries += 1;
                log(alarm, &change, std::mem::take(&mut said.left_out));
            }
            None => {}
        }
    }
}

fn log(alarm: &Alarm, AlarmChange { n, severity, was, is, value }: &AlarmChange, left_out: u64) {
    let (task, word, before) = (alarm.task.as_str(), is.word(), was.word());
    let ends = *is == Level::Normal;
    let message_id = if ends { Message::AlarmEnded } else { Message::AlarmBegan }.id();
    let more =
        if left_out > 0 { format!("; {left_out} changes before it were not logged one by one") } else { String::new() };
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
