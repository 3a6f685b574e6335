//! The graph of a configuration as text: each chain with its links, in the order in which its tasks run, and doubtful links. Pure.

use crate::cli::graph::{Delay, Graph, Link};
use crate::config::Problems;
use crate::pacing::Rate;
use crate::time::Span;
use std::fmt::Write as _;

/// Warn if a value is read at least this many times as often as it is produced.
const FAR_FASTER: i64 = 10;

/// Every chain, with one line for each value that a task reads. Empty if no task reads any.
pub(super) fn describe(graph: &Graph<'_>) -> String {
    let mut text = String::new();
    let tasks = &graph.config.tasks;
    let mut ends: Vec<usize> = graph.ends().collect();
    // Tasks that read only values of the previous tick end no chain.
    let alone = |task: &usize| graph.taken_by(*task).count() > 0 && graph.taken_by(*task).all(Link::is_previous);
    let of_chains: Vec<usize> = ends.iter().flat_map(|end| graph.chain(*end)).collect();
    ends.extend((0..tasks.len()).filter(|task| alone(task) && !of_chains.contains(task)));
    for end in ends {
        let chain = graph.chain(end);
        let names: Vec<&str> = chain.iter().map(|task| tasks[*task].name.as_str()).collect();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\nchain {}: {}", names.join(", "), in_all(graph, end));
        let links: Vec<[String; 4]> =
            chain.iter().flat_map(|task| graph.taken_by(*task)).map(|link| row(graph, link)).collect();
        let width = |column: usize| links.iter().map(|link| link[column].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2)];
        for [task, key, value, rest] in &links {
            let _ = writeln!(
                text,
                "  {task:<0$} takes {key:<1$} from {value:<2$}  {rest}",
                widths[0], widths[1], widths[2]
            );
        }
    }
    text
}

fn in_all(graph: &Graph<'_>, end: usize) -> String {
    let name = &graph.config.tasks[end].name;
    let bounded = graph.chain(end).iter().flat_map(|task| graph.taken_by(*task)).any(|link| link.delay.by_deadline);
    let provided = if bounded { "no tick is late, skipped or past its deadline" } else { "no tick is late or skipped" };
    let limit = graph.config.tasks[end].max_latency;
    let limit =
        limit.map_or(String::new(), |limit| format!("; above {limit} at the end of its tick it is a late chain"));
    match graph.oldest(end) {
        Span::ZERO => format!("what {name} uses is of its own release, while {provided}{limit}"),
        age => format!("what {name} uses is up to {age} old at its release, while {provided}{limit}"),
    }
}

fn row(graph: &Graph<'_>, link: &Link<'_>) -> [String; 4] {
    let Link { from, to, taken, name, .. } = link;
    let (giver, taker) = (&graph.config.tasks[*from], &graph.config.tasks[*to]);
    let delay = delay(link, giver.rate, taker.rate);
    let stale = match name.previous {
        Some(initial) => format!("{initial} until there is one, never stale"),
        None => format!("stale when older than {}", link.max_age),
    };
    [taker.name.clone(), taken.key.to_owned(), name.full(), format!("{delay}; {stale}")]
}

/// What a link adds, in words.
pub(super) fn delay(link: &Link<'_>, giver: Rate, taker: Rate) -> String {
    let Delay { least, most, by_deadline } = link.delay;
    match (link.is_previous(), least == most) {
        (_, true) if most == Span::ZERO && giver == taker => "same tick".to_owned(),
        (_, true) if most == Span::ZERO => "released together".to_owned(),
        (true, true) => format!("the tick before, {most}"),
        (false, true) => format!("adds {most}"),
        _ if by_deadline => format!("adds up to {most}, a period and the deadline of {}", link.name.task),
        _ if least > Span::ZERO => format!("adds {least} to {most}"),
        _ => format!("adds up to {most}"),
    }
}

/// What is probably unintended: values that can be stale before they are read, and values read far more often than they are produced.
pub(super) fn doubts(graph: &Graph<'_>) -> Vec<Problems> {
    let mut doubts = Vec::new();
    for task in 0..graph.config.tasks.len() {
        let links = graph.taken_by(task).filter(|link| !link.is_previous());
        doubts.extend(links.flat_map(|link| [grows_old(graph, link), far_faster(graph, link)]).flatten());
    }
    doubts
}

fn grows_old(graph: &Graph<'_>, link: &Link<'_>) -> Option<Problems> {
    let age = graph.age(link);
    (age > link.max_age).then(|| {
        let text = format!(
            "can be {age} old while nothing is late, and counts as bad when it is older than {}; raise max-age",
            link.max_age
        );
        Problems::at_taken(&graph.config.tasks[link.to].section, link.taken, text)
    })
}

