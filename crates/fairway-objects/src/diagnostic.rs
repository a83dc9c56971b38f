//! What is wrong with an object, and what happens now. Owns how it is worded as a whole; never decides about traffic.

use std::fmt;
use std::sync::Arc;

use fairway_model::{HostKey, HostPattern, Origin, without_userinfo};
use imbl::OrdMap;
use serde::Serialize;

use crate::object::{ObjectKey, ObjectRef};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Some requests are not served as the object asks.
    Error,
    /// Something is not as the object asks, but its requests are served.
    Warning,
    /// Worth knowing.
    Note,
}

/// What is wrong, where, and what happens now.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The object, the field and, for files, the line.
    pub origin: Origin,
    /// A stable name in kebab case.
    pub code: &'static str,
    /// What is wrong.
    pub problem: String,
    /// What happens now.
    pub consequence: String,
}

/// What a group of diagnostics was found with; the groups are replaced one by one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The options and the settings ConfigMap.
    Settings,
    /// By what every client may claim any address.
    Trust,
    /// The ConfigMaps of TCP and UDP services.
    ServiceMaps,
    /// An Ingress as such.
    Ingress(ObjectKey),
    /// An Ingress of a removed API version.
    OldIngress(ObjectKey),
    /// The Ingresses of a host together.
    Host(HostKey),
    /// A name that hosts have besides their own.
    FurtherName(HostKey),
    /// A host that Ingresses and routes have.
    AlsoIngress(HostPattern),
    /// A backend.
    Backend(Arc<str>),
    /// The certificate in a Secret.
    Certificate(ObjectKey),
    /// An object of the Gateway API.
    Object(ObjectRef),
}

/// All current diagnostics in a deterministic order. A clone costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    groups: OrdMap<Scope, Arc<[Diagnostic]>>,
}

impl Diagnostic {
    /// One at `origin`; [`Diagnostic::because`] gives it its words.
    pub fn new(severity: Severity, code: &'static str, origin: Origin) -> Self {
        Self { severity, origin, code, problem: String::new(), consequence: String::new() }
    }

    /// What is wrong and what happens now. Passwords in the URLs of an object are not repeated.
    pub fn because(mut self, problem: impl Into<String>, consequence: impl Into<String>) -> Self {
        self.problem = without_userinfo(problem.into());
        self.consequence = without_userinfo(consequence.into());
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
    /// All of them, grouped by what they were found with.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.groups.values().flat_map(|group| group.iter())
    }

    /// The diagnostics of one group.
    #[must_use]
    pub fn of(&self, scope: &Scope) -> &[Diagnostic] {
        self.groups.get(scope).map_or(&[], |group| group)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.values().map(|group| group.len()).sum()
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups that differ between `older` and this, at a cost of what differs.
    pub fn changed_since<'a>(&'a self, older: &'a Self) -> impl Iterator<Item = &'a Scope> {
        older.groups.diff(&self.groups).map(|item| match item {
            imbl::ordmap::DiffItem::Add(scope, _) | imbl::ordmap::DiffItem::Remove(scope, _) => scope,
            imbl::ordmap::DiffItem::Update { new: (scope, _), .. } => scope,
        })
    }

    /// Replaces a group.
    pub fn replace(&mut self, scope: Scope, mut group: Vec<Diagnostic>) {
        if group.is_empty() {
            self.groups.remove(&scope);
            return;
        }
        group.sort_by(|a, b| order(a).cmp(&order(b)));
        group.dedup();
        self.groups.insert(scope, group.into());
    }
}

fn order(it: &Diagnostic) -> (&str, &str, &str, &str, Severity, &str, &str) {
    let origin = &it.origin;
    (&origin.kind, &origin.namespace, &origin.name, &origin.field, it.severity, it.code, &it.problem)
}
