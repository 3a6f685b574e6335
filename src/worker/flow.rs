//! The values that a task reads from other tasks and provides to them. A worker passes them on just before and just after the task's tick.
//! Instants are arguments; nothing here waits or allocates.

use super::stuck::Stuck;
use crate::channels::{Basis, InputAge, LinkReceiver, LinkSender, Origin, Quality, RowHead};
use crate::time::{Instant, Span};

/// The links of one task.
#[derive(Debug, Default)]
pub struct Flow {
    /// From the tasks whose values it reads.
    pub(crate) incoming: Vec<LinkReceiver>,
    /// To the tasks that read its values.
    pub(crate) outgoing: Vec<LinkSender>,
    /// The valid range of each of its values; a value outside is bad. Empty: any number is good.
    pub(crate) valid: Vec<[f64; 2]>,
    /// Watches for values that no longer change, if asked to.
    pub(crate) stuck: Option<Box<Stuck>>,
    /// The age of its oldest measurement at the release of its most recent tick.
    pub(super) age: Span,
    /// The oldest measurement behind its values, if the task reports one: its values are from an earlier tick.
    pub(super) origin: Option<Instant>,
    /// Whether its values are measurements if it has no inputs. Their age then counts from its own release.
    pub(crate) measures: bool,
    /// Whether the age of its inputs is measured. That is the case at the end of a chain: the task reads values and acts on them, or passes
    /// none on except to the next tick of a loop. It is also the case if its latency has a limit.
    pub(crate) is_measured: bool,
    behind: Option<Origin>,   // the oldest origin of its inputs
    measured_by: Option<u32>, // the task behind the most recent such origin
    basis: Basis,             // what its inputs mean for its values
}

impl Flow {
    /// Reads the newest inputs for a tick that starts at `now`, on the monotonic clock.
    pub(super) fn take(&mut self, now: Instant) {
        (self.behind, self.basis) = (None, Basis::Good);
        for link in &mut self.incoming {
            let (origin, basis) = link.refresh(now);
            self.basis = self.basis.max(basis);
            self.behind = match (self.behind, origin) {
                (Some(oldest), Some(origin)) => Some(oldest.min(origin)),
                (oldest, origin) => oldest.or(origin),
            };
        }
    }

    /// Continues with the inputs and outputs of `old`. The task itself continues; its producers and consumers might not.
    pub(super) fn adopt(&mut self, old: &mut Self) {
        for link in &mut self.outgoing {
            old.outgoing.iter().for_each(|old| link.adopt(old));
        }
        for link in &mut self.incoming {
            old.incoming.iter_mut().for_each(|old| link.adopt(old));
        }
        (self.behind, self.basis) = (old.behind, old.basis);
        if let (Some(stuck), Some(before)) = (&mut self.stuck, &old.stuck) {
            stuck.goes_on_from(before);
        }
    }

    /// If measured: the age of its oldest input at the time its tick `finished`, on the monotonic clock.
    pub(super) fn age(&self, finished: Instant) -> Option<InputAge> {
        let age = |Origin { at, task }| InputAge { age: finished - at, measured_by: task };
        self.behind.filter(|_| self.is_measured).map(age)
    }

    /// What the inputs of its most recent tick mean for its values.
    pub(super) fn basis(&self) -> Basis {
        self.basis
    }

