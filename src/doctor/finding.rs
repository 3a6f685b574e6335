//! What was found out, and the lines that mend it. Plain data.

use crate::sys::grant;
use serde::Serialize;

/// How much a finding matters, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Weight {
    /// Something configured cannot work.
    Fails,
    /// It works, but ticks will be late.
    Harms,
    /// Ticks may be late, by little or seldom.
    Minor,
    /// It could not be looked at.
    Unseen,
    /// It is as it should be.
    Well,
}

/// Where a line is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Place {
    /// A shell runs it.
    Shell,
    /// A file of /etc/security/limits.d.
    Login,
    /// The section [Service] of the unit.
    Unit,
    /// The command line of the kernel.
    Kernel,
    /// A file of /etc/udev/rules.d.
    Udev,
    /// The configuration of hertzd.
    Configuration,
    /// The command that starts the container.
    Container,
}

/// A line that mends it; each of several is enough alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Mend {
    /// Where it is to be written.
    #[serde(rename = "for")]
    pub(crate) place: Place,
    /// To be copied as it is. A line break separates lines that are needed together.
    pub(crate) line: String,
    /// What there is to know of it; mostly empty.
    pub(crate) note: String,
}

impl Mend {
    pub(crate) fn new(place: Place, line: impl Into<String>, note: impl Into<String>) -> Self {
        Self { place, line: line.into(), note: note.into() }
    }

    pub(crate) fn shell(line: impl Into<String>) -> Self {
        Self::new(Place::Shell, line, "")
    }

    /// A line for a shell whose effect ends with the next boot.
    pub(crate) fn until_boot(line: impl Into<String>) -> Self {
        Self::new(Place::Shell, line, "until the next boot")
    }

    pub(crate) fn unit(line: impl Into<String>) -> Self {
        Self::new(Place::Unit, line, "")
    }

    /// With what there is to know of it.
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

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What it is about: a word that stays the same.
    pub(crate) about: &'static str,
    /// Which worker, task, CPU or unit: `worker main`; empty: the machine.
    pub(crate) subject: String,
    pub(crate) weight: Weight,
    /// What was tried or read.
    pub(crate) tried: String,
    /// What came back; where it could not be looked at, why.
    pub(crate) found: String,
    /// What it means for the configured tasks; empty where all is well.
    pub(crate) matters: String,
    pub(crate) mend: Vec<Mend>,
}

impl Finding {
    /// Begins one with what was tried.
    pub(crate) fn of(about: &'static str, subject: impl Into<String>, tried: impl Into<String>) -> Draft {
        Draft { about, subject: subject.into(), tried: tried.into() }
    }
}

/// A finding whose weight is still open.
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

    /// It could not be looked at.
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
