//! Whether a file is a library for this machine. The dynamic linker passes over one for another machine, and says that there is no file.

use std::fs::File;
use std::io::Read;
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
        _ => Ok(()),
    }
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
