//! Locks that keep other hertzd processes out, and no one else. Each belongs to an open file description and lasts until the last copy of
//! the descriptor is closed.
//!
//! A lock of a whole file (`flock`) only needs a descriptor open for reading, so any user who may read a file could lock hertzd out of it.
//! A write lock of a part of the file needs a descriptor open for writing, and its holder could write the file anyway. So only a write
//! lock, on bytes reserved by hertzd's own convention, counts as another hertzd's lock. Reads `/proc`.

mod descriptors;
mod holder;
mod naming;

use super::clock::pause;
use super::{from_minus_one, invalid};
use crate::time::Span;
pub(crate) use holder::{Holder, is_abandoned};
pub(crate) use naming::{Stranger, named_in_time};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// The byte of a file that is locked. It lies far beyond any part of a target or recording that a program would lock, and below 2 GiB, so
/// every platform can address it. The file need not be that long.
const BYTE: u32 = u32::from_be_bytes(*b"hrtz");

/// The bytes that stand for registers in the device file of an I²C bus: the chip's address and the register. In a file shared by the
/// channels of a converter, the first of these bytes stand for the channels.
const REGISTERS: Range<u32> = 0..1 << 15;

/// How often to retry when the lock is released between being refused and looking for its holder, or when that is ending.
const TRIES: u32 = 4;

/// How long to wait for a lock that only a child of this process holds, until its program runs.
const LOOKS: u32 = 1_000;
const BETWEEN: Span = Span::from_millis(1);

/// The result of requesting a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The lock is held from now on. For [`probe`]: it was free.
    Locked,
    /// Another hertzd has it, with the process if that is visible.
    Peer(Option<Holder>),
    /// The lock is unavailable, but no live hertzd holds it: the holder was killed or, with `None`, the lock is of another kind. Such a
    /// holder is only looked up to be [named](stranger).
    Stranger(Option<Holder>),
    /// The file system has no locks.
    Unsupported,
}

impl Taken {
    /// The same for a file that the process `planner` had locked. While that process ends, its open files may be invisible from here, so a
    /// lock without a visible holder is taken for its own.
    pub(crate) fn once_had_by(self, planner: Option<u32>) -> Self {
        match self {
            Self::Peer(None) => {
                let killed = planner.and_then(Holder::of_killed);
                if killed.is_some() { Self::Stranger(killed) } else { Self::Peer(None) }
            }
            taken => taken,
        }
    }
}

/// Locks a file that is open for writing, for as long as a copy of its descriptor is open.
///
/// # Errors
/// The file is not open for writing, or the request failed.
pub(crate) fn take(file: &File) -> io::Result<Taken> {
    granted(file, BYTE..BYTE + 1)
}

/// Locks the bytes that stand for a register in the device file of an I²C bus, or for channels in a file that they share. The file must be
/// open for writing.
///
/// # Errors
/// See [`take`].
pub(crate) fn take_register(file: &File, first: u32, count: u32) -> io::Result<Taken> {
    granted(file, first..first + count)
}

/// What [`take_register`] would return for one byte; nothing is locked.
pub(crate) fn probe_register(file: &File, byte: u32) -> io::Result<Taken> {
    settled(found(file, byte..byte + 1)).map(|found| found.unwrap_or(Taken::Locked))
}

/// Locks a file that is open for writing as another hertzd would; false: it cannot be locked.
#[doc(hidden)]
#[must_use]
pub fn lock_as_hertzd(file: &File) -> bool {
    matches!(take(file), Ok(Taken::Locked))
}

/// What [`take`] would return; nothing is locked, and the file may be open for reading only.
pub(crate) fn probe(file: &File) -> io::Result<Taken> {
    probe_register(file, BYTE)
}

/// Finds who holds a lock of another kind on a file's own byte or on these registers, unless the `holder` is already known. Does not search
/// `/proc`: a holder that the lock does not name is returned as [`Stranger::Sought`].
pub(crate) fn stranger(file: &File, registers: Option<(u32, u32)>, holder: Option<Holder>) -> Stranger {
    let bytes = registers.map_or(BYTE..BYTE + 1, |(first, count)| first..first + count);
    let lock = || { bytes }.find_map(|byte| conflict(file, byte).ok()?);
    match (holder, lock) {
        (Some(holder), _) => Stranger::Known(Some(holder)),
        (None, lock) => lock().map_or(Stranger::Known(None), |lock| match named_in(&lock) {
            Some(holder) => Stranger::Known(Some(holder)),
            None => sought(file, &lock).map_or(Stranger::Known(None), Stranger::Sought),
        }),
    }
}

/// Another hertzd process that has the file open for writing: the fallback where a stranger's lock prevents locking.
pub(crate) fn writer(file: &File) -> Option<Holder> {
    holder::of_writer(file)
}

