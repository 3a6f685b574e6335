//! Sound level: root mean square and peak of the samples of one tick, relative to full scale. Pure arithmetic.

use crate::channels::SampleFormat;

/// The level accumulated so far, over all channels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Level {
    samples: u64,
    squares: f64, // sum of squares; full scale is 1
    peak: f64,    // largest distance from zero; full scale is 1
}

impl Level {
    /// Adds these samples. Bytes after the last whole sample are ignored.
    pub(super) fn add(&mut self, format: SampleFormat, bytes: &[u8]) {
        match format {
            SampleFormat::S16 => self.integers(bytes.as_chunks().0, |bytes| i16::from_le_bytes(bytes).into(), 16),
            // The highest byte is not part of the sample, and might not continue its sign.
            SampleFormat::S24 => self.integers(bytes.as_chunks().0, |bytes| i32::from_le_bytes(bytes) << 8 >> 8, 24),
            SampleFormat::S32 => self.integers(bytes.as_chunks().0, i32::from_le_bytes, 32),
            SampleFormat::F32 => {
                self.numbers(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes).into()))
            }
        }
    }

    /// Root mean square; full scale is 1: 0.707 for the loudest sine. `None` without samples, `NaN` if one is not a number.
    #[expect(clippy::cast_precision_loss, reason = "2^53 samples are more than any tick has")]
    pub(super) fn rms(&self) -> Option<f64> {
        (self.samples > 0).then(|| (self.squares / self.samples as f64).sqrt())
    }

    /// The largest distance from zero; full scale is 1. `None` without samples, `NaN` if one is not a number.
    pub(super) fn peak(&self) -> Option<f64> {
        // The larger of two numbers leaves out what is none; their sum does not.
        (self.samples > 0).then_some(if self.squares.is_nan() { f64::NAN } else { self.peak })
    }

    fn integers<const N: usize>(&mut self, samples: &[[u8; N]], read: impl Fn([u8; N]) -> i32, bits: i32) {
        let scale = f64::powi(2.0, 1 - bits);
        self.numbers(samples.iter().map(|&bytes| f64::from(read(bytes)) * scale));
    }

    fn numbers(&mut self, samples: impl Iterator<Item = f64>) {
        for sample in samples {
            self.samples += 1;
            self.squares += sample * sample;
            self.peak = self.peak.max(sample.abs());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(format: SampleFormat, bytes: &[u8]) -> (f64, f64) {
        let mut level = Level::default();
        level.add(format, bytes);
        (level.rms().unwrap(), level.peak().unwrap())
    }

    #[test]
    fn every_format_has_the_same_full_scale() {
        let s16: Vec<_> = [-0x8000, 0x4000, 0].iter().flat_map(|&sample: &i16| sample.to_le_bytes()).collect();
        let s32: Vec<_> = [i32::MIN, 1 << 30, 0].iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let s24 = [0, 0, 0x80, 0, 0, 0, 0x40, 0xff, 0, 0, 0, 0x7f]; // with arbitrary highest bytes
        let f32: Vec<_> = [-1.0_f32, 0.5, 0.0].iter().flat_map(|sample| sample.to_le_bytes()).collect();
        for (format, bytes) in [
            (SampleFormat::S16, &s16[..]),
            (SampleFormat::S24, &s24),
            (SampleFormat::S32, &s32),
            (SampleFormat::F32, &f32),
        ] {
            assert_eq!(level(format, bytes), ((1.25_f64 / 3.0).sqrt(), 1.0), "{format:?}");
        }
    }

    #[test]
    fn silence_is_zero_and_nothing_is_no_number() {
        assert_eq!(level(SampleFormat::S16, &[0; 8]), (0.0, 0.0));
        let mut level = Level::default();
        level.add(SampleFormat::S16, &[]);
        assert_eq!((level.rms(), level.peak()), (None, None));
    }

    #[test]
    fn a_sample_that_is_no_number_leaves_no_level() {
        for samples in [[0.5, f32::NAN, 0.25], [f32::INFINITY, f32::NEG_INFINITY, f32::NAN]] {
            let bytes: Vec<_> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            let (rms, peak) = level(SampleFormat::F32, &bytes);
            assert!(rms.is_nan() && peak.is_nan(), "{samples:?}");
        }
        let (rms, peak) = level(SampleFormat::F32, &f32::INFINITY.to_le_bytes());
        assert!(rms.is_infinite() && peak.is_infinite());
    }
}
