//! What the injectors did, and which verdict each missed release deserves. Arithmetic only.
//!
//! A miss is judged only if an injection explains it: without the injection's time, little more than the usual work would be left. Other
//! misses are left out, because something else on the machine contributed to them.

use super::kind::TickNote;
use super::ticks::{TickLine, Verdict};
use std::collections::BTreeMap;

/// An injector's action between two instants of CLOCK_MONOTONIC.
#[derive(Clone, Debug)]
pub(crate) struct Injection {
    /// The cause that the hit tick should get.
    pub(crate) word: &'static str,
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// The task that did this to itself, and in which tick; `None` if it came from outside.
    pub(crate) by: Option<(String, u64)>,
    /// The worker that it came from, if that is another worker of the daemon.
    pub(crate) worker: Option<&'static str>,
}

impl Injection {
    fn overlap(&self, from: i64, to: i64) -> i64 {
        (self.to.min(to) - self.from.max(from)).max(0)
    }
}

/// A missed release, and hertzd's verdict on it.
#[derive(Clone, Debug)]
pub(crate) struct Miss {
    pub(crate) task: String,
    pub(crate) n: u64,
    /// The time that the verdict covers: from the release to the end of its tick. For releases that were given up, the time in which they
    /// were delayed.
    pub(crate) window: [i64; 2],
    pub(crate) verdict: String,
    pub(crate) blocker: Option<String>,
}

/// The right verdicts, and the name of the task to blame, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) words: Vec<&'static str>,
    pub(crate) blocker: Option<String>,
    /// The worker that preempted, if any.
    pub(crate) worker: Option<&'static str>,
}

/// What happened on one worker.
pub(crate) struct Scene {
    pub(crate) injections: Vec<Injection>, // in order of time
    /// The notes of each task.
    pub(crate) notes: BTreeMap<String, Vec<TickNote>>,
    /// The deadline of every task, in nanoseconds.
    pub(crate) deadline: i64,
    /// How long the ticks of a wake-up take when nothing disturbs them, in nanoseconds.
    pub(crate) usual: i64,
}

impl Scene {
    /// Every missed release with hertzd's verdict, by task and in order.
    pub(crate) fn misses(&self, lines: &[TickLine]) -> impl Iterator<Item = Miss> {
        let of_task = |name: &String| {
            let mut misses = Vec::new();
            let mut before = 0; // the first release whose verdict is not known yet
            for line in lines.iter().filter(|line| line.task == *name) {
                let Some(note) = self.notes[name].iter().find(|note| note.n == line.n) else { continue };
                let [given_up, overrun, after] = &line.verdicts;
                let period = self.period(name);
                let mut miss = |n: u64, verdict: &Verdict, window: [i64; 2]| {
                    let Verdict { cause, by, .. } = verdict.clone();
                    misses.push(Miss { task: name.clone(), n, window, verdict: cause, blocker: by });
                };
                if let Some(verdict) = given_up {
                    // One verdict covers all of them, from the oldest release until the tick started.
                    let oldest = line.n.saturating_sub(verdict.count).max(before);
                    let window = [note.release - (line.n - oldest).cast_signed() * period, note.started];
                    (oldest..line.n).for_each(|n| miss(n, verdict, window));
                }
                if let Some(verdict) = overrun {
                    miss(line.n, verdict, [note.release, note.finished]);
                }
                before = line.n + 1;
                if let Some(verdict) = after {
                    // These releases have the tick's own cause.
                    let window = [note.release, note.finished];
                    (before..before + verdict.count).for_each(|n| miss(n, verdict, window));
                    before += verdict.count;
                }
            }
            misses
        };
        self.notes.keys().flat_map(of_task).collect::<Vec<_>>().into_iter()
    }

    /// The time between two releases of a task.
    fn period(&self, name: &str) -> i64 {
        let mut pairs = self.notes[name].windows(2);
        pairs.next().map_or(0, |pair| (pair[1].release - pair[0].release) / (pair[1].n - pair[0].n).cast_signed())
    }

    /// The truth about a miss; `None` if no injection explains it.
    pub(crate) fn truth(&self, miss: &Miss) -> Option<Truth> {
        let [from, to] = miss.window;
        let overlapping = || self.injections.iter().filter(|injection| injection.overlap(from, to) > 0);
        let main = overlapping().max_by_key(|injection| injection.overlap(from, to))?;
        let same = |other: &&Injection| other.word == main.word && other.by.is_some() == main.by.is_some();
        let taken: i64 = overlapping().filter(same).map(|injection| injection.overlap(from, to)).sum();
        if (to - from) - taken > self.little() {
            return None;
        }
        let truth = |words: &[&'static str], blocker: Option<&String>| {
            let worker = main.worker;
            Some(Truth { words: words.into(), blocker: blocker.cloned(), worker })
        };
        match &main.by {
            Some((task, n)) if *task == miss.task && *n == miss.n => truth(&[main.word], None),
            // Whatever delayed that tick itself would be the root cause.
            Some((task, n)) if *task == miss.task && self.delay(task, *n) > self.little() => None,
            Some((task, _)) if *task == miss.task && main.word == "ran-long" => truth(&["own-debt"], None),
            Some((task, _)) if *task == miss.task => truth(&[main.word], None),
            Some((task, _)) => truth(&["blocked"], Some(task)),
            // It waited behind a task that was hit.
            None if main.word == "preempted" => {
                match overlapping().filter(same).find_map(|injection| self.running(&miss.task, injection)) {
                    Some(task) => truth(&["preempted", "blocked"], Some(task)),
                    None => truth(&["preempted"], None),
                }
            }
            None => truth(&[main.word], None),
        }
    }

