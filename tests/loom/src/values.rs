//! Values in transit: a mailbox of rows, and a link between two tasks. The words and the length of a copy are memory that only one side at
//! a time may touch.

use crate::channels::{Basis, Input, Limits, Origin, Quality, Queue, Reason, Row, RowHead, ValueName, link, rows};
use crate::time::{Instant, Span};
use crate::trial::Model;
use loom::thread;

pub const MODELS: [Model; 3] = [
    Model { run: mailbox, memory: true, interruptions: Some(4) },
    Model { run: linked, memory: true, interruptions: Some(3) },
    Model { interruptions: Some(3), ..Model::new(replaced_is_no_loss) },
];

/// Each row taken is whole and never older than the row before; each row is taken, replaced, or waits.
fn mailbox() {
    let (mut sender, mut receiver) = rows(Queue::Mailbox, 1, 1);
    let traffic = receiver.traffic().clone();
    let writer = thread::spawn(move || {
        for n in 1..=4_u32 {
            let values = [f64::from(n)];
            sender.offer(Row {
                n: n.into(),
                basis: Basis::Good,
                release: Instant::ZERO,
                lateness: Span::ZERO,
                values: &values,
            });
        }
    });
    let (mut values, mut latest, mut taken) = (Vec::new(), 0, 0);
    let mut take = |latest: &mut u64| {
        if let Some(row) = receiver.take(&mut values) {
            assert!(row.n > *latest, "it was taken before");
            assert_eq!(row.values, [row.n as f64], "of one row");
            (*latest, taken) = (row.n, taken + 1);
        }
    };
    take(&mut latest);
    take(&mut latest);
    writer.join().unwrap();
    take(&mut latest);
    assert_eq!(latest, 4, "the last row is there");
    assert_eq!(taken + traffic.replaced(), 4);
}

/// A thread that sees that a row was dropped sees that it was replaced.
fn replaced_is_no_loss() {
    let (mut sender, receiver) = rows(Queue::Mailbox, 1, 1);
    let traffic = receiver.traffic().clone();
    // If a thread loads before it stores, loom misses that another thread has loaded before; so the other thread looks back.
    let reader = thread::spawn(move || {
        let dropped = traffic.dropped();
        assert!(traffic.replaced() >= dropped, "a loss that there was not");
    });
    for n in 1..=3_u32 {
        sender.offer(Row {
            n: n.into(),
            basis: Basis::Good,
            release: Instant::ZERO,
            lateness: Span::ZERO,
            values: &[0.0],
        });
    }
    reader.join().unwrap();
    let traffic = receiver.traffic();
    assert_eq!((traffic.dropped(), traffic.replaced(), traffic.sent()), (2, 2, 3));
}

/// A task sees the values of a single tick, with the origin and quality of that tick.
fn linked() {
    let input = Input::value_of(ValueName { task: "board".into(), value: "temp".into(), previous: None });
    let (mut sender, mut receiver) = link(1, [(0, &input)], Limits { max_age: Span::MAX, first: Span::ZERO });
    let at = |n: u32| Instant::from_nanos(n.into());
    let writer = thread::spawn(move || {
        for n in 1..=2_u32 {
            let head = RowHead { n: n.into(), release: at(10 * n), origin: Some(Origin { at: at(n), task: n }) };
            sender.post(
                head,
                &[f64::from(n)],
                |_, _| if n == 2 { Quality::Good } else { Quality::Bad(Reason::Failed) },
            );
        }
    });
    let look = |receiver: &mut crate::channels::LinkReceiver| {
        let (origin, basis) = receiver.refresh(at(20));
        let Some(Origin { at: from, task }) = origin else {
            assert_eq!(input.quality(), Quality::None);
            return 0;
        };
        assert_eq!((from, input.origin(), input.release()), (at(task), Some(at(task)), Some(at(10 * task))));
        assert_eq!((input.quality() == Quality::Good, basis == Basis::Good), (task == 2, task == 2));
        assert!(task == 1 || input.get() == 2.0);
        task
    };
    let first = look(&mut receiver);
    assert!(look(&mut receiver) >= first);
    writer.join().unwrap();
    assert_eq!(look(&mut receiver), 2);
}
