//! Where a piece of configuration came from, so that responses and messages can name their cause.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An object, a field in it, and a line if it came from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// `Ingress`, `HTTPRoute`, `Secret`, ...
    pub kind: Arc<str>,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
    /// The field path, such as `spec.rules[0].http.paths[1]`; empty for the whole object.
    pub field: Arc<str>,
    /// The line of the file that the object was read from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLine>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    /// The path as the user gave it.
    pub file: Arc<str>,
    /// Starting at 1.
    pub line: u32,
}

impl Origin {
    /// The whole object `kind namespace/name`.
    #[must_use]
    pub fn object(kind: &str, namespace: &str, name: &str) -> Self {
        Self { kind: kind.into(), namespace: namespace.into(), name: name.into(), ..Self::default() }
    }

    /// The same object, at another field.
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
