//! The CPUs that this process may use, and which of them are for whom. Every thread is moved to its own. Blocks for nothing.

use crate::config::WorkerConfig;
use crate::sys::thread::{self, Reservation, ThreadId};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How often the threads are gone through until all are where they should be: a thread that was not moved yet may have started one.
const PASSES: usize = 4;

/// How the threads of workers are called. One that main does not know is about to begin, or to end.
const WORKERS: &str = "hz-";

/// The threads that have safe values written. They may have to take a CPU from any other thread, also from a worker.
const GUARDS: [&str; 2] = ["hertzd-guard", "hertzd-safe"];

/// The CPUs that this process may use.
#[derive(Debug)]
pub(crate) struct AllowedCpus {
    pub(crate) own: Vec<usize>,           // when the run began
    chosen: OnceLock<Option<Vec<usize>>>, // by who started it, with `taskset`, CPUAffinity= or isolcpus=
    placed: Mutex<Option<Vec<usize>>>,    // where cool threads were put last; None: nowhere
    reservation: Reservation,
}

/// The CPUs that this process may use now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) granted: Vec<usize>, // what its cpuset leaves
    pub(crate) usable: Vec<usize>,  // of those, the ones that who started it has chosen
}

impl AllowedCpus {
    /// Those of the calling thread, before another daemon of this process has moved it. Asks the kernel for nothing that a sandbox may forbid: without a pinned worker nothing is moved.
    pub(crate) fn of_this_process() -> Arc<Self> {
        let (reservation, own) = Reservation::begin();
        Arc::new(Self { own, chosen: OnceLock::new(), placed: Mutex::new(None), reservation })
    }

    /// Those of this moment.
    ///
    /// # Errors
    /// The kernel's reason why it does not say.
    pub(crate) fn now(&self) -> io::Result<Allowed> {
        let granted = thread::grantable()?;
        let chosen =
            self.chosen.get_or_init(|| Some(self.own.clone()).filter(|own| !own.is_empty() && *own != granted));
        let usable = chosen.as_ref().map_or_else(|| granted.clone(), |chosen| both(chosen, &granted));
        Ok(Allowed { usable: if usable.is_empty() { granted.clone() } else { usable }, granted })
    }

    /// Moves the threads that there are off the CPUs that the workers of the first configuration will be pinned to: what it builds inherits
    /// that. Returns the CPUs that a thread may need which nothing may restrict; empty: those of the calling thread.
    pub(crate) fn prepare(&self, workers: &[WorkerConfig], is_first: bool) -> Vec<usize> {
        let asked = sorted(workers.iter().flat_map(|worker| worker.cpus.iter().copied()));
        if asked.is_empty() && thread::reserved().is_empty() {
            return Vec::new();
        }
        let Ok(allowed) = self.now() else { return Vec::new() };
        if is_first {
            let places = self.places(&allowed, &both(&asked, &allowed.granted));
            // What is refused is said when main has looked.
            let _ = self.keep(&places, &BTreeMap::new());
        }
        allowed.usable
    }

    /// With workers pinned to these CPUs, beside other daemons of this process.
    pub(crate) fn places(&self, allowed: &Allowed, pinned: &[usize]) -> Places {
        Places::of(allowed, pinned, &self.reservation.of_others())
    }

    /// Moves all threads to their places, and remembers these.
    ///
    /// # Errors
    /// As [`Places::keep`].
    pub(crate) fn keep(&self, places: &Places, known: &BTreeMap<i32, Role>) -> io::Result<()> {
        self.reservation.set(&places.reserved);
        let before = self.placed().replace(places.cool.clone());
        places.keep(before.as_deref().unwrap_or(&places.usable), known)
    }

    /// Where cool threads were put last.
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
    pub(super) reserved: Vec<usize>, // those of `pinned` that are kept free; none if that would leave nothing
}

impl Places {
    /// With workers pinned to these CPUs, and those of other daemons to `others`.
    fn of(Allowed { usable, .. }: &Allowed, pinned: &[usize], others: &[usize]) -> Self {
        let (usable, pinned) = (usable.clone(), pinned.to_vec());
        let is_free = |cpu: &usize| !pinned.contains(cpu) && !others.contains(cpu);
        let cool: Vec<usize> = usable.iter().copied().filter(is_free).collect();
        match cool.is_empty() {
            true => Self { cool: usable.clone(), reserved: Vec::new(), usable, pinned },
            false => Self { cool, reserved: pinned.clone(), usable, pinned },
        }
    }

    /// Moves all threads of this process but workers to where they run from now on, those of `known` as said there. Cool threads ran on
    /// `before`.
    ///
    /// # Errors
    /// The kernel's reason why it has refused that for one of them, the last one.
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
                    // It was started by a cool thread.
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
    /// Nothing: it is a pinned worker, or one with the policy `deadline`, which excludes pinning.
    Worker,
    /// All CPUs that the process may use.
    Guard,
    /// Those without a pinned worker. So are workers that are not pinned.
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

/// CPUs of `some` that are in `others` as well.
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
        // isolcpus=3: who starts hertzd may not use it, a worker may.
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
