//! Random configurations that combine features: kinds × links (`previous`, on another worker, slower, missing) × quality × restarts as by a
//! reload × overload. Every value of every tick is compared with a plain reference, on the virtual clock, and so is the order of the tasks.
//!
//! ```sh
//! cargo test --test always crossed                                    200 cases, the same each time
//! HERTZD_CROSSED=10000 HERTZD_SEED=5 cargo test --test always crossed     10,000 others
//! HERTZD_CROSSED=1 HERTZD_SEED=28000042 cargo test --test always crossed  the one that a failure prints
//! ```
//!
//! These faults were put into the code by hand; for each, one of the first dozen cases failed:
//!
//! - a value by `previous` has an origin, so that a task that answers a tick late, as a program does, ages without end;
//! - a latched alarm stays active but its level falls; its values are bad while its input is;
//! - a controller begins bumpless at its first start; after a reload a controller, a filter or a latched alarm begins again;
//! - a missing sample erases the memory of a filter, or makes a controller take over;
//! - a plant answers a period early, in a loop and without one;
//! - among tasks with equal deadlines the one declared first runs first;
//! - a producer runs first although another task has given up releases on two occasions while it waited;
//! - a task that has given up releases once while it waited, or whose last tick alone was late, comes before its producer;
//! - a link by `previous` that meets a row without a number shows what its task saw last, not the last number.
//!
//! Not covered, because it needs real time: a program of the kind `process` itself (tests/black_box/process.rs) and a whole reload
//! (tests/black_box/bumpless.rs).

mod case;
mod kinds;
mod laws;
mod reference;
mod text;

use case::Case;
use hertzd::App;
use hertzd::time::Span;

/// The default: this many cases, and the seed of the first.
const USUAL: (u64, u64) = (200, 28_000_000);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn where_features_meet_all_is_as_a_plain_reference_says() {
    let (count, first) = (number("HERTZD_CROSSED").unwrap_or(USUAL.0), number("HERTZD_SEED").unwrap_or(USUAL.1));
    let app = App::new(kinds::kinds());
    let (mut compared, mut decided) = (0, 0);
    for seed in first..first + count {
        let case = Case::random(seed);
        let text = case.text();
        let failed = |wrong: &dyn std::fmt::Display| -> ! {
            panic!("HERTZD_CROSSED=1 HERTZD_SEED={seed}, {} ms: {wrong}\n{text}", case.length / case::MS)
        };
        let run = app.simulate(&text, Span::from_nanos(case.length)).unwrap_or_else(|problems| failed(&problems));
        reference::counts(&case, &run).unwrap_or_else(|wrong| failed(&wrong));
        decided += reference::order(&case, &run).unwrap_or_else(|wrong| failed(&wrong));
        compared += reference::values(&case, &run).unwrap_or_else(|wrong| failed(&wrong));
    }
    assert!(count < USUAL.0 || (compared > 100_000 && decided > 10_000), "{compared} values, {decided} decisions");
}
