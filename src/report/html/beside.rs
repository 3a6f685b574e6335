//! The page of two runs beside each other. Pure.

use super::chart::{self, Words};
use super::detail::Detail;
use super::table::{describe, numbers, numbers_begin, rest, table_begin, table_end, without_tables};
use super::text::{Name, Text, span};
use crate::measure::{Rounds, Verdict};
use crate::report::compare::{Comparison, Number, Pair, RoundsAre, What};
use crate::report::model::{Run, Task};
use crate::report::verdict::{compared, grouped, share, verdict};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum number of notes of each side, and of differences between the machines.
const NOTES: usize = 20;

/// Maximum number of listed tasks that only one side has.
const NAMES: usize = 10;

pub(super) struct Beside<'a> {
    pub(super) sides: [&'a Run; 2],
    pub(super) comparison: &'a Comparison,
    pub(super) detail: Detail,
}

impl Beside<'_> {
    pub(super) fn write(&self, out: &mut String) {
        self.top(out);
        self.method(out);
        self.differs(out);
        self.numbers(out);
        self.counts(out);
        self.histograms(out);
        self.causes(out);
    }

    fn top(&self, out: &mut String) {
        let [a, b] = self.sides;
        let _ = write!(
            out,
            "<header>\n<h1>Two runs beside each other</h1>\n<p class=\"verdict\" id=\"verdict\">{}</p>\n<dl><dt>A: {}</dt><dd>{}</dd><dt>B: {}</dt><dd>{}</dd></dl>\n</header>\n<nav aria-label=\"Sections\"><ul>",
            Text(&compared(self.comparison)),
            Name(&a.source.name),
            Text(&verdict(a)),
            Name(&b.source.name),
            Text(&verdict(b))
        );
        for (id, name) in [
            ("method", "How it is decided"),
            ("differs", "What else differs"),
            ("numbers", "Numbers"),
            ("tasks", "Counts"),
            ("histograms", "Lateness"),
            ("causes", "Causes"),
        ] {
            let _ = write!(out, "<li><a href=\"#{id}\">{name}</a></li>");
        }
        *out += "</ul></nav>\n<main>\n";
    }

    fn method(&self, out: &mut String) {
        *out += "<h2 id=\"method\">How it is decided</h2>\n\
            <p>How much a number differs from itself is the noise. So each side is several rounds of the same thing. A difference is significant if every round of one side lies on the same side of every round of the other, and their medians are further apart than the rounds of either are among themselves. Of ten rounds or more the outermost tenth on each side does not count. With fewer than five rounds nothing is judged.</p>\n";
        for (side, rounds) in ["A", "B"].into_iter().zip(self.comparison.rounds) {
            let text = match rounds {
                RoundsAre::Runs => {
                    "The rounds are the runs in its file, one after the other; so what differs from run to run is in the noise. Its values in the tables are those of the last."
                }
                RoundsAre::Stretches => {
                    "The rounds are ten equal stretches of its one run, those with 100 releases or more; a percentile of a round is the median of those of its parts. What differs from run to run is not in them: a significant difference is one between these two runs, whatever made it."
                }
                RoundsAre::One => {
                    "It is a single round: its numbers are shown, and not judged. Several summaries in one file (<code>for i in 1 2 3 4 5; do hertzd run --for 10s --json; done &gt; a.json</code>) are rounds, and so are the stretches of a flight file or a recording."
                }
            };
            let _ = writeln!(out, "<p><strong>{side}:</strong> {text}</p>");
        }
        let (judged, significant) = self.comparison.counts();
        if judged > 0 {
            let _ = writeln!(
                out,
                "<p>{judged} numbers are judged here, and {significant} of them differ significantly. With five rounds on each side, chance alone puts all of one above the other in one of 126 comparisons, with more rounds less often: the more numbers there are, the more of them to expect by chance{}.</p>",
                if judged >= 126 { format!(", here up to about {}", judged.div_ceil(126)) } else { String::new() }
            );
        }
    }

    fn differs(&self, out: &mut String) {
        *out += "<h2 id=\"differs\">What else differs</h2>\n";
        let Comparison { differs, only, .. } = self.comparison;
        let mut lines: Vec<String> = differs.iter().take(NOTES).map(|line| Text(line).to_string()).collect();
        for (side, names) in ["A", "B"].into_iter().zip(only).filter(|(_, names)| !names.is_empty()) {
            let shown: Vec<_> = names.iter().take(NAMES).map(|name| Name(name).to_string()).collect();
            let more = names.len().saturating_sub(NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.push(format!("Only {side} has: {}{more}.", shown.join(", ")));
        }
        for (side, run) in ["A", "B"].into_iter().zip(self.sides) {
            lines.extend(run.notes.iter().take(NOTES).map(|note| format!("Of {side}: {}", Text(note))));
        }
        if lines.is_empty() {
            *out += "<p>Machine, grants and tasks are the same in both.</p>\n";
            return;
        }
        *out += "<ul>";
        lines.iter().for_each(|line| _ = write!(out, "<li>{line}</li>"));
        *out += "</ul>\n";
    }

    /// The pairs of tasks, those with significant differences first.
    fn ordered(&self) -> Vec<&Pair> {
        let mut pairs: Vec<_> = self.comparison.tasks.iter().collect();
        let significant =
            |pair: &Pair| pair.numbers.iter().filter(|number| number.verdict == Verdict::Significant).count();
        pairs.sort_by_key(|pair| Reverse(significant(pair)));
        pairs
    }

    fn numbers(&self, out: &mut String) {
        *out += "<h2 id=\"numbers\">Numbers</h2>\n";
        let head = [
            ("Task", false),
            ("Number", false),
            ("A", true),
            ("B", true),
            ("Verdict", false),
            ("Rounds of A: median (least to most)", false),
            ("Rounds of B: median (least to most)", false),
        ];
        table_begin(out, "Numbers", "Each number of both, and whether they differ", &head);
        let pairs = self.ordered();
        for pair in pairs.iter().take(self.detail.rows / 3) {
            for number in &pair.numbers {
                row(out, &pair.task, number);
            }
        }
        table_end(out);
        rest(out, pairs.len(), self.detail.rows / 3, "tasks, significant differences first");
    }

    fn both(&self) -> impl Iterator<Item = [&Task; 2]> {
        let find = |run: &'_ Run, name: &str| run.tasks.iter().position(|task| task.task == name);
        self.ordered().into_iter().filter_map(move |pair| {
            let [a, b] = self.sides;
            Some([&a.tasks[find(a, &pair.task)?], &b.tasks[find(b, &pair.task)?]])
        })
    }

    fn counts(&self, out: &mut String) {
        *out += "<h2 id=\"tasks\">Counts</h2>\n";
        let head = [
            ("Task", false),
            ("Due A", true),
            ("Due B", true),
            ("Missed A", true),
            ("Missed B", true),
            ("Share A", true),
            ("Share B", true),
        ];
        table_begin(out, "Counts", "Releases that came up, and those that were missed", &head);
        for [a, b] in self.both().take(self.detail.rows) {
            let _ = write!(
                out,
                "<tr data-pair=\"{}\" data-due-a=\"{}\" data-due-b=\"{}\" data-missed-a=\"{}\" data-missed-b=\"{}\"><th scope=\"row\">{}</th>",
                Text(&a.task),
                a.counts.releases.due,
                b.counts.releases.due,
                a.counts.releases.missed,
                b.counts.releases.missed,
                Name(&a.task)
            );
            let (one, other) = (&a.counts.releases, &b.counts.releases);
            let cells = [
                grouped(one.due),
                grouped(other.due),
                grouped(one.missed),
                grouped(other.missed),
                share(one.missed, one.due),
                share(other.missed, other.due),
            ];
            cells.iter().for_each(|cell| _ = write!(out, "<td class=\"n\">{cell}</td>"));
            *out += "</tr>";
        }
        table_end(out);
        rest(out, self.comparison.tasks.len(), self.detail.rows, "tasks");
    }

    fn histograms(&self, out: &mut String) {
        *out += "<h2 id=\"histograms\">Lateness of each task</h2>\n\
            <p>A is filled, B is the outline. Counts depend on how long each ran; shapes can be compared where both are of the same kind of source.</p>\n<div class=\"many\">\n";
        for (index, [a, b]) in self.both().take(self.detail.histograms).enumerate() {
            let (Some(one), Some(other)) = (a.lateness_ns.known(), b.lateness_ns.known()) else {
                let why = a.lateness_ns.why_not().or(b.lateness_ns.why_not()).unwrap_or_default();
                let _ = write!(out, "<div><h3>{}</h3><p class=\"untold\">{}</p></div>", Name(&a.task), Text(why));
                continue;
            };
            let (of_a, of_b) = (describe(one), describe(other));
            let title = format!("Lateness of {} in both", Name(&a.task).plain());
            let description = format!("A: {of_a} B: {of_b}");
            let _ = write!(out, "<figure><figcaption>{}</figcaption>", Name(&a.task));
            let words = Words { id: &format!("h{index}"), title: &title, description: &description };
            chart::histogram(out, &words, &[one, other], "lateness, log scale");
            let _ = write!(out, "<p class=\"quiet\">A (filled): {of_a}</p><p class=\"quiet\">B (outline): {of_b}</p>");
            if self.detail.tables {
                numbers_begin(out, &title, &["At most", "A", "B"]);
                let mut steps = BTreeMap::<i64, [Option<u64>; 2]>::new();
                for (side, spread) in [one, other].into_iter().enumerate() {
                    spread
                        .histogram
                        .iter()
                        .for_each(|(edge, count)| steps.entry(*edge).or_default()[side] = Some(*count));
                }
                for (edge, counts) in steps {
                    let cell = |count: Option<u64>| count.map_or("none".into(), grouped);
                    let [a, b] = counts.map(cell);
                    numbers(out, &[span(edge), a, b]);
                }
                *out += "</table></div></details>";
            }
            *out += "</figure>\n";
        }
        *out += "</div>\n";
        without_tables(out, self.detail.tables);
        rest(out, self.comparison.tasks.len(), self.detail.histograms, "tasks, significant differences first");
    }

    fn causes(&self, out: &mut String) {
        *out += "<h2 id=\"causes\">Causes</h2>\n";
        let mut causes = BTreeMap::<&str, [u64; 2]>::new();
        for (side, run) in self.sides.iter().enumerate() {
            for (cause, count) in run.tasks.iter().flat_map(|task| &task.causes) {
                causes.entry(cause).or_default()[side] += count;
            }
        }
        if causes.is_empty() {
            *out += "<p>Neither missed a release.</p>\n";
            return;
        }
        table_begin(
            out,
            "Causes",
            "Missed releases of all tasks by cause",
            &[("Cause", false), ("A", true), ("B", true)],
        );
        for (cause, [a, b]) in causes {
            let cause = Text(cause);
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{cause}</th><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                grouped(a),
                grouped(b)
            );
        }
        table_end(out);
    }
}

