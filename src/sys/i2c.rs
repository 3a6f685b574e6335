//! An I²C bus through its character device (`/dev/i2c-1`, module i2c-dev): the adapter's functions, selecting a chip, reading and writing
//! its registers.
//!
//! A transfer neither allocates nor takes a lock of ours. It blocks for as long as the bus takes: at 100 kHz about 0.1 ms per byte. No
//! clock is read.

use super::{from_minus_one, invalid};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;

// include/uapi/linux/i2c-dev.h, i2c.h
const I2C_SLAVE: libc::Ioctl = 0x0703;
const I2C_SLAVE_FORCE: libc::Ioctl = 0x0706;
const I2C_FUNCS: libc::Ioctl = 0x0705;
const I2C_RDWR: libc::Ioctl = 0x0707;
const I2C_SMBUS: libc::Ioctl = 0x0720;
const I2C_M_RD: u16 = 1;
const SMBUS_WRITE: u8 = 0;
const SMBUS_READ: u8 = 1;
const SIZE_BYTE: u32 = 1;
const SIZE_BYTE_DATA: u32 = 2;
const SIZE_WORD_DATA: u32 = 3;
const SIZE_I2C_BLOCK_DATA: u32 = 8;

/// The longest SMBus transfer, in bytes.
pub(crate) const SMBUS_BLOCK: usize = 32;

/// The most messages in one combined transfer; each piece that is read takes two.
const MESSAGES: usize = 42;

/// The most pieces in one combined transfer.
pub(crate) const AT_ONCE: usize = MESSAGES / 2;

/// The most bytes in one message; the kernel's limit.
const LONGEST: usize = 8_192;

/// The functions of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Functions(pub libc::c_ulong);

impl Functions {
    /// Messages of any length, several in one transfer.
    pub(crate) const I2C: libc::c_ulong = 0x0000_0001;
    /// Reads one byte of a register.
    pub(crate) const READ_BYTE_DATA: libc::c_ulong = 0x0008_0000;
    /// Reads two bytes of a register.
    pub(crate) const READ_WORD_DATA: libc::c_ulong = 0x0020_0000;
    /// Reads up to 32 bytes, starting at a register.
    pub(crate) const READ_I2C_BLOCK: libc::c_ulong = 0x0400_0000;
    /// Writes one byte of a register.
    pub(crate) const WRITE_BYTE_DATA: libc::c_ulong = 0x0010_0000;
    /// Writes two bytes of a register.
    pub(crate) const WRITE_WORD_DATA: libc::c_ulong = 0x0040_0000;
    /// Writes up to 32 bytes, starting at a register.
    pub(crate) const WRITE_I2C_BLOCK: libc::c_ulong = 0x0800_0000;

    /// Whether it has all of these functions.
    pub(crate) const fn has(self, functions: libc::c_ulong) -> bool {
        self.0 & functions == functions
    }
}

/// A run of bytes to read, starting at a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub register: u8,  // the first register
    pub length: usize, // how many bytes
    pub at: usize,     // their offset in the buffer
}

#[repr(C)]
struct Message {
    address: u16,
    flags: u16,
    length: u16,
    bytes: *mut u8,
}

const EMPTY: Message = Message { address: 0, flags: 0, length: 0, bytes: std::ptr::null_mut() };

#[repr(C)]
struct Transfer {
    messages: *mut Message,
    count: u32,
}

/// The kernel's `union i2c_smbus_data`: a byte, a word, or a length and a block, with one byte to spare.
#[repr(C, align(2))]
struct Block([u8; SMBUS_BLOCK + 2]);

#[repr(C)]
struct Smbus {
    direction: u8,
    command: u8,
    size: u32,
    data: *mut Block,
}

