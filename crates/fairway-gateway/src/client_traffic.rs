//! What holds for the clients of a listener by ClientTrafficPolicies. Before the listener of a connection is known, only its port
//! is: listeners of HTTP that share a port share all of it, and listeners with TLS how connections begin.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::ClientTraffic;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::condition::Fault;
use crate::gateway::{Listener, Reading};
use crate::listener::{ListenerId, Protocol};
use crate::policy::{Attached, OwnPolicy, Target};

/// A port, and whether it is one of datagrams.
type Port = (u16, bool);

/// The policies for the clients of a Gateway.
pub(crate) struct ClientPolicies<'a> {
    attached: &'a Attached,
    gateway: Option<&'a ObjectKey>,
    /// The policy, or none, that decides for all listeners of a port; a port where several do is not there.
    whole_ports: BTreeMap<Port, Option<&'a Arc<OwnPolicy>>>,
    /// Whether the Gateway is at the address of Ingresses, where no policy for clients can hold.
    is_shared: bool,
}

impl<'a> ClientPolicies<'a> {
    /// Those of a Gateway.
    pub(crate) fn of(reading: &'a Reading, attached: &'a Attached) -> Self {
        let gateway = reading.own().map(|own| &own.gateway);
        let gateway = gateway.filter(|_| attached.has(Kind::ClientTrafficPolicy));
        let mut ports: BTreeMap<Port, Vec<Option<&Arc<OwnPolicy>>>> = BTreeMap::new();
        if let Some(gateway) = gateway {
            let all = reading.parents.values().flat_map(|parent| &parent.listeners);
            for listener in all.filter(|it| it.is_accepted()) {
                let decided = decided(attached, gateway, &listener.entry.id);
                let of_port = ports.entry(port(listener)).or_default();
                if !of_port.iter().any(|known| same(*known, decided)) {
                    of_port.push(decided);
                }
            }
        }
        let only = |(port, of_port): (Port, Vec<_>)| (of_port.len() == 1).then(|| (port, of_port[0]));
        Self {
            attached,
            gateway,
            whole_ports: ports.into_iter().filter_map(only).collect(),
            is_shared: reading.is_shared,
        }
    }

    /// What holds for the clients of a listener.
    pub(crate) fn traffic(&self, listener: &Listener) -> ClientTraffic {
        let Some(gateway) = self.gateway else { return ClientTraffic::default() };
        let of = |policy: Option<&Arc<OwnPolicy>>| {
            policy.and_then(|policy| policy.clients()).cloned().unwrap_or_default()
        };
        if let Some(policy) = self.whole_ports.get(&port(listener)) {
            return of(*policy);
        }
        let whole = of(of_gateway(self.attached, gateway));
        match listener.entry.protocol {
            Protocol::Http => whole,
            _ => {
                let own = of(decided(self.attached, gateway, &listener.entry.id));
                ClientTraffic { introduction: whole.introduction, ..own }
            }
        }
    }

    /// Why a policy that decides for a listener cannot hold for it alone.
    pub(crate) fn fault(&self, listener: &Listener, policy: &OwnPolicy) -> Option<Fault> {
        let gateway = self.gateway?;
        let decides = |of: Option<&Arc<OwnPolicy>>| of.is_some_and(|it| it.reference == policy.reference);
        let entry = &listener.entry;
        if self.is_shared && decides(decided(self.attached, gateway, &entry.id)) {
            let problem = format!(
                "listener {} is at the address of Ingresses, whose clients the policy would be for too",
                entry.id.name
            );
            return Some(Fault::new("Invalid", problem));
        }
        let concerns_port = entry.protocol == Protocol::Http
            || policy.clients().is_some_and(|clients| clients.introduction.is_some());
        let cannot = concerns_port
            && !self.whole_ports.contains_key(&port(listener))
            && decides(decided(self.attached, gateway, &entry.id))
            && !decides(of_gateway(self.attached, gateway));
        cannot.then(|| {
            let problem = format!(
                "listener {} shares port {} with listeners for which the policy is not; a policy for Gateway {gateway} \
                 can say it for all",
                entry.id.name, entry.port
            );
            Fault::new("Invalid", problem)
        })
    }
}

/// Whether a policy that can be used decides about the clients of a listener.
pub(crate) fn decides_about_clients(attached: &Attached, gateway: &ObjectKey, listener: &ListenerId) -> bool {
    attached.has(Kind::ClientTrafficPolicy) && decided(attached, gateway, listener).is_some()
}

fn port(listener: &Listener) -> Port {
    (listener.entry.port, listener.entry.protocol == Protocol::Udp)
}

fn same(one: Option<&Arc<OwnPolicy>>, other: Option<&Arc<OwnPolicy>>) -> bool {
    one.map(|policy| &policy.reference) == other.map(|policy| &policy.reference)
}

/// The most specific policy that can be used: one that cannot has no effect.
fn decided<'a>(
    attached: &'a Attached,
    gateway: &ObjectKey,
    listener: &ListenerId,
) -> Option<&'a Arc<OwnPolicy>> {
    let along = attached.along(Kind::ClientTrafficPolicy, gateway, listener);
    along.into_iter().rev().find(|policy| policy.said.is_ok())
}

fn of_gateway<'a>(attached: &'a Attached, gateway: &ObjectKey) -> Option<&'a Arc<OwnPolicy>> {
    let whole = Target::whole(&ObjectRef::new(Kind::Gateway, gateway.clone()));
    attached.deciding(Kind::ClientTrafficPolicy, &whole)
}