    /// Publishes the values of tick `n` of the task with this number.
    pub(super) fn give(&mut self, (task, n): (u32, u64), release: Instant, values: &[f64], basis: Basis) {
        let own = (self.measures && self.incoming.is_empty())
            .then_some(Origin { at: release - self.age.max(Span::ZERO), task });
        let took = self.behind.or(own);
        self.measured_by = took.map(|took| took.task).or(self.measured_by);
        let earlier = self.origin.map(|at| match took {
            Some(took) => Origin { at: at.min(took.at), ..took },
            None => Origin { at, task: self.measured_by.unwrap_or(task) },
        });
        let head = RowHead { n, release, origin: earlier.or(took) };
        let valid = &self.valid;
        for link in &mut self.outgoing {
            link.post(head, values, |at, value| Quality::of(value, basis, valid.get(at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{Input, Limits, Quality, Reason, ValueName, link};

    fn up_to(nanos: i64) -> Limits {
        Limits { max_age: Span::from_nanos(nanos), first: Span::ZERO }
    }

    fn of(task: &str, value: &str) -> Input {
        Input::value_of(ValueName { task: task.into(), value: value.into(), previous: None })
    }

    fn at(nanos: i64) -> Instant {
        Instant::from_nanos(nanos.into())
    }

    #[test]
    fn origin_and_quality_are_handed_on_along_a_chain() {
        // Two sensors, a controller that reads both, and an output that reads the controller's value.
        let (fast, slow, out) = (of("fast", "x"), of("slow", "x"), of("controller", "out"));
        let max_age = up_to(1_000);
        let ((to_fast, from_fast), (to_slow, from_slow)) =
            (link(1, [(0, &fast)], max_age), link(1, [(0, &slow)], max_age));
        let (to_out, from_out) = link(1, [(0, &out)], max_age);
        let sensor = |outgoing| Flow { outgoing: vec![outgoing], measures: true, ..Flow::default() };
        let (mut fast_sensor, mut slow_sensor) = (sensor(to_fast), sensor(to_slow));
        slow_sensor.valid = vec![[0.0, 10.0]];
        let mut controller = Flow { incoming: vec![from_fast, from_slow], outgoing: vec![to_out], ..Flow::default() };
        let mut output = Flow { incoming: vec![from_out], is_measured: true, ..Flow::default() };
        let mut ages = Vec::new();
        let mut chain = |now: i64, slow_value: f64, well: bool| {
            slow_sensor.take(at(now));
            slow_sensor.give((1, 0), at(now - 500), &[slow_value], if well { Basis::Good } else { Basis::Failed });
            fast_sensor.take(at(now));
            fast_sensor.give((2, 0), at(now - 10), &[1.0], fast_sensor.basis());
            controller.take(at(now));
            controller.give((3, 0), at(now), &[7.0], controller.basis());
            output.take(at(now));
            ages.push((controller.age(at(now + 7)), output.age(at(now + 7))));
            (out.get(), out.quality(), out.origin())
        };
        assert_eq!(chain(1_000, 5.0, true), (7.0, Quality::Good, Some(at(500))));
        let nothing = |(value, quality, origin): (f64, Quality, Option<Instant>)| (value.is_nan(), quality, origin);
        assert_eq!(nothing(chain(2_000, 10.5, true)), (true, Quality::Bad(Reason::Inherited), Some(at(500))));
        assert_eq!(nothing(chain(3_000, 5.0, false)), (true, Quality::Bad(Reason::Inherited), Some(at(500))));
        assert_eq!(nothing(chain(4_000, f64::NAN, true)), (true, Quality::Bad(Reason::Inherited), Some(at(500))));
        assert_eq!(chain(5_000, 5.0, true), (7.0, Quality::Good, Some(at(4_500))));
        let age = |nanos| (None, Some(InputAge { age: Span::from_nanos(nanos), measured_by: 1 }));
        let wanted = [507, 1_507, 2_507, 3_507, 507].map(age); // of the sensor that is bad: it grows
        assert_eq!(ages, wanted, "of the older sensor, at the end of the chain only");
    }

    #[test]
    fn what_was_measured_before_the_tick_is_as_old_as_the_task_says() {
        let input = of("bus", "x");
        let (to, from) = link(1, [(0, &input)], up_to(100));
        let mut sensor = Flow { outgoing: vec![to], measures: true, age: Span::from_nanos(40), ..Flow::default() };
        sensor.take(at(0));
        sensor.give((1, 0), at(0), &[1.0], sensor.basis());
        let mut output = Flow { incoming: vec![from], ..Flow::default() };
        for (now, wanted) in [(60, Quality::Good), (61, Quality::Bad(Reason::Stale))] {
            output.take(at(now));
            assert_eq!((input.quality(), input.origin()), (wanted, Some(at(-40))), "at {now}");
        }
    }

    #[test]
    fn values_of_an_earlier_tick_are_as_old_as_what_that_one_took() {
        let (input, out) = (of("sensor", "x"), of("program", "out"));
        let max_age = up_to(100);
        let ((to, from), (to_out, from_out)) = (link(1, [(0, &input)], max_age), link(1, [(0, &out)], max_age));
        let mut sensor = Flow { outgoing: vec![to], measures: true, ..Flow::default() };
        let mut program =
            Flow { incoming: vec![from], outgoing: vec![to_out], origin: Some(at(10)), ..Flow::default() };
        let mut output = Flow { incoming: vec![from_out], ..Flow::default() };
        sensor.take(at(50));
        sensor.give((1, 0), at(50), &[1.0], sensor.basis());
        for (now, wanted) in [(60, Quality::Good), (110, Quality::Good), (111, Quality::Bad(Reason::Stale))] {
            program.take(at(now));
            program.give((3, 0), at(now), &[2.0], program.basis());
            output.take(at(now));
            assert_eq!((out.quality(), out.origin()), (wanted, Some(at(10))), "at {now}");
        }
    }

    #[test]
    fn what_is_held_is_still_that_of_the_task_that_measured_it() {
        let (input, out) = (of("sensor", "x").spared(), of("controller", "out"));
        let max_age = up_to(1_000);
        let ((to, from), (to_out, from_out)) = (link(1, [(0, &input)], max_age), link(1, [(0, &out)], max_age));
        let mut sensor = Flow { outgoing: vec![to], measures: true, ..Flow::default() };
        let mut controller = Flow { incoming: vec![from], outgoing: vec![to_out], ..Flow::default() };
        let mut output = Flow { incoming: vec![from_out], is_measured: true, ..Flow::default() };
        for (now, value, held) in [(10, 1.0, None), (20, f64::NAN, Some(at(10))), (30, f64::NAN, Some(at(10)))] {
            sensor.take(at(now));
            sensor.give((1, 0), at(now), &[value], sensor.basis());
            controller.take(at(now));
            controller.origin = held;
            controller.give((3, 0), at(now), &[2.0], controller.basis());
            output.take(at(now));
            let age = InputAge { age: Span::from_nanos(now - 10), measured_by: 1 };
            assert_eq!((out.get(), output.age(at(now))), (2.0, Some(age)), "at {now}");
        }
    }

    #[test]
    fn a_controller_on_a_dead_sensor_makes_no_fresh_values() {
        let (input, out) = (of("sensor", "x"), of("controller", "out"));
        let max_age = up_to(100);
        let ((to, from), (to_out, from_out)) = (link(1, [(0, &input)], max_age), link(1, [(0, &out)], max_age));
        let mut sensor = Flow { outgoing: vec![to], measures: true, ..Flow::default() };
        sensor.take(at(0));
        sensor.give((1, 0), at(0), &[1.0], sensor.basis());
        let mut controller = Flow { incoming: vec![from], outgoing: vec![to_out], ..Flow::default() };
        let mut output = Flow { incoming: vec![from_out], ..Flow::default() };
        for (now, wanted) in [
            (50, Quality::Good),
            (100, Quality::Good),
            (101, Quality::Bad(Reason::Inherited)),
            (500, Quality::Bad(Reason::Inherited)),
        ] {
            controller.take(at(now));
            controller.give((3, 0), at(now), &[2.0], controller.basis());
            output.take(at(now));
            assert_eq!((out.quality(), out.origin()), (wanted, Some(at(0))), "at {now}");
        }
    }
}
