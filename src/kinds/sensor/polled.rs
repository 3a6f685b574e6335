//! Values polled from files: which files and columns there are, and the task that reads them.
//!
//! Everything here runs before the start or on a cool thread, but for the tick, which allocates nothing, takes no lock and
//! opens nothing. No clock is read: time comes with the tick.

use super::files::{OpenFile, Reading, Unusable};
use super::find::{self, Class};
use super::locator::ValueLocator;
use super::settings::{SensorSettings, Source, ValueSettings};
use super::{hwmon, iio};
use crate::config::BuildError;
use crate::kinds::device::{First, Label, Missing, OpenDevice, Reconnecting, Refusal};
use crate::task::{Column, Task, Tick, TickError};
use crate::time::{Instant, Span};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tracing::info;

/// How often it is looked whether a file has been deleted or replaced.
const LOOK_EVERY: Span = Span::from_seconds(1);

/// The files that a sensor reads.
#[derive(Debug)]
pub(super) struct Files(Vec<OpenFile>);

impl OpenDevice for Files {}

/// A sensor that polls files.
#[derive(Debug)]
pub(super) struct Polled {
    columns: Vec<Column>,
    device: Reconnecting<Files>,
    look: Option<Instant>, // when it is next looked for replaced files
}

/// What is to be read, found out once: the columns do not change when a device comes back.
#[derive(Clone, Debug)]
struct ReadPlan {
    class: Option<Class>,
    settings: SensorSettings,
    sys: PathBuf,
    columns: Vec<Column>,
    recipes: Vec<Recipe>, // one for each column
    single: bool,         // one value, whose keys stand in the task's own table
}

/// How a value is read; the conversion of an IIO channel is only known when its device is there.
#[derive(Clone, Debug)]
struct Recipe {
    file: PathBuf,
    locator: ValueLocator,
    scaling: Scaling,
    offset: f64,
}

#[derive(Clone, Copy, Debug)]
enum Scaling {
    Fixed(f64),
    /// By the channel's own files, and then by this.
    Channel(f64),
}

impl Polled {
    pub(super) fn open(settings: SensorSettings, sys: &Path, label: Label) -> Result<Self, BuildError> {
        let missing = settings.missing;
        let mut plan = ReadPlan::new(settings, sys)?;
        let columns = plan.columns.clone();
        let mut open =
            move |strict| plan.open(strict).map_err(|BuildError { key, message }| Refusal::new(key, message));
        let first = First::of(&label, missing, open(missing == Missing::Refuse))?;
        let device = Reconnecting::new(label, first, move || open(false))?;
        Ok(Self { columns, device, look: None })
    }
}

impl Task for Polled {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let files = &mut self.device.device()?.0;
        let (mut first, mut lost) = (Ok(()), false);
        for file in files.iter_mut() {
            if let Err((error, gone)) = file.read(values) {
                first = first.and(Err(error));
                lost |= gone;
            }
        }
        // A deleted file can be read as if nothing had happened.
        if self.look.is_none_or(|look| tick.release >= look) {
            self.look = Some(tick.release + LOOK_EVERY);
            if files.iter().any(OpenFile::is_replaced) {
                lost = true;
                first = first.and(Err(TickError::new("the file was deleted or replaced, and is opened anew")));
            }
        }
        if lost {
            self.device.lose();
        }
        first
    }
}

