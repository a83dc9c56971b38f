//! Ownership of hosts at the address of Ingresses: the oldest Gateway that requests a host owns it. Marks Gateways
//! whose competitors change.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::gateway;
use crate::listener::{Context, Protocol};
use crate::shared::{self, HostClaims, SharedHost};
use crate::state::Gateways;
use crate::work::Work;

impl Gateways {
    /// Updates the claims of the marked Gateways, and marks other claimants of the same hosts.
    pub(crate) fn claim_shared_hosts(&mut self, context: Context<'_>, work: &mut Work) {
        for key in work.gateways.clone() {
            let after = self.claims_of(&key, context, work);
            let before = self.listening.claims.get(&key).cloned();
            if before.as_deref() == after.as_ref() {
                continue;
            }
            let (before, after) = (before.unwrap_or_default(), Arc::new(after.unwrap_or_default()));
            for host in &before.hosts {
                self.listening.claimants.remove(host, &(before.created, key.clone()));
            }
            for host in &after.hosts {
                self.listening.claimants.add(host, (after.created, key.clone()));
            }
            for host in before.hosts.union(&after.hosts) {
                work.gateways.extend(self.listening.claimants.users_of(host).map(|(_, other)| other.clone()));
            }
            match after.hosts.is_empty() {
                true => drop(self.listening.claims.remove(&key)),
                false => drop(self.listening.claims.insert(key, after)),
            }
        }
    }

    /// The claims of a Gateway; `None` if it has none.
    fn claims_of(&mut self, key: &ObjectKey, context: Context<'_>, work: &mut Work) -> Option<HostClaims> {
        let gateway = &context.inputs.resources.gateway.gateways.get(key)?.object;
        let class = self.class_of(&gateway.spec.gateway_class_name)?.clone();
        if !gateway::is_shared(key, gateway, &class, context.inputs) {
            return None;
        }
        let own_entries = self.entries(&ObjectRef::new(Kind::Gateway, key.clone()), context, work);
        let sets = self.listener_sets(key, gateway, context, work);
        let of_sets = sets.iter().filter(|(_, _, refused, _)| refused.is_none());
        let entries = own_entries.iter().chain(of_sets.flat_map(|(_, _, _, entries)| entries.iter()));
        let ingresses = &context.inputs.options.listeners;
        let hosts: BTreeSet<_> = shared::wanted_hosts(entries.map(|entry| &**entry), ingresses).collect();
        let created = gateway.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |at| at.0.as_second());
        (!hosts.is_empty()).then_some(HostClaims { created, hosts })
    }

    /// The Gateway other than `own` that owns a host.
    pub(crate) fn other_owner_of_shared_host(
        &self,
        gateway: &ObjectKey,
        host: &SharedHost,
    ) -> Option<ObjectKey> {
        let (_, first) = self.listening.claimants.users_of(host).next()?;
        (first != gateway).then(|| first.clone())
    }

    /// The Gateways at the address of Ingresses.
    pub(crate) fn shared_gateways(&self) -> impl Iterator<Item = &ObjectKey> {
        self.listening.readings.iter().filter(|(_, reading)| reading.is_shared).map(|(key, _)| key)
    }

    /// The route tables at the address of Ingresses, for plain HTTP and for TLS, if a listener there uses them.
    #[must_use]
    pub fn shared_tables(&self) -> [Option<Arc<str>>; 2] {
        [Protocol::Http, Protocol::Https].map(|protocol| {
            let found = self.tables.listeners.get_key_value(shared::shared_table(protocol));
            found.map(|(table, _)| table.clone())
        })
    }
}
