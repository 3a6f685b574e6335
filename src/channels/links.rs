//! Values on their way from one task to another: the producer's newest whole row, with the origin and the quality of each value.
//!
//! Each pair of tasks has a mailbox, so neither side ever waits and no row is torn, whether on one worker or on two. Just before a task's
//! tick, its worker receives the newest rows and copies them into the cells behind the task's inputs. No clock is read; only [`link`]
//! allocates.

use super::input::{Cell, Input, InputSource, Last, NO_ORIGIN, instant};
use super::mailbox::{self, mailbox};
use super::quality::{Basis, Quality, Reason};
use super::word;
use crate::time::{Instant, Span};
use std::sync::Arc;

/// Words of a row before its values: index, release, origin, and the task that measured at the origin.
const HEAD: usize = 4;

/// Number of values whose quality fits in one word.
const PER_WORD: usize = 16;

/// The producer's end of a link.
#[derive(Debug)]
pub(crate) struct LinkSender {
    words: mailbox::Sender,
    row: Box<[u64]>, // the newest row
    has_row: bool,
    closing: Box<[(usize, Last)]>, // values that close a cycle
}

/// The consumer's end of a link.
#[derive(Debug)]
pub(crate) struct LinkReceiver {
    words: mailbox::Receiver,
    taps: Vec<Tap>,
    row: Box<[u64]>, // the newest row
    has_row: bool,
    limits: Limits,
}

/// How long a consumer waits for new values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Values older than this are stale. A value may have nothing new for just as long.
    pub max_age: Span,
    /// How long the first value may take, or `max_age` where that is longer.
    pub first: Span,
}

/// The column that an input reads.
#[derive(Debug)]
struct Tap {
    column: usize,
    cell: Arc<Cell>,
    closes_cycle: bool,
    hold: Span, // zero: not at all
    waits: Waits,
    measured: i64,      // origin of the last usable value, in nanoseconds; MAX: none
    good: Option<Good>, // with `hold`: the last good value
}

/// Since when an input has had nothing new, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// No tick has looked yet.
    Unseen,
    /// No value could have come yet: its source has had none, or is not there.
    First(i64),
    Later(i64),
    No,
}

/// A good value as an input last had it. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Good {
    value: u64,
    release: i64,
    origin: i64,
    seen: i64,
}

/// A link from a task with `columns` values to the `inputs` of another, each with the column that it reads.
///
/// # Panics
/// If an input names a column that does not exist.
pub(crate) fn link<'a>(
    columns: usize,
    inputs: impl IntoIterator<Item = (usize, &'a Input)>,
    limits: Limits,
) -> (LinkSender, LinkReceiver) {
    let room = HEAD + columns.div_ceil(PER_WORD) + columns;
    let (sender, receiver) = mailbox(room);
    let tap = |(column, input): (usize, &Input)| {
        let closes_cycle = matches!(input.source(), InputSource::Value(name) if name.previous.is_some());
        Tap {
            column,
            cell: input.cell().clone(),
            closes_cycle,
            hold: Span::ZERO,
            waits: Waits::Unseen,
            measured: NO_ORIGIN,
            good: None,
        }
    };
    let taps: Vec<_> = inputs.into_iter().map(tap).collect();
    assert!(taps.iter().all(|tap| tap.column < columns), "an input of a value that there is not");
    let closing = taps.iter().filter(|tap| tap.closes_cycle).map(|tap| (tap.column, tap.cell.last().clone())).collect();
    let row = vec![0; room].into_boxed_slice();
    let sender = LinkSender { words: sender, row: row.clone(), has_row: false, closing };
    (sender, LinkReceiver { words: receiver, taps, row, has_row: false, limits })
}

/// The data common to all values of one tick. Instants are on the monotonic clock, so they mean the same on all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowHead {
    pub n: u64,
    pub release: Instant,
    /// The oldest measurement behind it; `None` if there is none, as for a setpoint.
    pub origin: Option<Origin>,
}

