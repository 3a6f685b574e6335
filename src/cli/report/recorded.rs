//! Sums up the ticks of a recording for a report. Blocks on the file.

use crate::cli::trace;
use crate::report::Run;
use crate::time::Span;
use std::path::Path;

/// The recorded run, or the part of it that begins `from` after its first tick and lasts `length`.
///
/// # Errors
/// What is wrong with the file, and what to do.
#[cfg(feature = "mcap")]
pub(super) fn run(path: &Path, from: Option<Span>, length: Option<Span>) -> Result<Run, String> {
    trace::refuse_csv(path)?;
    let mut shown = progress::Shown::new(path);
    let part = crate::recording::Part { from: from.unwrap_or(Span::ZERO), length: length.unwrap_or(Span::MAX) };
    let summed = crate::recording::sum_up(path, part, &mut |read, all| shown.note(read, all));
    shown.end();
    let mut run = summed_up::run(&summed?, path);
    if from.is_some() || length.is_some() {
        let length = length.map_or("to its end".to_owned(), |length| format!("for {length}"));
        run.notes
            .insert(0, format!("This is a part of the recording: from {} after its first tick, {length}.", part.from));
    }
    Ok(run)
}

#[cfg(not(feature = "mcap"))]
pub(super) fn run(path: &Path, _: Option<Span>, _: Option<Span>) -> Result<Run, String> {
    let timeline = trace::of_recording(path)?;
    Ok(crate::report::of_ticks(
        &timeline,
        crate::report::Source { kind: crate::report::Kind::Recording, name: path.display().to_string() },
    ))
}

#[cfg(feature = "mcap")]
mod progress {
    use crate::sys::clock::KernelClock;
    use crate::time::{Clock, Instant, Span};
    use std::path::Path;

    /// Progress is shown once reading has taken this long, and again at this interval.
    const LONG: Span = Span::from_seconds(2);

    /// A progress line on stderr while the ticks are read.
    pub(super) struct Shown {
        name: String,
        latest: Instant,
        any: bool,
    }

    impl Shown {
        pub(super) fn new(path: &Path) -> Self {
            Self { name: path.display().to_string(), latest: KernelClock::monotonic().now(), any: false }
        }

        pub(super) fn note(&mut self, read: u64, all: u64) {
            let now = KernelClock::monotonic().now();
            if now - self.latest >= LONG {
                (self.latest, self.any) = (now, true);
                let (mega, share) = (all / 1_000_000, read * 100 / all.max(1));
                self.say(&format!("reading its ticks: {share} % of {mega} MB; --from and --for choose a part"));
            }
        }

        pub(super) fn end(&self) {
            if self.any {
                self.say("read");
            }
        }

        fn say(&self, text: &str) {
            crate::cli::terminal::say(&format!("{}: {text}", self.name));
        }
    }
}

#[cfg(feature = "mcap")]
mod summed_up {
    use crate::metrics::Cause;
    use crate::recording::WorstSecond as FoundSecond;
    use crate::recording::{Bin as Stretch, Miss as Found, PastTask, Summed, TaskTotals, Totals, Why, Whys};
    use crate::report::{
        Available, Bin, Counts, Kind, Miss, NO_VALUES, Run, SecondOfTask, SecondTick, Source, Spread, Task, WORST,
        WORST_SECOND_TICKS, WorstSecond, largest_first, ran, releases,
    };
    use crate::time::Span;
    use std::cmp::Reverse;
    use std::path::Path;

    /// Stands for a cause that is not in the recording.
    const NOT_RECORDED: &str = "not recorded";

    pub(super) fn run(summed: &Summed, path: &Path) -> Run {
        let totals = &summed.totals;
        let (began, width) = totals.bins_from().unwrap_or_default();
        let end = totals.tasks.iter().filter_map(|task| Some(task.tally.last?.at.saturating_add(period(task)))).max();
        let second = summed.worst_second.as_ref().map(|second| worst_second(second, began));
        Run {
            source: Source { kind: Kind::Recording, name: path.display().to_string() },
            well: None,
            sentence: None,
            hertzd: None,
            pid: None,
            began_utc_ns: Some(began),
            length_ns: end.map(|end| end.saturating_sub(began)),
            machine: Available::not("A recording does not say which machine it was made on."),
            workers: Available::not("A recording does not say what its workers were granted."),
            tasks: totals.tasks.iter().map(|of| task(totals, of, width)).collect(),
            bad_values: Available::not(NO_VALUES),
            bin_ns: Some(width.nanos()),
            worst_misses: Available::Known(worst(totals, began)),
            worst_second: second.map_or_else(|| Available::not("There is no tick."), Available::Known),
            notes: notes(summed),
        }
    }

    /// The mean interval between releases, in nanoseconds; 0 if unknown.
    fn period(task: &TaskTotals) -> i64 {
        let (steps, span) = task.tally.grid;
        i64::try_from(steps).ok().and_then(|steps| span.checked_div(steps)).unwrap_or(0)
    }

