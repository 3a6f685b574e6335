//! The value flow of a configuration: which task reads from which, how much each link adds to a value's age, and where chains end. Pure.
//!
//! Delays are from release to release: from the tick that produces a row to the tick that reads it, as long as no tick is late or skipped.

use crate::channels::ValueName;
use crate::config::{Config, Taken, TaskConfig};
use crate::pacing::Overrun;
use crate::time::Span;
use std::collections::HashMap;

/// Kinds whose values are always measurements. For other kinds, such as custom programs, that is not known.
const MEASURES: [&str; 5] = ["audio", "gpio", "i2c", "sensor", "video"];

/// All links of a configuration.
pub(in crate::cli) struct Graph<'a> {
    pub(in crate::cli) config: &'a Config,
    pub(in crate::cli) links: Vec<Link<'a>>, // grouped by task, in order of declaration
    into: Vec<Vec<usize>>,                   // by task: indices into `links`
    out: Vec<Vec<usize>>,                    // by task: the same
    order: Vec<usize>,                       // task indices; producers before consumers
    oldest: Vec<Span>,                       // by task: the maximum that all links before it add
    newest: Vec<Option<Span>>,               // by task: the minimum; `None`: perhaps no measurement behind it
}

/// One value passed from one task to another.
pub(in crate::cli) struct Link<'a> {
    pub(in crate::cli) from: usize,
    pub(in crate::cli) to: usize,
    pub(in crate::cli) taken: &'a Taken,
    pub(in crate::cli) name: &'a ValueName,
    pub(in crate::cli) delay: Delay,
    /// The value is stale when it is older than this.
    pub(in crate::cli) max_age: Span,
}

/// How much earlier the row was released than the consumer that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Delay {
    pub(in crate::cli) least: Span,
    pub(in crate::cli) most: Span,
    /// The maximum includes the producer's deadline, so it holds only while the producer meets it.
    pub(in crate::cli) by_deadline: bool,
}

impl Link<'_> {
    /// Whether the link reads the previous tick's row, whose age does not count.
    pub(in crate::cli) fn is_previous(&self) -> bool {
        self.name.previous.is_some()
    }
}

impl<'a> Graph<'a> {
    pub(in crate::cli) fn of(config: &'a Config) -> Self {
        let tasks = config.tasks.len();
        let positions: HashMap<&str, usize> = config.tasks.iter().map(|task| &*task.name).zip(0..).collect();
        let (mut links, mut into, mut out) = (Vec::new(), vec![Vec::new(); tasks], vec![Vec::new(); tasks]);
        for (to, task) in config.tasks.iter().enumerate() {
            for (taken, limits) in &task.taken {
                let name = taken.name();
                let Some(from) = positions.get(&*name.task).copied() else { continue }; // a missing task was rejected before
                let delay = match name.previous {
                    Some(_) => delay_of_previous(config, from, to),
                    None => delay(&config.tasks[from], task),
                };
                into[to].push(links.len());
                out[from].push(links.len());
                links.push(Link { from, to, taken, name, delay, max_age: limits.max_age });
            }
        }
        let mut graph = Self { config, links, into, out, order: Vec::new(), oldest: vec![], newest: vec![] };
        graph.sort();
        graph
    }

    /// Finds the order, and from it how old each task's inputs can be.
    fn sort(&mut self) {
        let tasks = self.config.tasks.len();
        let mut waiting: Vec<usize> = (0..tasks).map(|task| self.direct(&self.into[task]).count()).collect();
        let mut order: Vec<usize> = (0..tasks).filter(|task| waiting[*task] == 0).collect();
        let mut oldest = vec![Span::ZERO; tasks];
        let measures = |task: &TaskConfig| MEASURES.contains(&task.kind).then_some(Span::ZERO);
        let mut newest: Vec<_> = self.config.tasks.iter().map(measures).collect();
        let mut next = 0;
        while let Some(from) = order.get(next).copied() {
            next += 1;
            for link in self.direct(&self.out[from]) {
                oldest[link.to] = oldest[link.to].max(oldest[from] + self.held(from) + link.delay.most);
                newest[link.to] = newest[link.to].max(newest[from].map(|newest| newest + link.delay.least));
                waiting[link.to] -= 1;
                if waiting[link.to] == 0 {
                    order.push(link.to);
                }
            }
        }
        (self.order, self.oldest, self.newest) = (order, oldest, newest);
    }

    /// How much older a task's values can be than its inputs: a frame that came before the tick, a response to the previous tick.
    fn held(&self, task: usize) -> Span {
        self.config.tasks[task].blueprint.held()
    }

