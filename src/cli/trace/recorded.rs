//! The ticks of a recording, for a trace or a report. Blocks on the file.

use crate::views::Timeline;
use std::path::Path;

/// Reads a recording into a timeline.
///
/// # Errors
/// What is wrong with the recording, and what to do.
#[cfg(feature = "mcap")]
pub(in crate::cli) fn timeline(path: &Path) -> Result<Timeline, String> {
    refuse_csv(path)?;
    let past = crate::recording::read(path)?;
    Ok(drawn::of(&past, path))
}

#[cfg(not(feature = "mcap"))]
pub(in crate::cli) fn timeline(path: &Path) -> Result<Timeline, String> {
    refuse_csv(path)?;
    Err(format!("{}: this is no flight file, and this hertzd was built without the feature mcap", path.display()))
}

/// Rejects a CSV file.
///
/// # Errors
/// The file is a CSV, which does not contain when ticks ended.
pub(in crate::cli) fn refuse_csv(path: &Path) -> Result<(), String> {
    match path.extension().is_some_and(|ending| ending == "csv") {
        true => Err(format!(
            "{}: a CSV has the values of each tick, but not when it ended; record = \"FILE.mcap\" records that",
            path.display()
        )),
        false => Ok(()),
    }
}

#[cfg(feature = "mcap")]
mod drawn {
    use crate::recording::{Past, PastTask, PastTick, Whys};
    use crate::time::{Instant, Span};
    use crate::views::{Did, Timeline, TimelineMiss, TimelineTask, TimelineTick, TimelineWorker, Which};
    use std::path::Path;

    /// Recordings do not store the worker, so each task gets a track that shows its worker as the task saw it.
    pub(super) fn of(past: &Past, path: &Path) -> Timeline {
        let mut timeline = Timeline { process: path.display().to_string(), on_realtime: true, ..Timeline::default() };
        for (number, task) in (0..).zip(&past.tasks) {
            let name = task.name.clone();
            timeline.workers.push(TimelineWorker {
                number,
                name: format!("worker, as task {name} saw it"),
                thread: None,
                did: task.ticks.iter().map(|tick| did(task, number as usize, tick)).collect(),
            });
            timeline.tasks.push(TimelineTask { number, name, period: 0 });
            if task.before > 0 {
                let first = task.ticks.first().map_or(0, |tick| nanos(tick.release));
                let text = format!("{} earlier ticks of task {} are left out: it began again", task.before, task.name);
                timeline.notes.push((first, text));
            }
        }
        if let Some((_, last)) = timeline.span().filter(|_| past.cut_off) {
            timeline.notes.push((last, "the recording is cut off here".into()));
        }
        timeline
    }

    fn did(task: &PastTask, index: usize, tick: &PastTick) -> Did {
        let started = tick.release + (tick.response - tick.run);
        let sleep = |(asked, late): (Span, Span)| (nanos(tick.release + asked), nanos(tick.release + asked + late));
        let miss = |which, cause, count| TimelineMiss { which, cause, by: None, count, time: 0 };
        let mut misses = Vec::new();
        if tick.overrun {
            let known = task.causes.binary_search_by_key(&tick.n, |(n, _)| *n);
            let cause = known.map_or("unknown", |at| task.causes[at].1.word());
            misses.push(miss(Which::Overrun, cause, 1));
        }
        let none = Whys::default();
        let whys = task.whys.binary_search_by_key(&tick.n, |(n, _)| *n).map_or(&none, |at| &task.whys[at].1);
        for (why, which) in [(&whys.before, Which::SkippedBefore), (&whys.after, Which::SkippedAfter)] {
            let Some(why) = why else { continue };
            match why.cause {
                Some(cause) => misses.push(miss(which, cause.word(), why.count)),
                None => misses.push(miss(Which::Skipped, "not recorded", why.count)),
            }
        }
        Did {
            sleep: tick.sleep.map(sleep),
            after_loss: false,
            started: nanos(started),
            finished: nanos(tick.release + tick.response),
            tick: Some(TimelineTick {
                task: index,
                n: tick.n,
                release: nanos(tick.release),
                overrun: tick.overrun,
                misses,
                ..TimelineTick::default()
            }),
        }
    }

    fn nanos(at: Instant) -> i64 {
        (at - Instant::ZERO).nanos()
    }
}
