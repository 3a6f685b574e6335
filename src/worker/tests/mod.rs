//! The loop on a virtual clock, and a worker's thread.

mod articles;
mod clock_steps;
mod mean_rate;
mod properties;
mod virtual_worker;

use super::*;
use crate::channels;
use crate::pacing::Schedule;
use crate::sys::clock::pause;

/// The thread is still busy with earlier orders when the order to run arrives, as if it got no processor time.
#[test]
fn a_worker_that_does_not_begin_shows_when_it_should_have() {
    let (ticks, _records) = channels::ticks(16);
    let assignment = Assignment {
        name: "held".into(),
        cpus: Vec::new(),
        anywhere: Vec::new(),
        scheduling: Scheduling::Other,
        evidence: TakeEvidence::Off,
        tail: Tail::Off,
        ticks,
    };
    let (done, _ended) = bounded(1);
    let (mut worker, _panics) = Worker::spawn(assignment, done).unwrap();
    // The channel has room for two answers; the third waits until one is received.
    (0..3).for_each(|_| worker.order(Order::SetUp(Bandwidth::default())));
    let begin = Instant::from_nanos(70);
    worker.start(TaskSet::starting(Schedule::with_room_for(0), Vec::new()), begin);
    assert_eq!(worker.doing(), Doing { ticks: 0, now: Activity::Rests { until: begin } });
    worker.stop();
    while !worker.is_finished() {
        let _ = worker.promoted();
        pause(Span::from_millis(1));
    }
}
