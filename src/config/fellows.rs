//! Keys that name other tasks, which have to be there and of a kind. Pure.

use super::key::Key;
use super::meant::did_you_mean;
use super::section::Section;
use super::taken::Fellows;
use toml::de::DeValue;

impl Section<'_> {
    /// Other tasks by their names, all of this kind. `None` without the key: then it is all that there are, of which there has to be one.
    pub fn tasks_of(&mut self, key: &Key, kind: &'static str) -> Option<Vec<String>> {
        let names = self.texts(key);
        if names.is_some() || !self.has(key) {
            self.fellows.push(Fellows { key: *key, kind, names: names.clone() });
        }
        names
    }
}

/// Refuses what names a task that there is not, or that is of another kind.
pub(super) fn refuse_unknown(tasks: &mut [(String, Section<'_>)]) {
    if tasks.iter().all(|(_, section)| section.fellows.is_empty()) {
        return;
    }
    let kind = |section: &Section<'_>| match section.table.get("kind").map(toml::Spanned::get_ref) {
        Some(DeValue::String(kind)) => kind.to_string(),
        _ => String::new(),
    };
    let kinds: Vec<(String, String)> = tasks.iter().map(|(name, section)| (name.clone(), kind(section))).collect();
    for (_, section) in tasks {
        for Fellows { key, kind: wanted, names } in std::mem::take(&mut section.fellows) {
            let all = || kinds.iter().filter(|(_, kind)| kind == wanted).map(|(name, _)| name.as_str());
            match names {
                None if all().next().is_none() => {
                    section.problem(&key, format!("missing; there is no task of kind {wanted:?} that it could mean"));
                }
                None => {}
                Some(names) => {
                    for name in names {
                        let problem = match kinds.iter().find(|(known, _)| *known == name) {
                            Some((_, kind)) if kind == wanted => continue,
                            Some((_, kind)) => format!("task {name} is of kind {kind:?}, and not {wanted:?}"),
                            None => format!("there is no task {name}"),
                        };
                        section.problem_at(key.name, problem, did_you_mean(&name, all()));
                    }
                }
            }
        }
    }
}
