//! Tests of several kinds at once.

mod references;
