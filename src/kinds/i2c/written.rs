//! A register that is written, and read back only where that is needed. Finding and opening one allocate and may block; a write allocates
//! nothing, and blocks for as long as the bus takes.

use super::bus::Bus;
use super::register::Register;
use super::{Chip, ChipSettings};
use crate::kinds::device::{Sight, access, first_line, hidden};
use crate::kinds::layout::{Number, SampleLayout};
use crate::kinds::register::RegisterSettings;
use crate::site::{DeviceId, Refusal};
use crate::sys::i2c::{self, Functions};
use crate::sys::lock::{Taken, take_register};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A register on a bus that exists; whether the chip answers is unknown.
#[derive(Clone, Debug)]
pub(in crate::kinds) struct WrittenRegister {
    /// The bus's device file.
    pub(in crate::kinds) node: PathBuf,
    /// A file that names the bus's adapter, and its content.
    pub(in crate::kinds) adapter: Option<(PathBuf, String)>,
    bus: u64, // number of its node
    settings: ChipSettings,
}

impl WrittenRegister {
    /// Finds the bus; does not address the chip.
    pub(in crate::kinds) fn find(wanted: &RegisterSettings, sys: &Path) -> Result<Self, Refusal> {
        let refuse = |message: String| Refusal::new("bus", message);
        let bus = Bus::named(wanted.bus.clone()).ok_or_else(|| refuse("no bus has that number".into()))?;
        let value = Register {
            register: wanted.register,
            layout: wanted.layout,
            scale: 1.0,
            offset: 0.0,
            name: String::new(),
            unit: String::new(),
        };
        let (address, force, init) = (wanted.address, wanted.force, wanted.init.clone());
        let settings = ChipSettings { bus, address, force, auto_increment: false, init, values: vec![value] };
        let node = settings.node().map_err(refuse)?;
        let node = node.canonicalize().map_err(|error| {
            let why = "is the module i2c-dev loaded (`modprobe i2c-dev`)?";
            refuse(format!("cannot find {}: {error}; {why}", node.display()))
        })?;
        let number = node.metadata().map_or(0, |node| node.rdev());
        let name = sys.join("bus/i2c/devices").join(node.file_name().unwrap_or_default()).join("name");
        // Resolved: the number of this bus may later belong to another adapter, in another place.
        let name = name.canonicalize().unwrap_or(name);
        let adapter = first_line(&name).map(|found| (name, found));
        Ok(Self { node, adapter, bus: number, settings })
    }

    /// The register's name in messages.
    pub(in crate::kinds) fn shown(&self) -> String {
        let (register, address) = (self.settings.values[0].register, self.settings.address);
        format!("register {register:#04x} of chip {address:#04x} on {}", self.node.display())
    }

    /// The report if only the service may open the bus.
    pub(in crate::kinds) fn hidden(&self) -> Option<Sight> {
        hidden(&self.node, true)
    }

    /// The ids of the register's bytes, independent of how the bus is named.
    pub(in crate::kinds) fn ids(&self) -> Vec<DeviceId> {
        let (first, bytes) = self.bytes();
        (first..first + bytes).map(|byte| DeviceId::Named(format!("i2c {:#x} {byte:#06x}", self.bus))).collect()
    }

    /// The index of the register's first byte among all bytes of the bus, and how many it has.
    pub(in crate::kinds) fn bytes(&self) -> (u32, u32) {
        let Register { register, layout, .. } = &self.settings.values[0];
        (first_of(self.settings.address, *register), u32::try_from(layout.bytes()).unwrap_or(8))
    }

    /// Opens the bus and selects the chip; sends nothing to it.
    pub(in crate::kinds) fn open(&self) -> Result<OpenRegister, Refusal> {
        let refuse = |message: String| Refusal::new("bus", message);
        let chip = Chip::choose(&self.settings, &self.node).map_err(refuse)?;
        let Register { register, layout, .. } = self.settings.values[0];
        if !chip.combined {
            let functions = i2c::functions(&chip.bus).map_err(|error| refuse(error.to_string()))?;
            let wanted = match layout.bytes() {
                1 => Functions::WRITE_BYTE_DATA,
                2 => Functions::WRITE_WORD_DATA,
                _ => Functions::WRITE_I2C_BLOCK,
            };
            if !functions.has(wanted) {
                let (node, bytes) = (self.node.display(), layout.bytes());
                return Err(refuse(format!("{node}: its adapter cannot write {bytes} bytes to a register at once")));
            }
        }
        Ok(OpenRegister { chip, register, layout })
    }

    /// Opens only the bus.
    pub(in crate::kinds) fn open_bus(&self) -> Result<File, Refusal> {
        access::open(&self.node).map_err(|message| Refusal::new("bus", message))
    }

