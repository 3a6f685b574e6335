//! When tasks run: arithmetic only. No clock, no thread, no system call. Time is an argument, and nothing is allocated after construction.
//!
//! | type | what it decides |
//! | --- | --- |
//! | [`Rate`], [`Grid`] | the instants of all releases |
//! | [`Account`], [`Overrun`] | how much debt a task keeps after a late tick, and which releases it gives up |
//! | [`Schedule`] | which of many tasks runs next |
//! | `Sleeps`, `Tail` | how far to sleep, and how long to spin until the release |
//! | `feasible_beside` | before the start: whether all deadlines can be met |
//! | `LeakyBucket` | afterwards: whether too many were missed |
//! | [`FixedStep`] | the same arithmetic for a caller that owns the loop, such as a game |

mod bucket;
mod budget;
mod credit;
#[cfg(feature = "daemon")]
mod feasible;
mod fixed_step;
mod grid;
mod margin;
mod oversleeps;
mod queue;
mod rate;
mod response;
mod schedule;
pub(crate) mod sleep;
pub(crate) mod tail;
mod utilisation;

#[cfg(feature = "daemon")]
pub(crate) use bucket::LeakyBucket;
pub use credit::{Account, Overrun, Settled};
#[cfg(feature = "daemon")]
pub(crate) use feasible::{Demand, Interference, Verdict, feasible_beside};
pub use fixed_step::{Excess, FixedStep, Frame};
pub use grid::Grid;
pub use rate::Rate;
pub(crate) use response::{Load, Responses, between, common_divisor, responses};
pub use schedule::{Due, GivenUp, Next, Schedule};
pub(crate) use schedule::{Prepared, Turn};
pub(crate) use sleep::{RestPlan, Sleeps};
pub(crate) use tail::{Tail, Target};
pub(crate) use utilisation::reduced;
