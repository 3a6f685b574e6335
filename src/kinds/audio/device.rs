//! The device: an ALSA PCM, opened for non-blocking capture and read without a thread of its own.
//!
//! A sound card that allows it (`hw:`, memory-mapped) runs freely: it never stops on an overrun, its counter says how many frames were
//! overwritten, and the hot thread has nothing to recover. Any other PCM stops on an overrun, and another thread reopens it.
//!
//! [`Device::open`] may block and allocates. [`Device::status`] and [`Device::take`] do neither themselves; docs/tasks.md describes what a
//! PCM that leads to a sound server does beneath them.

use super::settings::AudioSettings;
use super::supported;
use crate::kinds::device::{Sight, hidden};
use crate::site::{DeviceId, OpenDevice, Refusal};
use crate::sys::lock::Holder;
use alsa::pcm::{Access, Frames, HwParams, IO, PCM};
use alsa::{Direction, Output, ValueOr};
use std::cell::RefCell;
use std::ffi::CString;
use std::path::PathBuf;
use std::rc::Rc;
use std::{fs, io};

/// A PCM open for capture.
#[derive(Debug)]
pub(super) struct Device {
    pcm: PCM,
    free_running: bool, // memory-mapped; continues after an overrun
    mapped: bool,
    frame: usize, // bytes
    buffer: u64,  // frames that the device's buffer holds
    period: u64,  // frames; steps in which it may report its position
    heap: Box<[u8]>,
    pub(super) fresh: bool, // no frame has been taken yet
    ids: Vec<DeviceId>,
}

impl OpenDevice for Device {
    fn exclusive(&self) -> Vec<DeviceId> {
        self.ids.clone()
    }
}

/// What the device has available now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    pub(super) available: u64, // frames that can be taken
    pub(super) behind: u64,    // age of the first of them, in frames
    pub(super) lost: u64,      // frames overwritten before they could be taken; not counted above
}

/// The result of a take, in frames; the bytes are in [`Device::taken`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Captured {
    pub(super) frames: u64,
    pub(super) lost: u64, // frames overwritten during the take; not counted above
}

impl Device {
    /// Opens the device with these settings, and starts it.
    pub(super) fn open(settings: &AudioSettings) -> Result<Self, Refusal> {
        let name = &settings.device;
        // The library's messages go into our error, not to stderr.
        let said = Output::local_error_handler().ok();
        let refuse = |error: alsa::Error| refusal(name, said.as_ref(), &error);
        let pcm = open_pcm(name, &refuse)?;
        let mapped = {
            let (wanted, mapped) = Self::wanted(&pcm, settings, &refuse)?;
            pcm.hw_params(&wanted).map_err(&refuse)?;
            mapped
        };
        let (buffer, period) = pcm.get_params().map_err(&refuse)?;
        if settings.buffer_frames(settings.least_buffer) > buffer {
            return Err(Refusal::new("buffer", supported::too_short(settings, buffer)));
        }
        let free_running = mapped && supported::is_hardware(&pcm);
        {
            let parameters = pcm.sw_params_current().map_err(&refuse)?;
            let end = if free_running {
                parameters.get_boundary()
            } else {
                Frames::try_from(buffer).map_err(|_| alsa::Error::unsupported("buffer"))
            };
            end.and_then(|end| parameters.set_stop_threshold(end)).map_err(&refuse)?;
            pcm.sw_params(&parameters).map_err(&refuse)?;
        }
        let frame = settings.frame_bytes();
        let held = usize::try_from(buffer).unwrap_or(usize::MAX).min(settings.largest_take());
        // Not zeros, which the kernel would map lazily: this touches every page.
        let heap = vec![1; held * frame].into_boxed_slice();
        pcm.prepare().and_then(|()| pcm.start()).map_err(&refuse)?;
        let ids = [id_of(&pcm), Some(DeviceId::Named(name.clone()))].into_iter().flatten().collect();
        Ok(Self { pcm, free_running, mapped, frame, buffer, period, heap, fresh: true, ids })
    }

    /// Previews [`open`](Self::open). Opens the device, unless another program has it, and queries what it supports; changes no settings.
    pub(super) fn look(settings: &AudioSettings) -> Result<Sight, Refusal> {
        let name = &settings.device;
        let id = id_of_name(name);
        let sight = Sight::of("device", vec![id.clone()]);
        let said = Output::local_error_handler().ok();
        let refuse = |error: alsa::Error| refusal(name, said.as_ref(), &error);
        let pcm = match open_pcm(name, &refuse) {
            Ok(pcm) => pcm,
            Err(refusal) => {
                let node = node_of_name(name);
                if let Some(hidden) = node.as_ref().and_then(|node| hidden(node, true)) {
                    return Ok(hidden);
                }
                let owner = owner(&id).filter(|_| !refusal.in_use.is_empty());
                let ours = owner.filter(Holder::is_ours).ok_or(refusal)?;
                return Ok(Sight { taken: Some(format!("{name:?} is in use by {ours}")), ..sight });
            }
        };
        Self::wanted(&pcm, settings, &refuse)?;
        let sight = sight.unknown(format!("whether {name:?} grants the buffer and starts"));
        Ok(Sight { open: Some(Box::new(pcm)), ..sight })
    }

