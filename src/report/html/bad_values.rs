//! The values that were bad at the end. Pure.

use super::sections::Sections;
use super::table::{available, rest, table_begin, table_end};
use super::text::{Name, Text};
use std::fmt::Write as _;

impl Sections<'_> {
    /// Writes nothing if none was bad.
    pub(super) fn bad_values(&self, out: &mut String) {
        if self.run.bad_values.known().is_some_and(Vec::is_empty) {
            return;
        }
        *out += "<h3 id=\"bad-values\">Bad values</h3>\n";
        let Some(bad) = available(out, &self.run.bad_values) else { return };
        *out += "<p>What must not be used, at the end of the time covered.</p>\n";
        let head = [("Value", false), ("Reason", false), ("Bad for how long, and why", false), ("Last good", true)];
        table_begin(out, "Bad values", "The values that were bad at the end", &head);
        for value in bad.iter().take(self.detail.rows) {
            let reading = &value.reading;
            let trouble = reading.trouble().unwrap_or_default();
            let last = reading.last_good.map_or("none".into(), |last| format!("{last} {}", reading.unit));
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"n\">{}</td></tr>",
                Name(&format!("{}.{}", value.task, value.value)),
                Text(reading.reason.as_deref().unwrap_or_default()),
                Text(&trouble),
                Text(last.trim_end())
            );
        }
        table_end(out);
        rest(out, bad.len(), self.detail.rows, "bad values");
    }
}

#[cfg(test)]
mod tests {
    use crate::report::{of_summary, page};
    use serde_json::json;

    #[test]
    fn bad_values_are_listed_with_their_reason_and_last_good_number() {
        let bad = json!({"last": null, "last_good": 9.5, "unit": "\u{b0}C", "quality": "bad", "reason": "out-of-range",
            "since_ns": 12_000_000_000_i64, "refused": 16, "valid": [0, 10]});
        let never = json!({"quality": "bad", "reason": "unavailable", "since_ns": 3_000_000_000_i64});
        let page_of = |values: &serde_json::Value| {
            let summary = json!({"version": 1, "well": true, "tasks": [{"task": "oven", "values": values}]});
            let run = of_summary(&summary, "x").unwrap();
            (page(&run, "hertzd"), serde_json::to_value(&run).unwrap()["bad_values"].clone())
        };
        let (html, data) = page_of(&json!({"good": {"last": 1, "quality": "good"}, "never": never, "temp": bad}));
        let rows: Vec<_> = html.split("id=\"bad-values\"").nth(1).unwrap().split("<tr>").skip(1).collect();
        for (row, wanted) in [
            (rows[1], ["oven.never", "unavailable", "bad for 3.00 s: its source is not there", "none"]),
            (rows[2], ["oven.temp", "out-of-range", "bad for 12.0 s: 16 is outside valid 0 to 10", "9.5 \u{b0}C"]),
        ] {
            assert!(wanted.iter().all(|part| row.contains(part)), "{row}");
        }
        assert!(!html.contains("oven.good"));
        assert_eq!(
            (&data[1]["task"], &data[1]["reason"], data.as_array().unwrap().len()),
            (&"oven".into(), &"out-of-range".into(), 2)
        );
        assert!(!page_of(&json!({"good": {"last": 1, "quality": "good"}})).0.contains("bad-values"));
    }
}
