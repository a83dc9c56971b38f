//! Whose a host is (`--host-ownership`): which Ingresses may serve it, and which of them decide what holds for all of
//! it. Never looks at paths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{HostPattern, Origin};

use crate::annotation::Reader;
use crate::diagnostic::{Diagnostic, Severity};
use crate::plan::Plan;
use crate::resources::{Kind, ObjectKey};

/// Names the namespaces that may add paths to the hosts of an Ingress. It is Fairway's own: `--annotations-prefix` does
/// not change it.
const SHARED_HOSTS: &str = "fairway.dev/shared-hosts";

/// The namespaces that an Ingress lets onto its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Guests {
    /// All of them.
    Everyone,
    /// These.
    Namespaces(BTreeSet<Arc<str>>),
}

/// What the Ingresses that name a host say about its ownership: all that names below a wildcard must know of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// The oldest Ingress, by its age and name; `None` without Ingresses, or when hosts have no owners.
    oldest: Option<(i64, ObjectKey)>,
    /// Whom the Ingresses of a namespace let in.
    guests: BTreeMap<Arc<str>, Guests>,
}

/// The Ingresses that serve a host, and who decides about it.
#[derive(Debug, Default)]
pub(crate) struct Parties {
    /// Those that serve it, the oldest first.
    pub(crate) plans: Vec<Arc<Plan>>,
    /// The namespace that owns the host; `None` where hosts have no owners.
    pub(crate) owner: Option<Arc<str>>,
    /// What the others do not get.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Who owns a host, and through which of its names.
struct Title<'a> {
    namespace: Arc<str>,
    ingress: &'a ObjectKey,
    through: &'a HostPattern,
}

impl Default for Guests {
    fn default() -> Self {
        Self::Namespaces(BTreeSet::new())
    }
}

impl Guests {
    /// Reads the annotation: namespaces with commas between them, or `*`. What is no namespace lets nobody in.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Self {
        let annotations = reader.ingress.object.metadata.annotations.as_ref();
        let Some(value) = annotations.and_then(|all| all.get(SHARED_HOSTS)) else { return Self::default() };
        let mut guests = Self::default();
        for item in value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if item == "*" {
                guests = Self::Everyone;
            } else if !is_namespace(item) {
                let origin = reader.field(&format!("metadata.annotations[\"{SHARED_HOSTS}\"]"));
                let found = Diagnostic::new(Severity::Warning, "invalid-annotation", origin);
                let problem = format!("\"{item}\" is neither the name of a namespace nor *");
                reader.diagnostics.push(found.because(problem, "it lets nobody in"));
            } else if let Self::Namespaces(names) = &mut guests {
                names.insert(item.into());
            }
        }
        guests
    }

    fn include(&self, namespace: &str) -> bool {
        match self {
            Self::Everyone => true,
            Self::Namespaces(names) => names.contains(namespace),
        }
    }

    fn join(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Namespaces(names), Self::Namespaces(more)) => names.extend(more.iter().cloned()),
            (Self::Namespaces(_), Self::Everyone) => *self = Self::Everyone,
            (Self::Everyone, _) => {}
        }
    }
}

