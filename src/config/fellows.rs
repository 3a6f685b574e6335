//! Keys that name other tasks, which must exist and be actuators. Pure.

use super::key::Key;
use super::meant::did_you_mean;
use super::section::Section;
use super::taken::Fellows;
use toml::de::DeValue;

impl Section<'_> {
    /// The names of other tasks, each of which must have an output with a safe value. `None` if the key is absent: it then means all such
    /// tasks, and there must be at least one.
    pub(crate) fn acting_tasks(&mut self, key: &Key) -> Option<Vec<String>> {
        let names = self.texts(key);
        if names.is_some() || !self.has(key) {
            self.fellows.push(Fellows { key: *key, names: names.clone() });
        }
        names
    }
}

/// Rejects references to tasks that do not exist or are not actuators.
pub(super) fn refuse_unknown(tasks: &mut [(String, Section<'_>)]) {
    if tasks.iter().all(|(_, section)| section.fellows.is_empty()) {
        return;
    }
    let kind = |section: &Section<'_>| match section.table.get("kind").map(toml::Spanned::get_ref) {
        Some(DeValue::String(kind)) => kind.to_string(),
        _ => String::new(),
    };
    let known: Vec<(String, String, bool)> =
        tasks.iter().map(|(name, section)| (name.clone(), kind(section), section.acts)).collect();
    for (_, section) in tasks {
        for Fellows { key, names } in std::mem::take(&mut section.fellows) {
            let all = || known.iter().filter(|(.., acts)| *acts).map(|(name, ..)| name.as_str());
            match names {
                None if all().next().is_none() => {
                    section.problem(&key, "missing; there is no task with a safe value that it could mean");
                }
                None => {}
                Some(names) => {
                    for name in names {
                        let problem = match known.iter().find(|(known, ..)| *known == name) {
                            Some((.., true)) => continue,
                            Some((_, kind, false)) => {
                                format!("task {name}, of kind {kind:?}, has no safe value: it puts nothing out")
                            }
                            None => format!("there is no task {name}"),
                        };
                        section.problem_at(key.name, problem, did_you_mean(&name, all()));
                    }
                }
            }
        }
    }
}
