//! A problem of an object and its consequence. Owns the overall wording; does not decide about traffic.

use std::fmt;
use std::sync::Arc;

use fairway_model::{HostKey, HostPattern, Origin, redact_userinfo};
use imbl::OrdMap;
use serde::Serialize;

use crate::object::{ObjectKey, ObjectRef};

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Some requests are not served as the object requires.
    Error,
    /// Something differs from what the object requires, but its requests are served.
    Warning,
    /// Worth knowing.
    Note,
}

/// What is wrong, where, and the consequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The object, the field and, for files, the line.
    pub origin: Origin,
    /// A stable identifier in kebab case.
    pub code: &'static str,
    /// What is wrong.
    pub problem: String,
    /// The consequence.
    pub consequence: String,
}

/// The origin of a group of diagnostics; groups are replaced one by one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiagnosticScope {
    /// The options and the settings ConfigMap.
    Settings,
    /// Settings by which any client could claim any address.
    Trust,
    /// The ConfigMaps of TCP and UDP services.
    ServiceMaps,
    /// A single Ingress.
    Ingress(ObjectKey),
    /// An Ingress of a removed API version.
    OldIngress(ObjectKey),
    /// All Ingresses of a host.
    Host(HostKey),
    /// An additional name of a host.
    FurtherName(HostKey),
    /// A host that both Ingresses and routes serve.
    AlsoIngress(HostPattern),
    /// A backend.
    Backend(Arc<str>),
    /// The certificate in a Secret.
    Certificate(ObjectKey),
    /// An object of the Gateway API.
    Object(ObjectRef),
}

/// All current diagnostics in a deterministic order. Clones are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    groups: OrdMap<DiagnosticScope, Arc<[Diagnostic]>>,
}

impl Diagnostic {
    /// A diagnostic at `origin`; [`Diagnostic::because`] sets its text.
    pub fn new(severity: Severity, code: &'static str, origin: Origin) -> Self {
        Self { severity, origin, code, problem: String::new(), consequence: String::new() }
    }

    /// Sets the problem and the consequence. Passwords in URLs of the object are redacted.
    pub fn because(mut self, problem: impl Into<String>, consequence: impl Into<String>) -> Self {
        self.problem = redact_userinfo(problem.into());
        self.consequence = redact_userinfo(consequence.into());
        self
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}: {}; {}", self.severity, self.code, self.origin, self.problem, self.consequence)
    }
}

impl Diagnostics {
    /// All diagnostics, by group.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.groups.values().flat_map(|group| group.iter())
    }

    /// The diagnostics of one group.
    #[must_use]
    pub fn group(&self, scope: &DiagnosticScope) -> &[Diagnostic] {
        self.groups.get(scope).map_or(&[], |group| group)
    }

    /// The number of diagnostics.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.values().map(|group| group.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups that differ from `older`, at a cost proportional to the difference.
    pub fn changed_since<'a>(&'a self, older: &'a Self) -> impl Iterator<Item = &'a DiagnosticScope> {
        older.groups.diff(&self.groups).map(|item| match item {
            imbl::ordmap::DiffItem::Add(scope, _) | imbl::ordmap::DiffItem::Remove(scope, _) => scope,
            imbl::ordmap::DiffItem::Update { new: (scope, _), .. } => scope,
        })
    }

    /// Replaces a group.
    pub fn replace(&mut self, scope: DiagnosticScope, mut group: Vec<Diagnostic>) {
        if group.is_empty() {
            self.groups.remove(&scope);
            return;
        }
        group.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        group.dedup();
        self.groups.insert(scope, group.into());
    }
}

fn sort_key(it: &Diagnostic) -> (&str, &str, &str, &str, Severity, &str, &str) {
    let origin = &it.origin;
    (&origin.kind, &origin.namespace, &origin.name, &origin.field, it.severity, it.code, &it.problem)
}