    /// Those of these links that read current values, not those of the previous tick.
    fn direct(&self, links: &[usize]) -> impl Iterator<Item = &Link<'a>> {
        links.iter().map(|link| &self.links[*link]).filter(|link| !link.is_previous())
    }

    /// The tasks at which chains end: they read values, and no other task reads theirs, except for the next tick of a cycle.
    pub(in crate::cli) fn ends(&self) -> impl Iterator<Item = usize> {
        let has = |links: &[usize]| self.direct(links).next().is_some();
        (0..self.config.tasks.len()).filter(move |task| has(&self.into[*task]) && !has(&self.out[*task]))
    }

    /// The tasks of the chain that ends at this one, in the order in which they run if released together.
    pub(in crate::cli) fn chain(&self, end: usize) -> Vec<usize> {
        let mut is_in = vec![false; self.config.tasks.len()];
        let mut waiting = vec![end];
        while let Some(task) = waiting.pop() {
            if !std::mem::replace(&mut is_in[task], true) {
                waiting.extend(self.direct(&self.into[task]).map(|link| link.from));
            }
        }
        self.order.iter().copied().filter(|task| is_in[*task]).collect()
    }

    /// The links through which a task reads values.
    pub(in crate::cli) fn taken_by(&self, task: usize) -> impl Iterator<Item = &Link<'a>> {
        self.into[task].iter().map(|link| &self.links[*link])
    }

    /// Maximum age of a link's value at the release of the consumer.
    pub(in crate::cli) fn age(&self, link: &Link<'_>) -> Span {
        self.oldest[link.from] + self.held(link.from) + link.delay.most
    }

    /// Minimum age of a task's inputs at its release. `None` unless there is certainly a measurement behind them.
    pub(in crate::cli) fn newest(&self, task: usize) -> Option<Span> {
        self.newest[task]
    }

    /// Maximum age of a task's inputs at its release.
    pub(in crate::cli) fn oldest(&self, task: usize) -> Span {
        self.oldest[task]
    }
}

/// On one worker the producer runs first whenever both are due, so the row is from its most recent release. On another worker the producer
/// has finished by its deadline.
fn delay(from: &TaskConfig, to: &TaskConfig) -> Delay {
    let period = from.rate.period();
    if from.worker != to.worker {
        return Delay { least: Span::ZERO, most: period + from.deadline, by_deadline: true };
    }
    let moves = |task: &TaskConfig| task.overrun == Overrun::Delay; // its releases shift
    let grids = if moves(from) || moves(to) { None } else { distances(from, to) };
    let (least, most) = grids.unwrap_or((Span::ZERO, period));
    Delay { least, most, by_deadline: false }
}

fn delay_of_previous(config: &Config, from: usize, to: usize) -> Delay {
    let (giver, taker) = (&config.tasks[from], &config.tasks[to]);
    let period = giver.rate.period();
    let together = giver.worker == taker.worker && giver.rate == taker.rate && giver.phase == taker.phase;
    let moves = [giver, taker].iter().any(|task| task.overrun == Overrun::Delay);
    let comes_after = (giver.turn.key(), from) >= (taker.turn.key(), to); // a task that reads itself gets its previous tick
    match (together && !moves, comes_after) {
        (true, true) => Delay { least: period, most: period, by_deadline: false },
        (true, false) => Delay { least: Span::ZERO, most: Span::ZERO, by_deadline: false },
        (false, _) => Delay { least: Span::ZERO, most: period + giver.deadline, by_deadline: true },
    }
}

/// The shortest and the longest time from a release of `to` back to the most recent release of `from`. Possible offsets between the two
/// grids are spaced by the greatest common divisor of their periods. `None`: the numbers are too large.
fn distances(from: &TaskConfig, to: &TaskConfig) -> Option<(Span, Span)> {
    const NANOS: i128 = 1_000_000_000;
    let [from_num, from_den, to_num, to_den] =
        [from.rate.num(), from.rate.den(), to.rate.num(), to.rate.den()].map(i128::from);
    // All in nanoseconds, multiplied by both numerators.
    let scale = from_num.checked_mul(to_num)?;
    let period = from_den.checked_mul(NANOS)?.checked_mul(to_num)?;
    let other = to_den.checked_mul(NANOS)?.checked_mul(from_num)?;
    let step = greatest_common_divisor(period, other);
    let first = i128::from((to.phase - from.phase).nanos()).checked_mul(scale)?.rem_euclid(step);
    let most = period - step + first;
    Some((Span::from_wide(first / scale), Span::from_wide((most + scale - 1) / scale)))
}

