//! The orders to a worker's thread before it enters the hot loop.
//!
//! The thread waits parked, not in the channel. Channels yield before they sleep, and a thread with the policy `deadline` that yields gives
//! up its processor time until its next period. Only the thread itself waits here.

use super::set::TaskSet;
use crate::sys::thread::Bandwidth;
use crate::time::Span;
use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use std::thread::{Thread, park};

/// One order.
pub(super) enum Order {
    /// Ask the kernel for everything. Threads that are about to end will give back this bandwidth.
    SetUp(Bandwidth),
    /// Those threads have ended: retry what was refused, for this long.
    Promote(Span),
    /// Run these tasks.
    Start(Box<TaskSet>),
}

/// The sender of orders. Dropping it ends a thread that has not started.
#[derive(Debug)]
pub(super) struct Orders {
    sender: Option<Sender<Order>>,
    thread: Thread,
}

/// The channel; [`Orders::to`] wraps its sending end.
pub(super) fn channel() -> (Sender<Order>, Receiver<Order>) {
    unbounded()
}

impl Orders {
    /// Orders to this thread, which receives them with [`next`].
    pub(super) fn to(thread: Thread, sender: Sender<Order>) -> Self {
        Self { sender: Some(sender), thread }
    }

    /// Sends an order. A thread that has ended receives none, which is noticed elsewhere.
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

/// Waits for the next order; `None` if no more will come.
pub(super) fn next(orders: &Receiver<Order>) -> Option<Order> {
    loop {
        match orders.try_recv() {
            Ok(order) => return Some(order),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => park(),
        }
    }
}
