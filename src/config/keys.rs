//! The keys common to all workers and all tasks.

use super::choices::{ClockKind, LimitAction, OnError, TakeEvidence};
use super::key::{Key, Rule, Value, words};
use crate::channels::Queue;
use crate::pacing::Overrun;
use crate::time::Span;

/// How the kernel schedules a worker, before its parameters are read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Policy {
    Fifo,
    Rr,
    Deadline,
    Other,
}

pub(super) const POLICIES: [(&str, Policy); 4] =
    [("fifo", Policy::Fifo), ("rr", Policy::Rr), ("deadline", Policy::Deadline), ("other", Policy::Other)];
pub(super) const CLOCKS: [(&str, ClockKind); 3] = {
    use ClockKind::{Monotonic, Realtime, Tai};
    [(Monotonic.word(), Monotonic), (Tai.word(), Tai), (Realtime.word(), Realtime)]
};
pub(super) const EVIDENCES: [(&str, TakeEvidence); 3] =
    [("off", TakeEvidence::Off), ("wake", TakeEvidence::Wake), ("tick", TakeEvidence::Tick)];
/// The parameters have their own keys.
pub(super) const OVERRUNS: [(&str, Overrun); 5] = [
    ("drop", Overrun::Drop),
    ("keep-working", Overrun::KeepWorking),
    ("catch-up", Overrun::CatchUp { max: 1 }),
    ("credit", Overrun::Credit { max_debt: Span::ZERO }),
    ("delay", Overrun::Delay),
];
pub(super) const LIMIT_ACTIONS: [(&str, LimitAction); 3] =
    [("warn", LimitAction::Warn), ("disable", LimitAction::Disable), ("exit", LimitAction::Exit)];
pub(super) const ON_ERRORS: [(&str, OnError); 3] =
    [("continue", OnError::Continue), ("disable", OnError::Disable), ("exit", OnError::Exit)];
pub(super) const QUEUES: [(&str, Queue); 2] = [("fifo", Queue::Fifo), ("mailbox", Queue::Mailbox)];

pub(super) const CPU: Key = Key::new(
    "cpu",
    Value::Cpu,
    "The CPU that the thread is pinned to, so that it never waits for a migration. It must be online.",
)
.otherwise("not pinned")
.excludes(&["cpus"])
.rules(NOT_PINNED);
pub(super) const CPUS: Key =
    Key::new("cpus", Value::Cpus, "The CPUs that the thread may move between, each named once. All must be online.")
        .otherwise("not pinned")
        .rules(NOT_PINNED);
const NOT_PINNED: &[Rule] = &[Rule::unless("policy", &["deadline"])
    .message("the kernel cannot pin a thread with policy = \"deadline\"; remove one of the two")];
