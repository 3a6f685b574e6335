//! `hertzd schema`: the configuration's JSON schema.

use super::{Stop, print};
use crate::config;
use crate::config::Kinds;

pub(super) fn schema(kinds: &Kinds) -> Result<(), Stop> {
    let text = serde_json::to_string_pretty(&config::schema(kinds)).map_err(|error| Stop::Fault(error.to_string()))?;
    print(&(text + "\n"))
}
