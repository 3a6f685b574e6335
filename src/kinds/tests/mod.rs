//! Tests of several kinds at once.

pub(in crate::kinds) mod bench;
mod references;
