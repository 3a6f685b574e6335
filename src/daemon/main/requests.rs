//! Requests to a running daemon: flags, and a wake-up for main.
//!
//! A request repeated before main has seen it counts once. So a flood of signals costs no more than one of each, and delays nothing.

use crate::sys::signals::Request;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
struct Flags {
    stop: AtomicBool,
    reload: AtomicBool,
    cpu_limit: AtomicBool,
}

/// Sends requests to a daemon, from any thread. Clones address the same daemon.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    flags: Arc<Flags>,
    wake: Sender<()>,
    woken: Receiver<()>,
}

impl Default for Requests {
    fn default() -> Self {
        let (wake, woken) = bounded(1);
        Self { flags: Arc::default(), wake, woken }
    }
}

impl Requests {
    /// Asks the daemon; never waits.
    pub(crate) fn ask(&self, request: Request) {
        let flag = match request {
            Request::Stop(_) => &self.flags.stop,
            Request::Reload => &self.flags.reload,
            Request::CpuLimit => &self.flags.cpu_limit,
        };
        flag.store(true, Ordering::Release);
        // One pending wake-up is enough.
        let _ = self.wake.try_send(());
    }

    /// Receives something after each request.
    pub(crate) fn woken(&self) -> &Receiver<()> {
        &self.woken
    }

    /// Whether a stop was requested. It stays requested.
    pub(super) fn stop_asked(&self) -> bool {
        self.flags.stop.load(Ordering::Acquire)
    }

    /// Whether a requested reload has not been taken yet.
    pub(super) fn reload_asked(&self) -> bool {
        self.flags.reload.load(Ordering::Acquire)
    }

    /// Whether a reload was requested since the last call.
    pub(super) fn take_reload(&self) -> bool {
        self.flags.reload.swap(false, Ordering::AcqRel)
    }

    /// Whether the CPU time limit was reached since the last call.
    pub(super) fn take_cpu_limit(&self) -> bool {
        self.flags.cpu_limit.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_requests_of_a_kind_are_one() {
        let requests = Requests::default();
        let other = requests.clone();
        (0..4_000).for_each(|_| other.ask(Request::Reload));
        assert_eq!(requests.woken().try_iter().count(), 1);
        assert!(requests.take_reload() && !requests.take_reload() && !requests.take_cpu_limit());
        other.ask(Request::Stop(15));
        assert!(requests.stop_asked() && requests.stop_asked() && !requests.take_reload());
    }
}
