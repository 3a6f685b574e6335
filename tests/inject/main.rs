//! Makes each system call of a start, of work, of a reload, of a stop and of `hertzd safe` fail once, with each error that Linux documents
//! for it, by means of `fail_one.c`. hertzd must never panic, abort or hang. Its exit code and its message must be right. Every target must
//! be safe or untouched, or still in the plan. Its counts must add up.
//!
//! ```sh
//! cargo test --test inject                                            a sample, the same each time
//! HERTZD_INJECT=all cargo test --test inject -- --nocapture           all of it, for an hour or so, and which calls are left alone
//! HERTZD_INJECT=200:7 cargo test --test inject                        200 of them, by the seed 7
//! HERTZD_INJECT=daemon:openat:257:EMFILE:12 cargo test --test inject  one, as a failure prints it
//! ```

#[path = "../support/program/mod.rs"]
mod program;
#[path = "../support/random.rs"]
mod random;

mod calls;
mod errors;
mod scene;

use crate::program::stopwatch;
use calls::{FailOne, Injection, Scene, injections, record_in};
use hertzd::time::Span;
use random::SplitMix;
use scene::play;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of scenes played at a time.
const AT_A_TIME: usize = 3;

/// The size of the sample, and its seed.
const SAMPLE: (usize, u64) = (50, 27);

/// All possible injections. Asserts that a scene without a failure is right.
fn all(fail_one: &FailOne, work: Span) -> Vec<Injection> {
    [Scene::Daemon, Scene::Safe]
        .into_iter()
        .flat_map(|scene| {
            let clean = play(fail_one, scene, None, work);
            assert_eq!(clean.judge(), Ok(()), "{}", clean.describe());
            injections(scene, &record_in(clean.folder()))
        })
        .collect()
}

/// A sample of this size. Chooses calls first, so that frequent calls do not displace the others.
fn sample(mut from: Vec<Injection>, size: usize, seed: u64) -> Vec<Injection> {
    let mut random = SplitMix(seed);
    let mut below = |most: usize| usize::try_from(random.next() % most as u64).unwrap();
    let mut chosen = Vec::new();
    while chosen.len() < size && !from.is_empty() {
        let mut calls: Vec<_> = from.iter().map(|one| one.call.clone()).collect();
        calls.dedup();
        let call = &calls[below(calls.len())];
        let of_it: Vec<_> = (0..from.len()).filter(|&index| from[index].call == *call).collect();
        chosen.push(from.swap_remove(of_it[below(of_it.len())]));
        from.sort_by(|one, other| one.call.cmp(&other.call));
    }
    chosen
}

#[test]
fn no_system_call_that_fails_does_harm() {
    if program::emulation::cannot_be_emulated("a program that is emulated cannot be traced") {
        return;
    }
    let fail_one = match FailOne::build() {
        Ok(fail_one) => fail_one,
        Err(why) => return program::skip(&why),
    };
    let asked = std::env::var("HERTZD_INJECT").unwrap_or_default();
    let is_all = asked == "all";
    let work = if is_all { Span::from_seconds(1) } else { Span::from_millis(150) };
    let chosen = match (Injection::read(&asked), asked.split_once(':')) {
        (Some(one), _) => vec![one],
        (None, _) if is_all => all(&fail_one, work),
        (None, Some((size, seed))) => sample(all(&fail_one, work), size.parse().unwrap(), seed.parse().unwrap()),
        (None, None) => sample(all(&fail_one, work), SAMPLE.0, SAMPLE.1),
    };
    let waited = stopwatch();
    let (next, missed, failures) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(injection) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let played = play(&fail_one, injection.scene, Some(injection), work);
                    if played.failed.is_none() {
                        missed.fetch_add(1, Ordering::Relaxed);
                    }
                    if let Err(why) = played.judge() {
                        println!("HERTZD_INJECT={injection}: {why}\n{}", played.describe());
                        failures.lock().unwrap().push(format!("HERTZD_INJECT={injection}: {why}"));
                    }
                }
            });
        }
    });
    let missed = missed.into_inner();
    println!("{} injections, of which {missed} met no call, in {}", chosen.len(), waited());
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), chosen.len(), failures.join("\n"));
}
