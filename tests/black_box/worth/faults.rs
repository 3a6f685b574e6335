//! How faults are brought about here: of a file, a program and a library, without a clock that is set.

use super::lists::{Fault, Source};
use crate::program::{HERE, pause};
use hertzd::time::Span;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Replaces the file that the source reads every 10 ms.
pub(super) struct Writer {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What a writer writes.
#[derive(Clone, Copy)]
enum Written {
    Changing(f64),
    Same,
    Text(&'static str),
    /// A number every second time, nothing in between.
    Truncated,
}

impl Writer {
    fn start(path: PathBuf, what: Written) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let over = ends.clone();
        let thread = std::thread::spawn(move || {
            let new = path.with_extension("new");
            for n in 0_u32.. {
                let text = match what {
                    Written::Changing(from) => format!("{}\n", from + f64::from(n % 64) / 64.0),
                    Written::Same => "5\n".to_owned(),
                    Written::Text(text) => text.to_owned(),
                    Written::Truncated if n % 2 == 0 => String::new(),
                    Written::Truncated => format!("{}\n", 3.0 + f64::from(n % 64) / 64.0),
                };
                fs::write(&new, text).unwrap();
                fs::rename(&new, &path).unwrap();
                pause(Span::from_millis(10));
                if over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// A program that gives what the file `number` holds: a number, nothing, or no answer at all; it ends while `away` exists.
const CLIENT: &str = "import hertzd, os, sys, time\nhere = sys.argv[1]\nfor tick in hertzd.ticks():\n    \
    if os.path.exists(here + '/away'): sys.exit(0)\n    \
    while os.path.exists(here + '/hangs'): time.sleep(0.01)\n    \
    text = open(here + '/number').read().strip()\n    \
    if text == 'late' and tick.n % 7 == 0: time.sleep(0.03)\n    \
    hertzd.out(v=None if text == 'null' else 1 + tick.n % 8 if text == 'late' else float(text))\n";

pub(super) fn config(source: Source) -> String {
    let keys = match source {
        Source::Library => {
            format!(
                "kind = \"plugin\"\nlibrary = \"{HERE}/number.so\"\nfile = \"{HERE}/number\"\nmax-missed = \"100%\""
            )
        }
        Source::File => format!("kind = \"sensor\"\npath = \"{HERE}/number\"\nname = \"v\"\nmax-file-age = \"500ms\""),
        Source::Program => {
            let client = CLIENT.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kinds/process/python");
            format!(
                "kind = \"process\"\nenv = [\"PYTHONPATH={}\"]\ncommand = [\"python3\", \"-c\", \"{client}\", \"{HERE}\"]",
                module.display()
            )
        }
        other => panic!("{other:?} is played in the virtual machine"),
    };
    let value = if source == Source::Program { "[[task.source.value]]\nname = \"v\"\n" } else { "" };
    format!(
        "[worker.main]\npolicy = \"other\"\n[worker.source]\npolicy = \"other\"\n\
         [task.source]\nworker = \"source\"\nrate = 50\nvalid = {{ v = [0, 10] }}\nstuck-after = {{ v = \"1s\" }}\nrecord = \"{HERE}/values.csv\"\nrecord-raw = true\n\
         {keys}\n{value}\
         [task.copy]\nkind = \"expr\"\nworker = \"main\"\nrate = 50\nmax-age = \"500ms\"\nrecord = \"{HERE}/copy.mcap\"\n\
         inputs = {{ x = \"source.v\" }}\n[[task.copy.value]]\nname = \"v\"\nexpression = \"x\"\n\
         [task.rare]\nkind = \"sensor\"\nworker = \"main\"\nperiod = \"1h\"\npath = \"/proc/uptime\"\nname = \"v\"\n\
         [task.waits]\nkind = \"expr\"\nworker = \"main\"\nrate = 50\nmax-age = \"500ms\"\nrecord = \"{HERE}/copy.mcap\"\n\
         inputs = {{ x = \"rare.v\" }}\n[[task.waits.value]]\nname = \"v\"\nexpression = \"x\"\n"
    )
}

/// Brings the fault about; it lasts until the result is dropped.
pub(super) fn cause(source: Source, fault: Fault, folder: &Path) -> Option<Writer> {
    let number = folder.join("number");
    let write = |what| Some(Writer::start(number.clone(), what));
    for name in ["away", "hangs"] {
        let _ = fs::remove_file(folder.join(name));
    }
    match (source, fault) {
        (_, Fault::Frozen) => write(Written::Same),
        (_, Fault::Back | Fault::Slow | Fault::ClockStep) => write(Written::Changing(3.0)),
        (_, Fault::OutOfRange) => write(Written::Changing(16.0)),
        (Source::File, Fault::Garbage) => write(Written::Text("abc\n")),
        (Source::File, Fault::Transient) => write(Written::Truncated),
        (Source::File, Fault::DeadWriter) => None,
        (Source::File, Fault::Away) => {
            fs::remove_file(number).unwrap();
            None
        }
        (Source::Program, Fault::Garbage) => write(Written::Text("null\n")),
        (Source::Program, Fault::Transient) => write(Written::Text("late\n")),
        (Source::Program, Fault::DeadWriter) => {
            fs::write(folder.join("hangs"), "").unwrap();
            write(Written::Changing(3.0))
        }
        (Source::Program, Fault::Away) => {
            fs::write(folder.join("away"), "").unwrap();
            write(Written::Changing(3.0))
        }
        (Source::Library, Fault::DeadWriter) => write(Written::Text("none\n")),
        (Source::Library, Fault::Away) => write(Written::Text("gone\n")),
        (Source::Library, Fault::Garbage) => write(Written::Text("nan\n")),
        (Source::Library, Fault::Transient) => write(Written::Text("flaky\n")),
        (
            Source::Hwmon | Source::Iio | Source::I2c | Source::Gpio | Source::Can | Source::Sound | Source::Pictures,
            _,
        ) => panic!("{source:?} is played in the virtual machine"),
    }
}
