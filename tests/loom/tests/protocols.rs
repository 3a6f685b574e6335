//! Each protocol holds as it ships, in every order of its memory, and not without any of the words that say what that order must be.

use hertzd_loom::daemon::models as orders;
use hertzd_loom::safety::models as output;
use hertzd_loom::trial::try_all;
use hertzd_loom::{counts, values, worker};

#[test]
fn mailboxes_and_links() {
    try_all(&values::MODELS);
}

#[test]
fn counts_of_a_task() {
    try_all(&counts::MODELS);
}

#[test]
fn requests_to_a_worker() {
    try_all(&worker::models::MODELS);
}

#[test]
fn outputs_that_are_live() {
    try_all(&output::LIVE);
}

#[test]
fn targets_of_outputs() {
    try_all(&output::TARGETS);
}

#[test]
fn orders_to_make_all_outputs_safe() {
    try_all(&orders::MODELS);
}
