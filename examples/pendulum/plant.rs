//! The process of the plant: steps the physics a thousand times a second, whoever else has time or not.
//!
//! It stands for a machine with an encoder and a motor, of which hertzd sees two files: `pole`, which this writes and a `sensor` reads, and
//! `force`, which an `output` writes and this reads. Its standard input is a socket to the process that started it: rows for the view go
//! out, keys come in, and when the other end is closed, however that came about, this process removes its folder and ends.

use crate::physics::{State, World, shove};
use crate::row::{FORCE, POLE, Row, force, pole, seconds};
use crate::time::{Stopwatch, sleep};
use hertzd::pacing::{Excess, FixedStep, Frame, Rate};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Steps a second.
pub(crate) const STEPS: u64 = 1_000;

/// Rows for the view a second.
const ROWS: u64 = 60;

/// The steps that it makes up for when it was held up itself. What is beyond is given up and counted: no one could have balanced then.
const MOST: NonZeroU32 = NonZeroU32::new(250).unwrap();

/// Runs in `folder`, where `force` is made once hertzd has started.
pub(crate) fn run(folder: &Path) -> io::Result<()> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    let mut plant = Plant {
        file: File::create(folder.join(POLE))?,
        text: String::with_capacity(128),
        force: Force { path: folder.join(FORCE), file: None, latest: 0.0 },
        view: View { stream, waiting: Vec::new() },
        world: World::new(),
        before: World::START,
        pushed: 0,
        row: Row::default(),
    };
    plant.publish()?;
    let mut steps = FixedStep::new(Rate::new(STEPS, 1).expect("1 kHz")).max_updates(MOST).excess(Excess::Discard);
    steps = steps.render_rate(Rate::new(ROWS, 1).expect("60 Hz"));
    let clock = Stopwatch::start();
    while plant.keys()? {
        let frame = steps.advance(clock.now());
        plant.turn(&frame)?;
        sleep(steps.wait());
    }
    fs::remove_dir_all(folder)
}

struct Plant {
    file: File,
    text: String,
    force: Force,
    view: View,
    world: World,
    before: State, // the last step
    pushed: i32,   // steps of a push that are left: to the right above zero, to the left below
    row: Row,
}

impl Plant {
    /// All steps that are due, then the file, and a row if it is time for one.
    fn turn(&mut self, frame: &Frame) -> io::Result<()> {
        self.row.discarded += frame.discarded;
        self.row.force = self.force.read();
        for _ in 0..frame.updates {
            self.step(frame.dt.seconds());
        }
        if frame.updates > 0 {
            self.publish()?;
        }
        if frame.render {
            // Between the last two steps, at the instant of the call: so a view of any rate moves smoothly.
            self.row.state = self.before.blend(self.world.state, frame.interpolation);
            self.view.show(&self.row)?;
        }
        Ok(())
    }

    fn step(&mut self, dt: f64) {
        self.before = self.world.state;
        self.row.steps += 1;
        // Held upright by hand until the controller does something.
        if self.row.free == 0 && self.row.force == 0.0 {
            return;
        }
        self.row.free += 1;
        let push = f64::from(self.pushed.signum()) * 8.0;
        self.pushed -= self.pushed.signum();
        self.row.shove = shove(seconds(self.row.free)) + push;
        self.world.step(self.row.force + self.row.shove, dt);
        if self.world.has_fallen && self.row.fell.is_none() {
            self.row.fell = Some(self.row.free);
        }
    }

    fn publish(&mut self) -> io::Result<()> {
        pole(&mut self.text, self.row.steps, self.world.state);
        self.file.write_all_at(self.text.as_bytes(), 0)
    }

    /// Keys that were pressed in the view; false when there is no one any more who could press one.
    fn keys(&mut self) -> io::Result<bool> {
        let mut keys = [0; 64];
        let count = match self.view.stream.read(&mut keys) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            read => read?,
        };
        for key in &keys[..count] {
            match key {
                b'>' => self.pushed = 100,
                b'<' => self.pushed = -100,
                b'r' => {
                    (self.world, self.before) = (World::new(), World::START);
                    self.row = Row { steps: self.row.steps, discarded: self.row.discarded, ..Row::default() };
                }
                _ => {}
            }
        }
        Ok(count > 0)
    }
}

/// The controller's force.
struct Force {
    path: std::path::PathBuf,
    file: Option<File>,
    latest: f64,
}

impl Force {
    /// What the file says. A text that changes while it is read may be half of one number and half of another, so it is read twice; if the two
    /// differ, and where there is no file yet, the force stays as it was.
    fn read(&mut self) -> f64 {
        self.file = self.file.take().or_else(|| File::open(&self.path).ok());
        if let Some(file) = &self.file {
            let (mut first, mut second) = ([0; 32], [0; 32]);
            let lengths = (file.read_at(&mut first, 0), file.read_at(&mut second, 0));
            if let (Ok(length), Ok(again)) = lengths
                && first[..length] == second[..again]
            {
                self.latest = force(&first[..length]).unwrap_or(self.latest);
            }
        }
        self.latest
    }
}

/// The way to the view. It is never waited for: a row that finds the socket full is left out.
struct View {
    stream: UnixStream,
    waiting: Vec<u8>, // the rest of a row of which a part has left
}

impl View {
    fn show(&mut self, row: &Row) -> io::Result<()> {
        if self.waiting.is_empty() {
            self.waiting = row.line().into_bytes();
        }
        match self.stream.write(&self.waiting) {
            Ok(count) => drop(self.waiting.drain(..count)),
            // The other end is closed: `keys` sees that.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::BrokenPipe) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
