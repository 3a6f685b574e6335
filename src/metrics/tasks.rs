//! The tasks by number, and the most recent ticks of each.
//!
//! Arithmetic; time comes with the records. May allocate.

use super::buckets::reserve;
use super::facts::TaskFacts;
use super::recent::Recent;
use super::task::TaskMetrics;
use crate::channels::TickRecord;

/// All tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    by_number: Vec<Option<Box<TaskMetrics>>>, // None: it has ended
    places: Vec<u32>,                         // by number: the index of its most recent ticks in `recent`
    recent: Vec<Recent>,                      // adjacent in memory, so that tasks that tick in turns are prefetched
    free: Vec<u32>,                           // indices in `recent` of tasks that have ended
}

impl Tasks {
    /// Adds the task with this number.
    pub(super) fn add(&mut self, id: u32, facts: TaskFacts) {
        // With spans below a millisecond, three digits cost up to 80 KiB per histogram; two digits cost a sixth of that.
        let digits = if self.len() < 64 { 3 } else { 2 };
        let recent = Recent::new(facts.worker, facts.grid_moves.then_some(facts.period));
        let index = id as usize;
        if self.by_number.len() <= index {
            self.by_number.resize_with(index + 1, || None);
            self.places.resize(index + 1, u32::MAX);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            reserve(&mut self.recent, 1);
            self.recent.push(recent);
            u32::try_from(self.recent.len() - 1).unwrap_or(u32::MAX) // no more places than task numbers
        });
        self.recent[place as usize] = recent;
        self.places[index] = place;
        self.by_number[index] = Some(Box::new(TaskMetrics::new(facts, digits)));
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.recent.len() - self.free.len()
    }

    /// Forgets a task that has ended.
    pub(super) fn remove(&mut self, id: u32) {
        if self.by_number.get_mut(id as usize).and_then(Option::take).is_some() {
            self.free.push(std::mem::replace(&mut self.places[id as usize], u32::MAX));
        }
    }

    pub(super) fn knows(&self, id: u32) -> bool {
        self.places.get(id as usize).is_some_and(|place| *place != u32::MAX)
    }

    /// A task as of the ticks entered so far.
    pub(super) fn get(&self, id: u32) -> Option<&TaskMetrics> {
        self.by_number.get(id as usize)?.as_deref()
    }

    /// The same, mutable, for changes that depend on none of its ticks.
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut TaskMetrics> {
        self.by_number.get_mut(id as usize)?.as_deref_mut()
    }

    /// The most recent ticks of a task, mutable.
    pub(super) fn recent(&mut self, id: u32) -> Option<&mut Recent> {
        self.recent.get_mut(*self.places.get(id as usize)? as usize)
    }

    /// A task with all of its ticks entered. Since the caller may change the task, its next tick will be entered on its own.
    pub(super) fn entered(&mut self, id: u32) -> Option<&mut TaskMetrics> {
        let recent = self.recent.get_mut(*self.places.get(id as usize)? as usize)?;
        let task = self.by_number.get_mut(id as usize)?.as_deref_mut()?;
        task.enter_recent(recent);
        task.close(recent);
        Some(task)
    }

    /// A task with the lateness of all its ticks entered into its windows.
    pub(super) fn sampled(&mut self, id: u32) -> Option<&mut TaskMetrics> {
        let recent = self.recent.get_mut(*self.places.get(id as usize)? as usize)?;
        let task = self.by_number.get_mut(id as usize)?.as_deref_mut()?;
        task.health.late(recent.take_worst());
        Some(task)
    }

    /// Sets a plain tick aside, to be entered together with others. Returns false if it has to be entered on its own.
    pub(super) fn add_plain(&mut self, record: &TickRecord) -> bool {
        let Some(recent) = self.recent(record.task) else { return false };
        let taken = recent.add(record);
        if taken && recent.is_full() {
            self.enter_recent(record.task);
        }
        taken
    }

    /// Lets the task's following ticks be entered together, if none of them would change anything else.
    pub(super) fn settled(&mut self, id: u32) {
        let Some(quiet) = self.get(id).and_then(TaskMetrics::quiet) else { return };
        if let Some(recent) = self.recent(id) {
            recent.open(quiet);
        }
    }

    /// All tasks; their most recent ticks might not have been entered.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TaskMetrics> {
        self.by_number.iter().flatten().map(|task| &**task)
    }

    fn enter_recent(&mut self, id: u32) {
        let (Some(task), Some(place)) = (self.by_number.get_mut(id as usize), self.places.get(id as usize)) else {
            return;
        };
        if let (Some(task), Some(recent)) = (task, self.recent.get_mut(*place as usize)) {
            task.enter_recent(recent);
        }
    }
}
