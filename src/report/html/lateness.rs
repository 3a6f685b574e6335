//! The lateness of each task, in total and over time. Pure.

use super::chart::{self, Words};
use super::sections::Sections;
use super::table::{describe, numbers, numbers_begin, rest, without_tables};
use super::text::{Name, Text, span};
use crate::report::verdict::grouped;
use std::fmt::Write as _;

impl Sections<'_> {
    pub(super) fn histograms(&self, out: &mut String) {
        *out += "<h2 id=\"histograms\">Lateness of each task</h2>\n\
                 <p>Lateness is started − release. Both axes are logarithmic: a tail of one tick in a million shows. What is below 10\u{A0}ns is drawn at 10\u{A0}ns.</p>\n";
        let tasks = self.ordered();
        *out += "<div class=\"many\">\n";
        for (index, task) in tasks.iter().take(self.detail.histograms).enumerate() {
            let Some(spread) = task.lateness_ns.known().filter(|spread| spread.all.count > 0) else {
                let why = task.lateness_ns.why_not().unwrap_or("No release of it has a lateness.");
                let _ = write!(out, "<div><h3>{}</h3><p class=\"untold\">{}</p></div>", Name(&task.task), Text(why));
                continue;
            };
            let description = describe(spread);
            let _ = write!(out, "<figure><figcaption>{}</figcaption>", Name(&task.task));
            let title = format!("Histogram of the lateness of {}", Name(&task.task).plain());
            let words = Words { id: &format!("h{index}"), title: &title, description: &description };
            chart::histogram(out, &words, &[spread], "lateness, log scale");
            let _ = write!(out, "<p class=\"quiet\">{description}</p>");
            if self.detail.tables {
                let label = format!("Lateness of {}", Name(&task.task).plain());
                numbers_begin(out, &label, &["At most", "Count"]);
                spread.histogram.iter().for_each(|(edge, count)| numbers(out, &[span(*edge), grouped(*count)]));
                *out += "</table></div></details>";
            }
            *out += "</figure>\n";
        }
        *out += "</div>\n";
        without_tables(out, self.detail.tables);
        rest(out, tasks.len(), self.detail.histograms, "tasks, those that missed most");
    }

    pub(super) fn over_time(&self, out: &mut String) {
        *out += "<h2 id=\"over-time\">Lateness over time</h2>\n";
        let tasks = self.ordered();
        let (Some(stretch), Some(length)) = (self.run.bin_ns, self.run.length_ns) else {
            let why = tasks.first().and_then(|task| task.over_time.why_not());
            let _ = writeln!(out, "<p class=\"untold\">{}</p>", Text(why.unwrap_or("There is no task.")));
            return;
        };
        let _ = write!(
            out,
            "<p>The largest lateness, p99 and p50 of the ticks in each stretch of {}, and above them the releases that were missed in it, on a logarithmic scale of their own.</p>\
             <ul class=\"key\"><li><svg viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"line max\" d=\"M0 6H36\"/></svg>max (solid)</li>\
             <li><svg viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"line p99\" d=\"M0 6H36\"/></svg>p99 (dashed)</li>\
             <li><svg viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"line p50\" d=\"M0 6H36\"/></svg>p50 (dotted)</li>\
             <li><svg viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"missed\" d=\"M12 12V2H24V12\"/></svg>missed (bars above)</li></ul>\n<div class=\"many\">\n",
            span(stretch)
        );
        for (index, task) in tasks.iter().take(self.detail.over_time).enumerate() {
            let name = Name(&task.task);
            let Some(bins) = task.over_time.known() else {
                let _ = write!(
                    out,
                    "<div><h3>{name}</h3><p class=\"untold\">{}</p></div>",
                    Text(task.over_time.why_not().unwrap_or_default())
                );
                continue;
            };
            let worst = bins.iter().max_by_key(|bin| bin.max_ns);
            let worst = worst.map_or("No tick.".into(), |bin| {
                format!(
                    "Latest by {}, in the stretch from {} on. {} missed in all.",
                    span(bin.max_ns),
                    span(bin.begin_ns),
                    grouped(task.counts.releases.missed)
                )
            });
            let _ = write!(out, "<figure><figcaption>{name}</figcaption>");
            let title = format!("Lateness of {} over time", name.plain());
            let words = Words { id: &format!("o{index}"), title: &title, description: &worst };
            chart::over_time(out, &words, bins, stretch, length);
            let _ = write!(out, "<p class=\"quiet\">{worst}</p>");
            numbers_begin(out, &title, &["From", "Due", "Missed", "p50", "p99", "max"]);
            for bin in bins {
                let time = |nanos: i64| if bin.ticks == 0 { "no tick".into() } else { span(nanos) };
                let (due, missed) = (grouped(bin.releases.due), grouped(bin.releases.missed));
                numbers(out, &[span(bin.begin_ns), due, missed, time(bin.p50_ns), time(bin.p99_ns), time(bin.max_ns)]);
            }
            *out += "</table></div></details></figure>\n";
        }
        *out += "</div>\n";
        rest(out, tasks.len(), self.detail.over_time, "tasks, those that missed most");
    }
}
