//! The plain reference: what each file must hold. It knows nothing about how hertzd works.

use crate::output::{Output, Safe, Target};
use std::collections::{BTreeMap, BTreeSet};

/// The possible contents of a file: one of these texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct May(BTreeSet<String>);

impl May {
    pub(crate) fn only(text: impl Into<String>) -> Self {
        Self(BTreeSet::from([text.into()]))
    }

    pub(crate) fn hold(&self, text: &str) -> bool {
        self.0.contains(text)
    }

    fn or(&mut self, text: impl Into<String>) {
        self.0.insert(text.into());
    }

    fn or_all(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }
}

/// An output, from when it first gets its target until its safe state is in place.
#[derive(Clone, Debug)]
pub(crate) struct Tenure {
    pub(crate) output: Output,
    /// What its files held before.
    before: BTreeMap<String, May>,
    /// It will follow its input soon, and no one else has written there since.
    pub(crate) follows: bool,
    /// Someone else has set its mode.
    disturbed: bool,
    /// A start or a reload has begun it, so its first tick may come after someone else's write.
    restarted: bool,
    /// A reload had ended it before the process was gone. It may already be safe and no longer in a plan.
    may_be_over: bool,
}

/// All files, and the outputs that own them.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) files: BTreeMap<String, May>,
    pub(crate) tenures: BTreeMap<Target, Tenure>,
    /// Outputs that a reload has ended and that may still be on the way to their safe state.
    pub(crate) leaving: Vec<Tenure>,
    /// Outputs that were made safe and are in a plan.
    pub(crate) carried_out: Vec<Tenure>,
    /// The disk hangs: writes to it take effect when it no longer hangs, or never.
    pub(crate) frozen: bool,
}

impl Tenure {
    /// The texts that the output may write: its value and its safe value.
    fn texts(&self) -> BTreeSet<String> {
        let safe = match self.output.safe {
            Safe::Number(number) => BTreeSet::from([text(number)]),
            Safe::Restore => self.before[&self.output.target.value()].0.clone(),
            Safe::Hold => BTreeSet::new(),
        };
        safe.into_iter().chain([text(self.output.value)]).collect()
    }
}

/// What a file may hold after two simultaneous writes. The other program first empties the file. The output reads its length, writes, and
/// cuts off the rest. For a fan, each write is a single step.
fn mixtures(other: &str, own: &str, target: Target) -> Vec<String> {
    if matches!(target, Target::Fan(_)) {
        return vec![other.into(), own.into()];
    }
    let over = |upper: &str, lower: &str| upper.to_owned() + lower.get(upper.len()..).unwrap_or_default();
    let cut = |text: String| format!("{text:\0<width$}", width = own.len())[..own.len()].to_owned();
    let padded = own.to_owned() + &"\n".repeat(other.len().saturating_sub(own.len()));
    let both = [over(other, own), over(other, &padded), over(own, other), other.into(), own.into(), padded];
    both.iter().cloned().chain([cut(over(other, own)), cut(other.into())]).collect()
}

/// A number as a file shows it.
pub(crate) fn text(number: f64) -> String {
    format!("{number}\n")
}

/// The mode of a fan that hertzd controls.
const BY_HAND: &str = "1\n";

impl Model {
    /// A start or reload with these outputs. If a target had an output before, its original content remains the same, whichever output has
    /// the target now. A target that no output has any more becomes safe.
    pub(crate) fn configure(&mut self, outputs: &[Output]) {
        let ended: Vec<_> =
            self.tenures.keys().copied().filter(|had| outputs.iter().all(|it| it.target != *had)).collect();
        for target in ended {
            let tenure = self.tenures.remove(&target).unwrap();
            self.may_be_safe(&tenure);
            self.leaving.push(tenure);
        }
        for output in outputs {
            let target = output.target;
            let had = self.tenures.remove(&target);
            let follows = had.as_ref().is_none_or(|had| had.follows || had.output.value != output.value);
            let disturbed = had.as_ref().is_some_and(|had| had.disturbed);
            let restarted = had.as_ref().is_none_or(|had| had.restarted || had.output != *output);
            let mut before = had.map_or_else(|| self.now(target), |had| had.before);
            // After `hertzd safe`, the original may be what the earlier process found or what is there now.
            for carried_out in self.carried_out.iter().filter(|it| it.output.target == target) {
                before.iter_mut().for_each(|(file, may)| may.or_all(&carried_out.before[file]));
            }
            self.reaches(output, &before);
            let may_be_over = false;
            self.tenures
                .insert(target, Tenure { output: output.clone(), before, follows, disturbed, restarted, may_be_over });
        }
    }

