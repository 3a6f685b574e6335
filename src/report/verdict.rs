//! A run in one sentence. Pure.

use super::compare::Comparison;
use super::model::{Kind, Run, Task};
use crate::measure::Verdict;
use crate::time::Span;

/// Maximum number of numbers that a sentence names.
const NAMED: usize = 5;

/// How the run went, in one sentence that makes sense alone.
pub(crate) fn verdict(run: &Run) -> String {
    let total = |count: fn(&Task) -> u64| run.tasks.iter().map(count).fold(0, u64::saturating_add);
    let (due, missed) = (total(|task| task.counts.releases.due), total(|task| task.counts.releases.missed));
    let tasks = match run.tasks.len() {
        1 => "1 task".to_owned(),
        many => format!("{many} tasks"),
    };
    let over = run.length_ns.map_or_else(String::new, |length| format!(" in {}", Span::from_nanos(length)));
    let mut text = match (due, missed) {
        (0, _) => format!("No release of {tasks} came up{over}"),
        (due, 0) => format!("None of the {} of {tasks} was missed{over}", releases(due)),
        (due, missed) => {
            let of = run.tasks.iter().filter(|task| task.counts.releases.missed > 0).count();
            let were = if missed == 1 { "was" } else { "were" };
            format!(
                "{} of the {} of {tasks} {were} missed{over} ({}), by {of} of them",
                grouped(missed),
                releases(due),
                share(missed, due)
            )
        }
    };
    let mut causes = std::collections::BTreeMap::<&str, u64>::new();
    for (cause, count) in run.tasks.iter().flat_map(|task| &task.causes) {
        let sum = causes.entry(cause).or_default();
        *sum = sum.saturating_add(*count);
    }
    if let Some((cause, count)) = causes.into_iter().max_by_key(|(_, count)| *count).filter(|_| missed > 0) {
        text += &format!("; most often the cause was {cause} ({})", grouped(count));
    }
    let worst = run.tasks.iter().filter_map(|task| Some((task, task.lateness_ns.known()?.clone())));
    if let Some((task, spread)) =
        worst.filter(|(_, spread)| spread.all.count > 0).max_by_key(|(_, spread)| spread.all.max)
    {
        let (latest, name) = (Span::from_nanos(spread.all.max), &task.task);
        text += &match run.source.kind {
            // Here, releases that were given up have a lateness too.
            Kind::Snapshot | Kind::Summary => format!("; the latest by {latest}, of task {name}"),
            Kind::FlightFile | Kind::Recording => format!("; the latest tick started {latest} late, of task {name}"),
        };
    }
    text + "."
}

/// The source's own verdict; `None`: it has none.
pub(crate) fn own_verdict(run: &Run) -> Option<String> {
    let kind = match run.source.kind {
        Kind::Snapshot => "The daemon",
        _ => "The run",
    };
    match (run.well?, &run.sentence) {
        (_, Some(sentence)) if run.source.kind == Kind::Snapshot => Some(format!("{kind} says: {sentence}")),
        (true, _) => Some(format!("{kind} ended well: everything that was asked for happened.")),
        (false, Some(reason)) => Some(format!("{kind} was not well: {reason}")),
        (false, None) => Some(format!("{kind} was not well.")),
    }
}

/// The comparison of two runs, in one sentence.
pub(crate) fn compared(comparison: &Comparison) -> String {
    let (judged, significant) = comparison.counts();
    let numbers = |count: usize| if count == 1 { "1 number".into() } else { format!("{count} numbers") };
    let named = comparison.tasks.iter().flat_map(|pair| pair.numbers.iter().map(move |number| (pair, number)));
    let named: Vec<_> = named
        .filter(|(_, number)| number.verdict == Verdict::Significant)
        .map(|(pair, number)| format!("{} of {}", number.what.words(), pair.task))
        .collect();
    match (judged, significant) {
        _ if comparison.tasks.is_empty() => "A and B have no task in common: there is nothing to compare.".into(),
        (0, _) => "Nothing can be told from noise: at least one side has fewer than five rounds, so the numbers are only shown.".into(),
        (judged, 0) => format!("None of the {} that were judged differs by more than the noise.", numbers(judged)),
        (judged, significant) => {
            let more = significant.saturating_sub(NAMED);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let named = named[..significant.min(NAMED)].join(", ");
            format!("{significant} of the {} that were judged differ by more than the noise: {named}{more}.", numbers(judged))
        }
    }
}

fn releases(count: u64) -> String {
    if count == 1 { "1 release".into() } else { format!("{} releases", grouped(count)) }
}

/// Digits in groups of three.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in percent. A share above zero never shows as zero, and one below 100 % never as 100 %.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn share(part: u64, all: u64) -> String {
    if all == 0 {
        return "-".into();
    }
    let percent = part as f64 * 100.0 / all as f64;
    match percent {
        _ if part == 0 => "0 %".into(),
        _ if part == all => "100 %".into(),
        percent if percent < 0.001 => "< 0.001 %".into(),
        percent if percent < 1.0 => format!("{percent:.3} %"),
        percent if percent < 10.0 => format!("{percent:.2} %"),
        percent => format!("{:.1} %", percent.min(99.9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_shares_are_written_for_people() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(share(0, 9), "0 %");
        assert_eq!(share(1, 1_000_000_000), "< 0.001 %");
        assert_eq!(share(7, 1_000), "0.700 %");
        assert_eq!(share(999_999, 1_000_000), "99.9 %");
        assert_eq!(share(9, 9), "100 %");
    }
}
