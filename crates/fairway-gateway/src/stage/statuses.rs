//! Creates the statuses and diagnostics of marked Gateways, ListenerSets, policies and InferencePools.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::GatewayScope;
use fairway_objects::placement::{Placement, PortState};

use crate::condition::Fault;
use crate::gateway::{GatewayReading, Parent, parent_gateway};
use crate::gateway_status;
use crate::listener::ListenerId;
use crate::state::Gateways;
use crate::status::{ObjectStatus, OwnStatus};
use crate::work::Work;

impl Gateways {
    /// Makes statuses.
    pub(crate) fn make_statuses(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for object in std::mem::take(&mut work.statuses) {
            let status = match object.kind {
                Kind::Gateway | Kind::ListenerSet => {
                    work.changes.diagnostics.push((object.clone(), self.parent_diagnostics(&object)));
                    match object.kind {
                        Kind::Gateway => self.gateway_status(&object.key, inputs),
                        _ => self.listener_set_status(&object, inputs),
                    }
                }
                Kind::BackendTlsPolicy => self.policy_status(&object.key, inputs),
                Kind::InferencePool => {
                    let (status, found) = self.pool_status(&object, inputs);
                    work.changes.diagnostics.push((object.clone(), found));
                    status
                }
                _ => {
                    let (status, found) = self.own_policy_status(&object, inputs);
                    work.changes.diagnostics.push((object.clone(), found));
                    status
                }
            };
            self.set_status(&object, status);
        }
    }

    fn parent_diagnostics(&self, object: &ObjectRef) -> Vec<Diagnostic> {
        let Some(parent) = self.listening.parents.get(object) else { return Vec::new() };
        let reading = self.listening.readings.get(&parent.gateway);
        let placement = self.listening.placements.get(&parent.gateway);
        let mut found = diagnostics(object, parent, reading.map(|reading| &**reading));
        found.extend(placement.into_iter().flat_map(|placement| unavailable_ports(parent, placement)));
        found
    }

    fn gateway_status(&self, key: &ObjectKey, inputs: Inputs<'_>) -> Option<ObjectStatus> {
        let object = inputs.resources.gateway.gateways.get(key)?;
        let reading = self.listening.readings.get(key)?;
        let placement = self.placement_for_status(key)?;
        let status =
            gateway_status::gateway(reading, &placement, &|listener| self.attached_route_count(listener));
        let own_status = OwnStatus::Gateway(Box::new(status));
        Some(ObjectStatus::new(&object.object.metadata, &self.controller, own_status))
    }

    fn listener_set_status(&self, set: &ObjectRef, inputs: Inputs<'_>) -> Option<ObjectStatus> {
        let object = inputs.resources.gateway.listener_sets.get(&set.key)?;
        let status = match self.listening.parents.get(set) {
            Some(parent) => {
                let placement = self.placement_for_status(&parent.gateway)?;
                gateway_status::listener_set(parent, &placement, &|listener| {
                    self.attached_route_count(listener)
                })
            }
            None => {
                let gateway = parent_gateway(&object.object, &set.key.namespace)?;
                let is_read = inputs.options.gateways.scope == GatewayScope::AllNamespaces
                    || gateway.namespace == set.key.namespace;
                let is_gone = is_read && !inputs.resources.gateway.gateways.contains_key(&gateway);
                object.object.status.as_ref().filter(|_| is_gone).and_then(gateway_status::without_gateway)?
            }
        };
        let own_status = OwnStatus::ListenerSet(Box::new(status));
        Some(ObjectStatus::new(&object.object.metadata, &self.controller, own_status))
    }

    /// The placement of a Gateway for its status; an empty one if it should not be placed. `None` while this replica
    /// does not know it: a status must not lose the addresses that an earlier leader wrote, which DNS controllers
    /// publish.
    fn placement_for_status(&self, gateway: &ObjectKey) -> Option<Arc<Placement>> {
        let is_wanted =
            self.listening.readings.get(gateway).is_some_and(|reading| reading.wanted_gateway.is_some());
        let placement = self.listening.placements.get(gateway).cloned();
        if is_wanted { placement } else { Some(placement.unwrap_or_default()) }
    }