    fn task(totals: &Totals, task: &TaskTotals, width: Span) -> Task {
        let tally = &task.tally;
        let known = Cause::ALL.into_iter().map(|cause| (cause.word().to_owned(), tally.causes[cause.index()]));
        let blocked = tally.causes[Cause::Blocked.index()];
        let by = tally.blockers.iter().map(|(by, count)| (by.to_string(), *count));
        Task {
            ages: None, // tick records do not contain them
            task: task.name.clone(),
            worker: None,
            rate: None,
            state: None,
            counts: Counts { releases: tally.counts, errors: None },
            causes: largest_first(known.chain([(NOT_RECORDED.to_owned(), tally.without_cause())])),
            blockers: match tally.blockers.values().sum::<u64>() == blocked {
                true => Available::Known(largest_first(by)),
                false => Available::not("This recording does not say who blocked a task."),
            },
            lateness_ns: Available::Known(Spread::of(&tally.lateness)),
            run_ns: Available::Known(Spread::of(&tally.run)),
            over_time: Available::Known(
                totals.bins(task).map(|(at, stretch)| bin(stretch, at * width.nanos())).collect(),
            ),
        }
    }

    fn bin(stretch: &Stretch, begin_ns: i64) -> Bin {
        let lateness = stretch.lateness.distribution();
        Bin {
            begin_ns,
            releases: stretch.counts.share(),
            ticks: stretch.counts.ran,
            p50_ns: lateness.p50,
            p99_ns: lateness.p99,
            max_ns: lateness.max,
        }
    }

    fn worst(totals: &Totals, began: i64) -> Vec<Miss> {
        let all = totals.tasks.iter().flat_map(|task| task.tally.worst.iter().map(|miss| (&task.name, miss)));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(_, miss)| Reverse(miss.worst));
        all.into_iter().take(WORST).map(|(task, found)| miss(task, found, began)).collect()
    }

    fn miss(task: &str, found: &Found, began: i64) -> Miss {
        let main = found.whys.iter().max_by_key(|why| why.count);
        let oldest = found.at - (found.worst - found.response).nanos();
        Miss {
            task: task.to_owned(),
            at_ns: Some(oldest - began),
            tick: Some(found.n),
            cause: main.map_or(NOT_RECORDED, word).to_owned(),
            by: main.and_then(|why| why.by.as_deref()).map(str::to_owned),
            missed: found.whys.count(),
            worst_ns: Some(found.worst.nanos()),
            story: story(found, began),
        }
    }

    fn word(why: &Why) -> &'static str {
        why.cause.map_or(NOT_RECORDED, Cause::word)
    }

    fn story(found: &Found, began: i64) -> String {
        let Found { n, at, lateness, response, whys, .. } = found;
        let due = Span::from_nanos(at - began);
        let mut text = format!("Tick {n} was due at {due}. {}", ran(*lateness, *response, whys.overrun.is_some()));
        let Whys { before, overrun, after } = whys;
        for (why, what) in [(before, "Before it"), (overrun, ""), (after, "When it had ended")] {
            let Some(why) = why else { continue };
            if !what.is_empty() {
                text += &format!(" {what}, {} given up.", releases(why.count));
            }
            text += &format!(" Cause: {}", word(why));
            text += &why.by.as_ref().map_or_else(String::new, |by| format!(", by {by}"));
            text.push('.');
        }
        text
    }

    fn worst_second(second: &FoundSecond, began: i64) -> WorstSecond {
        let tasks: Vec<_> = second.ticks.tasks.iter().map(|task| of_second(task, second.from)).collect();
        let missed = second.ticks.tasks.iter().map(|task| task.counts().missed).sum();
        WorstSecond { begin_ns: second.from - began, missed, tasks }
    }

    fn of_second(task: &PastTask, from: i64) -> SecondOfTask {
        let ticks = task.ticks.iter().take(WORST_SECOND_TICKS).map(|tick| {
            let release_ns = (tick.release - crate::time::Instant::from_nanos(from.into())).nanos();
            let whys = task.whys.binary_search_by_key(&tick.n, |(n, _)| *n).ok().map(|place| &task.whys[place].1);
            let main = whys.and_then(|whys| whys.iter().max_by_key(|why| why.count));
            SecondTick {
                n: tick.n,
                release_ns,
                started_ns: release_ns + (tick.response - tick.run).nanos(),
                finished_ns: release_ns + tick.response.nanos(),
                missed: tick.skipped + u64::from(tick.overrun),
                cause: main.map(|why| word(why).to_owned()),
            }
        });
        let left_out = task.ticks.len().saturating_sub(WORST_SECOND_TICKS) as u64;
        SecondOfTask { task: task.name.clone(), ticks: ticks.collect(), left_out }
    }

    /// What a reader must know besides the numbers.
    fn notes(summed: &Summed) -> Vec<String> {
        let mut notes = Vec::new();
        if summed.cut_off {
            notes.push("The recording has no end: its run was killed, or still writes it.".to_owned());
        }
        for TaskTotals { name, tally, .. } in &summed.totals.tasks {
            if tally.unrecorded > 0 {
                let lost = releases(tally.unrecorded);
                notes.push(format!(
                    "Task {name}: {lost} neither recorded nor counted here, between ticks that are: their ticks were lost."
                ));
            }
            if tally.restarts > 0 {
                let times = if tally.restarts == 1 { "once".into() } else { format!("{} times", tally.restarts) };
                notes.push(format!(
                    "Task {name} began again {times}, as after a reload that changed it: the counts are those of all its ticks."
                ));
            }
            if tally.without_cause() > 0 {
                let of = releases(tally.without_cause());
                notes.push(format!(
                    "Task {name}: of what it missed, {of} recorded without a cause, as earlier versions of hertzd did where releases were skipped."
                ));
            }
        }
        notes.push(
            "Releases that no tick reports are not in a recording: those given up after the last tick of a task, and those of a task \
             that has ended."
                .to_owned(),
        );
        notes
    }
}
