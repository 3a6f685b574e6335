//! Whether a file is a library for this machine. The dynamic linker passes over one for another machine, and says that there is no file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a file begins with: a magic number, the width of addresses and the byte order, and behind others the machine.
type Head = [u8; 20];
const MAGIC: [u8; 4] = *b"\x7fELF";

/// Machines that one may meet, by their numbers.
const MACHINES: [(u16, &str); 6] =
    [(3, "x86"), (40, "Arm"), (62, "x86-64"), (183, "AArch64"), (243, "RISC-V"), (258, "LoongArch")];

/// Refuses a file that is no library, or one for another machine than that of this program.
pub(super) fn refuse_other(path: &Path) -> Result<(), String> {
    let own = head(Path::new("/proc/self/exe"));
    let Some(found) = head(path).filter(|head| head[..4] == MAGIC) else {
        return Err("it is no shared library: it does not begin as one (ELF)".into());
    };
    match own {
        Some(own) if machine(&own) != machine(&found) => {
            Err(format!("it is a library for another machine, {}; this is {}", named(&found), named(&own)))
        }
        _ => refuse_cut(path),
    }
}

/// Refuses a file that ends before what is to be loaded of it: the linker maps it all the same, and who touches what is not there is
/// ended by SIGBUS.
fn refuse_cut(path: &Path) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = File::open(path).map_err(unreadable)?;
    let has = file.metadata().map_err(unreadable)?.len();
    match loaded_until(&file) {
        Some(until) if until <= has => Ok(()),
        _ => Err(format!(
            "it is not whole: its {has} bytes end before what is to be loaded of it; was it copied to its end?"
        )),
    }
}

/// Where in the file the last of what is loaded ends; `None`: the file ends before it says so.
fn loaded_until(file: &File) -> Option<u64> {
    const LOAD: u32 = 1;
    let bytes = |at: u64, count: usize| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes[..count], at).ok()?;
        // Of this machine, as is the order of the bytes.
        let shift = if cfg!(target_endian = "big") { 8 * (8 - count) } else { 0 };
        Some(u64::from_ne_bytes(bytes) >> shift)
    };
    let mut class = [0];
    file.read_exact_at(&mut class, 4).ok()?;
    let is_wide = class[0] == 2;
    let word = if is_wide { 8 } else { 4 };
    // Where the header has place, size and number of the segments, and these their place in the file and their length there.
    let (at, size, count, place, length) = if is_wide { (32, 54, 56, 8, 32) } else { (28, 42, 44, 4, 16) };
    let (first, size, count) = (bytes(at, word)?, bytes(size, 2)?, bytes(count, 2)?);
    let mut until = 0;
    for n in 0..count {
        let segment = first.checked_add(n * size)?;
        if bytes(segment, 4)? == u64::from(LOAD) {
            let place = bytes(segment.checked_add(place)?, word)?;
            until = until.max(place.checked_add(bytes(segment.checked_add(length)?, word)?)?);
        }
    }
    Some(until)
}

fn head(path: &Path) -> Option<Head> {
    let mut head = Head::default();
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    Some(head)
}

fn machine(head: &Head) -> ([u8; 2], [u8; 2]) {
    ([head[4], head[5]], [head[18], head[19]])
}

/// `x86-64, 64 bits`
fn named(head: &Head) -> String {
    let bytes = [head[18], head[19]];
    let number = if head[5] == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    let bits = if head[4] == 1 { 32 } else { 64 };
    match MACHINES.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => format!("{name} with {bits} bits"),
        None => format!("number {number} with {bits} bits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_for_this_machine_pass() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.so");
        let own = Path::new("/proc/self/exe");
        assert_eq!(refuse_other(own), Ok(()));
        let file = File::open(own).unwrap();
        for length in [64, 3_000] {
            let mut start = vec![0; length];
            file.read_exact_at(&mut start, 0).unwrap();
            std::fs::write(&path, start).unwrap();
            let refused = refuse_other(&path).unwrap_err();
            assert!(refused.starts_with(&format!("it is not whole: its {length} bytes end before")), "{refused}");
        }
        let mut other = head(own).unwrap();
        other[18..].copy_from_slice(&[8, 0]);
        std::fs::write(&path, other).unwrap();
        let refused = refuse_other(&path).unwrap_err();
        assert!(refused.starts_with("it is a library for another machine, number 8 with "), "{refused}");
        for text in ["", "no library", "\x7fELF"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(refuse_other(&path), Err("it is no shared library: it does not begin as one (ELF)".into()));
        }
    }
}
