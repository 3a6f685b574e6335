//! What the tasks open, with the rights of each user that may run them; and whether their deadlines can be met.

use super::facts::{Demand, Facts, Look};
use super::finding::{Finding, Weight};

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<_> = facts.looks.iter().flat_map(|look| of_look(look, facts.is_for_service)).collect();
    findings.extend(facts.demands.iter().map(demand));
    findings
}

fn of_look(look: &Look, is_for_service: bool) -> Vec<Finding> {
    let tried = format!("what a start would open, checked as {}", look.who);
    let draft = || Finding::of("devices", look.who.clone(), tried.clone());
    let count = match &look.tasks {
        Err(why) => return vec![draft().unseen(why)],
        Ok(1) => "the task".to_owned(),
        Ok(count) => format!("all {count} tasks"),
    };
    let mut findings = Vec::new();
    for refused in &look.refused {
        let (weight, matters) = match look.is_service && !is_for_service {
            true => (Weight::Harms, "the service could not start with this configuration"),
            false => (Weight::Fails, "a start is refused"),
        };
        findings.push(draft().is(weight, refused.what.clone(), matters, refused.mend.clone()));
    }
    findings.extend(look.warnings.iter().map(|warning| {
        draft().is(Weight::Minor, warning.clone(), "the start of that task may be refused, or wait", Vec::new())
    }));
    if findings.is_empty() {
        findings.push(draft().well(format!("nothing was refused to {count}")));
    }
    findings.extend(look.unknown.iter().map(|unknown| draft().unseen(format!("{unknown}: only a start finds out"))));
    findings
}

fn demand(Demand { label, sum, too_much }: &Demand) -> Finding {
    let draft =
        Finding::of("deadlines", label.clone(), "what the tasks need in the worst case, as `hertzd check` adds it up");
    match too_much {
        None => draft.well(sum.clone()),
        Some(why) => draft.is(Weight::Fails, sum.clone(), why.clone(), Vec::new()),
    }
}
