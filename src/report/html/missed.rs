//! What was missed: the causes, the worst misses and the worst second. Pure.

use super::chart::{self, Words};
use super::second;
use super::sections::Sections;
use super::table::{available, details_begin, rest, table_begin, table_end};
use super::text::{Name, Text, span, utc};
use crate::log::advice;
use crate::report::model::{Available, Kind, Miss, SecondOfTask};
use crate::report::verdict::{grouped, share};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum number of ticks in the table of the worst second.
const SECOND_ROWS: usize = 60;

/// Maximum number of a task's blockers in a table.
const BLOCKERS: usize = 5;

const SECOND: i64 = 1_000_000_000;

impl Sections<'_> {
    pub(super) fn causes(&self, out: &mut String) {
        *out += "<h2 id=\"causes\">Causes</h2>\n";
        let mut causes = BTreeMap::<&str, u64>::new();
        for (cause, count) in self.run.tasks.iter().flat_map(|task| &task.causes) {
            let sum = causes.entry(cause).or_default();
            *sum = sum.saturating_add(*count);
        }
        let mut causes: Vec<_> = causes.into_iter().collect();
        causes.sort_by_key(|(_, count)| Reverse(*count));
        let all = causes.iter().fold(0, |all: u64, (_, count)| all.saturating_add(*count));
        if all == 0 {
            *out += "<p>No release was missed, so there is no cause to show.</p>\n";
            return;
        }
        *out += "<p>Each missed release has one cause; they add up to missed.</p>\n";
        let head = [
            ("Cause", false),
            ("Releases", true),
            ("Share", true),
            ("", false),
            ("What it means", false),
            ("What to change", false),
        ];
        let advice: BTreeMap<_, _> = advice().collect();
        table_begin(out, "Causes", "Missed releases of all tasks by cause", &head);
        for (cause, count) in causes {
            let _ = write!(
                out,
                "<tr data-cause=\"{0}\" data-count=\"{count}\"><th scope=\"row\">{0}</th><td class=\"n\">{1}</td><td class=\"n\">{2}</td><td>",
                Text(cause),
                grouped(count),
                share(count, all)
            );
            chart::bar(out, portion(count, all));
            let (meaning, change) = advice
                .get(cause)
                .map_or(("This recording does not say why these releases were missed.", ""), |advice| {
                    (advice.meaning, advice.change)
                });
            let _ = write!(
                out,
                "</td><td class=\"long\">{}</td><td class=\"long\">{}</td></tr>",
                code(meaning),
                code(change)
            );
        }
        table_end(out);
        let missed: Vec<_> = self.ordered().into_iter().filter(|task| task.counts.releases.missed > 0).collect();
        table_begin(
            out,
            "Causes by task",
            "The causes of each task that missed a release",
            &[("Task", false), ("Missed", true), ("Causes", false), ("Blocked by", false)],
        );
        for task in missed.iter().take(self.detail.rows) {
            let list = |pairs: &[(String, u64)]| {
                let shown =
                    pairs.iter().take(BLOCKERS).map(|(name, count)| format!("{} {}", Name(name), grouped(*count)));
                let mut text = shown.collect::<Vec<_>>().join(", ");
                if pairs.len() > BLOCKERS {
                    text += &format!(" and {} more", pairs.len() - BLOCKERS);
                }
                text
            };
            let causes: Vec<_> =
                task.causes.iter().map(|(cause, count)| format!("{} {}", Text(cause), grouped(*count))).collect();
            let blockers = match &task.blockers {
                Available::Known(blockers) if blockers.is_empty() => "none".into(),
                Available::Known(blockers) => list(blockers),
                Available::Not { .. } => "not available".into(),
            };
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td>{}</td><td>{blockers}</td></tr>",
                Name(&task.task),
                grouped(task.counts.releases.missed),
                causes.join(", ")
            );
        }
        table_end(out);
        rest(out, missed.len(), self.detail.rows, "tasks that missed a release");
    }

    pub(super) fn worst(&self, out: &mut String) {
        *out += "<h2 id=\"worst\">The worst misses</h2>\n";
        let Some(misses) = available(out, &self.run.worst_misses) else { return };
        if misses.is_empty() {
            *out += match self.run.source.kind {
                Kind::Snapshot => "<p>The daemon knows of no missed release.</p>\n",
                _ => "<p>No tick missed a release.</p>\n",
            };
            return;
        }
        if self.run.source.kind == Kind::Snapshot {
            *out += "<p>A running daemon keeps the most recent misses of each task: these are the worst of those, not of the whole run.</p>\n";
        }
        *out += "<ol class=\"worst\">\n";
        for miss in misses {
            self.miss(out, miss);
        }
        *out += "</ol>\n";
    }

    fn miss(&self, out: &mut String, miss: &Miss) {
        let _ = write!(out, "<li data-missed=\"{}\"><h3>{}: {}", miss.missed, Name(&miss.task), Text(&miss.cause));
        if let Some(by) = &miss.by {
            let _ = write!(out, " by {}", Name(by));
        }
        if let Some(worst) = miss.worst_ns {
            let _ = write!(out, ", {}", span(worst));
        }
        *out += "</h3>";
        if let Some(at) = miss.at_ns {
            let utc = self.run.began_utc_ns.map_or_else(String::new, |began| format!(" ({})", utc(began + at)));
            let _ = write!(
                out,
                "<p class=\"quiet\">{} from the beginning{utc}; {} missed</p>",
                span(at),
                grouped(miss.missed)
            );
        }
        let _ = writeln!(out, "<p>{}</p></li>", Text(&miss.story));
    }

    pub(super) fn second(&self, out: &mut String) {
        *out += "<h2 id=\"second\">The worst second</h2>\n";
        let Some(worst) = available(out, &self.run.worst_second) else { return };
        let which = if worst.missed > 0 {
            format!("The second with the most missed releases: {}.", grouped(worst.missed))
        } else {
            "No release was missed: this is the second with the latest tick.".into()
        };
        let when = self.run.began_utc_ns.map_or_else(String::new, |began| format!(", {}", utc(began + worst.begin_ns)));
        let _ = writeln!(
            out,
            "<p>{which} It begins {} from the beginning{when}.</p><p>Each lane is a task. A column is as high as the share of its time in which the task ran, with the share in which a tick waited on top; a triangle stands at a tick in which something was missed.</p>\
             <ul class=\"key\"><li><svg viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"bar\" d=\"M8 12V4H28V12\"/></svg>ran (below)</li>\
             <li><svg viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"waited\" d=\"M8 12V4H28V12\"/></svg>waited after its release (on top)</li>\
             <li><svg viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"missed\" d=\"M14 2h8l-4 8z\"/></svg>missed (triangle)</li></ul>",
            span(worst.begin_ns)
        );
        let mut tasks: Vec<_> = worst.tasks.iter().collect();
        let missed = |task: &SecondOfTask| task.ticks.iter().map(|tick| tick.missed).sum::<u64>();
        let busy = |task: &SecondOfTask| task.ticks.iter().map(|tick| tick.finished_ns - tick.started_ns).sum::<i64>();
        tasks.sort_by_key(|task| Reverse((missed(task), busy(task))));
        let count = tasks.len();
        tasks.truncate(self.detail.lanes);
        let all = tasks.iter().flat_map(|task| task.ticks.iter().map(move |tick| (task, tick)));
        let latest = all.clone().max_by_key(|(_, tick)| tick.finished_ns - tick.release_ns);
        lanes(
            out,
            "s0",
            "The worst second",
            &format!("{count} tasks ran in it; {} missed.", grouped(worst.missed)),
            &tasks,
            (0, SECOND),
        );
        if let Some((task, tick)) = latest {
            let response = (tick.finished_ns - tick.release_ns).max(1_000_000);
            let (from, to) = (tick.release_ns.saturating_sub(response), tick.finished_ns.saturating_add(response));
            if to - from < SECOND / 2 {
                let _ = write!(
                    out,
                    "<h3>Around its longest response</h3><p>Tick {} of {}, from {} before its release to as long after its end.</p>",
                    tick.n,
                    Name(&task.task),
                    span(response)
                );
                lanes(
                    out,
                    "s1",
                    "Around the longest response",
                    &format!("Its response was {}.", span(tick.finished_ns - tick.release_ns)),
                    &tasks,
                    (from, to),
                );
            }
        }
        rest(out, count, self.detail.lanes, "tasks, those that missed most in it");
        for task in tasks.iter().filter(|task| task.left_out > 0) {
            let _ = write!(out, "<p>{} more ticks of {} are not drawn.</p>", grouped(task.left_out), Name(&task.task));
        }
        second_table(out, &tasks);
    }
}

