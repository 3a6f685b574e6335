//! The page of one run: how it went, on what machine, and the table of its tasks. Pure.

use super::detail::Detail;
use super::table::{available, rate, rest, table_begin, table_end};
use super::text::{Name, Text, span, utc};
use crate::report::model::{Available, Kind, Run, Spread, Task};
use crate::report::verdict::{grouped, own_verdict, share, verdict};
use crate::snapshot::{Distribution, list};
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Maximum number of workers shown, and of notes and refusals.
const WORKERS: usize = 64;
const NOTES: usize = 40;

pub(super) struct Sections<'a> {
    pub(super) run: &'a Run,
    pub(super) detail: Detail,
}

impl Sections<'_> {
    /// The tasks, those with the most misses first, then by maximum lateness.
    pub(super) fn ordered(&self) -> Vec<&Task> {
        let mut tasks: Vec<_> = self.run.tasks.iter().collect();
        let latest = |task: &Task| task.lateness_ns.known().map_or(0, |spread| spread.all.max);
        tasks.sort_by_key(|task| Reverse((task.counts.releases.missed, latest(task))));
        tasks
    }

    pub(super) fn top(&self, out: &mut String) {
        let run = self.run;
        let what = match run.source.kind {
            Kind::Snapshot => "a running daemon, at",
            Kind::Summary => "the summary",
            Kind::FlightFile => "the flight file",
            Kind::Recording => "the recording",
        };
        let missed = run.tasks.iter().any(|task| task.counts.releases.missed > 0);
        let class = match run.well {
            Some(true) => "ok",
            Some(false) => "not",
            None if missed => "not",
            None => "ok",
        };
        let _ = write!(
            out,
            "<header>\n<h1>How punctual was it?</h1>\n<p class=\"quiet\">From {what} {}</p>\n<p class=\"verdict {class}\" id=\"verdict\">{}</p>\n",
            Name(&run.source.name),
            Text(&verdict(run))
        );
        if let Some(own) = own_verdict(run) {
            let _ = writeln!(out, "<p>{}</p>", Text(&own));
        }
        *out += "</header>\n<nav aria-label=\"Sections\"><ul>";
        for (id, name) in [
            ("machine", "Machine"),
            ("tasks", "Tasks"),
            ("histograms", "Lateness"),
            ("over-time", "Over time"),
            ("causes", "Causes"),
            ("worst", "Worst misses"),
            ("second", "Worst second"),
            ("words", "Words"),
        ] {
            let _ = write!(out, "<li><a href=\"#{id}\">{name}</a></li>");
        }
        *out += "</ul></nav>\n<main>\n";
        if !run.notes.is_empty() {
            *out += "<ul aria-label=\"Notes\">";
            run.notes.iter().take(NOTES).for_each(|note| _ = write!(out, "<li>{}</li>", Text(note)));
            *out += "</ul>\n";
        }
    }

    pub(super) fn machine(&self, out: &mut String) {
        let run = self.run;
        *out += "<h2 id=\"machine\">The machine, and what was granted</h2>\n";
        if let Some(machine) = available(out, &run.machine) {
            let cpus = if machine.cpus == 0 { "unknown".into() } else { machine.cpus.to_string() };
            *out += "<dl>";
            for (what, value) in [
                ("Kernel", machine.kernel.as_str()),
                ("CPUs online", &cpus),
                ("Preemption", &machine.preempt),
                ("Clock source", &machine.clocksource),
            ] {
                let _ = write!(out, "<dt>{what}</dt><dd>{}</dd>", Text(value));
            }
            *out += "</dl>\n";
        }
        *out += "<dl>";
        if let Some(version) = &run.hertzd {
            let process = run.pid.map_or_else(String::new, |pid| format!(", process {pid}"));
            let _ = write!(out, "<dt>hertzd</dt><dd>{}{process}</dd>", Text(version));
        }
        let _ = match run.length_ns {
            Some(length) => write!(out, "<dt>Time covered</dt><dd>{}</dd>", span(length)),
            None => write!(out, "<dt>Time covered</dt><dd>A summary does not say how long the run was.</dd>"),
        };
        if let Some(began) = run.began_utc_ns {
            let _ = write!(out, "<dt>From</dt><dd>{}</dd>", utc(began));
        }
        *out += "</dl>\n";
        let Some(workers) = available(out, &run.workers) else { return };
        table_begin(
            out,
            "Workers",
            "The workers, and what the kernel granted them",
            &[
                ("Worker", false),
                ("Granted", false),
                ("CPUs", false),
                ("Memory", false),
                ("CPU share", true),
                ("Spinning", true),
            ],
        );
        for worker in workers.iter().take(WORKERS) {
            let mut granted = Text(&worker.policy.to_string()).to_string();
            if let Some(asked) = &worker.asked {
                granted += &format!(" <strong class=\"bad\">(asked for {})</strong>", Text(asked));
            }
            let cpus = match &worker.cpus {
                None => "not available".into(),
                Some(cpus) if cpus.is_empty() => "not pinned".into(),
                Some(cpus) => list(&cpus[..cpus.len().min(16)]),
            };
            let memory = match worker.memory_locked {
                None => "not available",
                Some(true) => "locked",
                Some(false) => "not locked",
            };
            let percent = |share: Option<f64>| {
                share.map_or("not available".into(), |share| format!("{:.1}\u{A0}%", share * 100.0))
            };
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{}</th><td>{granted}</td><td>{cpus}</td><td>{memory}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                Name(&worker.worker),
                percent(worker.cpu_share),
                percent(worker.spin_share)
            );
        }
        table_end(out);
        rest(out, workers.len(), WORKERS, "workers");
        let refused: Vec<_> = workers.iter().flat_map(|worker| &worker.refused).take(NOTES).collect();
        if !refused.is_empty() {
            *out += "<h3>What the kernel refused</h3><ul>";
            refused.iter().for_each(|refused| _ = write!(out, "<li>{}</li>", Text(refused)));
            *out += "</ul>\n";
        }
    }

    pub(super) fn tasks(&self, out: &mut String) {
        *out += "<h2 id=\"tasks\">Tasks</h2>\n<p>Releases that came up, and what became of them: met + missed + pending = due.</p>\n";
        table_begin(
            out,
            "Tasks",
            "The counts of each task; lateness and run as times",
            &[
                ("Task", false),
                ("Worker", false),
                ("Rate", true),
                ("Due", true),
                ("Met", true),
                ("Missed", true),
                ("Share", true),
                ("Skipped", true),
                ("Overruns", true),
                ("Pending", true),
                ("Errors", true),
                ("Lateness p50", true),
                ("p99", true),
                ("max", true),
                ("Run p50", true),
                ("p99", true),
                ("State", false),
            ],
        );
        for task in self.run.tasks.iter().take(self.detail.rows) {
            let counts = &task.counts.releases;
            let pending = counts.pending.unwrap_or(0);
            let errors = task.counts.errors.map_or("not available".into(), grouped);
            let _ = write!(
                out,
                "<tr data-task=\"{}\" data-due=\"{}\" data-met=\"{}\" data-missed=\"{}\" data-pending=\"{}\" data-ran=\"{}\" data-skipped=\"{}\" data-overruns=\"{}\"{}><th scope=\"row\">{}</th>",
                Text(&task.task),
                counts.due,
                counts.met,
                counts.missed,
                pending,
                counts.ran,
                counts.skipped,
                counts.overruns,
                if counts.missed > 0 { " class=\"missing\"" } else { "" },
                Name(&task.task)
            );
            let worker = task.worker.as_ref().map_or("not available".into(), |worker| Name(worker).to_string());
            let _ = write!(out, "<td>{worker}</td><td class=\"n\">{}</td>", rate(task.rate.as_deref()));
            let numbers = [counts.due, counts.met].map(grouped);
            numbers.iter().for_each(|number| _ = write!(out, "<td class=\"n\">{number}</td>"));
            let missed = [grouped(counts.missed), share(counts.missed, counts.due)];
            missed.iter().for_each(|number| _ = write!(out, "<td class=\"n miss\">{number}</td>"));
            let numbers = [grouped(counts.skipped), grouped(counts.overruns), grouped(pending), errors];
            numbers.iter().for_each(|number| _ = write!(out, "<td class=\"n\">{number}</td>"));
            let of = |part: &Available<Spread>, which: fn(&Distribution) -> i64| match part.known() {
                Some(spread) if spread.all.count > 0 => span(which(&spread.all)),
                Some(_) => "none".into(),
                None => "not available".into(),
            };
            let (late, run) = (&task.lateness_ns, &task.run_ns);
            let times =
                [of(late, |s| s.p50), of(late, |s| s.p99), of(late, |s| s.max), of(run, |s| s.p50), of(run, |s| s.p99)];
            times.iter().for_each(|time| _ = write!(out, "<td class=\"n\">{time}</td>"));
            let _ = write!(
                out,
                "<td>{}</td></tr>",
                task.state.as_ref().map_or("not available".into(), |state| Name(state).to_string())
            );
        }
        table_end(out);
        rest(out, self.run.tasks.len(), self.detail.rows, "tasks");
    }
}

pub(super) fn words(out: &mut String) {
    *out += "<h2 id=\"words\">Words</h2>\n<dl>";
    for (word, meaning) in [
        ("release", "the instant at which a tick is meant to start"),
        ("lateness", "started − release"),
        ("run", "finished − started, interruptions included"),
        ("response", "finished − release"),
        ("missed", "releases that were skipped, and ticks that finished after their deadline (overruns)"),
        ("pending", "due, but neither finished nor past the deadline"),
        ("p50, p99", "half of the values, and 99 % of them, are at most this"),
    ] {
        let _ = write!(out, "<dt>{word}</dt><dd>{meaning}</dd>");
    }
    *out += "</dl>\n";
}
