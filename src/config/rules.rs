//! The rules of a table's keys: unknown keys, keys that exclude each other, missing keys, keys without effect.

use super::error;
use super::key::{Absent, Key, Needs, Rule, Value};
use super::keys::TASK_KEYS;
use super::limits;
use super::meant;
use super::section::Section;

/// For how many unknown keys of a table hertzd searches for what was meant.
const MOST_LOOKS: usize = 100;

impl Section<'_> {
    /// Rejects violations of these keys' rules: keys that exclude each other, missing keys, and keys without effect.
    pub(super) fn refuse_broken_rules(&mut self, keys: &[&Key]) {
        for key in keys {
            for other in key.excludes {
                self.refuse_both(key.name, other);
            }
        }
        let mut missing = Vec::new();
        for key in keys {
            if let Absent::Refused { unless, hint } = key.absent
                && key.value != Value::Kind
                && !self.has(key)
                && !self.is_misspelt(|meant| meant == key.name || unless.contains(&meant), keys)
                && !unless.iter().any(|other| self.is_there(other))
                && key.rules.iter().all(|rule| self.holds(rule, keys, &[]) && self.is_decided(rule, keys))
            {
                self.problem(key, format!("missing; {hint}"));
                missing.push(key.name);
            }
        }
        for key in keys {
            let Some(found) = self.value(key) else { continue };
            let concerns = |rule: &&Rule| match rule.word {
                Some(word) => found.as_str() == Some(word),
                None => key.value != Value::Bool || found.as_bool() != Some(false),
            };
            if let Some(rule) = key.rules.iter().filter(concerns).find(|rule| !self.holds(rule, keys, &missing)) {
                self.problem(key, rule.refusal());
            }
        }
    }

    /// For a kind [whose keys are known only from the section](super::Kind::with_more_keys). Rejects every key that is not in `kinds` (the
    /// kind's fixed keys), in `more`, or common to all tasks, and checks the rules of `more`. `None`: the further keys could not be
    /// determined, so only likely slips are rejected.
    pub(crate) fn refuse_beyond(&mut self, kinds: &[Key], more: Option<&[Key]>) {
        let more_keys = more.unwrap_or_default();
        let mut known: Vec<&str> = TASK_KEYS.iter().map(|key| key.name).chain(["simulate"]).collect();
        known.extend(kinds.iter().chain(more_keys).map(|key| key.name));
        self.refuse_unknown(&known, more.is_some());
        self.refuse_broken_rules(&more_keys.iter().collect::<Vec<_>>());
    }

    /// The word a key has, written or by default. `None` if it is not one of the key's words.
    fn word(&self, name: &str, keys: &[&Key]) -> Option<&str> {
        let key = keys.iter().find(|key| key.name == name)?;
        let word = self.value(key).map_or_else(|| key.default_word(), |value| value.as_str())?;
        limits::is_word(&key.value, word).then_some(word)
    }

    /// Whether the rule can be decided. It cannot if it depends on the word of a key that has none.
    fn is_decided(&self, rule: &Rule, keys: &[&Key]) -> bool {
        match rule.needs {
            Needs::Is(name, _) => self.word(name, keys).is_some(),
            _ => true,
        }
    }

    /// Whether the rule's condition is met. Also true if that cannot be decided, because another problem says what to do.
    fn holds(&self, rule: &Rule, keys: &[&Key], missing: &[&str]) -> bool {
        let word = |name: &str| self.word(name, keys);
        let is_on = |name: &str| self.table.get(name).is_some_and(|value| value.get_ref().as_bool() == Some(true));
        match rule.needs {
            Needs::With(others) => others.iter().any(|other| self.is_there(other) || missing.contains(other)),
            Needs::Without(others) => !others.iter().any(|other| self.is_there(other)),
            Needs::Is(name, words) => word(name).is_none_or(|word| words.contains(&word)),
            Needs::IsNot(name, words) => word(name).is_none_or(|word| !words.contains(&word)),
            Needs::On(name) => is_on(name),
            Needs::Off(name) => !is_on(name),
        }
    }

    /// Whether an unknown key was probably meant to be this one. That problem then says everything.
    fn is_misspelt(&self, this: impl Fn(&str) -> bool, keys: &[&Key]) -> bool {
        let known: Vec<_> = keys.iter().map(|key| key.name).collect();
        let written = self.table.keys().map(|key| -> &str { key.get_ref() }).filter(|key| !known.contains(key));
        written.take(MOST_LOOKS).any(|key| meant::key(key, &known).is_some_and(&this))
    }

    /// Whether this table has the key or, for `../KEY`, whether the enclosing table has it.
    fn is_there(&self, key: &str) -> bool {
        match key.strip_prefix("../") {
            Some(key) => self.outer.is_some_and(|outer| outer.contains_key(key)),
            None => self.table.contains_key(key),
        }
    }

    /// Rejects every key that is not in `known`. If `closed` is false, the list could not be completed, and only likely slips are rejected.
    pub(super) fn refuse_unknown(&mut self, known: &[&str], closed: bool) {
        // Searching for what was meant is slow, so it is limited: a file may be nonsense from start to end.
        let mut looks = MOST_LOOKS;
        for (name, value) in self.table {
            let key: &str = name.get_ref();
            if known.contains(&key) {
                continue;
            }
            let Some(left) = looks.checked_sub(1) else {
                if closed {
                    self.problems.push(error::problem(self.source, &self.path, key, name.span(), false, "unknown key"));
                }
                continue;
            };
            looks = left;
            let near = meant::key(key, known);
            if near.is_none() && !closed {
                continue;
            }
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => meant::elsewhere(&self.path, key, value.get_ref())
                    .unwrap_or_else(|| format!("known keys: {}", known.join(", "))),
            };
            let mut problem = error::problem(self.source, &self.path, key, name.span(), false, "unknown key");
            problem.help = Some(help);
            self.problems.push(problem);
        }
    }

    /// Rejects two keys that express the same thing; the problem is noted at the later one.
    fn refuse_both(&mut self, one: &str, other: &str) {
        let start = |key: &str| self.table.get(key).map(|value| value.span().start);
        let (Some(first), Some(second)) = (start(one), start(other)) else { return };
        let (earlier, later) = if first < second { (one, other) } else { (other, one) };
        let apart = self.source.text_at(first) != self.source.text_at(second);
        let help = apart.then(|| format!("to change what an earlier file says, override the same key: `{earlier}`"));
        self.problem_at(later, format!("write either {one} or {other}, not both"), help);
    }
}
