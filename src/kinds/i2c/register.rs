//! Values in registers: where they are, and which bytes are read together. Pure arithmetic.

use crate::kinds::layout::SampleLayout;
use crate::sys::i2c::{Functions, Piece, SMBUS_BLOCK};

/// A value, and where the chip stores it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Register {
    pub(super) register: u8,
    pub(super) layout: SampleLayout,
    pub(super) scale: f64,
    pub(super) offset: f64,
    pub(super) name: String,
    pub(super) unit: String,
}

impl Register {
    /// The value at the start of these bytes; NaN if there are too few.
    pub(super) fn value(&self, bytes: &[u8]) -> f64 {
        self.layout.decode(bytes, 0) * self.scale + self.offset
    }
}

/// What to read at every tick, and where each value then is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadPlan {
    pub(super) pieces: Vec<Piece>,
    pub(super) positions: Vec<usize>, // of each value, in the buffer
    pub(super) room: usize,           // bytes of the buffer
}

impl ReadPlan {
    /// A plan for an adapter with these functions. With `auto_increment` the chip advances to its next register after each byte, so
    /// neighbours are read together, and long values may be read in parts.
    pub(super) fn new(values: &[Register], auto_increment: bool, functions: Functions) -> Result<Self, String> {
        // Runs of bytes, ordered by register: values that begin at the same one, or with auto-increment all that touch.
        let mut sorted: Vec<_> =
            values.iter().map(|value| (usize::from(value.register), value.layout.bytes())).collect();
        sorted.sort_unstable();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (register, length) in sorted {
            match runs.last_mut() {
                Some((start, run)) if *start == register || auto_increment && register <= *start + *run => {
                    *run = (*run).max(register + length - *start);
                }
                _ => runs.push((register, length)),
            }
        }
        let (mut pieces, mut room, mut starts) = (Vec::new(), 0, Vec::new());
        for &(register, length) in &runs {
            split(&mut pieces, register, length, room, auto_increment, functions)?;
            starts.push(room);
            room += length;
        }
        let position = |value: &Register| {
            let register = usize::from(value.register);
            let run = runs.partition_point(|&(start, _)| start <= register).saturating_sub(1);
            starts[run] + register - runs[run].0
        };
        Ok(Self { positions: values.iter().map(position).collect(), pieces, room })
    }
}