    /// How much longer a release may take than an injection explains.
    fn little(&self) -> i64 {
        self.usual + self.deadline / 4
    }

    /// How late a tick started.
    fn delay(&self, task: &str, n: u64) -> i64 {
        let note = self.notes.get(task).and_then(|notes| notes.iter().find(|note| note.n == n));
        note.map_or(0, |note| note.started - note.release)
    }

    /// The task, other than `task`, that was in a tick for most of `injection`.
    fn running(&self, task: &str, injection: &Injection) -> Option<&String> {
        let part = |notes: &Vec<TickNote>| {
            notes.iter().map(|note| injection.overlap(note.started, note.finished)).max().unwrap_or(0)
        };
        let others = self.notes.iter().filter(|(name, _)| *name != task);
        let (part, name) = others.map(|(name, notes)| (part(notes), name)).max()?;
        (part > 0).then_some(name)
    }
}

/// How often each verdict was given to each kind of miss.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matrix {
    rows: BTreeMap<String, Row>,
}

/// The verdicts on one kind of miss.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    verdicts: BTreeMap<String, u64>,
    pub(crate) right: u64,
    pub(crate) unknown: u64,
    pub(crate) wrong_blockers: u64,
    /// Verdicts that are right except for the name of the worker that preempted.
    pub(crate) wrong_workers: u64,
    pub(crate) unexplained: u64,
    pub(crate) examples: Vec<String>, // of wrong verdicts
}

impl Row {
    /// The number of misses that were judged.
    pub(crate) fn judged(&self) -> u64 {
        self.verdicts.values().sum()
    }

    fn example(&mut self, wrong: bool, miss: &Miss, truth: &Truth) {
        if wrong && self.examples.len() < 3 {
            self.examples.push(format!("{miss:?}; true: {truth:?}"));
        }
    }

    /// The number of wrong verdicts; `unknown` does not count as wrong.
    pub(crate) fn wrong(&self) -> u64 {
        self.judged() - self.right - self.unknown
    }
}

impl Matrix {
    pub(crate) fn row(&mut self, name: &str) -> &mut Row {
        self.rows.entry(name.to_owned()).or_default()
    }

    /// Enters the verdict on a miss.
    pub(crate) fn enter(&mut self, row: &str, miss: &Miss, truth: &Truth) {
        let row = self.row(row);
        *row.verdicts.entry(miss.verdict.clone()).or_default() += 1;
        if miss.verdict == "unknown" {
            row.unknown += 1;
        } else if truth.words.contains(&&*miss.verdict) {
            row.right += 1;
            let wrong = truth.words[0] == "blocked" && miss.blocker != truth.blocker;
            row.wrong_blockers += u64::from(wrong);
            let worker = truth.worker.filter(|_| miss.verdict == "preempted");
            row.wrong_workers += u64::from(worker.is_some_and(|worker| miss.blocker.as_deref() != Some(worker)));
            row.example(wrong, miss, truth);
        } else {
            row.example(true, miss, truth);
        }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, &Row)> {
        self.rows.iter().map(|(name, row)| (&**name, row))
    }

    pub(crate) fn join(&mut self, other: Self) {
        for (name, row) in other.rows {
            let all = self.row(&name);
            for (verdict, count) in row.verdicts {
                *all.verdicts.entry(verdict).or_default() += count;
            }
            all.right += row.right;
            all.unknown += row.unknown;
            all.wrong_blockers += row.wrong_blockers;
            all.wrong_workers += row.wrong_workers;
            all.unexplained += row.unexplained;
            all.examples.extend(row.examples);
        }
    }

    /// Formats it as a table: what was injected, the verdicts, how many were right, and how many misses no injection explains.
    pub(crate) fn table(&self) -> String {
        let columns: std::collections::BTreeSet<_> =
            self.rows.values().flat_map(|row| row.verdicts.keys().map(String::as_str)).collect();
        let mut text = String::from("| injected |");
        columns.iter().for_each(|column| text += &format!(" {column} |"));
        text += " right | blockers wrong | workers wrong | left out |\n| --- |";
        text += &" --: |".repeat(columns.len() + 4);
        for (name, row) in &self.rows {
            text += &format!("\n| {name} |");
            for column in &columns {
                let count = row.verdicts.get(*column).map_or(String::new(), u64::to_string);
                text += &format!(" {count} |");
            }
            let percent = (row.right * 1_000).checked_div(row.judged()).unwrap_or(0);
            let Row { wrong_blockers, wrong_workers, unexplained, .. } = row;
            let [whole, tenths] = [percent / 10, percent % 10];
            text += &format!(" {whole}.{tenths} % | {wrong_blockers} | {wrong_workers} | {unexplained} |");
        }
        text
    }
}
