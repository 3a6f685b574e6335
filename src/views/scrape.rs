//! The page that Prometheus scrapes: a snapshot as metrics. Pure.

use super::exposition::{Exposition, Format, Kind, bound};
use super::totals::Totals;
use crate::metrics::Cause;
use crate::snapshot::{
    Added, AlarmSummary, BOUNDS, ReadbackSummary, Summary, Sums, TaskState, TaskSummary, WorkerSummary,
};
use crate::time::Span;

/// The states of a task, each with its own series.
const STATES: [TaskState; 6] = [
    TaskState::Ticking,
    TaskState::Stalled,
    TaskState::Failing,
    TaskState::Waiting,
    TaskState::Disabled,
    TaskState::Ended,
];

/// A task, and the totals of all tasks with its name.
type Task<'a> = (&'a TaskSummary, &'a Sums);

/// The metrics of a snapshot and its tasks' totals. `None`: no daemon has answered, and the page reports only that.
pub(crate) fn scrape(snapshot: Option<&(Summary, Totals)>, format: Format) -> String {
    let mut page = Page(Exposition::new(format));
    page.0.family("hertzd_exporter_build", Kind::Info, "The exporter.");
    page.0.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.one(
        "hertzd_up",
        "Whether the daemon has answered this scrape. Without an answer there are no other metrics.",
        u8::from(snapshot.is_some()),
    );
    if let Some((snapshot, totals)) = snapshot {
        page.daemon(snapshot);
        page.workers(&snapshot.workers);
        page.tasks(
            &snapshot.tasks.iter().filter_map(|task| Some((&**task, totals.of(&task.task)?))).collect::<Vec<_>>(),
        );
        page.alarms(snapshot.alarms.as_deref().unwrap_or_default());
        page.readbacks(snapshot.readbacks.as_deref().unwrap_or_default());
    }
    page.0.end()
}

struct Page(Exposition);

impl Page {
    fn one(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.0.family(name, Kind::Gauge, help);
        self.0.sample(&[], value);
    }

    fn count(&mut self, name: &str, help: &str, value: u64) {
        self.0.family(name, Kind::Counter, help);
        self.0.sample(&[], value);
    }

    fn daemon(&mut self, snapshot: &Summary) {
        let daemon = snapshot.daemon.as_deref().cloned().unwrap_or_default();
        self.0.family("hertzd_build", Kind::Info, "The daemon.");
        self.0.sample(&[("version", &daemon.version)], 1);
        self.one("hertzd_well", "Whether all is well, as `hertzd status` says.", u8::from(snapshot.well));
        self.one("hertzd_ready", "Whether every worker has run its first tick.", u8::from(daemon.ready));
        self.one("hertzd_start_time_seconds", "When the daemon started, since 1970.", seconds(daemon.started_utc_ns));
        let stale = "Age of the counts and histograms; 0 while they are current.";
        self.one("hertzd_stale_seconds", stale, seconds(daemon.stale_ns.unwrap_or(0)));
        self.count("hertzd_reloads", "Reloads that are over, refused ones included.", daemon.reloads);
        self.count("hertzd_reloads_refused", "Reloads that were refused.", daemon.reloads_refused);
        let refused = "Whether the latest reload was refused.";
        self.one("hertzd_last_reload_refused", refused, u8::from(daemon.last_reload_refused));
        let dropped = "Records of ticks that found no room: they are missing in histograms and causes, not in counts.";
        self.count("hertzd_records", "Records of ticks that were taken.", snapshot.records.sent);
        self.count("hertzd_records_dropped", dropped, snapshot.records.dropped);
        if let Some(journal) = snapshot.journal {
            self.count("hertzd_journal_entries", "Entries that the journal has taken.", journal.sent);
            self.count("hertzd_journal_entries_lost", "Entries that the journal took too long for.", journal.lost);
        }
    }

