//! Runs a model in each order that loom knows, or a long model with a limited number of interruptions: with all memory orderings as hertzd
//! states them, or with one of them weakened.
//!
//! loom makes each sequentially consistent fence order slightly more than the language promises: a missing acquire or release between two
//! fences is not found.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Load,
    Store,
    Exchange,
    Fence,
}

/// How strongly an operation orders others.
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
            (_, Kind::Fence) => Self::Total,
            _ => panic!("{order:?} is for fences only here: say what each of its sides is for"),
        }
    }

    /// The next weaker ones.
    fn weaker(self) -> &'static [Self] {
        match self {
            Self::None => &[],
            Self::Acquire | Self::Release => &[Self::None],
            Self::Both => &[Self::Acquire, Self::Release],
            Self::Total => &[Self::Both],
        }
    }
}

/// An operation of hertzd's: file and line, kind, and strength.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    file: String,
    line: u32,
    column: u32,
    kind: Kind,
    strength: Strength,
}

impl Site {
    /// The file, relative to hertzd's folder.
    pub fn file(&self) -> &str {
        &self.file
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}: {:?} {:?}", self.file, self.line, self.column, self.kind, self.strength)
    }
}

/// The part that is weaker than hertzd states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weakened {
    Nothing,
    One(Site, Strength),
}

/// The trial of one thread of the machine.
struct Trial {
    weakened: Weakened,
    memory: bool,
    sites: RefCell<BTreeSet<Site>>, // those with an ordering
    orders: Cell<u64>,
}

thread_local! {
    /// All of loom's threads run on the thread that began the trial.
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
            _ => strength,
        };
        trial.sites.borrow_mut().insert(site);
        now
    })
}

/// Whether numbers that are read and written without an order count as memory that only one thread at a time may touch.
pub(crate) fn numbers_are_memory() -> bool {
    of_trial(|trial| trial.memory)
}

/// A part of a protocol: two threads or three, and what must hold whatever they see.
#[derive(Clone, Copy)]
pub struct Model {
    pub run: fn(),
    /// Numbers that are read and written without an order count as memory that only one thread at a time may touch.
    pub memory: bool,
    /// The maximum number of interruptions of a thread by another; `None`: no limit.
    pub interruptions: Option<usize>,
}

impl Model {
    pub const fn new(run: fn()) -> Self {
        Self { run, memory: false, interruptions: None }
    }

    /// Returns the number of orders in which the model holds, and the operations that mattered.
    ///
    /// # Errors
    /// How it does not hold.
    pub fn holds(self, weakened: Weakened) -> Result<(u64, BTreeSet<Site>), String> {
        let said = Arc::new(Mutex::new(String::new()));
        let (sites, memory) = (RefCell::default(), self.memory);
        let heard = said.clone();
        // On a separate thread: loom cannot continue after a panic.
        let trial = std::thread::spawn(move || {
            TRIAL.set(Some(Trial { weakened, memory, sites, orders: Cell::new(0) }));
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = self.interruptions;
            builder.max_branches = 10_000;
            let checked = std::panic::catch_unwind(|| {
                builder.check(move || {
                    of_trial(|trial| trial.orders.set(trial.orders.get() + 1));
                    crate::atomic::begin();
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
        // Then the trial would prove nothing about the protocol.
        assert!(!said.contains("exceeded maximum number of branches"), "{said}");
        if said.is_empty() { Ok(seen) } else { Err(said) }
    }
}

/// Tries a protocol as it ships, and then with each of its memory orderings weakened in turn: one of its models must detect that. Returns
/// the operations with an ordering.
///
/// # Panics
/// The protocol does not hold as it ships, or still holds with one ordering weakened.
pub fn try_all(models: &[Model]) -> BTreeSet<Site> {
    let mut shipped: Vec<_> = models
        .iter()
        .map(|model| {
            let (orders, sites) = model.holds(Weakened::Nothing).unwrap_or_else(|said| panic!("as it ships: {said}"));
            println!("holds in {orders} orders");
            (orders, model, sites)
        })
        .collect();
    // Short models first: most orderings are tried by several.
    shipped.sort_by_key(|(orders, ..)| *orders);
    let sites: BTreeSet<_> = shipped.iter().flat_map(|(.., sites)| sites).collect();
    assert!(!sites.is_empty(), "nothing is said about any order");
    let mut missed = Vec::new();
    for (site, to) in sites.iter().flat_map(|site| site.strength.weaker().iter().map(move |to| (*site, *to))) {
        let weakened = Weakened::One(site.clone(), to);
        let mut that_say_it = shipped.iter().filter(|(.., sites)| sites.contains(site));
        match that_say_it.find_map(|(_, model, _)| model.holds(weakened.clone()).err()) {
            Some(said) => println!("{site}, as {to:?}: found: {said}"),
            None => missed.push(format!("{site}, as {to:?}")),
        }
    }
    assert!(missed.is_empty(), "holds all the same without: {missed:#?}");
    shipped.into_iter().flat_map(|(.., sites)| sites).collect()
}