/// A label of RFC 1123, as names of namespaces are (Kubernetes "Object Names and IDs").
fn is_namespace(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 63 && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

impl Claims {
    /// Of the Ingresses that name a host, the oldest first.
    pub(crate) fn of(plans: &[Arc<Plan>]) -> Self {
        let oldest = plans.first().map(|plan| (plan.age().0, plan.key.clone()));
        let mut claims = Self { oldest, guests: BTreeMap::new() };
        for plan in plans.iter().filter(|plan| plan.guests != Guests::default()) {
            claims.guests.entry(plan.key.namespace.clone()).or_default().join(&plan.guests);
        }
        claims
    }

    /// The namespace that owns the host as far as these claims tell.
    pub(crate) fn owner(&self) -> Option<&Arc<str>> {
        self.oldest.as_ref().map(|(_, ingress)| &ingress.namespace)
    }

    fn let_in(&self, owner: &Arc<str>, namespace: &str) -> bool {
        self.guests.get(owner).is_some_and(|guests| guests.include(namespace))
    }
}

impl Parties {
    /// Of a host where everybody has the same rights.
    pub(crate) fn equal(plans: Vec<Arc<Plan>>) -> Self {
        Self { plans, ..Self::default() }
    }

    /// Of a host with an owner. `above` is the wildcard that covers it, with its claims: its oldest Ingress owns the
    /// names below it as well, except those that an older Ingress names.
    pub(crate) fn of(
        host: &HostPattern,
        plans: Vec<Arc<Plan>>,
        above: Option<(&HostPattern, &Claims)>,
    ) -> Self {
        let own = Claims::of(&plans);
        let through = |(of, claims): (&'_ HostPattern, &'_ Claims)| {
            claims.oldest.clone().map(|oldest| (oldest, of.clone()))
        };
        let oldest = [Some((host, &own)), above].into_iter().flatten().filter_map(through).min();
        let Some(((_, ingress), through)) = oldest else { return Self::default() };
        let title = Title { namespace: ingress.namespace.clone(), ingress: &ingress, through: &through };
        let mut parties = Self { owner: Some(title.namespace.clone()), ..Self::default() };
        for plan in plans {
            let namespace = &plan.key.namespace;
            let let_in = |claims: &Claims| claims.let_in(&title.namespace, namespace);
            if parties.decides(&plan) {
                parties.plans.push(plan);
            } else if let_in(&own) || above.is_some_and(|(_, claims)| let_in(claims)) {
                parties.diagnostics.extend(title.not_for_guests(&plan, host));
                parties.plans.push(plan);
            } else {
                parties.diagnostics.push(title.refusal(&plan, host));
            }
        }
        parties
    }

    /// Whether an Ingress has a say in what holds for the whole host: its certificate, how paths are matched, where `/`
    /// leads, what answers a path that no rule has.
    pub(crate) fn decides(&self, plan: &Plan) -> bool {
        decides(self.owner.as_ref(), plan)
    }

    /// The Ingresses that have, the oldest first.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.plans.iter().filter(|plan| self.decides(plan))
    }
}

/// Whether an Ingress decides about a host of `owner`.
pub(crate) fn decides(owner: Option<&Arc<str>>, plan: &Plan) -> bool {
    owner.is_none_or(|owner| *owner == plan.key.namespace)
}

impl Title<'_> {
    /// What an Ingress that may not serve the host is told.
    fn refusal(&self, plan: &Plan, host: &HostPattern) -> Diagnostic {
        let rule = plan.rules.iter().find(|(of, _)| of == host);
        let field = rule.map_or("spec.defaultBackend".to_owned(), |(_, at)| format!("spec.rules[{at}].host"));
        let names =
            if self.through == host { String::new() } else { format!(", which names {},", self.through) };
        let problem = format!(
            "host {host} belongs to namespace {}: its Ingress {}{names} is older and does not share it with {}",
            self.namespace, self.ingress, plan.key.namespace
        );
        let consequence = format!("nothing of this Ingress is served on {host}");
        Diagnostic::new(Severity::Error, "host-owned", origin(plan, &field)).because(problem, consequence)
    }

    /// What an Ingress asks for that only the owner of the host may have.
    fn not_for_guests(&self, plan: &Plan, host: &HostPattern) -> Option<Diagnostic> {
        let tls = plan.spec()?.tls.as_ref()?;
        let names = |tls: &[String]| tls.iter().any(|name| host.to_string() == name.to_ascii_lowercase());
        let at = tls.iter().position(|tls| tls.hosts.as_deref().is_some_and(names))?;
        let problem =
            format!("the certificate of host {host} is chosen by its owner, namespace {}", self.namespace);
        let found =
            Diagnostic::new(Severity::Warning, "host-owned", origin(plan, &format!("spec.tls[{at}]")));
        Some(found.because(problem, "this section has no effect on it"))
    }
}

fn origin(plan: &Plan, field: &str) -> Origin {
    plan.ingress.origin(Kind::Ingress, &plan.key, field)
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
        let one = Guests::Namespaces(["a".into()].into());
        let mut joined = one.clone();
        joined.join(&Guests::Everyone);
        joined.join(&one);
        assert!(joined.include("b"));
        assert!(one.include("a") && !one.include("b"));
    }
}
