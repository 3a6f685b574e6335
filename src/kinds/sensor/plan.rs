//! The files and columns of a polled sensor, and how to open them. May block and allocate; reads no clock.

use super::extractor;
use super::files::{FileTexts, Files, Opening, Unusable, WantedFile, may_pass};
use super::find::{self, Class};
use super::follow::has_age;
use super::locator::{FieldSelector, ValueLocator};
use super::number::{Counts, Number};
use super::settings::{SensorSettings, Source, ValueSettings};
use super::{hwmon, iio};
use crate::io::Keeper;
use crate::kinds::device::{Sight, hidden};
use crate::site::{Refusal, Site};
use crate::task::Column;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::info;

/// The values to read. Made once: the columns do not change when a device comes back.
#[derive(Clone, Debug)]
pub(super) struct ReadPlan {
    class: Option<Class>,
    settings: SensorSettings,
    sys: PathBuf,
    pub(super) columns: Vec<Column>,
    recipes: Vec<Recipe>, // one for each column
    texts: Arc<Texts>,
    single: bool, // a single value, with its keys in the task's own table
}

/// How to read a value. The conversion of an IIO channel is known only while its device is present.
#[derive(Clone, Debug)]
struct Recipe {
    file: PathBuf,
    locator: ValueLocator,
    scaling: Scaling,
    offset: f64,
    per_second: Option<Counts>,
}

#[derive(Clone, Copy, Debug)]
enum Scaling {
    Fixed(f64),
    /// Defined by the channel's own files.
    Channel,
}

/// Open files, and the conversion of each column's number to its value: `number * scale + offset`.
#[derive(Debug)]
pub(super) struct OpenSensor {
    pub(super) files: Files,
    pub(super) conversions: Vec<(f64, f64)>,
}

impl ReadPlan {
    /// A plan of the configured values, judged by the names of their files. Reads nothing.
    fn written(settings: SensorSettings, sys: &Path, texts: Arc<Texts>) -> Self {
        let class = match settings.source {
            Source::Files => None,
            Source::Hwmon(_) => Some(Class::Hwmon),
            Source::Iio(_) | Source::Buffer(..) => Some(Class::Iio),
        };
        let single = settings.values.len() == 1 && !settings.listed;
        let (columns, recipes) = (Vec::new(), Vec::new());
        let mut plan = Self { class, settings, sys: sys.into(), columns, recipes, texts, single };
        plan.settings.values.clone().iter().for_each(|value| plan.add(value));
        plan
    }

    /// The unit of a value from the configuration, or else from the kernel's naming rules. Reads nothing.
    pub(super) fn unit(settings: &SensorSettings, value: &str) -> String {
        let plan = Self::written(settings.clone(), Path::new(""), Arc::default());
        let written = plan.columns.iter().find(|column| column.name == value).map(|column| column.unit.clone());
        written.unwrap_or_else(|| {
            let by_name = match plan.class {
                Some(Class::Iio) => iio::unit(iio::channel(&format!("in_{value}_raw"))).1,
                _ => hwmon::scale_and_unit(&format!("{value}_input")).1,
            };
            by_name.to_owned()
        })
    }