/// A measurement, as recorded in values computed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// The release of its tick, on the monotonic clock.
    pub at: Instant,
    /// The number of its task.
    pub task: u32,
}

impl LinkSender {
    /// Replaces the row in the mailbox. `quality` tells what each value is worth. Wait-free.
    pub(crate) fn post(&mut self, head: RowHead, values: &[f64], quality: impl Fn(usize, f64) -> Quality) {
        for (column, last) in &self.closing {
            last.put(values[*column]);
        }
        let RowHead { n, release, origin } = head;
        let codes = values.chunks(PER_WORD).enumerate().map(|(chunk, values)| {
            let code = |(at, value): (usize, &f64)| quality(chunk * PER_WORD + at, *value).code() << (4 * at);
            values.iter().enumerate().map(code).fold(0, |codes, code| codes | code)
        });
        let (at, task) =
            origin.map_or((NO_ORIGIN.cast_unsigned(), 0), |origin| (word(origin.at.nanos()), origin.task.into()));
        let head = [n, word(release.nanos()), at, task];
        let values = values.iter().map(|value| value.to_bits());
        self.row.iter_mut().zip(head.into_iter().chain(codes).chain(values)).for_each(|(kept, word)| *kept = word);
        self.has_row = true;
        self.words.post(self.row.iter().copied());
    }

    /// Continues with the newest row of `old`, a link of the same task, until the task makes another row. Used when a task continues while
    /// one of its consumers begins. Allocates nothing.
    pub(crate) fn adopt(&mut self, old: &Self) {
        if self.has_row || !old.has_row || self.row.len() != old.row.len() {
            return;
        }
        self.row.copy_from_slice(&old.row);
        self.has_row = true;
        self.words.post(self.row.iter().copied());
    }
}

impl LinkReceiver {
    /// Sets the `hold` of each input, in the order of [`link`]: for how long its last good value is used in place of one that is not good.
    pub(crate) fn with_holds(mut self, holds: &[Span]) -> Self {
        self.taps.iter_mut().zip(holds).for_each(|(tap, hold)| tap.hold = *hold);
        self
    }

    /// Copies the newest row into the inputs, as seen at `now`. Returns the oldest origin of the inputs, if any has one, and what they mean
    /// for the task. Wait-free.
    ///
    /// An input that closes a cycle shows a past value, however old it is and whatever it was computed from. Otherwise the first bad value
    /// would circulate forever, and so would the first origin. So the input has no origin, even when the task itself asks for it.
    pub(crate) fn refresh(&mut self, now: Instant) -> (Option<Origin>, Basis) {
        self.receive();
        let now_ns = (now - Instant::ZERO).nanos();
        let (head, rest) = self.row.split_at(HEAD);
        let (codes, values) = rest.split_at(columns_of(&self.row).div_ceil(PER_WORD));
        let (release, origin) = match self.has_row {
            true => (nanos_of(head[1]), nanos_of(head[2])),
            false => (i64::MIN, NO_ORIGIN),
        };
        // A row without a measurement behind it ages as well: its producer may have ended.
        let stale = self.has_row && now - Instant::from_nanos(origin.min(release).into()) > self.limits.max_age;
        let (mut basis, mut oldest) = (Basis::Good, NO_ORIGIN);
        for tap in &mut self.taps {
            let (column, cell) = (tap.column, tap.cell.clone());
            let value = values[column];
            if tap.closes_cycle {
                match self.has_row && f64::from_bits(value).is_finite() {
                    true => cell.lay(value, release, NO_ORIGIN, Quality::Good, now_ns),
                    false => cell.lay_last(),
                }
                continue;
            }
            let code = codes[column / PER_WORD] >> (4 * (column % PER_WORD)) & 15;
            if code == 0 && self.has_row && !stale {
                cell.lay(value, release, origin, Quality::Good, now_ns);
                (tap.waits, tap.measured) = (Waits::No, origin);
                if tap.hold > Span::ZERO {
                    tap.good = Some(Good { value, release, origin, seen: now_ns });
                }
                oldest = oldest.min(origin);
                continue;
            }
            let found = if self.has_row { Quality::of_code(code) } else { Quality::None };
            let quality = tap.not_good(found, stale, self.limits, self.has_row, now_ns);
            let held = tap.good.filter(|good| !quality.is_usable() && now_ns - good.seen <= tap.hold.nanos());
            let (value, release, origin, quality) = match held {
                Some(Good { value, release, origin, .. }) => (value, release, origin, Quality::Held),
                None => (value, release, origin, quality),
            };
            if quality.is_usable() {
                tap.measured = origin;
            }
            // The row's origin is that of its values. Without a value, the age is that of the last one.
            let shown = if quality.is_usable() || found.is_usable() { origin } else { tap.measured };
            let origin = if quality == Quality::None { origin } else { shown };
            if quality.is_usable() || !cell.is_spared() {
                oldest = oldest.min(origin);
            }
            if !cell.is_acted_on() {
                basis = basis.max(Basis::of_input(quality, cell.is_spared()));
            }
            cell.lay(value, release, shown, quality, now_ns);
        }
        let task = u32::try_from(head[3]).unwrap_or(u32::MAX); // the word holds a u32
        (instant(oldest, NO_ORIGIN).map(|at| Origin { at, task }), basis)
    }

