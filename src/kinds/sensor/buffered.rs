//! All samples of an IIO device's buffer: every tick takes those that have come since the tick before.
//!
//! A tick reads without waiting into memory that was set aside, and allocates nothing. Only a sample without a time of its
//! own lets it read the monotonic clock.

use super::buffer::{self, Buffer};
use super::find::ByName;
use super::gaps::Gaps;
use super::iio;
use super::settings::BufferSettings;
use crate::channels::{BlockSender, Format, Head, Shape};
use crate::config::BuildError;
use crate::kinds::device::Silence;
use crate::kinds::device::{self, Missing, Reconnecting};
use crate::sys::clock::KernelClock;
use crate::task::{Column, Task, Tick, TickError};
use crate::time::{Clock, Instant};
use std::io::{self, Read};
use std::mem;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Reads of one tick: the first takes all there is, unless the buffer was full.
const ROUNDS: usize = 2;

/// Samples of a block at the most: several blocks are set aside at a time, and locked in memory.
const LARGEST: usize = 4_096;

const STALLED: TickError = TickError::new("the device is there and gives no samples");

/// Samples per second where nobody says how many there are.
const USUAL: f64 = 1_000.0;

/// A sensor that takes all samples.
#[derive(Debug)]
pub(super) struct Buffered {
    channels: Vec<Column>,
    device: Reconnecting<Buffer>,
    shape: Shape,
    totals: Totals,
    stalled: Silence,
}

/// What has been totals.
#[derive(Debug)]
struct Totals {
    samples: u64,   // since the start of the task, as the next two
    overflows: u64, // reads that found the kernel's buffer full
    missing: u64,   // by the samples' times
    gaps: Gaps,
    sums: Box<[f64]>, // of this tick, by column
    blocks: Option<(BlockSender, Vec<u8>)>,
}

impl Buffered {
    pub(super) fn open(
        wanted: ByName,
        mut settings: BufferSettings,
        missing: Missing,
        [sys, dev]: [&Path; 2],
        what: &str,
    ) -> Result<Self, BuildError> {
        let (sys, dev): (PathBuf, PathBuf) = (sys.into(), dev.into());
        let mut first = None;
        let channels = match Buffer::open(&wanted, &settings, &sys, &dev) {
            Ok(buffer) => {
                // When it comes back, it has to have the same.
                settings.channels = buffer.elements.iter().map(|element| element.channel.clone()).collect();
                let channels =
                    columns(buffer.elements.iter().map(|element| (&*element.channel, element.layout.repeat)));
                first = Some(buffer);
                channels
            }
            // Nothing of it is changed meanwhile: that an open device is its opener's alone is found out first.
            Err((_, message)) if message.contains(device::IN_USE) && device::is_handed_over(what) => {
                let there = buffer::channels(&wanted, &settings.channels, &sys);
                let there = there.map_err(|(key, message)| BuildError { key, message })?;
                settings.channels = there.iter().map(|(channel, _)| channel.clone()).collect();
                columns(there.iter().map(|(channel, layout)| (&**channel, layout.repeat)))
            }
            Err((key, message)) if missing == Missing::Refuse => return Err(BuildError { key, message }),
            Err(_) => columns(settings.channels.iter().map(|channel| (&**channel, 1))),
        };
        let length = settings.length.next_power_of_two() as usize;
        let frequency = first.as_ref().and_then(|buffer| buffer.period).map(|period| 1e9 / period);
        let frequency = frequency.or(settings.sampling_frequency).unwrap_or(USUAL);
        let count = channels.len();
        let (name, mut told) = (what.to_owned(), None);
        let again = move || {
            let buffer = match first.take() {
                Some(buffer) => buffer,
                None => reopen(&wanted, &settings, &sys, &dev, count)?,
            };
            let granted = buffer.period.map(|period| 1e9 / period);
            if let (Some(asked), Some(granted)) = (settings.sampling_frequency, granted)
                && !is_near(asked, granted)
                && told != Some(granted)
            {
                warn!("{name}: {asked} samples per second asked for, {granted} granted");
                told = Some(granted);
            }
            Ok(buffer)
        };
        let device =
            Reconnecting::open(what, missing, again).map_err(|message| BuildError { key: "missing", message })?;
        let size = size_of::<i64>() + count * size_of::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "samples are some bytes long")]
        let bytes_per_second = frequency * size as f64;
        let shape =
            Shape { format: Format::Samples(channels.clone()), largest: length.min(LARGEST) * size, bytes_per_second };
        let sums = vec![0.0; count].into();
        let totals = Totals { samples: 0, overflows: 0, missing: 0, gaps: Gaps::default(), sums, blocks: None };
        Ok(Self { channels, device, shape, totals, stalled: Silence::default() })
    }
}

/// The device anew; its samples must hold as many values as before.
fn reopen(wanted: &ByName, settings: &BufferSettings, sys: &Path, dev: &Path, count: usize) -> Result<Buffer, String> {
    let mut buffer = Buffer::open(wanted, settings, sys, dev).map_err(|(_, message)| message)?;
    if buffer.elements.iter().map(|element| element.layout.repeat).sum::<usize>() != count {
        return Err("its channels hold more values than one each; start it when the device is there".into());
    }
    // Values keep the order of the columns.
    let position = |channel: &str| settings.channels.iter().position(|known| known == channel);
    buffer.elements.sort_by_key(|element| position(&element.channel));
    Ok(buffer)
}

