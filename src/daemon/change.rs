//! Exchanging the configuration while it runs.
//!
//! Everything that can fail comes first and touches nothing: read, check, build, start new workers. Then each worker that
//! stays takes its new set of tasks between two ticks. A refused reload leaves what ran before as it was.

use super::assemble::{Built, build, facts};
use super::builder::{LEAD, start_workers};
use super::diff::{Change, Diff, Sections};
use super::{Daemon, Failure, Loader, NUDGE_EVERY, Running, clock, plan};
use crate::config::{Config, TaskConfig};
use crate::log::Message;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::notify;
use crate::time::Clock;
use crate::worker::{Activity, Counts, Left, Seat, Slot, TaskSet};
use std::collections::BTreeMap;
use std::io;
use tracing::{error, info};

/// What has come of the reloads so far.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    pub(super) asked: u64,
    pub(super) refused: u64,
    pub(super) refused_last: bool,
    pub(super) last: String,
}

impl Daemon {
    /// Reads the configuration again and goes over to it, or says why not.
    pub(super) fn reload(&mut self, load: Option<Loader<'_>>) {
        notify::reloading();
        let result = match load {
            Some(load) => load().map_err(Failure::Config).and_then(|config| self.go_over(config)),
            None => Err(Failure::Permission("the embedded configuration cannot be read again".into())),
        };
        self.reloads.asked += 1;
        self.reloads.refused_last = result.is_err();
        match result {
            Ok(diff) => {
                let [kept, restarted, added, removed] =
                    [Change::Kept, Change::Restarted, Change::Added, Change::Removed].map(|of| diff.count(of));
                let text = format!("tasks: {kept} kept, {restarted} restarted, {added} added, {removed} removed");
                let message_id = Message::Reloaded.id();
                info!(message_id, kept, restarted, added, removed, "reloaded: {text}");
                self.reloads.last = text;
            }
            Err(failure) => {
                self.reloads.refused += 1;
                self.reloads.last = match &failure {
                    Failure::Config(problems) => problems.report(false, "the old configuration runs on"),
                    other => format!("{other}; the old configuration runs on"),
                };
                error!(message_id = Message::ReloadRefused.id(), "reload refused: {}", self.reloads.last);
            }
        }
        self.tell_ready();
    }

