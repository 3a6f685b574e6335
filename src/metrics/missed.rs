//! What a task missed since the last report: how much, the worst miss, and the causes.
//!
//! Pure arithmetic on records, which carry the time. Nothing blocks.

use super::cause::Cause;
use crate::channels::TickRecord;
use crate::time::{Instant, Span};

/// When a miss ends a quiet time, the report counts the releases of up to this long before it as `due`.
pub(super) const BEFORE: Span = Span::from_seconds(1);

/// How many combinations of cause and culprit one report lists. Further ones are added up by cause, without a culprit.
const AT_MOST: usize = 16;

/// Missed releases: skipped ones and overruns. Has only three of the shared counts, because the metrics keep one instance per task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missed {
    /// Ticks that finished after their deadline.
    pub overruns: u64,
    /// Releases that were given up.
    pub skipped: u64,
    /// All releases that came up in the same time, including met ones.
    pub due: u64,
    /// From the first of these releases to the end of the last; zero if unknown.
    pub within: Span,
    /// The longest time from a release until it finished or was given up.
    pub worst: Span,
    /// The overrun with the longest response, among those whose record arrived.
    pub tick: Option<LateTick>,
    /// The lateness of the oldest release that was given up; zero if unknown.
    pub oldest: Span,
    /// For the last task of a chain: the largest age of the inputs of a tick that missed. See [`TickRecord::age`].
    pub age: Option<Span>,
    /// The causes, largest count first; the counts add up to [`count`](Self::count).
    pub shares: Vec<Share>,
}

/// A tick that finished after its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateTick {
    /// Its index.
    pub n: u64,
    /// Its lateness.
    pub lateness: Span,
    /// Its run.
    pub run: Span,
}

/// The missed releases with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The cause.
    pub cause: Cause,
    /// Who caused it, if known: a task, a worker or a program.
    pub by: Option<String>,
    /// How many releases.
    pub count: u64,
}

impl Missed {
    /// How many releases were missed.
    pub(crate) fn count(&self) -> u64 {
        self.overruns + self.skipped
    }

    /// How many each cause explains, in the order of the causes. Causes with none are left out.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (Cause, u64)> {
        let sum = |cause| self.shares.iter().filter(|share| share.cause == cause).map(|share| share.count).sum();
        Cause::ALL.into_iter().map(move |cause| (cause, sum(cause))).filter(|(_, count)| *count > 0)
    }

    /// The cause that explains most misses, with its main culprit.
    pub(crate) fn main(&self) -> Option<&Share> {
        let main = self.causes().reduce(|main, next| if next.1 > main.1 { next } else { main })?;
        self.shares.iter().find(|share| share.cause == main.0)
    }
}

/// The state while nothing is missed. The next report counts releases from `begun` on; there were `due` so far, and the last tick finished
/// at `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quiet {
    pub(super) begun: Instant,
    pub(super) due: u64,
    pub(super) until: Instant,
}

/// Collects misses until they are reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Misses {
    missed: Missed,
    begun: Option<Instant>, // the first release since the last report
    until: Instant,         // the end of the last tick, or when the last release was given up
    timeless: bool,         // it is unknown when some of them came up
}

impl Misses {
    /// Enters a record. Its first release (given up before the tick, or the tick's own) came up at `first`; the oldest was `oldest` late.
    pub(super) fn note(&mut self, record: &TickRecord, first: Instant, oldest: Span) {
        self.begin(first);
        self.until = record.finished();
        let missed = &mut self.missed;
        missed.due += 1 + record.skipped();
        missed.skipped += record.skipped();
        if record.overrun || record.skipped() > 0 {
            missed.age = missed.age.max(record.age.map(|input| input.age));
        }
        if record.skipped() > 0 {
            missed.oldest = missed.oldest.max(oldest);
            missed.worst = missed.worst.max(oldest);
        }
        if record.overrun {
            missed.overruns += 1;
            let lateness = |tick: &LateTick| tick.lateness + tick.run;
            if missed.tick.as_ref().map(lateness).is_none_or(|latest| record.response > latest) {
                missed.tick = Some(LateTick { n: record.n, lateness: record.lateness, run: record.run() });
            }
            missed.worst = missed.worst.max(record.response);
        }
    }

