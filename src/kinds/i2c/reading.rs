//! One reading of a chip: its bytes, and which values could not be read. Pure; only [`Reading::new`] allocates.

use super::register::{ReadPlan, Register};
use crate::kinds::device::is_gone;
use crate::sys::i2c::{AT_ONCE, Piece};
use std::io;
use std::ops::Range;

/// What is read at every tick, and the last reading.
pub(super) struct Reading {
    pieces: Box<[Piece]>,
    at_once: usize,             // pieces in one transfer
    parts: Box<[Range<usize>]>, // of each value, in the buffer
    failed: Box<[Option<i32>]>, // the error of each value that could not be read
    pub(super) buffer: Box<[u8]>,
}

impl Reading {
    /// A reading of these values. `combined`: one transfer may have many pieces.
    pub(super) fn new(plan: ReadPlan, values: &[Register], combined: bool) -> Self {
        let ReadPlan { pieces, positions, room } = plan;
        let part = |(value, at): (&Register, usize)| at..at + value.layout.bytes();
        Self {
            pieces: pieces.into(),
            at_once: if combined { AT_ONCE } else { 1 },
            parts: values.iter().zip(positions).map(part).collect(),
            failed: vec![None; values.len()].into(),
            buffer: vec![0; room].into(),
        }
    }

    /// Makes all transfers. One that fails costs only the values that it has a part of. Where the bus hangs, each transfer may take a
    /// second, so the rest of them is left out and counts as failed.
    ///
    /// # Errors
    /// If no value could be read, or the bus is gone.
    pub(super) fn fill(&mut self, mut transfer: impl FnMut(&[Piece], &mut [u8]) -> io::Result<()>) -> io::Result<()> {
        self.failed.fill(None);
        let mut hangs = None;
        for pieces in self.pieces.chunks(self.at_once) {
            let error = match hangs {
                Some(errno) => errno,
                None => match transfer(pieces, &mut self.buffer) {
                    Ok(()) => continue,
                    Err(error) if is_gone(&error) => return Err(error),
                    Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
                },
            };
            hangs = (error == libc::ETIMEDOUT).then_some(error);
            let is_of = |part: &Range<usize>| {
                pieces.iter().any(|piece| part.start < piece.at + piece.length && piece.at < part.end)
            };
            for (failed, _) in self.failed.iter_mut().zip(&self.parts).filter(|(_, part)| is_of(part)) {
                failed.get_or_insert(error);
            }
        }
        match self.failed.first() {
            Some(Some(errno)) if self.failed.iter().all(Option::is_some) => Err(io::Error::from_raw_os_error(*errno)),
            _ => Ok(()),
        }
    }

    /// The bytes of a value, or why it could not be read.
    pub(super) fn value(&self, at: usize) -> io::Result<&[u8]> {
        match self.failed[at] {
            None => Ok(&self.buffer[self.parts[at].clone()]),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::layout::TYPES;
    use crate::sys::i2c::Functions;

    const SMBUS: Functions = Functions(Functions::READ_BYTE_DATA | Functions::READ_WORD_DATA);

    fn reading(registers: &[(u8, &str)], auto_increment: bool, functions: Functions) -> Reading {
        let register = |&(register, of_type): &(u8, &str)| {
            let layout = TYPES.iter().find(|(name, _)| *name == of_type).unwrap().1;
            Register { register, layout, scale: 1.0, offset: 0.0, name: String::new(), unit: String::new() }
        };
        let values: Vec<_> = registers.iter().map(register).collect();
        let plan = ReadPlan::new(&values, auto_increment, functions).unwrap();
        Reading::new(plan, &values, functions.has(Functions::I2C))
    }

    /// Reads from a chip whose registers hold their numbers, apart from some that fail. Returns how many transfers were made, the result,
    /// and each value's first byte or error.
    fn read(reading: &mut Reading, failing: &[(u8, i32)]) -> (usize, Option<i32>, Vec<Result<u8, i32>>) {
        let mut transfers = 0;
        let done = reading.fill(|pieces, buffer| {
            transfers += 1;
            for piece in pieces {
                if let Some((_, errno)) = failing.iter().find(|(register, _)| *register == piece.register) {
                    return Err(io::Error::from_raw_os_error(*errno));
                }
                buffer[piece.at..piece.at + piece.length].fill(piece.register);
            }
            Ok(())
        });
        let errno = |error: io::Error| error.raw_os_error().unwrap();
        let values = (0..reading.parts.len()).map(|at| reading.value(at).map(|bytes| bytes[0]).map_err(errno));
        (transfers, done.map_err(errno).err(), values.collect())
    }

    #[test]
    fn a_register_that_cannot_be_read_costs_its_own_values() {
        use libc::{EIO, ENXIO};
        // Two values begin at register 2.
        let mut chip = reading(&[(1, "u8"), (2, "u16be"), (2, "u8"), (9, "u8")], false, SMBUS);
        assert_eq!(read(&mut chip, &[]), (3, None, vec![Ok(1), Ok(2), Ok(2), Ok(9)]));
        assert_eq!(read(&mut chip, &[(2, ENXIO)]), (3, None, vec![Ok(1), Err(ENXIO), Err(ENXIO), Ok(9)]));
        assert_eq!(read(&mut chip, &[(1, ENXIO), (9, EIO)]), (3, None, vec![Err(ENXIO), Ok(2), Ok(2), Err(EIO)]));
        assert_eq!(read(&mut chip, &[]), (3, None, vec![Ok(1), Ok(2), Ok(2), Ok(9)]), "it answers again");
        let all = [(1, ENXIO), (2, EIO), (9, EIO)];
        assert_eq!(read(&mut chip, &all), (3, Some(ENXIO), vec![Err(ENXIO), Err(EIO), Err(EIO), Err(EIO)]));
    }

    #[test]
    fn a_value_that_is_read_in_parts_needs_all_of_them() {
        let mut chip = reading(&[(0, "u32be"), (8, "u8")], true, SMBUS);
        let failed = Err(libc::ENXIO);
        assert_eq!(read(&mut chip, &[(2, libc::ENXIO)]), (3, None, vec![failed, Ok(8)]));
        let mut alone = reading(&[(0, "u32be")], true, SMBUS);
        assert_eq!(read(&mut alone, &[(2, libc::ENXIO)]), (2, Some(libc::ENXIO), vec![failed]));
    }

    #[test]
    fn the_pieces_of_a_combined_transfer_fail_together() {
        let registers: Vec<_> = (0..30).map(|register| (register, "u8")).collect();
        let mut chip = reading(&registers, false, Functions(Functions::I2C));
        let (transfers, done, values) = read(&mut chip, &[(25, libc::EREMOTEIO)]);
        assert_eq!((transfers, done), (2, None));
        let good = values.iter().filter(|value| value.is_ok()).count();
        assert!(good == AT_ONCE && values[AT_ONCE..].iter().all(|value| *value == Err(libc::EREMOTEIO)));
    }

    #[test]
    fn a_bus_that_hangs_or_is_gone_is_left_alone() {
        let mut chip = reading(&[(1, "u8"), (2, "u8"), (3, "u8"), (4, "u8")], false, SMBUS);
        let hangs = Err(libc::ETIMEDOUT);
        assert_eq!(read(&mut chip, &[(2, libc::ETIMEDOUT)]), (2, None, vec![Ok(1), hangs, hangs, hangs]));
        let (transfers, done, _) = read(&mut chip, &[(3, libc::ENODEV)]);
        assert_eq!((transfers, done), (3, Some(libc::ENODEV)));
    }
}
