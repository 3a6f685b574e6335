//! The threads of a program and of everything that it has started.
//!
//! Reads `/proc`: threads that start or end meanwhile may be missed, or be gone already.

use crate::sys::thread::ThreadId;
use std::collections::BTreeSet;
use std::fs;

/// The most processes that one search follows.
const MOST: usize = 4_096;

/// The threads of `program` and of all its descendants. `thorough`: also of processes in its group whose parents have ended, which means
/// looking at every process of the machine.
pub(super) fn threads(program: i32, thorough: bool) -> Vec<ThreadId> {
    let mut seen = BTreeSet::from([program]);
    let mut left = vec![program];
    if thorough {
        left.extend(numbers("/proc").filter(|process| group_of(*process) == Some(program) && seen.insert(*process)));
    }
    let mut threads = Vec::new();
    while let Some(process) = left.pop() {
        for thread in numbers(&format!("/proc/{process}/task")) {
            threads.push(ThreadId::of_number(thread));
            // Not every kernel has this file.
            let children = fs::read_to_string(format!("/proc/{process}/task/{thread}/children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            left.extend(children.filter(|child| seen.len() < MOST && seen.insert(*child)));
        }
    }
    threads
}

/// The entries of a folder that are numbers above zero.
fn numbers(folder: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|number| *number > 0)
}

fn group_of(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}
