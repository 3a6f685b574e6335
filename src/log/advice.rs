//! What each cause means, how to check it, and what to change: for the message catalog and docs/causes.md. Tests compare both with this
//! table and rewrite them with `UPDATE_DOCS=1`. Constants only.

use crate::metrics::Cause;

/// General advice about a cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advice {
    /// What the cause means.
    pub meaning: &'static str,
    /// How to verify it.
    #[cfg_attr(not(test), expect(dead_code, reason = "docs/causes.md alone says it, which a test writes"))]
    pub check: &'static str,
    /// What to change.
    pub change: &'static str,
}

/// The advice on every cause, by its word.
pub(crate) fn advice() -> impl Iterator<Item = (&'static str, Advice)> {
    Cause::ALL.into_iter().map(|cause| (cause.word(), of(cause)))
}

const fn of(cause: Cause) -> Advice {
    let (meaning, check, change) = match cause {
        Cause::WokenLate => (
            "the worker's sleep ended late though nothing kept it from the processor: the kernel, its timer, or the host of a \
             virtual machine.",
            "see oversleep in the worker's line of the summary; `cyclictest` shows the same without hertzd.",
            "set `policy = \"fifo\"` and a spin tail (`spin = \"auto\"`), and keep idle CPUs from sleeping deeply; otherwise \
             a kernel with PREEMPT_RT.",
        ),
        Cause::Blocked => (
            "another task of the same worker was still running when the release came up; the message names it.",
            "see run in the summary of that task.",
            "move one of the two to a worker of its own, shorten that task, or shift one by `phase`.",
        ),
        Cause::OwnDebt => (
            "the task's own previous tick was still running, or its backlog was being worked off.",
            "see run in the summary: it comes near the period.",
            "shorten the task, lower its rate, or choose with `overrun` how much backlog it keeps.",
        ),
        Cause::RanLong => (
            "the tick itself took too long, and was on the processor for all that time.",
            "see run in the summary; profile the task (`perf record -t THREAD`).",
            "shorten the task, or raise its period or `deadline`.",
        ),
        Cause::Preempted => (
            "the worker was ready to run and did not get the processor: a thread of higher priority, an interrupt, or the \
             host of a virtual machine took it; the message names who, where the kernel lets hertzd know.",
            "`ps -eLo cls,rtprio,psr,comm --sort=-rtprio` shows what runs on that CPU; `top` shows steal time as st.",
            "give the worker a CPU of its own (`cpu`, `isolcpus=`), a real-time policy and a higher `priority`, and move \
             interrupts to other CPUs.",
        ),
        Cause::PageFault => (
            "the tick waited for pages of memory.",
            "`memory_locked` in the summary is false, or the task touches memory for the first time in a tick.",
            "let hertzd lock its memory (`LimitMEMLOCK=infinity`), touch buffers before the first tick, and allocate nothing \
             in a tick.",
        ),
        Cause::Waited => (
            "the tick slept: for a device, a lock, a timer or another process.",
            "`strace -T -p THREAD`, or the stack in /proc/PID/task/THREAD/stack, shows in which call.",
            "read without waiting, move the task to a worker of its own, or raise its `deadline`.",
        ),
        Cause::Stalled => (
            "the machine or the process stood still, or a clock was set: suspend, a stop signal, the cgroup freezer, a pause \
             of the virtual machine, a step of the clock.",
            "`journalctl -k`, and the log of the program that sets the time, for the same second.",
            "find out who stopped it; set `clock = \"monotonic\"` where the time of day does not matter. `overrun` decides \
             how much is made up for afterwards.",
        ),
        Cause::Throttled => (
            "the processor time that the kernel grants real-time threads was used up (by default 950 ms of each second, or \
             the runtime of `policy = \"deadline\"`).",
            "`journalctl -k -g throttling`, and cpu_share of the workers on that CPU.",
            "use less of the CPU: shorter tasks, lower rates, a smaller `spin-cpu-max`; or raise \
             /proc/sys/kernel/sched_rt_runtime_us.",
        ),
        Cause::Disabled => (
            "the task had been ended; its releases still count as due.",
            "the entry about the task that was disabled says why.",
            "remove that reason, then change the task's section and reload, or restart hertzd.",
        ),
        Cause::Unknown => (
            "hertzd has no evidence, or the evidence fits more than one cause.",
            "set `evidence = \"tick\"` on the worker, which tells apart the ticks that share a wake-up; see whether records \
             were dropped.",
            "nothing, before the cause is known.",
        ),
    };
    Advice { meaning, check, change }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Message;
    use std::fs;

    const WIDTH: usize = 110;

    /// `text` in lines that fit, each after `indent`.
    fn wrapped(indent: &str, text: &str) -> String {
        let mut lines = vec![indent.to_owned()];
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if line == indent => *line += word,
                Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => *line += &format!(" {word}"),
                _ => lines.push(format!("{indent}{word}")),
            }
        }
        lines.join("\n") + "\n"
    }

    #[test]
    fn the_catalog_has_the_advice_on_every_cause() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/hertzd.catalog");
        let mut wanted = fs::read_to_string(path).unwrap();
        let part = |(word, Advice { meaning, check, change })| {
            let (head, check, change) =
                (format!("{word}: {meaning}"), format!("Make sure: {check}"), format!("Change: {change}"));
            [("", head), ("    ", check), ("    ", change)].map(|(indent, text)| wrapped(indent, &text)).concat()
        };
        let causes: String = advice().map(part).collect();
        for message in [Message::Overrun, Message::Skipped] {
            let (before, rest) = wanted.split_once(&format!("-- {}\n", message.id())).unwrap();
            let (entry, after) = rest.split_once("\n-- ").unwrap();
            let (own, _) = entry.split_once("\nwoken-late: ").unwrap();
            wanted = format!("{before}-- {}\n{own}\n{causes}\n-- {after}", message.id());
        }
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(path, &wanted).unwrap();
        }
        assert!(
            fs::read_to_string(path).unwrap() == wanted,
            "{path} differs from the source; write it with UPDATE_DOCS=1"
        );
    }
}
