//! The age of the data used by tasks at the end of a chain. Pure.

use super::sections::Sections;
use super::table::{rest, table_begin, table_end};
use super::text::{Name, span};
use crate::report::verdict::grouped;
use std::fmt::Write as _;

impl Sections<'_> {
    /// Writes nothing if no chain ends, or the source does not say.
    pub(super) fn ages(&self, out: &mut String) {
        let with_ages: Vec<_> = self.run.tasks.iter().filter_map(|task| Some((task, task.ages.as_ref()?))).collect();
        if with_ages.is_empty() {
            return;
        }
        *out += "<h3 id=\"ages\">How old what they used was</h3>\n<p>Of each task with which a chain ends: the time from the release of the oldest \
                 measurement behind what a tick used to the end of that tick. A late chain is a tick that used one older than <code>max-latency</code>.</p>\n";
        let head = [
            ("Task", false),
            ("Ticks", true),
            ("p50", true),
            ("p99", true),
            ("max", true),
            ("max-latency", true),
            ("Late chains", true),
        ];
        table_begin(out, "Ages", "How old what each task used was", &head);
        for (task, ages) in with_ages.iter().take(self.detail.rows) {
            let of = |nanos: i64| if ages.age_ns.all.count > 0 { span(nanos) } else { "none".into() };
            let cells = [
                grouped(ages.age_ns.all.count),
                of(ages.age_ns.all.p50),
                of(ages.age_ns.all.p99),
                of(ages.age_ns.all.max),
                ages.max_latency_ns.map_or("no limit".into(), span),
                ages.late_chains.map_or("no limit".into(), grouped),
            ];
            let class = if ages.late_chains.is_some_and(|late| late > 0) { " class=\"missing\"" } else { "" };
            let _ = write!(out, "<tr{class}><th scope=\"row\">{}</th>", Name(&task.task));
            cells.iter().for_each(|cell| _ = write!(out, "<td class=\"n\">{cell}</td>"));
            *out += "</tr>";
        }
        table_end(out);
        rest(out, with_ages.len(), self.detail.rows, "tasks with which a chain ends");
    }
}

#[cfg(test)]
mod tests {
    use crate::report::{of_summary, page};
    use serde_json::json;

    #[test]
    fn ages_are_shown_where_a_chain_ends() {
        let age = json!({"count": 1000, "min": 1_000, "p50": 2_000_000, "p90": 3_000_000, "p99": 8_000_000, "p99_9": 9_000_000, "max": 31_000_000,
            "at_most": [[5_000_000, 990], [50_000_000, 1000]]});
        let shown = |limit: bool, ages: bool| {
            let mut act =
                json!({"task": "act", "worker": "main", "rate": "100/1", "due": 1000, "met": 1000, "missed": 0});
            if ages {
                act["age_ns"] = age.clone();
            }
            if limit {
                (act["max_latency_ns"], act["late_chains"]) = (20_000_000.into(), 4.into());
            }
            page(&of_summary(&json!({"version": 1, "well": true, "tasks": [act]}), "x").unwrap(), "test")
        };
        assert!(!shown(false, false).contains("id=\"ages\""));
        let cell = |text: &str| format!("<td class=\"n\">{text}</td>");
        let limited = shown(true, true);
        for text in ["1,000", "2.00\u{A0}ms", "8.00\u{A0}ms", "31.0\u{A0}ms", "20.0\u{A0}ms", "4"] {
            assert!(limited.contains(&cell(text)), "{text}: {limited}");
        }
        let rest = format!("{}{}</tr>", cell("no limit"), cell("no limit"));
        assert!(shown(false, true).contains(&rest));
    }
}
