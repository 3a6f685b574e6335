//! The findings as text for a terminal, and as JSON. Pure.

use crate::cli::named::with_texts;
use crate::doctor::{Finding, Mend, Place, Weight};
use crate::program;
use serde::Serialize;
use std::fmt::Write as _;

/// The width that every terminal has.
const COLUMNS: usize = 80;

/// The column where a finding's text starts.
const INDENT: usize = 11;

/// Everything that is reported.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) configuration: String,
    pub(super) uid: u32,
    pub(super) findings: &'a [Finding],
}

impl Report<'_> {
    fn count(&self, weight: Weight) -> usize {
        self.findings.iter().filter(|finding| finding.weight == weight).count()
    }

    /// The verdict, in one sentence.
    fn verdict(&self) -> String {
        let things = |weight| match self.count(weight) {
            1 => "1 thing".to_owned(),
            count => format!("{count} things"),
        };
        let mut verdict = match self.count(Weight::Fails) {
            0 => "everything that is configured can work here".to_owned(),
            1 => "1 thing that is configured cannot work here".to_owned(),
            count => format!("{count} things that are configured cannot work here"),
        };
        match self.count(Weight::Harms) {
            0 => {}
            1 => verdict += "; 1 thing makes ticks late",
            count => verdict += &format!("; {count} things make ticks late"),
        }
        if self.count(Weight::Minor) > 0 {
            verdict += &format!("; {} may", things(Weight::Minor));
            if self.count(Weight::Harms) == 0 {
                verdict += " make ticks late";
            }
        }
        verdict
    }
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    version: u32,
    configuration: &'a str,
    uid: u32,
    works: bool,
    verdict: String,
    findings: &'a [Finding],
}

pub(super) fn as_json(report: &Report<'_>) -> serde_json::Result<String> {
    let document = Document {
        version: 1,
        configuration: &report.configuration,
        uid: report.uid,
        works: report.count(Weight::Fails) == 0,
        verdict: report.verdict(),
        findings: report.findings,
    };
    let text = match program::is_hertzd() {
        true => serde_json::to_string(&document),
        false => serde_json::to_string(&with_texts(serde_json::to_value(&document)?, &|_| true)),
    };
    Ok(text? + "\n")
}

/// Formats the report. Findings that are well or could not be checked take one line each, unless `all` is set.
pub(super) fn as_text(report: &Report<'_>, all: bool, coloured: bool) -> String {
    let mut text = String::new();
    wrapped(&mut text, "", 2, &format!("{}: {}", report.configuration, report.verdict()));
    for finding in report.findings {
        match finding.weight {
            Weight::Well | Weight::Unseen if !all => {}
            _ => whole(&mut text, finding, coloured),
        }
    }
    if !all {
        for (weight, heading) in [(Weight::Unseen, "Not checked:"), (Weight::Well, "Well:")] {
            let findings = report.findings.iter().filter(|finding| finding.weight == weight);
            let lines: Vec<_> = findings.map(|finding| format!("{}: {}", title(finding), finding.found)).collect();
            if !lines.is_empty() {
                let _ = writeln!(text, "\n{heading}"); // writing to a String cannot fail
                lines.iter().for_each(|line| wrapped(&mut text, "  ", 4, line));
            }
        }
    }
    text
}

fn title(finding: &Finding) -> String {
    match finding.subject.as_str() {
        "" => finding.about.to_owned(),
        subject => format!("{}, {subject}", finding.about),
    }
}

fn whole(text: &mut String, finding: &Finding, coloured: bool) {
    let (word, colour) = match finding.weight {
        Weight::Fails => ("CANNOT WORK", "\x1b[1;31m"),
        Weight::Harms => ("LATE", "\x1b[33m"),
        Weight::Minor => ("MAY BE LATE", ""),
        Weight::Unseen => ("NOT LOOKED AT", ""),
        Weight::Well => ("WELL", ""),
    };
    let (on, off) = if coloured && !colour.is_empty() { (colour, "\x1b[0m") } else { ("", "") };
    let _ = writeln!(text, "\n{on}{word}{off}  {}", title(finding));
    for (name, words) in [("tried", &finding.tried), ("found", &finding.found), ("matters", &finding.matters)] {
        if !words.is_empty() {
            wrapped(text, &format!("  {name:<9}"), INDENT, words);
        }
    }
    finding.mend.iter().for_each(|mend| mended(text, mend));
}

/// Lines meant for copying are not wrapped.
fn mended(text: &mut String, Mend { place, line, note }: &Mend) {
    let head = match place {
        Place::Configuration => "in the configuration",
        Place::Container => "where the container is started",
        Place::Kernel => "on the kernel's command line",
        Place::Login => "in a file of /etc/security/limits.d",
        Place::Shell => "in a shell",
        Place::Udev => "in a file of /etc/udev/rules.d",
        Place::Unit => "under [Service] of the unit",
    };
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    wrapped(text, "  mend     ", INDENT, &format!("{head}{note}:"));
    for line in line.lines() {
        let _ = writeln!(text, "{:13}{line}", "");
    }
}

/// Appends `first` and then the words. What does not fit into [`COLUMNS`] continues after `indent` spaces.
fn wrapped(text: &mut String, first: &str, indent: usize, words: &str) {
    text.push_str(first);
    let (mut column, mut fits) = (first.chars().count(), true); // the first word always fits
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if !fits && column + 1 + length > COLUMNS {
            let _ = write!(text, "\n{:indent$}", "");
            column = indent;
        } else if !fits {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
        fits = false;
    }
    text.push('\n');
}
