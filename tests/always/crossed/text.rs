//! A case as a configuration.

use super::case::{Case, Does, Link, Task};
use std::fmt::Write as _;

const WORKERS: [&str; 2] = ["a", "b"];

impl Case {
    /// The text of the configuration.
    pub(crate) fn text(&self) -> String {
        let workers = WORKERS.map(|name| format!("[worker.{name}]\n")).concat();
        let used = |index: usize| self.tasks.iter().any(|task| task.worker == index);
        let workers =
            if used(0) && used(1) { workers } else { format!("[worker.{}]\n", WORKERS[usize::from(!used(0))]) };
        workers + &(0..self.tasks.len()).map(|index| self.section(index)).collect::<String>()
    }

    fn section(&self, index: usize) -> String {
        let task = &self.tasks[index];
        let Task { period, phase, deadline, max_age, hold, max_gap, .. } = task;
        let mut text = format!(
            "[task.t{index}]\nworker = \"{}\"\nperiod = \"{period}ns\"\nphase = \"{phase}ns\"\ndeadline = \"{deadline}ns\"\n",
            WORKERS[task.worker]
        );
        let prefix = if let Some(tick) = task.restarts_at {
            let _ = writeln!(text, "restarts-at = {tick}");
            "restarted-"
        } else {
            ""
        };
        let gap = || format!("max-gap = \"{}ns\"", i64::try_from(*max_gap).unwrap() * period);
        let keys = match &task.does {
            Does::Source { script, valid } => {
                let valid = valid.map_or(String::new(), |most| format!("valid = [-{most}, {most}]"));
                format!("kind = \"source\"\nscript = {script}\n{valid}")
            }
            Does::Plant { .. } => "kind = \"sensor\"\npath = \"/nowhere\"".to_owned(),
            Does::Mean(ticks) => {
                format!("kind = \"{prefix}filter\"\ntype = \"moving-average\"\nwindow = {ticks}\n{}", gap())
            }
            Does::Median(ticks) => format!("kind = \"{prefix}filter\"\ntype = \"median\"\nwindow = {ticks}\n{}", gap()),
            Does::LowPass(cutoff) => {
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let hertz = cutoff * 1e9 / *period as f64;
                format!("kind = \"{prefix}filter\"\ntype = \"low-pass\"\norder = 1\ncutoff = {hertz}\n{}", gap())
            }
            Does::Pi { kp, ki, setpoint, limit } => format!(
                "kind = \"{prefix}pid\"\nsetpoint = {setpoint}\nkp = {kp}\nki = {ki}\nlimits = [-{limit}, {limit}]\n{}",
                gap()
            ),
            Does::Alarm { high, hihi, hysteresis, latch } => format!(
                "kind = \"{prefix}alarm\"\nhigh = {high}\nhihi = {hihi}\nhysteresis = {hysteresis}\nlatch = {latch}"
            ),
            Does::Echo => "kind = \"echo\"".to_owned(),
            Does::Probe => "kind = \"probe\"".to_owned(),
        };
        text += &keys;
        text.push('\n');
        for Link { key, from, previous, .. } in &task.links {
            let name = format!("t{from}.{}", self.tasks[*from].does.value());
            let _ = match previous {
                Some(first) => writeln!(text, "{key} = {{ previous = \"{name}\", initial = {first:?} }}"),
                None => writeln!(text, "{key} = \"{name}\""),
            };
        }
        if task.links.iter().any(|link| link.previous.is_none()) {
            let _ = writeln!(text, "max-age = \"{max_age}ns\"");
            if *hold > 0 {
                let _ = writeln!(text, "hold = \"{hold}ns\"");
            }
        }
        let runs: Vec<_> = task.runs.iter().map(|run| format!("\"{run}ns\"")).collect();
        let _ = writeln!(text, "[task.t{index}.simulate]\nrun = [{}]", runs.join(", "));
        if let Does::Plant { driven_by, constant, gain, time_constant } = task.does {
            let driven_by = driven_by.map(|from| format!("\"t{from}.{}\"", self.tasks[from].does.value()));
            let input = driven_by.unwrap_or_else(|| constant.to_string());
            let ns = (time_constant * 1e9).round();
            let _ = writeln!(
                text,
                "plant = {{ value = \"y\", input = {input}, gain = {gain}, time-constant = \"{ns}ns\", initial = 1.0 }}"
            );
        }
        text
    }
}
