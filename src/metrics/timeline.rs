//! What a worker's thread did, tick by tick, as far back as a verdict may look.
//!
//! Pure; instants are on the worker's clock. Its size is bounded: for anything older, [`History`] keeps sums.

mod piece;

pub(super) use piece::Piece;

use super::cause::Cause;
use super::history::{History, Spent};
use crate::channels::{Evidence, IdleWake, TickRecord};
use crate::time::{Instant, Span};
use piece::Stored;
use std::cell::Cell;
use std::collections::VecDeque;

/// How many judged ticks are kept, and how far a verdict looks back. [`History`] keeps the sums of earlier ticks.
pub(super) const LOOK_BACK: usize = 4_096;

/// The maximum number of ticks kept in total: more than arrive between two rounds of the metrics thread.
const TICKS: usize = 1 << 13;

/// Memory grows by this many ticks at a time. If it doubled instead, most of it would stay empty.
const STEP: usize = 512;

/// The maximum number of run queue readings kept.
const READINGS: usize = 128;

/// What one thread did.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    pieces: VecDeque<Stored>,
    first: u64,                       // the number of the front piece; numbers increase by one
    judged: usize,                    // how many pieces from the front have been judged
    history: History,                 // what came before the first piece
    asked: Cell<u64>,                 // how often the history was asked for
    queue: VecDeque<(Instant, Span)>, // readings: an instant, and the thread's total wait for a processor by then
}

impl Timeline {
    /// Adds the next tick of the worker.
    pub(super) fn add(&mut self, record: &TickRecord) {
        let woke = record.release + record.woke;
        let sleep = record.oversleep.map(|oversleep| (woke - oversleep, woke));
        let (started, finished) = (record.started(), record.finished());
        let stepped = self.was_stepped(record.stepped, sleep.is_some(), started);
        let piece = self.next_piece(sleep, started, finished, record.evidence.as_ref(), record.after_loss);
        self.push(&Piece { task: Some(record.task), stepped, ..piece });
    }

    /// Adds the worker's next wake-up, after which it ran no tick.
    pub(super) fn add_idle(&mut self, wake: &IdleWake) {
        let IdleWake { sleep, ended, after_loss, ref evidence } = *wake;
        let piece = self.next_piece(sleep, ended, ended, evidence.as_ref(), after_loss);
        self.push(&piece);
    }

    fn push(&mut self, piece: &Piece) {
        if self.pieces.len() == self.pieces.capacity() {
            self.pieces.reserve_exact(STEP);
        }
        self.pieces.push_back(Stored::of(piece));
    }

    /// Whether the clock was stepped right before a tick that started at `started`, rather than at any time since the same task's previous
    /// tick. Each task of a worker notices a step only at its own next tick.
    fn was_stepped(&self, by: Span, slept: bool, started: Instant) -> bool {
        if by == Span::ZERO {
            return false;
        }
        let Some(before) = self.pieces.back() else { return true };
        let since = started - before.finished();
        // Part of the step may have been time that the worker slept.
        if by > Span::ZERO { since + since >= by } else { by < Span::ZERO && (slept || since < Span::ZERO) }
    }

    /// Makes room for a piece and returns it, filled with what is known.
    fn next_piece(
        &mut self,
        sleep: Option<(Instant, Instant)>,
        started: Instant,
        finished: Instant,
        evidence: Option<&Evidence>,
        after_loss: bool,
    ) -> Piece {
        if self.pieces.len() == TICKS {
            self.forget_first();
        }
        let off = evidence.map(|evidence| (evidence.awake - evidence.cpu).max(Span::ZERO));
        let (wake, before) = match sleep {
            Some(_) => (Some(self.first + self.pieces.len() as u64), Some(Span::ZERO)),
            // A lost record may have included a sleep.
            None if after_loss => (None, None),
            None => self.pieces.back().map_or((None, None), |piece| (piece.wake(), piece.off())),
        };
        Piece {
            task: None,
            sleep,
            started,
            finished,
            owed: Span::ZERO,
            wake,
            off: off.zip(before).map(|(off, before)| before + off),
            late: Cause::Unknown,
            gap: Cause::Unknown,
            stepped: false,
            after_loss,
            missed: None,
        }
    }

    /// The position of the next piece to judge, if it is this task's tick that started at `started` (`None`: a wake-up without a tick).
    /// Each piece is returned once.
    pub(super) fn next(&mut self, task: Option<u32>, started: Instant) -> Option<usize> {
        if self.judged >= LOOK_BACK {
            self.forget_first();
        }
        let position = self.judged;
        let piece = self.pieces.get(position)?;
        self.judged += 1;
        (piece.task() == task && piece.started() == started).then_some(position)
    }

    /// Moves the first piece into history.
    fn forget_first(&mut self) {
        let before = self.finished_before(0);
        let ready = self.ready(0);
        let Some(stored) = self.pieces.pop_front() else { return };
        let piece = stored.piece();
        self.first += 1;
        self.judged = self.judged.saturating_sub(1);
        if piece.stepped {
            self.history.forget();
        }
        let asleep_from = piece.sleep.map_or(ready, |(asked, _)| asked);
        let from = before.filter(|_| !piece.stepped).unwrap_or(asleep_from).min(asleep_from);
        let lost = if piece.after_loss { asleep_from - from } else { Span::ZERO };
        let ran = piece.task.map(|task| (Spent::Run(task, piece.behind()), piece.finished - piece.started));
        let held_up = [
            (Spent::HeldUp(piece.late), ready - asleep_from),
            (Spent::HeldUp(piece.gap), piece.started - ready),
            (Spent::HeldUp(Cause::Unknown), lost),
        ];
        self.history.add(from, piece.finished, held_up.into_iter().chain(ran));
    }

