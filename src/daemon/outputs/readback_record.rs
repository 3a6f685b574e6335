//! The results so far of reading an output's target back. Pure: time comes in as a value.

use crate::safety::{Lapse, Reading};
use crate::snapshot::ReadbackSummary;
use crate::time::{Age, Instant, Span};

/// The readings of one output's target.
#[derive(Debug, Default)]
pub(crate) struct Record {
    target: String,
    every: Span,
    compared: u64,
    differences: u64, // how often one began
    unreadable: u64,  // readings
    state: State,
    since: Option<Instant>, // when it began to differ or be unreadable
}

#[derive(Debug, Default, PartialEq)]
enum State {
    /// Nothing has been compared yet.
    #[default]
    Unknown,
    Agrees,
    Differs {
        written: f64,
        read: String,
    },
    NotInForce(Lapse),
    Unreadable(String),
}

/// A change worth logging.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// The target differs from what was written, or cannot be read. `what` says what is wrong, in a clause.
    Fails { what: String, advice: String, written: Option<f64>, read: String },
    /// The target agrees again after `lasted`, counted between readings, or is no longer compared. `written`: the raw number it reads
    /// again.
    Passes { what: String, written: Option<f64>, lasted: Span },
}

impl Record {
    /// From now on the target is read under this name, at this interval.
    pub(crate) fn begins(&mut self, target: String, every: Span) {
        (self.target, self.every) = (target, every);
    }

    /// The output has ended, so its target is no longer read.
    pub(crate) fn ends(&mut self, now: Instant) -> Option<News> {
        self.state = State::Unknown;
        let what = format!("its output has ended, and {} is not read back any more", self.target);
        self.passes(what, None, now)
    }

    /// Records a reading.
    pub(crate) fn took(&mut self, reading: Reading, now: Instant) -> Option<News> {
        let was_wrong = self.since;
        match reading {
            Reading::Unsettled => None,
            Reading::Agrees(written) => {
                self.compared += 1;
                let (what, written) = match (std::mem::replace(&mut self.state, State::Agrees), written) {
                    (State::NotInForce(Lapse { file, set, number, .. }), _) => {
                        (format!("{file} reads {set} again, as written"), number)
                    }
                    (_, Some(written)) => (format!("{} reads {written} again, as written", self.target), Some(written)),
                    (_, None) => (format!("{} can be read again", self.target), None),
                };
                self.passes(what, written, now)
            }
            Reading::GivenBack => {
                self.compared += 1;
                self.state = State::Agrees;
                let what =
                    format!("{} is with its chip, which sets it by itself, as it did before hertzd", self.target);
                self.passes(what, None, now)
            }
            Reading::Differs { written, read } => {
                self.compared += 1;
                let is_new = !matches!(self.state, State::Differs { .. });
                self.state = State::Differs { written, read: read.clone() };
                self.differs(is_new, now, Some(written), read)
            }
            Reading::NotInForce(lapse) => {
                self.compared += 1;
                let is_new = !matches!(&self.state, State::NotInForce(known) if known.file == lapse.file);
                let (set, read) = (lapse.number, lapse.read.clone());
                self.state = State::NotInForce(lapse);
                self.differs(is_new, now, set, read)
            }
            Reading::Unreadable(why) => {
                self.unreadable += 1;
                // A failed read does not show that the difference is gone.
                if matches!(self.state, State::Differs { .. } | State::NotInForce(_)) {
                    return None;
                }
                let is_new = !matches!(self.state, State::Unreadable(_));
                self.state = State::Unreadable(why);
                self.since = was_wrong.or(Some(now));
                let what = self.what().filter(|_| is_new)?;
                Some(News::Fails { what, advice: self.advice(), written: None, read: "nothing".into() })
            }
        }
    }

    /// Clears the problem, if there was one.
    fn passes(&mut self, what: String, written: Option<f64>, now: Instant) -> Option<News> {
        self.since.take().map(|since| News::Passes { what, written, lasted: now - since })
    }

    fn differs(&mut self, is_new: bool, now: Instant, written: Option<f64>, read: String) -> Option<News> {
        if !is_new {
            return None;
        }
        self.differences += 1;
        self.since = Some(now);
        Some(News::Fails { what: self.what()?, advice: self.advice(), written, read })
    }

