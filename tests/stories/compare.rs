//! Compares the files of a stage with the model, and the output of hertzd with what it must report.

use crate::model::May;
use crate::output::Target;
use crate::play::{Stage, Wrong};
use std::fs;

impl Stage<'_> {
    /// Checks that hertzd names whatever it gives up while the disk hangs.
    pub(crate) fn is_said(&self, succeeded: bool, who: &str, text: &str) -> Result<(), Wrong> {
        let name = Target::ON_DISK.value();
        let is_said = !self.model.owes() || (!succeeded && text.contains(&name));
        is_said
            .then_some(())
            .ok_or_else(|| format!("{name} is given up, and not in what {who} says (well: {succeeded}): {text}"))
    }

    /// The files whose content is known by now. Writes that wait for the disk may still arrive.
    fn known(&self) -> impl Iterator<Item = &String> {
        self.model.files.keys().filter(|file| !(self.model.frozen && **file == Target::ON_DISK.value()))
    }

    /// A file with content that the model does not allow.
    fn different(&self) -> Option<Wrong> {
        self.known().find_map(|file| {
            let may = &self.model.files[file];
            let holds = self.read(file);
            (!may.hold(&holds)).then(|| format!("{file} holds {holds:?} in place of {may:?}"))
        })
    }

    /// Compares all files. If `hertzd safe` has failed, a plan may still have what is not right yet; its output must then say so.
    pub(crate) fn compare(&mut self, succeeded: bool, safe: bool) -> Result<(), Wrong> {
        if let Some(wrong) = self.different() {
            let may_be_owed = safe && !succeeded;
            if !may_be_owed {
                return Err(wrong);
            }
            let again = self.carry_out()?;
            self.owed += 1;
            if let Some(wrong) = self.different() {
                return Err(format!("{wrong}, and by the plan: {again:?}"));
            }
        }
        // From here on the content is known. Remove what a driver would not show.
        let known: Vec<_> = self.known().map(|file| (file.clone(), self.read(file))).collect();
        for (file, holds) in known {
            if file.starts_with("class") {
                self.put(&file, &holds);
            }
            self.model.files.insert(file, May::only(holds));
        }
        Ok(())
    }

    /// Details for the message of a failure.
    pub(crate) fn describe(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        let files: String = self.model.files.keys().map(|file| format!("{file}: {:?}\n", read(file))).collect();
        let log: String =
            self.log().lines().filter(|line| !line.contains(" missed ")).map(|line| format!("{line}\n")).collect();
        format!(
            "{files}--- configuration\n{}--- plan\n{}\n--- safe\n{}\n--- log\n{log}",
            read("story.toml"),
            read("run/safe-plan.json"),
            read("safe")
        )
    }
}
