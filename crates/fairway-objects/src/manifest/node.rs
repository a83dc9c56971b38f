//! A document as a tree whose nodes know their lines.

/// A node of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The line in the file, counted from 1.
    pub line: u32,
    /// The value.
    pub value: Value,
}

/// The types of nodes (the JSON types, as in Kubernetes).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping in file order, without duplicate keys.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key. Keys that are not strings have their text in the file.
    pub key: String,
    /// The line of the key.
    pub line: u32,
    /// Its value.
    pub node: Node,
}

impl Node {
    /// The value of `key`, if this is a mapping that has it.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
            _ => None,
        }
    }

    /// The text of `key`, if this is a mapping that has it as a text.
    #[must_use]
    pub(crate) fn text_of(&self, key: &str) -> Option<&str> {
        match &self.field(key)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of nodes in this tree.
    #[must_use]
    pub fn size(&self) -> usize {
        1 + match &self.value {
            Value::List(items) => items.iter().map(Node::size).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.node.size()).sum(),
            _ => 0,
        }
    }

    /// The tree as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect()
            }
        }
    }
}
