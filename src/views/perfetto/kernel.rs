//! The kernel scheduler's activity, parsed from the text of its trace. Pure; allocates.

use super::packets::Packets;
use super::proto::{Data, Happened, KernelEvent, KernelEvents, Switch, Wake};
use std::collections::BTreeMap;

/// The scheduler events of each CPU, on the boot-time clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kernel {
    cpus: BTreeMap<u32, Vec<KernelEvent>>,
    /// Events lost from the kernel's buffer, because newer ones overwrote them.
    pub(crate) overwritten: u64,
}

impl Kernel {
    /// Parses the file `trace` of tracefs, recorded with `trace_clock` `boot`. Lines of other events are ignored.
    pub(crate) fn parse(text: &str) -> Self {
        let mut kernel = Self::default();
        for line in text.lines() {
            if let Some(counts) = line.strip_prefix("# entries-in-buffer/entries-written: ") {
                let mut numbers =
                    counts.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
                let (kept, written) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
                kernel.overwritten = written.saturating_sub(kept);
            } else if let Some((cpu, event)) = event(line) {
                kernel.cpus.entry(cpu).or_default().push(event);
            }
        }
        kernel
    }

    /// The number of events.
    pub(crate) fn count(&self) -> u64 {
        self.cpus.values().map(|events| events.len() as u64).sum()
    }

    pub(super) fn draw(&self, packets: &mut Packets) {
        for (cpu, events) in &self.cpus {
            // The CPUs' buffers start at different times: what happened before the first event of one is unknown.
            let (cpu, events) = (Some(*cpu), events.clone());
            packets.kernel(Data::Kernel(KernelEvents { cpu, events, lost: Some(false) }));
        }
    }
}

/// Parses `  COMM-PID  [CPU] FLAGS  SECONDS.MICROS: NAME: FIELDS`.
fn event(line: &str) -> Option<(u32, KernelEvent)> {
    let (head, rest) = line.split_once(": sched_")?;
    let (task, place) = head.rsplit_once(" [")?;
    let (cpu, place) = place.split_once(']')?;
    let (seconds, micros) = place.rsplit(' ').next()?.split_once('.')?;
    let (name, fields) = rest.split_once(": ")?;
    let what = match name {
        "switch" => {
            let (before, after) = fields.split_once(" ==> ")?;
            let (previous, before) = comm(before, "prev_comm=", " prev_pid=")?;
            let (next, after) = comm(after, "next_comm=", " next_pid=")?;
            Happened::Switch(Switch {
                previous: Some(previous),
                previous_pid: Some(before.split(' ').next()?.parse().ok()?),
                previous_priority: number(before, " prev_prio="),
                previous_state: Some(state(before.rsplit_once(" prev_state=")?.1)),
                next: Some(next),
                next_pid: Some(after.split(' ').next()?.parse().ok()?),
                next_priority: number(after, " next_prio="),
            })
        }
        "waking" | "wakeup" => {
            let (woken, fields) = comm(fields, "comm=", " pid=")?;
            let wake = Wake {
                name: Some(woken),
                pid: Some(fields.split(' ').next()?.parse().ok()?),
                priority: number(fields, " prio="),
                success: Some(1),
                cpu: number(fields, " target_cpu="),
            };
            if name == "waking" { Happened::Waking(wake) } else { Happened::Wakeup(wake) }
        }
        _ => return None,
    };
    let nanos = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000;
    let pid = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
    Some((cpu.parse().ok()?, KernelEvent { timestamp: Some(nanos), pid: Some(pid), what: Some(what) }))
}

/// The name of a thread, which may contain anything, and the text after `end`.
fn comm<'a>(fields: &'a str, begin: &str, end: &str) -> Option<(String, &'a str)> {
    let (name, rest) = fields.strip_prefix(begin)?.rsplit_once(end)?;
    Some((name.to_owned(), rest))
}

fn number(fields: &str, key: &str) -> Option<i32> {
    fields.split_once(key)?.1.split(' ').next()?.parse().ok()
}

/// The kernel's bits for a thread state that it prints as letters: `S`, `D|W`, `R+`.
fn state(letters: &str) -> i64 {
    const PREEMPTED: i64 = 0x100;
    let bit = |letter| match letter {
        'S' => 0x1,
        'D' => 0x2,
        'T' => 0x4,
        't' => 0x8,
        'X' => 0x10,
        'Z' => 0x20,
        'P' => 0x40,
        'I' => 0x80,
        '+' => PREEMPTED,
        _ => 0,
    };
    letters.split(' ').next().unwrap_or_default().chars().fold(0, |bits, letter| bits | bit(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_become_events_of_each_cpu() {
        let text = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 4/10   #P:2\n\
            \x20         <idle>-0       [001] d..2.  1234.567890: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 \
            prev_state=R ==> next_comm=hz-main next_pid=412 next_prio=19\n\
            \x20 a b-c [0] d-77  [000] d..2.  1234.567891: sched_switch: prev_comm=a b-c [0] d prev_pid=77 prev_prio=120 \
            prev_state=R+ ==> next_comm=x next_pid=3 next_prio=120\n\
            \x20 kworker/0:1-9  [000] dNh3.  1234.567892: sched_waking: comm=hz-main pid=412 prio=19 target_cpu=001\n\
            \x20 kworker/0:1-9  [000] dNh3.  1234.567893: sched_stat_runtime: comm=hz-main pid=412 runtime=1 [ns]\n\
            CPU:1 [LOST 3 EVENTS]\n";
        let kernel = Kernel::parse(text);
        assert_eq!((kernel.count(), kernel.overwritten), (3, 6));
        let of = |cpu: u32| &kernel.cpus[&cpu];
        let Some(Happened::Switch(switch)) = &of(1)[0].what else { panic!("{:?}", of(1)) };
        assert_eq!((of(1)[0].timestamp, of(1)[0].pid), (Some(1_234_567_890_000), Some(0)));
        assert_eq!((switch.previous.as_deref(), switch.previous_state), (Some("swapper/1"), Some(0)));
        assert_eq!(
            (switch.next.as_deref(), switch.next_pid, switch.next_priority),
            (Some("hz-main"), Some(412), Some(19))
        );
        let Some(Happened::Switch(switch)) = &of(0)[0].what else { panic!("{:?}", of(0)) };
        assert_eq!((of(0)[0].pid, switch.previous.as_deref()), (Some(77), Some("a b-c [0] d")));
        assert_eq!((switch.previous_state, switch.previous_pid), (Some(0x100), Some(77)));
        let Some(Happened::Waking(wake)) = &of(0)[1].what else { panic!("{:?}", of(0)) };
        assert_eq!((wake.pid, wake.cpu), (Some(412), Some(1)));
    }
}
