//! The metrics thread: counts and judges the workers' records, writes the log, and feeds the recorder and the flight recorder.
//!
//! | file | what it does |
//! | --- | --- |
//! | `metrics_thread`, `metrics_loop` | main's end of the thread; what it does in each round |
//! | `metrics_command`, `view`, `views` | its commands, its answers, and main's copy of those |
//! | `witnesses`, `heartbeat`, `suspects` | evidence, beside the records, of why releases were missed |
//! | `alarms` | the alarms of running tasks |
//! | `alarm_log`, `tick_trace`, `panic_limit` | logs alarms, ticks and panics |
//! | `tick_feed`, `flight_feed` | ticks for recordings and for the flight recorder |

mod alarm_log;
pub(super) mod alarms;
pub(super) mod flight_feed;
mod heartbeat;
mod metrics_command;
mod metrics_loop;
pub(super) mod metrics_thread;
mod panic_limit;
mod suspects;
pub(super) mod tick_feed;
mod tick_trace;
mod view;
pub(super) mod views;
mod witnesses;
