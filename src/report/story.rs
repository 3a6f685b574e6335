//! The story of a miss, from the ticks around it. Pure.

use super::model::Miss;
use crate::metrics::{By, Cause};
use crate::time::Span;
use crate::views::{Did, Timeline, TimelineMiss, Which};

/// A tick in which something was missed.
pub(super) struct Found {
    pub(super) task: usize,
    pub(super) worker: usize,
    pub(super) position: usize,
    /// The release of the first miss, ns.
    pub(super) oldest: i64,
    /// From there to the end of the tick, ns.
    pub(super) worst: i64,
}

/// What happened. Instants count from `begin`.
pub(super) fn story(timeline: &Timeline, found: &Found, begin: i64) -> Miss {
    let did = &timeline.workers[found.worker].did[found.position];
    let name = &timeline.tasks[found.task].name;
    let mut story = String::new();
    let (mut n, mut missed, mut main) = (None, 0, None);
    if let Some(tick) = &did.tick {
        n = Some(tick.n);
        let (lateness, response) = (span(did.started - tick.release), span(did.finished - tick.release));
        story += &format!("Tick {} was due at {}", tick.n, span(tick.release - begin));
        if let Some((asked, woke)) = did.sleep {
            story += &format!("; the worker woke {} after the instant it had asked for", span(woke - asked));
        }
        story += &format!(". {}", ran(lateness, response, tick.overrun));
        for miss in &tick.misses {
            match miss.which {
                Which::Overrun => missed += u64::from(tick.overrun),
                Which::SkippedAfter => {
                    missed += miss.count;
                    story += &format!(" When it had ended, {} given up.", releases(miss.count));
                }
                Which::SkippedBefore => {
                    missed += miss.count;
                    story += &format!(" Before it, {} given up.", releases(miss.count));
                }
                _ => {
                    missed += miss.count;
                    story += &format!(" Beside it, {} given up.", releases(miss.count));
                }
            }
        }
        if tick.overrun && !tick.misses.iter().any(|miss| miss.which == Which::Overrun) {
            missed += 1;
        }
        for (index, miss) in tick.misses.iter().enumerate() {
            let told = tick.misses[..index].iter().any(|before| (before.cause, &before.by) == (miss.cause, &miss.by));
            if !told {
                story += &because(miss, blocking(timeline, found, miss));
            }
        }
        main = tick.misses.iter().max_by_key(|miss| miss.count);
        if tick.failed {
            story += " The tick returned an error.";
        }
    }
    Miss {
        task: name.clone(),
        at_ns: Some(found.oldest - begin),
        tick: n,
        cause: main.map_or(Cause::Unknown.word(), |miss| miss.cause).to_owned(),
        by: main.and_then(|miss| miss.by.as_ref()).map(|(_, name)| name.clone()),
        missed,
        worst_ns: Some(found.worst),
        story,
    }
}

fn span(nanos: i64) -> Span {
    Span::from_nanos(nanos)
}

/// How late a tick was and how long it took, in one sentence.
pub(crate) fn ran(lateness: Span, response: Span, overrun: bool) -> String {
    let (run, side) = (response - lateness, if overrun { "past" } else { "within" });
    format!(
        "It started {lateness} after its release, ran for {run}, and ended {response} after its release, {side} its deadline."
    )
}

pub(crate) fn releases(count: u64) -> String {
    if count == 1 { "1 release was".into() } else { format!("{count} releases were") }
}

/// The longest tick of the task to blame, among ticks that ended while this one waited.
fn blocking<'a>(timeline: &'a Timeline, found: &Found, miss: &TimelineMiss) -> Option<&'a Did> {
    let Some((By::Task(number), _)) = miss.by else { return None };
    let before = timeline.workers[found.worker].did[..found.position].iter().rev();
    let waited = before.take_while(|did| did.finished > found.oldest);
    let of_task = |did: &&Did| did.tick.as_ref().is_some_and(|tick| timeline.tasks[tick.task].number == number);
    waited.filter(of_task).max_by_key(|did| did.finished - did.started)
}

fn because(miss: &TimelineMiss, blocking: Option<&Did>) -> String {
    let mut text = format!(" Cause: {}", miss.cause);
    if let Some((_, by)) = &miss.by {
        text += &format!(", by {by}");
    }
    if miss.time > 0 {
        text += &format!("; this explains {} of the delay", span(miss.time));
    }
    if let Some((did, tick)) = blocking.and_then(|did| Some((did, did.tick.as_ref()?))) {
        text += &format!("; its tick {} ran for {} meanwhile", tick.n, span(did.finished - did.started));
    }
    text + "."
}
