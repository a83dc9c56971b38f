//! Decodes a node tree to a typed value, through serde. Errors name the field and its line, and unknown fields are listed.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::manifest::node::{Entry, Node, Value};

/// A decoded value and its unknown fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<T> {
    /// The value.
    pub value: T,
    /// Fields that were skipped.
    pub unknown: Vec<FieldError>,
}

/// A problem of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field: `spec.rules[0].host`; empty for the whole document.
    pub field: String,
    /// Its line in the file, counted from 1.
    pub line: u32,
    /// What is wrong, as half a sentence.
    pub problem: String,
}

/// Decodes `node`.
///
/// # Errors
/// The first field with a wrong type.
pub fn decode<T: for<'de> Deserialize<'de>>(node: &Node) -> Result<Decoded<T>, FieldError> {
    let unknown = RefCell::new(Vec::new());
    let decoder = NodeDecoder { node, path: &Path::Root, unknown: &unknown };
    match T::deserialize(decoder) {
        Ok(value) => Ok(Decoded { value, unknown: unknown.into_inner() }),
        Err(DecodeError { problem, at }) => {
            let (field, line) = at.unwrap_or_else(|| (String::new(), node.line));
            Err(FieldError { field, line, problem })
        }
    }
}

/// Appends `key` to the path of a field, in the syntax of [`crate::object::DocumentSource`].
pub(crate) fn push_key(path: &mut String, key: &str) {
    if key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    } else {
        path.push_str("[\"");
        path.push_str(key);
        path.push_str("\"]");
    }
}

/// The position of the decoder: the path to the root is on the stack and costs nothing without an error.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn write(&self, to: &mut String) {
        match self {
            Self::Root => {}
            Self::Key(parent, key) => {
                parent.write(to);
                push_key(to, key);
            }
            Self::Index(parent, index) => {
                parent.write(to);
                to.push('[');
                to.push_str(&index.to_string());
                to.push(']');
            }
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }
}

#[derive(Debug)]
struct DecodeError {
    problem: String,
    at: Option<(String, u32)>,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { problem: message.to_string(), at: None }
    }
}

#[derive(Clone, Copy)]
struct NodeDecoder<'a> {
    node: &'a Node,
    path: &'a Path<'a>,
    unknown: &'a RefCell<Vec<FieldError>>,
}

impl<'a> NodeDecoder<'a> {
    fn visit<'de, V: Visitor<'de>>(
        self,
        visitor: V,
        known: Option<&'static [&'static str]>,
    ) -> Result<V::Value, DecodeError> {
        let visited = match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_str(text),
            // Derived visitors accept a list as fields in order. A list is not an object here.
            Value::List(_) if known.is_some() => Err(DecodeError::invalid_type(Unexpected::Seq, &visitor)),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter().enumerate(), decoder: self }),
            Value::Map(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                value: None,
                known_names: known,
                decoder: self,
            }),
        };
        // The innermost decoder sets this; outer ones keep it.
        visited.map_err(|mut unfit| {
            unfit.at.get_or_insert_with(|| (self.path.text(), self.node.line));
            unfit
        })
    }
}

impl<'de> Deserializer<'de> for NodeDecoder<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.visit(visitor, None)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.visit(visitor, Some(fields))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map enum identifier
    }
}

struct Items<'a> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Node>>,
    decoder: NodeDecoder<'a>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        let path = Path::Index(self.decoder.path, index);
        seed.deserialize(NodeDecoder { node, path: &path, unknown: self.decoder.unknown }).map(Some)
    }

    /// Exact: without it, a list with one member would allocate room for four.
    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'a> {
    entries: std::slice::Iter<'a, Entry>,
    value: Option<&'a Entry>,
    known_names: Option<&'static [&'static str]>,
    decoder: NodeDecoder<'a>,
}

impl Entries<'_> {
    fn record_unknown(&self, entry: &Entry) {
        if self.known_names.is_some_and(|known| !known.contains(&entry.key.as_str())) {
            let field = Path::Key(self.decoder.path, &entry.key).text();
            let problem = "is a field that this kind does not have".to_owned();
            self.decoder.unknown.borrow_mut().push(FieldError { field, line: entry.line, problem });
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.record_unknown(entry);
        self.value = Some(entry);
        let key: StrDeserializer<'_, DecodeError> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let entry = self.value.take().expect("serde asks for a value only after its key");
        let path = Path::Key(self.decoder.path, &entry.key);
        seed.deserialize(NodeDecoder { node: &entry.node, path: &path, unknown: self.decoder.unknown })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::networking::v1::Ingress;

    use super::*;
    use crate::manifest::{Section, parse};

    fn ingress(text: &str) -> Result<Decoded<Ingress>, FieldError> {
        decode(&parse(&Section { text, line: 1 }).unwrap().unwrap())
    }

    const HEAD: &str = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: web\n";

    #[test]
    fn a_wrong_type_is_reported_with_field_and_line() {
        let text = format!(
            "{HEAD}spec:\n  rules:\n  - http:\n      paths:\n      - path: /\n        backend:\n          service:\n            name: a\n            port:\n              number: \"80\"\n"
        );
        let misfit = ingress(&text).unwrap_err();
        assert_eq!(misfit.field, "spec.rules[0].http.paths[0].backend.service.port.number");
        assert_eq!(misfit.line, 14);
        assert!(misfit.problem.contains("invalid type: string \"80\""), "{}", misfit.problem);
    }

    #[test]
    fn lists_have_no_spare_capacity() {
        let text = format!("{HEAD}spec:\n  rules:\n  - host: a\n  tls:\n  - hosts: [a, b]\n  - hosts: [c]\n");
        let spec = ingress(&text).unwrap().value.spec.unwrap();
        assert_eq!(spec.rules.unwrap().capacity(), 1);
        let tls = spec.tls.unwrap();
        let capacities: Vec<_> = tls.iter().map(|it| it.hosts.as_ref().unwrap().capacity()).collect();
        assert_eq!((tls.capacity(), capacities), (2, vec![2, 1]));
    }

    #[test]
    fn an_annotation_must_be_a_text() {
        let text = format!("{HEAD}  annotations:\n    example.com/flag: true\n");
        assert_eq!(ingress(&text).unwrap_err().field, "metadata.annotations[\"example.com/flag\"]");
    }

    #[test]
    fn unknown_fields_are_listed() {
        let text = format!("{HEAD}spec:\n  rule:\n  - host: a\n");
        let unknown = ingress(&text).unwrap().unknown;
        assert_eq!((unknown[0].field.as_str(), unknown[0].line), ("spec.rule", 6));
    }

    #[test]
    fn a_complete_object_is_decoded_as_written() {
        let text =
            format!("{HEAD}  creationTimestamp: 2024-05-01T00:00:00Z\nspec:\n  ingressClassName: fairway\n");
        let decoded = ingress(&text).unwrap();
        assert_eq!(decoded.unknown, []);
        assert_eq!(decoded.value.metadata.name.as_deref(), Some("web"));
        assert!(decoded.value.metadata.creation_timestamp.is_some());
        assert_eq!(decoded.value.spec.unwrap().ingress_class_name.as_deref(), Some("fairway"));
    }
}
