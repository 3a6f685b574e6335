//! All samples of an IIO device's buffer: every tick takes the samples that arrived since the previous tick.
//!
//! A tick reads without waiting into preallocated memory, and allocates nothing. It reads the monotonic clock only for samples without a
//! timestamp.

use super::buffer::{self, Buffer};
use super::dating::{Dates, Dating};
use super::find::ByName;
use super::gaps::Gaps;
use super::iio;
use super::settings::BufferSettings;
use crate::channels::{BlockSender, Format, Head, Shape};
use crate::config::{BuildError, Preview};
use crate::kinds::device::{First, Missing, Reconnecting, Stalled, preview};
use crate::site::{Label, Refusal, Site};
use crate::sys::clock::KernelClock;
use crate::task::{Column, Task, Tick, TickError};
use crate::time::{Clock, Instant};
use std::io::{self, Read};
use std::mem;
use std::path::Path;
use tracing::warn;

/// Reads per tick. The second one is made only if the first found the buffer full.
const ROUNDS: usize = 2;

/// The most samples in a block: memory for several blocks is allocated and locked.
const LARGEST: usize = 4_096;

const STALLED: TickError = TickError::new("the device gives no samples");

/// Samples per second if unknown.
const USUAL: f64 = 1_000.0;

/// A sensor that takes all samples of a buffer.
#[derive(Debug)]
pub(super) struct Buffered {
    channels: Vec<Column>,
    device: Reconnecting<Buffer>,
    totals: Totals,
    stalled: Stalled,
}

/// The totals of what has been read so far.
#[derive(Debug, Default)]
struct Totals {
    samples: u64,            // since the start of the task, like the next two
    overflows: u64,          // reads that found the kernel's buffer full
    missing: u64,            // samples missing according to the timestamps
    gaps: Gaps,              // for samples with a timestamp
    dating: Dating,          // for samples without one
    sums: Box<[f64]>,        // of this tick, by column
    oldest: Option<Instant>, // of this tick's samples, unless their clock can be set
    blocks: Option<(BlockSender, Vec<u8>)>,
}

impl Buffered {
    pub(super) fn open(
        site: &mut Site,
        wanted: ByName,
        mut settings: BufferSettings,
        missing: Missing,
        label: Label,
    ) -> Result<Self, BuildError> {
        let (sys, dev) = (site.sys().to_owned(), site.dev().to_owned());
        let first = First::of(site, &label, missing, Buffer::open(&wanted, &settings, &sys, &dev))?;
        let there: Vec<(String, usize)> = match &first {
            First::Opened(buffer) => {
                buffer.elements.iter().map(|element| (element.channel.clone(), element.layout.repeat)).collect()
            }
            First::HandedOver(_) => {
                let there = buffer::channels(&wanted, &settings.channels, &sys)?;
                there.into_iter().map(|(channel, layout)| (channel, layout.repeat)).collect()
            }
            First::Missing => usual(&settings),
        };
        let channels = columns(there.iter().map(|(channel, repeat)| (&**channel, *repeat)));
        // When the device comes back, it must have the same channels.
        settings.channels = there.into_iter().map(|(channel, _)| channel).collect();
        let granted = if let First::Opened(buffer) = &first { buffer.frequency() } else { None };
        let length = settings.length.next_power_of_two() as usize;
        let frequency = granted.or(settings.sampling_frequency).unwrap_or(USUAL);
        let count = channels.len();
        let (name, mut warned) = (label.to_string(), None);
        let mut warn_once = move |buffer: &Buffer, asked: Option<f64>| {
            if let (Some(asked), Some(granted)) = (asked, buffer.frequency())
                && !is_near(asked, granted)
                && warned != Some(granted)
            {
                warn!("{name}: {asked} samples per second requested, the driver granted {granted}");
                warned = Some(granted);
            }
        };
        if let First::Opened(buffer) = &first {
            warn_once(buffer, settings.sampling_frequency);
        }
        let device = Reconnecting::new(site, label, first, move || {
            let buffer = reopen(&wanted, &settings, &sys, &dev, count)?;
            warn_once(&buffer, settings.sampling_frequency);
            Ok(buffer)
        })?;
        let size = size_of::<i64>() + count * size_of::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "samples are some bytes long")]
        let bytes_per_second = frequency * size as f64;
        let (format, largest) = (Format::Samples(channels.clone()), length.min(LARGEST) * size);
        let blocks = site.stream(Shape { format, largest, bytes_per_second }).map(|blocks| {
            // Filled with ones, so that every page is touched here.
            let mut block = vec![1; largest];
            block.clear();
            (blocks, block)
        });
        let sums = vec![0.0; count].into();
        let totals = Totals { sums, blocks, ..Totals::default() };
        Ok(Self { channels, device, totals, stalled: Stalled::default() })
    }
}

impl Buffered {
    /// What `open` would find.
    pub(super) fn look(
        site: &Site,
        wanted: &ByName,
        settings: BufferSettings,
        missing: Missing,
        label: &Label,
    ) -> Result<Preview, BuildError> {
        let looked = buffer::look(wanted, &settings, site.sys(), site.dev());
        let there = match &looked {
            Ok((_, channels)) => channels.iter().map(|(channel, layout)| (channel.clone(), layout.repeat)).collect(),
            Err(_) => usual(&settings),
        };
        let channels = columns(there.iter().map(|(channel, repeat)| (&**channel, *repeat)));
        let stream = Shape { format: Format::Samples(channels.clone()), largest: LARGEST, bytes_per_second: USUAL };
        let preview = preview(site, label, missing, looked.map(|(sight, _)| sight))?;
        Ok(Preview { columns: Some(with_counts(&channels)), stream: Some(stream), may_freeze: true, ..preview })
    }
}