    /// Refuses where a worker could not take over: it is stuck in a tick, or has come to its end.
    fn all_can_take_over(&self) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::System("reloading", io::Error::other(text)));
        for (running, config) in self.workers.iter().zip(&self.config.workers) {
            if running.worker.is_finished() {
                return refuse(format!("worker {} has run its last tick", config.name));
            }
            if let Activity::Runs { task, n, since } = running.worker.doing().now {
                let lasting = clock(config.clock).now() - since;
                if lasting > self.told.stalled_after() {
                    return refuse(format!("tick {n} of task {} has not returned for {lasting}", self.name_of(task)));
                }
            }
        }
        Ok(())
    }

    fn go_over(&mut self, mut config: Config) -> Result<Diff, Failure> {
        self.all_can_take_over()?;
        let diff = Diff::between(&Sections::of(&self.config), &Sections::of(&config));
        let kept = |task: &TaskConfig| diff.tasks.get(&task.name) == Some(&Change::Kept);
        let begins: Vec<bool> = config.tasks.iter().map(|task| !kept(task)).collect();
        let built = build(&mut config, |index| begins[index], &mut self.next_id, &mut self.recordings)?;
        // New threads, each ready to run.
        let stays = |name: &str| diff.workers.get(name) == Some(&Change::Kept);
        let wanted = |index: usize| !stays(&config.workers[index].name);
        let mut fresh =
            start_workers(&config, wanted, &self.collector, &self.done.0, &mut self.next_worker, &self.locked)?;

        // From here on nothing is refused.
        let places = Places::of(&self.config, &self.ids, &config, built);
        let gone: Vec<u32> = self.ids.iter().copied().filter(|id| !places.ids.contains(id)).collect();
        let names: BTreeMap<u32, String> = gone.iter().map(|id| (*id, self.name_of(*id).to_owned())).collect();
        let Places { ids, mut slots, streams } = places;
        // Metrics and recorder know the new tasks before their first tick.
        let old_places: BTreeMap<String, usize> =
            self.config.workers.iter().enumerate().map(|(index, worker)| (worker.name.clone(), index)).collect();
        let number = |index: usize| match fresh.get(&index) {
            Some(running) => running.number,
            None => self.workers[old_places[&config.workers[index].name]].number,
        };
        let known = slots.iter().map(|(index, slot)| {
            let task = &config.tasks[*index];
            (slot.id, facts(task, number(task.worker)))
        });
        let known = known.collect();
        self.record(streams);
        self.collector.add_tasks(known);

        // Every worker is asked at once: those that stay to take over, the others to end.
        let mut taking_over = Vec::new();
        for (index, worker) in config.workers.iter().enumerate().filter(|(_, worker)| stays(&worker.name)) {
            let place = old_places[&worker.name];
            if lay_ready(&mut self.workers[place], &config, index, &ids, &mut slots) {
                taking_over.push(place);
            }
        }
        let leaving: Vec<usize> = old_places.iter().filter(|(name, _)| !stays(name)).map(|(_, place)| *place).collect();
        let mut left = self.wait_for(taking_over, &leaving);

        let mut old: Vec<Option<Running>> = std::mem::take(&mut self.workers).into_iter().map(Some).collect();
        let mut numbers = Vec::new();
        for place in leaving {
            let Some(running) = old[place].take() else { continue };
            numbers.push(running.number);
            if let Some(finished) = running.worker.join() {
                left.push(Left { tasks: finished.report.tasks, given_up: finished.report.given_up });
            }
        }
        let mut went_on =
            |index: usize| old_places.get(&config.workers[index].name).and_then(|place| old[*place].take());
        self.workers =
            (0..config.workers.len()).filter_map(|index| fresh.remove(&index).or_else(|| went_on(index))).collect();
        self.config = config;
        self.ids = ids;
        let epoch = KernelClock::monotonic().now() + LEAD;
        for index in 0..self.workers.len() {
            if self.workers[index].order.is_empty() {
                let tasks: Vec<_> = plan::of_worker(&self.config.tasks, index).collect();
                let slots = tasks.into_iter().filter_map(|task| slots.remove(&task)).collect();
                self.enter_worker(index, epoch, slots);
            }
        }
        self.lock_memory();

        left.iter().for_each(|left| self.collector.give_up(left.given_up.clone()));
        // The recorder hears of it from there, after the last of their ticks.
        self.collector.remove_tasks(gone);
        self.collector.remove_workers(numbers);
        for (id, counts) in left.into_iter().flat_map(|left| left.tasks) {
            if let Some(task) = names.get(&id) {
                let Counts { ran, skipped, overruns, errors, .. } = counts;
                info!(task, ran, skipped, overruns, errors, "{task}: the old one has ended");
            }
        }
        Ok(diff)
    }

    /// Waits until these workers have taken over and those have ended, both by their places; all are watched meanwhile.
    /// Returns what the tasks that were not kept had come to.
    fn wait_for(&mut self, mut taking_over: Vec<usize>, leaving: &[usize]) -> Vec<Left> {
        let mut left = Vec::new();
        loop {
            taking_over.retain(|place| {
                let worker = &self.workers[*place].worker;
                let ended = worker.is_finished();
                match worker.exchanged() {
                    Some(mut old) => {
                        left.push(old.left());
                        false
                    }
                    None => !ended,
                }
            });
            let leaving = leaving.iter().map(|place| &self.workers[*place].worker);
            let staying = leaving.filter(|worker| !worker.is_finished()).inspect(|worker| worker.stop()).count();
            if taking_over.is_empty() && staying == 0 {
                return left;
            }
            self.supervise();
            pause(NUDGE_EVERY);
        }
    }

    /// Tells the service manager that the reload is over; ready is who has run a tick on every worker.
    fn tell_ready(&mut self) {
        let ticked = self.workers.iter().all(|running| running.worker.doing().ticks > 0);
        self.told.ready = ticked;
        if ticked {
            let health = self.health();
            notify::ready(&health);
        }
    }
}

/// Which tasks of the new configuration go on, and which begin.
struct Places {
    ids: Vec<u32>,                // of all of them, in their order
    slots: BTreeMap<usize, Slot>, // of those that begin, by their places
    streams: Vec<crate::recording::TaskOutput>,
}

impl Places {
    fn of(old: &Config, old_ids: &[u32], config: &Config, built: Vec<Built>) -> Self {
        let known: BTreeMap<&str, u32> =
            old.tasks.iter().map(|task| task.name.as_str()).zip(old_ids.iter().copied()).collect();
        let id = |task: &TaskConfig| known.get(task.name.as_str()).copied().unwrap_or(u32::MAX);
        let mut places =
            Self { ids: config.tasks.iter().map(id).collect(), slots: BTreeMap::new(), streams: Vec::new() };
        for Built { index, slot, stream } in built {
            places.ids[index] = slot.id;
            places.slots.insert(index, slot);
            places.streams.extend(stream);
        }
        places
    }
}

/// Lays the tasks of the new configuration ready for a worker that stays. False: they are those that it has.
fn lay_ready(
    running: &mut Running,
    config: &Config,
    index: usize,
    ids: &[u32],
    slots: &mut BTreeMap<usize, Slot>,
) -> bool {
    let tasks: Vec<_> = plan::of_worker(&config.tasks, index).collect();
    let order: Vec<u32> = tasks.iter().map(|task| ids[*task]).collect();
    if order == running.order {
        return false;
    }
    let seat = |task: usize| match slots.remove(&task) {
        Some(slot) => Some(Seat::New(running.epoch.pace(&config.tasks[task], running.end), Box::new(slot))),
        None => running.order.iter().position(|id| *id == ids[task]).map(Seat::Kept),
    };
    let seats = tasks.into_iter().filter_map(seat).collect();
    running.worker.exchange(TaskSet::to_exchange(seats));
    running.order = order;
    true
}