    fn workers(&mut self, workers: &[WorkerSummary]) {
        self.0.family("hertzd_worker", Kind::Info, "What the kernel granted a worker, and the clock of its releases.");
        for worker in workers {
            let cpu = worker.cpu.map(|cpu| cpu.to_string()).unwrap_or_default();
            let priority = worker.granted.policy.priority.to_string();
            let locked = if worker.granted.memory_locked { "true" } else { "false" };
            let labels = [
                ("worker", &*worker.worker),
                ("policy", &worker.granted.policy.name),
                ("priority", &priority),
                ("cpu", &cpu),
                ("clock", &worker.clock),
                ("memory_locked", locked),
            ];
            self.0.sample(&labels, 1);
        }
        let mut each = |name: &str, kind, help: &str, value: &dyn Fn(&WorkerSummary) -> f64| {
            self.0.family(name, kind, help);
            workers.iter().for_each(|worker| self.0.sample(&[("worker", &worker.worker)], value(worker)));
        };
        each(
            "hertzd_worker_granted",
            Kind::Gauge,
            "Whether it has the policy, priority and CPUs it asks for.",
            &|worker| {
                if worker.asked.policy == worker.granted.policy && !worker.is_elsewhere() { 1.0 } else { 0.0 }
            },
        );
        each(
            "hertzd_worker_stalled_seconds",
            Kind::Gauge,
            "For how long it has not advanced; 0: it does.",
            &|worker| seconds(worker.stalled_ns.unwrap_or(0)),
        );
        let cpu = "Processor time used in the last seconds, as a share of one processor.";
        each("hertzd_worker_cpu_ratio", Kind::Gauge, cpu, &|worker| worker.cpu_share_now.unwrap_or(worker.cpu_share));
        let spin = "Time spent in spin tails since the start, as a share of one processor.";
        each("hertzd_worker_spin_ratio", Kind::Gauge, spin, &|worker| worker.spin_share);
        each("hertzd_worker_wakes", Kind::Counter, "Sleeps made.", &|worker| float(worker.wakes));
        each("hertzd_worker_clock_steps", Kind::Counter, "Steps of its clock.", &|worker| float(worker.clock_steps));
        self.0.family("hertzd_worker_oversleep_seconds", Kind::Histogram, "How late its sleeps ended.");
        workers.iter().for_each(|worker| self.spans(&[("worker", &worker.worker)], &worker.oversleep_ns.added()));
    }

