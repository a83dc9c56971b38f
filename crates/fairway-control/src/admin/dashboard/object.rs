//! Objects as pages name them, and as the parameter `object` does: `KIND/NAMESPACE/NAME`, or `KIND/NAME` where there is no namespace.

use fairway_model::Origin;
use serde::Serialize;

use super::problem::Problem;
use super::query::{Query, parameters};

/// An object that a page names.
#[derive(Debug, Serialize)]
pub(super) struct ObjectLink {
    /// `Ingress shop/web`.
    name: String,
    /// The field in it; empty for the object as a whole.
    field: String,
    /// Its file and line; empty where it is from no file.
    source: String,
    /// The parameters of the pages about it.
    query: String,
}

impl ObjectLink {
    /// The object that wrote something.
    pub(super) fn from_origin(origin: &Origin) -> Self {
        let source = origin.source.as_ref().map(|at| format!("{}:{}", at.file, at.line));
        Self {
            field: origin.field.to_string(),
            source: source.unwrap_or_default(),
            ..Self::named(&origin.kind, &origin.namespace, &origin.name)
        }
    }

    /// An object by its name.
    pub(super) fn named(kind: &str, namespace: &str, name: &str) -> Self {
        let path = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        Self {
            query: parameters(&[("object", &format!("{kind}/{path}"))]),
            name: format!("{kind} {path}"),
            field: String::new(),
            source: String::new(),
        }
    }
}

/// The object that the parameter `object` names.
#[derive(Clone, Copy)]
pub(super) struct ObjectName<'q> {
    kind: &'q str,
    namespace: &'q str,
    name: &'q str,
}

impl<'q> ObjectName<'q> {
    /// Of the parameter, where it is given.
    pub(super) fn read(query: &'q Query) -> Result<Option<Self>, Problem> {
        let Some(text) = query.value("object") else { return Ok(None) };
        let parts =
            text.split_once('/').map(|(kind, path)| (kind, path.split_once('/').unwrap_or(("", path))));
        match parts {
            Some((kind, (namespace, name))) if !kind.is_empty() && !name.is_empty() => {
                Ok(Some(Self { kind, namespace, name }))
            }
            _ => Err(Problem::bad("object", format!("{text:?} is not KIND/NAMESPACE/NAME"))),
        }
    }

    /// Whether it is the object that wrote something.
    pub(super) fn wrote(self, origin: &Origin) -> bool {
        (&*origin.kind, &*origin.namespace, &*origin.name) == (self.kind, self.namespace, self.name)
    }
}