    /// The hardware parameters to set, and whether the memory can be read in place. Sets nothing.
    fn wanted<'a>(
        pcm: &'a PCM,
        settings: &AudioSettings,
        refuse: &impl Fn(alsa::Error) -> Refusal,
    ) -> Result<(HwParams<'a>, bool), Refusal> {
        let unfit = |key, message: String| Refusal::new(key, message);
        let wanted = HwParams::any(pcm).map_err(refuse)?;
        let mapped = wanted.test_access(Access::MMapInterleaved).is_ok();
        let access = if mapped { Access::MMapInterleaved } else { Access::RWInterleaved };
        wanted.set_access(access).map_err(refuse)?;
        let format = supported::alsa_format(settings.format.sample);
        wanted.set_format(format).map_err(|_| unfit("sample-format", supported::formats(settings, &wanted)))?;
        let channels = settings.format.channels.into();
        wanted.set_channels(channels).map_err(|_| unfit("channels", supported::channels(settings, &wanted)))?;
        let rate = settings.format.rate;
        wanted
            .set_rate(rate, ValueOr::Nearest)
            .map_err(|_| unfit("sample-rate", supported::rates(settings, &wanted)))?;
        let frames = |span| Frames::try_from(settings.buffer_frames(span)).unwrap_or(Frames::MAX);
        // Periods are the device's wake-ups, which are not used. Some devices also report their position in these steps, so they should not
        // be longer than the task's period.
        let period = period_frames(frames(settings.period), frames(settings.buffer));
        wanted.set_period_size_near(period, ValueOr::Nearest).map_err(refuse)?;
        wanted.set_buffer_size_near(frames(settings.buffer)).map_err(refuse)?;
        Ok((wanted, mapped))
    }

    /// What the device has now: one system call for a sound card, two on ARM.
    ///
    /// On a free-running device, skips frames that were or will soon be overwritten.
    pub(super) fn status(&mut self) -> io::Result<Status> {
        let (available, behind) = self.progress()?;
        // The device may be one period ahead of its report.
        let safe = self.buffer.saturating_sub(self.period);
        if !self.free_running || available <= safe {
            return Ok(Status { available, behind, lost: 0 });
        }
        // Keeps half of the buffer, so that the device does not catch up at once.
        let lost = self.skip(available.saturating_sub(self.buffer / 2));
        Ok(Status { available: available - lost, behind: behind - lost, lost })
    }

    /// Takes this many frames, or as many as there is room for.
    pub(super) fn take(&mut self, available: u64) -> io::Result<Captured> {
        let wanted = usize::try_from(available).unwrap_or(usize::MAX).min(self.heap.len() / self.frame);
        let mut taken = 0;
        while taken < wanted {
            let room = &mut self.heap[taken * self.frame..wanted * self.frame];
            let got = if self.mapped {
                let frame = self.frame;
                self.pcm.io_bytes().mmap(wanted - taken, |there| {
                    let bytes = there.len().min(room.len()) / frame * frame;
                    room[..bytes].copy_from_slice(&there[..bytes]);
                    bytes / frame
                })
            } else {
                self.pcm.io_bytes().readi(room)
            };
            match got {
                Ok(0) => break,
                Ok(got) => taken += got,
                // Fewer frames than reported.
                Err(error) if error.errno() == libc::EAGAIN => break,
                Err(error) => return Err(system(error)),
            }
        }
        let frames = taken as u64;
        // A device that keeps running may have overwritten the frames during the copy, if this thread was delayed.
        if self.free_running && frames > self.buffer / 4 {
            let (available, _) = self.progress()?;
            if available + frames > self.buffer.saturating_sub(self.period) {
                return Ok(Captured { frames: 0, lost: frames });
            }
        }
        Ok(Captured { frames, lost: 0 })
    }

    /// The bytes of the last [`take`](Self::take), which took this many frames.
    pub(super) fn taken(&self, frames: u64) -> &[u8] {
        &self.heap[..usize::try_from(frames).unwrap_or(0) * self.frame]
    }

    /// Frames that can be taken, and the age of the first of them, in frames.
    fn progress(&self) -> io::Result<(u64, u64)> {
        let positive = |frames: Frames| u64::try_from(frames).unwrap_or(0);
        if self.free_running {
            // The kernel updates its counter to answer this. The counter is in shared memory, except on ARM, where the kernel maps none
            // (coherent architectures only, according to sound/core/pcm_native.c). There alsa-lib makes one system call for `avail_update`
            // and three for each piece taken.
            let behind = positive(self.pcm.delay().map_err(system)?);
            let available = positive(self.pcm.avail_update().map_err(system)?);
            return Ok((available, behind.max(available)));
        }
        // Asking a sound server for its delay may block.
        let available = positive(self.pcm.avail().map_err(system)?);
        Ok((available, available))
    }

    /// Skips frames, and returns how many. An error ends it: the next call finds it too.
    fn skip(&self, frames: u64) -> u64 {
        let mut skipped = 0;
        let io: IO<'_, u8> = self.pcm.io_bytes();
        while skipped < frames {
            let left = usize::try_from(frames - skipped).unwrap_or(usize::MAX);
            match io.mmap(left, |there| there.len() / self.frame) {
                Ok(0) | Err(_) => break,
                Ok(some) => skipped += some as u64,
            }
        }
        skipped
    }
}

