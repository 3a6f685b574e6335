//! Which library call each thread is in. Marked by one store before the call and one after it; a signal handler reads the mark.

use crate::program;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A function of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// The library's initialisers.
    Load,
    /// `hertzd_plugin_table`.
    Describe,
    /// `create`.
    Create,
    /// `tick`.
    Tick,
    /// `destroy`.
    Destroy,
    /// The library's finalisers.
    Unload,
}

impl Function {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Load => "while it was loaded",
            Self::Describe => "in hertzd_plugin_table",
            Self::Create => "in create",
            Self::Tick => "in tick",
            Self::Destroy => "in destroy",
            Self::Unload => "while it was unloaded",
        }
    }

    pub(super) const fn number(self) -> u32 {
        self as u32
    }

    pub(super) const fn of(number: u32) -> Self {
        match number {
            0 => Self::Load,
            1 => Self::Describe,
            2 => Self::Create,
            3 => Self::Tick,
            4 => Self::Destroy,
            _ => Self::Unload,
        }
    }
}

/// The library whose code is called, and the task.
#[derive(Debug)]
pub(crate) struct Note {
    pub(super) task: String, // empty: for no task
    pub(super) library: String,
    pub(super) line: String, // beginning of the handler's own line: "hertzd: task p: the plugin /x.so "
}

thread_local! {
    // Constant and without a destructor, so that a handler may read it.
    static INSIDE: Cell<Option<(&'static Note, Function)>> = const { Cell::new(None) };
}

/// The library call that the calling thread is in.
pub(super) fn current() -> Option<(&'static Note, Function)> {
    INSIDE.get()
}

impl Note {
    /// Calls `work`, which is code of this library. If a panic or an exception leaves it, the mark stays, because that ends the process.
    #[cfg(feature = "plugin")]
    pub(crate) fn during<T>(&'static self, function: Function, work: impl FnOnce() -> T) -> T {
        INSIDE.set(Some((self, function)));
        let done = work();
        INSIDE.set(None);
        done
    }
}

/// The note about a crash of `library`, called for `task`. Kept for the lifetime of the process, one for each pair.
pub(crate) fn note(task: &str, library: &Path) -> &'static Note {
    static NOTES: Mutex<BTreeMap<(String, String), &'static Note>> = Mutex::new(BTreeMap::new());
    let mut notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (task.to_owned(), library.display().to_string());
    notes.entry(key).or_insert_with_key(|(task, library)| {
        let of_task = if task.is_empty() { String::new() } else { format!("task {task}: ") };
        let line = format!("{}: {of_task}the plugin {library} ", program::name());
        Box::leak(Box::new(Note { task: task.clone(), library: library.clone(), line }))
    })
}
