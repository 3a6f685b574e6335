//! The graph of a configuration: which task reads values from which. It rejects references to tasks that do not exist, rejects cycles, and
//! orders the tasks of a worker. Pure.

use super::key::Key;
use super::keys::{HOLD, MAX_AGE, MAX_LATENCY};
use super::meant::{did_you_mean, suggestion};
use super::section::Section;
use super::taken::{Taken, name_in};
use crate::channels::{Limits, ValueName};
use crate::pacing::{Rate, Turn};
use crate::time::Span;
use std::collections::{HashMap, HashSet};

/// Default `max-age`: this many times the sum of the periods along the chain, plus how long each task on it may hold a value.
const PERIODS: i64 = 3;

/// The graph's results for one task.
#[derive(Debug)]
pub(super) struct Linked {
    /// The values it reads, each with how long the task waits for new ones.
    pub(super) taken: Vec<(Taken, Limits)>,
    /// When it runs among the tasks of its worker.
    pub(super) turn: Turn,
}

/// What the graph needs to know about a task. Wrong fields are missing; the problem is noted elsewhere.
pub(super) struct Node {
    pub(super) worker: Option<usize>,
    pub(super) rate: Option<Rate>,
    pub(super) deadline: Option<Span>,
    /// How long before its tick's release a value may have been measured, at most.
    pub(super) held: Span,
    /// How long its first value may take.
    pub(super) first_value: Span,
}

/// One value passed from one task to another.
struct Link {
    from: usize,
    to: usize,
    taken: usize, // its index among the values the task reads
    closes: bool, // whether it closes a cycle: the value is from the previous tick
}

