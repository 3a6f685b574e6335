//! A chip's register as a section names it. Plain data, also available if the kinds that use it are left out.

use super::layout::SampleLayout;
use crate::config::NumberOrName;

/// A register of a chip on an I²C bus, and how its number is stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RegisterSettings {
    pub(super) bus: NumberOrName,
    pub(super) address: u8,
    pub(super) force: bool,        // even if a kernel driver owns the address
    pub(super) init: Vec<Vec<u8>>, // sent to the chip first
    pub(super) register: u8,
    pub(super) layout: SampleLayout,
}

/// What to write in place of an 8-bit address, whose lowest bit selects read or write.
pub(super) fn seven_bits(address: i64) -> Option<String> {
    let seven = address >> 1;
    (address > 0x77 && (0x03..=0x77).contains(&seven)).then(|| {
        format!(
            "{address:#04x} looks like an 8-bit address, which includes the read/write bit; the 7-bit address is {seven:#04x}"
        )
    })
}
