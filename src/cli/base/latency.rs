//! Compares what the links of a chain add with a task's `max-latency`. A limit that cannot hold is rejected by every command that reads a
//! configuration; one that might not hold is a warning of `check`. Pure.

use super::graph::Graph;
use crate::config::{Config, Problems};

/// Rejects a `max-latency` that no tick can meet, however fast and punctual all tasks are.
pub(in crate::cli) fn refuse(config: &Config) -> Result<(), Problems> {
    if config.tasks.iter().all(|task| task.max_latency.is_none()) {
        return Ok(()); // do not build a graph for thousands of tasks
    }
    let graph = Graph::of(config);
    let problem = |(index, task): (usize, &crate::config::TaskConfig)| {
        let least = graph.newest(index).filter(|least| task.max_latency.is_some_and(|most| most <= *least))?;
        let text = format!(
            "can never hold: what {} uses is at least {least} old at its release by the phases of its chain alone; raise max-latency, or \
             bring the phases closer together",
            task.name
        );
        Some(Problems::at(&task.section, "max-latency", text))
    };
    config.tasks.iter().enumerate().filter_map(problem).reduce(Problems::and).map_or(Ok(()), Err)
}

/// Limits that might not hold even if nothing is late.
pub(in crate::cli) fn doubts(graph: &Graph<'_>) -> Vec<Problems> {
    let doubt = |(index, task): (usize, &crate::config::TaskConfig)| {
        let (most, oldest) = (task.max_latency?, graph.oldest(index));
        (oldest >= most).then(|| {
            let text = format!(
                "may not hold: what the task uses can be {oldest} old at its release while nothing is late; raise max-latency, or have the \
                 tasks before it tick more often"
            );
            Problems::at(&task.section, "max-latency", text)
        })
    };
    graph.config.tasks.iter().enumerate().filter_map(doubt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Facts, Kinds};

    fn config(task: &str, sensor: &str, act: &str) -> Config {
        let text = format!(
            "[task.board]\nkind = \"sensor\"\npath = \"/x\"\nrate = 100\n{sensor}\n[task.target]\nkind = \"profile\"\nshape = \"constant\"\n\
             level = 1\nrate = 100\n[task.act]\nkind = \"pid\"\nrate = 100\nphase = \"3ms\"\n{task}\nsetpoint = \"target.out\"\nkp = 1\n{act}"
        );
        let facts = Facts { online_cpus: vec![0], cpu_set_size: 8 };
        Config::parse(text, "test.toml", &Kinds::builtin(), &facts).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn judged(config: &Config) -> (Option<String>, Vec<String>) {
        let doubts = Problems::joined(doubts(&Graph::of(config)));
        let doubts = doubts.iter().flat_map(Problems::iter).map(|doubt| doubt.message.clone()).collect();
        (refuse(config).err().map(|problems| problems.to_string()), doubts)
    }

    #[test]
    fn what_can_never_hold_is_refused_and_what_may_not_is_doubted() {
        let limit = |limit: &str| format!("input = \"board.value\"\nmax-latency = \"{limit}\"");
        let on_grid = |text: &str| judged(&config(&limit(text), "", ""));
        let (refused, _) = on_grid("3ms");
        let refused = refused.expect("the phase alone takes as long");
        assert!(
            refused.contains("max-latency = \"3ms\"; can never hold: what act uses is at least 3.00 ms old"),
            "{refused}"
        );
        assert_eq!(on_grid("3001us"), (None, Vec::new()));
        // The setpoint is not a measurement, so its age does not count.
        let late = judged(&config(&limit("500us"), "phase = \"3ms\"", ""));
        assert_eq!(late.0, None);
        let slow = judged(&config(&limit("4ms"), "overrun = \"delay\"", ""));
        assert_eq!(slow.0, None, "where the grid moves, nothing is certain");
        let doubt = "task.act: max-latency = \"4ms\"; may not hold: what the task uses can be 10.0 ms old at its release while nothing is \
                     late; raise max-latency, or have the tasks before it tick more often";
        assert_eq!(slow.1, [doubt]);
    }
}
