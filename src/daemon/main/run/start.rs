//! Main's start: creates its threads and gets the builder going.

use super::{Daemon, Phase};
use crate::daemon::busy::LongWait;
use crate::daemon::change::builder::Builder;
use crate::daemon::change::cool_cpus::CoolCpus;
use crate::daemon::change::cpu_places::AllowedCpus;
use crate::daemon::change::loader::Loader;
use crate::daemon::change::running_set::{RunningSet, Threads};
use crate::daemon::disk::flight_thread::FlightThread;
use crate::daemon::disk::recorder_thread::RecorderThread;
use crate::daemon::failure::Failure;
use crate::daemon::main::connections::{Connections, Options};
use crate::daemon::main::crash_report;
use crate::daemon::main::ending::Ending;
use crate::daemon::main::reloads::Reloads;
use crate::daemon::main::status_socket::StatusSocket;
use crate::daemon::metrics::metrics_thread::MetricsThread;
use crate::daemon::metrics::tick_feed;
use crate::daemon::metrics::views::Views;
use crate::daemon::outputs::guard_thread::GuardThread;
use crate::daemon::outputs::plan_file::PlanFile;
use crate::daemon::watch::cpu_limit::CpuLimit;
use crate::daemon::watch::notices::ServiceNotices;
use crate::log::LogOutput;
use crate::site::{Common, Site};
use crate::sys::clock::KernelClock;
use crate::sys::host::Host;
use crate::sys::thread::helper;
use crate::sys::{descriptors, signals, thread};
use crate::time::{Clock, Instant, Span};
use crossbeam_channel::unbounded;
use std::sync::Arc;
use tracing::warn;

impl<'a> Daemon<'a> {
    /// Creates the threads and gives the builder its first job.
    pub(super) fn new(load: Loader, options: &Options, mut connections: Connections<'a>) -> Result<Self, Failure> {
        if options.shadow {
            warn!(
                "SHADOW RUN: all tasks compute, and no output writes anything; what one would write is its value `applied`"
            );
        }
        // Many tasks soon exhaust the default limit of open files. If raising it is refused, the old limit stays.
        let _ = descriptors::raise_limit();
        let listen = |path| StatusSocket::listen(path, options.status_readers);
        let status = options.status_socket.as_deref().map(listen).transpose();
        let status = status.map_err(|reason| Failure::System("the status socket", reason))?;
        signals::catch_interrupts().map_err(|reason| Failure::System("handling signals", reason))?;
        let output = std::mem::replace(&mut connections.output, Box::new(LogOutput));
        let (done, ended) = unbounded();
        let common = Arc::<Common>::default();
        let allowed = AllowedCpus::of_this_process();
        // These threads, and those that the builder starts, leave signals to main.
        let spawn = || {
            let failed = |what| move |reason| Failure::System(what, reason);
            let (feed, fed) = tick_feed::feed();
            let guard = Arc::new(GuardThread::default());
            crash_report::watch(guard.clone());
            let (flight, flies) =
                FlightThread::spawn(options.flight.as_ref()).map_err(failed("the flight recorder's thread"))?;
            let plan = || {
                PlanFile::at(
                    options.safe_plan.clone(),
                    options.status_readers,
                    options.left_plans.clone(),
                    options.turn.clone(),
                    common.clone(),
                )
            };
            Ok::<_, Failure>(Threads {
                flight,
                metrics: MetricsThread::spawn(output, feed, flies).map_err(failed("the metrics thread"))?,
                recorder: RecorderThread::spawn(fed, common.of()).map_err(failed("the recorder thread"))?,
                builder: Builder::spawn(
                    load,
                    Site::of(common.clone(), options.roots.clone()),
                    guard.clone(),
                    plan(),
                    allowed.clone(),
                    done,
                )
                .map_err(failed("the builder thread"))?,
                guard,
            })
        };
        let threads = thread::with_signals_blocked(spawn);
        let threads = threads.map_err(|reason| Failure::System("blocking signals", reason))??;
        let set = RunningSet::new(options.length, options.shadow);
        threads.builder.prepare(set.sections.clone(), set.joints.clone(), set.held());
        Ok(Self {
            host: Host::read(),
            started: KernelClock::realtime().now(),
            set,
            threads,
            cool: CoolCpus::new(allowed),
            connections,
            ended,
            status,
            waiting: None,
            views: Views::default(),
            looked: Instant::ZERO,
            notices: ServiceNotices::new(),
            cpu_limit: CpuLimit::of_this_process(KernelClock::monotonic().now()),
            reloads: Reloads::default(),
            reload_began: Instant::ZERO,
            long_wait: LongWait::default(),
            phase: Phase::Preparing,
            ending: Ending::new(options.stop_timeout),
            wait: Span::ZERO,
            deaths: helper::deaths(),
            faults: Vec::new(),
            reopened: common.of(),
            changed: 0,
        })
    }
}
