//! What the three processes tell each other, as text: the plant's state for the sensor, the force for the plant, and rows for the view.
//! Pure.

use crate::physics::State;
use std::fmt::Write as _;

/// The file that the sensor reads and the plant writes, beside the configuration.
pub(crate) const POLE: &str = "pole";

/// The file that the output writes and the plant reads.
pub(crate) const FORCE: &str = "force";

/// The text of [`POLE`]. It has the same length at every step, so it is written in place and never cut. A reader may catch it while it is being
/// written: then the number of the step at its beginning is not the one at its end, which the configuration looks at.
pub(crate) fn pole(text: &mut String, step: u64, state: State) {
    let State { position, speed, angle, rate } = state;
    text.clear();
    let _ = writeln!(text, "step {step:012}");
    for (name, number) in [("position", position), ("speed", speed), ("angle", angle), ("rate", rate)] {
        let _ = writeln!(text, "{name} {:+014.8}", number.clamp(-999.0, 999.0));
    }
    let _ = writeln!(text, "check {step:012}");
}

/// What the view draws, and what the headless run prints.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) steps: u64,        // 1 ms each, since the start
    pub(crate) discarded: u64,    // steps given up, since this process was held up itself
    pub(crate) free: u64,         // steps since the pole was let go; 0: it is still held
    pub(crate) fell: Option<u64>, // how many of those had passed when it lay on the floor
    pub(crate) state: State,
    pub(crate) force: f64, // of the controller, N
    pub(crate) shove: f64, // N
}

impl Row {
    /// One line.
    pub(crate) fn line(&self) -> String {
        let Self { steps, discarded, free, fell, state, force, shove } = self;
        let fell = fell.map_or("-".to_owned(), |steps| steps.to_string());
        let State { position, speed, angle, rate } = state;
        format!("{steps} {discarded} {free} {fell} {position} {speed} {angle} {rate} {force} {shove}\n")
    }

    /// Reads such a line; `None` if it is none.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[steps, discarded, free, fell, position, speed, angle, rate, force, shove] = &words[..] else {
            return None;
        };
        let number = |word: &str| word.parse::<f64>().ok();
        let state =
            State { position: number(position)?, speed: number(speed)?, angle: number(angle)?, rate: number(rate)? };
        Some(Self {
            steps: steps.parse().ok()?,
            discarded: discarded.parse().ok()?,
            free: free.parse().ok()?,
            fell: if fell == "-" { None } else { Some(fell.parse().ok()?) },
            state,
            force: number(force)?,
            shove: number(shove)?,
        })
    }
}

/// The force in the text of [`FORCE`]: a number and a newline. `None` while it is empty or something else.
pub(crate) fn force(text: &[u8]) -> Option<f64> {
    let (number, _) = str::from_utf8(text).ok()?.split_once('\n')?;
    number.parse().ok().filter(|force: &f64| force.is_finite())
}

/// Seconds of so many steps.
#[expect(clippy::cast_precision_loss, reason = "2^53 steps are 285,000 years")]
pub(crate) fn seconds(steps: u64) -> f64 {
    steps as f64 / 1_000.0
}