    /// Continues with the values that `old` had for the same inputs, until a row arrives. Used when a task continues while one of its
    /// producers does not. Allocates nothing.
    pub(crate) fn adopt(&mut self, old: &mut Self) {
        old.receive();
        let old = &*old;
        for tap in &mut self.taps {
            let before = old.taps.iter().find(|other| Arc::ptr_eq(&tap.cell, &other.cell));
            tap.waits = before.map_or(Waits::Unseen, |before| before.waits);
        }
        let is_kept = |tap: &Tap| old.taps.iter().any(|other| Arc::ptr_eq(&tap.cell, &other.cell));
        if self.has_row || !old.has_row || !self.taps.iter().any(is_kept) {
            return;
        }
        let first = |row: &[u64]| HEAD + columns_of(row).div_ceil(PER_WORD);
        let (old_first, first) = (first(&old.row), first(&self.row));
        self.row[..HEAD].copy_from_slice(&old.row[..HEAD]);
        let (taps, row) = (&mut self.taps, &mut self.row);
        for tap in taps {
            let before = old.taps.iter().find(|other| Arc::ptr_eq(&tap.cell, &other.cell));
            let (code, value) = match before {
                Some(Tap { column, waits, measured, good, .. }) => {
                    (tap.waits, tap.measured, tap.good) = (*waits, *measured, *good);
                    let code = old.row[HEAD + column / PER_WORD] >> (4 * (column % PER_WORD)) & 15;
                    (code, old.row[old_first + column])
                }
                None => (Quality::None.code(), f64::NAN.to_bits()),
            };
            let (word, shift) = (HEAD + tap.column / PER_WORD, 4 * (tap.column % PER_WORD));
            row[word] = row[word] & !(15 << shift) | code << shift;
            row[first + tap.column] = value;
        }
        self.has_row = true;
    }

    /// Receives the newest row, if one has arrived.
    fn receive(&mut self) {
        if let Some(words) = self.words.take() {
            self.row.iter_mut().zip(words).for_each(|(kept, word)| *kept = word);
            self.has_row = true;
        }
    }
}

