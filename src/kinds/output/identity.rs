//! What makes a target this one and no other. Pure.

use crate::kinds::device::DeviceId;
use crate::kinds::layout::SampleLayout;

/// What makes a target this one: a takeover is of exactly the same.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Every file and byte that is written, read back or relied upon.
    pub(super) ids: Vec<DeviceId>,
    /// How a number is stored in these, if not as text: what was read or written in one layout is something else in another.
    pub(super) layout: Option<SampleLayout>,
    /// What messages call it.
    pub(super) shown: String,
}

impl Identity {
    pub(super) fn is(&self, other: &Self) -> bool {
        self.layout == other.layout && self.has_the_same_bytes(other)
    }

    pub(super) fn has_the_same_bytes(&self, other: &Self) -> bool {
        self.ids.len() == other.ids.len() && self.ids.iter().all(|id| other.ids.contains(id))
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.ids.iter().any(|id| other.ids.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::layout::TYPES;

    #[test]
    fn a_target_is_the_same_only_with_all_its_bytes_in_the_same_layout() {
        let of = |bytes: std::ops::Range<u64>, layout: &str| Identity {
            ids: bytes.map(|byte| DeviceId::Node(byte, 0)).collect(),
            layout: TYPES.iter().find(|(name, _)| *name == layout).map(|(_, layout)| *layout),
            shown: String::new(),
        };
        let old = of(0x10..0x13, "u24be");
        assert!(old.is(&of(0x10..0x13, "u24be")));
        for (other, overlaps, same_bytes) in [
            (of(0x10..0x13, "u24le"), true, true),
            (of(0x10..0x18, "u64be"), true, false),
            (of(0x12..0x13, "u8"), true, false),
            (of(0x13..0x16, "u24be"), false, false),
        ] {
            assert!(!old.is(&other) && !other.is(&old), "{other:?}");
            assert_eq!((old.overlaps(&other), old.has_the_same_bytes(&other)), (overlaps, same_bytes), "{other:?}");
        }
    }
}
