//! Requests to a worker, and the state that the worker shows.

use super::control::{Activity, Control};
use crate::note::Note;
use crate::time::{Instant, Span};
use crate::trial::Model;
use loom::thread;
use std::sync::Arc;

pub const MODELS: [Model; 3] = [Model::new(exchanges), Model::new(fails), Model::new(shows)];

/// A worker that is asked for an exchange finds the whole set, and exchanges once.
fn exchanges() {
    let (control, set) = (Arc::new(Control::default()), Arc::new(Note::default()));
    let (asked, sent) = (control.clone(), set.clone());
    let main = thread::spawn(move || {
        sent.write(7); // a set of tasks, as a queue has it
        asked.ask_for_exchange();
    });
    let look = || {
        let asked = control.exchange_asked();
        if asked {
            assert_eq!(set.read(), 7);
        }
        usize::from(asked)
    };
    let seen = look() + look();
    main.join().unwrap();
    assert_eq!(seen + look(), 1);
}

/// A thread that sees that a task's failure has stopped the worker also sees which task failed.
fn fails() {
    let control = Arc::new(Control::default());
    let shown = control.clone();
    let worker = thread::spawn(move || shown.fail(3));
    let stopping = control.stopping();
    let failed = control.failed();
    assert!(failed.is_none_or(|task| task == 3) && (!stopping || failed == Some(3)));
    worker.join().unwrap();
}

/// A long tick shows exactly which tick it is, and since when it runs.
fn shows() {
    let control = Arc::new(Control::default());
    let at = |nanos| Instant::from_nanos(nanos);
    let shown = control.clone();
    let worker = thread::spawn(move || {
        shown.rests(at(10));
        shown.begins(1, 5, at(11));
        shown.ends();
        shown.rests(at(20));
        shown.prepares(6);
        shown.begins(2, 6, at(21));
    });
    let doing = control.doing();
    match doing.now {
        Activity::Runs { task: 2, n, since } => assert_eq!((n, since), (6, at(21))),
        // The tick may have ended meanwhile, but shows nothing from before it began.
        Activity::Runs { task, n, since } => {
            assert!(task == 1 && [5, 6].contains(&n) && [at(11), at(21)].contains(&since));
        }
        Activity::Rests { .. } => assert!(doing.ticks <= 1),
    }
    worker.join().unwrap();
}
