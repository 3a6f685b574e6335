//! The receiving task. A tick allocates nothing. It makes one system call per 32 frames, at most 16 of them, and one more when it took so
//! many frames that others may have been dropped. Time comes with the ticks; the monotonic clock and UTC are read once a tick, to understand the
//! kernel's timestamps.

use super::bus::{Bus, BusSettings, Purpose, is_lost};
use super::interface::NamedBus;
use super::latest::Latest;
use super::settings::{ReceiveSettings, Received};
use super::signal::Signal;
use crate::channels::NONE;
use crate::config::{BuildError, Preview};
use crate::kinds::device::{Missing, Reconnecting, Sight, preview};
use crate::site::{Label, Refusal, Site};
use crate::sys::can::{self, BATCH, Id};
use crate::sys::clock::KernelClock;
use crate::task::{Column, Reason, Task, Tick, TickError};
use crate::time::{Clock, Span};
use std::io;

/// Maximum number of receive calls in one tick.
const MOST_ROUNDS: usize = 16;

/// The columns after those of the signals.
pub(super) const COUNTS: [&str; 3] = ["frames", "error-frames", "dropped"];

const FAILED: &str = "cannot receive from the interface";

/// A task that receives signals.
pub(super) struct Receiver {
    bus: Reconnecting<Bus>,
    ids: Box<[(Id, usize)]>, // sorted, with the index of each frame
    latest: Latest,
    signals: Vec<(usize, Signal)>,
    columns: Vec<Column>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    frames: f64,
    errors: f64,
    dropped: f64,
}

pub(super) fn columns(settings: &ReceiveSettings) -> Vec<Column> {
    let counts = COUNTS.map(|name| Column { name: name.into(), unit: String::new() });
    settings.received.columns.iter().cloned().chain(counts).collect()
}

impl Receiver {
    pub(super) fn open(
        site: &Site,
        label: Label,
        settings: ReceiveSettings,
        missing: Missing,
    ) -> Result<Self, BuildError> {
        let (bus, ids) = (settings.bus.clone(), ids(&settings));
        let named = NamedBus::new(site, &label, &bus.interface);
        let bus = Reconnecting::open(site, label, missing, move || open(&bus, &named, &ids))?;
        Ok(Self::new(bus, settings))
    }

    pub(super) fn new(bus: Reconnecting<Bus>, settings: ReceiveSettings) -> Self {
        let columns = columns(&settings);
        let mut sorted: Vec<(Id, usize)> = ids(&settings).into_iter().zip(0..).collect();
        sorted.sort_unstable();
        let Received { frames, signals, .. } = settings.received;
        let latest = Latest::new(frames.iter().map(|(_, timeout)| *timeout));
        Self { bus, ids: sorted.into(), latest, signals, columns, counts: Counts::default() }
    }

    /// Previews `open`.
    pub(super) fn look(
        site: &Site,
        label: &Label,
        settings: &ReceiveSettings,
        missing: Missing,
    ) -> Result<Preview, BuildError> {
        let named = NamedBus::new(site, label, &settings.bus.interface);
        let looked = open(&settings.bus, &named, &ids(settings)).map(|_| Sight::default());
        Ok(Preview { columns: Some(columns(settings)), ..preview(site, label, missing, looked)? })
    }
}

fn ids(settings: &ReceiveSettings) -> Vec<Id> {
    settings.received.frames.iter().map(|(id, _)| *id).collect()
}

fn open(settings: &BusSettings, bus: &NamedBus, ids: &[Id]) -> Result<Bus, Refusal> {
    Bus::open(settings, bus, ids, Purpose::Receive, |_| Ok(()))
}

/// Takes all frames that have arrived.
fn drain(bus: &mut Bus, ids: &[(Id, usize)], latest: &mut Latest, counts: &mut Counts) -> io::Result<()> {
    if std::mem::take(&mut bus.fresh) {
        latest.reopened();
    }
    let (mut taken, mut done) = (0, Ok(()));
    for _ in 0..MOST_ROUNDS {
        let received = bus.socket.receive_dated(|received, stamp| match received {
            can::Received::Frame(frame) => {
                if let Ok(at) = ids.binary_search_by_key(&frame.id, |(id, _)| *id)
                    && latest.take(ids[at].1, frame.bytes(), stamp)
                {
                    counts.frames += 1.0;
                }
            }
            can::Received::Error => counts.errors += 1.0,
            can::Received::Sent(_) => {}
        });
        match received {
            Ok(count) => {
                taken += count;
                if count < BATCH {
                    latest.emptied();
                    break;
                }
            }
            // Frames that arrived before the error are still in the socket.
            Err(error) if done.is_ok() => done = Err(error),
            Err(error) => return Err(error),
        }
    }
    if taken >= bus.fills {
        counts.dropped += f64::from(bus.newly_dropped()?);
    }
    done
}

impl Task for Receiver {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let Self { bus, ids, latest, signals, counts, .. } = self;
        latest.begin(tick);
        let now = KernelClock::monotonic().now();
        // Read a little after the tick's start, its release seems that much later, and what has arrived that much older.
        latest.clocks(now - tick.lateness, now, KernelClock::realtime().now());
        let drained = match bus.device() {
            Ok(open) => drain(open, ids, latest, counts).map_err(|error| {
                if is_lost(&error) {
                    bus.lose();
                }
                TickError::from_io(FAILED, &error)
            }),
            Err(gone) => Err(gone),
        };
        for (value, (frame, signal)) in values.iter_mut().zip(&*signals) {
            *value = match latest.data(*frame) {
                Some(data) => signal.read(data).unwrap_or_else(Reason::value),
                None if latest.has_come(*frame) => Reason::Unavailable.value(),
                None => NONE,
            };
        }
        values[signals.len()..].copy_from_slice(&[counts.frames, counts.errors, counts.dropped]);
        drained
    }

    fn age(&self) -> Span {
        self.latest.age()
    }
}