    fn now(&self, target: Target) -> BTreeMap<String, May> {
        target.files().map(|file| (file.clone(), self.files[&file].clone())).collect()
    }

    /// Until it is seen to follow its input, its files may hold anything it writes.
    fn reaches(&mut self, output: &Output, before: &BTreeMap<String, May>) {
        let value = self.files.get_mut(&output.target.value()).unwrap();
        value.or(text(output.value));
        match output.safe {
            Safe::Number(number) => value.or(text(number)),
            Safe::Restore => value.or_all(&before[&output.target.value()]),
            Safe::Hold => {}
        }
        if let Some(enable) = output.target.enable() {
            let enabled = self.files.get_mut(&enable).unwrap();
            enabled.or(BY_HAND);
            enabled.or_all(&before[&enable]);
        }
    }

    /// What shows that its outputs follow their inputs: each file and its text. A fan follows only when hertzd controls it.
    pub(crate) fn following(&self) -> Vec<(String, String)> {
        let follows = |tenure: &&Tenure| tenure.follows && !self.hangs(tenure);
        let shows = |tenure: &Tenure| {
            let target = tenure.output.target;
            let by_hand = target.enable().filter(|_| !tenure.disturbed).map(|enable| (enable, BY_HAND.to_owned()));
            [Some((target.value(), text(tenure.output.value))), by_hand]
        };
        self.tenures.values().filter(follows).flat_map(shows).flatten().collect()
    }

    /// Its outputs have been seen to follow their inputs.
    pub(crate) fn live(&mut self) {
        let frozen = self.frozen;
        for (target, tenure) in self.tenures.iter_mut().filter(|(target, _)| !(frozen && **target == Target::ON_DISK)) {
            let value = text(tenure.output.value);
            if std::mem::take(&mut tenure.follows) {
                // If only a tick can have written that, a tick has happened.
                let is_safe = matches!(tenure.output.safe, Safe::Number(number) if text(number) == value);
                tenure.restarted &= is_safe || tenure.before[&target.value()].hold(&value);
                self.files.insert(target.value(), May::only(value));
                if let Some(enable) = target.enable().filter(|_| !tenure.disturbed) {
                    self.files.insert(enable, May::only(BY_HAND));
                }
            }
        }
    }

    /// Someone else has written this number.
    pub(crate) fn written(&mut self, target: Target, number: f64) {
        let Some(tenure) = self.tenures.get_mut(&target) else {
            self.files.insert(target.value(), May::only(text(number)));
            return;
        };
        let mut may = May::only(text(number));
        if tenure.output.always || tenure.follows || tenure.restarted {
            for own in tenure.texts() {
                may.0.extend(mixtures(&text(number), &own, target));
            }
        }
        self.files.insert(target.value(), may);
        // An output that always writes is right again immediately.
        tenure.follows = tenure.output.always;
    }

    /// Someone else has set this mode of a fan.
    pub(crate) fn mode_set(&mut self, target: Target, mode: u8) {
        self.files.get_mut(&target.enable().unwrap()).unwrap().or(format!("{mode}\n"));
        self.tenures.get_mut(&target).into_iter().for_each(|tenure| tenure.disturbed = true);
    }

    /// The disk no longer hangs. Waiting writes now complete, and an output that was made safe meanwhile follows its input again.
    pub(crate) fn thawed(&mut self) {
        self.frozen = false;
        let Some(mut tenure) = self.tenures.remove(&Target::ON_DISK) else { return };
        if tenure.output.always || tenure.follows || tenure.restarted {
            self.reaches(&tenure.output, &tenure.before);
            tenure.follows |= tenure.output.always;
        }
        self.tenures.insert(Target::ON_DISK, tenure);
    }