    fn tasks(&mut self, tasks: &[Task<'_>]) {
        self.0.family("hertzd_task", Kind::Info, "The worker and the rate of a task, in ticks per second.");
        for (task, _) in tasks {
            self.0.sample(&[("task", &*task.task), ("worker", &task.worker), ("rate", &task.rate)], 1);
        }
        self.0.family("hertzd_task_state", Kind::Gauge, "1 for the state that the task is in.");
        for (task, _) in tasks {
            for state in STATES {
                self.0.sample(&[("task", &*task.task), ("state", state.word())], u8::from(task.state == state));
            }
        }
        let mut counter = |name: &str, help: &str, value: fn(&Sums) -> u64| {
            self.0.family(name, Kind::Counter, help);
            tasks.iter().for_each(|(task, all)| self.0.sample(&[("task", &task.task)], value(all)));
        };
        counter("hertzd_task_due", "Releases that came up.", |all| all.counts.due);
        counter("hertzd_task_met", "Ticks that finished by their deadline.", |all| all.counts.met);
        counter("hertzd_task_missed", "Releases given up, and ticks that did not finish by their deadline.", |all| {
            all.counts.missed
        });
        counter("hertzd_task_ran", "Ticks run.", |all| all.counts.ran);
        counter("hertzd_task_skipped", "Releases given up.", |all| all.counts.skipped);
        counter("hertzd_task_overruns", "Ticks that finished after their deadline.", |all| all.counts.overruns);
        counter("hertzd_task_over_budget", "Ticks that ran longer than their budget.", |all| all.over_budget);
        counter("hertzd_task_errors", "Ticks that returned an error or panicked.", |all| all.errors);
        let late =
            "Ticks that used a measurement older than the task's max-latency; not part of hertzd_task_missed_total.";
        self.0.family("hertzd_task_late_chains", Kind::Counter, late);
        for (task, all) in tasks.iter().filter(|(task, _)| task.latency.is_some()) {
            self.0.sample(&[("task", &task.task)], all.late_chains);
        }
        let causes = "Missed releases by cause, once it is known: they may lag behind hertzd_task_missed_total.";
        self.0.family("hertzd_task_missed_causes", Kind::Counter, causes);
        for (task, all) in tasks {
            for cause in Cause::ALL.map(Cause::word) {
                let count = all.causes.get(cause).copied().unwrap_or(0);
                self.0.sample(&[("task", &*task.task), ("cause", cause)], count);
            }
        }
        let pending = "Releases that are due, and neither finished nor past their deadline.";
        self.0.family("hertzd_task_pending", Kind::Gauge, pending);
        tasks.iter().for_each(|(task, _)| self.0.sample(&[("task", &task.task)], task.counts.pending.unwrap_or(0)));
        let worst = "The largest lateness of the last ten seconds, also of releases given up.";
        self.0.family("hertzd_task_worst_lateness_seconds", Kind::Gauge, worst);
        for (task, window) in tasks.iter().filter_map(|(task, _)| Some((task, task.last_10s?))) {
            self.0.sample(&[("task", &task.task)], seconds(window.lateness_max_ns));
        }
        let mut histogram = |name: &str, help: &str, spans: fn(&Sums) -> &Added| {
            self.0.family(name, Kind::Histogram, help);
            tasks.iter().for_each(|(task, all)| self.spans(&[("task", &task.task)], spans(all)));
        };
        let late = "Start of a tick after its release; a release given up counts at the lateness it had then.";
        histogram("hertzd_tick_lateness_seconds", late, |all| &all.lateness_ns);
        histogram("hertzd_tick_run_seconds", "Wall time from the start of a tick to its end.", |all| &all.run_ns);
        let response = "End of a tick after its release.";
        histogram("hertzd_tick_response_seconds", response, |all| &all.response_ns);
        let age =
            "Where a chain ends: how old the oldest measurement behind what a tick used was when it had finished.";
        self.0.family("hertzd_tick_age_seconds", Kind::Histogram, age);
        for (task, ages) in tasks.iter().filter_map(|(task, all)| Some((task, all.age_ns.as_ref()?))) {
            self.spans(&[("task", &task.task)], ages);
        }
        self.values(tasks);
        self.held(tasks);
        self.recordings(tasks);
    }

    fn values<'a>(&mut self, tasks: &[Task<'a>]) {
        let values = || {
            let all = |&(task, _): &Task<'a>| {
                let TaskSummary { task, values, .. } = task;
                values.iter().filter_map(move |(name, value)| Some((task, name, value, value.last?)))
            };
            tasks.iter().flat_map(all)
        };
        self.0.family("hertzd_task_value", Kind::Gauge, "The latest of a value, in the unit of its label.");
        for (task, name, value, last) in values() {
            self.0.sample(&[("task", &**task), ("value", name), ("unit", &value.unit)], last);
        }
        let bad = "1 while a value is bad, with the reason; it then has no hertzd_task_value.";
        self.0.family("hertzd_task_value_bad", Kind::Gauge, bad);
        for (task, _) in tasks {
            for (name, value) in &task.values {
                if let Some(reason) = &value.reason {
                    self.0.sample(&[("task", &*task.task), ("value", name), ("reason", reason)], 1_u64);
                }
            }
        }
        let bad = "1 while a task cannot use a value that it takes, with the reason.";
        self.0.family("hertzd_task_input_bad", Kind::Gauge, bad);
        for (task, _) in tasks {
            for (name, input) in &task.inputs {
                self.0.sample(&[("task", &*task.task), ("input", name), ("reason", &input.reason)], 1_u64);
            }
        }
        let age = "Time since the start of the tick that had the latest of a value.";
        self.0.family("hertzd_task_value_age_seconds", Kind::Gauge, age);
        for (task, name, value, _) in values() {
            if let Some(age) = value.age_ns {
                self.0.sample(&[("task", &**task), ("value", name)], seconds(age));
            }
        }
    }

    /// Outputs held by another thread, because their tasks cannot act.
    fn held(&mut self, tasks: &[Task<'_>]) {
        let held = || tasks.iter().filter_map(|(task, _)| Some((&*task.task, task.held.as_ref()?)));
        let since =
            "How long another thread than its task has held the target of an output. Label safe: at its safe value.";
        self.0.family("hertzd_output_held_seconds", Kind::Gauge, since);
        for (task, held) in held() {
            let safe = if held.is_safe { "true" } else { "false" };
            self.0.sample(&[("task", task), ("safe", safe)], seconds(held.since_ns));
        }
    }

    fn recordings(&mut self, tasks: &[Task<'_>]) {
        let lost = "Rows, blocks and ticks that found no room in memory or on the disk.";
        let families = [
            ("hertzd_recording_rows", "Rows of values written."),
            ("hertzd_recording_bytes", "Bytes written."),
            ("hertzd_recording_lost", lost),
        ];
        for (index, (name, help)) in families.into_iter().enumerate() {
            self.0.family(name, Kind::Counter, help);
            for (task, recorded) in tasks.iter().filter_map(|(task, _)| Some((task, task.recorded.as_ref()?))) {
                let count = [recorded.rows, recorded.bytes, recorded.lost][index];
                self.0.sample(&[("task", &task.task)], count);
            }
        }
    }

    fn alarms(&mut self, alarms: &[AlarmSummary]) {
        let mut each = |name: &str, help: &str, value: fn(&AlarmSummary) -> f64| {
            self.0.family(name, Kind::Gauge, help);
            for alarm in alarms {
                self.0.sample(&[("task", &*alarm.task), ("severity", &alarm.severity)], value(alarm));
            }
        };
        each("hertzd_alarm_active", "Whether the alarm is active.", |alarm| f64::from(u8::from(alarm.active)));
        let latched = "Whether its level lasts only because of its latch: the value has come back from it.";
        each("hertzd_alarm_latched", latched, |alarm| f64::from(u8::from(alarm.latched)));
        let since = "For how long it has been active; 0: it is not.";
        each("hertzd_alarm_active_seconds", since, |alarm| seconds(alarm.since_ns.unwrap_or(0)));
    }

    fn readbacks(&mut self, readbacks: &[ReadbackSummary]) {
        let mut count = |name: &str, help: &str, count: fn(&ReadbackSummary) -> u64| {
            self.0.family(name, Kind::Counter, help);
            readbacks.iter().for_each(|one| self.0.sample(&[("task", &one.task)], count(one)));
        };
        let differences = "How often what an output's target held began to differ from what was written to it.";
        count("hertzd_readback_compared", "Readings of an output's target that were compared.", |one| one.compared);
        count("hertzd_readback_differences", differences, |one| one.differences);
        count("hertzd_readback_unreadable", "Readings of an output's target that failed.", |one| one.unreadable);
        let differs = "Whether an output's target held something else than was written to it, at its latest reading.";
        self.0.family("hertzd_readback_differs", Kind::Gauge, differs);
        readbacks.iter().for_each(|one| self.0.sample(&[("task", &one.task)], u8::from(one.state == "differs")));
    }

    fn spans(&mut self, labels: &[(&str, &str)], spans: &Added) {
        let at_most = BOUNDS.iter().map(|nanos| (bound(*nanos), spans.at_most.at(*nanos)));
        self.0.histogram(labels, at_most, spans.count, seconds(Span::from_wide(spans.sum.max(0)).nanos()));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a float is all that a scrape holds")]
fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "a float is all that a scrape holds")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_snapshot_becomes_metrics_in_base_units() {
        let spans = json!({"count": 9, "sum": 4_500_000, "at_most": [[100_000, 2], [500_000_000, 8]]});
        let snapshot = json!({"well": false, "daemon": {"pid": 7, "version": "0.1.0", "started_utc_ns": 1_500_000_000_i64},
            "workers": [{"worker": "main", "cpu": 1, "granted": {"policy": "other"}, "asked": {"policy": "fifo", "priority": 80}}],
            "tasks": [{"task": "imu", "worker": "main", "rate": "1000/1", "state": "failing", "due": 12, "missed": 3,
                "causes": {"blocked": 2, "own-debt": 1}, "max_latency_ns": 9, "late_chains": 4, "lateness_ns": spans, "age_ns": spans, "last_10s": {"lateness_max_ns": 20_000_000},
                "values": {"temp": {"last": 21.5, "unit": "°C", "age_ns": 1_000_000}, "none": {"last": null}},
                "recorded": {"rows": 5, "lost": 1}, "held": {"is_safe": true, "since_ns": 1_500_000_000}}],
            "alarms": [{"task": "hot", "active": true, "level": "high", "severity": "error", "value": 81.5, "since_ns": 2_500_000_000_i64},
                {"task": "cold", "level": "normal", "severity": "notice", "value": null}],
            "readbacks": [{"task": "fan", "compared": 9, "differences": 2, "state": "differs"}]});
        let mut totals = Totals::default();
        let snapshot: Summary = serde_json::from_value(snapshot).unwrap();
        totals.go_on(&snapshot);
        let text = scrape(Some(&(snapshot, totals)), Format::Text);
        for line in [
            "hertzd_up 1",
            "hertzd_well 0",
            "hertzd_build_info{version=\"0.1.0\"} 1",
            "hertzd_start_time_seconds 1.5",
            "hertzd_worker_granted{worker=\"main\"} 0",
            "hertzd_task_state{task=\"imu\",state=\"failing\"} 1",
            "hertzd_task_state{task=\"imu\",state=\"ticking\"} 0",
            "hertzd_task_missed_total{task=\"imu\"} 3",
            "hertzd_task_missed_causes_total{task=\"imu\",cause=\"blocked\"} 2",
            "hertzd_task_late_chains_total{task=\"imu\"} 4",
            "hertzd_task_missed_causes_total{task=\"imu\",cause=\"throttled\"} 0",
            "hertzd_task_worst_lateness_seconds{task=\"imu\"} 0.02",
            "hertzd_tick_lateness_seconds_bucket{task=\"imu\",le=\"5e-05\"} 0",
            "hertzd_tick_lateness_seconds_bucket{task=\"imu\",le=\"0.2\"} 2",
            "hertzd_tick_lateness_seconds_bucket{task=\"imu\",le=\"1.0\"} 8",
            "hertzd_tick_lateness_seconds_bucket{task=\"imu\",le=\"+Inf\"} 9",
            "hertzd_tick_lateness_seconds_sum{task=\"imu\"} 0.0045",
            "hertzd_tick_age_seconds_bucket{task=\"imu\",le=\"1.0\"} 8",
            "hertzd_tick_age_seconds_count{task=\"imu\"} 9",
            "hertzd_task_value{task=\"imu\",value=\"temp\",unit=\"°C\"} 21.5",
            "hertzd_task_value_age_seconds{task=\"imu\",value=\"temp\"} 0.001",
            "hertzd_recording_lost_total{task=\"imu\"} 1",
            "hertzd_output_held_seconds{task=\"imu\",safe=\"true\"} 1.5",
            "hertzd_alarm_active{task=\"hot\",severity=\"error\"} 1",
            "hertzd_alarm_active{task=\"cold\",severity=\"notice\"} 0",
            "hertzd_alarm_latched{task=\"hot\",severity=\"error\"} 0",
            "hertzd_alarm_active_seconds{task=\"hot\",severity=\"error\"} 2.5",
            "hertzd_alarm_active_seconds{task=\"cold\",severity=\"notice\"} 0",
            "hertzd_readback_compared_total{task=\"fan\"} 9",
            "hertzd_readback_differences_total{task=\"fan\"} 2",
            "hertzd_readback_unreadable_total{task=\"fan\"} 0",
            "hertzd_readback_differs{task=\"fan\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
        assert!(!text.contains("none"), "{text}");
    }

    #[test]
    fn without_a_daemon_there_is_nothing_but_that() {
        let text = scrape(None, Format::OpenMetrics);
        assert!(
            text.contains("\nhertzd_up 0\n") && !text.contains("hertzd_task") && text.ends_with("# EOF\n"),
            "{text}"
        );
    }
}
