//! A run, or two beside each other, as one HTML page: no scripts, nothing loaded, one embedded style sheet. Pure.
//!
//! The page has a size limit. Charts and tables take most of the space, so with many tasks there are fewer of them, and the page says how
//! many.

mod ages;
mod axis;
mod bad_values;
mod beside;
mod chart;
mod detail;
mod lateness;
mod missed;
mod second;
mod sections;
mod table;
mod text;

use super::compare::Comparison;
use super::model::Run;
use beside::Beside;
use detail::{DETAILS, Detail};
use sections::{Sections, words};
use std::fmt::Write as _;
use text::Text;

/// A page is smaller than this, in bytes.
pub(crate) const LIMIT: usize = 900_000;

/// The page of a run.
pub(crate) fn page(run: &Run, written_by: &str) -> String {
    let title = format!("hertzd report: {}", run.source.name);
    let of = |detail: &Detail| {
        let mut out = begin(&title);
        let sections = Sections { run, detail: *detail };
        sections.top(&mut out);
        sections.machine(&mut out);
        sections.tasks(&mut out);
        sections.bad_values(&mut out);
        sections.ages(&mut out);
        sections.histograms(&mut out);
        sections.over_time(&mut out);
        sections.causes(&mut out);
        sections.worst(&mut out);
        sections.second(&mut out);
        words(&mut out);
        end(&mut out, written_by);
        out
    };
    fitting(of)
}

/// The page of two runs beside each other.
pub(crate) fn page_of_two(sides: [&Run; 2], comparison: &Comparison, written_by: &str) -> String {
    let title = format!("hertzd report: {} and {}", sides[0].source.name, sides[1].source.name);
    fitting(|detail| {
        let mut out = begin(&title);
        Beside { sides, comparison, detail: *detail }.write(&mut out);
        end(&mut out, written_by);
        out
    })
}

/// The most detailed page that fits.
fn fitting(of: impl Fn(&Detail) -> String) -> String {
    let (last, before) = (DETAILS[DETAILS.len() - 1], &DETAILS[..DETAILS.len() - 1]);
    before.iter().map(&of).find(|page| page.len() < LIMIT).unwrap_or_else(|| of(&last))
}

fn begin(title: &str) -> String {
    let mut out = String::with_capacity(LIMIT);
    let title = Text(title);
    // Writing to a String never fails, here and below.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
        include_str!("style.css")
    );
    out
}

fn end(out: &mut String, written_by: &str) {
    let _ = write!(
        out,
        "</main>\n<footer><p>Made by {} from what is named at the top. The page loads nothing and runs no script.</p></footer>\n</body>\n</html>\n",
        Text(written_by)
    );
}
