//! All threads of this process, also from a signal handler.

use super::ThreadId;

/// Offset of an entry's length and name in the output of getdents64: two u64, the length as a u16, the type, then the name.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

/// All threads of this process.
pub(crate) fn all() -> Vec<ThreadId> {
    let mut threads = Vec::new();
    for_each_thread(|thread| threads.push(thread));
    threads
}

/// Calls `each` for each thread of this process. Async-signal-safe if `each` is: system calls only, no allocation, no lock.
pub(super) fn for_each_thread(mut each: impl FnMut(ThreadId)) {
    // SAFETY: the path is a string that ends in a zero byte.
    let folder =
        unsafe { libc::open(c"/proc/self/task".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    if folder < 0 {
        return;
    }
    let mut entries = [0_u8; 1_024];
    loop {
        // SAFETY: `entries` is owned, and the kernel writes no more than its length, which is passed with it.
        let filled = unsafe { libc::syscall(libc::SYS_getdents64, folder, entries.as_mut_ptr(), entries.len()) };
        let Some(mut left) =
            usize::try_from(filled).ok().filter(|&filled| filled > 0).and_then(|filled| entries.get(..filled))
        else {
            break;
        };
        while let (Some(length), Some(name)) = (left.get(LENGTH_AT..LENGTH_AT + size_of::<u16>()), left.get(NAME_AT..))
        {
            number(name).into_iter().for_each(&mut each);
            let length = u16::from_ne_bytes([length[0], length[1]]);
            left = left.get(usize::from(length).max(NAME_AT)..).unwrap_or_default();
        }
    }
    // SAFETY: `folder` was opened above and is closed once.
    unsafe { libc::close(folder) };
}

/// The thread whose number is this zero-terminated name.
fn number(name: &[u8]) -> Option<ThreadId> {
    let digits = name.split(|byte| *byte == 0).next()?;
    str::from_utf8(digits).ok()?.parse().ok().map(ThreadId)
}

#[cfg(test)]
mod tests {
    use super::super::id;
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn every_thread_is_found_however_many_there_are() {
        let (begin, end) = (Barrier::new(101), Barrier::new(101));
        std::thread::scope(|scope| {
            let threads = (0..100).map(|_| {
                scope.spawn(|| {
                    begin.wait();
                    end.wait();
                    id()
                })
            });
            let threads: Vec<_> = threads.collect();
            begin.wait();
            let mut found = Vec::new();
            for_each_thread(|thread| found.push(thread));
            end.wait();
            let known = threads.into_iter().map(|thread| thread.join().unwrap());
            assert!(known.chain([id()]).all(|thread| found.contains(&thread)), "{found:?}");
            assert!(found.iter().all(|thread| thread.number() > 0), "{found:?}");
        });
        assert_eq!(number(b"12\0junk"), Some(ThreadId(12)));
        assert_eq!([number(b".\0"), number(b"..\0"), number(b"")], [None; 3]);
    }
}
