//! The orders that a worker's thread gets before it enters the hot loop.
//!
//! It waits parked, and not in the channel: channels yield before they sleep, and a thread with the policy `deadline` that
//! yields has given up its processor time until its next period. Only the thread itself waits here.

use super::set::TaskSet;
use crate::sys::thread::Bandwidth;
use crate::time::Span;
use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use std::thread::{Thread, park};

/// One order.
pub(super) enum Order {
    /// Ask the kernel for everything. Threads that are about to end give this back.
    SetUp(Bandwidth),
    /// They have: ask again for what was refused, for this long.
    Promote(Span),
    /// Run.
    Start(Box<TaskSet>),
}

/// The sender of orders. Dropped, it ends a thread that has not started.
#[derive(Debug)]
pub(super) struct Orders {
    sender: Option<Sender<Order>>,
    thread: Thread,
}

/// The channel; [`Orders::to`] makes its sending end.
pub(super) fn channel() -> (Sender<Order>, Receiver<Order>) {
    unbounded()
}

impl Orders {
    /// Orders to this thread, which takes them by [`next`].
    pub(super) fn to(thread: Thread, sender: Sender<Order>) -> Self {
        Self { sender: Some(sender), thread }
    }

    /// A thread that has ended takes none, which shows elsewhere.
    pub(super) fn send(&self, order: Order) {
        let _ = self.sender.as_ref().map(|sender| sender.send(order));
        self.thread.unpark();
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.sender = None;
        self.thread.unpark();
    }
}

/// Waits for the next order; `None`: there will be none.
pub(super) fn next(orders: &Receiver<Order>) -> Option<Order> {
    loop {
        match orders.try_recv() {
            Ok(order) => return Some(order),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => park(),
        }
    }
}