fn row(out: &mut String, task: &str, number: &Number) {
    let written = |value: i64| written(number.what, value);
    let what = number.what.words();
    let values = number.values.map(|value| value.map_or("not available".into(), written));
    let rounds = number.rounds.map(|rounds| match rounds {
        Some(Rounds { count, median_ns, least_ns, most_ns }) if count > 1 => {
            format!("{count}: {} ({} to {})", written(median_ns), written(least_ns), written(most_ns))
        }
        Some(_) => "1".into(),
        None => "0".into(),
    });
    let (class, verdict) = match number.verdict {
        Verdict::Significant => (" class=\"bad\"", "significant"),
        Verdict::Noise => ("", "noise"),
        Verdict::TooFewRounds => ("", "not judged"),
    };
    let ([a, b], [of_a, of_b]) = (values, rounds);
    let _ = write!(
        out,
        "<tr data-number=\"{what}\" data-verdict=\"{verdict}\"><th scope=\"row\">{}</th><td>{what}</td><td class=\"n\">{a}</td><td class=\"n\">{b}</td><td{class}>{verdict}</td><td>{of_a}</td><td>{of_b}</td></tr>",
        Name(task)
    );
}

/// A time; or missed releases per million, as a share.
fn written(what: What, value: i64) -> String {
    match what {
        What::MissedPerMillion => share(u64::try_from(value).unwrap_or(0), 1_000_000),
        What::LatenessP50 | What::LatenessP99 => span(value),
    }
}
