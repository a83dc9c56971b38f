//! Host ownership (`--host-ownership`): which Ingresses may serve a host, and which decide host-wide settings.
//! Independent of paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{HostPattern, WildcardSpan};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;

use crate::ingress::served::ServedIngress;
use crate::ingress::shared_hosts::SharedHosts;

/// The ownership of a host or claimed name, as needed by names below a wildcard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ownership {
    /// The oldest Ingress by age and name; `None` without Ingresses or without host ownership.
    oldest: Option<(i64, ObjectKey)>,
    /// With whom the Ingresses of a namespace share the host.
    shared: BTreeMap<Arc<str>, SharedHosts>,
}

/// The Ingresses that serve a host, and its owner.
#[derive(Debug, Default)]
pub(crate) struct HostIngresses {
    /// Serving Ingresses, oldest first.
    pub(crate) ingresses: Vec<Arc<ServedIngress>>,
    /// Canaries, oldest first.
    pub(crate) canaries: Vec<Arc<ServedIngress>>,
    /// The namespace that owns the host; `None` without host ownership.
    pub(crate) owner: Option<Arc<str>>,
    /// What other Ingresses do not get.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The owner of a host.
struct Owner<'a> {
    namespace: Arc<str>,
    ingress: &'a ObjectKey,
    /// The wildcard or claimed name that makes it the owner; `None` if it has a rule for the host.
    through: Option<&'a HostPattern>,
}

impl Ownership {
    /// From the Ingresses that name a host, oldest first.
    pub(crate) fn from_ingresses(ingresses: &[Arc<ServedIngress>]) -> Self {
        let mut ownership = Self::from_claims(ingresses);
        for ingress in ingresses.iter().filter(|it| it.shared_hosts != SharedHosts::default()) {
            let shared = ownership.shared.entry(ingress.key.namespace.clone()).or_default();
            shared.join(&ingress.shared_hosts);
        }
        ownership
    }

    /// From the Ingresses that claim a name in addition to their hosts, oldest first. They share their hosts but not
    /// the name: a guest's rule for it would create a separate host without the paths that the alias has.
    pub(crate) fn from_claims(ingresses: &[Arc<ServedIngress>]) -> Self {
        let oldest = ingresses.iter().find(|ingress| ingress.canary().is_none());
        let oldest = oldest.map(|oldest| (oldest.age().0, oldest.key.clone()));
        Self { oldest, shared: BTreeMap::new() }
    }

    /// Adds the statements of others about the same names.
    pub(crate) fn join(&mut self, other: &Self) {
        self.oldest = self.oldest.take().into_iter().chain(other.oldest.clone()).min();
        for (namespace, shared) in &other.shared {
            self.shared.entry(namespace.clone()).or_default().join(shared);
        }
    }

    /// The namespace of the oldest Ingress.
    pub(crate) fn owner(&self) -> Option<&Arc<str>> {
        self.oldest.as_ref().map(|(_, ingress)| &ingress.namespace)
    }

    fn is_shared(&self, owner: &Arc<str>, namespace: &str) -> bool {
        self.shared.get(owner).is_some_and(|shared| shared.include(namespace))
    }
}

impl HostIngresses {
    /// A host without ownership, on which all Ingresses have equal rights.
    pub(crate) fn unowned(ingresses: Vec<Arc<ServedIngress>>) -> Self {
        let mut serving = Self::default();
        ingresses.into_iter().for_each(|ingress| serving.admit(ingress));
        serving
    }

