//! Which CPUs this process may use, and which threads get which. Moves every thread to its CPUs. Never blocks.

use crate::config::WorkerConfig;
use crate::sys::thread::{self, Reservation, ThreadId};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Maximum passes over all threads until none has to move: a thread that was not moved yet may have started another.
const PASSES: usize = 4;

/// Name prefix of worker threads. A worker that main does not know is just beginning or ending.
const WORKERS: &str = "hz-";

/// The threads that get safe values written. They must be able to take a CPU from any other thread, even from a worker.
const GUARDS: [&str; 2] = ["hertzd-guard", "hertzd-safe"];

/// The CPUs that this process may use.
#[derive(Debug)]
pub(crate) struct AllowedCpus {
    pub(crate) own: Vec<usize>,           // when the run began
    chosen: OnceLock<Option<Vec<usize>>>, // by whoever started it: `taskset`, CPUAffinity= or isolcpus=
    placed: Mutex<Option<Vec<usize>>>,    // where cool threads were last put; None: nowhere
    reservation: Reservation,
}

/// The CPUs that this process may use now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) granted: Vec<usize>, // all that its cpuset allows
    pub(crate) usable: Vec<usize>,  // those of `granted` that the user chose
}

impl AllowedCpus {
    /// The calling thread's CPUs, read before another daemon in this process moves it. Makes no system call that a sandbox may forbid:
    /// without a pinned worker no thread is moved.
    pub(crate) fn of_this_process() -> Arc<Self> {
        let (reservation, own) = Reservation::begin();
        Arc::new(Self { own, chosen: OnceLock::new(), placed: Mutex::new(None), reservation })
    }

    /// The CPUs at this moment.
    ///
    /// # Errors
    /// The kernel's reason for not reporting them.
    pub(crate) fn now(&self) -> io::Result<Allowed> {
        let granted = thread::grantable()?;
        let chosen =
            self.chosen.get_or_init(|| Some(self.own.clone()).filter(|own| !own.is_empty() && *own != granted));
        let usable = chosen.as_ref().map_or_else(|| granted.clone(), |chosen| both(chosen, &granted));
        Ok(Allowed { usable: if usable.is_empty() { granted.clone() } else { usable }, granted })
    }

    /// Before the first set is built, moves existing threads off the CPUs that its workers will be pinned to; everything the builder starts
    /// inherits this. Returns the CPUs for a thread that must not be restricted; empty: those of the calling thread.
    pub(crate) fn prepare(&self, workers: &[WorkerConfig], is_first: bool) -> Vec<usize> {
        let asked = sorted(workers.iter().flat_map(|worker| worker.cpus.iter().copied()));
        if asked.is_empty() && thread::reserved().is_empty() {
            return Vec::new();
        }
        let Ok(allowed) = self.now() else { return Vec::new() };
        if is_first {
            let places = self.places(&allowed, &both(&asked, &allowed.granted));
            // A refusal is reported by main's first check.
            let _ = self.keep(&places, &BTreeMap::new());
        }
        allowed.usable
    }

    /// The places when workers are pinned to these CPUs, taking other daemons in this process into account.
    pub(crate) fn places(&self, allowed: &Allowed, pinned: &[usize]) -> Places {
        Places::of(allowed, pinned, &self.reservation.of_others())
    }

    /// Moves all threads to their places, and remembers where cool threads went.
    ///
    /// # Errors
    /// The errors of [`Places::keep`].
    pub(crate) fn keep(&self, places: &Places, known: &BTreeMap<i32, Role>) -> io::Result<()> {
        self.reservation.set(&places.reserved);
        let before = self.placed().replace(places.cool.clone());
        places.keep(before.as_deref().unwrap_or(&places.usable), known)
    }

    /// Where cool threads were last put.
    pub(crate) fn placed(&self) -> MutexGuard<'_, Option<Vec<usize>>> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who runs where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    usable: Vec<usize>,
    pub(crate) cool: Vec<usize>,     // where cool threads run
    pub(crate) pinned: Vec<usize>,   // where pinned workers run
    pub(super) reserved: Vec<usize>, // those of `pinned` that are kept free; empty if none would be left
}

impl Places {
    /// The places with this daemon's workers pinned to `pinned`, and those of other daemons to `others`.
    fn of(Allowed { usable, .. }: &Allowed, pinned: &[usize], others: &[usize]) -> Self {
        let (usable, pinned) = (usable.clone(), pinned.to_vec());
        let is_free = |cpu: &usize| !pinned.contains(cpu) && !others.contains(cpu);
        let cool: Vec<usize> = usable.iter().copied().filter(is_free).collect();
        match cool.is_empty() {
            true => Self { cool: usable.clone(), reserved: Vec::new(), usable, pinned },
            false => Self { cool, reserved: pinned.clone(), usable, pinned },
        }
    }