pub(super) const POLICY: Key = Key::new(
    "policy",
    Value::Choice(&words(&POLICIES)),
    "The kernel's scheduling policy. All but `\"other\"` are real-time and need a privilege. Under `\"deadline\"` the \
     kernel chooses the CPU.",
)
.default("\"fifo\"");
pub(super) const PRIORITY: Key = Key::new(
    "priority",
    Value::Integer { min: 1, max: 99 },
    "Real-time priority; higher runs first. Interrupt threads run at 50, the kernel's own watchdogs at 99.",
)
.default("80")
.rules(&[Rule::when("policy", &["fifo", "rr"])]);
pub(super) const RUNTIME: Key = Key::new(
    "runtime",
    Value::Duration { min: Span::from_nanos(1_024), max: Span::MAX }, // the kernel's own limit
    "Processor time granted in each period, for ticks and spin tails; at most the shortest period of the worker's tasks.",
)
.otherwise("half the shortest period of the worker's tasks, and the spin tails")
.rules(&[Rule::when("policy", &["deadline"])]);
pub(super) const SPIN: Key = Key::new(
    "spin",
    Value::Spin,
    "How long before a release the thread stays awake, so that an oversleep of the kernel does not delay the task. A \
     fixed length costs rate × length of a CPU, at most 80 %, because Linux stops a real-time thread that never sleeps; \
     `\"auto\"` follows the measured oversleeps.",
)
.default("\"off\"");
pub(super) const SPIN_CPU_MAX: Key = Key::new(
    "spin-cpu-max",
    Value::Percent { zero: false, max: 50 },
    "The most that `spin = \"auto\"` may cost of one CPU.",
)
.default("\"5%\"")
.rules(&[Rule::when("spin", &["auto"])]);
pub(super) const SPIN_TARGET: Key = Key::new(
    "spin-target",
    Value::SpinTarget,
    "The lateness that `spin = \"auto\"` is to reach as cheaply as possible, e.g. `\"p99 < 1us\"`. If `spin-cpu-max` does not pay for \
     it, or wake-ups are later than the longest tail, the summary says so.",
)
.otherwise("as much as `spin-cpu-max` pays for, up to the 99.9th percentile of oversleeps")
.rules(&[Rule::when("spin", &["auto"])]);
pub(super) const CLOCK: Key = Key::new(
    "clock",
    Value::Choice(&words(&CLOCKS)),
    "The clock that releases are computed on. `\"tai\"` and `\"realtime\"` align ticks across machines that show the \
     same time, and follow when that time is set; durations are always measured on the monotonic clock.",
)
.default("\"monotonic\"");
pub(super) const EVIDENCE: Key = Key::new(
    "evidence",
    Value::Choice(&words(&EVIDENCES)),
    "When the thread asks the kernel for the evidence that a missed release is explained by: processor time, switches, \
     page faults. `\"wake\"` costs one system call (about 0.4 µs) a wake-up, before the sleep, and about 2 µs after a tick \
     in which something was missed; `\"tick\"` about 1 µs after each tick, which also tells apart the ticks that share a \
     wake-up; with `\"off\"` most causes are `unknown`.",
)
.default("\"wake\"");
pub(super) const REQUIRE_REALTIME: Key = Key::new(
    "require-realtime",
    Value::Bool,
    "Whether to refuse to start, with exit code 77, or to reload, when the kernel does not grant the policy. A worker that \
     loses the bandwidth of `\"deadline\"` to another program while a reload restarts it ends the run, with exit code 70. \
     Otherwise the refusal is logged and the worker runs without it.",
)
.default("false")
.rules(&[Rule::unless("policy", &["other"])]);

/// The keys of `[worker.NAME]`.
pub(crate) const WORKER_KEYS: &[Key] =
    &[CPU, CPUS, POLICY, PRIORITY, RUNTIME, SPIN, SPIN_CPU_MAX, SPIN_TARGET, CLOCK, EVIDENCE, REQUIRE_REALTIME];

pub(super) const OVERSLEEP: Key = Key::new(
    "oversleep",
    Value::Durations,
    "How late each sleep ends. The values of a list are used in turn, cyclically.",
)
.default("\"0s\"");

/// The keys of `[worker.NAME.simulate]`, read only by `hertzd simulate`.
pub(crate) const WORKER_SIMULATE_KEYS: &[Key] = &[OVERSLEEP];

pub(super) const KIND: Key = Key::new("kind", Value::Kind, "What the task does.").required("");
pub(super) const WORKER: Key = Key::new(
    "worker",
    Value::Text,
    "The worker that runs the task. Required when several are declared. When none is, there is one named `main` with all \
     defaults.",
)
.otherwise("the only worker");
pub(super) const RATE: Key = Key::new("rate", Value::Rate, "Ticks per second, exact.")
    .required_unless(&["period"], "write rate (\"1 kHz\") or period (\"1ms\")")
    .excludes(&["period"]);