impl Tap {
    /// The quality of a value that its row calls `found`, or that is `stale`. While nothing new comes, only time makes the value bad. A
    /// source that is not there yet is treated the same.
    fn not_good(&mut self, found: Quality, stale: bool, limits: Limits, has_row: bool, now: i64) -> Quality {
        let is_first = matches!(self.waits, Waits::Unseen | Waits::First(_));
        if found != Quality::None && !(is_first && found == Quality::Bad(Reason::Unavailable)) {
            self.waits = Waits::No;
            return if stale && found.is_usable() { Quality::Bad(Reason::Stale) } else { found };
        }
        let since = if let Waits::First(since) | Waits::Later(since) = self.waits { since } else { now };
        let patience = if is_first { limits.max_age.max(limits.first) } else { limits.max_age };
        let is_over = stale || now - since > patience.nanos();
        self.waits = if is_first && !is_over { Waits::First(since) } else { Waits::Later(since) };
        match is_over {
            false => Quality::None,
            true if has_row && found == Quality::None => Quality::Bad(Reason::Stale),
            true => Quality::Bad(Reason::Unavailable),
        }
    }
}

/// Number of values in a row of a link.
fn columns_of(row: &[u64]) -> usize {
    // room = HEAD + ceil(columns / PER_WORD) + columns
    let rest = row.len() - HEAD;
    rest - rest.div_ceil(PER_WORD + 1)
}

