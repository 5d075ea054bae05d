//! Writes JSON in one form, independent of the order of its members, so that hashes and texts can be compared.
//!
//! Maps of JSON keep the order in which their members were written, because people and models read them in that order.
//! Two maps with the same members in different orders are equal, but their texts differ. Stored text, and text that is
//! compared with it, must not depend on that order.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The largest integer up to which every integer has its own `f64`, 2^53 − 1.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Serializes a value with the members of each object in the order of their names (as bytes), otherwise unchanged.
/// Written by `serde_json` without spaces, equal values have equal texts.
#[derive(Clone, Copy, Debug)]
pub struct Canonical<'a>(pub &'a Value);

impl Serialize for Canonical<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Canonical)),
            Value::Object(members) => CanonicalMap(members).serialize(serializer),
            plain => plain.serialize(serializer),
        }
    }
}

/// The same as [`Canonical`], for the members of an object.
#[derive(Clone, Copy, Debug)]
pub struct CanonicalMap<'a>(pub &'a Map<String, Value>);

impl Serialize for CanonicalMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.0.iter().map(|(name, value)| (name, Canonical(value)));
        // Most objects have few members, often in order already. Nothing is allocated for such an object.
        if self.0.keys().is_sorted() {
            serializer.collect_map(members)
        } else {
            let mut members: Vec<_> = members.collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            serializer.collect_map(members)
        }
    }
}

/// Returns the integer that equals a float, if there is exactly one.
pub(crate) fn integer_of(number: f64) -> Option<i64> {
    let is_exact = number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER;
    is_exact.then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_object_is_written_in_the_order_of_its_names() {
        let value: Value =
            serde_json::from_str(r#"{"b":[{"z":1,"é":2,"a":3}],"a":{"d":"x","B":null},"c":1.50}"#).unwrap();
        let text = serde_json::to_string(&Canonical(&value)).unwrap();
        assert_eq!(text, r#"{"a":{"B":null,"d":"x"},"b":[{"a":3,"z":1,"é":2}],"c":1.5}"#);
        let map = value.as_object().unwrap();
        assert_eq!(serde_json::to_string(&CanonicalMap(map)).unwrap(), text);
        // As it is written, the value is not in order; otherwise this test would prove nothing.
        assert_ne!(value.to_string(), text);
    }

    proptest! {
        #[test]
        fn no_order_makes_another_text(
            members in prop::collection::btree_map("[a-cé]{0,3}", any::<i32>(), 0..6).prop_map(Vec::from_iter),
        ) {
            let object = |members: Vec<(String, i32)>| -> Value {
                members.into_iter().map(|(name, value)| (name, Value::from(value))).collect()
            };
            let mut backwards = members.clone();
            backwards.reverse();
            let (one, other) = (object(members), object(backwards));
            let text = |value| serde_json::to_string(&Canonical(value)).unwrap();
            prop_assert_eq!(text(&one), text(&other));
            prop_assert_eq!(serde_json::from_str::<Value>(&text(&one)).unwrap(), one);
        }
    }
}
