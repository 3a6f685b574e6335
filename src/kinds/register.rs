//! Which register of which chip a section names. Plain data, also where the kinds that use it are left out.

use super::layout::SampleLayout;
use crate::config::NumberOrName;

/// A register of a chip on an I²C bus, and what is stored there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RegisterSettings {
    pub(super) bus: NumberOrName,
    pub(super) address: u8,
    pub(super) force: bool,        // although a driver of the kernel has the address
    pub(super) init: Vec<Vec<u8>>, // what the chip is sent first
    pub(super) register: u8,
    pub(super) layout: SampleLayout,
}

/// What to write for an address of 8 bits, whose lowest bit tells reading from writing.
pub(super) fn seven_bits(address: i64) -> Option<String> {
    let seven = address >> 1;
    (address > 0x77 && (0x03..=0x77).contains(&seven)).then(|| {
        format!(
            "{address:#04x} looks like an 8-bit address, which includes the read/write bit; the 7-bit address is {seven:#04x}"
        )
    })
}
