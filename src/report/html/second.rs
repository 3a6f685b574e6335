//! The worst second: what each task did when. Pure.
//!
//! A column's lower part is the share of its time in which the task ran; the part above is the share in which it waited. So a tick of 20 µs
//! does not look like one of a millisecond, whatever time a column covers.

use super::axis::{Seconds, instant};
use super::chart::{Words, open};
use super::text::Name;
use crate::report::model::{SecondOfTask, SecondTick};
use std::fmt::Write as _;

const COLUMNS: usize = 600;
const WIDTH: f64 = 720.0;
const LEFT: f64 = 112.0;
const LANE: f64 = 44.0;
const TOP: f64 = 10.0;

/// Characters of a name beside its lane.
const NAME: usize = 16;

/// The tasks from `from` to `to`, in nanoseconds of that second.
pub(super) fn lanes(out: &mut String, words: &Words<'_>, tasks: &[&SecondOfTask], (from, to): (i64, i64)) {
    let bottom = tasks.iter().fold(TOP, |bottom, _| bottom + LANE);
    open(out, words, "chart wide", WIDTH, bottom + 34.0);
    let axis = Seconds::to(to - from);
    let x = |share: f64| LEFT + share * (WIDTH - LEFT - 8.0);
    for (at, place) in axis.marks() {
        let (x, anchor) = (x(place), if place > 0.97 { "end" } else { "middle" });
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            bottom + 14.0,
            instant(at)
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">time since the beginning of this stretch</text>",
        x(0.5),
        bottom + 29.0
    );
    let mut top = TOP;
    for task in tasks {
        let base = top + LANE - 4.0;
        let name: String = task.task.chars().take(NAME).collect();
        let more = if name.len() < task.task.len() { "…" } else { "" };
        let _ = write!(
            out,
            "<text x=\"2\" y=\"{:.1}\">{}{more}</text><path class=\"axis\" d=\"M{LEFT} {base:.1}H{:.1}\"/>",
            base - 6.0,
            Name(&name).plain(),
            WIDTH - 8.0
        );
        let ran = shares(task.ticks.iter().map(|tick| (tick.started_ns, tick.finished_ns)), from, to);
        let waited = shares(task.ticks.iter().map(|tick| (tick.release_ns, tick.started_ns)), from, to);
        let room = LANE - 16.0;
        let of_both: Vec<_> = ran.iter().zip(&waited).map(|(ran, waited)| (ran + waited).min(1.0)).collect();
        columns(out, "waited", &of_both, base, room, x);
        columns(out, "bar", &ran, base, room, x);
        missed(out, task, (from, to), top + 1.0, x);
        top += LANE;
    }
    *out += "</svg>";
}

/// The share of each column's time that these stretches cover.
#[expect(clippy::cast_precision_loss, reason = "shares on a chart")]
fn shares(stretches: impl Iterator<Item = (i64, i64)>, from: i64, to: i64) -> Vec<f64> {
    let mut shares = vec![0.0; COLUMNS];
    let column = ((to - from) as f64 / COLUMNS as f64).max(1.0);
    for (begin, end) in stretches {
        let (begin, end) = ((begin.max(from) - from) as f64 / column, (end.min(to) - from) as f64 / column);
        if end <= begin {
            continue;
        }
        for (index, share) in shares.iter_mut().enumerate().skip(whole(begin)).take(whole(end) - whole(begin) + 1) {
            let here = index as f64;
            *share += (end.min(here + 1.0) - begin.max(here)).max(0.0);
        }
    }
    shares
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the column of a place that is not negative"
)]
fn whole(place: f64) -> usize {
    place.max(0.0) as usize
}

/// Draws the columns with a share. Adjacent columns of the same height are drawn as one.
#[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
fn columns(out: &mut String, class: &str, shares: &[f64], base: f64, room: f64, x: impl Fn(f64) -> f64) {
    // Anything above zero must be visible: at least one unit high.
    let heights: Vec<_> =
        shares.iter().map(|share| if *share > 0.0 { (share * room).max(1.0).round() } else { 0.0 }).collect();
    let _ = write!(out, "<path class=\"{class}\" d=\"");
    let mut at = 0;
    for same in heights.chunk_by(|one, next| (one - next).abs() < 0.5) {
        let (from, to) = (x(at as f64 / COLUMNS as f64), x((at + same.len()) as f64 / COLUMNS as f64));
        at += same.len();
        if same[0] > 0.0 {
            let _ = write!(out, "M{from:.1} {base:.0}v-{:.0}H{to:.1}V{base:.0}", same[0]);
        }
    }
    *out += "\"/>";
}

/// Draws a triangle above each tick in which something was missed, at most one per column.
#[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
fn missed(out: &mut String, task: &SecondOfTask, (from, to): (i64, i64), top: f64, x: impl Fn(f64) -> f64) {
    let place = |tick: &SecondTick| (tick.release_ns.max(from) - from) as f64 / (to - from).max(1) as f64;
    let within = task.ticks.iter().filter(|tick| tick.missed > 0 && tick.release_ns < to && tick.finished_ns > from);
    let mut places: Vec<_> = within.map(|tick| whole(place(tick) * COLUMNS as f64)).collect();
    places.dedup();
    *out += "<path class=\"missed\" d=\"";
    for column in places {
        let _ = write!(out, "M{:.1} {top:.0}h8l-4 8z", x(column as f64 / COLUMNS as f64) - 4.0);
    }
    *out += "\"/>";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_as_high_as_the_share_of_its_time() {
        let second = 1_000_000_000;
        let column = second / 600;
        let shares = shares(
            [(0, column / 2), (10 * column, 12 * column), (-5, -1), (second - 1, 2 * second)].into_iter(),
            0,
            second,
        );
        let near =
            |index: usize, share: f64| assert!((shares[index] - share).abs() < 0.01, "{index}: {}", shares[index]);
        near(0, 0.5);
        near(1, 0.0);
        near(10, 1.0);
        near(11, 1.0);
        near(12, 0.0);
    }
}