    /// Whether something must still be made safe when the disk no longer hangs.
    pub(crate) fn owes(&self) -> bool {
        let mut owed =
            self.tenures.values().chain(&self.leaving).filter(|it| it.output.safe != Safe::Hold && !it.may_be_over);
        self.frozen && owed.any(|tenure| tenure.output.target == Target::ON_DISK)
    }

    /// An output's file was replaced, and the output will find the new one.
    pub(crate) fn replaced(&mut self, target: Target) {
        if let Some(tenure) = self.tenures.get_mut(&target) {
            tenure.follows = true;
        }
    }

    /// Outputs ended by reloads are safe by now.
    pub(crate) fn settle(&mut self) {
        for tenure in std::mem::take(&mut self.leaving) {
            match self.hangs(&tenure) {
                true => self.leaving.push(tenure),
                false => self.make_safe(&tenure),
            }
        }
    }

    /// Whether its writes wait for the disk.
    pub(crate) fn hangs(&self, tenure: &Tenure) -> bool {
        self.frozen && tenure.output.target == Target::ON_DISK
    }

    /// Makes safe what a process left. This is done by `hertzd safe`, or by a process that ends before it has changed its plan.
    pub(crate) fn carry_out(&mut self) {
        self.carried_out.extend(self.tenures.values().cloned());
        self.all_safe();
    }

    /// All outputs end.
    pub(crate) fn all_safe(&mut self) {
        self.settle();
        self.tenures.extend(std::mem::take(&mut self.leaving).into_iter().map(|tenure| (tenure.output.target, tenure)));
        for (target, tenure) in std::mem::take(&mut self.tenures) {
            if self.hangs(&tenure) {
                self.reaches(&tenure.output, &tenure.before);
                if tenure.output.safe != Safe::Hold {
                    self.tenures.insert(target, tenure);
                }
                continue;
            }
            self.make_safe(&tenure);
            // An output with `start = "keep"` that had no tick has written nothing.
            if tenure.output.keep && tenure.follows {
                tenure.before.iter().for_each(|(file, may)| self.files.get_mut(file).unwrap().or_all(may));
            }
        }
    }

    /// The process is gone and no one has made its outputs safe. A process that crashed may still have done so itself.
    pub(crate) fn left(&mut self, crashed: bool) {
        for mut tenure in std::mem::take(&mut self.leaving) {
            let target = tenure.output.target;
            tenure.may_be_over = true;
            // If it was already safe, that state counts as the original.
            if let Safe::Number(number) = tenure.output.safe {
                tenure.before.get_mut(&target.value()).unwrap().or(text(number));
                target.enable().into_iter().for_each(|enable| tenure.before.get_mut(&enable).unwrap().or(BY_HAND));
            }
            self.tenures.insert(target, tenure);
        }
        // An output that hung, or was starved by a busy machine, may have been made safe.
        if let Some(tenure) = self.tenures.get(&Target::ON_DISK).cloned() {
            self.reaches(&tenure.output, &tenure.before);
        }
        // An output with `safe = "hold"` is not in the plan, so it is over.
        self.tenures.retain(|_, tenure| tenure.output.safe != Safe::Hold);
        if crashed {
            self.tenures.clone().values().for_each(|tenure| self.may_be_safe(tenure));
        }
    }

    fn may_be_safe(&mut self, tenure: &Tenure) {
        let held = self.now(tenure.output.target);
        self.make_safe(tenure);
        for (file, may) in held {
            self.files.get_mut(&file).unwrap().or_all(&may);
        }
    }

    fn make_safe(&mut self, tenure: &Tenure) {
        let target = tenure.output.target;
        match tenure.output.safe {
            Safe::Number(number) => {
                self.files.insert(target.value(), May::only(text(number)));
                target.enable().map(|enable| self.files.insert(enable, May::only(BY_HAND)));
            }
            Safe::Restore => self.files.extend(tenure.before.clone()),
            Safe::Hold => {}
        }
    }
}
