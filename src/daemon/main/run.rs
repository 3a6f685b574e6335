//! Main: an event loop that starts, watches, reloads, answers and stops.
//!
//! Main runs no task and waits only for the next event. Anything that may block is left to the builder, the recorder and the metrics
//! thread. Only the end of a run waits for those, for a limited time each.

mod start;

use super::connections::{Connections, Options, Progress};
use super::ending::Ending;
use super::finish::{self, Outcome, TICK_PATIENCE};
use super::present::present;
use super::reloads::Reloads;
use super::status_socket::StatusSocket;
use super::summary::{self, Answer, RunningDaemon, Snapshot};
use crate::daemon::busy::LongWait;
use crate::daemon::change::cool_cpus::CoolCpus;
use crate::daemon::change::loader::Loader;
use crate::daemon::change::prepared::Prepared;
use crate::daemon::change::running_set::{RunningSet, Threads};
use crate::daemon::failure::Failure;
use crate::daemon::metrics::metrics_thread::Depth;
use crate::daemon::metrics::views::Views;
use crate::daemon::watch::cpu_limit::CpuLimit;
use crate::daemon::watch::notices::{self, ServiceNotices};
use crate::daemon::watch::stall::StallLooks;
use crate::kinds::output::Reopened;
use crate::snapshot::{BusySummary, DaemonSummary, Summary, is_troubled};
use crate::sys::clock::KernelClock;
use crate::sys::host::Host;
use crate::sys::notify;
use crate::sys::thread::helper::Death;
use crate::time::{Clock, Instant, Span};
use crate::worker::WorkerEnd;
use crossbeam_channel::{Receiver, Sender, never, select};
use std::sync::Arc;
use std::time::Duration;
use tracing::error;

/// How often main checks that all is well and shows progress, unless the watchdog must be fed more often.
const LOOK_EVERY: Span = Span::from_millis(250);

/// How often main asks for a view of the metrics that no one has requested. With more than `MANY_TASKS` tasks it does so only for the
/// service manager: each status query asks for its own view, and a view of ten thousand tasks takes milliseconds and megabytes.
const VIEW_EVERY: Span = Span::from_seconds(1);
const MANY_TASKS: usize = 1_024;

/// How often main checks whether a worker's clock was stepped, if that is possible.
const CLOCKS_EVERY: Span = Span::from_millis(50);

/// How often to check and interrupt a worker that has to stop or exchange its tasks.
const NUDGE_EVERY: Span = Span::from_millis(5);

/// Minimum time between the beginnings of two reloads, so that a flood of requests does not flood the log.
const RELOAD_EVERY: Span = Span::from_millis(100);

/// A start that takes longer than this waits for a release far ahead, and is checked less often.
const QUICK_START: Span = Span::from_seconds(1);

/// The stage of the current change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The builder prepares the set.
    Preparing,
    /// The builder makes the tasks' initial writes.
    Writing,
    /// The workers switch to the new set.
    Changing,
    /// No change is in progress.
    Settled,
}

struct Daemon<'a> {
    host: Host,
    started: Instant, // in UTC
    set: RunningSet,
    threads: Threads,
    cool: CoolCpus,
    connections: Connections<'a>,
    ended: Receiver<()>,
    status: Option<StatusSocket<Answer>>,
    waiting: Option<(Sender<Answer>, Instant)>, // for the metrics thread, since then
    views: Views,
    looked: Instant, // last request for a view, except for queries
    notices: ServiceNotices,
    cpu_limit: CpuLimit,
    reloads: Reloads,
    reload_began: Instant, // the last one
    long_wait: LongWait,
    phase: Phase,
    ending: Ending,
    wait: Span, // limit of main's last wait
    deaths: Receiver<Death>,
    faults: Vec<String>, // each ends the run
    reopened: Arc<Reopened>,
    changed: u64, // targets of outputs
}

