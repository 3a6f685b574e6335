//! One plan of a configuration: its layout, its text, and the resulting configuration. Parses the text, so it may read files named there.

use super::chains::{Age, ages, judge, new_warnings, older};
use super::changes::{Changes, as_it_is, changes};
use super::input::{Input, Written, priority};
use super::places::Places;
use crate::cli::check::too_much;
use crate::cli::{App, Source, Stop};
use crate::config::{Config, Problems, WorkerConfig};
use crate::daemon::layout::{Chains, CpuLayout, Layout, plan as lay_out};
use crate::daemon::{Models, capacities};
use crate::program;
use crate::time::Span;
use std::cell::RefCell;

/// The common input of all plans of a configuration.
pub(super) struct Planning<'a> {
    pub(super) app: &'a App,
    pub(super) source: &'a Source,
    pub(super) texts: &'a [(String, String)],
    pub(super) config: &'a Config,
    pub(super) models: &'a Models,
    pub(super) late: &'a [(usize, [Span; 3])],
    pub(super) cpus: &'a [usize],
    pub(super) online: &'a [usize],
}

/// A plan, its changes, and the configuration it produces.
pub(super) struct Planned {
    pub(super) input: Input,
    pub(super) layout: Layout,
    pub(super) changes: Changes,
    pub(super) config: Config,
    pub(super) before: Places,
    pub(super) after: Places,
}

impl Planning<'_> {
    pub(super) fn planned(&self, written: Written, split: bool) -> Result<Planned, Stop> {
        let Self { source, config, models, late, cpus, .. } = *self;
        let input = Input::of(config, models, cpus, written, split)
            .map_err(|reason| Stop::Usage(format!("{source}: {reason}")))?;
        let scratch = RefCell::new(self.with(&Changes::default())?);
        let mut layout = {
            let chains = Chains { together: &input.together, too_old: &judge(&scratch, &input.tasks) };
            lay_out(&input.placed, cpus.len(), input.now_on_these(config), &chains)
        };
        if layout.changed && !late.is_empty() && input.placed.iter().all(|task| task.on.is_none()) {
            // The plan treats all CPUs alike, so the shortest deadline gets the CPU on which sleeps end least late.
            let shortest = |cpu: &CpuLayout| {
                let tasks = cpu.workers.iter().flat_map(|worker| &worker.tasks);
                tasks.map(|(task, _)| input.placed[*task].deadline).min().unwrap_or(Span::MAX)
            };
            layout.cpus.sort_by_key(shortest);
        }
        let changes = match layout.changed {
            true => changes(config, &input, &layout),
            false => as_it_is(config, &input),
        };
        let planned = self.with(&changes).map_err(|problems| {
            // The text is ours: a problem in it is a fault of this program, or the file has changed in the meantime.
            Stop::Fault(format!("the plan is no valid configuration: {}", problems.render(false)))
        })?;
        let before = Places::before(config, &input, late);
        let after = Places::after(&input, &layout, &changes.named, late);
        Ok(Planned { input, layout, changes, config: planned, before, after })
    }
}

impl Planning<'_> {
    /// The configuration as it is.
    pub(super) fn unchanged(&self, planned: Planned) -> Result<Planned, Stop> {
        let Planned { input, layout, before, .. } = planned;
        let (changes, layout) = (as_it_is(self.config, &input), Layout { changed: false, ..layout });
        let config = self.with(&changes)?;
        Ok(Planned { input, layout, changes, config, after: before.clone(), before })
    }

    /// The configuration with these changes.
    fn with(&self, changes: &Changes) -> Result<Config, Problems> {
        let own = self.texts.iter().map(|(name, text)| (name.clone(), text.as_bytes()));
        let plan = ("the plan".to_owned(), changes.toml.as_bytes());
        self.app.parse_beside(self.source, &own.chain([plan]).collect::<Vec<_>>(), &changes.removed)
    }

    /// Why the configuration should stay as it is. `None`: the plan is better.
    pub(super) fn objection(&self, planned: &Planned) -> Option<String> {
        planned.warned_of(self.config).or_else(|| {
            // A configuration that needs CPUs outside the planned ones cannot stay.
            let stays = |worker: &WorkerConfig| match &worker.cpus[..] {
                [] => self.online.iter().all(|cpu| self.cpus.contains(cpu)),
                cpus => cpus.iter().all(|cpu| self.cpus.contains(cpu)),
            };
            let mut placed = self.config.workers.iter().filter(|worker| priority(worker).is_some());
            let ages = planned.ages(self.config, &planned.before);
            placed.all(stays).then(|| self.worse(planned, self.config, &ages)).flatten()
        })
    }

    /// Why a plan with split chains is worse than one that keeps them together. `None`: it is as good.
    pub(super) fn split_is_worse(&self, split: &Planned, kept: &Planned) -> Option<String> {
        let ages = kept.ages(&kept.config, &kept.after);
        self.objection(split).or_else(|| self.worse(split, &kept.config, &ages))
    }

    /// Which deadlines and chains this plan makes worse than in `config`, where chains have these `ages`.
    fn worse(&self, planned: &Planned, config: &Config, ages: &[Age]) -> Option<String> {
        let fails = |config: &Config| capacities(config, self.online).iter().filter_map(too_much).collect::<Vec<_>>();
        match (&fails(config)[..], &fails(&planned.config)[..]) {
            ([], new @ [_, ..]) => Some(would_say(new)),
            ([_, ..], []) => None,
            _ => older(ages, &planned.ages(&planned.config, &planned.after)),
        }
    }
}

fn would_say(messages: &[String]) -> String {
    format!("`{} check` would say: {}", program::name(), messages.join("; "))
}

impl Planned {
    /// What `hertzd check` would warn about in the plan but not in `config`.
    fn warned_of(&self, config: &Config) -> Option<String> {
        let warnings = new_warnings(config, &self.config);
        (!warnings.is_empty()).then(|| would_say(&warnings))
    }

    pub(super) fn ages(&self, config: &Config, places: &Places) -> Vec<Age> {
        let worst = |task: usize| self.input.tasks.iter().position(|placed| *placed == task).map(|at| places.worst(at));
        ages(config, |task| worst(task).unwrap_or_default())
    }
}
