//! What a task can ask of the daemon while it is built, and what it provides.
//!
//! | file | contents |
//! | --- | --- |
//! | `built` | the task and what it provides: its guards, its first write, its blocks, its alarm, its troubles outside of ticks |
//! | `guarded` | an output to a user's own hardware |
//! | `claims`, `device`, `refusal` | which task has which device, and why another cannot have it |
//! | `target` | targets known only by their id, as tasks have them one after the other |
//! | `roots` | where the device trees are |
//! | `common` | what the tasks of one daemon share from one start or reload to the next |
//!
//! Off the hot thread; no clock is read.

mod built;
mod claims;
mod common;
mod device;
mod error;
mod guarded;
mod refusal;
mod roots;
mod target;

pub use built::Built;
pub(crate) use built::{Aside, Beginning};
pub(crate) use claims::{Claim, Claimed, Claims, Exchange, Holder};
pub(crate) use common::Common;
#[cfg(feature = "gpio")]
pub(crate) use device::in_sys;
pub(crate) use device::{DeviceId, OpenDevice};
pub use error::BuildError;
pub use guarded::SafeOutput;
pub(crate) use refusal::{Label, Refusal};
pub(crate) use roots::Roots;
pub(crate) use target::{Target, Targets};

use crate::channels::{self, BlockSender, Format, Queue, Shape, Stream};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;

/// The building site, lent to each task of one start or reload while it is built or previewed. A default one shares nothing with others.
#[derive(Debug, Default)]
pub struct Site {
    common: Arc<Common>,
    roots: Roots,
    exchange: Option<Exchange>,
    recorded: Option<Recorded>, // for the next task to be built
    stream: Option<Stream>,     // of the last task built
}

/// How to queue blocks that come too fast, and which formats are recorded.
type Recorded = (Queue, fn(&Format) -> bool);

impl Site {
    /// A site for tasks of the daemon that owns `common`.
    pub(crate) fn of(common: Arc<Common>, roots: Roots) -> Self {
        Self { common, roots, ..Self::default() }
    }

    /// A site of its own, with these device trees.
    pub(crate) fn under(roots: Roots) -> Self {
        Self { roots, ..Self::default() }
    }

    /// The kernel's device tree: `/sys`, except in tests.
    pub fn sys(&self) -> &Path {
        &self.roots.sys
    }

    /// The folder of device files: `/dev`, except in tests.
    pub fn dev(&self) -> &Path {
        &self.roots.dev
    }

    /// A site for tasks that replace others: all tasks that hold a device now will end and hand their devices over, except those in
    /// `going_on`.
    #[must_use]
    pub(crate) fn beside(&self, going_on: impl IntoIterator<Item = String>) -> Self {
        let exchange = Some(self.claims().exchange(going_on));
        Self { exchange, ..Self::of(self.common.clone(), self.roots.clone()) }
    }

    /// Declares that the task produces blocks of samples, sound or pictures in addition to its values. Returns where to send them. `None`:
    /// nothing records them, so the task need not copy them. Call it once per task.
    pub fn stream(&mut self, shape: Shape) -> Option<BlockSender> {
        let recorded = self.recorded.filter(|(_, takes)| takes(&shape.format));
        let (sender, blocks) = recorded.map(|(queue, _)| channels::blocks(queue, &shape)).unzip();
        self.stream = Some(Stream { shape, blocks });
        sender
    }

    /// Sets which blocks of the next task are recorded.
    pub(crate) fn records(&mut self, recorded: Option<Recorded>) {
        self.recorded = recorded;
    }

    /// The blocks of the last task built, if it produces any.
    pub(crate) fn take_stream(&mut self) -> Option<Stream> {
        self.stream.take()
    }

    /// Shared state of all tasks that one daemon builds, by type. It is created at the first request and lives until the daemon ends. For
    /// what a task must know about others, or about the previous task of its name.
    pub fn common<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.common.of()
    }

    pub(crate) fn claims(&self) -> Arc<Claims> {
        self.common()
    }

    /// Claims these devices for the task until the claim is dropped.
    pub(crate) fn claim(&self, devices: impl IntoIterator<Item = DeviceId>, task: &str) -> Claim {
        Claim::new(self.claims(), devices, task)
    }

    /// Finds who has the device and adds that to the message; `None`: the refusal has another reason.
    pub(crate) fn find_holder(&self, refusal: &mut Refusal) -> Option<Holder> {
        self.claims().find_holder(refusal, None, self.exchange.as_ref())
    }

    /// Why the task must not have a device that it could open: another task has it.
    pub(crate) fn claimed_by_another(&self, label: &Label, device: &impl OpenDevice) -> Option<Refusal> {
        self.claims().claimed_by_another(label, device, None, self.exchange.as_ref())
    }
}
