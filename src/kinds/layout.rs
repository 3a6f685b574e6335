//! How binary numbers are stored, in an IIO buffer or in a chip's registers; and the samples of an IIO buffer. In the kernel's ABI, each
//! element is aligned to its own size, and a sample to that of its largest element. Arithmetic only.

/// How one element is stored: `le:s12/16>>4`, `be:u24/32X3>>8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleLayout {
    pub(super) big_endian: bool,
    pub(super) number: Number,
    pub(super) bits: u32,      // in 1..=8 * storage
    pub(super) storage: usize, // bytes of one value, 1 to 8
    pub(super) repeat: usize,  // values in the element; greater than zero
    pub(super) shift: u32,     // below 8 * storage
}

/// How a number can be stored, by type name.
#[cfg_attr(not(feature = "i2c"), allow(dead_code, reason = "for registers"))]
pub(super) const TYPES: [(&str, SampleLayout); 22] = {
    use Number::{Float, Signed, Unsigned};
    const fn of(number: Number, bits: u32, big_endian: bool) -> SampleLayout {
        SampleLayout { big_endian, number, bits, storage: (bits / 8) as usize, repeat: 1, shift: 0 }
    }
    [
        ("u8", of(Unsigned, 8, true)),
        ("s8", of(Signed, 8, true)),
        ("u16be", of(Unsigned, 16, true)),
        ("u16le", of(Unsigned, 16, false)),
        ("s16be", of(Signed, 16, true)),
        ("s16le", of(Signed, 16, false)),
        ("u24be", of(Unsigned, 24, true)),
        ("u24le", of(Unsigned, 24, false)),
        ("s24be", of(Signed, 24, true)),
        ("s24le", of(Signed, 24, false)),
        ("u32be", of(Unsigned, 32, true)),
        ("u32le", of(Unsigned, 32, false)),
        ("s32be", of(Signed, 32, true)),
        ("s32le", of(Signed, 32, false)),
        ("u64be", of(Unsigned, 64, true)),
        ("u64le", of(Unsigned, 64, false)),
        ("s64be", of(Signed, 64, true)),
        ("s64le", of(Signed, 64, false)),
        ("f32be", of(Float, 32, true)),
        ("f32le", of(Float, 32, false)),
        ("f64be", of(Float, 64, true)),
        ("f64le", of(Float, 64, false)),
    ]
};

/// What the bits of a number mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Signed,
    Unsigned,
    Float,
}

impl SampleLayout {
    /// A part of this type: without the `shift` bits at the low end, and with at most `bits` of the rest. If they do not fit, returns the
    /// key to blame and the problem.
    pub(super) fn part(self, shift: u32, bits: Option<u32>) -> Result<Self, (&'static str, String)> {
        let width = self.bits;
        if shift >= width {
            return Err(("shift", format!("leaves none of the type's {width} bits")));
        }
        let left = width - shift;
        if self.number != Number::Float && bits.is_some_and(|bits| bits > left) {
            return Err(("bits", format!("must be at most {left}: the type's {width} bits without shift")));
        }
        Ok(Self { shift, bits: bits.unwrap_or(left), ..self })
    }

