//! Where a piece of configuration came from, so that every answer can name its cause.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The object, the field in it, and the line when it came from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// `Ingress`, `HTTPRoute`, `Secret`, ...
    pub kind: Arc<str>,
    /// The namespace; empty for what has none.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
    /// The field as a path: `spec.rules[0].http.paths[1]`; empty for the object as a whole.
    pub field: Arc<str>,
    /// The place in a file, when the object was read from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLine>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    /// The path as the user gave it.
    pub file: Arc<str>,
    /// Counted from 1.
    pub line: u32,
}

impl Origin {
    /// The object `kind namespace/name` as a whole.
    #[must_use]
    pub fn object(kind: &str, namespace: &str, name: &str) -> Self {
        Self { kind: kind.into(), namespace: namespace.into(), name: name.into(), ..Self::default() }
    }

    /// The same object at another field.
    #[must_use]
    pub fn at(&self, field: impl Into<Arc<str>>) -> Self {
        Self { field: field.into(), ..self.clone() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)?;
        if !self.field.is_empty() {
            write!(f, " {}", self.field)?;
        }
        match &self.source {
            Some(source) => write!(f, " ({}:{})", source.file, source.line),
            None => Ok(()),
        }
    }
}