fn nanos_of(word: u64) -> i64 {
    word.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::super::input::ValueName;
    use super::super::quality::NONE;
    use super::*;

    /// Values may be this old, and are not held.
    fn up_to(nanos: i64) -> Limits {
        Limits { max_age: Span::from_nanos(nanos), first: Span::ZERO }
    }

    fn named(value: &str) -> Input {
        Input::value_of(ValueName { task: "board".into(), value: value.into(), previous: None })
    }

    fn at(nanos: i64) -> Instant {
        Instant::from_nanos(nanos.into())
    }

    fn of(nanos: i64) -> Origin {
        Origin { at: at(nanos), task: 7 }
    }

    #[test]
    fn an_input_has_the_latest_row_and_its_worth() {
        let (one, two) = (named("a"), named("b"));
        let (mut sender, mut receiver) = link(70, [(0, &one), (69, &two)], up_to(100));
        assert_eq!(receiver.refresh(at(0)), (None, Basis::None));
        assert!(one.get().is_nan() && one.quality() == Quality::None && one.release().is_none());
        let mut values = [1.5; 70];
        values[69] = f64::NAN;
        sender.post(RowHead { n: 3, release: at(40), origin: Some(of(30)) }, &values, |_, value| {
            Quality::of(value, Basis::Good, None)
        });
        assert_eq!(receiver.refresh(at(130)), (Some(of(30)), Basis::Inherited));
        assert_eq!((one.get(), one.quality(), two.quality()), (1.5, Quality::Good, Quality::Bad(Reason::NotFinite)));
        assert_eq!((one.release(), one.origin()), (Some(at(40)), Some(at(30))));
        // Without a newer row, the value still ages.
        assert_eq!(receiver.refresh(at(131)), (Some(of(30)), Basis::Inherited));
        assert!(one.quality() == Quality::Bad(Reason::Stale) && one.get().is_nan());
        values[69] = 2.0;
        sender.post(RowHead { n: 4, release: at(140), origin: Some(of(140)) }, &values, |_, value| {
            Quality::of(value, Basis::Good, None)
        });
        assert_eq!(receiver.refresh(at(150)), (Some(of(140)), Basis::Good));
        assert_eq!((one.get(), two.get()), (1.5, 2.0));
    }

    #[test]
    fn a_row_of_any_width_is_laid_out_as_it_is_read() {
        for columns in 1..200 {
            let last = named("last");
            let (mut sender, mut receiver) = link(columns, [(columns - 1, &last)], up_to(0));
            assert_eq!(columns_of(&receiver.row), columns);
            let values: Vec<f64> = (0_u32..).map(f64::from).take(columns).collect();
            sender.post(RowHead { n: 0, release: at(1), origin: Some(of(1)) }, &values, |at, _| {
                if at + 1 == columns { Quality::Good } else { Quality::None }
            });
            assert_eq!(receiver.refresh(at(1)), (Some(of(1)), Basis::Good));
            assert_eq!(last.get(), values[columns - 1]);
        }
    }

    #[test]
    fn a_setpoint_has_no_origin_and_grows_old_all_the_same() {
        let input = named("setpoint");
        let (mut sender, mut receiver) = link(1, [(0, &input)], up_to(100));
        sender.post(RowHead { n: 0, release: at(50), origin: None }, &[3.0], |_, _| Quality::Good);
        assert_eq!(receiver.refresh(at(150)), (None, Basis::Good));
        assert_eq!((input.get(), input.origin(), input.release()), (3.0, None, Some(at(50))));
        assert_eq!(receiver.refresh(at(151)), (None, Basis::Inherited));
        assert_eq!(input.quality(), Quality::Bad(Reason::Stale));
    }

    #[test]
    fn what_a_task_does_without_makes_nothing_bad() {
        let (needed, spared) = (named("a"), named("b").spared());
        let (mut sender, mut receiver) = link(2, [(0, &needed), (1, &spared)], up_to(100));
        assert_eq!(receiver.refresh(at(0)), (None, Basis::None));
        let (_, mut alone) = link(2, [(1, &spared)], up_to(100));
        assert_eq!(alone.refresh(at(0)), (None, Basis::Without));
        let head = |nanos| RowHead { n: 0, release: at(nanos), origin: Some(of(nanos)) };
        sender.post(head(10), &[1.0, f64::NAN], |_, value| Quality::of(value, Basis::Good, None));
        assert_eq!(receiver.refresh(at(20)), (Some(of(10)), Basis::Despite));
        assert!(spared.quality() == Quality::Bad(Reason::NotFinite) && spared.get().is_nan());
        sender.post(head(20), &[f64::NAN, 1.0], |_, value| Quality::of(value, Basis::Good, None));
        // What is bad is as old as its last good value.
        assert_eq!(receiver.refresh(at(30)), (Some(of(10)), Basis::Inherited));
        // An input that the task can do without does not age its outputs.
        let (mut sender, mut alone) = link(1, [(0, &spared)], up_to(100));
        sender.post(head(10), &[1.0], |_, _| Quality::Good);
        assert_eq!(alone.refresh(at(110)), (Some(of(10)), Basis::Good));
        assert_eq!(alone.refresh(at(111)), (None, Basis::Despite));
    }

    #[test]
    fn nothing_new_is_no_error_until_it_lasts_too_long() {
        let input = named("a");
        let (mut sender, mut receiver) = link(1, [(0, &input)], up_to(100));
        let mut look = |now, wanted| {
            receiver.refresh(at(now));
            assert_eq!(input.quality(), wanted, "at {now}");
        };
        let bad = Quality::Bad;
        look(1_000, Quality::None);
        look(1_100, Quality::None);
        look(1_101, bad(Reason::Unavailable));
        let mut post = |now, value: f64| {
            let head = RowHead { n: 0, release: at(now), origin: Some(of(now)) };
            sender.post(head, &[value], |_, value| Quality::of(value, Basis::Good, None));
        };
        post(1_200, NONE);
        look(1_200, bad(Reason::Stale));
        post(1_210, 1.0);
        look(1_210, Quality::Good);
        post(1_220, NONE);
        look(1_220, Quality::None);
        post(1_320, NONE);
        look(1_320, Quality::None);
        post(1_321, NONE);
        look(1_321, bad(Reason::Stale));
        post(1_330, Reason::NotAvailable.value());
        look(1_330, bad(Reason::NotAvailable));
        look(1_431, bad(Reason::NotAvailable));
    }

    #[test]
    fn a_source_that_is_not_there_yet_is_awaited_like_a_first_row() {
        let input = named("a");
        let (mut sender, mut receiver) = link(1, [(0, &input)], up_to(100));
        let mut look = |now, value: f64, wanted| {
            let head = RowHead { n: 0, release: at(now), origin: Some(of(now)) };
            sender.post(head, &[value], |_, value| Quality::of(value, Basis::Good, None));
            receiver.refresh(at(now));
            assert_eq!(input.quality(), wanted, "at {now}");
        };
        let (away, unavailable) = (Reason::Unavailable.value(), Quality::Bad(Reason::Unavailable));
        look(1_000, away, Quality::None);
        look(1_050, NONE, Quality::None);
        look(1_100, away, Quality::None);
        look(1_101, away, unavailable);
        look(1_110, 1.0, Quality::Good);
        look(1_120, away, unavailable);
        look(1_130, NONE, Quality::None);
        look(1_140, away, unavailable);
        // What its source says of a first value counts at once.
        let (mut sender, mut receiver) = link(1, [(0, &input)], up_to(100));
        let head = RowHead { n: 0, release: at(10), origin: Some(of(10)) };
        sender.post(head, &[1e9], |_, value| Quality::of(value, Basis::Good, Some(&[0.0, 1.0])));
        receiver.refresh(at(10));
        assert_eq!(input.quality(), Quality::Bad(Reason::OutOfRange));
    }

    #[test]
    fn the_last_good_value_is_held_for_a_while_and_keeps_its_origin() {
        let input = named("a");
        let (mut sender, receiver) = link(1, [(0, &input)], up_to(100));
        let mut receiver = receiver.with_holds(&[Span::from_nanos(50)]);
        let mut post = |now, value: f64| {
            let head = RowHead { n: 0, release: at(now), origin: Some(of(now - 5)) };
            sender.post(head, &[value], |_, value| Quality::of(value, Basis::Good, Some(&[0.0, 10.0])));
        };
        let mut look = |now| (receiver.refresh(at(now)), input.quality(), input.get().to_bits(), input.origin());
        let nan = f64::NAN.to_bits();
        assert_eq!(look(0), ((None, Basis::None), Quality::None, nan, None), "there is nothing to hold");
        post(10, 7.0);
        assert_eq!(look(10), ((Some(of(5)), Basis::Good), Quality::Good, 7.0_f64.to_bits(), Some(at(5))));
        for (now, value) in [(20, 99.0), (30, f64::NAN), (60, NONE)] {
            post(now, value);
            let held = ((Some(of(5)), Basis::Held), Quality::Held, 7.0_f64.to_bits(), Some(at(5)));
            assert_eq!(look(now), held, "{value} at {now}");
        }
        post(61, 99.0);
        let bad = ((Some(of(5)), Basis::Inherited), Quality::Bad(Reason::OutOfRange), nan, Some(at(5)));
        assert_eq!(look(61), bad);
        post(70, 8.0);
        assert_eq!(look(70).1, Quality::Good);
        // A value that gets too old is held too, from the tick at which it was last good.
        assert_eq!(
            [165, 166, 215, 216].map(|now| look(now).1),
            [Quality::Good, Quality::Held, Quality::Held, Quality::Bad(Reason::Stale)]
        );
    }

    #[test]
    fn only_the_first_value_may_take_longer() {
        let input = named("a");
        let limits = Limits { max_age: Span::from_nanos(10), first: Span::from_nanos(50) };
        let (mut sender, mut receiver) = link(1, [(0, &input)], limits);
        let mut look = |now, value: Option<f64>| {
            if let Some(value) = value {
                let head = RowHead { n: 0, release: at(now), origin: None };
                sender.post(head, &[value], |_, value| Quality::of(value, Basis::Good, None));
            }
            receiver.refresh(at(now));
            input.quality()
        };
        assert_eq!([0, 20].map(|now| look(now, None)), [Quality::None; 2]);
        assert_eq!(look(40, Some(NONE)), Quality::None);
        assert_eq!(look(50, Some(Reason::Unavailable.value())), Quality::None);
        assert_eq!(look(51, Some(Reason::Unavailable.value())), Quality::Bad(Reason::Unavailable));
        assert_eq!(look(60, Some(7.0)), Quality::Good);
        assert_eq!([65, 75].map(|now| look(now, Some(NONE))), [Quality::None; 2]);
        assert_eq!(look(76, Some(NONE)), Quality::Bad(Reason::Stale));
        assert_eq!(look(77, Some(Reason::Unavailable.value())), Quality::Bad(Reason::Unavailable));
    }

    #[test]
    fn each_input_is_held_for_its_own_time() {
        let (brief, long, never) = (named("brief"), named("long"), named("never"));
        let (mut sender, receiver) = link(3, [(0, &brief), (1, &long), (2, &never)], up_to(1_000));
        let mut receiver = receiver.with_holds(&[10, 50, 0].map(Span::from_nanos));
        let mut post = |now, value: f64| {
            let head = RowHead { n: 0, release: at(now), origin: Some(of(now)) };
            sender.post(head, &[value; 3], |_, value| Quality::of(value, Basis::Good, None));
        };
        post(0, 7.0);
        receiver.refresh(at(0));
        post(10, f64::NAN);
        let lost = Quality::Bad(Reason::NotFinite);
        for (now, wanted) in
            [(10, [Quality::Held, Quality::Held, lost]), (11, [lost, Quality::Held, lost]), (51, [lost; 3])]
        {
            receiver.refresh(at(now));
            assert_eq!([&brief, &long, &never].map(Input::quality), wanted, "at {now}");
        }
    }

    #[test]
    fn a_new_link_goes_on_where_the_old_one_was() {
        let (kept, added) = (named("kept"), named("added"));
        let (mut sender, mut old) = link(2, [(1, &kept)], up_to(100));
        let (mut later, mut new) = link(3, [(0, &kept), (2, &added)], up_to(100));
        sender.post(RowHead { n: 7, release: at(50), origin: Some(of(40)) }, &[1.0, 2.0], |_, _| Quality::Good);
        new.adopt(&mut old);
        assert_eq!(new.refresh(at(60)), (Some(of(40)), Basis::None), "the added one has no value yet");
        assert_eq!((kept.get(), kept.quality(), added.quality()), (2.0, Quality::Good, Quality::None));
        later.post(RowHead { n: 0, release: at(70), origin: Some(of(70)) }, &[4.0, 5.0, 6.0], |_, _| Quality::Good);
        assert_eq!(new.refresh(at(80)), (Some(of(70)), Basis::Good));
        assert_eq!((kept.get(), added.get()), (4.0, 6.0));
        let (_, mut others) = link(1, [(0, &named("other"))], up_to(0));
        others.adopt(&mut old);
        assert_eq!(others.refresh(at(80)), (None, Basis::None));
    }

    #[test]
    fn one_that_begins_has_the_latest_row_at_once() {
        let (before, after) = (named("a"), named("a"));
        let (mut sender, _) = link(2, [(1, &before)], up_to(100));
        let (mut new, mut receiver) = link(2, [(1, &after)], up_to(100));
        new.adopt(&sender);
        assert_eq!(receiver.refresh(at(0)), (None, Basis::None), "there was none");
        sender.post(RowHead { n: 7, release: at(50), origin: Some(of(40)) }, &[1.0, 2.0], |_, _| Quality::Good);
        new.adopt(&sender);
        assert_eq!(receiver.refresh(at(60)), (Some(of(40)), Basis::Good));
        assert_eq!((after.get(), after.release()), (2.0, Some(at(50))));
        new.post(RowHead { n: 8, release: at(70), origin: Some(of(70)) }, &[3.0, 4.0], |_, _| Quality::Good);
        new.adopt(&sender);
        assert_eq!(receiver.refresh(at(80)), (Some(of(70)), Basis::Good), "a later one stays");
        assert_eq!(after.get(), 4.0);
        let (mut wider, mut others) = link(3, [(1, &named("a"))], up_to(0));
        wider.adopt(&sender);
        assert_eq!(others.refresh(at(80)), (None, Basis::None), "it is laid out otherwise");
    }

    #[test]
    fn a_number_is_always_good_and_has_no_age() {
        let number = Input::number(55.0);
        assert_eq!((number.get(), number.quality()), (55.0, Quality::Good));
        assert_eq!((number.release(), number.origin()), (None, None));
    }

    #[test]
    fn a_cycle_goes_on_over_a_reload_that_restarts_both_ends() {
        let of =
            |initial| Input::value_of(ValueName { task: "hold".into(), value: "out".into(), previous: Some(initial) });
        let taken = |input: &Input, reader: &mut LinkReceiver| {
            assert_eq!(reader.refresh(at(100)), (None, Basis::Good));
            (input.get(), input.quality(), input.release())
        };
        let head = RowHead { n: 0, release: at(5), origin: None };
        let (first, second, third, other) = (of(0.0), of(0.0), of(0.0), of(3.0));
        let (mut sender, _) = link(1, [(0, &first)], up_to(0));
        // It is linked before the previous task has ended, and again by a second reload before its own first tick.
        second.goes_on_from(&first);
        let (_, mut of_second) = link(1, [(0, &second)], up_to(0));
        third.goes_on_from(&second);
        let (mut later, mut of_third) = link(1, [(0, &third)], up_to(0));
        other.goes_on_from(&first);
        let (_, mut of_other) = link(1, [(0, &other)], up_to(0));
        assert_eq!(taken(&third, &mut of_third), (0.0, Quality::Good, None), "nothing was put out yet");
        sender.post(head, &[1.0], |_, _| Quality::Good);
        sender.post(head, &[f64::NAN], |_, _| Quality::Bad(Reason::Failed));
        assert_eq!(taken(&second, &mut of_second), (1.0, Quality::Good, None));
        assert_eq!(taken(&third, &mut of_third), (1.0, Quality::Good, None));
        assert_eq!(taken(&other, &mut of_other), (3.0, Quality::Good, None), "it has another number to begin with");
        later.post(head, &[0.5], |_, _| Quality::Good);
        assert_eq!(taken(&third, &mut of_third), (0.5, Quality::Good, Some(at(5))));
        // The task at the other end ticks first, and has nothing to output yet.
        let fourth = of(0.0);
        fourth.goes_on_from(&third);
        let (mut restarted, mut of_fourth) = link(1, [(0, &fourth)], up_to(0));
        restarted.post(head, &[f64::NAN], |_, _| Quality::Bad(Reason::Failed));
        assert_eq!(taken(&fourth, &mut of_fourth), (0.5, Quality::Good, None));
    }

    #[test]
    fn a_link_that_closes_a_cycle_tells_what_was() {
        let name = ValueName { task: "fan".into(), value: "applied".into(), previous: Some(0.3) };
        let input = Input::value_of(name);
        let (mut sender, mut receiver) = link(1, [(0, &input)], up_to(0));
        assert_eq!(receiver.refresh(at(0)), (None, Basis::Good));
        assert_eq!((input.get(), input.quality()), (0.3, Quality::Good));
        let head = RowHead { n: 0, release: at(5), origin: Some(of(1)) };
        sender.post(head, &[0.5], |_, _| Quality::Bad(Reason::Failed));
        assert_eq!(receiver.refresh(at(100)), (None, Basis::Good));
        assert_eq!((input.get(), input.quality()), (0.5, Quality::Good));
        assert_eq!(
            (input.release(), input.origin()),
            (Some(at(5)), None),
            "a task that looks for itself finds none either"
        );
        // The task did not tick while 0.7 was the newest row.
        sender.post(head, &[0.7], |_, _| Quality::Good);
        sender.post(head, &[f64::NAN], |_, _| Quality::Bad(Reason::Failed));
        assert_eq!(receiver.refresh(at(100)), (None, Basis::Good));
        assert_eq!((input.get(), input.quality()), (0.7, Quality::Good));
    }
}
