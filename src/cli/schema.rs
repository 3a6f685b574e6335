//! `hertzd schema`: the configuration's JSON schema.

use super::Stop;
use super::named::with_texts;
use super::terminal::Shown;
use crate::config::{Kinds, Variant, schema_with};
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd schema > hertzd.schema.json\n  \
    hertzd schema my.toml > my.schema.json    with the keys of its plugins\n\n\
    Without CONFIG a section of the kind plugin may have any keys beside those that \
    every plugin has. With it the libraries are loaded, and asked for their keys.")]
pub(super) struct SchemaArgs {
    /// A configuration whose plugins are asked for the keys of their sections
    config: Option<PathBuf>,
}

pub(super) fn schema(kinds: &Kinds, args: &SchemaArgs) -> Result<(), Stop> {
    let variants = args.config.as_deref().map(variants).transpose()?.unwrap_or_default();
    let schema = with_texts(schema_with(kinds, &variants), &|key| matches!(key, "title" | "description"));
    let text = serde_json::to_string_pretty(&schema).map_err(|error| Stop::Fault(error.to_string()))?;
    Shown::json(text + "\n").print()
}

/// The keys of the plugins that a configuration names.
#[cfg(feature = "plugin")]
fn variants(config: &Path) -> Result<Vec<Variant>, Stop> {
    use crate::config::{base_folder, written_at};
    use crate::kinds::plugin::keys_of;
    let (kind, key) = ("plugin", "library");
    let libraries =
        written_at(config, kind, key).map_err(|problems| Stop::Config(problems.ending_in("there is no schema")))?;
    let folder = base_folder(config);
    let variant = |text: String| {
        let (keys, also) = keys_of(&folder, &text).map_err(|why| {
            let (name, config) = (crate::program::name(), config.display());
            Stop::Refused(format!("{name}: {config}: library = {text:?}; {why}; there is no schema"))
        })?;
        Ok(Variant { kind, key, text, keys, also })
    };
    libraries.into_iter().map(variant).collect()
}

/// This build has no plugins.
#[cfg(not(feature = "plugin"))]
fn variants(_: &Path) -> Result<Vec<Variant>, Stop> {
    Ok(Vec::new())
}
