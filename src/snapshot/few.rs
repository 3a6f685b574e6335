//! Limits on the lists in a daemon's answer. Three bytes of text may become a kilobyte in memory, so a limit in bytes is not enough: each
//! list of large elements has its own limit. Pure.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// More than the number of tasks, workers or outputs of any daemon.
pub(crate) const MANY: usize = 1 << 16;

/// Reads a list of at most `MOST` elements.
///
/// # Errors
/// The list has more elements, or the value is not a list of this type.
pub(super) fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Few::<T, MOST>(PhantomData))
}

/// A list of at most [`MANY`] elements.
#[derive(serde::Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct Many<T>(#[serde(deserialize_with = "few::<_, _, MANY>")] Vec<T>);

/// Reads a list of at most [`MANY`] elements that may be absent.
///
/// # Errors
/// The list has more elements, or the value is not a list of this type.
pub(super) fn many_if_any<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Option::<Many<T>>::deserialize(from)?.map(|Many(list)| list))
}

struct Few<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Few<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(next) = list.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::custom(format_args!(
                    "a list has more than {MOST} elements; no hertzd sends that many"
                )));
            }
            all.push(next);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Two {
        #[serde(deserialize_with = "few::<_, _, 2>")]
        list: Vec<u8>,
    }

    #[test]
    fn a_list_has_no_more_than_its_limit() {
        let read = |text: &str| serde_json::from_str::<Two>(text);
        assert_eq!(read(r#"{"list":[1,2]}"#).unwrap().list, [1, 2]);
        let refused = read(r#"{"list":[1,2,3]}"#).unwrap_err().to_string();
        assert!(refused.starts_with("a list has more than 2 elements; no hertzd sends that many"), "{refused}");
        assert!(read(r#"{"list":{}}"#).is_err());
    }

    #[test]
    fn what_a_socket_sends_has_limits() {
        for list in ["tasks", "workers", "alarms", "readbacks", "recordings_ended"] {
            let text = format!("{{\"{list}\":[{}{{}}]}}", "{},".repeat(MANY));
            assert!(serde_json::from_str::<crate::snapshot::Summary>(&text).is_err(), "{list}");
        }
    }
}