pub(super) const PERIOD: Key = Key::new(
    "period",
    Value::Duration { min: Span::from_micros(1), max: Span::from_seconds(86_400) },
    "Time from tick to tick, in place of `rate`.",
);
pub(super) const PHASE: Key = Key::new(
    "phase",
    Value::Duration { min: Span::ZERO, max: Span::MAX },
    "Offset of the task's releases from the worker's epoch, less than one period. Use it to keep tasks apart.",
)
.default("\"0s\"");
pub(super) const OVERRUN: Key = Key::new(
    "overrun",
    Value::Choice(&words(&OVERRUNS)),
    "What happens to releases that came up while the task could not run: skip all, keep the latest, keep the latest few, \
     keep all within a cap, or move the grid.",
)
.default("\"keep-working\"");
pub(super) const MAX_CATCH_UP: Key = Key::new(
    "max-catch-up",
    Value::Integer { min: 1, max: 1_000_000 },
    "How many missed releases are kept. The cap prevents a death spiral.",
)
.default("4")
.rules(&[Rule::when("overrun", &["catch-up"])]);
pub(super) const MAX_DEBT: Key = Key::new("max-debt", Value::DURATION, "Greatest age of a release that is kept.")
    .default("\"1s\"")
    .rules(&[Rule::when("overrun", &["credit"])]);