    /// Locks the register while a copy of this bus descriptor is open.
    pub(in crate::kinds) fn lock(&self, bus: &File) -> Result<Taken, Refusal> {
        let (first, count) = self.bytes();
        let refuse = |error| Refusal::new("bus", format!("cannot lock a part of {}: {error}", self.node.display()));
        take_register(bus, first, count).map_err(refuse)
    }

    /// Whether the chip has an `init` sequence.
    pub(in crate::kinds) fn has_init(&self) -> bool {
        !self.settings.init.is_empty()
    }

    /// Sends the chip its `init` sequence.
    pub(in crate::kinds) fn init(&self) -> Result<(), Refusal> {
        if self.settings.init.is_empty() {
            return Ok(());
        }
        let open = self.open()?;
        let sent = self.settings.init.iter().try_for_each(|bytes| open.chip.write(bytes));
        sent.map_err(|error| Refusal::new("init", open.chip.refused("write init to", &self.node.display(), &error)))
    }

    /// The bytes that write this text: the register's number, then the value.
    pub(in crate::kinds) fn encode(&self, text: &str) -> Option<Vec<u8>> {
        let Register { register, layout, .. } = self.settings.values[0];
        encoded(register, layout, text.as_bytes()).map(|(bytes, length)| bytes[..length].to_vec())
    }

    /// The bytes that restore what the register held: its number, then `stored`.
    pub(in crate::kinds) fn write_of(&self, stored: &[u8]) -> Vec<u8> {
        [&[self.settings.values[0].register], stored].concat()
    }

    /// How the number is stored.
    pub(in crate::kinds) fn layout(&self) -> SampleLayout {
        self.settings.values[0].layout
    }

    /// The bits of the written bytes that hold the value.
    pub(in crate::kinds) fn bits(&self) -> Vec<u8> {
        let SampleLayout { number, bits, shift, .. } = self.settings.values[0].layout;
        let word = if number == Number::Float { u64::MAX } else { (u64::MAX >> (64 - bits)) << shift };
        let (layout, mut bytes) = (self.settings.values[0].layout, [0; 8]);
        let length = layout.place(word, &mut bytes);
        bytes[..length].to_vec()
    }

    /// What the register holds after this number was written to it.
    pub(in crate::kinds) fn as_stored(&self, number: f64) -> f64 {
        let (layout, mut bytes) = (self.settings.values[0].layout, [0; 8]);
        layout.encode(number, &mut bytes);
        layout.decode(&bytes, 0)
    }

    /// The register's number.
    pub(in crate::kinds) fn register(&self) -> u8 {
        self.settings.values[0].register
    }

    /// The chip's address, and whether to use it even if a kernel driver owns it.
    pub(in crate::kinds) fn address(&self) -> (u8, bool) {
        (self.settings.address, self.settings.force)
    }
}

/// The bytes that write a number's text, and how many there are.
fn encoded(register: u8, layout: SampleLayout, text: &[u8]) -> Option<([u8; 9], usize)> {
    let number: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    let (mut value, mut bytes) = ([0; 8], [register; 9]);
    let length = layout.encode(number, &mut value);
    bytes[1..].copy_from_slice(&value);
    Some((bytes, 1 + length))
}

/// A register that is open for writing.
pub(in crate::kinds) struct OpenRegister {
    chip: Chip,
    register: u8,
    layout: SampleLayout,
}

impl OpenRegister {
    /// Writes the number in a text. One system call; allocates nothing.
    pub(in crate::kinds) fn write(&self, text: &[u8]) -> io::Result<()> {
        let encoded = encoded(self.register, self.layout, text);
        let (bytes, length) = encoded.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        self.chip.write(&bytes[..length])
    }

    /// Writes what the register held, bit for bit. One system call; allocates nothing.
    pub(in crate::kinds) fn write_stored(&self, stored: &[u8]) -> io::Result<()> {
        let mut bytes = [self.register; 9];
        let value = bytes.get_mut(1..=stored.len()).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        value.copy_from_slice(stored);
        self.chip.write(&bytes[..=stored.len()])
    }

    /// The last reading, as the register stores it.
    pub(in crate::kinds) fn stored(&self) -> &[u8] {
        &self.chip.reading.buffer[..self.layout.bytes()]
    }

    /// The open bus.
    pub(in crate::kinds) fn bus(&self) -> &Arc<File> {
        &self.chip.bus
    }

    /// Reads the number that the register holds.
    pub(in crate::kinds) fn read(&mut self) -> io::Result<String> {
        self.chip.read()?;
        Ok(self.layout.text(&self.chip.reading.buffer))
    }

