//! Locks held by strangers, which only need permission to read.

use crate::story::Lock;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The locks being held.
#[derive(Default)]
pub(crate) struct Locks(Vec<Locked>);

enum Locked {
    Flock(#[expect(dead_code, reason = "held")] File),
    Record(Child),
}

impl Locks {
    /// Takes another lock, if possible.
    pub(crate) fn take(&mut self, path: &Path, lock: Lock) {
        match lock {
            Lock::Flock => {
                let Ok(file) = File::open(path) else { return };
                if file.try_lock().is_ok() {
                    self.0.push(Locked::Flock(file));
                }
            }
            Lock::Record => self.0.extend(record_lock(path).map(Locked::Record)),
        }
    }

    pub(crate) fn release(&mut self) {
        for lock in self.0.drain(..) {
            if let Locked::Record(mut holder) = lock {
                let _ = holder.kill();
                let _ = holder.wait();
            }
        }
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.release();
    }
}

/// Starts a process that holds a read lock on the whole file, owned by the open file description.
fn record_lock(path: &Path) -> Option<Child> {
    const HOLD: &str = "import fcntl, os, struct, sys\n\
        file = os.open(sys.argv[1], os.O_RDONLY)\n\
        fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))\n\
        print(flush=True)\n\
        sys.stdin.read()\n";
    let mut python = Command::new("python3");
    python.args(["-c", HOLD]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut holder = python.spawn().ok()?;
    let mut line = [0];
    // By now the process holds the lock or has ended.
    let _ = std::io::Read::read(holder.stdout.as_mut()?, &mut line);
    let _ = holder.stdin.as_mut()?.flush();
    Some(holder)
}