/// Equal to one part in 10,000: what a driver says of its frequency is rounded.
fn is_near(asked: f64, granted: f64) -> bool {
    (asked - granted).abs() <= asked / 10_000.0
}

/// A column for each value of each channel.
fn columns<'a>(channels: impl Iterator<Item = (&'a str, usize)>) -> Vec<Column> {
    let mut columns = Vec::new();
    for (channel, repeat) in channels {
        let (name, (_, unit)) = (iio::value_name(channel), iio::unit(channel));
        columns.extend((0..repeat).map(|index| Column {
            name: if repeat == 1 { name.to_owned() } else { format!("{name}_{index}") },
            unit: unit.to_owned(),
        }));
    }
    columns
}

impl Task for Buffered {
    fn columns(&self) -> Vec<Column> {
        let counts = ["samples", "overflows", "gaps"];
        let counts = counts.map(|name| Column { name: name.into(), unit: String::new() });
        self.channels.iter().cloned().chain(counts).collect()
    }

    fn stream(&self) -> Option<Shape> {
        Some(self.shape.clone())
    }

    fn connect(&mut self, blocks: BlockSender) {
        // Not zeros as the kernel has them anyway: every page is touched here.
        let mut block = vec![1; self.shape.largest];
        block.clear();
        self.totals.blocks = Some((blocks, block));
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let Self { channels, device, totals, stalled, .. } = self;
        totals.sums.fill(0.0);
        let before = totals.samples;
        let mut expected = None;
        let done = device.with("cannot read the buffer", |buffer| {
            let fresh = mem::take(&mut buffer.fresh);
            expected = buffer.period.filter(|_| buffer.steady);
            for _ in 0..ROUNDS {
                let read = fill(buffer)?;
                if fresh && read == buffer.bytes.len() {
                    // It was full before the first tick, which is nobody's fault: what is in it is old, with a hole behind.
                    return discard(buffer);
                }
                totals.take(buffer, read, tick.n);
                if read < buffer.bytes.len() {
                    break;
                }
                totals.overflows += 1;
            }
            Ok(())
        });
        if done.is_err() {
            // The time while a device is away is no gap in what it gave.
            totals.gaps = Gaps::default();
            stalled.end();
        }
        let (means, counts) = values.split_at_mut(channels.len());
        let come = float(totals.samples - before);
        if come > 0.0 {
            means.iter_mut().zip(&totals.sums).for_each(|(mean, sum)| *mean = sum / come);
        }
        for (value, count) in counts.iter_mut().zip([totals.samples, totals.overflows, totals.missing]) {
            *value = float(count);
        }
        done?;
        if let Some(period) = expected
            && stalled.lasts(tick.started, totals.samples > before, Silence::patience(period))
        {
            return Err(STALLED);
        }
        Ok(())
    }
}

/// Takes what has come, without looking at it.
fn discard(buffer: &mut Buffer) -> io::Result<()> {
    for _ in 0..ROUNDS {
        if fill(buffer)? < buffer.bytes.len() {
            break;
        }
    }
    Ok(())
}

/// Reads what has come, without waiting; how many bytes.
fn fill(buffer: &mut Buffer) -> io::Result<usize> {
    loop {
        match buffer.file.read(&mut buffer.bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            read => return read,
        }
    }
}

impl Totals {
    /// Takes the samples that were read, and hands them on in blocks.
    fn take(&mut self, buffer: &Buffer, read: usize, n: u64) {
        let read = buffer.bytes.get(..read).unwrap_or_default();
        for piece in read.chunks(LARGEST * buffer.size) {
            self.take_block(buffer, piece, n);
        }
    }

    /// Takes some of them as one block.
    fn take_block(&mut self, buffer: &Buffer, read: &[u8], n: u64) {
        let mut head = None;
        if let Some((_, block)) = &mut self.blocks {
            block.clear();
        }
        for sample in read.chunks_exact(buffer.size) {
            let at = time(buffer, sample);
            if let (Some(period), Some(_)) = (buffer.period, buffer.timestamp) {
                self.missing += self.gaps.missing_before(at, period);
            }
            head.get_or_insert(Head { n, at: Instant::from_nanos(at.into()), index: self.samples + self.missing });
            self.samples += 1;
            if let Some((_, block)) = &mut self.blocks {
                block.extend_from_slice(&at.to_ne_bytes());
            }
            for (value, sum) in values(buffer, sample).zip(&mut self.sums) {
                *sum += value;
                if let Some((_, block)) = &mut self.blocks {
                    block.extend_from_slice(&value.to_ne_bytes());
                }
            }
        }
        if let (Some((sender, block)), Some(head)) = (&mut self.blocks, head) {
            sender.offer(head, &[block]);
        }
    }
}

/// The values of a sample, in the order of the columns.
fn values(buffer: &Buffer, sample: &[u8]) -> impl Iterator<Item = f64> {
    buffer.elements.iter().flat_map(move |element| {
        let stored = sample.get(element.start..).unwrap_or_default();
        (0..element.layout.repeat)
            .map(move |index| element.layout.decode(stored, index) * element.scale + element.offset)
    })
}

/// When a sample was totals, on the monotonic clock: by its own time, or now.
fn time(buffer: &Buffer, sample: &[u8]) -> i64 {
    let own =
        buffer.timestamp.and_then(|(start, layout, offset)| Some(layout.integer(sample.get(start..)?, 0)? + offset));
    own.unwrap_or_else(|| i64::try_from(KernelClock::monotonic().now().nanos()).unwrap_or(i64::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
