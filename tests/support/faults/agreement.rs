//! Compares what hertzd reports about its ticks with the kernel's own trace of the worker's thread.

use super::kernel_trace::{Event, KernelTrace, RESOLUTION, What, away, is_whole};
use super::kind::{TickNote, notes};
use super::scenario::{Mode, Scenario, User};
use super::ticks::{TickLine, tick_lines};
use crate::program::thread_named;
use hertzd::time::Span;

/// The maximum difference, in nanoseconds, between two times of one switch: the time in the trace, and the time in the kernel's count of
/// how long a thread waited for a CPU.
const NEARLY: i64 = 100 * RESOLUTION;

/// The results of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) wakes: u64,
    /// Sleeps whose end had already passed when the kernel was asked.
    pub(crate) past: u64,
    /// Wake-ups for which the trace lacks an event, as happens when one event interrupts another.
    pub(crate) incomplete: u64,
    /// Ticks with a verdict for which the trace lacks an event, in the tick or in earlier ticks of the same wake-up.
    pub(crate) incomplete_ticks: u64,
    pub(crate) preempted: u64,
    /// Those of `preempted` that waited themselves, or behind a tick of the same wake-up that did.
    pub(crate) waited: u64,
    pub(crate) ran_long: u64,
    /// The longest time from the switch to the thread until it read the clock itself.
    pub(crate) longest: i64,
    deadline: i64, // of each tick
    finished: i64, // of the previous tick
    due: i64,      // when the worker was last to be woken
    whole: bool,   // the trace has every event since then
    host: i64,     // since then, in ticks: time on the CPU without using it, because the host took it
    earlier: i64,  // the thread's wait in ticks that missed nothing, since the last tick that missed
}

impl Scenario {
    /// Runs it for `length` under the kernel's trace, as root with one task. Asserts that trace and hertzd agree on every tick that the
    /// trace covers. Returns the reason if this is impossible.
    pub(crate) fn compare_with_kernel(&self, cpu: usize, length: Span) -> Result<Compared, String> {
        let trace = KernelTrace::new()?;
        let mut started = self.start(cpu, User::Root, Mode::Alone, length)?;
        started.hertzd.wait_until_granted();
        let thread = thread_named(started.hertzd.pid(), "hz-main").unwrap();
        trace.follow(thread);
        let (ended, _) = self.finish(started, cpu);
        let events = trace.events(thread);
        let folder = ended.folder.path();
        let notes = notes(&folder.join("task.notes"));
        let mut compared = Compared { deadline: self.period * 500_000, ..Compared::default() };
        for line in tick_lines(&folder.join("stderr")) {
            let note = notes.iter().find(|note| note.n == line.n).unwrap();
            if events.first().is_some_and(|first| first.at < note.release - 100_000_000) {
                compared.tick(&line, note, &events);
            }
        }
        Ok(compared)
    }
}

impl Compared {
    /// Compares a tick with what it noted itself.
    fn tick(&mut self, line: &TickLine, note: &TickNote, events: &[Event]) {
        let release = note.release;
        let (woke, started) = (release + line.woke, release + line.lateness);
        let finished = started + line.run;
        let before = std::mem::replace(&mut self.finished, finished);
        let counted = note.queued[1] - note.queued[0];
        let earlier = self.earlier;
        // After a miss, hertzd reads the kernel's count again.
        self.earlier = if line.verdicts.iter().any(Option::is_some) { 0 } else { earlier + counted };
        let ready = release.max(woke).max(before);
        let host = (finished - ready - note.cpu - away(events, ready, finished)).max(0);
        // Events may also be lost in pairs, such as put on a CPU and taken off again. The kernel's count of the same time reveals that.
        let queued = away(events, started, finished);
        let whole = (queued - counted).abs() <= NEARLY && is_whole(events, before, finished);
        (self.host, self.whole) = match line.oversleep {
            Some(_) => (host, whole),
            None => (self.host + host, self.whole && whole),
        };
        if let Some(oversleep) = line.oversleep {
            self.due = woke - oversleep;
            let slept = |event: &Event| event.what == What::Out { ready: false } && (before..=woke).contains(&event.at);
            let after = events.iter().rposition(slept).map(|slept| &events[slept + 1..]);
            match after {
                // asked for ≤ made runnable ≤ put on the CPU ≤ the thread's own reading of the clock ≤ start of the tick
                Some([Event { at: woken, what: What::Woken }, Event { at: on_cpu, what: What::In }, ..]) => {
                    let order = [woke - oversleep, *woken, *on_cpu, woke, started];
                    let in_order = order.windows(2).all(|pair| pair[0] <= pair[1] + RESOLUTION);
                    assert!(in_order, "asked, woken, switched to, woke, started: {order:?}; {line:?}");
                    self.wakes += 1;
                    self.longest = self.longest.max(woke - on_cpu);
                }
                Some(_) => self.incomplete += 1,
                None => self.past += 1,
            }
        }
        let Some(verdict) = &line.verdicts[1] else { return };
        if !self.whole {
            self.incomplete_ticks += 1;
            return;
        }
        let near = || events.iter().filter(|event| (before..=finished).contains(&event.at)).collect::<Vec<_>>();
        match &*verdict.cause {
            "preempted" => {
                // A tick behind another one may be late because of what kept the worker from the other tick. hertzd attributes waits in
                // ticks that missed nothing to the next wake-up. If the host takes the CPU, the thread still appears to be on it.
                let large = |part: i64| part > self.deadline / 32;
                let waited = large(away(events, release.min(self.due), finished));
                let host = large(self.host) && verdict.by.as_ref().is_none_or(|by| !by.contains("(pid "));
                assert!(
                    waited || large(earlier) || host,
                    "preempted, but not off the CPU while it could run: {line:?}; {note:?}; since the tick before: {:?}",
                    near()
                );
                self.preempted += 1;
                self.waited += u64::from(waited);
            }
            "ran-long" => {
                // Either its work alone would have missed the deadline, or it was on the CPU for most of its run.
                let long = line.run - queued > self.deadline || queued < line.run / 2;
                assert!(long, "ran long, but was kept off the CPU for {queued} ns: {line:?}; {note:?}");
                self.ran_long += 1;
            }
            _ => {}
        }
    }
}