fn open_pcm(name: &str, refuse: &impl Fn(alsa::Error) -> Refusal) -> Result<PCM, Refusal> {
    let name = CString::new(name).map_err(|_| Refusal::new("device", "must not hold a NUL byte"))?;
    PCM::open(&name, Direction::Capture, true).map_err(refuse)
}

/// Why the PCM could not be opened. `said` is what the library printed.
fn refusal(name: &str, said: Option<&Rc<RefCell<Output>>>, error: &alsa::Error) -> Refusal {
    let said = said.map(|said| said.borrow().to_string()).unwrap_or_default();
    match error.errno() {
        libc::EBUSY => Refusal::in_use("device", format_args!("{name:?}"), [id_of_name(name)]),
        _ => Refusal::new("device", format!("cannot open {name:?}: {}", supported::reason(error, &said))),
    }
}

/// The process that captures from a sound card's device.
fn owner(id: &DeviceId) -> Option<Holder> {
    let pcms = fs::read_to_string("/proc/asound/pcm").ok()?;
    let status = pcms.lines().find_map(|pcm| {
        let (card, device) = pcm.split(':').next()?.split_once('-')?;
        let (card, device): (u32, u32) = (card.parse().ok()?, device.parse().ok()?);
        let status = format!("/proc/asound/card{card}/pcm{device}c/sub0/status");
        (id_of_card(card, device).as_ref() == Some(id)).then(|| fs::read_to_string(status).ok())?
    })?;
    let pid = status.lines().find_map(|line| line.strip_prefix("owner_pid")?.trim_start().strip_prefix(':'))?;
    Holder::of(pid.trim().parse().ok()?)
}

/// The period to request: the task's period, but at most a quarter of the buffer and at least 16 frames. The minimum applies even to a
/// buffer shorter than four times that.
fn period_frames(wanted: Frames, buffer: Frames) -> Frames {
    wanted.min(buffer / 4).max(16)
}

/// The device that an open PCM leads to; `None` if it is not a sound card.
fn id_of(pcm: &PCM) -> Option<DeviceId> {
    let info = pcm.info().ok()?;
    id_of_card(u32::try_from(info.get_card()).ok()?, info.get_device())
}

/// The device that a PCM of this name leads to: by card and device if the name contains them, else by name.
fn id_of_name(name: &str) -> DeviceId {
    let id = || Some(DeviceId::of(&fs::metadata(node_of_name(name)?).ok()?));
    id().unwrap_or_else(|| DeviceId::Named(name.to_owned()))
}

/// The device node of the sound card that a PCM of this name leads to.
fn node_of_name(name: &str) -> Option<PathBuf> {
    let (_, arguments) = name.split_once(':')?;
    let argument = |key: &str, index| {
        let named = arguments.split(',').find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='));
        named.or_else(|| arguments.split(',').nth(index).filter(|argument| !argument.contains('=')))
    };
    let card = alsa::Card::from_str(&CString::new(argument("CARD", 0)?).ok()?).ok()?;
    let device = argument("DEV", 1).unwrap_or("0").parse().ok()?;
    Some(node_of_card(u32::try_from(card.get_index()).ok()?, device))
}

fn node_of_card(card: u32, device: u32) -> PathBuf {
    format!("/dev/snd/pcmC{card}D{device}c").into()
}

fn id_of_card(card: u32, device: u32) -> Option<DeviceId> {
    fs::metadata(node_of_card(card, device)).ok().as_ref().map(DeviceId::of)
}

fn system(error: alsa::Error) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_short_even_in_a_short_buffer() {
        assert_eq!(period_frames(480, 9_600), 480);
        assert_eq!(period_frames(4_800, 9_600), 2_400);
        assert_eq!(period_frames(8, 9_600), 16);
        assert_eq!(period_frames(8, 40), 16, "8 kHz, 1 kHz and 5 ms");
        assert_eq!(period_frames(0, 0), 16);
    }
}
