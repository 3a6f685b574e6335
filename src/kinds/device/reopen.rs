//! The cool end of a device that may come and go: closes it when it is lost, and opens it when it is back. May block and allocate.

use crate::io::{Gone, Outcome, Reopen};
use crate::site::{Claim, Claimed, Claims, Label, OpenDevice, Refusal};
use crate::time::Instant;
use std::sync::Arc;

/// The cool end of a device `D` that `open` opens.
pub(super) struct CoolEnd<D, F> {
    label: Label,
    claims: Arc<Claims>,
    lost: rtrb::Consumer<Claimed<D>>,
    found: rtrb::Producer<Claimed<D>>,
    missing: bool,          // not there at the start
    awaited: Option<Claim>, // another task will hand it over
    kept: Option<Claim>,    // claim of the closed device, which stays this task's
    open: F,
}

impl<D, F> CoolEnd<D, F> {
    pub(super) fn new(
        label: Label,
        claims: Arc<Claims>,
        (lost, found): (rtrb::Consumer<Claimed<D>>, rtrb::Producer<Claimed<D>>),
        missing: bool,
        awaited: Option<Claim>,
        open: F,
    ) -> Self {
        Self { label, claims, lost, found, missing, awaited, kept: None, open }
    }
}

impl<D: OpenDevice + Send, F: FnMut() -> Result<D, Refusal> + Send> Reopen for CoolEnd<D, F> {
    fn is_abandoned(&self) -> bool {
        self.found.is_abandoned()
    }

    fn is_suspect(&mut self, _: Instant) -> bool {
        (self.missing || !self.lost.is_empty()) && !self.awaited.as_ref().is_some_and(Claim::waits)
    }

    fn gone(&mut self, _: Instant) -> Option<Gone> {
        Some(if self.lost.is_empty() { Gone::Missing } else { Gone::Lost })
    }

    fn label(&self) -> &Label {
        &self.label
    }

    fn close(&mut self) {
        self.kept = self.lost.pop().ok().map(Claimed::close);
        self.missing = false;
    }

    fn open(&mut self) -> Result<Outcome, Refusal> {
        let own = self.awaited.as_ref().or(self.kept.as_ref());
        let by_another = |device: &D| self.claims.claimed_by_another(&self.label, device, own, None);
        match (self.open)().and_then(|device| by_another(&device).map_or(Ok(device), Err)) {
            Ok(device) => {
                let device = Claimed::new(device, self.claims.clone(), &self.label.task);
                // There is room: the hot end has no device, or this one would not have been opened.
                let _ = self.found.push(device);
                self.kept = None;
                Ok(if self.awaited.take().is_some() { Outcome::TakenOver } else { Outcome::Opened })
            }
            Err(mut refusal) => {
                self.claims.find_holder(&mut refusal, own, None);
                Err(refusal)
            }
        }
    }
}
