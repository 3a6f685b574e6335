//! The output of a program, line by line: lines of bounded length, and no more of them than a log can take. Time is an argument; nothing
//! blocks.

use crate::escape::is_command;
use crate::time::{Instant, Span};

/// The most bytes kept of a line.
const LONGEST: usize = 1_000;

/// The most lines a second, and in one burst.
const A_SECOND: i64 = 50;
const AT_ONCE: i64 = 200;

/// How often omitted lines are reported.
const REPORT_EVERY: Span = Span::from_seconds(1);

/// Assembles lines, and counts those beyond the limit.
#[derive(Debug)]
pub(super) struct Lines {
    begun: Vec<u8>,
    cut: u64, // bytes of the current line that were cut off
    allowed: i64,
    since: Instant, // when `allowed` was last topped up
    left_out: u64,
    reported: Option<Instant>,
}

/// An entry for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Line(String),
    /// This many lines were not logged.
    LeftOut(u64),
}

impl Lines {
    pub(super) fn new(now: Instant) -> Self {
        let begun = Vec::with_capacity(LONGEST);
        Self { begun, cut: 0, allowed: AT_ONCE, since: now, left_out: 0, reported: None }
    }

    /// Takes printed bytes.
    pub(super) fn take(&mut self, bytes: &[u8], now: Instant, said: &mut impl FnMut(Said)) {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.add(part);
            self.end(now, said);
        }
        self.add(last);
    }

    /// The program has ended: an unfinished line counts as a line.
    pub(super) fn finish(&mut self, now: Instant, said: &mut impl FnMut(Said)) {
        if !self.begun.is_empty() {
            self.end(now, said);
        }
        if self.left_out > 0 {
            said(Said::LeftOut(std::mem::take(&mut self.left_out)));
        }
    }

    /// Reports, at most once a second, how many lines were left out.
    pub(super) fn report(&mut self, now: Instant, said: &mut impl FnMut(Said)) {
        if self.left_out > 0 && self.reported.is_none_or(|reported| now - reported >= REPORT_EVERY) {
            self.reported = Some(now);
            said(Said::LeftOut(std::mem::take(&mut self.left_out)));
        }
    }

    fn add(&mut self, part: &[u8]) {
        let room = LONGEST - self.begun.len().min(LONGEST);
        let kept = part.len().min(room);
        self.begun.extend_from_slice(&part[..kept]);
        self.cut += (part.len() - kept) as u64;
    }

    fn end(&mut self, now: Instant, said: &mut impl FnMut(Said)) {
        let cut = std::mem::take(&mut self.cut);
        let earned = (now - self.since).nanos() / (crate::time::NANOS_PER_SECOND / A_SECOND);
        if earned > 0 {
            self.allowed = self.allowed.saturating_add(earned).min(AT_ONCE);
            self.since = now;
        }
        if self.allowed > 0 {
            self.allowed -= 1;
            // Characters that a terminal would take as a command must not reach one.
            let is_plain = |c: char| !is_command(c) && !matches!(c, '\u{2028}' | '\u{2029}') || c == '\t';
            let plain = |c: char| if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER };
            let text = self.begun.strip_suffix(b"\r").unwrap_or(&self.begun);
            let mut line: String = String::from_utf8_lossy(text).chars().map(plain).collect();
            if cut > 0 {
                line.push_str(&format!(" … ({cut} bytes more)"));
            }
            said(Said::Line(line));
        } else {
            self.left_out += 1;
        }
        self.begun.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    fn line(text: &str) -> Said {
        Said::Line(text.into())
    }

    #[test]
    fn lines_are_put_together_and_bounded() {
        let mut lines = Lines::new(at(0));
        let mut all = Vec::new();
        let mut said = |what| all.push(what);
        lines.take(b"one\r\ntw", at(1), &mut said);
        lines.take(b"o\n\x1b[31mred\xff\n", at(2), &mut said);
        lines.take(&[b'x'; 5_000], at(3), &mut said);
        lines.take(&[b'y'; 2_000], at(4), &mut said);
        lines.take("\n\u{202e}last".as_bytes(), at(5), &mut said);
        lines.finish(at(6), &mut said);
        let long = format!("{} … (6000 bytes more)", "x".repeat(1_000));
        assert_eq!(all, [line("one"), line("two"), line("\u{fffd}[31mred\u{fffd}"), line(&long), line("\u{fffd}last")]);
    }

    #[test]
    fn a_flood_is_limited_counted_and_said() {
        let mut lines = Lines::new(at(0));
        let mut all = Vec::new();
        for second in 0..10 {
            for _ in 0..1_000 {
                lines.take(b"again\n", at(1_000 * second), &mut |what| all.push(what));
            }
            lines.report(at(1_000 * second), &mut |what| all.push(what));
        }
        lines.finish(at(10_000), &mut |what| all.push(what));
        let said = all.iter().filter(|what| **what == line("again")).count() as u64;
        let left_out: u64 = all.iter().map(|what| if let Said::LeftOut(count) = what { *count } else { 0 }).sum();
        assert_eq!((said, said + left_out), (200 + 9 * 50, 10_000));
    }
}
