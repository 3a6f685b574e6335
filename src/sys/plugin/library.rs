//! A loaded library, and how it is loaded. May block and allocate.

use super::abi::{self, Functions};
use super::table::{self, Described};
use crate::sys::crash::{self, Function, Note};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW, Symbol};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// A loaded library. It stays loaded until this is dropped.
pub(crate) struct Library {
    described: Described,
    functions: Functions,
    path: PathBuf,
    _loaded: Loaded, // last: the functions are in it
}

/// The system's handle of a loaded library. Dropping it unloads the library, which runs its finalisers.
struct Loaded {
    handle: ManuallyDrop<Handle>,
    note: &'static Note,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: dropped here and nowhere else, and not used afterwards.
        self.note.during(Function::Unload, || unsafe { ManuallyDrop::drop(&mut self.handle) });
    }
}

impl Library {
    /// Loads the library in the file `from` and reads its table; messages call it `path`. Runs the library's own initialisers. May block.
    ///
    /// # Errors
    /// Why it is not a plugin for this hertzd.
    pub(crate) fn open(from: &Path, path: &Path) -> Result<Self, Refused> {
        if let Some(has) = is_cut(from) {
            let text = format!("it is not whole: its file is cut off after {has} bytes; was it copied to its end?");
            return Err(Refused::NotLoaded(text));
        }
        // From here on the library may crash the process; the crash report must name it.
        crash::watch_plugins();
        let note = crash::note("", path);
        // All symbols are resolved now, so that none is looked up in a tick.
        // SAFETY: the library's initialisers run here. The user vouches that they are sound, as for the whole library.
        let opened = note.during(Function::Load, || unsafe { Handle::open(Some(from), RTLD_NOW | RTLD_LOCAL) });
        let handle = opened.map_err(|error| Refused::NotLoaded(linker_says(&error, from)))?;
        let loaded = Loaded { handle: ManuallyDrop::new(handle), note };
        // SAFETY: the header gives the function this type; a library that exports another one by this name breaks its contract.
        let function: Result<Symbol<abi::TableFunction>, _> = unsafe { loaded.handle.get(abi::SYMBOL) };
        let function = function.map_err(|_| {
            let text = "it has no function `hertzd_plugin_table`: it is no plugin of hertzd, or was built without exporting it";
            Refused::NotAPlugin(text.into())
        })?;
        // The table is read under the same mark: dangling pointers in it are the library's fault as well.
        // SAFETY: the function takes nothing, and the library is loaded.
        let read = note.during(Function::Describe, || table::read(unsafe { function() }));
        let (described, functions) = read.map_err(Refused::NotAPlugin)?;
        Ok(Self { described, functions, path: path.to_owned(), _loaded: loaded })
    }

    /// The content of its table.
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

    /// The note that a crash in one of its functions shows, called for this task.
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
    /// The system cannot load it: the file is missing, built for another machine, or lacks a dependency.
    NotLoaded(String),
    /// It was loaded, but is not a plugin for this hertzd.
    NotAPlugin(String),
}

/// The dynamic linker's message, without the leading file name. The linker ignores a library for another machine as if it did not exist.
fn linker_says(error: &libloading::Error, from: &Path) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), |reason| reason.to_string());
    let text = text.replacen(&format!("{}: ", from.display()), "", 1);
    match text.starts_with("cannot open shared object file: No such file") && from.exists() {
        true => "the linker passes over it: it was built for another machine or another ABI (see `file`)".into(),
        false => text,
    }
}

/// The size of a file that ends before its section table, which linkers write last. The dynamic linker maps such a file all the same, and
/// touching the missing part raises SIGBUS: a reload would end the daemon while a library is still being copied.
fn is_cut(path: &Path) -> Option<u64> {
    let mut head = [0; 64];
    let mut file = File::open(path).ok()?;
    let has = file.metadata().ok()?.len();
    file.read_exact(&mut head).ok()?;
    // The section table's offset in the file. A file for another machine is left to the linker.
    let word = if usize::BITS == 64 { &head[40..48] } else { &head[32..36] };
    let mut place = [0; size_of::<usize>()];
    place.copy_from_slice(word);
    let place = usize::from_ne_bytes(place) as u64;
    let own = [if usize::BITS == 64 { 2 } else { 1 }, if cfg!(target_endian = "big") { 2 } else { 1 }];
    let is_own = head[..4] == *b"\x7fELF" && head[4..6] == own;
    (is_own && place > has).then_some(has)
}
