//! Whether enough descriptors are left for later: a reload that opens devices, recordings that begin their next file, readers of the status
//! socket.

use crate::sys::descriptors;
use tracing::warn;

/// Enough for a reload of a few tasks and the status readers that are always admitted.
const FEW: u64 = 64;

/// Warns if too few are left.
pub(crate) fn report() {
    if let Some(text) = descriptors::left().zip(descriptors::limit()).and_then(|(left, limit)| too_few(left, limit)) {
        warn!("{text}");
    }
}

fn too_few(left: u64, limit: u64) -> Option<String> {
    (left < FEW).then(|| {
        format!(
            "of {limit} descriptors (RLIMIT_NOFILE) only {left} are left: a reload may be refused, and a recording may not find its next \
             file; raise LimitNOFILE= of the service, or `ulimit -n`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_said_to_be() {
        assert_eq!(too_few(64, 1_024), None);
        assert!(too_few(63, 256).unwrap().starts_with("of 256 descriptors (RLIMIT_NOFILE) only 63 are left"));
    }
}
