//! A finding, and the lines that fix it. Plain data.

use crate::sys::grant;
use serde::Serialize;

/// How serious a finding is, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Weight {
    /// Something configured cannot work.
    Fails,
    /// It works, but ticks will be late.
    Harms,
    /// Ticks may be late, slightly or rarely.
    Minor,
    /// It could not be checked.
    Unseen,
    /// Everything is as it should be.
    Well,
}

/// Where a line has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    /// To be run in a shell.
    Shell,
    /// In a file of /etc/security/limits.d.
    Login,
    /// In the section [Service] of the unit.
    Unit,
    /// On the kernel's command line.
    Kernel,
    /// In a file of /etc/udev/rules.d.
    Udev,
    /// In hertzd's configuration.
    Configuration,
    /// In the command that starts the container.
    Container,
}

/// A line that fixes a finding. If there are several, any one of them is enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Mend {
    /// Where to write it.
    #[serde(rename = "for")]
    pub(crate) place: Place,
    /// To be copied unchanged. A line break separates lines that are needed together.
    pub(crate) line: String,
    /// What to know about it; usually empty.
    pub(crate) note: String,
}

impl Mend {
    pub(crate) fn new(place: Place, line: impl Into<String>, note: impl Into<String>) -> Self {
        Self { place, line: line.into(), note: note.into() }
    }

    pub(crate) fn shell(line: impl Into<String>) -> Self {
        Self::new(Place::Shell, line, "")
    }

    /// A shell line whose effect lasts until the next boot.
    pub(crate) fn until_boot(line: impl Into<String>) -> Self {
        Self::new(Place::Shell, line, "until the next boot")
    }

    pub(crate) fn unit(line: impl Into<String>) -> Self {
        Self::new(Place::Unit, line, "")
    }

    /// Adds what to know about it.
    #[must_use]
    pub(crate) fn noted(self, note: &str) -> Self {
        Self { note: note.to_owned(), ..self }
    }

    pub(crate) fn configuration(line: impl Into<String>) -> Self {
        Self::new(Place::Configuration, line, "")
    }
}

impl From<(grant::Place, String)> for Mend {
    fn from((place, line): (grant::Place, String)) -> Self {
        let (place, note) = match place {
            grant::Place::Shell => (
                Place::Shell,
                "for that group: what its members run by it has these rights, so only plugins of root are loaded",
            ),
            grant::Place::Login => (Place::Login, "USER is who runs hertzd; it applies from the next login on"),
            grant::Place::Unit => (Place::Unit, ""),
            grant::Place::Container => (Place::Container, ""),
        };
        Self::new(place, line, note)
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The subject of the check, as a fixed word.
    pub(crate) about: &'static str,
    /// Which worker, task, CPU or unit: `worker main`. Empty: the whole machine.
    pub(crate) subject: String,
    pub(crate) weight: Weight,
    /// What was tried or read.
    pub(crate) tried: String,
    /// The outcome; if it could not be checked, why.
    pub(crate) found: String,
    /// What it means for the configured tasks. Empty if all is well.
    pub(crate) matters: String,
    pub(crate) mend: Vec<Mend>,
}

impl Finding {
    /// Starts a finding with what was tried.
    pub(crate) fn of(about: &'static str, subject: impl Into<String>, tried: impl Into<String>) -> Draft {
        Draft { about, subject: subject.into(), tried: tried.into() }
    }
}

/// A finding whose weight is not decided yet.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    about: &'static str,
    subject: String,
    tried: String,
}

impl Draft {
    pub(crate) fn well(self, found: impl Into<String>) -> Finding {
        self.is(Weight::Well, found, "", Vec::new())
    }

    /// It could not be checked.
    pub(crate) fn unseen(self, why: impl Into<String>) -> Finding {
        self.is(Weight::Unseen, why, "", Vec::new())
    }

    pub(crate) fn is(
        self,
        weight: Weight,
        found: impl Into<String>,
        matters: impl Into<String>,
        mend: Vec<Mend>,
    ) -> Finding {
        let Self { about, subject, tried } = self;
        Finding { about, subject, weight, tried, found: found.into(), matters: matters.into(), mend }
    }
}
