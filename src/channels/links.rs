//! Values on their way from one task to another: the producer's newest whole row, with its origin and quality.
//!
//! Each pair of tasks has a mailbox, so neither side ever waits and no row is torn, whether on one worker or on two. Just before a task's
//! tick, its worker receives the newest rows and copies them into the cells behind the task's inputs. No clock is read; only [`link`]
//! allocates.

use super::input::{Cell, Input, InputSource, Last, NO_ORIGIN, Quality, instant};
use super::mailbox::{self, mailbox};
use super::word;
use crate::time::{Instant, Span};
use std::sync::Arc;

/// Words of a row before its values: index, release, origin, and the task that measured at the origin.
const HEAD: usize = 4;

/// Number of values whose quality fits in one word.
const PER_WORD: usize = 64;

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
    max_age: Span,
}

/// The column that an input reads.
#[derive(Debug)]
struct Tap {
    column: usize,
    cell: Arc<Cell>,
    closes_cycle: bool,
}

/// A link from a task with `columns` values to the `inputs` of another, each with the column that it reads. Values older than `max_age` are
/// stale.
///
/// # Panics
/// If an input names a column that does not exist.
pub(crate) fn link<'a>(
    columns: usize,
    inputs: impl IntoIterator<Item = (usize, &'a Input)>,
    max_age: Span,
) -> (LinkSender, LinkReceiver) {
    let room = HEAD + columns.div_ceil(PER_WORD) + columns;
    let (sender, receiver) = mailbox(room);
    let tap = |(column, input): (usize, &Input)| {
        let closes_cycle = matches!(input.source(), InputSource::Value(name) if name.previous.is_some());
        Tap { column, cell: input.cell().clone(), closes_cycle }
    };
    let taps: Vec<_> = inputs.into_iter().map(tap).collect();
    assert!(taps.iter().all(|tap| tap.column < columns), "an input of a value that there is not");
    let closing = taps.iter().filter(|tap| tap.closes_cycle).map(|tap| (tap.column, tap.cell.last().clone())).collect();
    let row = vec![0; room].into_boxed_slice();
    let sender = LinkSender { words: sender, row: row.clone(), has_row: false, closing };
    (sender, LinkReceiver { words: receiver, taps, row, has_row: false, max_age })
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
    /// Replaces the row in the mailbox. `is_good` tells which values are good. Wait-free.
    pub(crate) fn post(&mut self, head: RowHead, values: &[f64], is_good: impl Fn(usize, f64) -> bool) {
        for (column, last) in &self.closing {
            last.put(values[*column]);
        }
        let RowHead { n, release, origin } = head;
        let bad = values.chunks(PER_WORD).enumerate().map(|(chunk, values)| {
            let bit = |(at, value): (usize, &f64)| u64::from(!is_good(chunk * PER_WORD + at, *value)) << at;
            values.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit)
        });
        let (at, task) =
            origin.map_or((NO_ORIGIN.cast_unsigned(), 0), |origin| (word(origin.at.nanos()), origin.task.into()));
        let head = [n, word(release.nanos()), at, task];
        let values = values.iter().map(|value| value.to_bits());
        self.row.iter_mut().zip(head.into_iter().chain(bad).chain(values)).for_each(|(kept, word)| *kept = word);
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
    /// Copies the newest row into the inputs, as seen at `now`. Returns the oldest origin of the inputs, if any has one, and whether all
    /// inputs are good. Wait-free.
    ///
    /// An input that closes a cycle shows a past value, however old it is and whatever it was computed from. Otherwise the first bad value
    /// would circulate forever, and so would the first origin. So the input has no origin, even when the task itself asks for it.
    pub(crate) fn refresh(&mut self, now: Instant) -> (Option<Origin>, bool) {
        self.receive();
        if !self.has_row {
            self.taps.iter().filter(|tap| tap.closes_cycle).for_each(|tap| tap.cell.lay_last());
            return (None, self.taps.iter().all(|tap| tap.closes_cycle || tap.cell.is_spared()));
        }
        let (head, rest) = self.row.split_at(HEAD);
        let (bad, values) = rest.split_at(self.columns().div_ceil(PER_WORD));
        let (release, origin) = (nanos_of(head[1]), nanos_of(head[2]));
        let now_ns = (now - Instant::ZERO).nanos();
        // A row without a measurement behind it ages as well: its producer may have ended.
        let stale = now - Instant::from_nanos(origin.min(release).into()) > self.max_age;
        let (mut all_good, mut oldest) = (true, None);
        for tap @ Tap { column, cell, closes_cycle } in &self.taps {
            let value = values[*column];
            let is_bad = bad[column / PER_WORD] >> (column % PER_WORD) & 1 == 1;
            let quality = match (is_bad, stale) {
                _ if *closes_cycle && f64::from_bits(value).is_finite() => Quality::Good,
                _ if *closes_cycle => {
                    cell.lay_last();
                    continue;
                }
                (true, _) => Quality::Bad,
                (false, true) => Quality::Stale,
                (false, false) => Quality::Good,
            };
            let done_without = quality != Quality::Good && tap.cell.is_spared();
            if !closes_cycle && !done_without {
                all_good &= quality == Quality::Good;
                let task = u32::try_from(head[3]).unwrap_or(u32::MAX); // the word holds a u32
                oldest = instant(origin, NO_ORIGIN).map(|at| Origin { at, task });
            }
            let origin = if *closes_cycle { NO_ORIGIN } else { origin };
            cell.lay(value, release, origin, quality, now_ns);
        }
        (oldest, all_good)
    }

    /// Continues with the values that `old` had for the same inputs, until a row arrives. Used when a task continues while one of its
    /// producers does not. Allocates nothing.
    pub(crate) fn adopt(&mut self, old: &mut Self) {
        old.receive();
        let old = &*old;
        let same = |tap: &Tap| old.taps.iter().position(|other| Arc::ptr_eq(&tap.cell, &other.cell));
        if self.has_row || !old.has_row || !self.taps.iter().any(|tap| same(tap).is_some()) {
            return;
        }
        let (old_flags, flags) = (HEAD + old.columns().div_ceil(PER_WORD), HEAD + self.columns().div_ceil(PER_WORD));
        self.row[..HEAD].copy_from_slice(&old.row[..HEAD]);
        for tap in &self.taps {
            let (word, bit) = (HEAD + tap.column / PER_WORD, 1 << (tap.column % PER_WORD));
            match same(tap).map(|at| old.taps[at].column) {
                Some(column) => {
                    let is_bad = old.row[HEAD + column / PER_WORD] >> (column % PER_WORD) & 1 == 1;
                    self.row[word] = if is_bad { self.row[word] | bit } else { self.row[word] & !bit };
                    self.row[flags + tap.column] = old.row[old_flags + column];
                }
                None => {
                    self.row[word] |= bit;
                    self.row[flags + tap.column] = f64::NAN.to_bits();
                }
            }
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

    /// Number of values in a row.
    fn columns(&self) -> usize {
        // room = HEAD + ceil(columns / 64) + columns
        let rest = self.row.len() - HEAD;
        rest - rest.div_ceil(PER_WORD + 1)
    }
}

fn nanos_of(word: u64) -> i64 {
    word.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::super::input::ValueName;
    use super::*;

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
        let (mut sender, mut receiver) = link(70, [(0, &one), (69, &two)], Span::from_nanos(100));
        assert_eq!(receiver.refresh(at(0)), (None, false));
        assert!(one.get().is_nan() && one.quality() == Quality::Missing && one.release().is_none());
        let mut values = [1.5; 70];
        values[69] = f64::NAN;
        sender.post(RowHead { n: 3, release: at(40), origin: Some(of(30)) }, &values, |_, value| value.is_finite());
        assert_eq!(receiver.refresh(at(130)), (Some(of(30)), false));
        assert_eq!((one.get(), one.quality(), two.quality()), (1.5, Quality::Good, Quality::Bad));
        assert_eq!((one.release(), one.origin()), (Some(at(40)), Some(at(30))));
        // Without a newer row, the value still ages.
        assert_eq!(receiver.refresh(at(131)), (Some(of(30)), false));
        assert!(one.quality() == Quality::Stale && one.get().is_nan());
        values[69] = 2.0;
        sender.post(RowHead { n: 4, release: at(140), origin: Some(of(140)) }, &values, |_, value| value.is_finite());
        assert_eq!(receiver.refresh(at(150)), (Some(of(140)), true));
        assert_eq!((one.get(), two.get()), (1.5, 2.0));
    }

    #[test]
    fn a_row_of_any_width_is_laid_out_as_it_is_read() {
        for columns in 1..200 {
            let last = named("last");
            let (mut sender, mut receiver) = link(columns, [(columns - 1, &last)], Span::ZERO);
            assert_eq!(receiver.columns(), columns);
            let values: Vec<f64> = (0_u32..).map(f64::from).take(columns).collect();
            sender.post(RowHead { n: 0, release: at(1), origin: Some(of(1)) }, &values, |at, _| at + 1 == columns);
            assert_eq!(receiver.refresh(at(1)), (Some(of(1)), true));
            assert_eq!(last.get(), values[columns - 1]);
        }
    }

    #[test]
    fn a_setpoint_has_no_origin_and_grows_old_all_the_same() {
        let input = named("setpoint");
        let (mut sender, mut receiver) = link(1, [(0, &input)], Span::from_nanos(100));
        sender.post(RowHead { n: 0, release: at(50), origin: None }, &[3.0], |_, _| true);
        assert_eq!(receiver.refresh(at(150)), (None, true));
        assert_eq!((input.get(), input.origin(), input.release()), (3.0, None, Some(at(50))));
        assert_eq!(receiver.refresh(at(151)), (None, false));
        assert_eq!(input.quality(), Quality::Stale);
    }

    #[test]
    fn what_a_task_does_without_makes_nothing_bad() {
        let (needed, spared) = (named("a"), named("b").spared());
        let (mut sender, mut receiver) = link(2, [(0, &needed), (1, &spared)], Span::from_nanos(100));
        assert_eq!(receiver.refresh(at(0)), (None, false));
        let (_, mut alone) = link(2, [(1, &spared)], Span::from_nanos(100));
        assert_eq!(alone.refresh(at(0)), (None, true));
        let head = |nanos| RowHead { n: 0, release: at(nanos), origin: Some(of(nanos)) };
        sender.post(head(10), &[1.0, f64::NAN], |_, value| value.is_finite());
        assert_eq!(receiver.refresh(at(20)), (Some(of(10)), true));
        assert!(spared.quality() == Quality::Bad && spared.get().is_nan());
        sender.post(head(20), &[f64::NAN, 1.0], |_, value| value.is_finite());
        assert_eq!(receiver.refresh(at(30)), (Some(of(20)), false));
        // An input that the task can do without does not age its outputs.
        let (mut sender, mut alone) = link(1, [(0, &spared)], Span::from_nanos(100));
        sender.post(head(10), &[1.0], |_, _| true);
        assert_eq!(alone.refresh(at(110)), (Some(of(10)), true));
        assert_eq!(alone.refresh(at(111)), (None, true));
    }

    #[test]
    fn a_new_link_goes_on_where_the_old_one_was() {
        let (kept, added) = (named("kept"), named("added"));
        let (mut sender, mut old) = link(2, [(1, &kept)], Span::from_nanos(100));
        let (mut later, mut new) = link(3, [(0, &kept), (2, &added)], Span::from_nanos(100));
        sender.post(RowHead { n: 7, release: at(50), origin: Some(of(40)) }, &[1.0, 2.0], |_, _| true);
        new.adopt(&mut old);
        assert_eq!(new.refresh(at(60)), (Some(of(40)), false), "the added one has no value yet");
        assert_eq!((kept.get(), kept.quality(), added.quality()), (2.0, Quality::Good, Quality::Bad));
        later.post(RowHead { n: 0, release: at(70), origin: Some(of(70)) }, &[4.0, 5.0, 6.0], |_, _| true);
        assert_eq!(new.refresh(at(80)), (Some(of(70)), true));
        assert_eq!((kept.get(), added.get()), (4.0, 6.0));
        let (_, mut others) = link(1, [(0, &named("other"))], Span::ZERO);
        others.adopt(&mut old);
        assert_eq!(others.refresh(at(80)), (None, false));
    }

    #[test]
    fn one_that_begins_has_the_latest_row_at_once() {
        let (before, after) = (named("a"), named("a"));
        let (mut sender, _) = link(2, [(1, &before)], Span::from_nanos(100));
        let (mut new, mut receiver) = link(2, [(1, &after)], Span::from_nanos(100));
        new.adopt(&sender);
        assert_eq!(receiver.refresh(at(0)), (None, false), "there was none");
        sender.post(RowHead { n: 7, release: at(50), origin: Some(of(40)) }, &[1.0, 2.0], |_, _| true);
        new.adopt(&sender);
        assert_eq!(receiver.refresh(at(60)), (Some(of(40)), true));
        assert_eq!((after.get(), after.release()), (2.0, Some(at(50))));
        new.post(RowHead { n: 8, release: at(70), origin: Some(of(70)) }, &[3.0, 4.0], |_, _| true);
        new.adopt(&sender);
        assert_eq!(receiver.refresh(at(80)), (Some(of(70)), true), "a later one stays");
        assert_eq!(after.get(), 4.0);
        let (mut wider, mut others) = link(3, [(1, &named("a"))], Span::ZERO);
        wider.adopt(&sender);
        assert_eq!(others.refresh(at(80)), (None, false), "it is laid out otherwise");
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
            assert_eq!(reader.refresh(at(100)), (None, true));
            (input.get(), input.quality(), input.release())
        };
        let head = RowHead { n: 0, release: at(5), origin: None };
        let (first, second, third, other) = (of(0.0), of(0.0), of(0.0), of(3.0));
        let (mut sender, _) = link(1, [(0, &first)], Span::ZERO);
        // It is linked before the previous task has ended, and again by a second reload before its own first tick.
        second.goes_on_from(&first);
        let (_, mut of_second) = link(1, [(0, &second)], Span::ZERO);
        third.goes_on_from(&second);
        let (mut later, mut of_third) = link(1, [(0, &third)], Span::ZERO);
        other.goes_on_from(&first);
        let (_, mut of_other) = link(1, [(0, &other)], Span::ZERO);
        assert_eq!(taken(&third, &mut of_third), (0.0, Quality::Good, None), "nothing was put out yet");
        sender.post(head, &[1.0], |_, _| true);
        sender.post(head, &[f64::NAN], |_, _| false);
        assert_eq!(taken(&second, &mut of_second), (1.0, Quality::Good, None));
        assert_eq!(taken(&third, &mut of_third), (1.0, Quality::Good, None));
        assert_eq!(taken(&other, &mut of_other), (3.0, Quality::Good, None), "it has another number to begin with");
        later.post(head, &[0.5], |_, _| true);
        assert_eq!(taken(&third, &mut of_third), (0.5, Quality::Good, Some(at(5))));
        // The task at the other end ticks first, and has nothing to output yet.
        let fourth = of(0.0);
        fourth.goes_on_from(&third);
        let (mut restarted, mut of_fourth) = link(1, [(0, &fourth)], Span::ZERO);
        restarted.post(head, &[f64::NAN], |_, _| false);
        assert_eq!(taken(&fourth, &mut of_fourth), (0.5, Quality::Good, None));
    }

    #[test]
    fn a_link_that_closes_a_cycle_tells_what_was() {
        let name = ValueName { task: "fan".into(), value: "applied".into(), previous: Some(0.3) };
        let input = Input::value_of(name);
        let (mut sender, mut receiver) = link(1, [(0, &input)], Span::ZERO);
        assert_eq!(receiver.refresh(at(0)), (None, true));
        assert_eq!((input.get(), input.quality()), (0.3, Quality::Good));
        let head = RowHead { n: 0, release: at(5), origin: Some(of(1)) };
        sender.post(head, &[0.5], |_, _| false);
        assert_eq!(receiver.refresh(at(100)), (None, true));
        assert_eq!((input.get(), input.quality()), (0.5, Quality::Good));
        assert_eq!(
            (input.release(), input.origin()),
            (Some(at(5)), None),
            "a task that looks for itself finds none either"
        );
        // The task did not tick while 0.7 was the newest row.
        sender.post(head, &[0.7], |_, _| true);
        sender.post(head, &[f64::NAN], |_, _| false);
        assert_eq!(receiver.refresh(at(100)), (None, true));
        assert_eq!((input.get(), input.quality()), (0.7, Quality::Good));
    }
}
