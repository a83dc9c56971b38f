//! Parses JSON objects without duplicate names. RFC 7515 §4 and RFC 7519 §4 allow a parser to use the last of two;
//! another reader of the token might use the first, so such tokens are rejected.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses an object; `None` if the text is anything else, or contains duplicate names at any depth.
pub(crate) fn parse_object(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(text).ok()? {
        Unique(Value::Object(object)) => Some(object),
        Unique(_) => None,
    }
}

/// A value without duplicate names in any object.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated names")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = sequence.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Unique(value))) = members.next_entry::<String, _>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_without_repeated_names_are_read() {
        let object =
            parse_object(br#"{"a": [1, -2, 3.5, null, true, "x"], "b": {"a": {}}}"#).expect("it is one");
        assert_eq!(object["a"], serde_json::json!([1, -2, 3.5, null, true, "x"]));
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1000), "]".repeat(1000));
        for refused in [
            "",
            "[]",
            "\"a\"",
            "null",
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": 1, "\u0061": 1}"#,
            r#"{"a": [{"b": {"c": 1, "c": 2}}]}"#,
            r#"{"a": 1} "#.trim_end_matches(' ').trim_end_matches('}'),
            r#"{"a": 1}{"#,
            r#"{"a": 1e999}"#,
            r#"{"a": NaN}"#,
            r#"{"a": "\ud800"}"#,
            "{\"a\": \"\u{1}\"}",
            &deep,
        ] {
            assert_eq!(parse_object(refused.as_bytes()), None, "{refused}");
        }
    }
}
