//! What `pwmN_enable` means for a fan, and how its two files make it safe. Pure: writes go through closures.
//!
//! According to the kernel's `Documentation/ABI/testing/sysfs-class-hwmon`, 0 is full speed, 1 follows the value, and anything above leaves
//! control to the chip. Chips differ: some accept a value only in mode 1 (in any other mode nct6775 returns EBUSY, and adt7475 silently
//! drops the value), some show 0 for a fan that follows 255 (nct6775, it87), and some refuse a mode that they show themselves.

use super::digits::number;
use super::setting::in_force;
use std::io;

/// `pwmN_enable` of a fan that follows its value.
pub(super) const MANUAL: &str = "1\n";

/// `pwmN` at full speed.
pub(super) const FULL: &str = "255\n";

/// Whether this number in `pwmN_enable` gives the fan back to its chip or sets full speed. In both cases hertzd no longer controls the
/// value.
pub(super) fn gives_back(mode: f64) -> bool {
    mode.total_cmp(&1.0).is_ne()
}

/// Whether the mode `read` means that the mode `set` is in force. At full speed 0 and 1 are the same; `holds` reads `pwmN`.
pub(super) fn is_mode(set: f64, read: f64, holds: impl FnOnce() -> Option<f64>) -> bool {
    let is_full = || number(FULL).is_some_and(|full| holds().is_some_and(|holds| holds.total_cmp(&full).is_eq()));
    let is = |number: f64, wanted: f64| number.total_cmp(&wanted).is_eq();
    is(set, read) || (is(set, 1.0) && is(read, 0.0) || is(set, 0.0) && is(read, 1.0)) && is_full()
}

/// Writes the value and the mode. A fan that is given back gets its value first, while the chip still accepts one. A fan that is taken gets
/// its value before and after the mode. `value` writes a text to `pwmN`, `enable` writes one to `pwmN_enable`.
///
/// # Errors
/// The write that the kernel refused, unless the fan is in the wanted state without it.
pub(super) fn make_safe(
    text: &str,
    mode: &str,
    mut value: impl FnMut(&str) -> io::Result<()>,
    mut enable: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let Some(given) = number(mode).filter(|mode| gives_back(*mode)) else {
        return in_force(|| value(text), || enable(mode));
    };
    // A chip that controls its fan may refuse a value.
    _ = value(text);
    match enable(mode) {
        // The closest such a chip gets to full speed.
        Err(_) if given == 0.0 && enable(MANUAL).and_then(|()| value(FULL)).is_ok() => Ok(()),
        set => set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chip that accepts values only in mode 1, and only some modes. In other modes it refuses a value or drops it silently.
    struct Chip {
        drops: bool,
        modes: &'static [u8],
        mode: u8,
        value: String,
    }

    impl Chip {
        fn make_safe(&mut self, text: &str, mode: &str) -> io::Result<()> {
            let chip = std::cell::RefCell::new(self);
            let value = |text: &str| {
                let mut chip = chip.borrow_mut();
                match chip.mode {
                    1 => text.trim().clone_into(&mut chip.value),
                    _ if chip.drops => {}
                    _ => return Err(io::Error::from_raw_os_error(libc::EBUSY)),
                }
                Ok(())
            };
            let enable = |text: &str| {
                let mut chip = chip.borrow_mut();
                let mode = text.trim().parse().unwrap();
                if !chip.modes.contains(&mode) {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                chip.mode = mode;
                Ok(())
            };
            make_safe(text, mode, value, enable)
        }
    }

    #[test]
    fn a_chip_that_takes_values_in_one_mode_only_is_taken_and_given_back() {
        for (original, drops) in [0, 2, 3, 4, 5].into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
            let mut chip = Chip { drops, modes: &[0, 1, 2, 3, 4, 5], mode: original, value: "60".into() };
            chip.make_safe("255\n", "1\n").unwrap();
            assert_eq!((chip.mode, &*chip.value), (1, "255"), "it is taken");
            for _ in 0..2 {
                chip.make_safe("60\n", &format!("{original}\n")).unwrap();
                assert_eq!((chip.mode, &*chip.value), (original, "60"), "it is given back, also once more");
            }
        }
    }

    #[test]
    fn a_chip_that_refuses_the_mode_it_has_shown_runs_at_full_speed_or_is_a_failure() {
        let mut chip = Chip { drops: false, modes: &[1, 2], mode: 1, value: "60".into() };
        chip.make_safe("60\n", "0\n").unwrap();
        assert_eq!((chip.mode, &*chip.value), (1, "255"));
        let refused = chip.make_safe("60\n", "5\n").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        let mut chip = Chip { drops: false, modes: &[], mode: 5, value: "60".into() };
        assert!(chip.make_safe("255\n", "1\n").is_err());
    }

    #[test]
    fn full_speed_has_two_modes() {
        let holds = |number| move || Some(number);
        for (set, read, value, is) in [
            (1.0, 1.0, 9.0, true),
            (1.0, 0.0, 255.0, true),
            (1.0, 0.0, 254.0, false),
            (0.0, 1.0, 255.0, true),
            (0.0, 1.0, 100.0, false),
            (1.0, 5.0, 255.0, false),
            (5.0, 1.0, 255.0, false),
        ] {
            assert_eq!(is_mode(set, read, holds(value)), is, "{set} {read} {value}");
        }
        assert!(!is_mode(1.0, 0.0, || None));
    }
}
