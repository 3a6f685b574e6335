//! A loop that keeps its own clock, as a game's does: a ball is simulated 60 times a second, and drawn as often as the loop turns.
//!
//!     cargo run --no-default-features --example game_loop
//!
//! Time goes into `FixedStep`, and what is due comes out. hertzd needs no other crate for this, and no particular system.

use hertzd::pacing::{FixedStep, Rate};
use hertzd::time::{Instant, Span};

/// One update of the simulation: the height of the ball in metres, and its speed.
fn fall((height, speed): (f64, f64), seconds: f64) -> (f64, f64) {
    let speed = speed - 9.81 * seconds;
    let next = height + speed * seconds;
    if next < 0.0 { (0.0, -0.9 * speed) } else { (next, speed) }
}

#[expect(clippy::disallowed_methods, reason = "the clock is the game's own")]
fn main() {
    let clock = std::time::Instant::now();
    let mut steps = FixedStep::new(Rate::new(60, 1).expect("60 Hz"));
    let (mut before, mut after, mut updates) = ((2.0, 0.0), (2.0, 0.0), 0);
    while updates < 180 {
        let frame = steps.advance(Instant::ZERO + Span::from_wide(clock.elapsed().as_nanos().cast_signed()));
        for _ in 0..frame.updates {
            before = after;
            after = fall(before, frame.dt.seconds());
        }
        updates += frame.updates;
        if frame.render {
            let height = before.0 + (after.0 - before.0) * frame.interpolation;
            println!("{height:.3} m");
        }
        std::thread::sleep(std::time::Duration::from_millis(7)); // a screen that shows about 144 frames a second
    }
}