    /// A release that is being entered came up at `first`. If nothing was missed for long, the report begins with it.
    fn begin(&mut self, first: Instant) {
        let quiet = self.missed.count() == 0;
        let begun = self.begun.filter(|begun| !quiet || first - *begun < BEFORE);
        if quiet && begun.is_none() {
            self.missed.due = 0;
        }
        self.begun = begun.or(Some(first));
    }

    /// The state while nothing is missed; `None` if something was missed or nothing has been entered.
    pub(super) fn quiet(&self) -> Option<Quiet> {
        let quiet = !self.any() && !self.timeless;
        self.begun.filter(|_| quiet).map(|begun| Quiet { begun, due: self.missed.due, until: self.until })
    }

    /// Sets the state after ticks in which nothing was missed.
    pub(super) fn go_on(&mut self, Quiet { begun, due, until }: Quiet) {
        (self.begun, self.missed.due, self.until) = (Some(begun), due, until);
    }

    /// Enters releases that no record reports. The oldest that was given up was `oldest` late (zero: unknown). They came up and were missed
    /// `within` this time. If that is unknown, so is the time that the report covers.
    pub(super) fn note_unreported(
        &mut self,
        overruns: u64,
        skipped: u64,
        oldest: Span,
        within: Option<(Instant, Instant)>,
    ) {
        if overruns + skipped == 0 {
            return;
        }
        match within {
            Some((first, until)) => {
                self.begin(first);
                self.until = self.until.max(until);
            }
            None => self.timeless = true,
        }
        self.missed.due += overruns + skipped;
        self.missed.overruns += overruns;
        self.missed.skipped += skipped;
        self.missed.oldest = self.missed.oldest.max(oldest);
        self.missed.worst = self.missed.worst.max(oldest);
    }

    /// Assigns a cause and a culprit to `count` of the entered releases.
    pub(super) fn blame(&mut self, cause: Cause, by: Option<&str>, count: u64) {
        let shares = &mut self.missed.shares;
        let by = by.filter(|_| shares.len() < AT_MOST);
        match shares.iter_mut().find(|share| share.cause == cause && share.by.as_deref() == by) {
            _ if count == 0 => {}
            Some(share) => share.count += count,
            None => shares.push(Share { cause, by: by.map(str::to_owned), count }),
        }
    }

    /// Whether anything was missed since the last report.
    pub(super) fn any(&self) -> bool {
        self.missed.count() > 0
    }

    /// Takes the misses collected so far, if any.
    pub(super) fn take(&mut self) -> Option<Missed> {
        if self.missed.count() == 0 {
            return None;
        }
        let mut missed = std::mem::take(&mut self.missed);
        let timeless = std::mem::take(&mut self.timeless);
        let begun = self.begun.take().filter(|_| !timeless);
        missed.within = begun.map_or(Span::ZERO, |begun| self.until - begun).max(Span::ZERO);
        missed.shares.sort_by_key(|share| std::cmp::Reverse(share.count));
        Some(missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::InputAge;
    use crate::metrics::RECORD;

    #[test]
    fn the_oldest_age_of_ticks_that_missed_is_told() {
        let (mut misses, age) =
            (Misses::default(), |micros| Some(InputAge { age: Span::from_micros(micros), measured_by: 1 }));
        let met = TickRecord { overrun: false, ..RECORD };
        for record in [TickRecord { age: age(9), ..met }, TickRecord { age: age(5), ..RECORD }, RECORD] {
            misses.note(&record, record.release, Span::ZERO);
        }
        misses.note(&TickRecord { missed: 1, age: age(7), ..met }, met.release, Span::ZERO);
        assert_eq!(misses.take().and_then(|missed| missed.age), Some(Span::from_micros(7)));
        misses.note(&RECORD, RECORD.release, Span::ZERO);
        assert_eq!(misses.take().and_then(|missed| missed.age), None);
    }

    #[test]
    fn what_came_up_at_an_unknown_time_hides_that_of_its_own_report_only() {
        let mut misses = Misses::default();
        misses.note_unreported(0, 3, Span::ZERO, None);
        assert_eq!(misses.take().map(|missed| (missed.skipped, missed.within)), Some((3, Span::ZERO)));
        let first = RECORD.finished() - Span::from_millis(7);
        misses.note(&RECORD, first, Span::ZERO);
        assert_eq!(misses.take().map(|missed| (missed.overruns, missed.within)), Some((1, Span::from_millis(7))));
    }
}
