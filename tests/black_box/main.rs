//! The program's behaviour, seen from outside: each test starts it, and most wait for it. They form one test program, so that they wait
//! side by side. Tests that monopolise a processor, a disk or all connections are in tests/alone.

#[path = "../support/desk.rs"]
mod desk;
#[path = "../support/hot_thread.rs"]
mod hot_thread;
#[path = "../support/on_virtual_clock.rs"]
mod on_virtual_clock;
#[cfg(feature = "top")]
#[path = "../support/pendulum_example.rs"]
mod pendulum_example;
#[cfg(feature = "plugin")]
#[path = "../support/plugin/mod.rs"]
mod plugin;
#[path = "../support/program/mod.rs"]
mod program;
#[cfg(feature = "mcap")]
#[path = "../support/recorded.rs"]
mod recorded;
#[path = "../support/scraping.rs"]
mod scraping;

mod alarms;
mod bumpless;
mod check;
mod check_opens;
mod cli;
mod closed_outputs;
mod daemon;
mod dead_writers;
mod doctor;
mod events;
#[cfg(feature = "exporter")]
mod exporter;
mod fans;
mod first_values;
mod handed_over;
mod heartbeat;
mod held_outputs;
mod hot_thread_syscalls;
mod left_plans;
mod log_formats;
mod login_plans;
mod measure;
mod monitoring;
mod new;
mod own_task;
#[cfg(feature = "top")]
mod pendulum_runs;
#[cfg(feature = "plugin")]
mod plugin_faults;
#[cfg(all(feature = "mcap", feature = "plugin"))]
mod plugins;
mod process;
mod quiet_cpus;
mod readback;
#[cfg(feature = "mcap")]
mod recording_files;
#[cfg(feature = "mcap")]
mod recordings;
mod reload;
mod reopened;
#[cfg(feature = "mcap")]
mod report;
#[cfg(feature = "mcap")]
mod report_browser;
mod restarted;
mod runtime_directory;
mod safe;
mod safe_pairs;
mod safe_plan;
mod safe_retries;
mod shadow;
mod silent_files;
mod status;
mod top;
mod trace;
mod two_steps;
mod walk;
mod watched;
#[cfg(all(feature = "exporter", feature = "mcap", feature = "top"))]
mod worth;
