//! Tables that can be scrolled with the keyboard, and the text that replaces missing ones. Pure.

use super::text::{Text, span};
use crate::report::model::{Available, Spread};
use crate::report::verdict::grouped;
use std::fmt::Write as _;

/// Begins a table that can be scrolled with the keyboard.
pub(super) fn table_begin(out: &mut String, label: &str, caption: &str, head: &[(&str, bool)]) {
    let _ = write!(
        out,
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{label}, a table\"><table><caption>{caption}</caption><thead><tr>"
    );
    heads(out, head);
}

pub(super) fn table_end(out: &mut String) {
    *out += "</tbody></table></div>\n";
}

/// Begins a chart's collapsible table.
pub(super) fn details_begin(out: &mut String, title: &str, label: &str, head: &[(&str, bool)]) {
    let _ = write!(
        out,
        "<details><summary>{title}</summary><div class=\"scroll tall\" role=\"group\" tabindex=\"0\" aria-label=\"{label}, a table\"><table><thead><tr>"
    );
    heads(out, head);
}

fn heads(out: &mut String, head: &[(&str, bool)]) {
    for (name, number) in head {
        let class = if *number { " class=\"n\"" } else { "" };
        let _ = match *name {
            "" => write!(out, "<td></td>"),
            name => write!(out, "<th scope=\"col\"{class}>{name}</th>"),
        };
    }
    *out += "</tr></thead><tbody>";
}

/// A row of numbers in a table of [`numbers_begin`].
pub(super) fn numbers(out: &mut String, cells: &[String]) {
    *out += "<tr>";
    cells.iter().for_each(|cell| _ = write!(out, "<td>{cell}"));
}

/// Begins a chart's collapsible table of numbers. There are many, so optional HTML tags are left out.
pub(super) fn numbers_begin(out: &mut String, label: &str, head: &[&str]) {
    let _ = write!(
        out,
        "<details><summary>Numbers</summary><div class=\"scroll tall\" role=\"group\" tabindex=\"0\" aria-label=\"{label}, a table\"><table class=\"num\"><thead><tr>"
    );
    head.iter().for_each(|name| _ = write!(out, "<th scope=\"col\">{name}"));
    *out += "<tbody>";
}

/// Writes that the charts' tables are left out, if they are.
pub(super) fn without_tables(out: &mut String, tables: bool) {
    if !tables {
        *out += "<p class=\"quiet\">The tables behind these charts are left out, so that the page stays small; <code>--json</code> has their numbers.</p>\n";
    }
}

/// Writes that not all are shown, if so.
pub(super) fn rest(out: &mut String, all: usize, shown: usize, what: &str) {
    if all > shown {
        let _ = writeln!(
            out,
            "<p class=\"quiet\">{shown} of {all} {what}, so that the page stays small; <code>--json</code> has all.</p>"
        );
    }
}

/// The part. If the source lacks it, writes the sentence that says so.
pub(super) fn available<'a, T>(out: &mut String, part: &'a Available<T>) -> Option<&'a T> {
    if let Some(why) = part.why_not() {
        let _ = writeln!(out, "<p class=\"untold\">{}</p>", Text(why));
    }
    part.known()
}

/// The numbers of a distribution in one sentence.
pub(super) fn describe(spread: &Spread) -> String {
    format!(
        "{} values: half at most {}, 99\u{A0}% at most {}, 99.9\u{A0}% at most {}, all at most {}.",
        grouped(spread.all.count),
        span(spread.all.p50),
        span(spread.all.p99),
        span(spread.all.p99_9),
        span(spread.all.max)
    )
}

/// Ticks per second, from a fraction.
pub(super) fn rate(rate: Option<&str>) -> String {
    let Some((num, den)) = rate.and_then(|rate| rate.split_once('/')) else { return "not available".into() };
    match (num.parse::<f64>(), den.parse::<f64>()) {
        (Ok(num), Ok(den)) if den > 0.0 => {
            let text = format!("{:.3}", num / den);
            format!("{}\u{A0}Hz", text.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => "not available".into(),
    }
}
