//! Sensors whose readings may freeze unnoticed on their way to an actuator.

use crate::cli::graph::Graph;

/// Those of the tasks `may_freeze` that lead to a controller or an output, and have no `stuck-after`; each is a sentence.
pub(super) fn unnoticed(graph: &Graph<'_>, may_freeze: &[String]) -> Vec<String> {
    if may_freeze.is_empty() {
        return Vec::new();
    }
    let tasks = &graph.config.tasks;
    let acting = (0..tasks.len()).filter(|task| tasks[*task].kind == "pid" || tasks[*task].acts);
    let chains: Vec<_> = acting.map(|task| (&tasks[task].name, graph.chain(task))).collect();
    let found = |source: usize| {
        let task = &tasks[source];
        let (name, acts) = (&task.name, chains.iter().find(|(_, chain)| chain.contains(&source))?.0);
        (task.stuck_after.is_none() && may_freeze.contains(name)).then(|| {
            format!(
                "task {name}: if its readings freeze they stay good, and task {acts} acts on them; if they always move a little, write \
                 stuck-after = \"10s\", which makes frozen ones bad"
            )
        })
    };
    (0..tasks.len()).filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Facts, Kinds};

    #[test]
    fn only_what_an_actuator_acts_on_and_what_has_no_limit_is_listed() {
        let sensor = "kind = \"sensor\"\nrate = 10\nhwmon = \"lm75\"\n";
        let text = format!(
            "[task.a]\n{sensor}[task.b]\n{sensor}stuck-after = \"1s\"\n[task.c]\n{sensor}[task.d]\n{sensor}\
             [task.smooth]\nkind = \"filter\"\nrate = 10\ninput = \"a.temp1\"\ntype = \"median\"\nwindow = 3\n\
             [task.heat]\nkind = \"pid\"\nrate = 10\ninput = \"smooth.out\"\nfeed-forward = \"b.temp1\"\nsetpoint = 1\nkp = 1\n\
             [task.show]\nkind = \"filter\"\nrate = 10\ninput = \"c.temp1\"\ntype = \"median\"\nwindow = 3\n"
        );
        let facts = Facts { online_cpus: vec![0], cpu_set_size: 8 };
        let config = Config::parse(&text, "test.toml", &Kinds::builtin(), &facts).unwrap();
        let listed = unnoticed(&Graph::of(&config), &["a", "b", "c"].map(str::to_owned));
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert!(listed[0].starts_with("task a: ") && listed[0].contains("task heat acts on them"), "{listed:?}");
    }
}
