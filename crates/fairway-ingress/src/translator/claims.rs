//! Names that Ingresses claim in addition to their hosts (`server-alias`, `from-to-www-redirect`), if hosts have
//! owners. A claim counts whether or not the name is served, so that ownership does not depend on other hosts.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{HostPattern, WildcardSpan};

use crate::ingress::aliases::{self, one_label};
use crate::ingress::ownership::Ownership;
use crate::ingress::served::ServedIngress;
use crate::translator::aliases::many_labels;
use crate::translator::state::TranslatorState;
use crate::translator::work::Work;

impl TranslatorState {
    /// Adds the claims of an Ingress.
    pub(super) fn add_claims(&mut self, ingress: &ServedIngress, work: &mut Work) {
        for name in aliases::claimed_names(ingress) {
            self.dependencies.claims.add(&name, (ingress.age().0, ingress.key.clone()));
            work.claims.insert(name);
        }
    }

    /// Removes the claims of an Ingress.
    pub(super) fn remove_claims(&mut self, ingress: &ServedIngress, work: &mut Work) {
        for name in aliases::claimed_names(ingress) {
            self.dependencies.claims.remove(&name, &(ingress.age().0, ingress.key.clone()));
            work.claims.insert(name);
        }
    }

    /// Updates the ownership of marked names, and marks the hosts and names whose owner may have changed.
    pub(super) fn update_claims(&mut self, work: &mut Work) {
        let mut suffixes = BTreeSet::new();
        for name in std::mem::take(&mut work.claims) {
            let keys = self.dependencies.claims.users_of(&name);
            let ingresses: Vec<_> = keys.filter_map(|(_, key)| self.ingresses.get(key).cloned()).collect();
            let after = (!ingresses.is_empty()).then(|| Arc::new(Ownership::from_claims(&ingresses)));
            if self.claims.get(&name) == after.as_ref() {
                continue;
            }
            match after {
                Some(after) => drop(self.claims.insert(name.clone(), after)),
                None => drop(self.claims.remove(&name)),
            }
            work.hosts.extend(Some(one_label(&name)).filter(|host| self.dependencies.hosts.has(host)));
            work.names.extend(Some(&name).filter(|name| self.dependencies.names.has(name)).cloned());
            if let HostPattern::Wildcard { suffix, .. } = name {
                suffixes.insert(suffix);
            }
        }
        if suffixes.is_empty() {
            return;
        }
        // One pass for all wildcards: wildcard claims are rare, but one Ingress can make thousands.
        let is_covered = |host: &&HostPattern| parents(host).any(|parent| suffixes.contains(parent));
        let first = || HostPattern::Exact("".into());
        let hosts = self.dependencies.hosts.from(first()).map(|(host, _)| host);
        work.hosts.extend(hosts.filter(is_covered).cloned());
        let names = self.dependencies.names.from(first()).map(|(name, _)| name);
        work.names.extend(names.filter(is_covered).cloned());
    }

    /// Claims of a host's name and of wildcards that cover it, the closest first.
    pub(super) fn claims_on(&self, host: &HostPattern) -> Vec<(&HostPattern, &Ownership)> {
        if self.claims.is_empty() {
            return Vec::new();
        }
        let above = parents(host)
            .map(|suffix| HostPattern::Wildcard { suffix: suffix.into(), span: WildcardSpan::ManyLabels });
        let names = std::iter::once(many_labels(host)).chain(above);
        names
            .filter_map(|name| self.claims.get_key_value(&name))
            .map(|(name, ownership)| (name, &**ownership))
            .collect()
    }
}

/// The parent domains of a host, the closest first.
fn parents(host: &HostPattern) -> impl Iterator<Item = &str> {
    let name = match host {
        HostPattern::Exact(name) | HostPattern::Wildcard { suffix: name, .. } => name,
        HostPattern::Any => "",
    };
    std::iter::successors(parent_of(name), |name| parent_of(name))
}

fn parent_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, parent)| parent)
}
