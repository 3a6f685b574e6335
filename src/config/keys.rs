//! Every key there is, with its values, its default and its reason: the one source of the reference manual, the JSON
//! schema and the suggestions. Plain constants.

/// One key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it is written, in kebab-case.
    pub name: &'static str,
    /// What may stand behind it.
    pub value: Value,
    /// What holds when it is absent, as TOML or in words; empty for nothing.
    pub default: &'static str,
    /// Range and reason in a sentence or two.
    pub about: &'static str,
}

/// The values that a key can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A length of time: `"250us"`.
    Duration,
    /// A length of time, or a list of them.
    Durations,
    /// Ticks per second: `1000`, `"60 Hz"`, `"30000/1001"`.
    Rate,
    /// A whole number.
    Integer {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A whole number, or any text.
    IntegerOrText {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A number with or without a fraction.
    Number,
    /// Any text.
    Text,
    /// A list of texts.
    Texts,
    /// The path of a file.
    Path,
    /// A share: `"5%"`.
    Percent,
    /// A number of bytes: `"100 MB"`.
    Size,
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The number of a CPU.
    Cpu,
    /// A list of CPUs.
    Cpus,
    /// `"off"`, `"auto"` or a length of time.
    Spin,
    /// The name of a kind of task.
    Kind,
    /// A list of tables with these keys: `[[task.NAME.KEY]]`.
    Tables(&'static [Key]),
    /// Whatever the kind makes of it.
    Any,
}

/// The keys of `[worker.NAME]`.
pub const WORKER_KEYS: &[Key] = &[
    Key {
        name: "cpu",
        value: Value::Cpu,
        default: "not pinned",
        about: "The CPU the thread is pinned to, so that it never waits for a migration. It must be online.",
    },
    Key {
        name: "cpus",
        value: Value::Cpus,
        default: "not pinned",
        about: "The CPUs the thread may move between; instead of `cpu`.",
    },
    Key {
        name: "policy",
        value: Value::Choice(&["fifo", "rr", "deadline", "other"]),
        default: "\"fifo\"",
        about: "The kernel's scheduling policy. All but \"other\" are real-time and need a privilege; \"deadline\" \
                chooses the CPU itself and excludes `cpu`, `cpus` and `priority`.",
    },
    Key {
        name: "priority",
        value: Value::Integer { min: *PRIORITY.start(), max: *PRIORITY.end() },
        default: "80",
        about: "Real-time priority under \"fifo\" and \"rr\"; higher runs first. Interrupt threads run at 50, the \
                kernel's own watchdogs at 99.",
    },
    Key {
        name: "runtime",
        value: Value::Duration,
        default: "half the shortest period of the worker's tasks",
        about: "Processor time granted in each shortest period under \"deadline\": from 1024ns to that period.",
    },
    Key {
        name: "spin",
        value: Value::Spin,
        default: "\"off\"",
        about: "How long before a release the thread stays awake, so that the kernel's oversleep never reaches the \
                task. A fixed length costs rate times length of a CPU, at most 80 %, because a real-time thread that \
                always spins is stopped by the kernel; \"auto\" follows the oversleeps measured.",
    },
    Key {
        name: "spin-cpu-max",
        value: Value::Percent,
        default: "\"5%\"",
        about: "The most that spin = \"auto\" may cost: above 0 % and at most 50 % of one CPU.",
    },
    Key {
        name: "clock",
        value: Value::Choice(&["monotonic", "tai", "realtime"]),
        default: "\"monotonic\"",
        about: "The clock that releases lie on. The last two align ticks across machines, and jump when they are set.",
    },
    Key {
        name: "require-realtime",
        value: Value::Bool,
        default: "false",
        about: "Whether to refuse to start (exit 77) when the policy is not granted, instead of saying so and running.",
    },
];

/// The keys of `[worker.NAME.simulate]`, read by `hertzd simulate` only.
pub const WORKER_SIMULATE_KEYS: &[Key] = &[Key {
    name: "oversleep",
    value: Value::Durations,
    default: "\"0s\"",
    about: "How much too late each sleep ends, one after the other and from the start again; zero is allowed.",
}];

/// The keys of `[task.NAME]` that every kind has.
pub const TASK_KEYS: &[Key] = &[
    Key { name: "kind", value: Value::Kind, default: "", about: "What the task does. Required." },
    Key {
        name: "worker",
        value: Value::Text,
        default: "the only worker",
        about: "The worker that runs the task. Required when several are declared; without any there is one named \
                \"main\" with all defaults.",
    },
    Key {
        name: "rate",
        value: Value::Rate,
        default: "",
        about: "Ticks per second, exact: from one in 24 hours to 1 MHz. Exactly one of `rate` and `period`, \
                in the file and its drop-ins together: a drop-in that changes it overrides the key that is there.",
    },
    Key {
        name: "period",
        value: Value::Duration,
        default: "",
        about: "Time from tick to tick, instead of `rate`: from 1us to 24h.",
    },
    Key {
        name: "phase",
        value: Value::Duration,
        default: "\"0s\"",
        about: "How far the task's grid lies behind the worker's epoch: below one period. Keeps tasks apart.",
    },
    Key {
        name: "overrun",
        value: Value::Choice(&["drop", "keep-working", "catch-up", "credit", "delay"]),
        default: "\"keep-working\"",
        about: "What happens to releases that came up while the task could not run: all given up, the latest kept, \
                the latest few kept, all within a cap kept, or the grid moved.",
    },
    Key {
        name: "max-catch-up",
        value: Value::Integer { min: *CATCH_UP.start(), max: *CATCH_UP.end() },
        default: "4",
        about: "How many missed releases overrun = \"catch-up\" keeps; the cap is what prevents a death spiral.",
    },
    Key {
        name: "max-debt",
        value: Value::Duration,
        default: "\"1s\"",
        about: "How far behind the oldest release that overrun = \"credit\" keeps may lie; above zero.",
    },
    Key {
        name: "deadline",
        value: Value::Duration,
        default: "one period",
        about: "Latest allowed finish after the release; above zero. A tick that ends later is an overrun.",
    },
    Key {
        name: "overrun-limit",
        value: Value::Integer { min: *OVERRUN_LIMIT.start(), max: *OVERRUN_LIMIT.end() },
        default: "no limit",
        about: "How many overruns are put up with at a time: one more, before any of them is forgiven, and \
                `on-overrun-limit` says what follows. The count starts again then.",
    },
    Key {
        name: "overrun-leak",
        value: Value::Duration,
        default: "\"1s\"",
        about: "After each such time one overrun is forgiven, so that overruns further apart never add up; above zero. \
                Only with overrun-limit.",
    },
    Key {
        name: "on-overrun-limit",
        value: Value::Choice(&["warn", "disable", "exit"]),
        default: "\"warn\"",
        about: "What follows more overruns than overrun-limit: a warning, no more ticks of this task, or the end of the \
                daemon. Only with overrun-limit.",
    },
    Key {
        name: "budget",
        value: Value::Duration,
        default: "none",
        about: "Longest allowed run; above zero and at most the deadline.",
    },
    Key {
        name: "on-error",
        value: Value::Choice(&["continue", "disable", "exit"]),
        default: "\"continue\"",
        about: "What follows a tick that failed: the next tick, no more ticks of this task, or the end of the daemon.",
    },
    Key {
        name: "record",
        value: Value::Path,
        default: "none",
        about: "File that the task is recorded to, in the format that it ends in: .csv (values, or buffered samples), .wav \
                (sound) or .mcap (everything, and of several tasks in one file).",
    },
    Key {
        name: "queue",
        value: Value::Choice(&["fifo", "mailbox"]),
        default: "\"fifo\"",
        about: "What becomes of values, samples and pictures that come faster than the recorder takes them, 20 times a \
                second: all are kept until the queue is full, then the newest is dropped and counted; or only the latest \
                is kept. Only for a task with values or a recording.",
    },
    Key {
        name: "record-max-size",
        value: Value::Size,
        default: "no limit",
        about: "The next file is begun before one would grow larger: at least 64 kB, and for .wav at most 4 GB. Only with \
                record.",
    },
    Key {
        name: "record-max-time",
        value: Value::Duration,
        default: "no limit",
        about: "The next file is begun when one is that old: at least 1s. Only with record.",
    },
    Key {
        name: "record-keep",
        value: Value::Integer { min: *RECORD_KEEP.start(), max: *RECORD_KEEP.end() },
        default: "all",
        about: "How many finished files of the recording are kept beside the one that is written; the oldest are deleted. \
                Only with record, and for CSV only with record-max-size or record-max-time.",
    },
];

/// The keys of `[task.NAME.simulate]`, read by `hertzd simulate` only.
pub const TASK_SIMULATE_KEYS: &[Key] = &[Key {
    name: "run",
    value: Value::Durations,
    default: "what the kind knows, else \"0s\"",
    about: "How long each tick takes, one after the other and from the start again; zero is allowed.",
}];

/// What a worker or task may be called.
pub(super) const NAME_PATTERN: &str = "^[A-Za-z0-9_-]{1,64}$";

pub(super) const PRIORITY: std::ops::RangeInclusive<i64> = 1..=99;
pub(super) const CATCH_UP: std::ops::RangeInclusive<i64> = 1..=1_000_000;
pub(super) const RECORD_KEEP: std::ops::RangeInclusive<i64> = 1..=1_000_000;
pub(super) const OVERRUN_LIMIT: std::ops::RangeInclusive<i64> = 1..=1_000_000;

/// The one of `known` that `found` was probably meant to be.
pub(super) fn suggestion<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_lowercase().replace('_', "-");
    // One slip in three letters; beyond that a suggestion is a guess.
    let reach = (found.chars().count() / 3).max(1);
    let distance = |name: &str| match name.starts_with(&found) && found.len() >= 3 {
        true => 1, // an abbreviation
        false => strsim::damerau_levenshtein(&found, &name.to_lowercase()),
    };
    let nearest = known.into_iter().map(|name| (distance(name), name)).min_by_key(|(distance, _)| *distance)?;
    (nearest.0 <= reach).then_some(nearest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let near = |found| suggestion(found, WORKER_KEYS.iter().chain(TASK_KEYS).map(|key| key.name));
        assert_eq!(near("rat"), Some("rate"));
        assert_eq!(near("max_catch_up"), Some("max-catch-up"));
        assert_eq!(near("prio"), Some("priority"));
        assert_eq!(near("Worker"), Some("worker"));
        assert_eq!(near("colour"), None);
        assert_eq!(near(""), None);
    }
}
