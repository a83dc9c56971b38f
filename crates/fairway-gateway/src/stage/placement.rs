//! Places the marked Gateways, and puts their listeners into the configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::listening::{self, Listeners};
use crate::placement::{self, PortClaimant, ServicePort};
use crate::state::Gateways;
use crate::work::Work;

impl Gateways {
    /// Records changed ports of the TCP and UDP service ConfigMaps.
    pub fn replace_service_ports(
        &mut self,
        before: &BTreeSet<ServicePort>,
        after: &BTreeSet<ServicePort>,
        work: &mut Work,
    ) {
        for (port, user) in before.difference(after).map(ServicePort::claim) {
            self.listening.ports.remove(&port, &user);
            self.mark_port_claimants(&port, work);
        }
        for (port, user) in after.difference(before).map(ServicePort::claim) {
            self.listening.ports.add(&port, user);
            self.mark_port_claimants(&port, work);
        }
    }

    /// Marks the Gateways that claim a port, because its owner may have changed.
    pub(crate) fn mark_port_claimants(&self, port: &(PortProtocol, u16), work: &mut Work) {
        work.placements
            .extend(self.listening.ports.users_of(port).filter_map(PortClaimant::gateway).cloned());
    }

    /// Places Gateways.
    pub(crate) fn place_gateways(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for key in std::mem::take(&mut work.placements) {
            let reading = self.listening.readings.get(&key).cloned();
            let gateway = reading.as_ref().and_then(|reading| reading.wanted_gateway.as_ref());
            let is_shared = reading.as_ref().is_some_and(|reading| reading.is_shared);
            let placement = gateway.and_then(|wanted| match is_shared {
                true => Some(placement::shared_placement(wanted, inputs)),
                false => placement::placement(&key, wanted, inputs, &self.listening.ports),
            });
            let listeners = match &reading {
                Some(reading) if gateway.is_some() => listening::build_listeners(
                    reading,
                    &placement.clone().unwrap_or_default(),
                    &self.own_policies,
                ),
                _ => Listeners::new(),
            };
            self.replace_listeners(&key, listeners, work);
            let before = match &placement {
                Some(placement) => self.listening.placements.insert(key.clone(), placement.clone()),
                None => self.listening.placements.remove(&key),
            };
            if before != placement {
                let parents = reading.iter().flat_map(|reading| reading.parents.keys().cloned());
                work.statuses.extend(parents);
                work.statuses.insert(ObjectRef::new(Kind::Gateway, key));
            }
        }
    }

    /// Replaces the listeners of a Gateway and the certificates that they use.
    fn replace_listeners(&mut self, key: &ObjectKey, after: Listeners, work: &mut Work) {
        let before = self.listening.configured.remove(key).unwrap_or_default();
        let chunks = &mut work.changes;
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            chunks.listeners.push((name.clone(), None));
            chunks.certificates.push((name.clone(), BTreeSet::new()));
        }
        for (name, listener) in after.iter().filter(|(name, it)| before.get(*name) != Some(*it)) {
            chunks.listeners.push((name.clone(), Some(listener.clone())));
            let shown = listener.tls.certificates.iter().filter_map(|key| ObjectKey::parse(&key.0));
            chunks.certificates.push((name.clone(), shown.collect()));
        }
        if !after.is_empty() {
            self.listening.configured.insert(key.clone(), Arc::new(after));
        }
    }
}