    fn policy_status(&self, key: &ObjectKey, inputs: Inputs<'_>) -> Option<ObjectStatus> {
        let object = inputs.resources.gateway.policies.tls.get(key)?;
        let policy = self.tls_policies.by_key.get(key)?;
        let mut gateways: BTreeMap<&ObjectKey, Option<&Fault>> = BTreeMap::new();
        for (service, _) in &policy.targets {
            for gateway in self.gateways_of_service(service) {
                let missing = gateways.entry(gateway).or_default();
                *missing = missing.or(policy.missing.get(service));
            }
        }
        let before = object.object.status.iter().flat_map(|status| &status.ancestors);
        let mut before = before.filter(|it| it.controller_name == *self.controller);
        if gateways.is_empty() && before.next().is_none() {
            return None;
        }
        let conflict = policy.conflict(&self.tls_policies.targets);
        let ancestors = policy.ancestors(conflict.as_ref(), gateways.into_iter());
        Some(ObjectStatus::new(
            &object.object.metadata,
            &self.controller,
            OwnStatus::Policy(ancestors.into()),
        ))
    }

    /// The Gateways whose routes name a Service. Searched on demand, because few Services have a policy.
    fn gateways_of_service(&self, service: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        let routes =
            self.routes.by_service.users_of(service).filter_map(|route| self.routes.by_key.get(route));
        routes.flat_map(|memo| memo.attachments()).map(|it| &it.gateway)
    }

    /// Number of routes attached to a listener.
    fn attached_route_count(&self, listener: &ListenerId) -> usize {
        let losers = self.routes.losers.get(listener).map_or(0, |losers| losers.len());
        self.routes.attached.count(listener).saturating_sub(losers + self.routes_over_budget(listener))
    }

    /// Stores a status, or removes it.
    pub(crate) fn set_status(&mut self, object: &ObjectRef, status: Option<ObjectStatus>) {
        let statuses = &mut self.translation.statuses;
        match status {
            None => drop(statuses.remove(object)),
            Some(status) if statuses.get(object).is_some_and(|before| **before == status) => {}
            Some(status) => drop(statuses.insert(object.clone(), Arc::new(status))),
        }
    }
}

fn diagnostics(reference: &ObjectRef, parent: &Parent, reading: Option<&GatewayReading>) -> Vec<Diagnostic> {
    let origin = &parent.origin;
    let refused = parent.refused.as_ref().map(|fault| {
        let found = Diagnostic::new(Severity::Error, "not-accepted", origin.clone());
        found.because(fault.message.clone(), "none of its listeners is served")
    });
    let gateway_reading = reading.filter(|_| reference.kind == Kind::Gateway);
    let unusable = gateway_reading.and_then(|reading| reading.parameters_fault.as_ref()).map(|fault| {
        let found = Diagnostic::new(Severity::Error, "invalid-parameters", origin.clone());
        found.because(
            fault.message.clone(),
            "the Services that it has stay as they are, and it gets no new ones",
        )
    });
    let client = gateway_reading.map(|reading| &reading.client_certificate);
    let client = client.and_then(|shown| Some((shown.fault.as_ref()?, shown.secret.is_some()))).map(
        |(fault, kept)| {
            let at = origin.at("spec.tls.backend.clientCertificateRef");
            let found = Diagnostic::new(Severity::Error, "missing-reference", at);
            let consequence = match kept {
                true => "endpoints are shown the certificate that the Secret had before",
                false => "endpoints are shown no certificate",
            };
            found.because(fault.message.clone(), consequence)
        },
    );
    let default = parent.asks_for_all.then(|| {
        let found = Diagnostic::new(Severity::Warning, "not-supported", origin.at("spec.defaultScope"));
        found
            .because("default Gateways are not supported", "it serves only routes that name it in parentRefs")
    });
    refused.into_iter().chain(unusable).chain(client).chain(default).chain(parent.diagnostics()).collect()
}

/// Listeners whose port is owned by someone else.
fn unavailable_ports(parent: &Parent, placement: &Placement) -> impl Iterator<Item = Diagnostic> {
    parent.served().filter_map(|listener| {
        let entry = &listener.entry;
        let port = placement.port(entry.protocol.port_protocol(), entry.port)?;
        let PortState::Failed(why) = &port.state else { return None };
        let found = Diagnostic::new(Severity::Error, "port-unavailable", entry.origin.clone());
        let problem = format!("listener {} cannot have port {}: {why}", entry.id.name, entry.port);
        Some(found.because(problem, "the listener is not served"))
    })
}
