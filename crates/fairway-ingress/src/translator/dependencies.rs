//! Reverse lookup tables: what must be updated when an object changes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::{BackendKey, HostPattern};
use fairway_objects::object::ObjectKey;
use fairway_objects::references::ReferencedObjects;
use fairway_objects::users::ReverseIndex;
use imbl::{OrdMap, OrdSet};

use crate::ingress::aliases::AliasKind;
use crate::ingress::served::ServedIngress;

/// All lookup tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Dependencies {
    /// Ingresses by Service.
    pub(super) services: ReverseIndex<ObjectKey, ObjectKey>,
    /// Ingresses by Secret.
    pub(super) secrets: ReverseIndex<ObjectKey, ObjectKey>,
    /// Ingresses by the Secret of a used certificate.
    pub(super) certificates: ReverseIndex<ObjectKey, ObjectKey>,
    /// Ingresses by ConfigMap.
    pub(super) config_maps: ReverseIndex<ObjectKey, ObjectKey>,
    /// Ingresses by address.
    pub(super) addresses: ReverseIndex<IpAddr, ObjectKey>,
    /// Ingresses by host, oldest first.
    pub(super) hosts: ReverseIndex<HostPattern, (i64, ObjectKey)>,
    /// Ingresses by claimed name, oldest first; empty without host ownership.
    pub(super) claims: ReverseIndex<HostPattern, (i64, ObjectKey)>,
    /// Hosts by requested alias.
    pub(super) names: ReverseIndex<HostPattern, (AliasKind, HostPattern)>,
    /// Exact hosts and aliases by the suffix of the wildcard that covers them.
    pub(super) below: ReverseIndex<Arc<str>, HostPattern>,
    /// Backends by Service or InferencePool.
    pub(super) backends: ReverseIndex<ObjectKey, BackendKey>,
    /// Backends of InferencePools by the namespace of their Pods.
    pub(super) pools: ReverseIndex<Arc<str>, BackendKey>,
    /// Backends by external name.
    pub(super) external: ReverseIndex<Arc<str>, BackendKey>,
    /// Ingresses that check source ranges.
    pub(super) restricting: OrdSet<ObjectKey>,
    referenced: OrdMap<ObjectKey, Arc<[IngressReference]>>,
}

/// A typed reference of an Ingress. Most Ingresses have one.
#[derive(Clone, Debug)]
enum IngressReference {
    Service(ObjectKey),
    Secret(ObjectKey),
    Certificate(ObjectKey),
    ConfigMap(ObjectKey),
    Address(IpAddr),
}

impl Dependencies {
    /// Replaces the references of an Ingress; returns the previous ones.
    pub(super) fn set_referenced(
        &mut self,
        ingress: &ObjectKey,
        new: ReferencedObjects,
    ) -> ReferencedObjects {
        let old = self.referenced.remove(ingress).map(|named| collect_references(&named)).unwrap_or_default();
        let exchange =
            |users: &mut ReverseIndex<ObjectKey, ObjectKey>, old: &BTreeSet<_>, new: &BTreeSet<_>| {
                old.difference(new).for_each(|key| users.remove(key, ingress));
                new.difference(old).for_each(|key| users.add(key, ingress.clone()));
            };
        exchange(&mut self.services, &old.services, &new.services);
        exchange(&mut self.secrets, &old.secrets, &new.secrets);
        exchange(&mut self.certificates, &old.certificates, &new.certificates);
        exchange(&mut self.config_maps, &old.config_maps, &new.config_maps);
        old.addresses.difference(&new.addresses).for_each(|address| self.addresses.remove(address, ingress));
        new.addresses
            .difference(&old.addresses)
            .for_each(|address| self.addresses.add(address, ingress.clone()));
        if new != ReferencedObjects::default() {
            self.referenced.insert(ingress.clone(), flatten_references(new));
        }
        old
    }

    /// Whether an Ingress refers to addresses.
    pub(super) fn refers_to_addresses(&self, ingress: &ObjectKey) -> bool {
        let named = self.referenced.get(ingress);
        named.is_some_and(|named| named.iter().any(|it| matches!(it, IngressReference::Address(_))))
    }

    /// Records whether an Ingress checks source ranges; returns whether that changed.
    pub(super) fn set_restricting(&mut self, ingress: &ObjectKey, restricts: bool) -> bool {
        match restricts {
            true => self.restricting.insert(ingress.clone()).is_none(),
            false => self.restricting.remove(ingress).is_some(),
        }
    }

    /// Adds an Ingress to its hosts.
    pub(super) fn add_hosts(&mut self, ingress: &ServedIngress) {
        for host in ingress.hosts() {
            self.hosts.add(&host, (ingress.age().0, ingress.key.clone()));
            if let Some(suffix) = parent(&host) {
                self.below.add(&suffix, host);
            }
        }
    }

    /// Removes an Ingress from its hosts.
    pub(super) fn remove_hosts(&mut self, ingress: &ServedIngress) {
        for host in ingress.hosts() {
            self.hosts.remove(&host, &(ingress.age().0, ingress.key.clone()));
            self.forget_below(&host);
        }
    }

    /// Records that a host requests an alias.
    pub(super) fn add_alias(&mut self, name: &HostPattern, asking: (AliasKind, HostPattern)) {
        self.names.add(name, asking);
        if let Some(suffix) = parent(name) {
            self.below.add(&suffix, name.clone());
        }
    }

    /// Removes a request for an alias.
    pub(super) fn remove_alias(&mut self, name: &HostPattern, asking: &(AliasKind, HostPattern)) {
        self.names.remove(name, asking);
        self.forget_below(name);
    }

    fn forget_below(&mut self, host: &HostPattern) {
        if let Some(suffix) = parent(host).filter(|_| !self.hosts.has(host) && !self.names.has(host)) {
            self.below.remove(&suffix, host);
        }
    }
}

/// The stored form of an Ingress's references.
fn flatten_references(referenced: ReferencedObjects) -> Arc<[IngressReference]> {
    let ReferencedObjects { services, secrets, certificates, config_maps, addresses } = referenced;
    let objects = (services.into_iter().map(IngressReference::Service))
        .chain(secrets.into_iter().map(IngressReference::Secret))
        .chain(certificates.into_iter().map(IngressReference::Certificate))
        .chain(config_maps.into_iter().map(IngressReference::ConfigMap));
    objects.chain(addresses.into_iter().map(IngressReference::Address)).collect()
}

fn collect_references(named: &[IngressReference]) -> ReferencedObjects {
    let mut referenced = ReferencedObjects::default();
    for it in named {
        match it {
            IngressReference::Service(key) => referenced.services.insert(key.clone()),
            IngressReference::Secret(key) => referenced.secrets.insert(key.clone()),
            IngressReference::Certificate(key) => referenced.certificates.insert(key.clone()),
            IngressReference::ConfigMap(key) => referenced.config_maps.insert(key.clone()),
            IngressReference::Address(address) => referenced.addresses.insert(*address),
        };
    }
    referenced
}

/// The suffix of the wildcard that would cover an exact host.
pub(super) fn parent(host: &HostPattern) -> Option<Arc<str>> {
    match host {
        HostPattern::Exact(name) => name.split_once('.').map(|(_, suffix)| suffix.into()),
        HostPattern::Wildcard { .. } | HostPattern::Any => None,
    }
}