impl ReadPlan {
    fn new(settings: SensorSettings, sys: &Path) -> Result<Self, BuildError> {
        let class = match settings.source {
            Source::Files => None,
            Source::Hwmon(_) => Some(Class::Hwmon),
            Source::Iio(_) | Source::Buffer(..) => Some(Class::Iio),
        };
        let single = settings.values.len() == 1 && !settings.listed;
        let (columns, recipes) = settings.values.iter().map(|value| recipe(class, value)).unzip();
        let mut plan = Self { class, settings, sys: sys.into(), columns, recipes, single };
        if plan.recipes.is_empty() {
            plan.take_all()?;
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = plan.columns.iter().find(|column| !names.insert(&column.name)) {
            return Err(BuildError { key: "value", message: format!("two values are named {:?}", twice.name) });
        }
        Ok(plan)
    }

    /// Every measured value of the device.
    fn take_all(&mut self) -> Result<(), BuildError> {
        let Some(class) = self.class else {
            return Err(BuildError { key: "path", message: "a file to poll is needed".into() });
        };
        let folder = self.folder()?;
        let listed = match class {
            Class::Hwmon => hwmon::inputs(&folder),
            Class::Iio => {
                let named = |file: String| (file.clone(), iio::value_name(&file).to_owned());
                iio::inputs(&folder).map(|files| files.into_iter().map(named).collect())
            }
        };
        let listed = listed.map_err(|error| self.error(class.key(), iio::file_error("list", &folder, &error)))?;
        for (file, name) in listed {
            // Some devices list what they cannot give.
            if let Err(error) = std::fs::read(folder.join(&file)) {
                info!("{} is left out of the values: cannot read {file}: {error}", name);
                continue;
            }
            let value = ValueSettings { file: file.into(), name: Some(name), ..ValueSettings::default() };
            let (column, recipe) = recipe(self.class, &value);
            self.columns.push(column);
            self.recipes.push(recipe);
        }
        if self.recipes.is_empty() {
            let message = format!("{} has no value that can be read", folder.display());
            return Err(self.error(class.key(), message));
        }
        Ok(())
    }

    /// The folder of the device, as it is now.
    fn folder(&self) -> Result<PathBuf, BuildError> {
        let wanted = match &self.settings.source {
            Source::Files => return Ok(PathBuf::new()),
            Source::Hwmon(wanted) | Source::Iio(wanted) | Source::Buffer(wanted, _) => wanted,
        };
        let class = self.class.unwrap_or(Class::Hwmon);
        let found = find::find(class, &self.sys, wanted);
        found.map(|found| found.folder).map_err(|(key, message)| BuildError { key, message })
    }

    /// Opens all files, each once. With `strict` each number must be there already.
    fn open(&mut self, strict: bool) -> Result<Files, BuildError> {
        let folder = self.folder()?;
        let mut files: Vec<(PathBuf, Vec<Reading>)> = Vec::new();
        for (column, recipe) in self.recipes.iter().enumerate() {
            let path = folder.join(&recipe.file);
            let mut reading = Reading { column, locator: recipe.locator.clone(), scale: 1.0, offset: recipe.offset };
            match recipe.scaling {
                Scaling::Fixed(scale) => reading.scale = scale,
                Scaling::Channel(factor) => {
                    let file = recipe.file.to_string_lossy();
                    let found = iio::conversion(&folder, iio::channel(&file)).map_err(|why| self.error("file", why))?;
                    reading.scale = found.scale * factor;
                    reading.offset += found.offset * factor;
                }
            }
            match files.iter_mut().find(|(known, _)| *known == path) {
                Some((_, readings)) => readings.push(reading),
                None => files.push((path, vec![reading])),
            }
        }
        let opened = files.into_iter().map(|(path, readings)| {
            let first = readings.first().map(|reading| reading.column);
            OpenFile::open(&path, readings, strict).map_err(|unusable| self.blame(unusable, first))
        });
        opened.collect::<Result<_, _>>().map(Files)
    }

    /// A fault of one value, at the key that says it.
    fn blame(&self, Unusable { column, key, message }: Unusable, first: Option<usize>) -> BuildError {
        if self.settings.listed {
            let name = column.or(first).and_then(|column| self.columns.get(column)).map(|column| &column.name);
            let name = name.map(|name| format!("{name:?}: ")).unwrap_or_default();
            return BuildError { key: "value", message: format!("{name}{message}") };
        }
        self.error(if key == "path" && self.class.is_some() { "file" } else { key }, message)
    }

    fn error(&self, key: &'static str, message: String) -> BuildError {
        let key = match self.class {
            Some(class) if !self.single => class.key(),
            _ => key,
        };
        BuildError { key, message }
    }
}

/// Where neither scale nor unit is given, the file's name says both.
fn recipe(class: Option<Class>, value: &ValueSettings) -> (Column, Recipe) {
    let file = value.file.to_string_lossy();
    let (name, ruled) = match class {
        None => ("value", (Scaling::Fixed(1.0), "")),
        Some(Class::Hwmon) => {
            let (scale, unit) = hwmon::rule(&file);
            (hwmon::stem(&file), (Scaling::Fixed(scale), unit))
        }
        Some(Class::Iio) if !iio::is_value(&file) => (&*file, (Scaling::Fixed(1.0), "")),
        Some(Class::Iio) => {
            let (factor, unit) = iio::unit(iio::channel(&file));
            let scaling = if iio::is_raw(&file) { Scaling::Channel(factor) } else { Scaling::Fixed(factor) };
            (iio::value_name(&file), (scaling, unit))
        }
    };
    let (scaling, unit) = match (value.scale, &value.unit) {
        (None, None) => ruled,
        (scale, unit) => (Scaling::Fixed(scale.unwrap_or(1.0)), unit.as_deref().unwrap_or_default()),
    };
    let column = Column { name: value.name.clone().unwrap_or_else(|| name.to_owned()), unit: unit.to_owned() };
    let offset = value.offset.unwrap_or(0.0);
    (column, Recipe { file: value.file.clone(), locator: value.locator.clone(), scaling, offset })
}
