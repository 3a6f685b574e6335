//! Why the records' channel is never filled completely: if a receiver on the same CPU was preempted while it held the next
//! slot, a real-time sender spins for that slot while the receiver waits for the CPU (crossbeam#997).
//!
//! The test runs the guarded channel, then the bare one, and compares.

use crate::program::{affinity, emulation, pause, stopwatch};
use hertzd::internals::{TickRecord, TickSink, pin, set_fifo, thread_cpu_time, ticks};
use hertzd::time::Span;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long each channel is tested.
const LENGTH: Span = Span::from_seconds(3);

/// The capacity of a worker's channel.
const CAPACITY: usize = 4_096;

/// Sends between two rests: more than the capacity.
const BURST: u64 = 2 * CAPACITY as u64;

/// Too short for the receiver to empty the channel.
const REST: Span = Span::from_micros(50);

/// A call of this length counts as hanging: it ends only when real-time throttling stops the thread, after most of a second.
const HANG: Span = Span::from_millis(500);

/// The result of a sender and its receiver.
#[derive(Debug)]
struct Sent {
    offered: u64,
    received: u64,
    longest: Span,
}

/// Calls `offer` from a real-time thread and `take` from an ordinary one, both on `cpu`.
fn side_by_side(
    cpu: usize,
    mut offer: impl FnMut() + Send + 'static,
    mut take: impl FnMut() -> bool + Send + 'static,
) -> Sent {
    let finish = Arc::new(AtomicBool::new(false));
    let finished = finish.clone();
    let receiver = std::thread::spawn(move || {
        pin(&[cpu]).unwrap();
        let mut received = 0;
        loop {
            let last = finished.load(Ordering::Acquire);
            while take() {
                received += 1;
            }
            if last {
                return received;
            }
        }
    });
    let sender = std::thread::spawn(move || {
        pin(&[cpu]).unwrap();
        set_fifo(50).unwrap();
        let passed = stopwatch();
        let (mut offered, mut longest) = (0_u64, Span::ZERO);
        // In processor time: a hanging call spins, whereas a preempted call uses none.
        let mut before = thread_cpu_time();
        while passed() < LENGTH {
            offer();
            offered += 1;
            let after = thread_cpu_time();
            longest = longest.max(after - before);
            before = after;
            // Rest as a worker does: it wakes up while the receiver is in the middle of its work.
            if offered % BURST == 0 {
                pause(REST);
                before = thread_cpu_time();
            }
        }
        (offered, longest)
    });
    let (offered, longest) = sender.join().unwrap();
    finish.store(true, Ordering::Release);
    Sent { offered, received: receiver.join().unwrap(), longest }
}

fn guarded(cpu: usize) -> Sent {
    let (mut sender, mut receiver) = ticks(CAPACITY);
    let traffic = receiver.traffic().clone();
    let sent = side_by_side(cpu, move || sender.offer(TickRecord::EMPTY), move || receiver.take().is_some());
    println!("guarded: {sent:?}, dropped {}", traffic.dropped());
    assert_eq!(traffic.sent() + traffic.dropped(), sent.offered);
    assert_eq!(traffic.sent(), sent.received);
    sent
}

fn bare(cpu: usize) -> Sent {
    let (sender, receiver) = crossbeam_channel::bounded(CAPACITY);
    let dropped = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = dropped.clone();
    let offer = move || {
        let full = sender.try_send(TickRecord::EMPTY).is_err();
        count.fetch_add(u64::from(full), Ordering::Relaxed);
    };
    let sent = side_by_side(cpu, offer, move || receiver.try_recv().is_ok());
    let dropped = dropped.load(Ordering::Relaxed);
    println!("bare: {sent:?}, dropped {dropped}");
    assert_eq!(sent.received + dropped, sent.offered);
    sent
}

#[test]
fn a_guarded_send_does_not_hang_where_a_bare_one_does() {
    let _turn = crate::turn(module_path!());
    if let Err(error) = std::thread::spawn(|| set_fifo(50)).join().unwrap() {
        emulation::say_skipped(&format!("no real-time priority (CAP_SYS_NICE): {error}"));
        return;
    }
    // Without throttling a hanging thread, and this test, would never end.
    let [runtime, period] = ["runtime", "period"].map(|name| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).unwrap_or_default();
        text.trim().parse::<i64>().ok()
    });
    let throttled = runtime.is_some_and(|runtime| 0 <= runtime && Some(runtime) < period);
    if !throttled {
        emulation::say_skipped("real-time threads are not throttled here (kernel.sched_rt_runtime_us)");
        return;
    }
    let cpu = *affinity().last().unwrap();
    let guarded = guarded(cpu);
    let bare = bare(cpu);
    match bare.longest >= HANG {
        true => assert!(guarded.longest.nanos() < bare.longest.nanos() / 10, "{guarded:?}, {bare:?}"),
        false => println!("the bare channel did not hang this time: nothing to compare"),
    }
}
