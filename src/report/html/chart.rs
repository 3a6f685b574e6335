//! The charts, as SVG. Each has a title, a description with its numbers, axes and units. Pure.
//!
//! Lines differ by their dashes, and missed releases by position and shape, so the charts can be read without colour.

use super::axis::{Decades, Seconds, count_decade, decade, instant};
use crate::report::model::{Bin, Spread};
use crate::snapshot::Distribution;
use std::fmt::Write as _;

/// The smallest time on an axis. Smaller ones are drawn there.
const LEAST: i64 = 10; // ns

const WIDTH: f64 = 360.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 8.0;

/// The text of a chart.
pub(super) struct Words<'a> {
    pub(super) id: &'a str,          // unique on the page
    pub(super) title: &'a str,       // escaped
    pub(super) description: &'a str, // escaped
}

/// The inner rectangle of a chart.
struct Frame {
    top: f64,
    bottom: f64,
}

impl Frame {
    fn x(&self, share: f64) -> f64 {
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }
}

/// Begins an SVG with its title and description.
pub(super) fn open(out: &mut String, words: &Words<'_>, class: &str, width: f64, height: f64) {
    let Words { id, title, description } = words;
    let _ = write!(
        out,
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>"
    );
}

/// The lower edge of the histogram step that ends at `edge`.
fn lower(edge: i64, steps: u8) -> i64 {
    const FINE: [i64; 20] = [10, 11, 12, 14, 16, 18, 20, 22, 25, 28, 32, 36, 40, 45, 50, 56, 63, 71, 80, 90];
    const COARSE: [i64; 3] = [10, 20, 50];
    let digits: &[i64] = if steps == 3 { &COARSE } else { &FINE };
    let first = if steps == 3 { 1_000 } else { 10 };
    if edge <= first {
        return LEAST.min(edge);
    }
    // The largest edge below this one.
    let decade = 10_i64.pow((edge - 1).ilog10().saturating_sub(1));
    let below = digits.iter().rev().map(|digit| digit.saturating_mul(decade)).find(|below| *below < edge);
    below.unwrap_or(LEAST).max(first)
}

/// The axis below the chart, and its unit.
fn axis_x(out: &mut String, frame: &Frame, marks: impl Iterator<Item = (String, f64)>, unit: &str) {
    let (mut grid, Frame { top, bottom }) = (String::new(), frame);
    *out += "<g text-anchor=\"middle\">";
    for (text, place) in marks {
        let x = frame.x(place);
        let anchor = if place > 0.97 { " text-anchor=\"end\"" } else { "" };
        let _ = write!(grid, "M{x:.1} {top:.0}V{bottom:.0}");
        let _ = write!(out, "<text x=\"{x:.0}\" y=\"{:.0}\"{anchor}>{text}</text>", bottom + 14.0);
    }
    let (x, y) = (frame.x(0.5), bottom + 29.0);
    let _ = write!(out, "<text x=\"{x:.0}\" y=\"{y:.0}\">{unit}</text></g><path class=\"grid\" d=\"{grid}\"/>");
}

fn axis_y(out: &mut String, frame: &Frame, marks: impl Iterator<Item = (String, f64)>, unit: &str) {
    let mut grid = String::new();
    *out += "<g text-anchor=\"end\">";
    for (text, place) in marks {
        let y = frame.y(place);
        let _ = write!(grid, "M{LEFT} {y:.1}H{:.0}", WIDTH - RIGHT);
        let _ = write!(out, "<text x=\"{:.0}\" y=\"{:.0}\">{text}</text>", LEFT - 4.0, y + 4.0);
    }
    let _ = write!(out, "</g><text x=\"2\" y=\"11\">{unit}</text><path class=\"grid\" d=\"{grid}\"/>");
}

/// The bars of a histogram, as one path.
fn bars(out: &mut String, frame: &Frame, (across, up): (Decades, Decades), spread: &Spread, class: &str) {
    let _ = write!(out, "<path class=\"{class}\" d=\"");
    for (edge, count) in &spread.histogram {
        let right = if spread.steps == 3 { (*edge).min(spread.all.max) } else { *edge };
        let left = lower(*edge, spread.steps).min(right);
        let (left, right) = (frame.x(across.place(left)), frame.x(across.place(right)));
        // A single value gets a bar too: the axis starts at half a count, so draw twice the count.
        let top = frame.y(up.place(i64::try_from(count.saturating_mul(2)).unwrap_or(i64::MAX)));
        let _ = write!(out, "M{left:.1} {:.1}V{top:.1}H{:.1}V{:.1}", frame.bottom, right.max(left + 1.0), frame.bottom);
    }
    *out += "\"/>";
}

