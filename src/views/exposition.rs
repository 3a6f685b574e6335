//! The text that Prometheus scrapes, in both formats. Pure: numbers in, text out.

use std::fmt::{Display, Write as _};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The Prometheus format, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Its content type in HTTP.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// The text so far. Families follow one another, each with all of its samples.
pub(super) struct Exposition {
    format: Format,
    text: String,
    family: String, // the name of the current family
    kind: Kind,
}

impl Exposition {
    pub(super) const fn new(format: Format) -> Self {
        Self { format, text: String::new(), family: String::new(), kind: Kind::Gauge }
    }

    /// Begins a family. The name is the one for OpenMetrics: without `_total` for counters and `_info` for facts. A name that ends in
    /// `_seconds` gets that unit.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        (self.family, self.kind) = (name.into(), kind);
        let suffix = match (self.format, kind) {
            (Format::Text, Kind::Counter) => "_total",
            (Format::Text, Kind::Info) => "_info",
            _ => "",
        };
        let word = match (self.format, kind) {
            (_, Kind::Counter) => "counter",
            (_, Kind::Histogram) => "histogram",
            (Format::OpenMetrics, Kind::Info) => "info",
            (_, Kind::Gauge | Kind::Info) => "gauge",
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {word}");
        if self.format == Format::OpenMetrics && name.ends_with("_seconds") {
            let _ = writeln!(self.text, "# UNIT {name} seconds");
        }
    }

    /// Adds a sample to the current family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.line(suffix, labels, value);
    }

    /// Adds a histogram: for each bound, the count of values up to it; then the total count and the sum.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        at_most: impl Iterator<Item = (String, u64)>,
        count: u64,
        sum: f64,
    ) {
        let all = std::iter::once(("+Inf".to_owned(), count));
        for (bound, count) in at_most.chain(all) {
            self.line("_bucket", &[labels, &[("le", &bound)]].concat(), count);
        }
        self.line("_count", labels, count);
        self.line("_sum", labels, sum);
    }

    /// The whole text.
    pub(super) fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text += "# EOF\n";
        }
        self.text
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let text = &mut self.text;
        text.push_str(&self.family);
        text.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            let _ = write!(text, "{}{name}=\"", if index == 0 { '{' } else { ',' });
            for c in value.chars() {
                match c {
                    '\\' => text.push_str("\\\\"),
                    '"' => text.push_str("\\\""),
                    '\n' => text.push_str("\\n"),
                    c => text.push(c),
                }
            }
            text.push('"');
        }
        text.push_str(if labels.is_empty() { " " } else { "} " });
        let _ = writeln!(text, "{value}");
    }
}

/// A histogram bound in seconds, as both formats write it: `1e-06`, `0.0002`, `1.0`.
pub(super) fn bound(nanos: u64) -> String {
    match nanos {
        // Up to 99 µs, only the first digit is not zero.
        0..100_000 => {
            let power = nanos.max(1).ilog10();
            format!("{}e-{:02}", nanos / 10_u64.pow(power), 9 - power)
        }
        _ => {
            let (whole, rest) = (nanos / 1_000_000_000, format!("{:09}", nanos % 1_000_000_000));
            let rest = rest.trim_end_matches('0');
            format!("{whole}.{}", if rest.is_empty() { "0" } else { rest })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::BOUNDS;

    #[test]
    fn bounds_are_written_as_numbers_of_seconds() {
        for nanos in BOUNDS {
            #[expect(clippy::cast_precision_loss, reason = "at most 1e9")]
            let seconds = nanos as f64 / 1e9;
            assert_eq!(bound(nanos).parse::<f64>().unwrap().to_bits(), seconds.to_bits(), "{nanos}");
        }
        let texts = [1_000, 20_000, 100_000, 500_000_000, 1_000_000_000].map(bound);
        assert_eq!(texts, ["1e-06", "2e-05", "0.0001", "0.5", "1.0"]);
    }

    #[test]
    fn both_forms_say_the_same_in_their_own_words() {
        let text = |format| {
            let mut made = Exposition::new(format);
            made.family("x_missed", Kind::Counter, "What was missed.");
            made.sample(&[("task", "a\"\\\nb"), ("cause", "blocked")], 7);
            made.family("x_build", Kind::Info, "What it is.");
            made.sample(&[("version", "1")], 1);
            made.family("x_late_seconds", Kind::Histogram, "How late.");
            made.histogram(&[("task", "a")], [("1e-06".into(), 2)].into_iter(), 3, 0.5);
            made.end()
        };
        assert_eq!(
            text(Format::Text),
            "# HELP x_missed_total What was missed.\n# TYPE x_missed_total counter\n\
             x_missed_total{task=\"a\\\"\\\\\\nb\",cause=\"blocked\"} 7\n\
             # HELP x_build_info What it is.\n# TYPE x_build_info gauge\nx_build_info{version=\"1\"} 1\n\
             # HELP x_late_seconds How late.\n# TYPE x_late_seconds histogram\n\
             x_late_seconds_bucket{task=\"a\",le=\"1e-06\"} 2\nx_late_seconds_bucket{task=\"a\",le=\"+Inf\"} 3\n\
             x_late_seconds_count{task=\"a\"} 3\nx_late_seconds_sum{task=\"a\"} 0.5\n"
        );
        let open = text(Format::OpenMetrics);
        assert!(
            open.starts_with("# HELP x_missed What was missed.\n# TYPE x_missed counter\nx_missed_total{"),
            "{open}"
        );
        for part in ["# TYPE x_build info\nx_build_info{", "# UNIT x_late_seconds seconds\n"] {
            assert!(open.contains(part), "{part}: {open}");
        }
        assert!(open.ends_with("0.5\n# EOF\n"), "{open}");
    }
}
