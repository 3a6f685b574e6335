//! A library that is loaded, and how it comes to be. May block and allocate.

use super::abi::{self, Functions};
use super::elf;
use super::table::{self, Described};
use crate::sys::crash::{self, Function, Note};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW, Symbol};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// A library that is loaded. It stays so until this is dropped.
pub(crate) struct Library {
    described: Described,
    functions: Functions,
    path: PathBuf,
    _loaded: Loaded, // last: the functions are in it
}

/// What the system has loaded. Dropped, it is unloaded, which runs its finalisers.
struct Loaded {
    handle: ManuallyDrop<Handle>,
    note: &'static Note,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: dropped here and nowhere else, and not used after.
        self.note.during(Function::Unload, || unsafe { ManuallyDrop::drop(&mut self.handle) });
    }
}

impl Library {
    /// Loads the library that the file `from` holds, and reads its table; `path` is what messages call it. Runs the library's own
    /// initialisers. May block.
    ///
    /// # Errors
    /// Why it is no plugin for this hertzd.
    pub(crate) fn open(from: &Path, path: &Path) -> Result<Self, Refused> {
        elf::refuse_other(from).map_err(Refused::NotLoaded)?;
        // The process is to outlive nothing that crashes from here on without saying whose fault it was.
        crash::watch_plugins();
        let note = crash::note("", path);
        // All symbols at once: none is looked up in a tick.
        // SAFETY: the library's initialisers run here. That they are sound is the user's word, as it is for all of the library.
        let opened = note.during(Function::Load, || unsafe { Handle::open(Some(from), RTLD_NOW | RTLD_LOCAL) });
        let handle = opened.map_err(|error| Refused::NotLoaded(linker_says(&error, from)))?;
        let loaded = Loaded { handle: ManuallyDrop::new(handle), note };
        // SAFETY: the header gives the function this type; a library that exports another one by this name breaks its contract.
        let function: Result<Symbol<abi::TableFunction>, _> = unsafe { loaded.handle.get(abi::SYMBOL) };
        let function = function.map_err(|_| {
            let text = "it has no function `hertzd_plugin_table`: it is no plugin of hertzd, or was built without exporting it";
            Refused::NotAPlugin(text.into())
        })?;
        // What it returns is read under the same mark: pointers that lead nowhere are the library's fault as well.
        // SAFETY: the function takes nothing, and the library is loaded.
        let read = note.during(Function::Describe, || table::read(unsafe { function() }));
        let (described, functions) = read.map_err(Refused::NotAPlugin)?;
        Ok(Self { described, functions, path: path.to_owned(), _loaded: loaded })
    }

    /// What its table says.
    pub(crate) fn described(&self) -> &Described {
        &self.described
    }

    /// The file that it was loaded from.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its functions.
    pub(super) fn functions(&self) -> Functions {
        self.functions
    }

    /// What a crash in a function of it says, called for this task.
    pub(super) fn note(&self, task: &str) -> &'static Note {
        crash::note(task, &self.path)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Library").field(&self.path).finish()
    }
}

/// Why a library was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The system does not load it: it is not there, of another machine, or needs what is not there.
    NotLoaded(String),
    /// It was loaded, and is no plugin for this hertzd.
    NotAPlugin(String),
}

/// What the dynamic linker says, without the name of the file in front.
fn linker_says(error: &libloading::Error, from: &Path) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), |reason| reason.to_string());
    let name = format!("{}: ", from.display());
    text.replacen(&name, "", 1)
}
