//! The measurement's own load: three threads of normal priority on each CPU. They compute, walk through 4 MiB of memory, and make system
//! calls, until the load is dropped.

use crate::sys::thread;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

const MEMORY: usize = 4 << 20;
const LINE: usize = 64;

/// The body of a thread, which runs until the flag is set.
type Work = fn(&AtomicBool);

/// The load. Dropping it ends its threads and waits for them.
pub(super) struct Burden {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Burden {
    /// Starts the load on each of these CPUs.
    pub(super) fn on(cpus: &[usize]) -> io::Result<Self> {
        let mut burden = Self { end: Arc::default(), threads: Vec::new() };
        let kinds: [(&str, Work); 3] = [("cpu", compute), ("memory", walk), ("calls", call)];
        for cpu in cpus.iter().copied() {
            for (name, work) in kinds {
                let end = burden.end.clone();
                let body = move || {
                    // Regardless of the priority this command was started with. If a thread cannot be pinned, the kernel places it.
                    let _ = thread::demote(thread::id());
                    let _ = thread::pin(&[cpu]);
                    work(&end);
                };
                burden.threads.push(Builder::new().name(format!("hz-load-{name}")).spawn(body)?);
            }
        }
        Ok(burden)
    }
}

impl Drop for Burden {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // If the thread panicked, that has been written to stderr.
            let _ = thread.join();
        }
    }
}

fn compute(end: &AtomicBool) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while !end.load(Ordering::Relaxed) {
        for _ in 0..10_000 {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

fn walk(end: &AtomicBool) {
    let mut memory = vec![1_u8; MEMORY];
    while !end.load(Ordering::Relaxed) {
        for at in (0..MEMORY).step_by(LINE) {
            memory[at] = memory[at].wrapping_add(1);
        }
        black_box(&mut memory);
    }
}

/// If some of these calls are refused, the rest continue.
fn call(end: &AtomicBool) {
    let mut bytes = [0_u8; 4_096];
    let mut pair = UnixStream::pair().ok();
    while !end.load(Ordering::Relaxed) {
        if let Some((one, other)) = &mut pair {
            let _ = one.write_all(&bytes).and_then(|()| other.read_exact(&mut bytes));
        }
        let _ = File::open("/proc/self/stat").and_then(|mut file| file.read(&mut bytes));
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread::affinity;

    #[test]
    fn it_ends_when_it_is_dropped() {
        let cpu = affinity().unwrap()[0];
        let burden = Burden::on(&[cpu]).unwrap();
        let end = burden.end.clone();
        assert_eq!((burden.threads.len(), Arc::strong_count(&end)), (3, 5));
        drop(burden);
        assert_eq!(Arc::strong_count(&end), 1, "each thread had its own");
    }
}
