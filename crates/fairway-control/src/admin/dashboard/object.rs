//! Objects as named on pages and by the parameter `object`: `KIND/NAMESPACE/NAME`, or `KIND/NAME` without a namespace.

use fairway_model::Origin;
use serde::Serialize;

use super::problem::Problem;
use super::query::{Query, parameters};

/// A link to an object.
#[derive(Debug, Serialize)]
pub(super) struct ObjectLink {
    /// `Ingress shop/web`.
    name: String,
    /// A field of it; empty for the whole object.
    field: String,
    /// Its file and line; empty if it does not come from a file.
    source: String,
    /// The parameters of pages about it.
    query: String,
}

impl ObjectLink {
    /// The object of an origin.
    pub(super) fn from_origin(origin: &Origin) -> Self {
        let source = origin.source.as_ref().map(|at| format!("{}:{}", at.file, at.line));
        Self {
            field: origin.field.to_string(),
            source: source.unwrap_or_default(),
            ..Self::from_name(&origin.kind, &origin.namespace, &origin.name)
        }
    }

    /// An object by name.
    pub(super) fn from_name(kind: &str, namespace: &str, name: &str) -> Self {
        let path = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        Self {
            query: parameters(&[("object", &format!("{kind}/{path}"))]),
            name: format!("{kind} {path}"),
            field: String::new(),
            source: String::new(),
        }
    }
}

/// The object named by the parameter `object`.
#[derive(Clone, Copy)]
pub(super) struct ObjectName<'q> {
    kind: &'q str,
    namespace: &'q str,
    name: &'q str,
}

impl<'q> ObjectName<'q> {
    /// Parses the parameter, if it is given.
    pub(super) fn from_query(query: &'q Query) -> Result<Option<Self>, Problem> {
        let Some(text) = query.value("object") else { return Ok(None) };
        let parts =
            text.split_once('/').map(|(kind, path)| (kind, path.split_once('/').unwrap_or(("", path))));
        match parts {
            Some((kind, (namespace, name))) if !kind.is_empty() && !name.is_empty() => {
                Ok(Some(Self { kind, namespace, name }))
            }
            _ => Err(Problem::bad_parameter("object", format!("{text:?} is not KIND/NAMESPACE/NAME"))),
        }
    }

    /// Whether an origin belongs to this object.
    pub(super) fn matches_origin(self, origin: &Origin) -> bool {
        (&*origin.kind, &*origin.namespace, &*origin.name) == (self.kind, self.namespace, self.name)
    }
}
