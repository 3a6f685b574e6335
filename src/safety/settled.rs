//! Reads back until nothing is wrong any more, for 3 s at most: a driver may need that long to show what was written. Blocks.

use crate::sys::clock::pause;
use crate::time::Span;

/// Many drivers poll their chip every second or two, and show the last poll.
const LOOKS: u32 = 60;
const BETWEEN: Span = Span::from_millis(50);

/// Calls `look` until nothing is wrong; returns what is still wrong at the end.
pub(crate) fn wrong_in_the_end<Wrong>(mut look: impl FnMut() -> Option<Wrong>) -> Option<Wrong> {
    for _ in 1..LOOKS {
        look()?;
        pause(BETWEEN);
    }
    look()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_right_after_a_while_is_not_wrong() {
        let mut looks = 0;
        let late = || {
            looks += 1;
            (looks < 3).then_some("reads 1")
        };
        assert_eq!((wrong_in_the_end(late), looks), (None, 3));
        assert_eq!(wrong_in_the_end(|| Some("reads 1")), Some("reads 1"));
    }
}
