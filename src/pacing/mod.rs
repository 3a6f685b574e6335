//! When things run: arithmetic only. No clock, no thread, no system call; time comes in as a value, and nothing is
//! allocated after construction.
//!
//! [`Rate`] says where releases lie, [`Account`] what one task owes, [`Schedule`] which of many tasks runs next, and
//! [`Sleeps`] how far to sleep and how long to spin. [`FixedStep`] is the same arithmetic for callers that own the
//! loop; [`feasible`](feasible()) says beforehand whether all deadlines can be kept, and [`LeakyBucket`] afterwards
//! whether too many were missed.

mod rate;

mod credit;

mod schedule;

mod sleep;

mod fixed_step;

mod feasible;

mod bucket;

pub use bucket::LeakyBucket;
pub use credit::{Account, Grid, Overrun, Settled};
pub use feasible::{Demand, Verdict, feasible};
pub use fixed_step::{Excess, FixedStep, Frame};
pub use rate::Rate;
pub use schedule::{Due, GivenUp, Next, Schedule};
pub use sleep::{RestPlan, Sleeps, Tail};
