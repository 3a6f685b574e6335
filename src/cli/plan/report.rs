//! The comments above a plan: worst responses and loads before and after, and what is unknown. Pure.

use super::chains::{Age, warnings};
use super::changes::Changes;
use super::input::{From, list};
use super::planned::Planned;
use crate::cli::Source;
use crate::config::Config;
use crate::daemon::Capacity;
use crate::daemon::layout::ALL;
use crate::program;
use crate::time::Span;
use std::fmt::Write as _;

/// What is reported about a plan.
pub(super) struct Report<'a> {
    pub(super) source: &'a Source,
    pub(super) config: &'a Config,
    pub(super) planned: &'a Planned,
    /// How late sleeps on each CPU ended when it was measured: median, 99th percentile, maximum. Empty: unknown.
    pub(super) late: &'a [(usize, [Span; 3])],
    /// Why no other plan was chosen; one sentence each.
    pub(super) notes: &'a [String],
    /// The ages of the chains before and after.
    pub(super) ages: &'a [Vec<Age>; 2],
}

impl Report<'_> {
    pub(super) fn text(&self, before: &[Capacity], after: &[Capacity]) -> String {
        let Self { source, config, planned, .. } = self;
        let Planned { input, layout, changes, before: old, after: new, .. } = planned;
        let only = [old.only, new.only].into_iter().flatten().min();
        let mut text = String::new();
        // Writing to a String cannot fail, here and below.
        let how = match layout.all_tried {
            true => "every way to spread the tasks over the CPUs was tried".to_owned(),
            false => format!("with more than {ALL} tasks a good way is looked for, not the best"),
        };
        let _ = writeln!(text, "# {} plan {source}\n#\n# On CPU {}; {how}.", program::name(), list(&input.cpus));
        let _ = match layout.changed {
            true => writeln!(
                text,
                "# Below are the sections that change, with the keys that do: to write into that configuration, or to save as a\n# drop-in beside it."
            ),
            false => {
                writeln!(text, "# Nothing that was tried is better than this layout, so there is nothing to change.")
            }
        };
        if !changes.removed.is_empty() {
            let names = list(&changes.removed);
            let _ = writeln!(
                text,
                "# No task is left on these workers, so remove their sections if they have any: {names}."
            );
        }
        if config.files.len() > 1 {
            let drop_ins = config.files[1..].iter().map(|path| path.display()).collect::<Vec<_>>();
            let _ = writeln!(
                text,
                "# It includes these drop-ins; one that is read after the plan may override it: {}.",
                list(&drop_ins)
            );
        }
        for (what, names) in [("phases of tasks", &input.written.phases), ("CPUs of workers", &input.written.cpus)] {
            if !names.is_empty() {
                let _ = writeln!(
                    text,
                    "# Kept, as they are written down ({what}): {}. --free lets the plan change them.",
                    list(names)
                );
            }
        }
        let _ = writeln!(text, "#");
        let mut rows =
            vec![["task", "longest run", "deadline", "worst response before", "", "and after", ""].map(str::to_owned)];
        for (position, task) in input.tasks.iter().enumerate() {
            let (placed, old, new) = (&input.placed[position], &old.of[position], &new.of[position]);
            let run = match input.from[position] {
                From::Nowhere => "unknown".to_owned(),
                _ => placed.run.to_string(),
            };
            let (before, after) = (old.worst.to_string(), new.worst.to_string());
            rows.push([
                config.tasks[*task].name.clone(),
                run,
                placed.deadline.to_string(),
                before,
                old.place.clone(),
                after,
                new.place.clone(),
            ]);
        }
        table(&mut text, &rows);
        self.chains(&mut text);
        if let Some(measured) = self.measured() {
            let _ = writeln!(
                text,
                "#\n# Responses include wake-ups as late as the latest of those CPUs when that was measured:\n# {measured}."
            );
            let tasks = input.tasks.iter().zip(&input.placed).zip(&new.of);
            let late: Vec<_> = tasks
                .filter(|((_, placed), new)| new.worst > placed.deadline)
                .map(|((task, _), _)| config.tasks[*task].name.as_str())
                .collect();
            if !late.is_empty() {
                let _ = writeln!(text, "# With them, deadlines are missed as planned, too: {}.", list(&late));
            }
        }
        let after_it = &self.planned.config;
        for (heading, capacities, of) in [("Before", before, *config), ("After", after, after_it)] {
            let _ = writeln!(text, "#\n# {heading}, as `{} check` says it:", program::name());
            for Capacity { label, sum, findings } in capacities {
                let _ = writeln!(text, "#   {label}: {sum}");
                findings.iter().for_each(|finding| _ = writeln!(text, "#     {}", finding.text));
            }
            warnings(of).iter().for_each(|warning| _ = writeln!(text, "#   warning: {}", warning.message));
        }
        let _ = writeln!(text, "#\n# What this does not know:");
        for line in self.unknown(only) {
            let _ = writeln!(text, "# - {}", program::own(&line));
        }
        text + "\n"
    }

    fn unknown(&self, only: Option<Span>) -> Vec<String> {
        let Self { config, planned: Planned { input, changes: Changes { named, .. }, .. }, .. } = self;
        let names = |of: &dyn Fn(From) -> bool| -> String {
            let wanted = input.tasks.iter().zip(&input.from).filter(|(_, from)| of(**from));
            wanted.map(|(task, _)| config.tasks[*task].name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut lines = vec![
            self.wake_ups(),
            "What hertzd itself takes for a tick, interrupts, other programs, and tasks that slow each other down through the memory.".to_owned(),
            "Ticks shorter than the longest run: where ticks wait at all, a shorter one can let another begin first, which makes a third wait longer.".to_owned(),
        ];
        let unknown = names(&|from| from == From::Nowhere);
        if !unknown.is_empty() {
            lines.push(format!("How long these run, which count as no work: {unknown}. Give each a budget, or record it and use --runs."));
        }
        let recorded: Vec<_> = input
            .from
            .iter()
            .filter_map(|from| match from {
                From::Recording(ticks) => Some(*ticks),
                _ => None,
            })
            .collect();
        let scripted = names(&|from| from == From::Script);
        if !scripted.is_empty() {
            lines.push(format!("Whether these run as long as their scripts for `hertzd simulate`, which `hertzd check` counts as no work: {scripted}."));
        }
        if let Some(least) = recorded.iter().min() {
            lines.push(format!(
                "Runs longer than those recorded (the longest of {least} ticks or more): {}.",
                names(&|from| matches!(from, From::Recording(_)))
            ));
        }
        if !input.kept.is_empty() {
            lines.push(format!(
                "Workers whose policy leaves the CPU to the kernel; they stay as they are and count nowhere: {}.",
                list(&input.kept)
            ));
        }
        if input.tied {
            lines.push(
                "Before: workers with the same priority share a CPU; the first one counts as the higher.".to_owned(),
            );
        }
        if named.iter().any(|workers| workers.len() > 1) {
            let lower = named.iter().flat_map(|workers| workers.iter().skip(1)).map(|worker| &worker.name);
            lines.push(format!(
                "The spin tails of workers that interrupt others. And `hertzd simulate` lets no worker interrupt another, so it shows shorter responses on: {}.",
                list(&lower.collect::<Vec<_>>())
            ));
            lines.push("A reload: workers that it restarts get a new epoch, and no longer have these phases to the others on their CPU. A restart of hertzd sets them again.".to_owned());
        }
        if let Some(only) = only {
            lines.push(format!("What happens after {only} on some CPU: its periods take longer than that to repeat."));
        }
        lines
    }
}

impl Report<'_> {
    /// The age of each chain before and after.
    fn chains(&self, text: &mut String) {
        let [before, after] = self.ages;
        let headings = ["chain", "max-latency", "max age before", "after"].map(str::to_owned);
        let row = |(before, after): (&Age, &Age)| {
            let most = before.most.map_or("none".to_owned(), |most| most.to_string());
            [before.chain.clone(), most, before.age.to_string(), after.age.to_string()]
        };
        if !before.is_empty() {
            let rows: Vec<_> = [headings].into_iter().chain(before.iter().zip(after).map(row)).collect();
            text.push_str("#\n");
            table(text, &rows);
        }
        self.notes.iter().for_each(|note| _ = writeln!(text, "# {note}"));
    }

    /// How late the kernel wakes workers.
    fn wake_ups(&self) -> String {
        if self.late.is_empty() {
            return "How late the kernel wakes a worker: that comes on top of every response. `hertzd measure --save FILE` finds out, `--oversleep FILE` here takes it into account, and that of `hertzd simulate` plays it.".into();
        }
        let unknown: Vec<_> =
            self.planned.input.cpus.iter().filter(|cpu| self.late.iter().all(|(known, _)| known != *cpu)).collect();
        let order = match (unknown.is_empty(), self.planned.input.cpus.len()) {
            (true, 1) => String::new(),
            (true, _) => " CPUs with a lower p99 are used first.".to_owned(),
            (false, 1) => format!(" CPU {} was not measured.", list(&unknown)),
            (false, _) => format!(
                " CPUs with a lower p99 are used first, and these last, which were not measured: {}.",
                list(&unknown)
            ),
        };
        format!("Wake-ups later than those that were measured, and how late the kernel will wake workers then.{order}")
    }

    /// The measurements of the CPUs that may be used. `None`: there are none.
    fn measured(&self) -> Option<String> {
        let used = |cpu: usize| self.planned.input.cpus.contains(&cpu);
        let of = |(cpu, [p50, p99, most]): &(usize, [Span; 3])| format!("{p50}, {p99} and {most} on CPU {cpu}");
        let known: Vec<_> = self.late.iter().filter(|(cpu, _)| used(*cpu)).map(of).collect();
        (!known.is_empty())
            .then(|| format!("sleeps ended late, at the median, at p99 and at most, by {}", known.join("; ")))
    }
}

fn table<const COLUMNS: usize>(text: &mut String, rows: &[[String; COLUMNS]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for row in rows {
        let cells: Vec<_> =
            row.iter().enumerate().map(|(column, cell)| format!("{cell:<width$}", width = width(column))).collect();
        let _ = writeln!(text, "# {}", cells.join("  ").trim_end());
    }
}
