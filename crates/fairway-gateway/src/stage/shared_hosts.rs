//! Who has which host at the address of Ingresses: of several Gateways that want one, the oldest. Marks the Gateways for which another
//! one comes or goes.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::gateway;
use crate::listener::{Context, Protocol};
use crate::shared::{self, Claims, SharedHost};
use crate::state::Gateways;
use crate::work::Work;

impl Gateways {
    /// Takes notice of what the marked Gateways want, and marks those that want the same.
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
                work.gateways.extend(self.listening.claimants.of(host).map(|(_, other)| other.clone()));
            }
            match after.hosts.is_empty() {
                true => drop(self.listening.claims.remove(&key)),
                false => drop(self.listening.claims.insert(key, after)),
            }
        }
    }

    /// `None` where it wants nothing.
    fn claims_of(&mut self, key: &ObjectKey, context: Context<'_>, work: &mut Work) -> Option<Claims> {
        let gateway = &context.inputs.resources.gateway.gateways.get(key)?.object;
        let class = self.class_of(&gateway.spec.gateway_class_name)?.clone();
        if !gateway::is_shared(key, gateway, &class, context.inputs) {
            return None;
        }
        let own = self.entries(&ObjectRef::new(Kind::Gateway, key.clone()), context, work);
        let sets = self.sets_of(key, gateway, context, work);
        let of_sets = sets.iter().filter(|(_, _, refused, _)| refused.is_none());
        let entries = own.iter().chain(of_sets.flat_map(|(_, _, _, entries)| entries.iter()));
        let ingresses = &context.inputs.options.listeners;
        let hosts: BTreeSet<_> = shared::wanted(entries.map(|entry| &**entry), ingresses).collect();
        let created = gateway.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |at| at.0.as_second());
        (!hosts.is_empty()).then_some(Claims { created, hosts })
    }

    /// The Gateway that has a host, where it is another one than `own`.
    pub(crate) fn shared_host_taken(&self, own: &ObjectKey, host: &SharedHost) -> Option<ObjectKey> {
        let (_, first) = self.listening.claimants.of(host).next()?;
        (first != own).then(|| first.clone())
    }

    /// The Gateways at the address of Ingresses.
    pub(crate) fn shared_gateways(&self) -> impl Iterator<Item = &ObjectKey> {
        self.listening.readings.iter().filter(|(_, reading)| reading.is_shared).map(|(key, _)| key)
    }

    /// The tables of routes at the address of Ingresses, in the clear and over TLS, where a listener there has one.
    #[must_use]
    pub fn shared_tables(&self) -> [Option<Arc<str>>; 2] {
        [Protocol::Http, Protocol::Https].map(|protocol| {
            let found = self.tables.listeners.get_key_value(shared::table(protocol));
            found.map(|(table, _)| table.clone())
        })
    }
}