/// The channels of a device that is not present yet, and the number of values in each.
fn usual(settings: &BufferSettings) -> Vec<(String, usize)> {
    settings.channels.iter().map(|channel| (channel.clone(), iio::usual_count(channel))).collect()
}

/// Reopens the device; its samples must hold as many values as before.
fn reopen(wanted: &ByName, settings: &BufferSettings, sys: &Path, dev: &Path, count: usize) -> Result<Buffer, Refusal> {
    let mut buffer = Buffer::open(wanted, settings, sys, dev)?;
    if buffer.elements.iter().map(|element| element.layout.repeat).sum::<usize>() != count {
        let message = "its channels hold more values than one each; start hertzd when the device is there";
        return Err(Refusal::new("iio", message));
    }
    // Values keep the order of the columns.
    let position = |channel: &str| settings.channels.iter().position(|known| known == channel);
    buffer.elements.sort_by_key(|element| position(&element.channel));
    Ok(buffer)
}

/// Equal to one part in 10,000: drivers round the frequency that they report.
fn is_near(asked: f64, granted: f64) -> bool {
    (asked - granted).abs() <= asked / 10_000.0
}

/// One column for each value of each channel.
fn columns<'a>(channels: impl Iterator<Item = (&'a str, usize)>) -> Vec<Column> {
    let mut columns = Vec::new();
    for (channel, count) in channels {
        let (_, unit) = iio::unit(channel);
        let names = iio::component_names(iio::value_name(channel), count);
        columns.extend(names.map(|name| Column { name, unit: unit.to_owned() }));
    }
    columns
}

/// All columns of a task with these channels.
fn with_counts(channels: &[Column]) -> Vec<Column> {
    let counts = ["samples", "overflows", "gaps"];
    let counts = counts.map(|name| Column { name: name.into(), unit: String::new() });
    channels.iter().cloned().chain(counts).collect()
}

impl Task for Buffered {
    fn columns(&self) -> Vec<Column> {
        with_counts(&self.channels)
    }

    fn origin(&self) -> Option<Instant> {
        self.totals.oldest
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let Self { channels, device, totals, stalled, .. } = self;
        totals.sums.fill(0.0);
        totals.oldest = None;
        let before = totals.samples;
        let mut expected = None;
        let done = device.with("cannot read the buffer", tick.period, |buffer| {
            let fresh = mem::take(&mut buffer.fresh);
            expected = buffer.period;
            for _ in 0..ROUNDS {
                let read = fill(buffer)?;
                if fresh && read == buffer.bytes.len() {
                    // The buffer filled up before the first tick: these samples are old, with a gap after them.
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
            // The time while a device is away does not count as a gap.
            (totals.gaps, totals.dating) = (Gaps::default(), Dating::default());
            stalled.reset();
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
            && stalled.exceeds(tick.started, totals.samples > before, Stalled::patience(period))
        {
            return Err(STALLED);
        }
        Ok(())
    }
}

/// Drops the samples that are available.
fn discard(buffer: &mut Buffer) -> io::Result<()> {
    for _ in 0..ROUNDS {
        if fill(buffer)? < buffer.bytes.len() {
            break;
        }
    }
    Ok(())
}

/// Reads the available samples without waiting. Returns the number of bytes.
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
    /// Takes the samples that were read, and passes them on in blocks.
    fn take(&mut self, buffer: &Buffer, read: usize, n: u64) {
        let read = buffer.bytes.get(..read).unwrap_or_default();
        let count = read.len() / buffer.size;
        let dates = (buffer.timestamp.is_none() && count > 0).then(|| {
            let now = i64::try_from(KernelClock::monotonic().now().nanos()).unwrap_or(i64::MAX);
            match buffer.period {
                Some(period) => self.dating.date(count, buffer.bytes.len() / buffer.size, now, period),
                None => Dates::at(now),
            }
        });
        self.missing += dates.map_or(0, |dates| dates.missing);
        for (index, piece) in read.chunks(LARGEST * buffer.size).enumerate() {
            self.take_block(buffer, piece, n, |sample| dates.map(|dates| dates.of(index * LARGEST + sample)));
        }
    }

    /// Takes some of the samples as one block. `dated`: the time of a sample in the block that has no timestamp.
    fn take_block(&mut self, buffer: &Buffer, read: &[u8], n: u64, dated: impl Fn(usize) -> Option<i64>) {
        let mut head = None;
        if let Some((_, block)) = &mut self.blocks {
            block.clear();
        }
        for (index, sample) in read.chunks_exact(buffer.size).enumerate() {
            let at = dated(index).or_else(|| timestamp(buffer, sample)).unwrap_or_default();
            if let (Some(period), Some(_)) = (buffer.period, buffer.timestamp) {
                self.missing += self.gaps.missing_before(at, period);
            }
            let instant = Instant::from_nanos(at.into());
            if buffer.timestamp.is_none_or(|(.., offset)| offset == 0) {
                self.oldest.get_or_insert(instant);
            }
            head.get_or_insert(Head { n, at: instant, index: self.samples + self.missing });
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

/// The timestamp of a sample, on the monotonic clock.
fn timestamp(buffer: &Buffer, sample: &[u8]) -> Option<i64> {
    let (start, layout, offset) = buffer.timestamp?;
    Some(layout.integer(sample.get(start..)?, 0)? + offset)
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