/// Links all tasks; the result is in the order of `tasks`.
pub(super) fn link(tasks: &mut [(String, Section<'_>)], nodes: &[Node]) -> Vec<Linked> {
    let turn = |node: &Node| Linked { turn: node.deadline.unwrap_or_default().into(), taken: Vec::new() };
    let mut linked: Vec<Linked> = nodes.iter().map(turn).collect();
    for (_, section) in tasks.iter_mut() {
        refuse_without_links(section, &MAX_AGE, |_| true);
        refuse_without_links(section, &HOLD, |taken| taken.name().previous.is_none());
        refuse_strange_holds(section);
        refuse_without_links(section, &MAX_LATENCY, |taken| taken.name().previous.is_none());
    }
    if tasks.iter().all(|(_, section)| section.taken.is_empty()) {
        return linked; // do not build an index for thousands of tasks
    }
    let links = links(tasks);
    let into = by_task(tasks.len(), &links, |link| link.to);
    let order = order(tasks, &links, &into);
    refuse_previous(tasks, &links, &into);
    let periods = |task: usize| {
        let period = nodes[task].rate.map_or(Span::ZERO, Rate::period);
        Span::from_nanos(period.nanos().saturating_mul(PERIODS))
    };
    // The longest path to each task, and the slowest first value on a path to it.
    let mut sums: Vec<Span> = (0..tasks.len()).map(|task| periods(task) + nodes[task].held).collect();
    let mut firsts: Vec<Span> = nodes.iter().map(|node| node.first_value).collect();
    for to in &order {
        let before = || into[*to].iter().filter(|link| !link.closes);
        sums[*to] = sums[*to] + before().map(|link| sums[link.from]).max().unwrap_or_default();
        firsts[*to] = before().map(|link| firsts[link.from]).fold(firsts[*to], Span::max);
    }
    for (task, (_, section)) in tasks.iter_mut().enumerate() {
        let age = section.duration(&MAX_AGE);
        for (at, taken) in std::mem::take(&mut section.taken).into_iter().enumerate() {
            let from = into[task].iter().find(|link| link.taken == at).map(|link| link.from);
            let usual = from.map_or(Span::ZERO, |from| sums[from] + periods(task));
            // An output may have a value of an earlier run in force: it waits no longer for a first one than for others.
            let first = from.filter(|_| !section.acts).map_or(Span::ZERO, |from| firsts[from]);
            linked[task].taken.push((taken, Limits { max_age: age.unwrap_or(usual), first }));
        }
    }
    // Consumers first: each producer must run before them.
    for to in order.iter().rev() {
        let same_worker = |link: &&&Link| !link.closes && nodes[link.from].worker == nodes[*to].worker;
        for link in into[*to].iter().filter(same_worker) {
            linked[link.from].turn = linked[link.from].turn.before(linked[*to].turn);
        }
    }
    linked
}

/// Groups the links by task.
fn by_task(tasks: usize, links: &[Link], task: impl Fn(&Link) -> usize) -> Vec<Vec<&Link>> {
    let mut of_task: Vec<Vec<&Link>> = vec![Vec::new(); tasks];
    links.iter().for_each(|link| of_task[task(link)].push(link));
    of_task
}

/// Rejects a key that has an effect only if the task reads a value that `counts`.
fn refuse_without_links(section: &mut Section<'_>, key: &Key, counts: impl Fn(&Taken) -> bool) {
    if section.has(key) && !section.taken.iter().any(counts) && section.problems.is_empty() {
        let but = if section.taken.is_empty() { "" } else { " but those of the tick before, which have no age" };
        section.problem(key, format!("has no effect: the task takes no value of another task{but}; remove it"));
    }
}

/// Rejects a `hold` of what the task does not take, or takes from the tick before, which is always good.
fn refuse_strange_holds(section: &mut Section<'_>) {
    if !section.has(&HOLD) || !section.problems.is_empty() {
        return;
    }
    let names = section.taken.iter().map(Taken::name).filter(|name| name.previous.is_none());
    let names: Vec<String> = names.map(ValueName::full).collect();
    let hold = section.durations_by_value(&HOLD);
    let Some(stranger) = hold.stranger(&names) else { return };
    let takes = match suggestion(stranger, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("it takes {}", names.join(", ")),
    };
    section.problem(&HOLD, format!("the task takes no {stranger:?}; {takes}"));
}

/// Every link. Notes what is wrong with each.
fn links(tasks: &mut [(String, Section<'_>)]) -> Vec<Link> {
    let names: Vec<String> = tasks.iter().map(|(name, _)| name.clone()).collect();
    let positions: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
    let mut links = Vec::new();
    for (to, (_, section)) in tasks.iter_mut().enumerate() {
        for (at, Taken { key, span, input, .. }) in section.taken.clone().into_iter().enumerate() {
            let name = name_in(&input);
            match positions.get(name.task.as_str()) {
                Some(from) => links.push(Link { from: *from, to, taken: at, closes: name.previous.is_some() }),
                None => {
                    let help = did_you_mean(&name.task, names.iter().map(String::as_str));
                    let text = format!("there is no task {}, whose value {} it is to take", name.task, name.value);
                    section.note(key, span, true, text, help);
                }
            }
        }
    }
    links
}

/// The tasks in an order in which producers precede their consumers. A cycle is rejected and left out.
fn order(tasks: &mut [(String, Section<'_>)], links: &[Link], into: &[Vec<&Link>]) -> Vec<usize> {
    let out = by_task(tasks.len(), links, |link| link.from);
    let mut waiting: Vec<usize> = into.iter().map(|links| links.iter().filter(|link| !link.closes).count()).collect();
    let mut order: Vec<usize> = (0..tasks.len()).filter(|task| waiting[*task] == 0).collect();
    let mut next = 0;
    while let Some(from) = order.get(next).copied() {
        next += 1;
        for link in out[from].iter().filter(|link| !link.closes) {
            waiting[link.to] -= 1;
            if waiting[link.to] == 0 {
                order.push(link.to);
            }
        }
    }
    if let Some(begin) = waiting.iter().position(|waiting| *waiting > 0) {
        refuse(tasks, &cycle(begin, into, |task| waiting[task] > 0));
    }
    order
}

/// Rejects values of the previous tick that close no cycle: they never grow old, for no reason.
fn refuse_previous(tasks: &mut [(String, Section<'_>)], links: &[Link], into: &[Vec<&Link>]) {
    for link in links.iter().filter(|link| link.closes && !leads(link.to, link.from, into)) {
        let taken = &tasks[link.to].1.taken[link.taken];
        let name = taken.name();
        let (key, span) = (taken.key, taken.span.clone());
        let (giver, value) = (&name.task, &name.value);
        let text = format!(
            "takes a value of the tick before, which is never stale, where nothing closes a cycle: {giver} takes nothing that this task gives"
        );
        let help = format!("take it as it is: \"{giver}.{value}\"");
        tasks[link.to].1.note(key, span, true, text, Some(help));
    }
}

/// Whether values flow from one task to another, on any path.
fn leads(from: usize, to: usize, into: &[Vec<&Link>]) -> bool {
    let (mut seen, mut waiting) = (HashSet::from([to]), vec![to]);
    while let Some(task) = waiting.pop() {
        if task == from {
            return true;
        }
        waiting.extend(into[task].iter().map(|link| link.from).filter(|before| seen.insert(*before)));
    }
    false
}

/// A cycle among tasks that wait for each other: its links, each starting at the task where the one before ended. Walks backwards from
/// `begin`; every waiting task reads a value of another waiting task.
fn cycle<'a>(begin: usize, into: &[Vec<&'a Link>], waits: impl Fn(usize) -> bool) -> Vec<&'a Link> {
    let (mut way, mut task): (Vec<&Link>, usize) = (Vec::new(), begin);
    loop {
        if let Some(begin) = way.iter().position(|link| link.to == task) {
            let mut cycle = way.split_off(begin);
            cycle.reverse();
            return cycle;
        }
        let Some(link) = into[task].iter().find(|link| !link.closes && waits(link.from)) else { return Vec::new() };
        way.push(link);
        task = link.from;
    }
}

/// Rejects a cycle; the problem is noted at the link that comes last in the file.
fn refuse(tasks: &mut [(String, Section<'_>)], cycle: &[&Link]) {
    let start = |at: &usize| tasks[cycle[*at].to].1.taken[cycle[*at].taken].span.start;
    let Some(at) = (0..cycle.len()).max_by_key(start) else { return };
    let last = cycle[at];
    let after = cycle[at + 1..].iter().chain(&cycle[..=at]);
    let names: Vec<&str> = after.map(|link| tasks[link.from].0.as_str()).chain([tasks[last.to].0.as_str()]).collect();
    let way = names.join(" \u{2192} ");
    let text = format!("closes a cycle, in which each task waits for a value of the one before: {way}");
    let taken = &tasks[last.to].1.taken[last.taken];
    let name = taken.name();
    let help = format!(
        "take the value of the tick before at one link of it: {{ previous = \"{}.{}\", initial = 0.0 }}",
        name.task, name.value
    );
    let (key, span) = (taken.key, taken.span.clone());
    tasks[last.to].1.note(key, span, true, text, Some(help));
}
