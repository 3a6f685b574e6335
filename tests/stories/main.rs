//! Random stories of outputs: starts, reloads, renames, other layouts, kills, strangers' locks, firmware that interferes, removed files,
//! and a disk that freezes. After each end, the bytes of every target are read from outside. They must equal a plain reference
//! (`model.rs`), or the plan must still have them and `hertzd safe` must say so.
//!
//! ```sh
//! cargo test --test stories                                             100 stories, the same each time
//! HERTZD_STORIES=10000 HERTZD_SEED=5 cargo test --test stories          10,000 others
//! HERTZD_STORIES=1 HERTZD_SEED=27000042 cargo test --test stories       the one that a failure prints
//! HERTZD_STORIES_WITHOUT=lock,layout,mode,crash,leftover,disk                none of these in any of them
//! ```

#[path = "../support/program/mod.rs"]
mod program;
#[path = "../support/random.rs"]
mod random;

mod compare;
mod frozen;
mod locks;
mod model;
mod output;
mod play;
mod story;

use frozen::OwnDisk;
use play::Stage;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use story::Scope;

/// How many stories are played in parallel.
const AT_A_TIME: usize = 4;

/// The default number of stories, and the seed of the first.
const USUAL: (u64, u64) = (100, 27_000_000);

/// Whether hertzd can be shown a chip made by this test.
fn can_show_a_chip() -> bool {
    let mut unshare = Command::new("unshare");
    program::is_root() && unshare.args(["--mount", "true"]).status().is_ok_and(|status| status.success())
}

#[test]
fn after_each_story_every_target_holds_what_it_must() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (count, first) = (number("HERTZD_STORIES").unwrap_or(USUAL.0), number("HERTZD_SEED").unwrap_or(USUAL.1));
    let leave_out = std::env::var("HERTZD_STORIES_WITHOUT").unwrap_or_default();
    let fans = can_show_a_chip();
    let mut disks = Vec::new();
    disks.extend((0..AT_A_TIME).map_while(|_| OwnDisk::mount().filter(|_| !leave_out.contains("disk"))));
    let scope = Scope { fans, disk: disks.len() == AT_A_TIME };
    if !scope.disk {
        disks.clear();
        program::skip("stories with a disk that freezes: to mount one takes root, loop devices and mkfs.ext4");
    }
    let mut disks = disks.iter().map(|own| &own.disk);
    if !scope.fans {
        program::skip("stories with fans: a chip of the test's own takes root");
    }
    let passed = program::stopwatch();
    let (next, failures) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let counts = [const { AtomicUsize::new(0) }; 3];
    std::thread::scope(|threads| {
        for _ in 0..AT_A_TIME {
            let disk = disks.next();
            let (next, failures, [events, owed, refused]) = (&next, &failures, &counts);
            let leave_out = &leave_out;
            threads.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    if (seed - first) % 500 == 499 {
                        println!("{} stories have begun", seed - first + 1);
                    }
                    let story = story::story(seed, scope, leave_out);
                    let mut stage = Stage::new(disk);
                    events.fetch_add(story.len(), Ordering::Relaxed);
                    let wrong =
                        story.iter().enumerate().find_map(|(index, event)| Some((index, stage.play(event).err()?)));
                    if let Some((index, wrong)) = wrong {
                        let line = format!("HERTZD_SEED={seed}: event {index}: {wrong}");
                        let events: String = story[..=index].iter().map(|event| format!("{event:?}\n")).collect();
                        println!("{line}\n{events}{}", stage.describe());
                        failures.lock().unwrap().push(line);
                    }
                    owed.fetch_add(stage.owed, Ordering::Relaxed);
                    refused.fetch_add(stage.refused, Ordering::Relaxed);
                }
            });
        }
    });
    let took = passed();
    let [events, owed, refused] = counts.map(AtomicUsize::into_inner);
    println!(
        "{count} stories of {events} events in {took}; {owed} times a plan still had something, {refused} reloads were refused"
    );
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {count} stories:\n{}", failures.len(), failures.join("\n"));
}