pub(super) const DEADLINE: Key = Key::new(
    "deadline",
    Value::DURATION,
    "Latest allowed finish after the release. A tick that ends later is an overrun. May be longer than a period.",
)
.otherwise("one period");
pub(super) const MAX_MISSED: Key = Key::new(
    "max-missed",
    Value::Percent { zero: true, max: 100 },
    "Share of the releases of the last 10 s that may be missed, of its ticks that may fail, or that the program of a `process` may \
     leave without an answer in time, before `hertzd status` is not well. Nothing else follows from it.",
)
.default("\"1%\"");
pub(super) const OVERRUN_LIMIT: Key = Key::new(
    "overrun-limit",
    Value::Integer { min: 1, max: 1_000_000 },
    "Overruns tolerated at once. One more triggers `on-overrun-limit` and resets the count. `hertzd simulate` ignores it.",
)
.otherwise("no limit");
const LIMITED: &[Rule] = &[Rule::with(&["overrun-limit"])];
pub(super) const OVERRUN_LEAK: Key = Key::new(
    "overrun-leak",
    Value::DURATION,
    "Each time this has passed, one overrun is forgiven, so overruns further apart never add up.",
)
.default("\"1s\"")
.rules(LIMITED);
pub(super) const ON_OVERRUN_LIMIT: Key = Key::new(
    "on-overrun-limit",
    Value::Choice(&words(&LIMIT_ACTIONS)),
    "What happens when the limit is exceeded: a warning, the end of this task, or the end of hertzd with exit code 70.",
)
.default("\"warn\"")
.rules(LIMITED);
pub(super) const BUDGET: Key = Key::new(
    "budget",
    Value::DURATION,
    "Longest allowed run, at most the deadline. `hertzd check` uses it to tell whether all deadlines can be met. A tick \
     that exceeds it is counted (`over_budget`) and logged, but not interrupted.",
);
pub(super) const ON_ERROR: Key = Key::new(
    "on-error",
    Value::Choice(&words(&ON_ERRORS)),
    "What follows a tick that failed or panicked: the next tick, the end of this task, or the end of hertzd with exit code \
     70. Without this key a panic ends the task.",
)
.default("\"continue\"");
pub(super) const VALID: Key = Key::new(
    "valid",
    Value::Ranges,
    "The range outside which the task's values are bad, for the tasks that take them: `[LOW, HIGH]` for all, or a table such as \
     `{ temp1 = [0, 120] }`. What is no finite number is always bad.",
)
.otherwise("any finite number is good");
pub(super) const MAX_AGE: Key = Key::new(
    "max-age",
    Value::DURATION,
    "How long ago the oldest measurement behind a value that the task takes may have been released: an older one is stale, and \
     read as no value. Only for a task that takes values of others.",
)
.otherwise("three times the sum of the periods along the chain, the task's own included");
pub(super) const HOLD: Key = Key::new(
    "hold",
    Value::DurationsByValue,
    "How long the task uses the last good value in place of one that is bad, stale or missing: one duration for all its inputs, or a table of \
     the values it takes, such as `{ \"oven.temp\" = \"2s\" }`. What is computed from it is held, and keeps the age of its measurement.",
)
.otherwise("a value that is not good is not used");
pub(super) const STUCK_AFTER: Key = Key::new(
    "stuck-after",
    Value::DurationsByValue,
    "A value of the task that has not changed at all for this long is bad (`stuck`) until it changes: one duration for all its values, or a \
     table such as `{ temp1 = \"10s\" }`. For measurements with noise, which never stand still: a frozen sensor shows the same number for ever. \
     Counts of a task stand still when all is well, so name the measurements beside them.",
)
.otherwise("a value may stay the same");
pub(super) const MAX_LATENCY: Key = Key::new(
    "max-latency",
    Value::DURATION,
    "How old the oldest measurement behind what the task uses may be when its tick has finished. A tick that used an older one is a late \
     chain: it is counted (`late_chains`) and logged, with the measurement that was old. Only for a task that takes values of others.",
);
pub(super) const RECORD: Key = Key::new(
    "record",
    Value::PathEnding(&["csv", "wav", "mcap"]),
    "File that the task is recorded to. Its ending chooses the format: `.csv` (values, or buffered samples), `.wav` (sound) \
     or `.mcap` (everything; several tasks can share one file).",
);
const RECORDED: Rule = Rule::with(&["record"]);
pub(super) const QUEUE: Key = Key::new(
    "queue",
    Value::Choice(&words(&QUEUES)),
    "What happens to values, samples and pictures that come faster than the recorder takes them, 20 times a second: with \
     `\"fifo\"` all are kept until the queue is full, then the newest is dropped and, if it would be recorded, counted (`min`, \
     `max` and `last` of the summary have it all the same); with `\"mailbox\"` only the latest is kept. Only for a task with values or a recording.",
)
.default("\"fifo\"");
pub(super) const RECORD_MAX_SIZE: Key = Key::new(
    "record-max-size",
    Value::Size { min: 64_000 },
    "Size at which the recording continues in a new file; at most 4 GB for `.wav`.",
)
.otherwise("no limit")
.rules(&[RECORDED]);
pub(super) const RECORD_MAX_TIME: Key = Key::new(
    "record-max-time",
    Value::Duration { min: Span::from_seconds(1), max: Span::MAX },
    "Age at which the recording continues in a new file.",
)
.otherwise("no limit")
.rules(&[RECORDED]);
pub(super) const RECORD_KEEP: Key = Key::new(
    "record-keep",
    Value::Integer { min: 1, max: 1_000_000 },
    "How many finished files of the recording are kept beside the current one; the oldest are deleted. For CSV only with \
     `record-max-size` or `record-max-time`.",
)
.otherwise("all")
.rules(&[RECORDED]);
pub(super) const RECORD_RAW: Key = Key::new(
    "record-raw",
    Value::Bool,
    "Also record the number of each value as the task gave it, as `NAME raw`: for a bad value that is what was not used.",
)
.default("false")
.rules(&[RECORDED]);

/// The keys of `[task.NAME]` common to all kinds.
pub(crate) const TASK_KEYS: &[Key] = &[
    KIND,
    WORKER,
    RATE,
    PERIOD,
    PHASE,
    OVERRUN,
    MAX_CATCH_UP,
    MAX_DEBT,
    DEADLINE,
    MAX_MISSED,
    OVERRUN_LIMIT,
    OVERRUN_LEAK,
    ON_OVERRUN_LIMIT,
    BUDGET,
    ON_ERROR,
    VALID,
    STUCK_AFTER,
    MAX_AGE,
    HOLD,
    MAX_LATENCY,
    RECORD,
    QUEUE,
    RECORD_MAX_SIZE,
    RECORD_MAX_TIME,
    RECORD_KEEP,
    RECORD_RAW,
];

pub(super) const RUN: Key =
    Key::new("run", Value::Durations, "How long each tick takes. The values of a list are used in turn, cyclically.")
        .otherwise("what the kind knows, else the `budget`, else `\"0s\"`");

