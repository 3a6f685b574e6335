//! Runs a model in every order that there is, with all that hertzd says about the order of its memory, or without one of these words.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Load,
    Store,
    Exchange,
    Fence,
}

/// What an operation says about the order of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    None,
    Acquire,
    Release,
    Both,
    Total, // sequentially consistent
}

impl Strength {
    fn of(kind: Kind, order: Ordering) -> Self {
        match (order, kind) {
            (Ordering::Relaxed, _) => Self::None,
            (Ordering::Acquire, _) => Self::Acquire,
            (Ordering::Release, _) => Self::Release,
            (Ordering::AcqRel, _) => Self::Both,
            _ => Self::Total,
        }
    }

    /// The next weaker ones.
    fn weaker(self, kind: Kind) -> &'static [Self] {
        match (self, kind) {
            (Self::None, _) => &[],
            (Self::Acquire | Self::Release, _) => &[Self::None],
            (Self::Both, _) => &[Self::Acquire, Self::Release],
            (Self::Total, Kind::Load) => &[Self::Acquire],
            (Self::Total, Kind::Store) => &[Self::Release],
            (Self::Total, _) => &[Self::Both],
        }
    }
}

/// An operation of hertzd's: file and line, what it does, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    file: String,
    line: u32,
    column: u32,
    kind: Kind,
    strength: Strength,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}: {:?} {:?}", self.file, self.line, self.column, self.kind, self.strength)
    }
}

/// What is weaker than hertzd says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weakened {
    Nothing,
    One(Site, Strength),
    /// All that is sequentially consistent is no more than acquired and released.
    Total,
}

/// What one thread of the machine tries.
struct Trial {
    weakened: Weakened,
    memory: bool,
    sites: RefCell<BTreeSet<Site>>, // those that say something
    orders: Cell<u64>,
}

thread_local! {
    /// loom's threads all run on the one that began the trial.
    static TRIAL: RefCell<Option<Trial>> = const { RefCell::new(None) };
}

fn of_trial<T>(of: impl FnOnce(&Trial) -> T) -> T {
    TRIAL.with_borrow(|trial| of(trial.as_ref().expect("atomics are touched in trials only")))
}

/// How strong an operation is in this trial.
pub(crate) fn strength(at: &Location<'_>, kind: Kind, order: Ordering) -> Strength {
    let strength = Strength::of(kind, order);
    if strength == Strength::None {
        return strength;
    }
    let file = at.file().rsplit("../").next().unwrap_or_default().to_owned();
    let site = Site { file, line: at.line(), column: at.column(), kind, strength };
    of_trial(|trial| {
        let now = match &trial.weakened {
            Weakened::One(weakened, to) if *weakened == site => *to,
            Weakened::Total if strength == Strength::Total => strength.weaker(kind)[0],
            _ => strength,
        };
        trial.sites.borrow_mut().insert(site);
        now
    })
}

/// Whether what is read and written without an order is memory that one thread at a time may touch.
pub(crate) fn numbers_are_memory() -> bool {
    of_trial(|trial| trial.memory)
}

/// A part of a protocol: two threads or three, and what must hold whatever they see.
#[derive(Clone, Copy)]
pub struct Model {
    pub run: fn(),
    /// Numbers that are read and written without an order are memory that one thread at a time may touch.
    pub memory: bool,
    /// How often a thread may be interrupted by another one; `None`: always.
    pub interruptions: Option<usize>,
}

impl Model {
    pub const fn new(run: fn()) -> Self {
        Self { run, memory: false, interruptions: None }
    }

    /// In how many orders it holds, and which operations had a say in that.
    ///
    /// # Errors
    /// In which way it does not hold.
    pub fn holds(self, weakened: Weakened) -> Result<(u64, BTreeSet<Site>), String> {
        let said = Arc::new(Mutex::new(String::new()));
        let (sites, memory) = (RefCell::default(), self.memory);
        let heard = said.clone();
        // On a thread of its own: loom cannot go on after a panic.
        let trial = std::thread::spawn(move || {
            TRIAL.set(Some(Trial { weakened, memory, sites, orders: Cell::new(0) }));
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = self.interruptions;
            builder.max_branches = 10_000;
            let checked = std::panic::catch_unwind(|| {
                builder.check(move || {
                    of_trial(|trial| trial.orders.set(trial.orders.get() + 1));
                    (self.run)();
                });
            });
            if let Err(panic) = checked {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                *heard.lock().unwrap() = text.unwrap_or_else(|| "it does not hold".to_owned());
            }
            TRIAL.take().map(|trial| (trial.orders.into_inner(), trial.sites.into_inner())).unwrap()
        });
        let seen = trial.join().unwrap();
        let said = said.lock().unwrap().clone();
        if said.is_empty() { Ok(seen) } else { Err(said) }
    }
}

/// Tries a protocol as it ships, and then without each word that it says about the order of its memory, one after the other: one of its models must
/// find that. All that is sequentially consistent is weakened at once, as there it is the sum that counts.
///
/// # Panics
/// It does not hold as it ships, or holds all the same without one of these words.
pub fn try_all(models: &[Model]) {
    let mut sites = BTreeSet::new();
    for model in models {
        let (orders, seen) = model.holds(Weakened::Nothing).unwrap_or_else(|said| panic!("as it ships: {said}"));
        println!("holds in {orders} orders");
        sites.extend(seen);
    }
    assert!(!sites.is_empty(), "nothing is said about any order");
    let total = sites.iter().any(|site| site.strength == Strength::Total).then_some((Weakened::Total, "SeqCst".into()));
    let each = sites.iter().filter(|site| site.strength != Strength::Total).flat_map(|site| {
        let weaker = site.strength.weaker(site.kind).iter();
        weaker.map(move |to| (Weakened::One(site.clone(), *to), format!("{site}, as {to:?}")))
    });
    let mut missed = Vec::new();
    for (weakened, named) in each.chain(total) {
        match models.iter().find_map(|model| model.holds(weakened.clone()).err()) {
            Some(said) => println!("{named}: found: {said}"),
            None => missed.push(named),
        }
    }
    assert!(missed.is_empty(), "holds all the same without: {missed:#?}");
}