    /// Moves all threads of this process except workers to their places, with roles from `known` or else by thread name. `before`: the CPUs
    /// that cool threads had so far.
    ///
    /// # Errors
    /// The kernel's last reason for refusing to move a thread.
    fn keep(&self, before: &[usize], known: &BTreeMap<i32, Role>) -> io::Result<()> {
        let (reserved, mut result) = (thread::reserved(), Ok(()));
        for _ in 0..PASSES {
            let (threads, mut moved) = (thread::all(), false);
            if threads.is_empty() {
                return Err(io::Error::other("/proc/self/task cannot be read"));
            }
            for thread in threads {
                let kept = match known.get(&thread.number()).copied().unwrap_or_else(|| Role::of(thread)) {
                    Role::Worker => Ok(false),
                    Role::Cool => thread::keep_off(&reserved, thread, &self.cool, before),
                    // A cool thread started it, so it may have inherited cool CPUs.
                    Role::Guard => thread::keep_off(&[], thread, &self.usable, &self.cool),
                };
                match kept {
                    Ok(was_moved) => moved |= was_moved,
                    Err(error) => result = Err(error),
                }
            }
            if !moved {
                break;
            }
        }
        result
    }
}

/// What a thread may be restricted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing: it is a pinned worker, or has the `deadline` policy, which excludes pinning.
    Worker,
    /// All CPUs that the process may use.
    Guard,
    /// CPUs without a pinned worker. Unpinned workers are cool too.
    Cool,
}

impl Role {
    fn of(thread: ThreadId) -> Self {
        let name = thread::name(thread);
        match () {
            () if name.starts_with(WORKERS) => Self::Worker,
            () if GUARDS.contains(&name.as_str()) => Self::Guard,
            () => Self::Cool,
        }
    }
}

/// The CPUs of `some` that are also in `others`.
pub(crate) fn both(some: &[usize], others: &[usize]) -> Vec<usize> {
    some.iter().copied().filter(|cpu| others.contains(cpu)).collect()
}

pub(super) fn sorted(cpus: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut cpus: Vec<usize> = cpus.into_iter().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(usable: &[usize], pinned: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let Places { cool, reserved, .. } =
            Places::of(&Allowed { granted: usable.to_vec(), usable: usable.to_vec() }, pinned, &[]);
        (cool, reserved)
    }

    #[test]
    fn pinned_workers_have_their_cpus_alone_where_another_one_is_left() {
        assert_eq!(places(&[0, 1], &[1]), (vec![0], vec![1]));
        assert_eq!(places(&[0, 1, 2, 3], &[1, 3]), (vec![0, 2], vec![1, 3]));
        assert_eq!(places(&[0, 1], &[0, 1]), (vec![0, 1], vec![]), "none is left");
        assert_eq!(places(&[0], &[0]), (vec![0], vec![]), "there is one CPU");
        assert_eq!(places(&[0, 1], &[]), (vec![0, 1], vec![]));
        // isolcpus=3: the user who starts hertzd cannot use CPU 3, but a worker can.
        assert_eq!(places(&[0, 1, 2], &[3]), (vec![0, 1, 2], vec![3]));
    }

    #[test]
    fn cool_threads_keep_off_the_workers_of_other_daemons_too() {
        let allowed = Allowed { granted: vec![0, 1, 2], usable: vec![0, 1, 2] };
        let places = |pinned: &[usize], others: &[usize]| {
            let Places { cool, reserved, .. } = Places::of(&allowed, pinned, others);
            (cool, reserved)
        };
        assert_eq!(places(&[2], &[1]), (vec![0], vec![2]));
        assert_eq!(places(&[], &[1]), (vec![0, 2], vec![]), "this one has ended");
        assert_eq!(places(&[0, 2], &[1]), (vec![0, 1, 2], vec![]), "none is left: the first daemon keeps its own");
    }

    #[test]
    fn cpus_that_a_user_has_chosen_bind_until_the_cpuset_leaves_none() {
        let granted = thread::grantable().unwrap();
        let allowed = |own: Vec<usize>| {
            let reservation = Reservation::begin().0;
            AllowedCpus { own, chosen: OnceLock::new(), placed: Mutex::default(), reservation }.now().unwrap().usable
        };
        assert_eq!(allowed(granted.clone()), granted);
        assert_eq!(allowed(granted[..1].to_vec()), granted[..1]);
        assert_eq!(allowed(vec![5_000]), granted);
    }
}