    pub(super) fn new(settings: SensorSettings, site: &Site) -> Result<Self, Refusal> {
        let mut plan = Self::written(settings, site.sys(), site.common());
        if plan.recipes.is_empty() {
            plan.take_all()?;
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = plan.columns.iter().find(|column| !names.insert(&column.name)) {
            return Err(Refusal::new("value", format!("two values are named {:?}", twice.name)));
        }
        Ok(plan)
    }

    /// Adds every measured value of the device.
    fn take_all(&mut self) -> Result<(), Refusal> {
        let Some(class) = self.class else {
            return Err(Refusal::new("path", "name a file to poll"));
        };
        let folder = self.folder()?;
        let listed = match class {
            Class::Hwmon => hwmon::inputs(&folder),
            Class::Iio => iio::inputs(&folder),
        };
        let listed = listed.map_err(|error| self.error(class.key(), iio::file_error("list", &folder, &error)))?;
        for (file, name) in listed {
            // Some devices list files that cannot be read.
            let fields = match std::fs::read(folder.join(&file)) {
                Ok(content) => numbers(&content),
                // It keeps its place, so that a recording continues.
                Err(error) if may_pass(&error) => iio::usual_count(iio::channel(&file)),
                Err(error) => {
                    info!("cannot read {}; the value is left out: {error}", folder.join(&file).display());
                    continue;
                }
            };
            // Only IIO channels hold several numbers, such as a quaternion's.
            let count = if class == Class::Iio { fields } else { 1 };
            for (index, name) in iio::component_names(&name, count).enumerate() {
                let locator = ValueLocator { field: FieldSelector::Number(index + 1), ..ValueLocator::default() };
                let file = PathBuf::from(&file);
                self.add(&ValueSettings { file, locator, name: Some(name), ..ValueSettings::default() });
            }
        }
        if self.recipes.is_empty() {
            let message = format!("{} has no value that can be read", folder.display());
            return Err(self.error(class.key(), message));
        }
        Ok(())
    }

    /// The current folder of the device.
    fn folder(&self) -> Result<PathBuf, Refusal> {
        let wanted = match &self.settings.source {
            Source::Files => return Ok(PathBuf::new()),
            Source::Hwmon(wanted) | Source::Iio(wanted) | Source::Buffer(wanted, _) => wanted,
        };
        Ok(find::find(self.class.unwrap_or(Class::Hwmon), &self.sys, wanted)?.folder)
    }

    /// Opens each file once.
    pub(super) fn open(&self, keeper: &Keeper, task: &str, opening: Opening) -> Result<OpenSensor, Refusal> {
        let folder = self.folder()?;
        let mut conversions = Vec::with_capacity(self.recipes.len());
        let (mut files, mut known) = (Vec::<WantedFile<'_>>::new(), BTreeMap::new());
        for (column, recipe) in self.recipes.iter().enumerate() {
            conversions.push(match recipe.scaling {
                Scaling::Fixed(scale) => (scale, recipe.offset),
                Scaling::Channel => {
                    let file = recipe.file.to_string_lossy();
                    let found = iio::conversion(&folder, iio::channel(&file));
                    let (scale, offset) = found.map_err(|why| self.error("file", why))?;
                    (scale, offset + recipe.offset)
                }
            });
            let index = *known.entry(&recipe.file).or_insert_with(|| {
                let path = folder.join(&recipe.file);
                let is_hwmon = self.class == Some(Class::Hwmon) || path.starts_with(&self.sys);
                let fault = hwmon::fault_of(&path).filter(|_| is_hwmon);
                let of_a_device = self.class.is_some();
                let name = recipe.file.display();
                let unread = self.texts.keep(format!("cannot read {name}"));
                let absent = self.texts.keep(format!("{name} is not there; hertzd keeps trying to open it"));
                let garbled = extractor::FAULTS.map(|fault| self.texts.keep(format!("{name}: {fault}")));
                let texts = FileTexts { unread, absent, garbled };
                files.push(WantedFile { path, texts, of_a_device, fault, values: Vec::new() });
                files.len() - 1
            });
            files[index].values.push((column, &recipe.locator));
        }
        let max_age = self.settings.max_file_age;
        let files = Files::open(keeper, task, &files, max_age, opening).map_err(|unusable| self.blame(unusable))?;
        Ok(OpenSensor { files, conversions })
    }

    /// Reads all files once, as [`open`](Self::open) does. Opening anything other than a regular file may have side effects, so that is
    /// left to a start.
    pub(super) fn look(&self, keeper: &Keeper, task: &str, opening: Opening) -> Result<Sight, Refusal> {
        let folder = self.folder()?;
        let paths = || self.recipes.iter().map(|recipe| folder.join(&recipe.file));
        let is_other = |path: &PathBuf| path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
        if let Some(path) = paths().find(is_other) {
            return Ok(Sight::default().unknown(format!("whether {} can be read: it is no file", path.display())));
        }
        match paths().find_map(|path| hidden(&path, false)) {
            Some(hidden) => Ok(hidden),
            None => self.open(keeper, task, opening).map(|_| Sight::default()),
        }
    }

    /// Whether it reads a hwmon or IIO device.
    pub(super) fn is_of_device(&self) -> bool {
        self.class.is_some()
    }

    /// The files that have an age to keep by default, each as a sentence.
    pub(super) fn ages(&self) -> Vec<String> {
        let Some(max_age) = self.settings.max_file_age.filter(|_| self.settings.is_usual_age) else {
            return Vec::new();
        };
        let is_written = |file: &&PathBuf| file.metadata().map_or(true, |facts| facts.is_file()) && has_age(file);
        let files: BTreeSet<_> = self.recipes.iter().map(|recipe| &recipe.file).filter(is_written).collect();
        let sentence = |file: &PathBuf| {
            format!(
                "{} has no value once it was not written for {max_age}; if a person edits it, write max-file-age = \"off\"",
                file.display()
            )
        };
        files.into_iter().map(sentence).collect()
    }

    /// The counters, for the columns that are rates.
    pub(super) fn rates(&self) -> impl Iterator<Item = Option<Counts>> {
        self.recipes.iter().map(|recipe| recipe.per_second)
    }

    /// Reports a fault of one value at the key responsible for it.
    fn blame(&self, Unusable { column, key, message }: Unusable) -> Refusal {
        if self.settings.listed {
            let name = column.and_then(|column| self.columns.get(column)).map(|column| &column.name);
            let name = name.map(|name| format!("{name:?}: ")).unwrap_or_default();
            return Refusal::new("value", format!("{name}{message}"));
        }
        self.error(if key == "path" && self.class.is_some() { "file" } else { key }, message)
    }

    fn error(&self, key: &'static str, message: String) -> Refusal {
        let key = match self.class {
            Some(class) if !self.single => class.key(),
            _ => key,
        };
        Refusal::new(key, message)
    }

    /// Adds a column for this value. If neither scale nor unit is given, both follow from the file's name.
    fn add(&mut self, value: &ValueSettings) {
        let file = value.file.to_string_lossy();
        let fixed = |(scale, unit)| (Scaling::Fixed(scale), unit);
        let (name, by_name) = match self.class {
            None => ("value", fixed((1.0, ""))),
            Some(Class::Hwmon) => (hwmon::stem(&file), fixed(hwmon::scale_and_unit(&file))),
            Some(Class::Iio) if !iio::is_value(&file) => (&*file, fixed((1.0, ""))),
            Some(Class::Iio) => {
                let (factor, unit) = iio::unit(iio::channel(&file));
                let scaling = if iio::is_raw(&file) { Scaling::Channel } else { Scaling::Fixed(factor) };
                (iio::value_name(&file), (scaling, unit))
            }
        };
        let per_second = value.per_second;
        let (scaling, unit) = match (value.scale, &value.unit) {
            (None, None) if per_second.is_some() && by_name.1.is_empty() => (by_name.0, "1/s".to_owned()),
            (None, None) if per_second.is_some() => (by_name.0, format!("{}/s", by_name.1)),
            (None, None) => (by_name.0, by_name.1.to_owned()),
            (scale, unit) => (Scaling::Fixed(scale.unwrap_or(1.0)), unit.clone().unwrap_or_default()),
        };
        self.columns.push(Column { name: value.name.clone().unwrap_or_else(|| name.to_owned()), unit });
        let (file, locator) = (value.file.clone(), value.locator.clone());
        self.recipes.push(Recipe { file, locator, scaling, offset: value.offset.unwrap_or(0.0), per_second });
    }
}

/// Texts that stay for as long as the process, so that a tick allocates nothing for its error. Each is kept once.
#[derive(Debug, Default)]
struct Texts(Mutex<BTreeSet<&'static str>>);

impl Texts {
    fn keep(&self, text: String) -> &'static str {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = texts.get(&*text).copied().unwrap_or_else(|| text.leak());
        texts.insert(text);
        text
    }
}

/// The number of fields of a file that holds nothing but numbers; else 1.
fn numbers(content: &[u8]) -> usize {
    let fields = content.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    if fields.clone().all(|field| Number::parse(field).is_some()) { fields.count().max(1) } else { 1 }
}
