//! Checks whether a file begins like a recording by hertzd. Files of other programs are neither put aside nor deleted. May block.

use crate::config::RecordFormat;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How many bytes at the beginning are examined.
const LOOK: usize = 64;

/// Alternative beginnings of a recording, each a list of offsets and the bytes expected there.
type Ways = &'static [&'static [(usize, &'static [u8])]];

const CSV: Ways = &[&[(0, b"tick,")]];

/// The form of the header, with the data right after the format chunk. WAV does not record which program wrote it.
const WAV: Ways = &[
    &[(0, b"RIFF"), (8, b"WAVEfmt \x10\0\0\0"), (36, b"data")],
    &[(0, b"RIFF"), (8, b"WAVEfmt \x28\0\0\0"), (60, b"data")],
];

/// The header record comes first, without a profile, and names the library.
const MCAP: Ways = &[&[(0, b"\x89MCAP0\r\n\x01"), (17, &[0; 4]), (25, b"hertzd ")]];

/// Whether hertzd may have written the file, even if it was cut off. After a power cut it may contain zeros instead.
///
/// # Errors
/// The system's reason.
pub(super) fn is_own(file: &File, format: RecordFormat) -> io::Result<bool> {
    let (mut found, mut length) = ([0; LOOK], 0);
    loop {
        match file.read_at(&mut found[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let found = &found[..length];
    let ways = match format {
        RecordFormat::Csv => CSV,
        RecordFormat::Wav => WAV,
        RecordFormat::Mcap => MCAP,
    };
    let has = |(at, bytes): &(usize, &[u8])| found.iter().skip(*at).zip(*bytes).all(|(found, wanted)| found == wanted);
    Ok(found.iter().all(|byte| *byte == 0) || ways.iter().any(|way| way.iter().all(has)))
}

/// Refuses to record over another program's file, which would be put aside as if it were a finished file of the recording. A CSV file is
/// not checked here: `last_line_end` checks its header.
///
/// # Errors
/// The file is another program's; or the system's reason.
pub(super) fn refuse_others(file: &File, format: RecordFormat) -> io::Result<()> {
    if format == RecordFormat::Csv || is_own(file, format)? {
        return Ok(());
    }
    let text = "it exists, and hertzd has not written it; move it away, or record to another file";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::testing::{content, in_folder};
    use std::fs;

    /// An MCAP file as written by another library.
    fn strange_mcap() -> Vec<u8> {
        let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
        let header = [text("ros2"), text("rosbag2_cpp")].concat();
        [b"\x89MCAP0\r\n\x01", &(header.len() as u64).to_le_bytes()[..], &header].concat()
    }

    #[cfg(feature = "mcap")]
    #[test]
    fn a_file_of_another_program_is_refused_at_the_start_and_stays_as_it_is() {
        use crate::recording::tests::testing::{column, limits};
        use crate::recording::{Recordings, look};
        let content = content(vec![column("v", "")], None);
        for strange in [strange_mcap(), b"years of work, and more of it".to_vec(), b"RIFF....WAVEfmt ".to_vec()] {
            let (folder, path) = in_folder("x.mcap");
            fs::write(&path, &strange).unwrap();
            let limits = limits(&path);
            for refused in [
                Recordings::default().open(&limits, &content).map(|_| ()).unwrap_err(),
                look(&limits, Some(&content)).map(|_| ()).unwrap_err(),
                look(&limits, None).map(|_| ()).unwrap_err(),
            ] {
                assert!(refused.to_string().contains("hertzd has not written it"), "{refused}");
            }
            assert_eq!(fs::read(&path).unwrap(), strange);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[cfg(feature = "mcap")]
    #[test]
    fn what_hertzd_wrote_is_its_own_also_cut_off() {
        use crate::recording::tests::testing::{begun, column, limits};
        let (_folder, path) = in_folder("x.mcap");
        let recording = begun(&limits(&path), &content(vec![column("v", "")], None));
        recording.finish().unwrap();
        drop(recording);
        let whole = fs::read(&path).unwrap();
        assert!(whole.len() > LOOK);
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(is_own(&File::open(&path).unwrap(), RecordFormat::Mcap).unwrap(), "{length} bytes");
        }
        fs::write(&path, [0; 4_096]).unwrap();
        assert!(is_own(&File::open(&path).unwrap(), RecordFormat::Mcap).unwrap());
    }

    #[test]
    fn a_wav_is_told_by_the_form_of_its_header() {
        use crate::channels::{AudioFormat, Format, SampleFormat};
        let (_folder, path) = in_folder("x.wav");
        let own = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            is_own(&File::open(&path).unwrap(), RecordFormat::Wav).unwrap()
        };
        for (sample, channels) in
            [(SampleFormat::S16, 1), (SampleFormat::S24, 2), (SampleFormat::S32, 3), (SampleFormat::F32, 8)]
        {
            let format = Format::Audio(AudioFormat { rate: 48_000, channels, sample });
            let layout = crate::recording::wav::layout(&content(Vec::new(), Some(format))).unwrap();
            assert!(own(&layout.header.bytes), "{channels} channels");
            assert!(own(&[&layout.header.bytes[..], b"samples"].concat()), "{channels} channels");
        }
        let mut tagged = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0................LIST....INFO".to_vec();
        assert!(!own(&tagged), "ffmpeg's");
        tagged[8..12].copy_from_slice(b"AVI ");
        assert!(!own(&tagged) && !own(&strange_mcap()) && !own(b"years of work"));
    }
}
