//! Handles a crash, or a crash signal that another process sent: makes all outputs safe and logs what happened, naming the user's library
//! if one caused it. Then the process ends.
//!
//! Runs on its own thread while the crashed thread waits, for a limited time. Whatever the crashed thread had locked stays locked. If that
//! was the allocator, nothing here finishes, and only the crash handler writes its line. May block; reads no clock.

use crate::daemon::outputs::guard_thread::GuardThread;
use crate::log::{self, Message, make_ready};
use crate::sys::crash::{self, Crash, Inside};
use crate::time::Span;
use std::fs;
use std::sync::Arc;
use tracing::error;

/// How long the last log entries may wait for stderr.
const PATIENCE: Span = Span::from_seconds(1);

/// Reports crashes and crash signals from now on. Call this on the main thread, which must notice an end even while a library being loaded
/// hangs.
pub(crate) fn watch(guard: Arc<GuardThread>) {
    make_ready();
    crash::report_to(make_ready, move |crash| report(crash, &guard));
    crash::watch();
}

fn report(crash: &Crash, guard: &GuardThread) {
    // First, because the guard thread needs time for it. No task recovers afterwards.
    guard.make_safe_for_good();
    // Log before the result is known: a device might not respond, and this entry must be out by then. That failure gets its own entry.
    let safe = if guard.summary().is_some() { "asks for the safe values of its outputs and then " } else { "" };
    let what = if crash.status.is_some() { "called" } else { "crashed with" };
    let end = crash.status.map_or_else(|| "by this signal".to_owned(), |status| format!("with exit code {status}"));
    let (message_id, signal) = (Message::PluginCrashed.id(), crash.signal);
    let message_of_signal = Message::FatalSignal.id();
    match (&crash.inside, crash.sender) {
        (_, Some(sender)) => {
            let who = sender_name(sender, signal);
            error!(
                message_id = message_of_signal,
                signal, sender, "hertzd did not crash: {signal} was sent by {who}; hertzd {safe}ends {end}"
            );
        }
        (Some(Inside { task, library, place }), None) => {
            let of_task = if task.is_empty() { String::new() } else { format!("{task}: ") };
            let task = if task.is_empty() { "none" } else { task };
            error!(
                message_id,
                task, library, signal, place, "{of_task}the plugin {library} {what} {crash}; hertzd {safe}ends {end}"
            );
        }
        (None, None) if !crash.has_plugins => error!(
            message_id = message_of_signal,
            signal,
            sender = "none",
            "hertzd crashed with {crash}; hertzd {safe}ends {end}. Please report it, with what `coredumpctl info` says"
        ),
        (None, None) => error!(
            message_id,
            task = "none",
            library = "none",
            signal,
            place = "none",
            "hertzd crashed with {crash} outside of the functions of its plugins, which share its memory: a plugin, \
             or a thread that it started, may have corrupted it; hertzd {safe}ends {end}"
        ),
    }
    guard.make_safe_and_wait();
    log::finish(PATIENCE);
}

/// The process that sent a signal, described for people.
fn sender_name(sender: i32, signal: &str) -> String {
    if sender == 0 {
        return "the kernel, or by a process that cannot be seen from here".into();
    }
    let name = fs::read_to_string(format!("/proc/{sender}/comm")).unwrap_or_default();
    let name = name.trim_end();
    // A unit may hide the processes of other users.
    let is_manager = name == "systemd" || (sender, name) == (1, "");
    let watchdog = if signal == "SIGABRT" && is_manager { ", whose watchdog does that when hertzd hangs" } else { "" };
    let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
    format!("process {sender}{name}{watchdog}")
}