pub(super) const VALUES: Key = Key::new(
    "values",
    Value::Path,
    "A CSV as a recording writes it, whose values are those of the task: at each tick those of the latest row at or before its release, both \
     counted from the first.",
)
.excludes(&["plant"]);
pub(super) const PLANT: Key = Key::new(
    "plant",
    Value::Table(PLANT_KEYS),
    "A model of what the task measures, driven by a value of another task, whose output is a value of this one.",
);
pub(super) const FAILS_AT: Key = Key::new(
    "fails-at",
    Value::Duration { min: Span::ZERO, max: Span::MAX },
    "From this time of the run on its ticks fail, as those of a sensor that does not answer: what it shows then of alarms and safe states.",
)
.rules(&[Rule::with(&["values", "plant"])]);
pub(super) const FAILS_FOR: Key = Key::new("fails-for", Value::DURATION, "For how long they fail.")
    .otherwise("until the end")
    .rules(&[Rule::with(&["fails-at"])]);

/// The keys of `[task.NAME.simulate]`, read only by `hertzd simulate`.
pub(crate) const TASK_SIMULATE_KEYS: &[Key] = &[RUN, VALUES, PLANT, FAILS_AT, FAILS_FOR];

/// The keys of `[task.NAME.simulate.plant]`.
pub(crate) const PLANT_KEYS: &[Key] =
    &[PLANT_INPUT, PLANT_VALUE, GAIN, TIME_CONSTANT, NATURAL_FREQUENCY, DAMPING, DEAD_TIME, OFFSET, INITIAL];

pub(super) const PLANT_INPUT: Key = Key::new(
    "input",
    Value::Input,
    "What drives it, such as `\"control.out\"`: each value acts from the end of its tick on, so that the plant may close a cycle. Until there is one, \
     0, or the number in `{ previous = \"TASK.VALUE\", initial = NUMBER }`.",
)
.required("name what drives the plant, such as \"control.out\"");
pub(super) const PLANT_VALUE: Key =
    Key::new("value", Value::ValueName, "Which value of the task the plant's output is, such as `\"temp1\"`.")
        .required("name the value of the task that the plant makes, such as \"temp1\"");
pub(super) const GAIN: Key =
    Key::new("gain", Value::Number, "Change of the output per unit of input, once all has settled.").default("1");
pub(super) const TIME_CONSTANT: Key = Key::new(
    "time-constant",
    Value::Durations,
    "Time constant of a plant of first order; a list of two for one of second order, a first-order lag behind another.",
)
.required_unless(&["natural-frequency"], "write how long the plant takes, such as \"60s\"")
.excludes(&["natural-frequency"]);
pub(super) const NATURAL_FREQUENCY: Key = Key::new(
    "natural-frequency",
    Value::Positive,
    "Undamped natural frequency of a plant of second order, in radians per second.",
)
.rules(&[Rule::with(&["damping"]).advice("write both")]);
pub(super) const DAMPING: Key = Key::new(
    "damping",
    Value::Number,
    "Damping ratio of a plant of second order: below 1 it overshoots by itself; not negative.",
)
.rules(&[Rule::with(&["natural-frequency"]).advice("write both")]);
pub(super) const DEAD_TIME: Key = Key::new(
    "dead-time",
    Value::Duration { min: Span::ZERO, max: Span::MAX },
    "How long a change of the input has no effect at all; at most 1,000,000 periods.",
)
.default("\"0s\"");
pub(super) const OFFSET: Key =
    Key::new("offset", Value::Number, "The output for an input of 0, such as the temperature of the room.")
        .default("0");
pub(super) const INITIAL: Key = Key::new("initial", Value::Number, "The output at the first tick.")
    .otherwise("at rest: `offset`, and `gain` times the first input");

/// What a worker or a task may be called, as a regular expression.
pub(super) const NAME_PATTERN: &str = "^[A-Za-z0-9_-]{1,64}$";
