//! The brightness of a frame: the mean of its luma, unconverted. Arithmetic only.

use crate::sys::video::PixelFormat;

/// The approximate number of luma samples that are read, however large the frame is.
const SAMPLES: usize = 16 * 1024;

/// The least room for a compressed frame, however small it is: two bytes per pixel of 1920x1080.
const LEAST_COMPRESSED: u32 = 2 * 1_920 * 1_080;

/// Which byte of a pixel in the first plane is luma, and the number of bytes per pixel.
fn luma_byte(four_cc: [u8; 4]) -> Option<(usize, usize)> {
    match &four_cc {
        b"YUYV" | b"YVYU" => Some((0, 2)),
        b"UYVY" | b"VYUY" => Some((1, 2)),
        b"GREY" | b"NV12" | b"NV21" | b"NV16" | b"NV61" | b"YU12" | b"YV12" | b"422P" => Some((0, 1)),
        _ => None,
    }
}

/// The mean luma of a frame, 0 to 255; `NaN` if the format is unknown or no row is complete. In a large frame only evenly spaced rows are
/// read: about 16,000 samples or one row, which takes a few microseconds.
#[expect(clippy::cast_precision_loss, reason = "sums of some thousand bytes")]
pub(super) fn brightness(format: &PixelFormat, bytes: &[u8]) -> f64 {
    let Some((byte, pixel)) = luma_byte(format.four_cc) else {
        return f64::NAN;
    };
    let [width, height, stride] = [format.width, format.height, format.stride].map(|n| usize::try_from(n).unwrap_or(0));
    let row = width.saturating_mul(pixel);
    let stride = stride.max(row).max(1);
    let every = width.saturating_mul(height).div_ceil(SAMPLES).max(1);
    let rows = bytes.chunks(stride).take(height).step_by(every).filter_map(|line| line.get(..row));
    let sum_of = |row: &[u8]| -> u32 {
        match pixel {
            1 => row.iter().map(|&luma| u32::from(luma)).sum(),
            _ => row.as_chunks::<2>().0.iter().map(|pair| u32::from(pair[byte])).sum(),
        }
    };
    let (sum, samples) =
        rows.fold((0_u64, 0_usize), |(sum, samples), row| (sum + u64::from(sum_of(row)), samples + width));
    sum as f64 / samples as f64 // no sample: NaN
}

/// Bytes from one row of the first plane to the next, and bytes of a whole frame, if the driver adds no padding. An unknown format counts
/// as compressed: a stride of 0, and room for the size that drivers report. Some drivers report the same size for a small frame as for the
/// largest.
pub(super) fn layout(four_cc: [u8; 4], width: u32, height: u32) -> (u32, u32) {
    let pixels = width.saturating_mul(height);
    match &four_cc {
        b"YUYV" | b"YVYU" | b"UYVY" | b"VYUY" => (width.saturating_mul(2), pixels.saturating_mul(2)),
        b"GREY" => (width, pixels),
        b"NV12" | b"NV21" | b"YU12" | b"YV12" => (width, pixels.saturating_add(pixels / 2)),
        b"NV16" | b"NV61" | b"422P" => (width, pixels.saturating_mul(2)),
        b"RGB3" | b"BGR3" => (width.saturating_mul(3), pixels.saturating_mul(3)),
        _ => (0, pixels.saturating_mul(4).max(LEAST_COMPRESSED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(four_cc: &[u8; 4], width: u32, height: u32, stride: u32) -> PixelFormat {
        PixelFormat { four_cc: *four_cc, width, height, stride, largest: 0, alternating: false }
    }

    #[test]
    fn luma_is_found_in_each_format() {
        let packed = [10, 200, 30, 200, 50, 200, 70, 200];
        assert_eq!(brightness(&format(b"YUYV", 2, 2, 4), &packed), 40.0);
        assert_eq!(brightness(&format(b"UYVY", 2, 2, 4), &packed), 200.0);
        let planes = [0, 100, 200, 100, 7, 7];
        for four_cc in [b"NV12", b"YU12", b"GREY"] {
            assert_eq!(brightness(&format(four_cc, 2, 2, 2), &planes), 100.0);
        }
        assert!(brightness(&format(b"MJPG", 2, 2, 0), &planes).is_nan());
        assert!(brightness(&format(b"RGB3", 1, 2, 3), &planes).is_nan());
    }

    #[test]
    fn what_fills_up_a_row_does_not_count_and_what_is_missing_neither() {
        let padded = [8, 8, 255, 255, 16, 16, 255, 255];
        assert_eq!(brightness(&format(b"GREY", 2, 2, 4), &padded), 12.0);
        assert_eq!(brightness(&format(b"GREY", 2, 2, 4), &padded[..6]), 12.0, "the last row need not be filled up");
        assert_eq!(brightness(&format(b"GREY", 2, 2, 4), &padded[..5]), 8.0);
        assert!(brightness(&format(b"GREY", 2, 2, 4), &[]).is_nan());
        assert!(brightness(&format(b"GREY", 0, 0, 0), &padded).is_nan());
        // A driver that reports too short a stride is not believed.
        assert_eq!(brightness(&format(b"GREY", 4, 2, 1), &[1, 1, 1, 1, 3, 3, 3, 3]), 2.0);
    }

    #[test]
    fn of_a_large_frame_some_rows_are_read() {
        // A gradient from top to bottom: a few rows have the same mean.
        let (width, height) = (1_920, 1_080);
        let bytes: Vec<u8> =
            (0..height).flat_map(|row| vec![u8::try_from(row * 256 / height).unwrap(); width]).collect();
        let format = format(b"GREY", 1_920, 1_080, 1_920);
        let (seen, whole) = (brightness(&format, &bytes), 127.5);
        assert!((seen - whole).abs() < 20.0, "{seen}");
        let every = (width * height).div_ceil(SAMPLES);
        assert!(width * height.div_ceil(every) <= SAMPLES + width);
    }

    #[test]
    fn of_the_largest_frame_too() {
        // More pixels than 32 bits can count: only the first of these rows is read.
        let row = 1 << 16;
        let bytes = [vec![9; row], vec![200; row]].concat();
        assert_eq!(brightness(&format(b"GREY", 1 << 16, 1 << 16, 1 << 16), &bytes), 9.0);
    }

    #[test]
    fn layouts() {
        assert_eq!(layout(*b"YUYV", 640, 480), (1_280, 614_400));
        assert_eq!(layout(*b"NV12", 640, 480), (640, 460_800));
        assert_eq!(layout(*b"MJPG", 640, 480), (0, 4_147_200));
        assert_eq!(layout(*b"MJPG", 1_920, 1_080), (0, 8_294_400));
        assert_eq!(layout(*b"GREY", u32::MAX, 2), (u32::MAX, u32::MAX));
    }
}