fn greatest_common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Facts, Kinds};
    use crate::pacing::Grid;
    use crate::time::Instant;

    fn config(tasks: &[(&str, &str)]) -> Config {
        let text: String = tasks.iter().map(|(name, keys)| format!("[task.{name}]\n{keys}\n")).collect();
        let facts = Facts { online_cpus: vec![0, 1], cpu_set_size: 8 };
        let workers = "[worker.a]\n[worker.b]\n";
        let text = if text.contains("worker = \"b\"") { format!("{workers}{text}") } else { text };
        Config::parse(&text, "test.toml", &Kinds::builtin(), &facts).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn sensor(keys: &str) -> String {
        format!("kind = \"sensor\"\npath = \"/x\"\n{keys}")
    }

    fn pid(input: &str, keys: &str) -> String {
        format!("kind = \"pid\"\ninput = {input}\nsetpoint = 1\nki = 1\n{keys}")
    }

    fn millis(least: i64, most: i64) -> Delay {
        Delay { least: Span::from_millis(least), most: Span::from_millis(most), by_deadline: false }
    }

    fn of(giver: &str, taker: &str) -> Delay {
        let config = config(&[("s", &sensor(giver)), ("c", &pid("\"s.x\"", taker))]);
        Graph::of(&config).links[0].delay
    }

    #[test]
    fn a_link_adds_what_lies_between_the_releases() {
        assert_eq!(of("rate = 10", "rate = 10"), millis(0, 0));
        assert_eq!(of("rate = 10", "rate = 10\nphase = \"30ms\""), millis(30, 30));
        assert_eq!(of("rate = 10\nphase = \"30ms\"", "rate = 10"), millis(70, 70));
        assert_eq!(of("rate = 1000", "rate = 10"), millis(0, 0), "released together, each time");
        assert_eq!(of("rate = 10", "rate = 1000"), millis(0, 99));
        assert_eq!(of("period = \"4ms\"", "period = \"6ms\""), millis(0, 2));
        assert_eq!(of("period = \"4ms\"\nphase = \"1ms\"", "period = \"6ms\""), millis(1, 3));
        assert_eq!(of("rate = 10\noverrun = \"delay\"", "rate = 10"), millis(0, 100), "its grid moves");
        let across = of("worker = \"a\"\nrate = 10\ndeadline = \"20ms\"", "worker = \"b\"\nrate = 10");
        assert_eq!(across, Delay { by_deadline: true, ..millis(0, 120) });
    }

    /// Compares with the actual releases, including their rounding.
    #[test]
    fn the_bounds_are_those_of_the_grids() {
        for (giver, taker) in
            [("30000/1001", "25"), ("1000", "7"), ("7", "1000"), ("60", "50"), ("50", "60"), ("3", "0.7")]
        {
            for phase in ["0us", "137us", "900us"] {
                let quoted = |rate: &str| format!("rate = \"{rate}{}\"", if rate.contains('/') { "" } else { " Hz" });
                let config = config(&[
                    ("s", &sensor(&quoted(giver))),
                    ("c", &pid("\"s.x\"", &format!("{}\nphase = \"{phase}\"", quoted(taker)))),
                ]);
                let Delay { least, most, .. } = Graph::of(&config).links[0].delay;
                let [from, to] = [0, 1]
                    .map(|task| Grid::starting_at(Instant::ZERO + config.tasks[task].phase, config.tasks[task].rate));
                let (mut shortest, mut longest) = (Span::MAX, Span::ZERO);
                for n in 0..3_000 {
                    let taken = to.release(n);
                    let Some(latest) = from.first_from(taken + Span::from_nanos(1)).checked_sub(1) else { continue };
                    let distance = taken - from.release(latest);
                    (shortest, longest) = (shortest.min(distance), longest.max(distance));
                }
                let off = |a: Span, b: Span| (a - b).nanos().abs();
                // Releases are rounded down to whole nanoseconds.
                assert!(
                    off(shortest, least) <= 1 && off(longest, most) <= 1,
                    "{giver} {taker} {phase}: {shortest} {longest} {least} {most}"
                );
            }
        }
    }

    #[test]
    fn a_chain_has_all_that_lies_before_its_end_and_no_more() {
        let config = config(&[
            ("out", &pid("\"control.out\"", "rate = 100\ntrack = { previous = \"out.out\", initial = 0 }")),
            (
                "control",
                &pid(
                    "\"slow.x\"",
                    "rate = 100\nfeed-forward = \"fast.x\"\ntrack = { previous = \"out.out\", initial = 0 }",
                ),
            ),
            ("fast", &sensor("rate = 1000")),
            ("slow", &sensor("rate = 10")),
            ("other", &sensor("rate = 10")),
        ]);
        let graph = Graph::of(&config);
        assert_eq!(graph.ends().collect::<Vec<_>>(), [0], "what goes to the next tick of a cycle goes no further");
        assert_eq!(graph.chain(0), [2, 3, 1, 0]);
        assert_eq!((graph.oldest(0), graph.oldest(1)), (Span::from_millis(90), Span::from_millis(90)));
        let track = graph.taken_by(1).find(|link| link.taken.key == "track").unwrap();
        assert_eq!(track.delay, millis(10, 10), "one tick");
    }
}
