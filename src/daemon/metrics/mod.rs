//! The metrics thread: it takes what the workers send, counts and judges it, writes the log, and feeds the recorder and the flight recorder.
//!
//! | file | what it does |
//! | --- | --- |
//! | `metrics_thread`, `metrics_loop` | main's end of the thread; what it does in each round |
//! | `metrics_command`, `view`, `views` | what it is asked to do, what it answers, and what main has of that |
//! | `witnesses`, `heartbeat`, `suspects` | evidence of why releases were missed, beside the records |
//! | `alarms` | the alarms of the tasks that run |
//! | `alarm_log`, `tick_trace`, `panic_limit` | what alarms, ticks and panics have to say, into the log |
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