/// Runs the configuration that `load` reads, until it ends or a stop is requested.
///
/// # Errors
/// Why nothing was run.
pub(crate) fn run(
    load: impl Into<Loader>,
    options: &Options,
    connections: Connections<'_>,
) -> Result<Outcome, Failure> {
    let mut daemon = Daemon::new(load.into(), options, connections)?;
    while !daemon.is_over() {
        daemon.next_event()?;
        daemon.advance();
        daemon.look_at_metrics();
        daemon.cool.look(KernelClock::monotonic().now(), &mut daemon.set);
        let totals = daemon.threads.metrics.totals();
        let (looks, wait, now) = (daemon.stall_looks(), daemon.wait, KernelClock::monotonic().now());
        let Daemon { host, set, threads, cool, views, notices, faults, reloads, ending, .. } = &mut daemon;
        let status = |set: &RunningSet| {
            sentence(|| present(host, set, threads, cool, views, looks, faults, (reloads, ending), now, is_troubled))
        };
        if let Some(fault) = notices.look(set, wait, status) {
            // The tick has had its time. The rest of the watchdog's time is for the other workers.
            daemon.ending.hurry(daemon.notices.feed_every().unwrap_or(TICK_PATIENCE));
            daemon.faults.push(fault);
        }
        let now = KernelClock::monotonic().now();
        daemon.cpu_limit.look(now, &mut daemon.set);
        daemon.long_wait.report(now, daemon.threads.builder.busy());
        daemon.threads.recorder.watch(now, daemon.notices.looks().since());
        if let (Some(progress), Some(epoch)) = (daemon.connections.progress.as_mut(), daemon.set.epoch) {
            progress(Progress { elapsed: KernelClock::monotonic().now() - epoch, totals });
        }
    }
    if !daemon.ending.is_stopping() {
        daemon.notices.stopping();
    }
    // A query that still waits gets no answer.
    drop((daemon.waiting, daemon.status));
    Ok(finish::finish(&daemon.host, daemon.set, daemon.threads, daemon.ending.patience(), daemon.faults))
}

