//! `hertzd doctor`: turns what was tried and read into findings, sorted by how much they matter for the configured tasks.
//!
//! Pure: the facts come from `daemon` and `sys`, and tests make them up. Every finding says what was tried, the outcome and what it means.
//! A line that fixes it is given only where it applies.

mod cpus;
mod facts;
mod finding;
mod kernel;
mod limits;
mod power;
mod privileges;
mod remedy;
mod tasks;
mod unit;
mod work;

pub(crate) use facts::{Demand, Facts, Look, Refused, ServiceView, Trial, Unit};
pub(crate) use finding::{Finding, Mend, Place, Weight};

use crate::config::Config;
use work::Work;

/// What the facts mean for this configuration, worst first.
pub(crate) fn examine(config: &Config, facts: &Facts) -> Vec<Finding> {
    let work = Work(config);
    let mut findings = privileges::findings(work, facts);
    findings.extend(limits::findings(work, facts));
    findings.extend(unit::findings(work, facts));
    findings.extend(tasks::findings(facts));
    findings.extend(cpus::findings(work, facts));
    findings.extend(power::findings(work, facts));
    findings.extend(kernel::findings(work, facts));
    findings.sort_by_key(|finding| finding.weight); // stable: equally serious findings stay in this order
    findings
}

#[cfg(test)]
mod tests;
