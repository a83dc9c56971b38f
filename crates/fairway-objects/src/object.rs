//! Objects of any kind, their identity and their source.

use std::sync::Arc;

use fairway_model::{Origin, SourceLine};
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use crate::key::ObjectKey;
pub use crate::kinds::Kind;
use crate::kinds::types;
use crate::lines::FieldLines;
use crate::policies::RefusedField;
use crate::shared;

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub key: ObjectKey,
}

macro_rules! objects {
    (kubernetes { $($kubernetes:ident $kubernetes_versions:tt $kubernetes_names:ident;)* }
     gateways { $($gateway:ident $gateway_versions:tt $gateway_names:ident $map:tt;)* }) => {
        objects!($($kubernetes)* $($gateway)*);
    };
    ($($kind:ident)*) => {
        /// An object of any kind.
        #[derive(Clone, Debug)]
        pub enum Object {
            $(#[doc = concat!("[`", stringify!($kind), "`](types::", stringify!($kind), ").")] $kind(Arc<types::$kind>),)*
            /// An Ingress of an API version that Kubernetes 1.22 removed, as written.
            OldIngress(serde_json::Value),
        }

        impl Object {
            /// Its kind.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)*
                    Self::OldIngress(_) => Kind::OldIngress,
                }
            }

            /// Its metadata, if it is kept in the form of the API.
            #[must_use]
            pub fn metadata(&self) -> Option<&ObjectMeta> {
                match self {
                    $(Self::$kind(it) => KeptMetadata::metadata(&**it),)*
                    Self::OldIngress(_) => None,
                }
            }

            fn metadata_mut(&mut self) -> Option<&mut ObjectMeta> {
                match self {
                    $(Self::$kind(it) => KeptMetadata::metadata_mut(Arc::make_mut(it)),)*
                    Self::OldIngress(_) => None,
                }
            }
        }

        $(impl From<types::$kind> for Object {
            fn from(object: types::$kind) -> Self {
                Self::$kind(Arc::new(object))
            }
        })*
    };
}

crate::table_of_kinds!([objects]);

/// Access to kept metadata.
trait KeptMetadata {
    fn metadata(&self) -> Option<&ObjectMeta>;

    fn metadata_mut(&mut self) -> Option<&mut ObjectMeta>;
}

impl<T: Metadata<Ty = ObjectMeta>> KeptMetadata for T {
    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(Metadata::metadata(self))
    }

    fn metadata_mut(&mut self) -> Option<&mut ObjectMeta> {
        Some(Metadata::metadata_mut(self))
    }
}

/// For kinds of which only the name and the relevant labels are kept.
macro_rules! kept_without_metadata {
    ($($type:ty),+) => {
        $(impl KeptMetadata for $type {
            fn metadata(&self) -> Option<&ObjectMeta> {
                None
            }

            fn metadata_mut(&mut self) -> Option<&mut ObjectMeta> {
                None
            }
        })+
    };
}

kept_without_metadata!(types::EndpointSlice, types::Pod);

/// Where an object is defined in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSource {
    /// The path as the user gave it.
    pub file: Arc<str>,
    /// The first line of the document, counted from 1.
    pub line: u32,
    /// The lines of fields by path, as in `spec.rules[0].http.paths[1]` or `metadata.annotations["kubernetes.io/ingress.class"]`
    /// (brackets and quotes for keys with bytes other than `A-Za-z0-9_-`). A field that is missing here has the line of its
    /// nearest ancestor; `None` if all fields are on the first line.
    pub lines: Option<Arc<FieldLines>>,
}

/// An object and its source.
#[derive(Clone, Debug)]
pub struct Sourced<T> {
    /// The object.
    pub object: Arc<T>,
    /// Where it is defined, if it comes from a file.
    pub source: Option<Arc<DocumentSource>>,
}

impl ObjectRef {
    /// The object `key` of `kind`.
    #[must_use]
    pub fn new(kind: Kind, key: ObjectKey) -> Self {
        Self { kind, key }
    }
}

impl Object {
    /// Its kind and name. The default namespace of namespaced kinds is `default`.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        let kind = self.kind();
        let key = match self {
            Self::OldIngress(value) => {
                let text = |field| value.pointer(field).and_then(serde_json::Value::as_str);
                let namespace = text("/metadata/namespace").unwrap_or("default");
                ObjectKey::new(namespace, text("/metadata/name").unwrap_or_default())
            }
            Self::EndpointSlice(it) => it.key.clone(),
            Self::Pod(it) => it.key.clone(),
            it if kind.is_namespaced() => it.metadata().map(ObjectKey::from_metadata).unwrap_or_default(),
            it => it.metadata().map(ObjectKey::cluster_wide).unwrap_or_default(),
        };
        ObjectRef { kind, key }
    }

    /// Sets the namespace `default` for a namespaced object without one.
    pub(crate) fn set_default_namespace(&mut self) {
        if self.kind().is_namespaced()
            && let Some(metadata) = self.metadata_mut()
        {
            metadata.namespace.get_or_insert_with(|| "default".to_owned());
        }
    }

    /// Refuses an object because of a field; the first refusal counts. Applies only to a SecurityPolicy and an ExtensionPolicy,
    /// whose targets are then closed.
    pub fn refuse(&mut self, field: &str, problem: &str) {
        let refused = match self {
            Self::SecurityPolicy(policy) => &mut Arc::make_mut(policy).spec.refused,
            Self::ExtensionPolicy(policy) => &mut Arc::make_mut(policy).spec.refused,
            _ => return,
        };
        refused.get_or_insert_with(|| RefusedField { field: field.to_owned(), problem: problem.to_owned() });
    }
}

impl<T> Sourced<T> {
    /// The origin of the object `kind key` at `field`, with its line if known.
    pub fn origin(&self, kind: Kind, key: &ObjectKey, field: &str) -> Origin {
        Origin {
            kind: kind.shared_name(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            field: shared::text(field),
            source: self
                .source
                .as_ref()
                .map(|source| SourceLine { file: source.file.clone(), line: source.line_of(field) }),
        }
    }
}

impl DocumentSource {
    /// The line of a field or of its nearest ancestor.
    #[must_use]
    pub(crate) fn line_of(&self, field: &str) -> u32 {
        self.lines.as_ref().and_then(|lines| lines.nearest(field)).unwrap_or(self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_without_a_line_has_the_line_of_its_parent() {
        let lines = [("spec", 5), ("spec.rules[0]", 7), ("metadata.annotations", 3)];
        let source = DocumentSource {
            file: "a.yaml".into(),
            line: 1,
            lines: FieldLines::from_lines(&lines.map(|(path, line)| (path.to_owned(), line)).into(), 1)
                .map(Arc::new),
        };
        assert_eq!(source.line_of("spec.rules[0].http.paths[3].backend"), 7);
        assert_eq!(source.line_of("spec.rules[1]"), 5);
        assert_eq!(source.line_of("metadata.annotations[\"a.b/c\"]"), 3);
        assert_eq!(source.line_of("status"), 1);
    }
}
