//! Whether a file is a library for this machine. The dynamic linker passes over one for another machine, and says that there is no file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a file begins with: a magic number, the width of addresses and the byte order, and behind others the machine and, with 32 bits at
/// the end of this, the machine's flags.
type Head = [u8; 40];
const MAGIC: [u8; 4] = *b"\x7fELF";

/// Machines that one may meet, by their numbers.
const MACHINES: [(u16, &str); 6] =
    [(3, "x86"), (ARM, "Arm"), (62, "x86-64"), (183, "AArch64"), (243, "RISC-V"), (258, "LoongArch")];

/// The number of 32-bit ARM. Its flags say how floating point is passed to functions; a library that has none of these passes none, and
/// goes with both.
const ARM: u16 = 40;
const SOFT_FLOAT: u32 = 0x200;
const HARD_FLOAT: u32 = 0x400;

/// Refuses a file that is no library, or one for another machine than that of this program, or another way to call functions.
pub(super) fn refuse_other(path: &Path) -> Result<(), String> {
    let own = head(Path::new("/proc/self/exe"));
    let Some(found) = head(path).filter(|head| head[..4] == MAGIC) else {
        return Err("it is no shared library: it does not begin as one (ELF)".into());
    };
    match own.and_then(|own| differs(&own, &found)) {
        Some(difference) => Err(difference),
        None => refuse_cut(path),
    }
}

/// What makes a library unfit for this program, if anything does.
fn differs(own: &Head, found: &Head) -> Option<String> {
    if machine(own) != machine(found) {
        return Some(format!("it is a library for another machine, {}; this is {}", named(found), named(own)));
    }
    match (floats(own)?, floats(found)?) {
        (HARD_FLOAT, SOFT_FLOAT) => Some(
            "it was built for soft-float ARM (armel), and this program for hard-float (armhf): build it with \
             arm-linux-gnueabihf-gcc, or with -mfloat-abi=hard"
                .into(),
        ),
        (SOFT_FLOAT, HARD_FLOAT) => Some(
            "it was built for hard-float ARM (armhf), and this program for soft-float (armel): build it with \
             arm-linux-gnueabi-gcc, or with -mfloat-abi=softfp"
                .into(),
        ),
        _ => None,
    }
}

/// How 32-bit ARM passes floating point; `None`: the file does not say, or is for another machine.
fn floats(head: &Head) -> Option<u32> {
    let bytes = [head[36], head[37], head[38], head[39]];
    let flags = if is_big_endian(head) { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    let is_arm = number(head) == ARM && head[4] == 1;
    [SOFT_FLOAT, HARD_FLOAT].into_iter().find(|kind| is_arm && flags & kind != 0)
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
    let mut head = [0; size_of::<Head>()];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    Some(head)
}

fn machine(head: &Head) -> ([u8; 2], [u8; 2]) {
    ([head[4], head[5]], [head[18], head[19]])
}

fn is_big_endian(head: &Head) -> bool {
    head[5] == 2
}

fn number(head: &Head) -> u16 {
    let bytes = [head[18], head[19]];
    if is_big_endian(head) { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

/// `x86-64, 64 bits`
fn named(head: &Head) -> String {
    let number = number(head);
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
        other[18..20].copy_from_slice(&[8, 0]);
        std::fs::write(&path, other).unwrap();
        let refused = refuse_other(&path).unwrap_err();
        assert!(refused.starts_with("it is a library for another machine, number 8 with "), "{refused}");
        for text in ["", "no library", "\x7fELF"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(refuse_other(&path), Err("it is no shared library: it does not begin as one (ELF)".into()));
        }
    }

    #[test]
    fn a_library_that_passes_floats_otherwise_is_refused() {
        // As `readelf -h` has them of libraries by Debian's compilers for armhf and armel.
        let arm = |flags: u32| {
            let mut head = [0; size_of::<Head>()];
            head[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
            head[18] = 40;
            head[36..].copy_from_slice(&flags.to_le_bytes());
            head
        };
        let (hard, soft, neither) = (arm(0x0500_0400), arm(0x0500_0200), arm(0x0500_0000));
        let refused = differs(&hard, &soft).unwrap();
        assert!(
            refused.starts_with("it was built for soft-float ARM (armel), and this program for hard-float"),
            "{refused}"
        );
        let refused = differs(&soft, &hard).unwrap();
        assert!(
            refused.starts_with("it was built for hard-float ARM (armhf), and this program for soft-float"),
            "{refused}"
        );
        for (own, found) in [(hard, hard), (soft, soft), (hard, neither), (soft, neither), (neither, soft)] {
            assert_eq!(differs(&own, &found), None);
        }
        let mut other = soft;
        other[18] = 3;
        assert!(differs(&hard, &other).unwrap().starts_with("it is a library for another machine, x86 with 32 bits"));
        let mut x86 = hard;
        x86[18] = 3;
        assert_eq!(differs(&x86, &other), None, "these flags mean something else there");
    }
}
