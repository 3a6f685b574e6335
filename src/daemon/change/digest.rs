//! Digests that show where two configurations differ without revealing their contents: anyone may read the status socket, but not every
//! configuration. They are small because one is kept for every task.
//!
//! Pure. In JSON a digest is a string of 16 hex digits, and the digests of a section's keys are an object.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The digest of a text. Equal texts have equal digests within one build of hertzd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn of(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom)
    }
}

/// A digest of each key's value in a section, ordered by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys(Box<[(Arc<str>, Digest)]>);

impl Keys {
    /// From an identity, which has one `key = value` per line.
    pub(crate) fn of(identity: &str, names: &mut Names) -> Self {
        let lines = identity.lines().filter_map(|line| line.split_once(" = "));
        let keys: BTreeMap<_, _> = lines.map(|(key, value)| (names.shared(key), Digest::of(value))).collect();
        Self(keys.into_iter().collect())
    }

    /// The keys that differ between the two or are missing in one, in order.
    pub(crate) fn differing<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        let missing_in = |these: &Self, key: &(Arc<str>, Digest)| !these.0.contains(key);
        let old = self.0.iter().filter(|key| missing_in(other, key));
        old.chain(other.0.iter().filter(|key| missing_in(self, key))).map(|(key, _)| &**key).collect()
    }
}

impl Serialize for Keys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, digest)| (key, digest)))
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(|keys| Self(keys.into_iter().collect()))
    }
}

/// Names that many sections share, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeSet<Arc<str>>);

impl Names {
    pub(crate) fn shared(&mut self, name: &str) -> Arc<str> {
        self.0.get(name).cloned().unwrap_or_else(|| {
            let name: Arc<str> = name.into();
            self.0.insert(name.clone());
            name
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_json_and_show_what_differs() {
        let mut names = Names::default();
        let old = Keys::of("budget = 1\nphase = 2\nrate = 3\n", &mut names);
        let new = Keys::of("phase = 2\nrate = 4\nworker = \"a\"\n", &mut names);
        let json = serde_json::to_string(&old).unwrap();
        assert!(json.starts_with("{\"budget\":\"") && json.matches(':').count() == 3, "{json}");
        assert_eq!(serde_json::from_str::<Keys>(&json).unwrap(), old);
        assert_eq!(old.differing(&new).into_iter().collect::<Vec<_>>(), ["budget", "rate", "worker"]);
        assert!(old.differing(&old).is_empty());
        assert!(serde_json::from_str::<Keys>("{\"rate\":\"fast\"}").is_err());
    }
}