/// Adds the pieces in which a run of bytes is read.
fn split(
    pieces: &mut Vec<Piece>,
    register: usize,
    length: usize,
    at: usize,
    auto_increment: bool,
    functions: Functions,
) -> Result<(), String> {
    let at_once = |wanted: usize| match wanted {
        _ if functions.has(Functions::I2C) => wanted,
        3.. if functions.has(Functions::READ_I2C_BLOCK) => wanted.min(SMBUS_BLOCK),
        2.. if functions.has(Functions::READ_WORD_DATA) => 2,
        1.. if functions.has(Functions::READ_BYTE_DATA) => 1,
        _ => 0,
    };
    let mut done = 0;
    while done < length {
        let taken = at_once(length - done);
        if taken == 0 || taken < length && !auto_increment {
            let hint = match (taken, auto_increment) {
                (1.., false) => "; with auto-increment = true it is read in parts, if the chip can do that",
                _ => "",
            };
            return Err(format!(
                "its adapter cannot read {length} bytes from register {register:#04x} on at once{hint}"
            ));
        }
        // Registers beyond 0xff have no number: the chip wraps around.
        let start = u8::try_from(register + done)
            .map_err(|_| format!("{length} bytes from register {register:#04x} on reach past register 0xff"))?;
        pieces.push(Piece { register: start, length: taken, at: at + done });
        done += taken;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::layout::TYPES;

    fn register(register: u8, of_type: &str) -> Register {
        let layout = TYPES.iter().find(|(name, _)| *name == of_type).unwrap().1;
        Register { register, layout, scale: 1.0, offset: 0.0, name: String::new(), unit: String::new() }
    }

    #[test]
    fn numbers_in_every_format() {
        let bytes = [0xfe, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x87];
        for (format, wanted) in [
            ("u8", 254.0),
            ("s8", -2.0),
            ("u16be", f64::from(0xfe01)),
            ("u16le", f64::from(0x01fe)),
            ("s16be", f64::from(0xfe01_u16.cast_signed())),
            ("s24be", f64::from(0xfe0102 - 0x100_0000)),
            ("s24le", f64::from(0x0201fe)),
            ("u24be", f64::from(0xfe0102)),
            ("u32le", f64::from(0x0302_01fe)),
            ("s32be", f64::from(0xfe01_0203_u32.cast_signed())),
            ("s64le", 0x8706_0504_0302_01fe_u64.cast_signed() as f64),
            ("u64be", 0xfe01_0203_0405_0687_u64 as f64),
        ] {
            assert_eq!(register(0, format).value(&bytes), wanted, "{format}");
        }
        assert_eq!(register(0, "f32be").value(&(-1.5_f32).to_be_bytes()), -1.5);
        assert_eq!(register(0, "f64le").value(&2.25_f64.to_le_bytes()), 2.25);
    }

    #[test]
    fn an_lm75_has_eleven_bits_at_the_left() {
        let part = |of_type, shift, bits| SampleLayout { shift, bits, ..register(0, of_type).layout };
        let lm75 = Register { layout: part("s16be", 5, 11), scale: 0.125, ..register(0, "s16be") };
        assert_eq!(lm75.value(&[0x19, 0x80]), 25.5);
        assert_eq!(lm75.value(&[0xf6, 0x00]), -10.0);
        let field = Register { layout: part("u8", 4, 2), scale: 10.0, offset: 1.0, ..register(0, "u8") };
        assert_eq!(field.value(&[0b1110_1111]), 21.0);
    }

    const STUB: Functions =
        Functions(Functions::READ_BYTE_DATA | Functions::READ_WORD_DATA | Functions::READ_I2C_BLOCK);

    fn plan(values: &[(u8, &str)], auto_increment: bool, functions: Functions) -> Result<ReadPlan, String> {
        let values: Vec<_> = values.iter().map(|&(at, format)| register(at, format)).collect();
        ReadPlan::new(&values, auto_increment, functions)
    }

    fn pieces(plan: &ReadPlan) -> Vec<(u8, usize, usize)> {
        plan.pieces.iter().map(|piece| (piece.register, piece.length, piece.at)).collect()
    }

    #[test]
    fn neighbours_are_read_together_only_with_auto_increment() {
        let imu = [(0x43, "s16be"), (0x3b, "s16be"), (0x3d, "s16be"), (0x3b, "u8"), (0x75, "u8")];
        let one = plan(&imu, true, Functions(Functions::I2C)).unwrap();
        assert_eq!(pieces(&one), [(0x3b, 4, 0), (0x43, 2, 4), (0x75, 1, 6)]);
        assert_eq!((one.positions, one.room), (vec![4, 0, 2, 0, 6], 7));
        let each = plan(&imu, false, Functions(Functions::I2C)).unwrap();
        assert_eq!(pieces(&each), [(0x3b, 2, 0), (0x3d, 2, 2), (0x43, 2, 4), (0x75, 1, 6)]);
        assert_eq!(each.positions, [4, 0, 2, 0, 6]);
    }

    #[test]
    fn an_adapter_that_only_knows_smbus_reads_in_parts() {
        let long: Vec<_> = (0..18).map(|n| (0x10 + 2 * n, "u16be")).collect();
        let plan_of = |functions| plan(&long, true, Functions(functions)).map(|plan| pieces(&plan));
        assert_eq!(plan_of(STUB.0).unwrap(), [(0x10, 32, 0), (0x30, 4, 32)]);
        assert_eq!(plan_of(Functions::READ_BYTE_DATA).unwrap().len(), 36);
        assert_eq!(plan_of(Functions::READ_WORD_DATA).unwrap().len(), 18);
        assert_eq!(plan_of(0).unwrap_err(), "its adapter cannot read 36 bytes from register 0x10 on at once");
        let bytes_only = Functions(Functions::READ_BYTE_DATA);
        assert_eq!(
            plan(&[(0, "s16be")], false, bytes_only).unwrap_err(),
            "its adapter cannot read 2 bytes from register 0x00 on at once; with auto-increment = true it is read in \
             parts, if the chip can do that"
        );
        assert!(plan(&[(0xff, "u16be")], true, bytes_only).unwrap_err().contains("past register 0xff"));
    }
}
