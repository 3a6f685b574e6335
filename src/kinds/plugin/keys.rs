//! The keys of the kind `plugin`: its own, and those that a library describes. Also how a section becomes a task.
//!
//! Reading the keys loads the library, which may block and runs the library's initialisers.

use super::{Plugin, columns, described};
use crate::config::{Blueprint, BuildError, ClockKind, Key, Kind, Preview, Section, Value};
use crate::site::Built;
use crate::sys::plugin::{DescribedKey, Instance, KeyKind, Library, Refused, Setting, Start, libraries};
use crate::task::Input;
use serde_json::{Map, Value as Json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

const LIBRARY: Key = Key::new(
    "library",
    Value::Path,
    "The plugin's shared library. A relative path counts from the folder of the configuration; a name without a folder is that of a \
     file in `/usr/lib/hertzd/plugins`. Root loads only what no other user can change. The plugin itself says which other keys there are: `hertzd schema CONFIG` lists them.",
)
.required("name it, such as \"./libexample.so\"");

// The purposes of a run, numbered as in the header.
const RUN: u32 = 0;
const SHADOW: u32 = 1;
const DESK: u32 = 2;

const KEYS: &[Key] = &[LIBRARY];

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    let about = "Runs code of your own, in C or any language that has its interface, from a shared library.";
    Kind::new("plugin", about, KEYS, parse).with_more_keys()
}

/// The keys of tasks that use this library, and the additional constraints for a schema. `written` is the library as written in a
/// configuration in `folder`.
///
/// # Errors
/// The reason why the library is not a plugin.
pub(crate) fn keys_of(folder: &Path, written: &str) -> Result<(Vec<Key>, Json), String> {
    let library = libraries::open(folder, Path::new(written)).map_err(why)?;
    let more = described::keys(library.described(), KEYS)?;
    Ok((KEYS.iter().copied().chain(more).collect(), described::ranges(library.described())))
}

fn why(refused: Refused) -> String {
    match refused {
        Refused::NotLoaded(why) => format!("it cannot be loaded: {why}"),
        Refused::NotAPlugin(why) => why,
    }
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let written: Option<PathBuf> = section.path(&LIBRARY);
    let library = match written.as_deref().map(|written| libraries::open(section.folder(), written)) {
        Some(Ok(library)) => library,
        // The library may be missing on this machine only. That refuses a start, but not a check of the configuration.
        Some(Err(Refused::NotLoaded(reason))) => {
            section.refuse_beyond(KEYS, None);
            let message = format!("it cannot be loaded: {reason}");
            let error = BuildError { key: LIBRARY.name, message };
            let (build, look) = (error.clone(), error);
            let message = format!(
                "it cannot be loaded here, so the keys of its own were not checked, and its values are not known: {reason}"
            );
            let unchecked = BuildError { key: LIBRARY.name, message };
            return Some(
                Blueprint::new(move |_| Err(build)).looking(move |_| Err(look)).computing().unchecked(unchecked),
            );
        }
        Some(Err(Refused::NotAPlugin(reason))) => {
            section.refuse_beyond(KEYS, None);
            section.problem(&LIBRARY, reason);
            return None;
        }
        None => {
            section.refuse_beyond(KEYS, None);
            return None;
        }
    };
    let described = library.described().clone();
    let keys = match described::keys(&described, KEYS) {
        Ok(keys) => keys,
        Err(reason) => {
            section.problem(&LIBRARY, format!("the plugin cannot be used: {reason}"));
            return None;
        }
    };
    section.refuse_beyond(KEYS, Some(&keys));
    let (mut settings, mut inputs, mut json) = (Vec::with_capacity(keys.len()), Vec::new(), Map::new());
    for (key, of) in keys.iter().zip(&described.keys) {
        let setting = match of.kind {
            KeyKind::Input => {
                let input = section.input(key);
                inputs.push(if of.spared { input.map(Input::spared) } else { input });
                Setting::Absent
            }
            _ => read(section, key, of),
        };
        if let Some(value) = as_json(&setting, of.kind) {
            json.insert(key.name.to_owned(), value);
        }
        settings.push(setting);
    }
    let period = section.period()?;
    let mode = if section.is_shadow() { SHADOW } else { RUN };
    let start = Start {
        task: section.name().trim_start_matches("task.").to_owned(),
        period,
        settings,
        json: Json::Object(json).to_string(),
        mode,
        clock: clock(section.clock()),
    };
    Some(blueprint(library, start, inputs))
}

