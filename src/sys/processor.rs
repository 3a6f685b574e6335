//! Who uses a processor: the threads of all processes, interrupts, and a virtual machine's host.
//!
//! From /proc, as far as an ordinary user may read it. Allocates; for cool threads. No clock is read.

use crate::time::Span;
use std::fs;
use std::path::Path;

/// A thread of any process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherThread {
    pub process: u32,
    pub thread: u32,
    pub name: String,
    pub cpu: usize,   // where it ran last
    pub priority: u8, // real-time priority, 100 with a reservation; 0: none
}

/// Processor time since boot that went to no thread; in steps of 10 ms on most kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub interrupts: Span,
    pub steal: Span,
}

/// All threads that this process may see. About 10 µs for each.
pub(crate) fn threads() -> Vec<OtherThread> {
    let numbers = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<Vec<u32>>()
    };
    let mut found = Vec::new();
    for process in numbers(Path::new("/proc")) {
        for thread in numbers(Path::new(&format!("/proc/{process}/task"))) {
            let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat"));
            found.extend(stat.ok().and_then(|stat| parse(process, thread, &stat)));
        }
    }
    found
}

/// Processor time used by a thread, to the nanosecond; `None`: it has ended, or the kernel does not report it.
pub(crate) fn time_used(process: u32, thread: u32) -> Option<Span> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Span::from_nanos)
}

/// The time that `cpu` has lost so far.
pub(crate) fn lost(cpu: usize) -> Option<Lost> {
    lost_in(&fs::read_to_string("/proc/stat").ok()?, cpu)
}

fn lost_in(stat: &str, cpu: usize) -> Option<Lost> {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    // user nice system idle iowait irq softirq steal, in 1/100 s
    let ticks: Vec<i64> = line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
    let span = |index: usize| ticks.get(index).map_or(Span::ZERO, |ticks| Span::from_millis(ticks.saturating_mul(10)));
    Some(Lost { interrupts: span(5) + span(6), steal: span(7) })
}

fn parse(process: u32, thread: u32, stat: &str) -> Option<OtherThread> {
    // The name may contain anything, so fields are counted from its last bracket: field 3, the state, comes first.
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3);
    let reserved = *field(41)? == "6";
    let priority = if reserved { 100 } else { field(40)?.parse().ok()? };
    Some(OtherThread { process, thread, name, cpu: field(39)?.parse().ok()?, priority })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_with_any_name() {
        let rest = "S 1 2 3 0 -1 4194560 10 0 0 0 5 6 0 0 20 0 1 0 77 1000 20 18446744073709551615 0 0 0 0 0 0 0 0 0 0 \
                    0 0 17 1 50 1 0 0 0 0 0 0 0 0 0 0 0";
        let found = parse(7, 8, &format!("7 (a) (b 1) {rest}")).unwrap();
        let expected = OtherThread { process: 7, thread: 8, name: "a) (b 1".into(), cpu: 1, priority: 50 };
        assert_eq!(found, expected);
        for broken in ["", "7", "7 (x)", "7 (x) S 1 2"] {
            assert_eq!(parse(7, 8, broken), None, "{broken}");
        }
    }

    #[test]
    fn this_thread_is_among_all_and_uses_time() {
        let me = super::super::thread::id().number();
        let all = threads();
        let found = all.iter().find(|other| i64::from(other.thread) == i64::from(me)).unwrap();
        assert_eq!((found.process, found.priority), (std::process::id(), 0));
        // The kernel also counts a thread that runs only now and then.
        while time_used(found.process, found.thread).unwrap() == Span::ZERO {}
        assert_eq!(time_used(found.process, u32::MAX), None);
    }

    #[test]
    fn what_a_processor_lost_is_that_of_its_own_line() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5\nintr 5";
        let expected = Lost { interrupts: Span::from_millis(130), steal: Span::from_millis(80) };
        assert_eq!(lost_in(stat, 0), Some(expected));
        assert_eq!((lost_in(stat, 1), lost_in(stat, 2)), (Some(Lost::default()), None));
    }
}