fn granted(file: &File, bytes: Range<u32>) -> io::Result<Taken> {
    let (mut taken, mut unseen, mut seen) = (asked(file, &bytes)?, 0, None);
    for _ in 0..LOOKS {
        match &taken {
            Taken::Peer(Some(holder)) if holder.is_child() => {}
            // It may be a child that has ended since it was found.
            Taken::Peer(Some(holder)) if seen.as_ref() != Some(holder) => seen = Some(holder.clone()),
            // It may have executed its program during the search, or be ending.
            Taken::Peer(None) | Taken::Stranger(Some(_)) if unseen < TRIES => unseen += 1,
            _ => break,
        }
        pause(BETWEEN);
        taken = asked(file, &bytes)?;
    }
    Ok(taken)
}

fn asked(file: &File, bytes: &Range<u32>) -> io::Result<Taken> {
    for _ in 0..TRIES {
        match set(file, bytes) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {}
            result => return settled(result.map(|()| Some(Taken::Locked))).map(|taken| taken.unwrap_or(Taken::Locked)),
        }
        if let Some(taken) = settled(found(file, bytes.clone()))? {
            return Ok(taken);
        }
    }
    Ok(Taken::Peer(None))
}

/// A file system without such locks keeps no one out.
fn settled(result: io::Result<Option<Taken>>) -> io::Result<Option<Taken>> {
    match result.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(libc::EINVAL | libc::ENOLCK | libc::ENOSYS | libc::ENOTTY | libc::EOPNOTSUPP)) => {
            Ok(Some(Taken::Unsupported))
        }
        _ => result,
    }
}

/// The holder of a conflicting lock, byte by byte: a peer's lock may lie after a stranger's. `None`: no process holds one any more.
fn found(file: &File, bytes: Range<u32>) -> io::Result<Option<Taken>> {
    let mut stranger = None;
    for byte in bytes {
        match conflict(file, byte)?.map(|lock| who(file, &lock)) {
            Some(Taken::Stranger(holder)) => stranger = Some(Taken::Stranger(holder)),
            Some(peer) => return Ok(Some(peer)),
            None => {}
        }
    }
    Ok(stranger)
}

/// Whether this lock keeps hertzd out. The holder of any other lock is not searched for: any user can hold one and would determine how long
/// the search takes.
fn who(file: &File, lock: &libc::flock) -> Taken {
    let (start, length) = (i128::from(lock.l_start), i128::from(lock.l_len));
    let within = |agreed: &Range<u32>| {
        length > 0 && start >= i128::from(agreed.start) && start + length <= i128::from(agreed.end)
    };
    if !is_write(lock) || !(within(&(BYTE..BYTE + 1)) || within(&REGISTERS)) {
        return Taken::Stranger(None);
    }
    match holder(file, lock) {
        Some(killed) if killed.is_killed() => Taken::Stranger(Some(killed)),
        holder => Taken::Peer(holder),
    }
}

fn is_write(lock: &libc::flock) -> bool {
    libc::c_int::from(lock.l_type) == libc::F_WRLCK as libc::c_int
}

/// The holder of this lock.
fn holder(file: &File, lock: &libc::flock) -> Option<Holder> {
    named_in(lock).or_else(|| holder::of_lock(sought(file, lock)?)).or_else(holder::of_the_ending)
}

/// A lock that belongs to a process, not to a descriptor, names its process.
fn named_in(lock: &libc::flock) -> Option<Holder> {
    u32::try_from(lock.l_pid).ok().filter(|pid| *pid > 0).and_then(Holder::of)
}

fn sought(file: &File, lock: &libc::flock) -> Option<holder::Sought> {
    holder::Sought::of(file, is_write(lock), i128::from(lock.l_start))
}

fn wanted(bytes: &Range<u32>) -> io::Result<libc::flock> {
    // Converted through 128 bits, because the width of the fields depends on the platform.
    let offset = |number: u32| libc::off_t::try_from(i128::from(number)).map_err(|_| invalid());
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's constants are small")]
    let (l_type, l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    Ok(libc::flock {
        l_type,
        l_whence,
        l_start: offset(bytes.start)?,
        l_len: offset(bytes.end - bytes.start)?,
        l_pid: 0,
    })
}

/// EAGAIN, EACCES: another process has locked a part of it.
fn set(file: &File, bytes: &Range<u32>) -> io::Result<()> {
    let lock = wanted(bytes)?;
    // SAFETY: F_OFD_SETLK reads one flock at the pointer, which outlives the call.
    from_minus_one(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) })?;
    Ok(())
}

/// A lock that prevents locking this byte.
fn conflict(file: &File, byte: u32) -> io::Result<Option<libc::flock>> {
    let mut lock = wanted(&(byte..byte + 1))?;
    // SAFETY: F_OFD_GETLK reads and writes one flock at the pointer, which is owned and outlives the call.
    from_minus_one(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) })?;
    Ok((libc::c_int::from(lock.l_type) != libc::F_UNLCK as libc::c_int).then_some(lock))
}

