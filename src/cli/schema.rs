//! `hertzd schema`: the configuration's JSON schema.

use super::named::with_texts;
use super::{Stop, print};
use crate::config;
use crate::config::Kinds;

pub(super) fn schema(kinds: &Kinds) -> Result<(), Stop> {
    let text =
        serde_json::to_string_pretty(&with_texts(config::schema(kinds), &|key| matches!(key, "title" | "description")))
            .map_err(|error| Stop::Fault(error.to_string()))?;
    print(&(text + "\n"))
}