    /// The smallest and largest number that can be stored; whole numbers beyond 2⁶³ − 1 cannot be written.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the largest are rounded, and clamped once more where they are stored"
    )]
    pub(super) fn range(self) -> [f64; 2] {
        match self.number {
            Number::Signed => [-((1_u64 << (self.bits - 1)) as f64), ((1_u64 << (self.bits - 1)) - 1) as f64],
            Number::Unsigned => [0.0, (u64::MAX >> (64 - self.bits)).min(i64::MAX as u64) as f64],
            Number::Float if self.bits == 32 => [f32::MIN.into(), f32::MAX.into()],
            Number::Float => [f64::MIN, f64::MAX],
        }
    }

    /// Encodes a number at the start of `bytes`, and returns how many bytes it takes. Whole numbers are rounded to the nearest and clamped
    /// to the range; bits outside the number become 0.
    #[cfg_attr(not(feature = "i2c"), allow(dead_code, reason = "for registers"))]
    pub(super) fn encode(self, number: f64, bytes: &mut [u8; 8]) -> usize {
        let [low, high] = self.range();
        let word = match self.number {
            #[expect(clippy::cast_possible_truncation, reason = "clamped to what fits; the cast saturates")]
            Number::Float if self.bits == 32 => u64::from((number as f32).to_bits()),
            Number::Float => number.to_bits(),
            #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
            _ => (number.clamp(low, high).round() as i64).cast_unsigned(),
        };
        self.place((word & (u64::MAX >> (64 - self.bits))) << self.shift, bytes)
    }

    /// Stores a word, with the value's bits already in position, at the start of `bytes`. Returns how many bytes it takes.
    #[cfg_attr(not(feature = "i2c"), allow(dead_code, reason = "for registers"))]
    pub(super) fn place(self, word: u64, bytes: &mut [u8; 8]) -> usize {
        *bytes = if self.big_endian { (word << (64 - 8 * self.storage)).to_be_bytes() } else { word.to_le_bytes() };
        self.storage
    }

    /// Parses an element's `_type` file; `None` if it is not understood.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (endian, rest) = text.trim().split_once(':')?;
        let big_endian = match endian {
            "be" => true,
            "le" => false,
            _ => return None,
        };
        let number = match rest.chars().next()? {
            's' => Number::Signed,
            'u' => Number::Unsigned,
            'f' => Number::Float,
            _ => return None,
        };
        let (bits, rest) = rest.get(1..)?.split_once('/')?;
        let (storage, shift) = rest.split_once(">>").unwrap_or((rest, "0"));
        let (storage, repeat) = storage.split_once('X').unwrap_or((storage, "1"));
        let (bits, stored, shift): (u32, u32, u32) = (bits.parse().ok()?, storage.parse().ok()?, shift.parse().ok()?);
        let repeat: usize = repeat.parse().ok()?;
        let fits =
            stored % 8 == 0 && (8..=64).contains(&stored) && bits >= 1 && shift < stored && bits <= stored - shift;
        let floats = number != Number::Float || (bits == stored && matches!(bits, 32 | 64));
        // The kernel writes 0 for an element that is not repeated; none repeats as often as 64 times.
        let repeat = repeat.max(1);
        (fits && floats && repeat <= 64).then_some(Self {
            big_endian,
            number,
            bits,
            storage: (stored / 8) as usize,
            repeat,
            shift,
        })
    }

    /// Bytes of the element.
    pub(super) fn bytes(self) -> usize {
        self.storage * self.repeat
    }

    /// Value `index` of the element at the start of `bytes`; NaN if the bytes end before it.
    #[expect(clippy::cast_precision_loss, reason = "values are floating-point numbers; samples rarely pass 2^53")]
    pub(super) fn decode(self, bytes: &[u8], index: usize) -> f64 {
        match (self.number, self.integer(bytes, index)) {
            (_, None) => f64::NAN,
            (Number::Signed, Some(raw)) => raw as f64,
            (Number::Unsigned, Some(raw)) => raw.cast_unsigned() as f64,
            (Number::Float, Some(raw)) if self.bits == 32 => f32::from_bits(low_half(raw)).into(),
            (Number::Float, Some(raw)) => f64::from_bits(raw.cast_unsigned()),
        }
    }

    /// The text of the value in these bytes.
    #[cfg_attr(not(feature = "i2c"), expect(dead_code, reason = "for registers"))]
    pub(super) fn text(self, bytes: &[u8]) -> String {
        let raw = self.integer(bytes, 0).unwrap_or_default();
        match self.number {
            Number::Float => self.decode(bytes, 0).to_string(),
            Number::Signed => raw.to_string(),
            Number::Unsigned => raw.cast_unsigned().to_string(),
        }
    }

    /// The bits of a value as an integer, sign-extended; `None` if the bytes end before it.
    pub(super) fn integer(self, bytes: &[u8], index: usize) -> Option<i64> {
        let stored = bytes.get(index * self.storage..(index + 1) * self.storage)?;
        let fold = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
        let word = match self.big_endian {
            true => stored.iter().fold(0, fold),
            false => stored.iter().rev().fold(0, fold),
        };
        let up = 64 - self.bits;
        let raw = (word >> self.shift) << up;
        Some(match self.number {
            Number::Signed => raw.cast_signed() >> up,
            Number::Unsigned | Number::Float => (raw >> up).cast_signed(),
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the upper half holds nothing")]
fn low_half(raw: i64) -> u32 {
    raw.cast_unsigned() as u32
}

/// Where each element begins in a sample, in index order; and the length of a sample.
pub(super) fn positions(layouts: impl IntoIterator<Item = SampleLayout>) -> (Vec<usize>, usize) {
    let (mut starts, mut end, mut largest) = (Vec::new(), 0_usize, 1);
    for layout in layouts {
        let length = layout.bytes();
        let start = end.next_multiple_of(length);
        starts.push(start);
        end = start + length;
        largest = largest.max(length);
    }
    (starts, end.next_multiple_of(largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_by_their_layout() {
        for (layout, bytes, wanted) in [
            ("le:s12/16>>4", &[0xf0, 0x7f][..], 2_047.0),
            ("le:s12/16>>4", &[0x0f, 0x80], -2_048.0), // bits below the shift are ignored
            ("be:s12/16>>4", &[0xff, 0xf0], -1.0),
            ("be:u12/16>>4", &[0xff, 0xf0], 4_095.0),
            ("be:u24/32>>8", &[0x01, 0x02, 0x03, 0xff], 66_051.0),
            ("be:s24/32>>8", &[0xff, 0xff, 0xfe, 0x55], -2.0),
            ("le:u8/8>>0", &[0xff], 255.0),
            ("le:s8/8>>0", &[0xff], -1.0),
            ("le:s16/16>>0", &[0x34, 0x12], 4_660.0),
            ("be:s16/16>>0", &[0x12, 0x34], 4_660.0),
            ("be:u10/16>>2", &[0x0f, 0xff], 1_023.0),
            ("le:u32/32>>0", &[0xff; 4], 4_294_967_295.0),
            ("le:s64/64>>0", &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], -2.0),
            ("le:u64/64>>0", &[0, 0, 0, 0, 0, 0, 0, 0x80], 9_223_372_036_854_775_808.0),
            ("le:u1/8>>7", &[0x80], 1.0),
            ("le:s24/24>>0", &[0xff, 0xff, 0xff], -1.0),
            ("le:f32/32>>0", &[0, 0, 0x20, 0xc0], -2.5),
            ("be:f64/64>>0", &[0x40, 0x04, 0, 0, 0, 0, 0, 0], 2.5),
            ("le:s16/16X1>>0", &[0xff, 0xff], -1.0),
        ] {
            let parsed = SampleLayout::parse(layout).unwrap_or_else(|| panic!("{layout}"));
            assert_eq!(parsed.decode(bytes, 0), wanted, "{layout} {bytes:?}");
            assert_eq!(parsed.bytes(), bytes.len(), "{layout}");
            assert!(parsed.decode(&bytes[1..], 0).is_nan(), "{layout}");
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "what is stored is rounded in the same way")]
    fn what_is_encoded_is_decoded_again() {
        let mut bytes = [0; 8];
        for (name, layout) in TYPES {
            let [low, high] = layout.range();
            for number in [0.0, 1.0, 93.0, low, high, low / 3.0, high / 3.0] {
                let length = layout.encode(number, &mut bytes);
                let rounded = match layout.number {
                    Number::Float if layout.bits == 32 => f64::from(number as f32),
                    Number::Float => number,
                    _ => number.round(),
                };
                assert_eq!((length, layout.decode(&bytes, 0)), (layout.storage, rounded), "{name} {number}");
            }
            if layout.number != Number::Float {
                layout.encode(f64::MAX, &mut bytes);
                assert_eq!(layout.decode(&bytes, 0), high, "{name} is clamped");
                layout.encode(f64::MIN, &mut bytes);
                assert_eq!(layout.decode(&bytes, 0), low, "{name} is clamped");
            }
        }
        let of = |name: &str| TYPES.iter().find(|(known, _)| *known == name).unwrap().1;
        let dac = of("u16be").part(4, None).unwrap();
        assert_eq!((dac.encode(4_095.0, &mut bytes), &bytes[..2]), (2, &[0xff, 0xf0][..]));
        assert_eq!((dac.encode(2_047.6, &mut bytes), &bytes[..2]), (2, &[0x80, 0x00][..]));
        let lm75 = of("s16be").part(7, Some(9)).unwrap();
        assert_eq!((lm75.encode(-20.0, &mut bytes), &bytes[..2]), (2, &[0xf6, 0x00][..]));
        assert_eq!((of("u24le").encode(66_051.0, &mut bytes), &bytes[..3]), (3, &[3, 2, 1][..]));
        assert_eq!(of("u8").part(8, None).unwrap_err().0, "shift");
        assert_eq!(of("u8").part(4, Some(5)).unwrap_err().0, "bits");
    }

    #[test]
    fn an_element_may_hold_several_values() {
        let layout = SampleLayout::parse("le:s16/16X4>>0\n").unwrap();
        let bytes = [1, 0, 0xff, 0xff, 3, 0, 4, 0];
        let values: Vec<_> = (0..layout.repeat).map(|index| layout.decode(&bytes, index)).collect();
        assert_eq!((layout.bytes(), values), (8, vec![1.0, -1.0, 3.0, 4.0]));
    }

    #[test]
    fn what_is_no_layout_is_refused() {
        let texts = " le le: me:s16/16>>0 le:x16/16>>0 le:s16 le:s0/16>>0 le:s17/16>>0 le:s16/16>>16 le:s12/16>>5 \
                     le:s16/12>>0 le:s16/128>>0 le:f16/16>>0 le:f24/32>>8 le:s16/16X65>>0 le:sé/16>>0 le:é";
        for text in texts.split(' ') {
            assert_eq!(SampleLayout::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn elements_are_aligned_to_their_own_size() {
        for (layouts, starts, size) in [
            (&["le:s16/16>>0"][..], &[0][..], 2),
            (&["le:s16/16>>0", "le:s64/64>>0"], &[0, 8], 16),
            (&["le:s12/16>>4", "le:u8/8>>0", "le:s12/16>>4", "le:s64/64>>0"], &[0, 2, 4, 8], 16),
            (&["le:u8/8>>0", "le:u32/32>>0", "le:u8/8>>0"], &[0, 4, 8], 12),
            (&["le:s16/16>>0", "le:s16/16>>0", "le:s16/16>>0"], &[0, 2, 4], 6),
            (&["le:s16/16>>0", "le:s16/16X4>>0", "le:s64/64>>0"], &[0, 8, 16], 24),
            (&["le:u8/8>>0", "le:s32/32X4>>0", "le:s64/64>>0"], &[0, 16, 32], 48),
            (&[], &[], 0),
        ] {
            let found = positions(layouts.iter().map(|layout| SampleLayout::parse(layout).unwrap()));
            assert_eq!(found, (starts.to_vec(), size), "{layouts:?}");
        }
    }
}