// The kernel's layouts, which depend on the width of a pointer.
const _: () = {
    let pointer = size_of::<*mut u8>();
    assert!(size_of::<Message>() == 8 + pointer && offset_of!(Message, bytes) == 8);
    assert!(size_of::<Transfer>() == 2 * pointer && offset_of!(Transfer, count) == pointer);
    assert!(size_of::<Smbus>() == 8 + pointer && offset_of!(Smbus, size) == 4 && offset_of!(Smbus, data) == 8);
    assert!(size_of::<Block>() == 34 && align_of::<Block>() == 2);
};

/// Reads the adapter's functions. ENOTTY: not an I²C bus.
pub(crate) fn functions(bus: &File) -> io::Result<Functions> {
    let mut functions: libc::c_ulong = 0;
    // SAFETY: I2C_FUNCS writes one unsigned long at the pointer, which outlives the call.
    from_minus_one(unsafe { libc::ioctl(bus.as_raw_fd(), I2C_FUNCS, &raw mut functions) })?;
    Ok(Functions(functions))
}

/// Selects the chip for later transfers. `force`: even where a kernel driver uses the address.
/// EBUSY: a kernel driver owns the address.
pub(crate) fn set_address(bus: &File, address: u8, force: bool) -> io::Result<()> {
    let request = if force { I2C_SLAVE_FORCE } else { I2C_SLAVE };
    // SAFETY: the argument is a number; no memory is involved.
    from_minus_one(unsafe { libc::ioctl(bus.as_raw_fd(), request, libc::c_ulong::from(address)) })?;
    Ok(())
}

/// Reads all pieces by combined transfers of up to 21 pieces. Each piece is a write of the register number and a read after a repeated
/// start. Allocates nothing. EINVAL: a piece does not fit into the buffer. EIO: the transfer was incomplete.
pub(crate) fn read_combined(bus: &File, address: u8, pieces: &[Piece], buffer: &mut [u8]) -> io::Result<()> {
    for pieces in pieces.chunks(AT_ONCE) {
        let mut messages = [EMPTY; MESSAGES];
        for (pair, piece) in messages.chunks_exact_mut(2).zip(pieces) {
            let bytes = part_of(buffer, piece)?;
            let length = u16::try_from(bytes.len()).map_err(|_| invalid())?;
            let (address, register) = (u16::from(address), (&raw const piece.register).cast_mut());
            pair[0] = Message { address, flags: 0, length: 1, bytes: register };
            pair[1] = Message { address, flags: I2C_M_RD, length, bytes: bytes.as_mut_ptr() };
        }
        let count = 2 * pieces.len();
        let mut transfer = Transfer { messages: messages.as_mut_ptr(), count: u32::try_from(count).unwrap_or(0) };
        // SAFETY: `count` messages point to one byte of `pieces`, only read, or to `length` bytes inside `buffer`, which is borrowed
        // mutably here; all outlive the call.
        let done = from_minus_one(unsafe { libc::ioctl(bus.as_raw_fd(), I2C_RDWR, &raw mut transfer) })?;
        if usize::try_from(done) != Ok(count) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
    }
    Ok(())
}

