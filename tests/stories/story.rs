//! Random stories: sequences of events that happen to hertzd and its targets.

use crate::output::{Output, Safe, Target};
use crate::random::SplitMix;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    Kill,
    Crash,
}

/// Another process's lock, on a file that it may only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Flock,
    Record,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Start(Vec<Output>),
    Reload(Vec<Output>),
    /// The test waits until the outputs follow their inputs.
    Live,
    /// The firmware writes this number to a fan or file, this many times.
    Value(Target, f64, u8),
    /// The firmware sets this mode of a fan.
    Mode(u8, u8),
    /// A file is replaced by a new one of the same name, with this number.
    Replaced(u8, f64),
    Removed(u8),
    Locked(Target, Lock),
    Unlocked,
    /// A second hertzd that wants the same targets.
    Rival,
    Ended(End),
    /// `hertzd safe`.
    Safe,
    /// Writers to the disk wait from now on.
    Frozen,
    Thawed,
}

/// The events that a story may contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// There is a chip with fans.
    pub(crate) fans: bool,
    /// The disk can be frozen.
    pub(crate) disk: bool,
}

struct Writer {
    random: SplitMix,
    scope: Scope,
    running: Option<Vec<Output>>,
    left: bool, // a killed process has left something
    frozen: bool,
    owed: bool, // an output that ended during the freeze might not have its safe value
    events: Vec<Event>,
}

/// The story for this seed.
pub(crate) fn story(seed: u64, scope: Scope, leave_out: &str) -> Vec<Event> {
    let (left, frozen, owed) = Default::default();
    let mut writer = Writer { random: SplitMix(seed), scope, running: None, left, frozen, owed, events: Vec::new() };
    let length = 6 + writer.below(9);
    while writer.events.len() < length {
        writer.write(leave_out);
    }
    if writer.running.is_some() {
        writer.end(leave_out);
    }
    if writer.frozen {
        writer.events.push(Event::Thawed);
    }
    if writer.owed || writer.left && (writer.one_in(4) || leave_out.contains("leftover")) {
        writer.events.push(Event::Safe);
    }
    writer.events
}

