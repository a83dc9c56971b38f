//! Who must be looked at again when something changes. Owns reverse look-up tables and nothing of what they mean.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::{BackendKey, HostPattern};
use fairway_objects::object::ObjectKey;
use fairway_objects::references::Referenced;
use fairway_objects::users::Users;
use imbl::{OrdMap, OrdSet};

use crate::ingress::further::Further;
use crate::ingress::served::ServedIngress;

/// All look-up tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Dependencies {
    /// The Ingresses that refer to a Service.
    pub(super) services: Users<ObjectKey, ObjectKey>,
    /// The Ingresses that refer to a Secret.
    pub(super) secrets: Users<ObjectKey, ObjectKey>,
    /// The Ingresses that show the certificate in a Secret.
    pub(super) certificates: Users<ObjectKey, ObjectKey>,
    /// The Ingresses that refer to a ConfigMap.
    pub(super) config_maps: Users<ObjectKey, ObjectKey>,
    /// The Ingresses that refer to an address.
    pub(super) addresses: Users<IpAddr, ObjectKey>,
    /// The Ingresses with a part in a host, the oldest first.
    pub(super) hosts: Users<HostPattern, (i64, ObjectKey)>,
    /// The Ingresses that claim a name besides their hosts, the oldest first; empty where hosts have no owners.
    pub(super) claims: Users<HostPattern, (i64, ObjectKey)>,
    /// The hosts that ask for a name besides their own.
    pub(super) names: Users<HostPattern, (Further, HostPattern)>,
    /// The exact hosts and further names that a wildcard with this suffix covers.
    pub(super) below: Users<Arc<str>, HostPattern>,
    /// The backends of a Service, or of an InferencePool.
    pub(super) backends: Users<ObjectKey, BackendKey>,
    /// Those of InferencePools, by the namespace of their Pods.
    pub(super) pools: Users<Arc<str>, BackendKey>,
    /// The backends whose addresses are those of an external name.
    pub(super) external: Users<Arc<str>, BackendKey>,
    /// The Ingresses that check source ranges.
    pub(super) restricting: OrdSet<ObjectKey>,
    referenced: OrdMap<ObjectKey, Arc<[Named]>>,
}

/// An object that an Ingress refers to, and as what. Most Ingresses refer to one.
#[derive(Clone, Debug)]
enum Named {
    Service(ObjectKey),
    Secret(ObjectKey),
    Certificate(ObjectKey),
    ConfigMap(ObjectKey),
    Address(IpAddr),
}

impl Dependencies {
    /// What an Ingress refers to from now on; gives what it referred to before.
    pub(super) fn set_referenced(&mut self, ingress: &ObjectKey, new: Referenced) -> Referenced {
        let old = self.referenced.remove(ingress).map(|named| together(&named)).unwrap_or_default();
        let exchange = |users: &mut Users<ObjectKey, ObjectKey>, old: &BTreeSet<_>, new: &BTreeSet<_>| {
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
        if new != Referenced::default() {
            self.referenced.insert(ingress.clone(), one_by_one(new));
        }
        old
    }

    /// Whether an Ingress refers to addresses.
    pub(super) fn refers_to_addresses(&self, ingress: &ObjectKey) -> bool {
        let named = self.referenced.get(ingress);
        named.is_some_and(|named| named.iter().any(|it| matches!(it, Named::Address(_))))
    }

    /// Whether an Ingress checks source ranges from now on; says whether that is new.
    pub(super) fn set_restricting(&mut self, ingress: &ObjectKey, restricts: bool) -> bool {
        match restricts {
            true => self.restricting.insert(ingress.clone()).is_none(),
            false => self.restricting.remove(ingress).is_some(),
        }
    }

    /// Takes an Ingress's part in its hosts.
    pub(super) fn join_hosts(&mut self, ingress: &ServedIngress) {
        for host in ingress.hosts() {
            self.hosts.add(&host, (ingress.age().0, ingress.key.clone()));
            if let Some(suffix) = parent(&host) {
                self.below.add(&suffix, host);
            }
        }
    }

    /// Forgets an Ingress's part in its hosts.
    pub(super) fn leave_hosts(&mut self, ingress: &ServedIngress) {
        for host in ingress.hosts() {
            self.hosts.remove(&host, &(ingress.age().0, ingress.key.clone()));
            self.forget_below(&host);
        }
    }

    /// A host asks for a name.
    pub(super) fn join_name(&mut self, name: &HostPattern, asking: (Further, HostPattern)) {
        self.names.add(name, asking);
        if let Some(suffix) = parent(name) {
            self.below.add(&suffix, name.clone());
        }
    }

    /// A host asks for a name no longer.
    pub(super) fn leave_name(&mut self, name: &HostPattern, asking: &(Further, HostPattern)) {
        self.names.remove(name, asking);
        self.forget_below(name);
    }

    fn forget_below(&mut self, host: &HostPattern) {
        if let Some(suffix) = parent(host).filter(|_| !self.hosts.has(host) && !self.names.has(host)) {
            self.below.remove(&suffix, host);
        }
    }
}

/// What an Ingress refers to, in the form in which it is remembered.
fn one_by_one(referenced: Referenced) -> Arc<[Named]> {
    let Referenced { services, secrets, certificates, config_maps, addresses } = referenced;
    let objects = (services.into_iter().map(Named::Service))
        .chain(secrets.into_iter().map(Named::Secret))
        .chain(certificates.into_iter().map(Named::Certificate))
        .chain(config_maps.into_iter().map(Named::ConfigMap));
    objects.chain(addresses.into_iter().map(Named::Address)).collect()
}

fn together(named: &[Named]) -> Referenced {
    let mut referenced = Referenced::default();
    for it in named {
        match it {
            Named::Service(key) => referenced.services.insert(key.clone()),
            Named::Secret(key) => referenced.secrets.insert(key.clone()),
            Named::Certificate(key) => referenced.certificates.insert(key.clone()),
            Named::ConfigMap(key) => referenced.config_maps.insert(key.clone()),
            Named::Address(address) => referenced.addresses.insert(*address),
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
