//! A number in the data of a frame: its bits and their meaning. Pure; only [`Signal::new`] allocates.
//!
//! Bits are numbered as in a DBC file: bit 0 is the lowest of byte 0, bit 7 its highest, bit 8 the lowest of byte 1.
//!
//! ```text
//! little-endian (Intel), start bit 12, 8 bits: begins with its lowest bit and goes on to higher numbers
//! big-endian (Motorola), start bit 11, 8 bits: begins with its highest bit and goes on to lower numbers, then at bit 7 of the next byte
//!
//!           byte 1                     byte 2
//! bit       15 14 13 12 11 10  9  8    23 22 21 20 19 18 17 16
//! little     3  2  1  0                            7  6  5  4
//! big                    7  6  5  4     3  2  1  0
//! ```

use crate::sys::can::LONGEST;
use crate::task::Reason;

/// Up to this many bits, a number is exact in floating point.
pub(super) const WIDEST: u32 = 53;

/// The byte order of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    /// The byte with the lowest bits comes first: Intel.
    Little,
    /// The byte with the highest bits comes first: Motorola.
    Big,
}

/// The part of a signal in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    byte: usize,
    low: u32,   // its lowest bit in the byte
    width: u32, // in bits
    shift: u32, // its lowest bit in the signal's number
}

impl Piece {
    fn mask(self) -> u8 {
        u8::try_from((1_u32 << self.width) - 1).unwrap_or(u8::MAX)
    }
}

/// A number in a frame, ready to read and write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Signal {
    pieces: Vec<Piece>,
    length: u32,
    signed: bool,
    scale: f64,
    offset: f64,
    codes: Vec<([i64; 2], Reason)>, // raw numbers, from the first to the last, that are no value
}

/// The position and meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) start: usize,
    pub(super) length: u32,
    pub(super) order: ByteOrder,
    pub(super) signed: bool,
    pub(super) scale: f64,
    pub(super) offset: f64,
}

impl Signal {
    /// A signal of 1 to [`WIDEST`] bits. `None`: it reaches past the last byte that a frame can have.
    pub(super) fn new(layout: Layout) -> Option<Self> {
        let Layout { start, length, order, signed, scale, offset } = layout;
        let mut pieces = Vec::new();
        let (mut byte, mut bit, mut left) = (start / 8, u32::try_from(start % 8).unwrap_or(0), length);
        while left > 0 {
            let piece = match order {
                ByteOrder::Little => {
                    let width = left.min(8 - bit);
                    Piece { byte, low: bit, width, shift: length - left }
                }
                ByteOrder::Big => {
                    let width = left.min(bit + 1);
                    Piece { byte, low: bit + 1 - width, width, shift: left - width }
                }
            };
            pieces.push(piece);
            (left, byte) = (left - piece.width, byte + 1);
            bit = if order == ByteOrder::Little { 0 } else { 7 };
        }
        (byte <= LONGEST).then_some(Self { pieces, length, signed, scale, offset, codes: Vec::new() })
    }