/// One histogram, or two in one frame: the first filled, the second as an outline.
pub(super) fn histogram(out: &mut String, words: &Words<'_>, spreads: &[&Spread], of: &str) {
    let frame = Frame { top: 18.0, bottom: 158.0 };
    open(out, words, "chart", WIDTH, 192.0);
    let ends = |end: fn(&Distribution) -> i64| {
        spreads.iter().filter(|spread| spread.all.count > 0).map(move |spread| end(&spread.all))
    };
    let across = Decades::around(ends(|all| all.min).min().unwrap_or(0), ends(|all| all.max).max().unwrap_or(0), LEAST);
    let most = spreads.iter().flat_map(|spread| &spread.histogram).map(|(_, count)| *count).max().unwrap_or(1);
    // The axis begins at half a count, so that a single value is visible. All positions are
    // computed from twice the count, so that half a count is a whole number.
    let up = Decades::around(1, i64::try_from(most.saturating_mul(2)).unwrap_or(i64::MAX), 1);
    axis_x(out, &frame, across.marks().map(|(value, place)| (decade(value), place)), of);
    let marks = up.marks().map(|(value, _)| (count_decade(value), up.place(value.saturating_mul(2))));
    axis_y(out, &frame, marks.filter(|(_, place)| *place < 1.0), "count in each step, log scale");
    for (spread, class) in spreads.iter().zip(["bar", "outline"]) {
        bars(out, &frame, (across, up), spread, class);
    }
    end(out, &frame);
}

/// Lateness over time: the maximum, p99 and p50 of each stretch, and what was missed in it.
pub(super) fn over_time(out: &mut String, words: &Words<'_>, bins: &[Bin], stretch: i64, length: i64) {
    let frame = Frame { top: 42.0, bottom: 178.0 };
    open(out, words, "chart", WIDTH, 212.0);
    let with_ticks = || bins.iter().filter(|bin| bin.ticks > 0);
    let low = with_ticks().map(|bin| bin.p50_ns).min().unwrap_or(0);
    let high = with_ticks().map(|bin| bin.max_ns).max().unwrap_or(0);
    let (up, across) = (Decades::around(low, high, LEAST), Seconds::to(length.max(stretch)));
    axis_x(out, &frame, across.marks().into_iter().map(|(at, place)| (instant(at), place)), "time since the beginning");
    axis_y(
        out,
        &frame,
        up.marks().map(|(value, place)| (decade(value), place)),
        "lateness, log scale; above it: missed",
    );
    for (class, of) in
        [("max", (|bin| bin.max_ns) as fn(&Bin) -> i64), ("p99", |bin| bin.p99_ns), ("p50", |bin| bin.p50_ns)]
    {
        let _ = write!(out, "<path class=\"line {class}\" d=\"");
        let mut before = None;
        for bin in with_ticks() {
            let (from, to) = (frame.x(across.place(bin.begin_ns)), frame.x(across.place(bin.begin_ns + stretch)));
            let y = frame.y(up.place(of(bin)));
            let joined = before == Some(bin.begin_ns);
            let _ = if joined { write!(out, "V{y:.1}H{to:.1}") } else { write!(out, "M{from:.1} {y:.1}H{to:.1}") };
            before = Some(bin.begin_ns + stretch);
        }
        *out += "\"/>";
    }
    let most = bins.iter().map(|bin| bin.releases.missed).max().unwrap_or(0);
    if most > 0 {
        let scale = Decades::around(1, i64::try_from(most.saturating_mul(2)).unwrap_or(i64::MAX), 1);
        *out += "<path class=\"missed\" d=\"";
        for bin in bins.iter().filter(|bin| bin.releases.missed > 0) {
            let (from, to) = (frame.x(across.place(bin.begin_ns)), frame.x(across.place(bin.begin_ns + stretch)));
            let twice = i64::try_from(bin.releases.missed.saturating_mul(2)).unwrap_or(i64::MAX);
            let height = (20.0 * scale.place(twice)).max(4.0);
            let _ = write!(out, "M{from:.1} 38V{:.1}H{:.1}V38", 38.0 - height, to.max(from + 1.5));
        }
        *out += "\"/>";
    }
    end(out, &frame);
}

/// A bar as long as a share, beside a number.
pub(super) fn bar(out: &mut String, share: f64) {
    let _ = write!(
        out,
        "<svg class=\"share\" viewBox=\"0 0 100 10\" aria-hidden=\"true\" preserveAspectRatio=\"none\"><path class=\"track\" d=\"M0 0H100V10H0\"/>\
         <path class=\"bar\" d=\"M0 0H{:.1}V10H0\"/></svg>",
        (share * 100.0).clamp(1.0, 100.0)
    );
}

/// Draws the lines of both axes on top, and ends the chart.
fn end(out: &mut String, frame: &Frame) {
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {:.1}V{:.1}H{:.1}\"/></svg>",
        frame.top,
        frame.bottom,
        WIDTH - RIGHT
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_a_histogram_touch() {
        assert_eq!([10, 11, 12, 90, 100, 110].map(|edge| lower(edge, 20)), [10, 10, 11, 80, 90, 100]);
        assert_eq!([1_000, 2_000, 5_000, 10_000].map(|edge| lower(edge, 3)), [10, 1_000, 2_000, 5_000]);
        assert_eq!(lower(i64::MAX, 20), 9_000_000_000_000_000_000);
    }
}
