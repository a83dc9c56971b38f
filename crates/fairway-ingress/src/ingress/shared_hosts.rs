//! The namespaces with which an Ingress shares its hosts, if hosts have owners (`--host-ownership`).

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::reader::Reader;

/// Names the namespaces that may add paths to the hosts of an Ingress, but not to its aliases. Fairway's own
/// annotation, which `--annotations-prefix` does not affect.
const SHARED_HOSTS: &str = "fairway.dev/shared-hosts";

/// The namespaces with which an Ingress shares its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SharedHosts {
    /// All of them.
    Everyone,
    /// These.
    Namespaces(BTreeSet<Arc<str>>),
}

impl Default for SharedHosts {
    fn default() -> Self {
        Self::Namespaces(BTreeSet::new())
    }
}

impl SharedHosts {
    /// Reads the annotation: comma-separated namespaces, or `*`. An invalid namespace admits no one.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Self {
        let annotations = reader.ingress.object.metadata.annotations.as_ref();
        let Some(value) = annotations.and_then(|all| all.get(SHARED_HOSTS)) else { return Self::default() };
        let mut shared = Self::default();
        for item in value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if item == "*" {
                shared = Self::Everyone;
            } else if !is_namespace(item) {
                let origin = reader.field_origin(&format!("metadata.annotations[\"{SHARED_HOSTS}\"]"));
                let found = Diagnostic::new(Severity::Warning, "invalid-annotation", origin);
                let problem = format!("\"{item}\" is neither the name of a namespace nor *");
                reader.report(found.because(problem, "it lets nobody in"));
            } else if let Self::Namespaces(names) = &mut shared {
                names.insert(item.into());
            }
        }
        shared
    }

    pub(crate) fn include(&self, namespace: &str) -> bool {
        match self {
            Self::Everyone => true,
            Self::Namespaces(names) => names.contains(namespace),
        }
    }

    pub(crate) fn join(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Namespaces(names), Self::Namespaces(more)) => names.extend(more.iter().cloned()),
            (Self::Namespaces(_), Self::Everyone) => *self = Self::Everyone,
            (Self::Everyone, _) => {}
        }
    }
}

/// An RFC 1123 label, as namespace names are (Kubernetes "Object Names and IDs").
fn is_namespace(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 63 && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_name_namespaces() {
        for good in ["a", "team-1", "0"] {
            assert!(is_namespace(good), "{good}");
        }
        for bad in ["-a", "a-", "A", "a.b", "a_b", "a b", "**"] {
            assert!(!is_namespace(bad), "{bad}");
        }
        assert!(is_namespace(&"a".repeat(63)) && !is_namespace(&"a".repeat(64)));
    }

    #[test]
    fn everyone_stays_everyone() {
        let namespaces = SharedHosts::Namespaces(["a".into()].into());
        let mut joined = namespaces.clone();
        joined.join(&SharedHosts::Everyone);
        joined.join(&namespaces);
        assert!(joined.include("b"));
        assert!(namespaces.include("a") && !namespaces.include("b"));
    }
}