    /// A host with an owner. `others` are the wildcards that cover it and the claims of its name, with their
    /// ownership: the oldest Ingress of all owns the host.
    pub(crate) fn with_owner(
        host: &HostPattern,
        ingresses: Vec<Arc<ServedIngress>>,
        others: &[(&HostPattern, &Ownership)],
    ) -> Self {
        let own_ownership = Ownership::from_ingresses(&ingresses);
        let all = others.iter().map(|(alias, ownership)| (Some(*alias), *ownership));
        let all = std::iter::once((None, &own_ownership)).chain(all);
        let oldest = all.filter_map(|(through, ownership)| Some((ownership.oldest.as_ref()?, through)));
        // Among several names of one Ingress, the closest to the host.
        let oldest = oldest.min_by_key(|(oldest, _)| *oldest);
        // There can only be canaries.
        let Some(((_, ingress), through)) = oldest else { return Self::unowned(ingresses) };
        let owner = Owner { namespace: ingress.namespace.clone(), ingress, through };
        let mut serving = Self { owner: Some(owner.namespace.clone()), ..Self::default() };
        for ingress in ingresses {
            let namespace = &ingress.key.namespace;
            let is_shared = |ownership: &Ownership| ownership.is_shared(&owner.namespace, namespace);
            if serving.decides(&ingress) {
                serving.admit(ingress);
            } else if is_shared(&own_ownership) || others.iter().any(|(_, ownership)| is_shared(ownership)) {
                serving.diagnostics.extend(owner.certificate_not_shared(&ingress, host));
                serving.admit(ingress);
            } else {
                serving.diagnostics.push(owner.refusal(&ingress, host));
            }
        }
        serving
    }

    fn admit(&mut self, ingress: Arc<ServedIngress>) {
        match ingress.canary() {
            None => self.ingresses.push(ingress),
            Some(_) => self.canaries.push(ingress),
        }
    }

    /// Whether an Ingress decides host-wide settings: certificate, path matching, the target of `/`, and the response
    /// to paths without a rule.
    pub(crate) fn decides(&self, ingress: &ServedIngress) -> bool {
        decides(self.owner.as_ref(), ingress)
    }

    /// The Ingresses that decide, oldest first.
    pub(crate) fn deciding_ingresses(&self) -> impl Iterator<Item = &Arc<ServedIngress>> {
        self.ingresses.iter().filter(|ingress| self.decides(ingress))
    }
}

/// Whether an Ingress decides about a host of `owner`.
pub(crate) fn decides(owner: Option<&Arc<str>>, ingress: &ServedIngress) -> bool {
    owner.is_none_or(|owner| *owner == ingress.key.namespace)
}

impl Owner<'_> {
    /// Reports that an Ingress may not serve the host.
    fn refusal(&self, ingress: &ServedIngress, host: &HostPattern) -> Diagnostic {
        let rule = ingress.rules.iter().find(|(rule_host, _)| rule_host == host);
        let field = rule.map_or("spec.defaultBackend".to_owned(), |(_, at)| format!("spec.rules[{at}].host"));
        let guest = &ingress.key.namespace;
        let claim = |name: &str| {
            format!(
                ", which names {name} in server-alias or from-to-www-redirect, is older, and such names are not shared"
            )
        };
        let why = match self.through.map(|name| (name, name.to_string())) {
            None => format!(" is older and does not share it with {guest}"),
            Some((_, name)) if name == host.to_string() => claim("it"),
            // Only claims have wildcards of more than one label.
            Some((HostPattern::Wildcard { span: WildcardSpan::ManyLabels, .. }, name)) => claim(&name),
            Some((_, name)) => format!(", which names {name}, is older and does not share it with {guest}"),
        };
        let problem =
            format!("host {host} belongs to namespace {}: its Ingress {}{why}", self.namespace, self.ingress);
        let consequence = format!("nothing of this Ingress is served on {host}");
        Diagnostic::new(Severity::Error, "host-owned", ingress.origin(&field)).because(problem, consequence)
    }

    /// Reports that an Ingress requests a certificate, which only the owner of the host selects.
    fn certificate_not_shared(&self, ingress: &ServedIngress, host: &HostPattern) -> Option<Diagnostic> {
        let tls = ingress.spec()?.tls.as_ref()?;
        let names = |tls: &[String]| tls.iter().any(|name| host.to_string() == name.to_ascii_lowercase());
        let at = tls.iter().position(|tls| tls.hosts.as_deref().is_some_and(names))?;
        let problem =
            format!("the certificate of host {host} is chosen by its owner, namespace {}", self.namespace);
        let found =
            Diagnostic::new(Severity::Warning, "host-owned", ingress.origin(&format!("spec.tls[{at}]")));
        Some(found.because(problem, "this section has no effect on it"))
    }
}