impl Writer {
    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.random.next() % most as u64).unwrap()
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn number(&mut self, target: Target) -> f64 {
        match target {
            Target::Fan(_) => f64::from(u8::try_from(1 + self.below(254)).unwrap()),
            // Numbers of different lengths; the quarters are exact.
            Target::File(_) => {
                let digits = [4, 400, 40_000][self.below(3)];
                f64::from(u32::try_from(1 + self.below(digits)).unwrap()) / 4.0
            }
        }
    }

    fn target(&mut self) -> Target {
        let number = u8::try_from(self.below(3)).unwrap();
        if self.scope.fans && self.one_in(2) { Target::Fan(1 + number % 2) } else { Target::File(number) }
    }

    fn output(&mut self, target: Target, task: String) -> Output {
        let safe = match self.below(4) {
            0 | 1 => Safe::Number(self.number(target)),
            2 => Safe::Restore,
            _ => Safe::Hold,
        };
        Output {
            task,
            target,
            by_path: false,
            value: self.number(target),
            safe,
            scale: 1.0,
            limits: self.one_in(3),
            keep: self.one_in(3),
            always: self.one_in(3),
            rate: [50, 100, 200][self.below(3)],
        }
    }

    /// A name that no output uses.
    fn free_name(&mut self, outputs: &[Output]) -> String {
        loop {
            let name = format!("out{}", self.below(8));
            if outputs.iter().all(|output| output.task != name) {
                return name;
            }
        }
    }

    fn add(&mut self, outputs: &mut Vec<Output>) {
        let target = self.target();
        if outputs.iter().all(|output| output.target != target) {
            let task = self.free_name(outputs);
            outputs.push(self.output(target, task));
        }
    }

    /// Makes one change to a configuration.
    fn edit(&mut self, outputs: &mut Vec<Output>, leave_out: &str) {
        if outputs.is_empty() || self.one_in(5) {
            return self.add(outputs);
        }
        let index = self.below(outputs.len());
        let target = outputs[index].target;
        match self.below(8) {
            0 => _ = outputs.swap_remove(index),
            1 => outputs[index].task = self.free_name(outputs),
            2 => outputs[index].value = self.number(target),
            3 => {
                let other = self.output(target, String::new());
                outputs[index].safe = other.safe;
            }
            4 if !leave_out.contains("layout") => {
                let output = &mut outputs[index];
                match target {
                    Target::File(_) => output.scale = if output.scale == 1.0 { 4.0 } else { 1.0 },
                    Target::Fan(_) => output.by_path = !output.by_path,
                }
            }
            5 => {
                let other = self.below(outputs.len());
                let task = outputs[index].task.clone();
                outputs[index].task = std::mem::replace(&mut outputs[other].task, task);
            }
            6 => outputs[index].always = !outputs[index].always,
            _ => outputs[index].rate = 150 - outputs[index].rate / 2,
        }
    }

    fn edited(&mut self, mut outputs: Vec<Output>, leave_out: &str) -> Vec<Output> {
        for _ in 0..=self.below(3) {
            self.edit(&mut outputs, leave_out);
        }
        self.without_what_hangs(outputs)
    }

    /// Leaves out outputs on a frozen disk, because a start or reload would wait for the disk.
    fn without_what_hangs(&self, mut outputs: Vec<Output>) -> Vec<Output> {
        outputs.retain(|output| !self.frozen || output.target != Target::ON_DISK);
        outputs
    }

    /// Whether a running output is on a disk that hangs.
    fn hangs(&self) -> bool {
        let mut outputs = self.running.iter().flatten();
        self.frozen && outputs.any(|output| output.target == Target::ON_DISK)
    }

    fn end(&mut self, leave_out: &str) {
        (self.running, self.owed) = (None, self.owed || self.frozen);
        let end = match self.below(5) {
            0 if !leave_out.contains("crash") => End::Crash,
            1 | 2 => End::Kill,
            _ => End::Stop,
        };
        self.events.push(Event::Ended(end));
        self.left = end != End::Stop;
        if self.left && (leave_out.contains("leftover") || !self.one_in(3)) {
            self.events.push(Event::Safe);
            self.left = false;
        }
    }

    fn start(&mut self) {
        let mut outputs = Vec::new();
        for _ in 0..=self.below(4) {
            self.add(&mut outputs);
        }
        let outputs = self.without_what_hangs(outputs);
        self.running = Some(outputs.clone());
        self.left = false;
        self.events.push(Event::Start(outputs));
    }

    fn write(&mut self, leave_out: &str) {
        if !leave_out.contains("lock") && self.one_in(10) {
            let (target, record) = (self.target(), self.one_in(2));
            let lock = if record { Lock::Record } else { Lock::Flock };
            let event = if self.one_in(3) { Event::Unlocked } else { Event::Locked(target, lock) };
            self.events.push(event);
            return;
        }
        if self.scope.disk && self.one_in(if self.frozen { 4 } else { 50 }) {
            self.frozen = !self.frozen;
            self.events.push(if self.frozen { Event::Frozen } else { Event::Thawed });
            return;
        }
        let Some(outputs) = self.running.clone() else { return self.start() };
        match self.below(12) {
            0..=3 if !self.hangs() => {
                let outputs = self.edited(outputs, leave_out);
                self.running = Some(outputs.clone());
                self.events.push(Event::Reload(outputs));
            }
            4 | 5 => self.events.push(Event::Live),
            6 if !outputs.is_empty() => {
                let target = outputs[self.below(outputs.len())].target;
                if self.frozen && target == Target::ON_DISK {
                    return;
                }
                let event = match target {
                    Target::Fan(number) if self.one_in(2) => {
                        if leave_out.contains("mode") {
                            return;
                        }
                        Event::Mode(number, [0, 2, 5][self.below(3)])
                    }
                    _ => Event::Value(target, self.number(target), u8::try_from(1 + self.below(20)).unwrap()),
                };
                self.events.push(event);
            }
            7 if !outputs.is_empty() => {
                let output = outputs[self.below(outputs.len())].clone();
                if self.frozen && output.target == Target::ON_DISK {
                    return;
                }
                if let Target::File(number) = output.target {
                    let removed = matches!(output.safe, Safe::Number(_)) && self.one_in(2);
                    // A different value from the output's own, so that it shows when the output's value is back.
                    let value = output.value + self.number(Target::File(number));
                    self.events.push(if removed { Event::Removed(number) } else { Event::Replaced(number, value) });
                    self.events.push(Event::Live);
                }
            }
            8 if !outputs.is_empty() => self.events.push(Event::Rival),
            9..=11 => self.end(leave_out),
            _ => {}
        }
    }
}