/// Reads one piece by SMBus: a byte, a word, or a block of up to 32 bytes, depending on its length. Allocates nothing.
/// EINVAL: it does not fit into the buffer, or is longer than 32 bytes. EIO: the transfer was incomplete.
pub(crate) fn read_smbus(bus: &File, piece: &Piece, buffer: &mut [u8]) -> io::Result<()> {
    let bytes = part_of(buffer, piece)?;
    let mut block = Block([0; SMBUS_BLOCK + 2]);
    match bytes.len() {
        1 => {
            smbus(bus, SMBUS_READ, piece.register, SIZE_BYTE_DATA, &mut block)?;
            bytes[0] = block.0[0];
        }
        2 => {
            smbus(bus, SMBUS_READ, piece.register, SIZE_WORD_DATA, &mut block)?;
            // The word is in this machine's byte order; its low byte came first over the bus.
            bytes.copy_from_slice(&u16::from_ne_bytes([block.0[0], block.0[1]]).to_le_bytes());
        }
        length => {
            block.0[0] =
                u8::try_from(length).ok().filter(|&length| usize::from(length) <= SMBUS_BLOCK).ok_or_else(invalid)?;
            smbus(bus, SMBUS_READ, piece.register, SIZE_I2C_BLOCK_DATA, &mut block)?;
            if usize::from(block.0[0]) < length {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            bytes.copy_from_slice(&block.0[1..=length]);
        }
    }
    Ok(())
}

/// Writes bytes by SMBus without allocating; the first is the register number. EINVAL: no bytes, or more than 33.
pub(crate) fn write_smbus(bus: &File, bytes: &[u8]) -> io::Result<()> {
    let mut block = Block([0; SMBUS_BLOCK + 2]);
    let (&command, data) = bytes.split_first().ok_or_else(invalid)?;
    let size = match *data {
        [] => SIZE_BYTE,
        [byte] => {
            block.0[0] = byte;
            SIZE_BYTE_DATA
        }
        [first, second] => {
            block.0[..2].copy_from_slice(&u16::from_le_bytes([first, second]).to_ne_bytes());
            SIZE_WORD_DATA
        }
        _ => {
            let length = u8::try_from(data.len()).map_err(|_| invalid())?;
            block.0[0] = length;
            block
                .0
                .get_mut(1..=data.len())
                .filter(|_| data.len() <= SMBUS_BLOCK)
                .ok_or_else(invalid)?
                .copy_from_slice(data);
            SIZE_I2C_BLOCK_DATA
        }
    };
    smbus(bus, SMBUS_WRITE, command, size, &mut block)
}

fn smbus(bus: &File, direction: u8, command: u8, size: u32, block: &mut Block) -> io::Result<()> {
    let mut request = Smbus { direction, command, size, data: block };
    // SAFETY: `request` points to a block as large as the kernel's union of all sizes; both outlive the call.
    from_minus_one(unsafe { libc::ioctl(bus.as_raw_fd(), I2C_SMBUS, &raw mut request) })?;
    Ok(())
}

fn part_of<'a>(buffer: &'a mut [u8], piece: &Piece) -> io::Result<&'a mut [u8]> {
    let fits = (1..=LONGEST).contains(&piece.length);
    buffer.get_mut(piece.at..).and_then(|rest| rest.get_mut(..piece.length)).filter(|_| fits).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::emulation::{NO_IOCTL, cannot_be_emulated};

    #[test]
    fn what_is_no_bus_is_refused() {
        if cannot_be_emulated(NO_IOCTL) {
            return;
        }
        let file = File::open("/dev/null").unwrap();
        let errno = |result: io::Result<()>| result.unwrap_err().raw_os_error();
        let piece = |length, at| Piece { register: 0, length, at };
        assert_eq!(errno(functions(&file).map(drop)), Some(libc::ENOTTY));
        assert_eq!(errno(set_address(&file, 0x48, false)), Some(libc::ENOTTY));
        let mut buffer = [0; 4];
        assert_eq!(errno(read_combined(&file, 0x48, &[piece(4, 0)], &mut buffer)), Some(libc::ENOTTY));
        assert_eq!(errno(read_smbus(&file, &piece(2, 2), &mut buffer)), Some(libc::ENOTTY));
        assert_eq!(errno(write_smbus(&file, &[1, 2, 3, 4])), Some(libc::ENOTTY));
        for (length, at) in [(0, 0), (5, 0), (1, 4), (1, usize::MAX)] {
            assert_eq!(errno(read_combined(&file, 0x48, &[piece(length, at)], &mut buffer)), Some(libc::EINVAL));
            assert_eq!(errno(read_smbus(&file, &piece(length, at), &mut buffer)), Some(libc::EINVAL));
        }
        assert_eq!(errno(read_smbus(&file, &piece(33, 0), &mut [0; 40])), Some(libc::EINVAL));
        assert_eq!(errno(write_smbus(&file, &[])), Some(libc::EINVAL));
        assert_eq!(errno(write_smbus(&file, &[0; 34])), Some(libc::EINVAL));
    }
}
