//! How to run, and what a run is connected to. Plain values.

use super::finish::TICK_PATIENCE;
use super::requests::Requests;
use crate::daemon::disk::flight_thread::FlightOptions;
use crate::daemon::outputs::left_plans::LeftPlans;
use crate::log::{LogOutput, Output};
use crate::metrics::Totals;
use crate::site::Roots;
use crate::sys::dir::Readers;
use crate::time::Span;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// How to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Run exactly the releases with `r(n) − epoch` below this, then stop; `None`: until asked to stop.
    pub length: Option<Span>,
    /// Where to listen for status requests; `None`: nowhere.
    pub status_socket: Option<PathBuf>,
    /// Who may connect to that socket.
    pub status_readers: Readers,
    /// The flight recorder's file; `None`: there is none.
    pub flight: Option<FlightOptions>,
    /// Where to keep the plan of the outputs' safe values; `None`: nowhere.
    pub safe_plan: Option<PathBuf>,
    /// Plans that dead processes left elsewhere. What they still owe is written at the start or at a reload, or is added to this process's
    /// plan.
    pub left_plans: LeftPlans,
    /// Locked files that make other starts wait until this one has dealt with those plans. Then they are unlocked.
    pub turn: Vec<Arc<File>>,
    /// Where the device trees are.
    pub roots: Roots,
    /// The tasks were built to write nothing, by `Kinds::in_shadow`. The log, the status and the summary say so.
    pub shadow: bool,
    /// How long a stop, or the end of the run's length, waits for a worker that does not advance. Then the run ends with a fault.
    pub stop_timeout: Span,
}

impl Default for Options {
    fn default() -> Self {
        let (status_socket, flight, safe_plan) = (None, None, None);
        Self {
            length: None,
            status_socket,
            status_readers: Readers::Owner,
            flight,
            safe_plan,
            left_plans: LeftPlans::default(),
            turn: Vec::new(),
            roots: Roots::default(),
            shadow: false,
            stop_timeout: TICK_PATIENCE,
        }
    }
}

/// What a run is connected to. By default there are no requests, and events go to the log.
pub(crate) struct Connections<'a> {
    /// Requests for a stop or a reload.
    pub requests: Requests,
    /// Where events go.
    pub output: Box<dyn Output>,
    /// Called a few times a second if progress is shown.
    pub progress: Option<&'a mut dyn FnMut(Progress)>,
}

impl Default for Connections<'_> {
    fn default() -> Self {
        Self { requests: Requests::default(), output: Box::new(LogOutput), progress: None }
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Since the epoch.
    pub elapsed: Span,
    /// Totals so far.
    pub totals: Totals,
}