    /// What came before the first piece.
    pub(super) fn history(&self) -> &History {
        self.asked.set(self.asked.get() + 1);
        &self.history
    }

    /// When whatever preceded the piece at `position` had ended; `None` if that piece is the first known.
    pub(super) fn finished_before(&self, position: usize) -> Option<Instant> {
        position.checked_sub(1).map(|before| self.pieces[before].finished()).or(self.history.end())
    }

    /// When the last judged piece had ended.
    pub(super) fn judged_until(&self) -> Option<Instant> {
        self.finished_before(self.judged)
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether ticks were forgotten. If not, the thread did nothing before the first tick.
    pub(super) fn is_cut_off(&self) -> bool {
        self.first > 0
    }

    pub(super) fn piece(&self, position: usize) -> Piece {
        self.pieces[position].piece()
    }

    /// Applies `change` to the piece at `position`.
    pub(super) fn change(&mut self, position: usize, change: impl FnOnce(&mut Piece)) {
        let mut piece = self.piece(position);
        change(&mut piece);
        self.pieces[position] = Stored::of(&piece);
    }

    /// The ticks, newest first.
    pub(super) fn backwards(&self) -> impl Iterator<Item = Piece> {
        self.pieces.iter().rev().map(Stored::piece)
    }

    /// When the thread was awake and had nothing left to do but start this tick, as far as that is known.
    pub(super) fn ready(&self, position: usize) -> Instant {
        let piece = &self.pieces[position];
        match (piece.sleep(), self.finished_before(position)) {
            (Some((_, woke)), _) => woke,
            (None, Some(before)) if !piece.after_loss() => before,
            (None, _) => piece.started(),
        }
    }

    /// The first tick up to `position` that ended after `since`.
    pub(super) fn first_since(&self, since: Instant, position: usize) -> usize {
        let earlier = (0..position).rev().take_while(|&before| self.pieces[before].finished() > since);
        earlier.last().unwrap_or(position)
    }

    /// The position of the tick that the thread woke up for before it reached the tick at `position`, if that is remembered.
    fn wake_of(&self, position: usize) -> Option<usize> {
        usize::try_from(self.pieces[position].wake()?.checked_sub(self.first)?).ok()
    }

    /// For a tick at `first` whose evidence begins at `since`: the tick after the last sleep, and how long the thread was off the processor
    /// in the ticks between them. This is `first` itself, unless ticks with their own evidence came earlier in the same wake-up and nothing
    /// is known about the sleep yet. Looks back at most `look_back` ticks.
    pub(super) fn wake_up_of(&self, first: usize, since: Instant, look_back: usize) -> (usize, Span) {
        let itself = (first, Span::ZERO);
        let Some(before) = first.checked_sub(1) else { return itself };
        if self.pieces[first].sleep().is_some_and(|(_, woke)| woke >= since) {
            return itself;
        }
        match (self.wake_of(before), self.piece(before).off) {
            (Some(wake), Some(off)) if first - wake <= look_back && self.piece(wake).late == Cause::Unknown => {
                (wake, off)
            }
            _ => itself,
        }
    }

    /// Enters a reading: by `at`, the thread had waited `waited` for a processor since it began. Readings come out of order, because the
    /// metrics thread reads before it takes records, which contain the worker's own readings from earlier instants.
    pub(super) fn has_waited(&mut self, at: Instant, waited: Span) {
        let earlier = self.queue.partition_point(|(known, _)| *known <= at);
        // Either nothing is new, or the reading before it was made later than its instant says.
        if earlier.checked_sub(1).is_some_and(|before| waited <= self.queue[before].1) {
            return;
        }
        let mut place = earlier;
        if self.queue.range(earlier..).next_back().is_some_and(|(_, last)| waited > *last) {
            // The clock was stepped back: the instants of earlier readings cannot be compared.
            self.queue.clear();
            place = 0;
        } else if self.queue.get(earlier).is_some_and(|(_, next)| waited > *next) {
            return; // it was made later than its instant says
        }
        if self.queue.len() == READINGS {
            let Some(moved) = place.checked_sub(1) else { return }; // it is the oldest
            self.queue.pop_front();
            place = moved;
        }
        self.queue.insert(place, (at, waited));
    }

    /// How long the thread had waited for a processor by `at`, the end of a sleep before the tick at `position`: the last reading before,
    /// plus the lateness of its sleeps since then.
    pub(super) fn waited_before(&self, position: usize, at: Instant) -> Span {
        // If all remaining readings are later, use the first: the thread had waited since long before it.
        let latest = self.queue.iter().rev().find(|(known, _)| *known <= at).or(self.queue.front());
        let Some(&(known, waited)) = latest else { return Span::ZERO };
        // Go from sleep to sleep: there may be thousands of ticks between them.
        let sleeps = |next: &usize| next.checked_sub(1).and_then(|before| self.wake_of(before));
        let since = std::iter::successors(sleeps(&position), sleeps).map(|wake| &self.pieces[wake]);
        let since = since.take_while(|piece| piece.finished() > known);
        let late = |piece: &Stored| piece.sleep().map_or(Span::ZERO, |(asked, woke)| woke - asked.max(known));
        since.fold(waited, |sum, piece| sum + late(piece).max(Span::ZERO))
    }
}

#[cfg(test)]
mod tests;
