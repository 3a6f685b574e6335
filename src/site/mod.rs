//! What a task may ask of the daemon while it is built, and what it brings.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `built` | the task and what it brings: who makes it safe, what it writes first, its blocks, its alarm, what is wrong beside its ticks |
//! | `guarded` | an output to hardware of a user's own |
//! | `claims`, `device`, `refusal` | which task has which device, and why another one cannot have it |
//! | `target` | what only its id is known of, as tasks have it one after the other |
//! | `roots` | where the trees of devices are |
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

/// Lent to each task of one start or reload while it is built, or is looked at. One that was made by itself has nothing in common with others.
#[derive(Debug, Default)]
pub struct Site {
    common: Arc<Common>,
    roots: Roots,
    exchange: Option<Exchange>,
    recorded: Option<Recorded>, // of the task that is built next
    stream: Option<Stream>,     // of the task that was built last
}

/// What becomes of blocks that come too fast, and which of them are recorded.
type Recorded = (Queue, fn(&Format) -> bool);

impl Site {
    /// For tasks of the daemon that has this.
    pub(crate) fn of(common: Arc<Common>, roots: Roots) -> Self {
        Self { common, roots, ..Self::default() }
    }

    /// One by itself, where the trees of devices are these.
    pub(crate) fn under(roots: Roots) -> Self {
        Self { roots, ..Self::default() }
    }

    /// The tree that the kernel shows its devices in: `/sys`, but in a test.
    pub fn sys(&self) -> &Path {
        &self.roots.sys
    }

    /// The folder of device files: `/dev`, but in a test.
    pub fn dev(&self) -> &Path {
        &self.roots.dev
    }

    /// For tasks that replace others: all that hold a device now will end, but for those that continue. Their devices are handed over.
    #[must_use]
    pub(crate) fn beside(&self, going_on: impl IntoIterator<Item = String>) -> Self {
        let exchange = Some(self.claims().exchange(going_on));
        Self { exchange, ..Self::of(self.common.clone(), self.roots.clone()) }
    }

    /// Says that the task produces blocks of samples, sound or pictures beside its values. Returns where they go; `None`: nothing records them, so it
    /// need not copy them. Once for each task.
    pub fn stream(&mut self, shape: Shape) -> Option<BlockSender> {
        let recorded = self.recorded.filter(|(_, takes)| takes(&shape.format));
        let (sender, blocks) = recorded.map(|(queue, _)| channels::blocks(queue, &shape)).unzip();
        self.stream = Some(Stream { shape, blocks });
        sender
    }

    /// Which blocks are recorded of the task that is built next.
    pub(crate) fn records(&mut self, recorded: Option<Recorded>) {
        self.recorded = recorded;
    }

    /// The blocks of the task that was built last, if it produces any.
    pub(crate) fn take_stream(&mut self) -> Option<Stream> {
        self.stream.take()
    }

    /// What all tasks share that one daemon builds, by its type: made when it is asked for first, there until the daemon ends. For what one task
    /// has to know of others, or of the one before it that had its name.
    pub fn common<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.common.of()
    }

    pub(crate) fn claims(&self) -> Arc<Claims> {
        self.common()
    }

    /// These devices are the task's until that is dropped.
    pub(crate) fn claim(&self, devices: impl IntoIterator<Item = DeviceId>, task: &str) -> Claim {
        Claim::new(self.claims(), devices, task)
    }

    /// Finds out who has the device and adds it to the message; `None`: the refusal has another reason.
    pub(crate) fn find_holder(&self, refusal: &mut Refusal) -> Option<Holder> {
        self.claims().find_holder(refusal, None, self.exchange.as_ref())
    }

    /// Why the task must not have a device that it could open: another one has it.
    pub(crate) fn claimed_by_another(&self, label: &Label, device: &impl OpenDevice) -> Option<Refusal> {
        self.claims().claimed_by_another(label, device, None, self.exchange.as_ref())
    }
}
