//! Orders to make all outputs safe.

use super::safe_orders::{Ordered, SafeOrders};
use crate::note::Note;
use crate::trial::Model;
use loom::thread;
use std::sync::Arc;

pub const MODELS: [Model; 1] = [Model::new(carried_out)];

/// The thread that carries out the last order knows that it is the last, and sees everything before it. A thread that sees the order done
/// sees everything written for it.
fn carried_out() {
    let (orders, before, safe) =
        (Arc::new(SafeOrders::default()), Arc::new(Note::default()), Arc::new(Note::default()));
    let (given, asked, written) = (orders.clone(), before.clone(), safe.clone());
    let guard = thread::spawn(move || {
        let Ordered { latest, is_last } = given.look();
        assert!(latest == 0 || is_last, "the last one, and not known to be");
        if latest > 0 {
            assert_eq!(asked.read(), 5);
            written.write(7);
        }
        given.are_done(latest);
    });
    before.write(5);
    let order = orders.give_last();
    if orders.is_done(order) {
        assert_eq!(safe.read(), 7, "done, and not written");
    }
    guard.join().unwrap();
}
