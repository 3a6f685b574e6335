//! Reads back the writes of `hertzd safe`, on separate threads: a read might not return.

use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, Span};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// How long and how often each target is read: many drivers poll their chip every second or two, and show the last poll.
const READS_FOR: Span = Span::from_seconds(3);
const BETWEEN: Span = Span::from_millis(50);

/// How many targets are read in parallel.
const AT_ONCE: usize = 64;

/// When a read that has not returned is given up, counted from the first read.
const RETURNS_WITHIN: Span = Span::from_seconds(4);

/// Reads one target back. Returns what is wrong with it; `None`: nothing.
pub(super) type Look = Box<dyn Fn() -> Option<String> + Send>;

/// A target to be read.
struct Target {
    at: usize,
    look: Look,
    due: Instant,
}

/// The result of reading a target so far.
enum Read {
    NotYet,
    Wrong(String),
    Right,
}

/// Reads all targets until nothing is wrong with any of them. Returns what is still wrong at the end, for each target. A target that hangs
/// delays no other.
pub(super) fn amiss(looks: Vec<Look>) -> Vec<Option<String>> {
    let clock = KernelClock::monotonic();
    let (began, count) = (clock.now(), looks.len());
    let targets = looks.into_iter().enumerate().map(|(at, look)| Target { at, look, due: began });
    let queue = Arc::new(Mutex::new(targets.collect::<VecDeque<_>>()));
    let (sender, reads) = mpsc::channel();
    let read_some = move || {
        let locked = || queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(target) = locked().pop_front() else { return };
            pause((target.due - clock.now()).max(Span::ZERO));
            let now = clock.now();
            let wrong = (target.look)();
            let is_last = now - began >= READS_FOR;
            let is_wrong = wrong.is_some();
            _ = sender.send((target.at, wrong));
            if is_wrong && !is_last {
                locked().push_back(Target { due: now + BETWEEN, ..target });
            }
        }
    };
    let read_some = Arc::new(read_some);
    for _ in 0..count.min(AT_ONCE) {
        let some = read_some.clone();
        if thread::Builder::new().spawn(move || some()).is_err() {
            // No thread: read on this one, although a read may hang.
            read_some();
            break;
        }
    }
    drop(read_some);
    let mut all: Vec<_> = (0..count).map(|_| Read::NotYet).collect();
    let left = || Duration::from_nanos((began + RETURNS_WITHIN - clock.now()).max(Span::ZERO).nanos().unsigned_abs());
    while let Ok((at, wrong)) = reads.recv_timeout(left()) {
        all[at] = wrong.map_or(Read::Right, Read::Wrong);
    }
    let why = "either its chip does not keep that number, or something else writes to it";
    let says = |read| match read {
        Read::Right => None,
        Read::Wrong(what) => Some(format!("{what}; {why}: look at the device, or switch off what it drives")),
        Read::NotYet => Some(format!(
            "its safe value was written, but could not be read back: a read has not returned within {RETURNS_WITHIN}: look at the device, or \
             switch off what it drives"
        )),
    };
    all.into_iter().map(says).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn what_is_right_after_a_while_is_not_amiss() {
        let looks = Arc::new(AtomicU32::new(0));
        let seen = looks.clone();
        let late: Look = Box::new(move || (seen.fetch_add(1, Ordering::Relaxed) < 2).then(|| "reads 1".to_owned()));
        assert_eq!(amiss(vec![late]), [None]);
        assert_eq!(looks.load(Ordering::Relaxed), 3);
        let never: Look = Box::new(|| Some("pwm1 reads 1 in place of 2".to_owned()));
        let never = amiss(vec![never]).remove(0).unwrap();
        assert!(never.starts_with("pwm1 reads 1 in place of 2; either its chip"), "{never:?}");
    }

    #[test]
    fn a_read_that_does_not_return_is_named_and_delays_no_other() {
        let (release, held) = mpsc::channel::<()>();
        let hangs: Look = Box::new(move || (_ = held.recv(), None).1);
        let others = (0..2 * AT_ONCE).map(|at| -> Look { Box::new(move || (at == 7).then(|| "reads 1".to_owned())) });
        let all = amiss([hangs].into_iter().chain(others).collect());
        assert!(all[0].as_ref().is_some_and(|why| why.contains("a read has not returned within 4")), "{all:?}");
        let wrong: Vec<_> = all.iter().enumerate().skip(1).filter(|(_, why)| why.is_some()).map(|(at, _)| at).collect();
        assert_eq!(wrong, [8]);
        drop(release);
    }
}