/// Takes a read or write lock on part of a file as a stranger would, for tests.
#[cfg(test)]
pub(crate) fn lock_as_stranger(file: &File, is_write: bool, (start, length): (u32, u32)) {
    let mut lock = wanted(&(start..start + length)).unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's constants are small")]
    let read = libc::F_RDLCK as libc::c_short;
    lock.l_type = if is_write { lock.l_type } else { read };
    // SAFETY: F_OFD_SETLK reads one flock at the pointer, which outlives the call.
    from_minus_one(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    use tempfile::NamedTempFile;

    fn opened(file: &NamedTempFile, write: bool) -> File {
        File::options().read(true).write(write).open(file.path()).unwrap()
    }

    fn this_process() -> Option<Holder> {
        Holder::of(std::process::id())
    }

    fn found(file: &File, registers: Option<(u32, u32)>) -> Option<Holder> {
        let (sender, found) = std::sync::mpsc::channel();
        stranger(file, registers, None).name(move |holder| sender.send(holder).unwrap());
        found.recv().unwrap()
    }

    #[test]
    fn a_peer_is_kept_out_until_the_last_copy_is_closed() {
        let file = NamedTempFile::new().unwrap();
        let (one, other, reader) = (opened(&file, true), opened(&file, true), opened(&file, false));
        assert_eq!(probe(&reader).unwrap(), Taken::Locked);
        assert_eq!(take(&one).unwrap(), Taken::Locked);
        assert_eq!(take(&one).unwrap(), Taken::Locked, "it is its own");
        assert_eq!(take(&other).unwrap(), Taken::Peer(this_process()));
        assert_eq!(probe(&reader).unwrap(), Taken::Peer(this_process()));
        let copy = one.try_clone().unwrap();
        drop(one);
        assert_eq!(take(&other).unwrap(), Taken::Peer(this_process()), "a copy is open");
        drop(copy);
        assert_eq!(take(&other).unwrap(), Taken::Locked);
        assert!(take(&reader).is_err(), "it is open to read only");
    }

    #[test]
    fn a_copy_that_a_child_has_until_it_runs_its_program_is_waited_for() {
        for millis in [200].into_iter().chain((0..40).map(|nth| nth % 4)) {
            let file = NamedTempFile::new().unwrap();
            let (one, other) = (opened(&file, true), opened(&file, true));
            assert_eq!(take(&one).unwrap(), Taken::Locked);
            let (mut begun, mut begins) = io::pipe().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut child = std::process::Command::new("true");
                    let wait = move || {
                        begins.write_all(b"x")?;
                        pause(Span::from_millis(millis));
                        Ok(())
                    };
                    // SAFETY: in the child it makes two system calls, and allocates nothing.
                    unsafe { child.pre_exec(wait) };
                    assert!(child.status().unwrap().success());
                });
                begun.read_exact(&mut [0]).unwrap();
                drop(one);
                let mut taken = take(&other).unwrap();
                while let Taken::Stranger(Some(_)) = taken {
                    taken = take(&other).unwrap(); // the child is ending by now
                }
                assert_eq!(taken, Taken::Locked, "it waits for {millis} ms");
            });
        }
    }

    /// Locks that a user with read access can take keep no one out, nor do the locks of other programs.
    #[test]
    fn a_stranger_is_no_peer() {
        for (is_write, bytes) in [(false, (0, 0)), (false, (BYTE, 1)), (true, (0, 0)), (true, (BYTE - 1, 2))] {
            let file = NamedTempFile::new().unwrap();
            let (held, own) = (opened(&file, is_write), opened(&file, true));
            lock_as_stranger(&held, is_write, bytes);
            assert_eq!(take(&own).unwrap(), Taken::Stranger(None), "{is_write} {bytes:?}: nobody was looked for");
            assert_eq!(probe(&own).unwrap(), Taken::Stranger(None));
            assert_eq!(found(&own, None), this_process());
            drop(held);
            // Programs that other tests start hold copies until they are executed, and not all of them are found while they start.
            let is_taken = || take(&own).unwrap() == Taken::Locked || (pause(BETWEEN), false).1;
            assert!((0..60_000).any(|_| is_taken()), "nobody has it any more");
        }
        let file = NamedTempFile::new().unwrap();
        opened(&file, false).try_lock().unwrap();
        let _flock = opened(&file, false);
        _flock.try_lock().unwrap();
        assert_eq!(take(&opened(&file, true)).unwrap(), Taken::Locked);
    }

    #[test]
    fn registers_of_a_bus_are_locked_apart() {
        let file = NamedTempFile::new().unwrap();
        let (one, other, reader) = (opened(&file, true), opened(&file, true), opened(&file, false));
        assert_eq!(take_register(&one, 0x4810, 2).unwrap(), Taken::Locked);
        assert_eq!(take_register(&other, 0x4812, 2).unwrap(), Taken::Locked);
        assert_eq!(take_register(&other, 0x480f, 3).unwrap(), Taken::Peer(this_process()), "two of its bytes");
        lock_as_stranger(&reader, false, (0x4820, 4));
        assert_eq!(take_register(&other, 0x4820, 2).unwrap(), Taken::Stranger(None));
        assert_eq!(found(&other, Some((0x4820, 2))), this_process());
        lock_as_stranger(&reader, false, (0x480f, 1));
        assert_eq!(take_register(&other, 0x480f, 3).unwrap(), Taken::Peer(this_process()), "behind a stranger");
    }

    #[test]
    fn this_process_is_no_other_writer() {
        let file = NamedTempFile::new().unwrap();
        assert_eq!(writer(&opened(&file, true)), None);
    }
}
