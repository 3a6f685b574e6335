//! An instance of a plugin: what its `create` made, until it is dropped.
//!
//! [`Instance::tick`] is for the hot thread. The rest may block and allocate.

use super::abi::{self, Sample, TickFunction};
use super::library::Library;
use crate::sys::crash::{Function, Note};
use crate::time::{Instant, Span};
use libc::c_void;
use std::ffi::{CStr, CString};
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// Bytes for an error text from `create`.
const ERROR_ROOM: u32 = 512;

/// The value of one key in a task's section.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    /// Not set, or an input.
    Absent,
    /// A number.
    Number(f64),
    /// A whole number, a duration in nanoseconds, or 1 for true and 0 for false.
    Integer(i64),
    /// A text.
    Text(String),
    /// A word, and its index among the allowed words.
    Word(String, i64),
}

/// The arguments of `create`.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// The name of the task.
    pub(crate) task: String,
    /// Its period, rounded up.
    pub(crate) period: Span,
    /// One for each key of the table.
    pub(crate) settings: Vec<Setting>,
    /// The same settings as a JSON object.
    pub(crate) json: String,
    /// 0 run, 1 shadow, 2 desk.
    pub(crate) mode: u32,
    /// 0 monotonic, 1 tai, 2 realtime.
    pub(crate) clock: u32,
}

/// What a tick is given besides its inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) n: u64,
    pub(crate) release: Instant,
    pub(crate) started: Instant,
    pub(crate) lateness: Span,
    pub(crate) skipped: u64,
    pub(crate) period: Span,
}

/// A live instance of a plugin.
pub(crate) struct Instance {
    tick: TickFunction,
    handle: *mut c_void,
    note: &'static Note,
    clock: u32,
    library: Arc<Library>,
}

// SAFETY: the interface says that the functions of an instance are called on several threads, one after the other.
unsafe impl Send for Instance {}

impl Instance {
    /// Has the plugin create an instance.
    ///
    /// # Errors
    /// The plugin's error text.
    pub(crate) fn create(library: Arc<Library>, start: &Start) -> Result<Self, String> {
        let text = |text: &str| CString::new(text).map_err(|_| "a text of the section has a zero byte".to_owned());
        let texts = start.settings.iter().map(|setting| match setting {
            Setting::Text(found) | Setting::Word(found, _) => text(found).map(Some),
            _ => Ok(None),
        });
        let texts: Vec<Option<CString>> = texts.collect::<Result<_, _>>()?;
        let settings: Vec<abi::Setting> =
            start.settings.iter().zip(&texts).map(|(one, text)| one.laid_out(text)).collect();
        let (task, json) = (text(&start.task)?, text(&start.json)?);
        let mut error = [0_u8; ERROR_ROOM as usize];
        let laid_out = abi::Start {
            period_ns: start.period.nanos(),
            task: task.as_ptr(),
            json: json.as_ptr(),
            settings: settings.as_ptr(),
            error: error.as_mut_ptr().cast(),
            error_size: ERROR_ROOM,
            setting_count: u32::try_from(settings.len()).map_err(|error| error.to_string())?,
            mode: start.mode,
            clock: start.clock,
        };
        let mut handle = ptr::null_mut();
        let (functions, note) = (library.functions(), library.note(&start.task));
        // SAFETY: `laid_out` and everything that it points to outlive the call, and have the layout and the lengths that the interface
        // promises.
        let code =
            note.during(Function::Create, || unsafe { (functions.create)(&raw const laid_out, &raw mut handle) });
        if code == 0 {
            return Ok(Self { tick: functions.tick, handle, note, clock: start.clock, library });
        }
        error[ERROR_ROOM as usize - 1] = 0;
        let said = CStr::from_bytes_until_nul(&error).map(CStr::to_string_lossy).unwrap_or_default();
        Err(match said.trim() {
            "" => format!("its function create returned {code}, without a text"),
            said => said.to_owned(),
        })
    }

    /// Runs one tick, which reads `inputs` and writes `values`; returns the plugin's result. For the hot thread.
    #[expect(clippy::cast_possible_truncation, reason = "a table has at most MAX_KEYS and MAX_VALUES of them")]
    pub(crate) fn tick(&mut self, moment: &Moment, inputs: &[Sample], values: &mut [f64]) -> i32 {
        let laid_out = abi::Tick {
            n: moment.n,
            release_ns: (moment.release - Instant::ZERO).nanos(),
            started_ns: (moment.started - Instant::ZERO).nanos(),
            lateness_ns: moment.lateness.nanos(),
            skipped: moment.skipped,
            period_ns: moment.period.nanos(),
            inputs: inputs.as_ptr(),
            values: values.as_mut_ptr(),
            input_count: inputs.len() as u32,
            value_count: values.len() as u32,
            clock: self.clock,
            reserved: 0,
        };
        let (tick, handle) = (self.tick, self.handle);
        // SAFETY: the library is loaded, `handle` is what it has created, and `laid_out` and what it points to outlive the call.
        self.note.during(Function::Tick, || unsafe { tick(handle, &raw const laid_out) })
    }

    /// The address of its tick's code.
    pub(crate) fn code(&self) -> *const () {
        self.tick as *const ()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.library.functions().destroy {
            // SAFETY: the library is loaded, and `handle` is what it has created; it is not used afterwards.
            self.note.during(Function::Destroy, || unsafe { destroy(self.handle) });
        }
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("library", &self.library).finish_non_exhaustive()
    }
}

impl Setting {
    fn laid_out(&self, text: &Option<CString>) -> abi::Setting {
        let (number, integer) = match self {
            Self::Absent | Self::Text(_) => (0.0, 0),
            Self::Number(number) => (*number, 0),
            Self::Integer(integer) | Self::Word(_, integer) => (0.0, *integer),
        };
        let present = u32::from(*self != Self::Absent);
        let text = text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        abi::Setting { number, integer, text, present, reserved: 0 }
    }
}
