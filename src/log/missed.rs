//! Missed releases as one sentence that makes sense without other entries. Pure: numbers in, text out.

use crate::metrics::{Missed, Share};
use crate::time::Span;

/// The most culprits named in one sentence.
const AT_MOST: usize = 4;

/// `control: missed 625 of 1000 in 1.00 s (125 overruns, 500 skipped), worst 5.30 ms; 620 blocked by report, 5 preempted`
pub(super) fn sentence(task: &str, missed: &Missed) -> String {
    let Missed { overruns, skipped, due, within, worst, shares, .. } = missed;
    let within = if *within > Span::ZERO { format!(" in {within}") } else { String::new() };
    let parts = parts(*overruns, *skipped);
    let worst = if *worst > Span::ZERO { format!(", worst {worst}") } else { String::new() };
    let (named, others) = shares.split_at(shares.len().min(AT_MOST));
    let mut causes: Vec<_> = named.iter().map(share).collect();
    let others: u64 = others.iter().map(|share| share.count).sum();
    if others > 0 {
        causes.push(format!("{others} for other reasons"));
    }
    format!("{task}: missed {} of {due}{within} ({parts}){worst}; {}", missed.count(), causes.join(", "))
}

/// The outcome of all releases of a task or run that has ended: `missed 3 of 1000 (1 overrun, 2 skipped)`.
pub(crate) fn outcome(due: u64, overruns: u64, skipped: u64) -> String {
    match overruns + skipped {
        0 => format!("met {due} of {due}"),
        missed => format!("missed {missed} of {due} ({})", parts(overruns, skipped)),
    }
}

fn parts(overruns: u64, skipped: u64) -> String {
    let s = if overruns == 1 { "" } else { "s" };
    match (overruns, skipped) {
        (_, 0) => format!("{overruns} overrun{s}"),
        (0, _) => format!("{skipped} skipped"),
        _ => format!("{overruns} overrun{s}, {skipped} skipped"),
    }
}

fn share(share: &Share) -> String {
    let by = share.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    format!("{} {}{by}", share.count, share.cause.word())
}

/// `blocked=620 preempted=5`
pub(super) fn causes(missed: &Missed) -> String {
    missed.causes().map(|(cause, count)| format!("{}={count}", cause.word())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Cause;

    #[test]
    fn the_sentence_says_how_many_how_late_why_and_by_whom() {
        let share = |cause, by: Option<&str>, count| Share { cause, by: by.map(str::to_owned), count };
        let shares = vec![share(Cause::Blocked, Some("report"), 620), share(Cause::WokenLate, None, 5)];
        let worst = Span::from_micros(5_300);
        let within = Span::from_seconds(1);
        let missed = Missed { overruns: 125, skipped: 500, due: 1_000, within, worst, shares, ..Missed::default() };
        assert_eq!(
            sentence("control", &missed),
            "control: missed 625 of 1000 in 1.00 s (125 overruns, 500 skipped), worst 5.30 ms; \
             620 blocked by report, 5 woken-late"
        );
        assert_eq!(causes(&missed), "woken-late=5 blocked=620");

        let shares = vec![share(Cause::Disabled, None, 7)];
        let disabled = Missed { skipped: 7, due: 7, shares, ..Missed::default() };
        assert_eq!(sentence("x", &disabled), "x: missed 7 of 7 (7 skipped); 7 disabled");

        let shares = ["a", "b", "c", "d", "e", "f"].map(|name| share(Cause::Blocked, Some(name), 1)).to_vec();
        let many = Missed { overruns: 6, due: 9, shares, ..Missed::default() };
        assert_eq!(
            sentence("x", &many),
            "x: missed 6 of 9 (6 overruns); \
             1 blocked by a, 1 blocked by b, 1 blocked by c, 1 blocked by d, 2 for other reasons"
        );
        assert_eq!(causes(&many), "blocked=6");
    }

    #[test]
    fn an_outcome_says_what_was_missed_if_anything_was() {
        assert_eq!(outcome(1_000, 1, 2), "missed 3 of 1000 (1 overrun, 2 skipped)");
        assert_eq!(outcome(1_000, 0, 0), "met 1000 of 1000");
    }
}