    /// Writes the bytes of [`WrittenRegister::encode`] to a chip, in a process that has nothing open. `is_free` gets a function that locks
    /// the register, and returns an error if another process has it.
    pub(in crate::kinds) fn write_once(
        node: &Path,
        address: u8,
        force: bool,
        bytes: &[u8],
        is_free: impl FnOnce(&dyn Fn() -> io::Result<Taken>) -> io::Result<()>,
    ) -> io::Result<()> {
        let bus = access::open(node).map_err(io::Error::other)?;
        let (first, count) = (first_of(address, bytes[0]), u32::try_from(bytes.len() - 1).unwrap_or(8));
        is_free(&|| take_register(&bus, first, count))?;
        i2c::set_address(&bus, address, force)?;
        match i2c::functions(&bus)?.has(Functions::I2C) {
            true => io::Write::write_all(&mut &bus, bytes),
            false => i2c::write_smbus(&bus, bytes),
        }
    }

    /// Reads `length` bytes starting at `register`, in such a process.
    pub(in crate::kinds) fn read_once(
        node: &Path,
        address: u8,
        force: bool,
        (register, length): (u8, usize),
    ) -> io::Result<Vec<u8>> {
        let bus = access::open(node).map_err(io::Error::other)?;
        i2c::set_address(&bus, address, force)?;
        let (piece, mut bytes) = (i2c::Piece { register, length, at: 0 }, vec![0; length]);
        match i2c::functions(&bus)?.has(Functions::I2C) {
            true => i2c::read_combined(&bus, address, &[piece], &mut bytes)?,
            false => i2c::read_smbus(&bus, &piece, &mut bytes)?,
        }
        Ok(bytes)
    }
}

/// The index of a register's first byte among all bytes of the bus.
fn first_of(address: u8, register: u8) -> u32 {
    u32::from(address) << 8 | u32::from(register)
}

impl std::fmt::Debug for OpenRegister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenRegister").field("register", &self.register).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NumberOrName;
    use crate::kinds::layout::TYPES;
    use crate::sys::emulation::{NO_IOCTL, cannot_be_emulated};

    #[test]
    fn the_text_of_a_number_becomes_the_bytes_of_a_write() {
        let of = |name: &str| TYPES.iter().find(|(known, _)| *known == name).unwrap().1;
        let bytes = |name, text: &str| encoded(0x10, of(name), text.as_bytes()).map(|(b, n)| b[..n].to_vec());
        assert_eq!(bytes("u8", "200\n"), Some(vec![0x10, 200]));
        assert_eq!(bytes("s16be", "-2\n"), Some(vec![0x10, 0xff, 0xfe]));
        assert_eq!(bytes("u24le", "66051"), Some(vec![0x10, 3, 2, 1]));
        assert_eq!(bytes("f32be", "-1.5\n"), Some(vec![0x10, 0xbf, 0xc0, 0, 0]));
        assert_eq!(bytes("u8", "many"), None);
    }

    #[test]
    fn the_bits_of_a_value_are_those_that_it_is_stored_in() {
        let bits = |layout: SampleLayout| {
            let settings = RegisterSettings {
                bus: NumberOrName::Name("/dev/null".into()),
                address: 0x48,
                force: false,
                init: Vec::new(),
                register: 0x10,
                layout,
            };
            WrittenRegister::find(&settings, Path::new("/sys")).unwrap().bits()
        };
        let of = |name: &str| TYPES.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!(bits(of("u8")), [0xff]);
        assert_eq!(bits(of("s16be").part(7, None).unwrap()), [0xff, 0x80]);
        assert_eq!(bits(of("u16le").part(4, Some(8)).unwrap()), [0xf0, 0x0f]);
        assert_eq!(bits(of("f32be")), [0xff; 4]);
    }

    #[test]
    fn a_bus_that_is_not_there_is_refused_and_one_that_is_none() {
        let settings = |bus: &str| RegisterSettings {
            bus: NumberOrName::Name(bus.into()),
            address: 0x48,
            force: false,
            init: Vec::new(),
            register: 0x10,
            layout: TYPES[2].1,
        };
        let gone = WrittenRegister::find(&settings("/nonexistent/i2c-1"), Path::new("/sys")).unwrap_err().message;
        assert!(gone.contains("No such file") && gone.contains("modprobe i2c-dev"), "{gone}");
        let found = WrittenRegister::find(&settings("/dev/null"), Path::new("/sys")).unwrap();
        assert_eq!(found.ids().len(), 2);
        if cannot_be_emulated(NO_IOCTL) {
            return;
        }
        let refused = found.open().unwrap_err().message;
        assert_eq!(refused, format!("/dev/null is no I²C bus: {}", io::Error::from_raw_os_error(libc::ENOTTY)));
    }
}