    /// What helps, in a clause.
    fn advice(&self) -> String {
        match &self.state {
            State::NotInForce(lapse) => lapse.advice.clone(),
            _ => "look at the device, and at what else writes to it".into(),
        }
    }

    /// What is wrong with the target, in a clause; `None`: nothing is known to be wrong.
    fn what(&self) -> Option<String> {
        let target = &self.target;
        match &self.state {
            State::Unknown | State::Agrees => None,
            State::Differs { written, read } => {
                Some(format!("{target} reads {read} in place of {written}, the raw number that was written last"))
            }
            State::NotInForce(Lapse { file, set, read, effect, .. }) => {
                Some(format!("{file} reads {read} in place of {set}, so {effect}"))
            }
            State::Unreadable(why) => Some(format!("{target} cannot be read back: {why}")),
        }
    }

    /// The same for the status, with the time since it was noticed.
    pub(crate) fn trouble(&self, task: &str, now: Instant) -> Option<String> {
        let since = self.since.map_or(Span::ZERO, |since| now - since);
        let advice = match &self.state {
            State::NotInForce(lapse) => format!(": {}", lapse.advice),
            _ => String::new(),
        };
        self.what().map(|what| format!("task {task}: {what}, noticed {} ago{advice}", Age(since)))
    }

    /// The whole record.
    pub(crate) fn summary(&self, task: &str, now: Instant) -> ReadbackSummary {
        let (state, written, read) = match &self.state {
            State::Unknown => ("unknown", None, None),
            State::Agrees => ("agrees", None, None),
            State::Differs { written, read } => ("differs", Some(*written), Some(read.clone())),
            State::NotInForce(lapse) => ("differs", lapse.number, Some(lapse.read.clone())),
            State::Unreadable(_) => ("unreadable", None, None),
        };
        let setting = if let State::NotInForce(lapse) = &self.state { Some(lapse.file.clone()) } else { None };
        ReadbackSummary {
            task: task.into(),
            target: self.target.clone(),
            every_ns: self.every.nanos(),
            compared: self.compared,
            differences: self.differences,
            unreadable: self.unreadable,
            state: state.into(),
            written,
            read,
            setting,
            since_ns: self.since.map(|since| (now - since).nanos().max(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Instant {
        Instant::ZERO + Span::from_seconds(second)
    }

    fn differs(read: &str) -> Reading {
        Reading::Differs { written: 128.0, read: read.into() }
    }

    fn passes(what: &str, written: f64, lasted: i64) -> News {
        News::Passes { what: what.into(), written: Some(written), lasted: Span::from_seconds(lasted) }
    }

    #[test]
    fn a_setting_that_was_changed_is_a_difference_with_advice() {
        let mut record = Record::default();
        record.begins("/sys/pwm1".into(), Span::from_seconds(1));
        let lapse = |read: &str| {
            let advice = "the firmware does that; stop it".into();
            let (set, number, effect) = ("1".into(), Some(1.0), "/sys/pwm1 does not follow hertzd".into());
            Reading::NotInForce(Lapse {
                file: "/sys/pwm1_enable".into(),
                set,
                number,
                read: read.into(),
                effect,
                advice,
            })
        };
        assert!(record.took(lapse("5"), at(1)).is_some());
        assert_eq!((record.took(lapse("2"), at(2)), record.took(Reading::Unsettled, at(3))), (None, None));
        assert_eq!(
            record.trouble("fan", at(3)).unwrap(),
            "task fan: /sys/pwm1_enable reads 2 in place of 1, so /sys/pwm1 does not follow hertzd, noticed 2.00 s ago: the firmware \
             does that; stop it"
        );
        let summary = record.summary("fan", at(3));
        assert_eq!((&*summary.state, summary.setting.as_deref()), ("differs", Some("/sys/pwm1_enable")));
        assert_eq!((summary.written, summary.read.as_deref(), summary.differences), (Some(1.0), Some("2"), 1));
        let passed = record.took(Reading::Agrees(Some(128.0)), at(4));
        assert_eq!(passed, Some(passes("/sys/pwm1_enable reads 1 again, as written", 1.0, 3)));
        assert_eq!(record.trouble("fan", at(4)), None);
    }

    #[test]
    fn a_difference_is_news_when_it_begins_and_when_it_ends() {
        let mut record = Record::default();
        record.begins("/sys/pwm1".into(), Span::from_seconds(1));
        assert_eq!(record.took(Reading::Unsettled, at(1)), None);
        assert_eq!(record.took(Reading::Agrees(Some(128.0)), at(2)), None);
        assert_eq!(record.trouble("fan", at(2)), None);
        let what = "/sys/pwm1 reads 40 in place of 128, the raw number that was written last".to_owned();
        let advice = "look at the device, and at what else writes to it".to_owned();
        let begins = News::Fails { what: what.clone(), advice, written: Some(128.0), read: "40".into() };
        assert_eq!(record.took(differs("40"), at(3)), Some(begins));
        assert_eq!(record.took(differs("41"), at(4)), None);
        assert_eq!(record.took(Reading::Unsettled, at(5)), None, "nothing can be said of it");
        assert_eq!(record.took(Reading::Unreadable("no".into()), at(6)), None, "it is no better for that");
        let trouble = record.trouble("fan", at(7)).unwrap();
        assert_eq!(trouble, format!("task fan: {}, noticed 4.00 s ago", what.replace("40", "41")));
        assert_eq!(
            record.took(Reading::Agrees(Some(130.0)), at(8)),
            Some(passes("/sys/pwm1 reads 130 again, as written", 130.0, 5))
        );
        assert_eq!((record.trouble("fan", at(8)), record.took(Reading::Agrees(Some(130.0)), at(9))), (None, None));
        assert!(record.took(differs("1"), at(10)).is_some(), "another one");
        let ReadbackSummary { compared, differences, unreadable, state, read, since_ns, .. } =
            record.summary("fan", at(12));
        assert_eq!((compared, differences, unreadable), (6, 2, 1));
        assert_eq!((&*state, read.as_deref(), since_ns), ("differs", Some("1"), Some(2_000_000_000)));
        let ended = "its output has ended, and /sys/pwm1 is not read back any more";
        let over = News::Passes { what: ended.into(), written: None, lasted: Span::from_seconds(2) };
        assert_eq!((record.ends(at(12)), record.ends(at(12))), (Some(over), None));
        assert_eq!(record.trouble("fan", at(12)), None, "it is not an output any more");
        assert_eq!(record.summary("fan", at(12)).differences, 2, "counts stay");
    }

    #[test]
    fn a_fan_that_is_with_its_chip_again_is_no_fault() {
        let mut record = Record::default();
        record.begins("/sys/pwm1".into(), Span::from_seconds(1));
        assert_eq!(record.took(Reading::GivenBack, at(1)), None);
        assert!(record.took(differs("40"), at(2)).is_some());
        let what = "/sys/pwm1 is with its chip, which sets it by itself, as it did before hertzd";
        let passes = News::Passes { what: what.into(), written: None, lasted: Span::from_seconds(3) };
        assert_eq!(record.took(Reading::GivenBack, at(5)), Some(passes));
        assert_eq!((record.trouble("fan", at(5)), &*record.summary("fan", at(5)).state), (None, "agrees"));
        record.took(Reading::Unreadable("no".into()), at(6));
        let passed = record.took(Reading::Agrees(None), at(7));
        let what = "/sys/pwm1 can be read again";
        assert!(matches!(passed, Some(News::Passes { what: said, written: None, .. }) if said == what));
    }

    #[test]
    fn one_that_cannot_be_read_is_news_of_its_own_and_no_difference() {
        let mut record = Record::default();
        record.begins("the line".into(), Span::from_seconds(1));
        let unreadable = || Reading::Unreadable("No such device (os error 19)".into());
        let what = "the line cannot be read back: No such device (os error 19)".to_owned();
        let begins = record.took(unreadable(), at(1));
        assert!(matches!(begins, Some(News::Fails { what: said, written: None, .. }) if said == what));
        assert_eq!(record.took(unreadable(), at(2)), None);
        assert!(record.took(differs("0"), at(3)).is_some(), "it can be read, and differs");
        assert_eq!(
            record.took(Reading::Agrees(Some(1.0)), at(5)),
            Some(passes("the line reads 1 again, as written", 1.0, 2))
        );
        let summary = record.summary("line", at(5));
        assert_eq!((summary.compared, summary.differences, summary.unreadable), (2, 1, 2));
        assert_eq!((&*summary.state, summary.since_ns), ("agrees", None));
    }
}