/// A written max-age says how old the value may be. It does not say that one value is meant to serve that many ticks, so the warning
/// remains.
fn far_faster(graph: &Graph<'_>, link: &Link<'_>) -> Option<Problems> {
    let [giver, taker] = [link.from, link.to].map(|task| &graph.config.tasks[task]);
    let times = giver.rate.period().nanos() / taker.rate.period().nanos().max(1);
    (times >= FAR_FASTER).then(|| {
        let remedy = if taker.section.has("max-age") { "" } else { ", or say with max-age how old it may be" };
        let text = format!(
            "is taken {times} times for each value that {} makes, and goes on with it until it is older than {}; lower the rate of {}, or \
             raise that of {}{remedy}",
            giver.name, link.max_age, taker.name, giver.name
        );
        Problems::at_taken(&taker.section, link.taken, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Facts, Kinds};

    fn config(text: &str) -> Config {
        let facts = Facts { online_cpus: vec![0, 1], cpu_set_size: 8 };
        Config::parse(text, "test.toml", &Kinds::builtin(), &facts).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// A loop across two workers, closed by `track`.
    const LOOP: &str = r#"
        [worker.slow]
        [worker.fast]
        [task.fan]
        kind = "pid"
        worker = "fast"
        rate = 100
        input = "control.out"
        setpoint = 1
        kp = 1
        [task.control]
        kind = "pid"
        worker = "fast"
        rate = 100
        input = "oven.temp1"
        setpoint = "target.temp1"
        ki = 1
        track = { previous = "fan.out", initial = 0.5 }
        [task.oven]
        kind = "sensor"
        worker = "slow"
        rate = 10
        deadline = "50ms"
        path = "/x"
        [task.target]
        kind = "sensor"
        worker = "fast"
        rate = 100
        phase = "2ms"
        path = "/x"
    "#;

    #[test]
    fn a_chain_is_told_in_the_order_in_which_it_runs() {
        let config = config(LOOP);
        let wanted = "
chain oven, target, control, fan: what fan uses is up to 150 ms old at its release, while no tick is late, skipped or past its deadline
  control takes input    from oven.temp1    adds up to 150 ms, a period and the deadline of oven; stale when older than 330 ms
  control takes setpoint from target.temp1  adds 8.00 ms; stale when older than 60.0 ms
  control takes track    from fan.out       the tick before, 10.0 ms; 0.5 until there is one, never stale
  fan     takes input    from control.out   same tick; stale when older than 360 ms
";
        assert_eq!(describe(&Graph::of(&config)), wanted);
        let nothing = config_of_no_links();
        assert_eq!(describe(&Graph::of(&nothing)), "");
    }

    fn config_of_no_links() -> Config {
        config("[task.a]\nkind = \"load\"\nrate = 1\n")
    }

    fn told(text: &str) -> Vec<String> {
        let config = config(text);
        let doubts = Problems::joined(doubts(&Graph::of(&config)));
        doubts.iter().flat_map(Problems::iter).map(|doubt| doubt.message.clone()).collect()
    }

    #[test]
    fn what_can_hardly_be_meant_is_told() {
        let far = |until: &str| {
            format!(
                "task.control: input = \"oven.temp1\"; is taken 10 times for each value that oven makes, and goes on with it until it is \
                 older than {until}; lower the rate of control, or raise that of oven"
            )
        };
        let usual = far("330 ms") + ", or say with max-age how old it may be";
        assert_eq!(told(LOOP), [usual]);
        let aged = |age: &str| LOOP.replacen("track =", &format!("max-age = \"{age}\"\ntrack ="), 1);
        assert_eq!(told(&aged("150ms")), [far("150 ms")]);
        let short = "task.control: input = \"oven.temp1\"; can be 150 ms old while nothing is late, and counts as bad when it is older \
                     than 149 ms; raise max-age";
        assert_eq!(told(&aged("149ms")), [short.to_owned(), far("149 ms")]);
        assert!(told(&LOOP.replacen("rate = 10\n", "rate = 11\n", 1)).is_empty());
    }

    #[test]
    fn what_a_task_takes_of_itself_is_of_the_tick_before() {
        let config = config(
            "[task.x]\nkind = \"load\"\nrate = 10\n[task.gone]\nkind = \"alarm\"\nrate = 10\ninput = 1\nlatch = true\n\
             reset = { previous = \"gone.active\", initial = 0 }",
        );
        let text = describe(&Graph::of(&config));
        assert!(text.contains("gone takes reset from gone.active  the tick before, 100 ms"), "{text}");
    }
}
