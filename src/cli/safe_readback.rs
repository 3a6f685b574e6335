//! Reads back what `hertzd safe` has written.

use crate::safety::wrong_in_the_end;

/// Repeats all checks until none reports a problem, and returns what is still wrong at the end, prefixed with the task's name if given.
/// Reading starts after all writes are done, so that no output delays another.
pub(super) fn amiss(looks: Vec<(Option<&str>, impl Fn() -> Option<String>)>) -> Vec<String> {
    let mut left: Vec<_> = looks.into_iter().map(|(task, look)| (task, String::new(), look)).collect();
    _ = wrong_in_the_end(|| {
        left.retain_mut(|(_, what, look)| look().is_some_and(|wrong| (*what = wrong, true).1));
        (!left.is_empty()).then_some(())
    });
    let why = "either its chip does not keep that number, or something else writes to it";
    let say = |(task, what, _): &(Option<&str>, String, _)| {
        let task = task.map_or_else(String::new, |task| format!("{task}: "));
        format!("{task}{what}; {why}: look at the device, or switch off what it drives")
    };
    left.iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_right_after_a_while_is_not_amiss() {
        let looks = Cell::new(0);
        let late = || {
            looks.set(looks.get() + 1);
            (looks.get() < 3).then(|| "reads 1".to_owned())
        };
        assert_eq!(amiss(vec![(Some("fan"), late)]), Vec::<String>::new());
        assert_eq!(looks.get(), 3);
        let never = amiss(vec![(Some("fan"), || Some("pwm1 reads 1 in place of 2".to_owned()))]);
        assert!(
            never.len() == 1 && never[0].starts_with("fan: pwm1 reads 1 in place of 2; either its chip"),
            "{never:?}"
        );
    }
}
