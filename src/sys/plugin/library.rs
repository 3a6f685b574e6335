//! A library that is loaded, and how it comes to be. May block and allocate.

use super::abi::{self, Functions};
use super::table::{self, Described};
use crate::sys::crash::{self, Function, Note};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW, Symbol};
use std::fmt;
use std::fs::File;
use std::io::Read;
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
        if let Some(has) = is_cut(from) {
            let text = format!("it is not whole: its file is cut off after {has} bytes; was it copied to its end?");
            return Err(Refused::NotLoaded(text));
        }
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

/// What the dynamic linker says, without the name of the file in front. It passes over a library for another machine as if it was not there.
fn linker_says(error: &libloading::Error, from: &Path) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), |reason| reason.to_string());
    let text = text.replacen(&format!("{}: ", from.display()), "", 1);
    match text.starts_with("cannot open shared object file: No such file") && from.exists() {
        true => "the linker passes over it: it was built for another machine or another ABI (see `file`)".into(),
        false => text,
    }
}

/// The bytes of a file that ends before its table of sections, which linkers write last. The dynamic linker maps such a file all the same,
/// and who touches what is not there is ended by SIGBUS: a reload would end the daemon while a library is still being copied.
fn is_cut(path: &Path) -> Option<u64> {
    let mut head = [0; 64];
    let mut file = File::open(path).ok()?;
    let has = file.metadata().ok()?.len();
    file.read_exact(&mut head).ok()?;
    // The table's place in the file. Of a file that is none of this machine, the linker has the word.
    let word = if usize::BITS == 64 { &head[40..48] } else { &head[32..36] };
    let mut place = [0; size_of::<usize>()];
    place.copy_from_slice(word);
    let place = usize::from_ne_bytes(place) as u64;
    let own = [if usize::BITS == 64 { 2 } else { 1 }, if cfg!(target_endian = "big") { 2 } else { 1 }];
    let is_own = head[..4] == *b"\x7fELF" && head[4..6] == own;
    (is_own && place > has).then_some(has)
}
