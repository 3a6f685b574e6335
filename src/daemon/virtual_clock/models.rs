//! What the virtual clock plays: how late sleeps end, and how long ticks run. Taken from the configuration or from measured files. May
//! block while reading files; reads no clock.

mod json;
mod values;

pub(crate) use values::{RecordedValues, played_at};

use crate::config::{Config, TaskConfig};
use crate::recording::{Past, PastTask};
use crate::sim::{Oversleeps, Runs};
use crate::snapshot::Share;
use crate::sys::{input, limited};
use crate::time::{Instant, Span};
use json::{OnCpu, Written, from_json, together};
use std::fmt;
use std::io::Read as _;
use std::path::Path;

/// The first bytes of an MCAP file.
const MCAP_MAGIC: &[u8] = b"\x89MCAP";

/// What to play instead of the configuration's scripts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models {
    oversleep: Option<Oversleep>,
    runs: Option<Past>,
    replay: Option<Past>,
}

/// A file that cannot be used: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelError(String);

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ModelError {}

/// How late sleeps ended.
#[derive(Clone, Debug, PartialEq)]
enum Oversleep {
    Written(Written),
    Recorded(Past),
}

impl Models {
    /// Makes sleeps end as late as a file says: a recording, or JSON.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn oversleeping(self, path: &Path) -> Result<Self, ModelError> {
        let wrong = |reason: &str| ModelError(format!("{}: {reason}", path.display()));
        let mut start = [0; MCAP_MAGIC.len()];
        let is_recording = input::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok();
        let oversleep = if is_recording && start == MCAP_MAGIC {
            let past = recording(path)?;
            if past.sleeps(|_| true).next().is_none() {
                return Err(wrong(
                    "it contains no sleeps: its ticks have no oversleep_ns; record again with this version",
                ));
            }
            Oversleep::Recorded(past)
        } else {
            let text = limited::read_text(path, limited::JSON).map_err(|error| wrong(&error.to_string()))?;
            let value = serde_json::from_str(&text).map_err(|error| {
                wrong(&format!(
                    "{error}; name an MCAP recording, or JSON with oversleep_ns, such as `run --json` prints"
                ))
            })?;
            Oversleep::Written(from_json(&value).map_err(|reason| wrong(&reason))?)
        };
        Ok(Self { oversleep: Some(oversleep), ..self })
    }

    /// Makes the ticks of each recorded task run as long as the recorded ones, in order and cycled.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn running(self, path: &Path) -> Result<Self, ModelError> {
        Ok(Self { runs: Some(recording(path)?), ..self })
    }

    /// Replays a recording of the tasks of `config`: each tick runs as long, and each sleep ends as late, as at that time in the recording.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn replaying(path: &Path, config: &Config) -> Result<Self, ModelError> {
        Ok(Self::replaying_past(recording(path)?, config))
    }

    fn replaying_past(mut past: Past, config: &Config) -> Self {
        past.align(|name, n| {
            let task = config.tasks.iter().find(|task| task.name == name)?;
            Some(task.rate.offset(n))
        });
        Self { replay: Some(past), ..Self::default() }
    }

    /// The longest recorded run of a task, and the number of its ticks.
    pub(crate) fn longest_run(&self, task: &str) -> Option<(Span, usize)> {
        let ticks = &self.runs.as_ref()?.task(task)?.ticks;
        Some((ticks.iter().map(|tick| tick.run).max()?, ticks.len()))
    }

    /// How late sleeps ended on each measured CPU: its number, and the median, 99th percentile and maximum. Empty unless
    /// [`oversleeping`](Self::oversleeping) read a file of `hertzd measure`.
    pub(crate) fn measured_cpus(&self) -> Vec<(usize, [Span; 3])> {
        let Some(Oversleep::Written(Written::Cpus(all))) = &self.oversleep else { return Vec::new() };
        let of = |on: &OnCpu| {
            let mut late = together([on]);
            late.sort_unstable();
            let at = |hundredths: usize| late.get(late.len() * hundredths / 100).copied().unwrap_or_default();
            (on.cpu, [at(50), at(99), late.last().copied().unwrap_or_default()])
        };
        all.iter().map(of).collect()
    }

    /// The length of the recording being replayed.
    pub(crate) fn replayed_length(&self) -> Option<Span> {
        self.replay.as_ref().map(Past::length)
    }

    /// How late the sleeps of a worker end.
    pub(crate) fn oversleeps(&self, config: &Config, worker: usize) -> Oversleeps {
        let is_its_own = |name: &str| config.tasks.iter().any(|task| task.worker == worker && task.name == name);
        let of = |past: &Past| -> Vec<_> {
            let own: Vec<_> = past.sleeps(is_its_own).collect();
            let all = if own.is_empty() { past.sleeps(|_| true).collect() } else { own };
            // If a clock is set back during a sleep, the sleep ends early. On the virtual clock none does.
            all.into_iter().map(|(at, late)| (at, late.max(Span::ZERO))).collect()
        };
        if let Some(past) = &self.replay {
            let mut all = of(past);
            all.sort_unstable();
            return Oversleeps::Recorded(all);
        }
        let name = &config.workers[worker].name;
        Oversleeps::Cycled(match &self.oversleep {
            None => config.workers[worker].simulated_oversleep.clone(),
            Some(Oversleep::Written(Written::Any(spans))) => spans.clone(),
            Some(Oversleep::Written(Written::Workers(all))) => {
                let own = all.iter().find(|(of, _)| of == name).or(all.first());
                own.map(|(_, spans)| spans.clone()).unwrap_or_default()
            }
            Some(Oversleep::Written(Written::Cpus(all))) => together(of_worker(all, config, worker)),
            Some(Oversleep::Recorded(past)) => {
                let mut all = of(past);
                all.sort_unstable();
                all.into_iter().map(|(_, late)| late).collect()
            }
        })
    }

    /// How long the ticks of a task run.
    pub(crate) fn runs(&self, task: &TaskConfig) -> Runs {
        if let Some(past) = self.replay.as_ref().and_then(|past| past.task(&task.name)) {
            return Runs::Recorded(Instant::ZERO + task.phase, past.runs());
        }
        if let Some(past) = self.runs.as_ref().and_then(|past| past.task(&task.name)) {
            return Runs::Cycled(past.ticks.iter().map(|tick| tick.run).collect());
        }
        // From the script, else what the kind knows, else the longest run allowed.
        let known = || match task.blueprint.run() {
            [] => task.budget.into_iter().collect(),
            run => run.to_vec(),
        };
        Runs::Cycled(task.simulated_run.clone().unwrap_or_else(known))
    }

    /// What the replayed recording says about a task.
    pub(super) fn as_recorded(&self, task: &str) -> Option<Share> {
        Some(self.replay.as_ref()?.task(task)?.counts().share())
    }

    /// What is played and what is not, one sentence each.
    pub(crate) fn notes(&self, config: &Config) -> Vec<String> {
        let mut notes = Vec::new();
        for past in self.runs.iter().chain(&self.replay) {
            if past.cut_off {
                notes.push("the recording has no end, so its run was killed or still writes it; its ticks up to there are used".into());
            }
            for PastTask { name, before, .. } in past.tasks.iter().filter(|task| task.before > 0) {
                notes.push(format!(
                    "task.{name} began again in the recording; its {before} ticks before that are left out"
                ));
            }
            let missing = |task: &&TaskConfig| past.task(&task.name).is_none();
            let missing: Vec<_> = config.tasks.iter().filter(missing).map(|task| task.name.as_str()).collect();
            if !missing.is_empty() {
                notes.push(format!(
                    "not in the recording, so run times are those of the configuration: {}",
                    missing.join(", ")
                ));
            }
        }
        if let Some(Oversleep::Written(Written::Cpus(all))) = &self.oversleep {
            notes.extend((0..config.workers.len()).map(|worker| note_of_cpus(all, config, worker)));
        }
        if let Some(past) = &self.replay {
            let sleeps = past.sleeps(|_| true).count();
            notes.push(match sleeps {
                0 => "the recording contains no sleeps, so every sleep ends on time".into(),
                _ => format!("{sleeps} recorded sleeps set how late sleeps end; what held the worker up outside of sleeps and ticks is not replayed"),
            });
        }
        notes
    }
}