fn lanes(out: &mut String, id: &str, title: &str, description: &str, tasks: &[&SecondOfTask], between: (i64, i64)) {
    let _ = write!(out, "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{title}, a chart\">");
    second::lanes(out, &Words { id, title, description }, tasks, between);
    *out += "</div>\n";
}

fn second_table(out: &mut String, tasks: &[&SecondOfTask]) {
    let all = tasks.iter().flat_map(|task| task.ticks.iter().map(move |tick| (task, tick)));
    let mut ticks: Vec<_> = all.collect();
    let total = ticks.len();
    // The ticks that matter most, in order of time.
    ticks.sort_by_key(|(_, tick)| Reverse((tick.missed, tick.finished_ns - tick.release_ns)));
    ticks.truncate(SECOND_ROWS);
    ticks.sort_by_key(|(_, tick)| tick.release_ns);
    let title = if total > SECOND_ROWS {
        format!("Numbers of the worst {SECOND_ROWS} of {total} ticks")
    } else {
        "Numbers".into()
    };
    let head = [
        ("Task", false),
        ("Tick", true),
        ("Release", true),
        ("Lateness", true),
        ("Run", true),
        ("Missed", true),
        ("Cause", false),
    ];
    details_begin(out, &title, "Ticks of the worst second", &head);
    for (task, tick) in ticks {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            Name(&task.task),
            tick.n,
            span(tick.release_ns),
            span(tick.started_ns - tick.release_ns),
            span(tick.finished_ns - tick.started_ns),
            tick.missed,
            Text(tick.cause.as_deref().unwrap_or("none missed"))
        );
    }
    *out += "</tbody></table></div></details>\n";
}

/// Text in which words in backticks become code.
fn code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(
            |(index, part)| {
                if index % 2 == 1 { format!("<code>{}</code>", Text(part)) } else { Text(part).to_string() }
            },
        )
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
fn portion(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}
