//! Keeps cool threads off the CPUs that workers are pinned to, if hertzd may use another CPU.
//!
//! Threads and programs inherit their CPUs from the thread that starts them. A cpuset change, a CPU going offline or `taskset` can move any
//! thread, so main checks once a second and whenever the set of workers changes. A worker that lost its CPU this way is pinned again. Never
//! blocks.

use super::cpu_places::{Allowed, AllowedCpus, Places, Role, both, sorted};
use super::running::Running;
use super::running_set::RunningSet;
use crate::config::Scheduling;
use crate::snapshot::CoolSummary;
use crate::sys::thread;
use crate::time::{Instant, Span};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::{io, mem};
use tracing::{info, warn};

/// How often main checks.
const LOOK_EVERY: Span = Span::from_seconds(1);

/// Main's checks.
#[derive(Debug)]
pub(crate) struct CoolCpus {
    allowed: Arc<AllowedCpus>,
    looked: Instant,
    asked: Vec<usize>,            // by workers, at the last check
    refused: Option<Option<i32>>, // errno of the refusal that was logged
    summary: Option<CoolSummary>,
}

impl CoolCpus {
    pub(crate) fn new(allowed: Arc<AllowedCpus>) -> Self {
        Self { allowed, looked: Instant::ZERO, asked: Vec::new(), refused: None, summary: None }
    }

    /// Where cool threads run; `None`: no worker is pinned.
    pub(crate) fn summary(&self) -> Option<CoolSummary> {
        self.summary.clone()
    }

    /// If a check is due, moves every thread that is not where it should be.
    pub(crate) fn look(&mut self, now: Instant, set: &mut RunningSet) {
        if set.workers.is_empty() {
            return; // the builder places the first ones
        }
        let running = |running: &&Running| !running.worker.is_finished();
        let asked = sorted(set.all().filter(running).flat_map(|running| running.config.cpus.iter().copied()));
        let is_known = mem::replace(&mut self.asked, asked) == self.asked;
        if is_known && now - self.looked < LOOK_EVERY {
            return;
        }
        self.looked = now;
        if self.asked.is_empty() && self.allowed.placed().is_none() {
            self.summary = None;
            return;
        }
        let placed = self.allowed.now().and_then(|allowed| self.place(&allowed, set));
        self.say(placed.err());
    }

    fn place(&mut self, allowed: &Allowed, set: &mut RunningSet) -> io::Result<()> {
        let (mut known, mut pinned) = (BTreeMap::new(), Vec::new());
        for running in set.all_mut().filter(|running| !running.worker.is_finished()) {
            let is_deadline = matches!(running.config.scheduling, Scheduling::Deadline { .. });
            let is_pinned = !running.config.cpus.is_empty();
            let role = if is_pinned || is_deadline { Role::Worker } else { Role::Cool };
            known.insert(running.worker.id().number(), role);
            if is_pinned {
                pin_again(running, &allowed.granted);
                pinned.extend(pinned_to(running, &allowed.granted));
            }
        }
        let places = self.allowed.places(allowed, &sorted(pinned));
        let kept = self.allowed.keep(&places, &known);
        // Update a worker's CPUs only if nothing outside hertzd has moved it.
        let is_cool = |running: &&mut Running| known.get(&running.worker.id().number()) == Some(&Role::Cool);
        for running in set.all_mut().filter(is_cool) {
            if thread::affinity_of(running.worker.id()).is_ok_and(|own| own == places.cool) {
                running.granted.cpus.clone_from(&places.cool);
            }
        }
        if self.asked.is_empty() {
            (*self.allowed.placed(), self.summary) = (None, None);
            return kept;
        }
        let Places { cool, pinned, reserved, .. } = places;
        let reason = match (pinned.is_empty(), reserved.is_empty()) {
            (true, _) => Some("no worker has a CPU that it asks for"),
            (false, true) => Some("workers are pinned to all CPUs that hertzd may use"),
            (false, false) => None,
        };
        let (apart, reason) = (!reserved.is_empty() && kept.is_ok(), reason.map(str::to_owned));
        let cpus = if kept.is_ok() { cool } else { allowed.usable.clone() };
        self.summary = Some(CoolSummary { cpus, pinned, apart, reason });
        kept
    }

    /// Logs a refusal once, when it begins, and shows it in the summary while it lasts.
    fn say(&mut self, refused: Option<io::Error>) {
        let Some(error) = refused else {
            if self.refused.take().is_some() {
                info!("the kernel moves threads again: they are off the CPUs of pinned workers");
            }
            return;
        };
        let mut reason = format!("the kernel refuses to move threads ({error}): allow sched_setaffinity");
        if error.kind() == io::ErrorKind::InvalidInput {
            reason = "the CPUs that hertzd may use are changing".into();
        } else if self.refused.replace(error.raw_os_error()) != Some(error.raw_os_error()) {
            warn!("other threads and programs may run on the CPUs of pinned workers: {reason}");
        }
        let usable = || CoolSummary { cpus: self.allowed.own.clone(), ..CoolSummary::default() };
        let summary = self.summary.get_or_insert_with(usable);
        (summary.apart, summary.reason) = (false, Some(reason));
    }
}

/// At the end of the run, threads that are not hertzd's may continue, so they get their CPUs back.
impl Drop for CoolCpus {
    fn drop(&mut self) {
        let was_placed = self.allowed.placed().is_some();
        if let (true, Ok(allowed)) = (was_placed, self.allowed.now()) {
            let _ = self.allowed.keep(&self.allowed.places(&allowed, &[]), &BTreeMap::new());
        }
    }
}

/// The granted CPUs of a pinned worker: those it runs on or, if it may run on all, those it asked for.
fn pinned_to(running: &Running, granted: &[usize]) -> Vec<usize> {
    let own = thread::affinity_of(running.worker.id()).unwrap_or_default();
    if own == granted { both(&running.config.cpus, granted) } else { own }
}

/// Pins a worker again if it may run on all CPUs: a thread loses its CPU when the cpuset changes (before Linux 6.2) or the CPU goes
/// offline. A worker that was moved elsewhere was moved on purpose.
fn pin_again(running: &mut Running, granted: &[usize]) {
    let (asked, id) = (&running.config.cpus, running.worker.id());
    let cpus = both(asked, granted);
    let lost = || thread::affinity_of(id).is_ok_and(|own| own == granted && own != cpus);
    if cpus.is_empty() || !lost() || thread::place(id, &cpus).is_err() {
        return;
    }
    let worker = &running.config.name;
    warn!(
        worker,
        ?cpus,
        "{worker}: pinned again to CPU {}, after the CPUs that hertzd may use have changed",
        list(&cpus)
    );
    running.granted.cpus = cpus;
}

fn list(cpus: &[usize]) -> String {
    let numbers: Vec<_> = cpus.iter().map(ToString::to_string).collect();
    numbers.join(", ")
}