/// The measured CPUs that a worker may use; all of them if it is pinned to none of these.
fn of_worker<'a>(all: &'a [OnCpu], config: &Config, worker: usize) -> Vec<&'a OnCpu> {
    let its: Vec<_> = all.iter().filter(|on| config.workers[worker].cpus.contains(&on.cpu)).collect();
    if its.is_empty() { all.iter().collect() } else { its }
}

/// Where the lateness of a worker's sleeps comes from.
fn note_of_cpus(all: &[OnCpu], config: &Config, worker: usize) -> String {
    let its = of_worker(all, config, worker);
    let cpus = its.iter().map(|on| on.cpu.to_string()).collect::<Vec<_>>().join(", ");
    let load = if its.iter().any(|on| on.load) { "under load" } else { "idle" };
    let asked = &config.workers[worker].cpus;
    let why = match (asked.is_empty(), its.iter().any(|on| asked.contains(&on.cpu))) {
        (true, _) => "; it is not pinned, so those of all CPUs together",
        (false, false) => "; none of its own CPUs was measured, so those of the others together",
        (false, true) => "",
    };
    format!(
        "worker.{}: its sleeps end as late as those measured on CPU {cpus}, {load}{why}",
        config.workers[worker].name
    )
}

#[cfg(feature = "mcap")]
pub(crate) fn recording(path: &Path) -> Result<Past, ModelError> {
    crate::recording::read(path).map_err(ModelError)
}

#[cfg(not(feature = "mcap"))]
pub(crate) fn recording(path: &Path) -> Result<Past, ModelError> {
    Err(ModelError(format!(
        "{}: this hertzd was built without the feature mcap, which reads recordings",
        path.display()
    )))
}

#[cfg(test)]
mod tests;