fn blueprint(library: Arc<Library>, start: Start, inputs: Vec<Option<Input>>) -> Blueprint {
    let preview = Preview {
        columns: Some(columns(library.described())),
        unknown: vec![format!("whether the plugin {} can be set up with these keys", library.path().display())],
        ..Preview::default()
    };
    let (file, columns) = (library.path().to_owned(), columns(library.described()));
    let (at_the_desk, taken) = ((library.clone(), Start { mode: DESK, ..start.clone() }), inputs.clone());
    Blueprint::new(move |_| build(library, &start, inputs))
        .looking(move |_| Ok(preview))
        .at_the_desk_if(move || build(at_the_desk.0, &at_the_desk.1, taken))
        .with_columns(columns)
        .loading(file)
}

fn build(library: Arc<Library>, start: &Start, inputs: Vec<Option<Input>>) -> Result<Built, BuildError> {
    let described = library.described().clone();
    if start.mode == SHADOW {
        let (task, library) = (&start.task, library.path().display());
        warn!(
            task,
            "{task}: hertzd asks the plugin {library} not to write to any device, and cannot check that it complies"
        );
    }
    let instance = Instance::create(library, start).map_err(|reason| BuildError {
        key: LIBRARY.name,
        message: format!("the plugin {} refused to be set up: {reason}", described.name),
    })?;
    Ok(Plugin::built(instance, inputs, &described))
}

/// The section's value for a key that is not an input. Reports problems.
fn read(section: &mut Section<'_>, key: &Key, described: &DescribedKey) -> Setting {
    let read = match described.kind {
        KeyKind::Number => section.number(key).map(Setting::Number),
        KeyKind::Integer => section.integer(key).map(Setting::Integer),
        KeyKind::Bool => section.boolean(key).map(|on| Setting::Integer(on.into())),
        KeyKind::Text => section.text(key).map(Setting::Text),
        KeyKind::Duration => section.duration(key).map(|span| Setting::Integer(span.nanos())),
        KeyKind::Choice(words) => {
            let numbers: Vec<(&str, i64)> = words.iter().copied().zip(0..).collect();
            let chosen =
                if section.has(key) || described.preset.is_some() { section.choice(key, &numbers) } else { None };
            chosen.and_then(|at| Some(Setting::Word((*words.get(usize::try_from(at).ok()?)?).to_owned(), at)))
        }
        KeyKind::Input => None,
    };
    let refused = match &read {
        Some(Setting::Number(number)) => described::refusal(described, *number),
        Some(Setting::Text(text)) if text.contains('\0') => Some("must not contain a NUL byte".to_owned()),
        _ => None,
    };
    let by_itself = !section.has(key) && described.preset.is_some();
    if by_itself && (refused.is_some() || read.is_none()) {
        let preset = described.preset.unwrap_or_default();
        let text = format!(
            "the plugin says that {} is `{preset}` by itself, which that key does not accept: a fault of the plugin",
            key.name
        );
        section.problem(&LIBRARY, text);
    } else if let Some(refused) = refused {
        section.problem(key, refused);
    }
    read.unwrap_or(Setting::Absent)
}

fn as_json(setting: &Setting, kind: KeyKind) -> Option<Json> {
    match setting {
        Setting::Absent => None,
        Setting::Number(number) => Some(Json::from(*number)),
        Setting::Integer(on) if kind == KeyKind::Bool => Some(Json::from(*on != 0)),
        Setting::Integer(number) => Some(Json::from(*number)),
        Setting::Text(text) | Setting::Word(text, _) => Some(Json::from(text.as_str())),
    }
}

const fn clock(clock: ClockKind) -> u32 {
    match clock {
        ClockKind::Monotonic => 0,
        ClockKind::Tai => 1,
        ClockKind::Realtime => 2,
    }
}