    /// How many bytes a frame must have to hold it.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.byte + 1).max().unwrap_or(0)
    }

    /// Its bits, as a mask for each byte.
    pub(super) fn bits(&self) -> [u8; LONGEST] {
        let mut bits = [0; LONGEST];
        for piece in &self.pieces {
            bits[piece.byte] |= piece.mask() << piece.low;
        }
        bits
    }

    /// The smallest and the largest value that its bits can hold, smaller one first.
    pub(super) fn range(&self) -> [f64; 2] {
        let [low, high] = self.raw_range().map(|raw| self.value_of(raw));
        [low.min(high), low.max(high)]
    }

    /// From now on, raw numbers in this range are bad for this reason, unless an earlier range has them.
    pub(super) fn mark(&mut self, range: [i64; 2], reason: Reason) {
        self.codes.push((range, reason));
    }

    /// Marks the highest raw numbers as SAE J1939 does. `false`: that does not define them for this signal.
    pub(super) fn mark_j1939(&mut self) -> bool {
        if self.signed || !(2..=32).contains(&self.length) {
            return false;
        }
        // By the top byte; a narrower signal has one number for each.
        let (top, below) = (self.length.min(8), self.length.saturating_sub(8));
        for (code, reason) in [((1 << top) - 1, Reason::NotAvailable), ((1 << top) - 2, Reason::Failed)] {
            self.mark([code << below, ((code + 1) << below) - 1], reason);
        }
        true
    }

    /// The smallest and the largest raw number.
    pub(super) fn raw_range(&self) -> [i64; 2] {
        match self.signed {
            true => [-(1 << (self.length - 1)), (1 << (self.length - 1)) - 1],
            false => [0, (1 << self.length) - 1],
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no more than 53 bits")]
    fn value_of(&self, raw: i64) -> f64 {
        raw as f64 * self.scale + self.offset
    }

    /// Its value in these data, or why it has none; of data that are too short: [`Reason::Failed`].
    pub(super) fn read(&self, data: &[u8]) -> Result<f64, Reason> {
        let mut raw = 0_u64;
        for piece in &self.pieces {
            raw |= u64::from(data.get(piece.byte).ok_or(Reason::Failed)? >> piece.low & piece.mask()) << piece.shift;
        }
        let unused = 64 - self.length;
        let raw = (raw << unused).cast_signed();
        let raw = if self.signed { raw >> unused } else { (raw.cast_unsigned() >> unused).cast_signed() };
        match self.codes.iter().find(|([first, last], _)| (*first..=*last).contains(&raw)) {
            Some((_, reason)) => Err(*reason),
            None => Ok(self.value_of(raw)),
        }
    }

    /// Whether its bits can hold this value, rounded to the nearest.
    pub(super) fn fits(&self, value: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "no more than 53 bits")]
        let [low, high] = self.raw_range().map(|raw| raw as f64);
        (low..=high).contains(&((value - self.offset) / self.scale).round())
    }

    /// The raw number of a value, rounded to the nearest and clamped to what its bits can hold.
    pub(super) fn raw(&self, value: f64) -> i64 {
        let [low, high] = self.raw_range();
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
        let raw = ((value - self.offset) / self.scale).round() as i64;
        raw.clamp(low, high)
    }

    /// Writes a raw number into data that are long enough; all other bits stay unchanged.
    pub(super) fn write(&self, raw: i64, data: &mut [u8; LONGEST]) {
        for piece in &self.pieces {
            let bits = u8::try_from(raw.cast_unsigned() >> piece.shift & u64::from(piece.mask())).unwrap_or(0);
            let byte = &mut data[piece.byte];
            *byte = *byte & !(piece.mask() << piece.low) | bits << piece.low;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(start: usize, length: u32, order: ByteOrder, signed: bool) -> Layout {
        Layout { start, length, order, signed, scale: 1.0, offset: 0.0 }
    }

    fn signal(start: usize, length: u32, order: ByteOrder, signed: bool) -> Signal {
        Signal::new(layout(start, length, order, signed)).unwrap()
    }

    use ByteOrder::{Big, Little};

    #[test]
    fn bits_are_where_a_dbc_file_says() {
        let data = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0];
        for (start, length, order, signed, wanted) in [
            // Whole bytes.
            (0, 8, Little, false, 0x12),
            (7, 8, Big, false, 0x12),
            (0, 16, Little, false, 0x3412),
            (7, 16, Big, false, 0x1234),
            (16, 32, Little, false, 0xbc9a_7856),
            (23, 32, Big, false, 0x5678_9abc),
            (32, 16, Little, true, i64::from(0xbc9a_u16.cast_signed())),
            (39, 16, Big, true, i64::from(0x9abc_u16.cast_signed())),
            // As in the drawing: bits 12 to 19; bits 11 to 8 and 23 to 20.
            (12, 8, Little, false, 0x63),
            (11, 8, Big, false, 0x45),
            // Single bits, and the sign of narrow signals.
            (4, 1, Little, false, 1),
            (4, 1, Big, false, 1),
            (4, 1, Little, true, -1),
            (63, 4, Big, true, -1),
            (60, 4, Little, true, -1),
            (40, 4, Little, true, -4),
            // The widest, starting within a byte.
            (3, 53, Little, false, (0xf0de_bc9a_7856_3412_u64 >> 3 & ((1 << 53) - 1)).cast_signed()),
            (4, 53, Big, false, (0x1234_5678_9abc_def0_u64 >> 8 & ((1 << 53) - 1)).cast_signed()),
        ] {
            #[expect(clippy::cast_precision_loss, reason = "no more than 53 bits")]
            let wanted = Ok(wanted as f64);
            assert_eq!(signal(start, length, order, signed).read(&data), wanted, "{start} {length} {order:?}");
        }
    }

    /// Results of cantools 45.1, a reader of DBC files, for these data.
    #[test]
    fn another_reader_finds_the_same() {
        let data = [0x8f, 0x1e, 0xa5, 0x5a, 0x3c, 0xc3, 0xf1, 0x07];
        let told: [(usize, u32, ByteOrder, bool, i64); 24] = [
            (24, 12, Little, false, 3162),
            (23, 7, Little, true, 53),
            (11, 35, Big, false, 31451848289),
            (20, 40, Big, true, 183910145928),
            (7, 3, Big, true, -4),
            (3, 50, Big, true, -61944861085444),
            (25, 34, Little, true, -119431635),
            (63, 1, Little, false, 0),
            (35, 27, Little, false, 16660583),
            (32, 21, Big, false, 802576),
            (3, 5, Little, false, 17),
            (51, 7, Big, false, 8),
            (8, 2, Little, false, 2),
            (27, 14, Big, false, 10483),
            (43, 6, Big, true, 15),
            (17, 16, Big, false, 22159),
            (7, 30, Big, false, 600287574),
            (24, 29, Big, false, 63717136),
            (0, 18, Big, false, 146762),
            (2, 14, Little, true, 1955),
            (5, 10, Big, true, 241),
            (1, 50, Little, false, 248069481467719),
            (49, 5, Little, true, -8),
            (31, 1, Big, false, 0),
        ];
        for (start, length, order, signed, wanted) in told {
            #[expect(clippy::cast_precision_loss, reason = "no more than 53 bits")]
            let wanted = Ok(wanted as f64);
            assert_eq!(signal(start, length, order, signed).read(&data), wanted, "{start} {length} {order:?}");
        }
    }

    #[test]
    fn scale_and_offset_are_those_of_a_dbc_file() {
        let speed = Signal::new(Layout { scale: 0.1, offset: -40.0, ..layout(0, 16, Little, true) }).unwrap();
        assert_eq!(speed.read(&[0xe8, 0x03]), Ok(60.0));
        assert_eq!(speed.raw(60.0), 1_000);
        assert_eq!([speed.raw(60.049), speed.raw(60.051), speed.raw(-40.06)], [1_000, 1_001, -1], "to the nearest");
        assert_eq!([speed.raw(1e9), speed.raw(-1e300)], [32_767, -32_768], "within what its bits can say");
        assert_eq!(signal(0, 8, Little, false).range(), [0.0, 255.0]);
        let falling = Signal::new(Layout { scale: -2.0, offset: 1.0, ..layout(0, 8, Little, true) }).unwrap();
        assert_eq!(falling.range(), [-253.0, 257.0]);
    }

    #[test]
    fn some_raw_numbers_are_no_value() {
        use Reason::{Failed, NotAvailable};
        let mut speed = Signal::new(Layout { scale: 0.1, ..layout(0, 8, Little, true) }).unwrap();
        speed.mark([-128, -128], NotAvailable);
        speed.mark([-128, -127], Failed);
        let read = [0x80, 0x81, 0x82].map(|byte| speed.read(&[byte]));
        assert_eq!(read, [Err(NotAvailable), Err(Failed), Ok(-126.0 * 0.1)], "the raw number counts");
    }

    #[test]
    fn the_highest_numbers_of_j1939_are_no_value() {
        for (length, highest, error, none) in [
            (2, 1, 2..=2, 3..=3),
            (4, 13, 14..=14, 15..=15),
            (5, 29, 30..=30, 31..=31),
            (8, 0xfd, 0xfe..=0xfe, 0xff..=0xff),
            (10, 0x3f7, 0x3f8..=0x3fb, 0x3fc..=0x3ff),
            (16, 0xfdff, 0xfe00..=0xfeff, 0xff00..=0xffff),
            (32, 0xfdff_ffff, 0xfe00_0000..=0xfeff_ffff, 0xff00_0000..=0xffff_ffff_u64),
        ] {
            let mut signal = signal(0, length, Little, false);
            assert!(signal.mark_j1939());
            let read = |raw: u64| signal.read(&raw.to_le_bytes());
            assert!(read(0).is_ok() && read(highest).is_ok(), "{length} bits");
            assert!(
                [*error.start(), *error.end()].iter().all(|raw| read(*raw) == Err(Reason::Failed)),
                "{length} bits"
            );
            let none = [*none.start(), *none.end()];
            assert!(none.iter().all(|raw| read(*raw) == Err(Reason::NotAvailable)), "{length} bits");
        }
        let marks = |length, signed| signal(0, length, Little, signed).mark_j1939();
        assert!(!marks(1, false) && !marks(33, false) && !marks(8, true));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let fits = |start, length, order| Signal::new(layout(start, length, order, false)).map(|signal| signal.bytes());
        assert_eq!(fits(504, 8, Little), Some(64));
        assert_eq!(fits(505, 8, Little), None);
        assert_eq!(fits(511, 8, Big), Some(64));
        assert_eq!(fits(510, 8, Big), None);
        assert_eq!(fits(12, 8, Little), Some(3));
        assert_eq!(signal(8, 8, Little, false).read(&[1]), Err(Reason::Failed), "a frame that is too short");
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_changes() {
        let mut seed = 1_u64;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(seed >> 33).unwrap() % below
        };
        for _ in 0..20_000 {
            let order = if random(2) == 0 { Little } else { Big };
            let (start, length) = (usize::try_from(random(512)).unwrap(), 1 + random(53));
            let Some(signal) = Signal::new(layout(start, length, order, random(2) == 0)) else { continue };
            let bits = signal.bits();
            assert_eq!(bits.iter().map(|byte| byte.count_ones()).sum::<u32>(), length);
            let mut data = [0; LONGEST].map(|_: u8| u8::try_from(random(256)).unwrap());
            let before = data;
            let [low, high] = signal.raw_range();
            let raw = low
                + ((u64::from(random(1 << 31)) << 31 | u64::from(random(1 << 31))) % (high - low + 1).unsigned_abs())
                    .cast_signed();
            signal.write(raw, &mut data);
            #[expect(clippy::cast_precision_loss, reason = "no more than 53 bits")]
            let wanted = raw as f64;
            assert_eq!((signal.read(&data), signal.raw(wanted)), (Ok(wanted), raw), "{start} {length} {order:?}");
            for at in 0..LONGEST {
                assert_eq!(before[at] & !bits[at], data[at] & !bits[at], "byte {at}");
            }
        }
    }
}
