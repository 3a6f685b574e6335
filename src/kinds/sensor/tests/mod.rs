//! Sensors as tasks, on real files of `/proc` and in a simulated `/sys`.

mod buffer;
mod devices;
mod files;

use super::locator::{FieldSelector, LineSelector, ValueLocator};
use super::open::{look, open};
use super::settings::ValueSettings;
use super::*;
use crate::channels::{Basis, NONE, Quality, Queue, Reason, Shape, Stream};
use crate::config::BuildError;
use crate::kinds::device::Missing;
use crate::site::{Roots, Site};
use crate::sys::clock::pause;
use crate::task::{Task, Tick, TickError};
use crate::time::{Instant, Span};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

fn tick_at(sensor: &mut dyn Task, release: Instant) -> (Vec<f64>, Result<(), TickError>) {
    let zero = Span::ZERO;
    let tick = Tick { n: 0, release, started: release, lateness: zero, skipped: 0, credit: zero, period: zero };
    let mut values = vec![NONE; sensor.columns().len()];
    let done = sensor.tick(&tick, &mut values);
    (values, done)
}

fn tick(sensor: &mut dyn Task) -> Result<f64, TickError> {
    let (values, done) = tick_at(sensor, Instant::ZERO);
    done.map(|()| values[0])
}

/// Ticks until the values and the result are as wanted.
fn until(sensor: &mut dyn Task, wanted: impl Fn(&[f64], &Result<(), TickError>) -> bool) {
    loop {
        let (values, done) = tick_at(sensor, Instant::ZERO);
        if wanted(&values, &done) {
            return;
        }
        pause(Span::from_millis(5));
    }
}

/// A tree like `/sys`: devices in one folder, and links to them from their classes.
struct Sys(tempfile::TempDir);

impl Sys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for class in ["class/hwmon", "bus/iio/devices", "devices", "dev"] {
            fs::create_dir_all(folder.path().join(class)).unwrap();
        }
        Self(folder)
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn hwmon(&self, number: u32, device: &str, files: &[(&str, &str)]) -> PathBuf {
        let device = self.root().join("devices").join(device);
        let folder = device.join(format!("hwmon/hwmon{number}"));
        fs::create_dir_all(&folder).unwrap();
        symlink(&device, folder.join("device")).unwrap();
        symlink(&folder, self.root().join(format!("class/hwmon/hwmon{number}"))).unwrap();
        files.iter().for_each(|(file, content)| fs::write(folder.join(file), content).unwrap());
        folder
    }

    fn iio(&self, number: u32, parent: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.root().join("devices").join(parent).join(format!("iio:device{number}"));
        fs::create_dir_all(&folder).unwrap();
        symlink(&folder, self.root().join(format!("bus/iio/devices/iio:device{number}"))).unwrap();
        files.iter().for_each(|(file, content)| fs::write(folder.join(file), content).unwrap());
        folder
    }

    /// Looks first, and checks that this changes nothing and finds what opening finds.
    fn open(&self, settings: SensorSettings) -> Result<Box<dyn Task>, BuildError> {
        self.open_recorded(settings).map(|(task, _)| task)
    }

    /// The same, with its blocks.
    fn open_recorded(&self, settings: SensorSettings) -> Result<(Box<dyn Task>, Option<Stream>), BuildError> {
        let dev = self.root().join("dev");
        let sys = self.root().to_owned();
        let before = self.content();
        let mut site = Site::under(Roots { sys, dev, ..Roots::default() });
        let looked = look(&site, settings.clone(), "test");
        assert_eq!(self.content(), before);
        site.records(Some((Queue::Fifo, |_| true)));
        let opened = open(&mut site, settings, "test").map(|built| (built.task, site.take_stream()));
        match (&looked, &opened) {
            (Ok(preview), Ok((task, stream))) => {
                assert_eq!(preview.columns, Some(task.columns()));
                let format = |shape: &Shape| shape.format.clone();
                assert_eq!(preview.stream.as_ref().map(format), stream.as_ref().map(|stream| format(&stream.shape)));
            }
            (Err(looked), opened) => assert_eq!(opened.as_ref().err(), Some(looked)),
            (Ok(preview), Err(error)) => assert!(!preview.unknown.is_empty(), "{error}"),
        }
        opened
    }

    /// Every file and its content.
    fn content(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn add(folder: &Path, all: &mut Vec<(PathBuf, Vec<u8>)>) {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                match path.symlink_metadata().unwrap() {
                    found if found.is_dir() => add(&path, all),
                    found if found.is_file() => all.push((path.clone(), fs::read(&path).unwrap())),
                    _ => {}
                }
            }
        }
        let mut all = Vec::new();
        add(self.root(), &mut all);
        all
    }
}

fn named(class: fn(ByName) -> Source, name: &str, device: Option<&str>, files: &[&str]) -> SensorSettings {
    let source = class(ByName { name: name.into(), device: device.map(Into::into) });
    let value = |file: &&str| ValueSettings { file: file.into(), ..ValueSettings::default() };
    SensorSettings { source, values: files.iter().map(value).collect(), ..SensorSettings::file("") }
}

fn columns(sensor: &dyn Task) -> Vec<(String, String)> {
    sensor.columns().into_iter().map(|column| (column.name, column.unit)).collect()
}

fn pair(name: &str, unit: &str) -> (String, String) {
    (name.into(), unit.into())
}