impl Daemon<'_> {
    /// Waits for an event, or until something has to be checked.
    fn next_event(&mut self) -> Result<(), Failure> {
        let queries = match (&self.status, &self.waiting) {
            (Some(status), None) => status.queries.clone(),
            _ => never(), // one at a time
        };
        let view = self.views.arrival();
        self.wait = self.patience();
        select! {
            recv(self.ended) -> _ => {}
            recv(self.connections.requests.woken()) -> _ => {}
            recv(self.threads.builder.prepared) -> prepared => match prepared {
                Ok(prepared) => self.prepared(prepared)?,
                Err(_) => self.threads.builder.prepared = never(), // it has died
            },
            recv(self.deaths) -> death => self.faults.extend(death.map(|death| notices::report_death(&death))),
            recv(queries) -> query => match query {
                Ok(query) => self.waiting = Some((query, KernelClock::monotonic().now())),
                Err(_) => self.status = None, // its thread has died
            },
            recv(view) -> view => self.views.take(view),
            default(Duration::from_nanos(self.wait.nanos().unsigned_abs())) => {}
        }
        let now = KernelClock::monotonic().now();
        let Self { views, waiting, threads, set, .. } = self;
        let answer = |(_, since): &mut (Sender<Answer>, Instant)| views.are_full_since(*since) || views.are_late(now);
        if let Some((query, _)) = waiting.take_if(answer) {
            let _ = query.send(self.snapshot());
        } else if waiting.is_some() {
            views.ask(&threads.metrics, Depth::Full, set.tasks(), now);
        }
        Ok(())
    }

    /// Reads the workers' processor time. Asks the metrics thread for a view once a second, if anyone may want to read it.
    fn look_at_metrics(&mut self) {
        let now = KernelClock::monotonic().now();
        self.set.all_mut().for_each(|running| running.measure(now));
        if now - self.looked >= VIEW_EVERY {
            self.looked = now;
            if notify::is_heard() || self.status.is_some() && self.set.tasks() <= MANY_TASKS {
                self.views.ask(&self.threads.metrics, Depth::Brief, self.set.tasks(), now);
            }
        }
    }

    fn stall_looks(&self) -> StallLooks {
        StallLooks { watched: self.notices.looks().watched(), patience: self.notices.stalled_after() }
    }

    /// How long to wait for an event before the next check.
    fn patience(&self) -> Span {
        let starts = || self.set.epoch.is_some_and(|epoch| KernelClock::monotonic().now() - epoch < QUICK_START);
        let usual = if self.set.follows_clocks() { CLOCKS_EVERY } else { LOOK_EVERY };
        let busy = self.ending.is_stopping()
            || self.set.sleeps_over_a_step()
            || self.phase == Phase::Changing
            || (!self.notices.ready && starts());
        let span = if busy { NUDGE_EVERY } else { usual.min(self.notices.feed_every().unwrap_or(LOOK_EVERY)) };
        let span = self.cpu_limit.look_every().map_or(span, |every| span.min(every));
        let until_end = self.set.until_end(KernelClock::monotonic().now());
        let span = until_end.map_or(span, |left| span.min(left.max(NUDGE_EVERY)));
        self.until_reload().map_or(span, |left| span.min(left))
    }

    /// Time until a requested reload may begin; `None`: none was requested, or it waits for something else.
    fn until_reload(&self) -> Option<Span> {
        let waits =
            self.phase == Phase::Settled && !self.ending.is_stopping() && self.connections.requests.reload_asked();
        waits.then(|| (self.reload_began + RELOAD_EVERY - KernelClock::monotonic().now()).max(Span::ZERO))
    }

    /// Handles the builder's answer: a prepared change, or why it was refused. A refusal at the start ends the run.
    fn prepared(&mut self, prepared: Result<Prepared, Failure>) -> Result<(), Failure> {
        if self.ending.is_stopping() {
            self.threads.builder.close(prepared);
            return Ok(());
        }
        // After its initial outputs are written, a change goes ahead even if a worker has ended or hangs.
        let can_change = match self.phase {
            Phase::Writing => Ok(()),
            _ => self.set.can_change(self.notices.stalled_after()),
        };
        let refused = match (prepared, can_change) {
            (Ok(prepared), Ok(())) if !prepared.is_written() => {
                self.phase = Phase::Writing;
                self.threads.builder.write(prepared);
                return Ok(());
            }
            (Ok(prepared), Ok(())) => {
                self.set.begin(prepared, &mut self.threads);
                self.phase = Phase::Changing;
                return Ok(());
            }
            (Ok(prepared), Err(failure)) => {
                self.threads.builder.close(prepared);
                failure
            }
            (Err(failure), _) => failure,
        };
        if self.set.epoch.is_none() {
            self.threads.guard.report_owed();
            return Err(refused);
        }
        self.reloads.refuse(&refused);
        self.settle();
        Ok(())
    }

    /// How many times an output's target was reopened, or got the safe value still owed by a closed task.
    fn changed_targets(&self) -> u64 {
        self.reopened.count() + self.threads.guard.settled()
    }

    /// Continues the change, stop or reload in progress.
    fn advance(&mut self) {
        let starting = self.set.epoch.is_none();
        if self.phase == Phase::Changing && !self.ending.is_stopping() {
            match self.set.advance(&mut self.threads) {
                Ok(None) => {}
                Ok(Some(_)) if starting => self.phase = Phase::Settled,
                Ok(Some(diff)) => {
                    self.reloads.accept(&diff);
                    self.settle();
                }
                Err(why) => {
                    let fault = format!("the reload failed after its workers had ended: {why}");
                    error!("{fault}; the run ends");
                    self.faults.push(fault);
                }
            }
        }
        let requests = &self.connections.requests;
        if requests.take_cpu_limit() {
            self.threads.guard.make_safe();
            self.cpu_limit.reached(&mut self.set);
        }
        let changed = self.changed_targets();
        if std::mem::replace(&mut self.changed, changed) != changed {
            self.threads.builder.update_plan();
        }
        let failed = self.set.workers.iter().any(|running| running.worker.failed().is_some());
        let died = self
            .set
            .workers
            .iter_mut()
            .any(|running| running.has_ended() && matches!(running.end, Some(WorkerEnd::Died)));
        let now = KernelClock::monotonic().now();
        if !self.ending.is_stopping() && (requests.stop_asked() || failed || died || !self.faults.is_empty()) {
            self.ending.stop(now);
            self.notices.stopping();
        }
        self.ending.advance(now, &mut self.set, &self.threads.metrics);
        if self.until_reload() == Some(Span::ZERO) && requests.take_reload() {
            self.reload_began = now;
            notify::reloading();
            self.phase = Phase::Preparing;
            self.threads.builder.prepare(self.set.sections.clone(), self.set.joints.clone(), self.set.held());
        }
    }

    /// Notes that a reload is over, and reports it to the service manager.
    fn settle(&mut self) {
        self.phase = Phase::Settled;
        let looks = self.stall_looks();
        let Self { host, set, threads, cool, views, reloads, faults, ending, .. } = self;
        let now = KernelClock::monotonic().now();
        let status =
            sentence(|| present(host, set, threads, cool, views, looks, faults, (reloads, ending), now, is_troubled));
        self.notices.changed(&self.set, &status);
    }

    /// Whether the wait for the end is over.
    fn is_over(&mut self) -> bool {
        self.ending.is_over(KernelClock::monotonic().now(), self.notices.looks().watched(), &mut self.set)
    }

    /// The summary so far, with the last view of the metrics.
    fn snapshot(&self) -> Answer {
        let Some((view, asked)) = self.views.latest() else {
            return Answer::HeldUp { error: "the metrics thread is delayed" };
        };
        let now = KernelClock::monotonic().now();
        let Self { host, set, threads, cool, views, reloads, faults, ending, .. } = self;
        let changes = (reloads, ending);
        let (mut summary, sentence) =
            present(host, set, threads, cool, views, self.stall_looks(), faults, changes, now, |_| true);
        summary.alarms = summary::alarms(view.alarms.as_deref(), set, now);
        let daemon = DaemonSummary {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_utc_ns: (self.started - Instant::ZERO).nanos(),
            files: self.set.files.iter().map(|path| path.display().to_string()).collect(),
            running_ns: self.set.epoch.map_or(0, |epoch| (now - epoch).nanos().max(0)), // the epoch lies ahead at first
            ready: self.notices.ready,
            reloads: self.reloads.done,
            reloads_begun: self.reloads.done + u64::from(self.set.epoch.is_some() && self.phase != Phase::Settled),
            reload_pending: self.connections.requests.reload_asked(),
            stale_ns: Some((now - asked).nanos()).filter(|_| views.are_late(now)),
            reloads_refused: self.reloads.refused,
            last_reload: self.reloads.last.clone(),
            last_reload_refused: self.reloads.refused_last,
            busy: self
                .threads
                .builder
                .busy()
                .map(|busy| BusySummary { activity: busy.activity, since_ns: (now - busy.since).nanos().max(0) }),
            sentence,
        };
        let daemon = RunningDaemon { daemon, sections: self.set.sections.clone() };
        Answer::Snapshot(Box::new(Snapshot { summary, daemon }))
    }
}

/// The sentence for the service manager. Empty if there is none, because summing up ten thousand tasks takes milliseconds.
fn sentence(present: impl FnOnce() -> (Summary, String)) -> String {
    if notify::is_heard() { present().1 } else { String::new() }
}
