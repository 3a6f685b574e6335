//! A task of any kind beside the links of its inputs, ticked by hand.

use crate::channels::{Basis, InputSource, Limits, LinkReceiver, LinkSender, Origin, RowHead, link};
use crate::config::{Config, Facts, Kinds};
use crate::site::Site;
use crate::task::{Quality, Reason, Task, Tick};
use crate::time::{Instant, Span};

/// A task that runs beside the links of its inputs.
pub(in crate::kinds) struct Bench {
    task: Box<dyn Task>,
    links: Vec<(LinkSender, LinkReceiver)>,
    now: i64, // nanoseconds
}

const SECOND: i64 = 1_000_000_000;

impl Bench {
    /// The task of this kind and section, whose inputs count as stale after 3.5 s and are held for `hold` seconds.
    pub(in crate::kinds) fn new(kind: &str, section: &str, hold: i64) -> Self {
        let text = format!("[task.s]\nkind = \"load\"\nrate = 1\n[task.t]\nkind = \"{kind}\"\nrate = 1\n{section}");
        let facts = Facts { online_cpus: vec![0], cpu_set_size: 8 };
        let config =
            Config::parse(&text, "case.toml", &Kinds::builtin(), &facts).unwrap_or_else(|wrong| panic!("{wrong}"));
        let mut config = config.tasks.into_iter().find(|task| task.name == "t").unwrap();
        let task = config.blueprint.build(&mut Site::default()).unwrap().task;
        let (limits, hold) =
            (Limits { max_age: Span::from_millis(3_500), first: Span::ZERO }, [Span::from_nanos(hold * SECOND)]);
        let values = config.taken.iter().filter(|(taken, _)| matches!(taken.input.source(), InputSource::Value(_)));
        let links = values.map(|(taken, _)| {
            let (sender, receiver) = link(1, [(0, &taken.input)], limits);
            (sender, receiver.with_holds(&hold))
        });
        let links = links.collect();
        Self { task, links, now: 0 }
    }

    /// The values and their qualities at a tick a second later, before which each input has this row, if any.
    pub(in crate::kinds) fn tick(&mut self, rows: &[Option<(f64, Quality)>]) -> Vec<(f64, Quality)> {
        self.now += SECOND;
        let (now, mut basis) = (Instant::from_nanos(self.now.into()), Basis::Good);
        for ((sender, receiver), row) in self.links.iter_mut().zip(rows) {
            if let Some((value, quality)) = row {
                let head = RowHead { n: 0, release: now, origin: Some(Origin { at: now, task: 0 }) };
                sender.post(head, &[*value], |_, _| *quality);
            }
            basis = basis.max(receiver.refresh(now).1);
        }
        let mut values = vec![crate::channels::NONE; self.task.columns().len()];
        self.task.tick(&Tick::default(), &mut values).unwrap();
        values.into_iter().map(|value| (value, Quality::of(value, basis, None))).collect()
    }
}

pub(in crate::kinds) const BAD: Option<(f64, Quality)> = Some((f64::NAN, Quality::Bad(Reason::Failed)));
pub(in crate::kinds) const NOTHING: Option<(f64, Quality)> = Some((f64::NAN, Quality::None));

pub(in crate::kinds) fn good(value: f64) -> Option<(f64, Quality)> {
    Some((value, Quality::Good))
}
