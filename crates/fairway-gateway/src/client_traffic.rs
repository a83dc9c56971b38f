//! Applies ClientTrafficPolicies to listeners. Before a connection's listener is known, only its port is: HTTP
//! listeners on one port share all settings, and TLS listeners share how connections begin.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::ClientTraffic;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::condition::Fault;
use crate::gateway::{GatewayReading, Listener};
use crate::listener::{ListenerId, Protocol};
use crate::policy::{AttachedPolicies, OwnPolicy, PolicyTarget};

/// A port number, and whether it is a UDP port.
type ListenerPort = (u16, bool);

/// The ClientTrafficPolicies of a Gateway.
pub(crate) struct ClientPolicies<'a> {
    attached: &'a AttachedPolicies,
    gateway: Option<&'a ObjectKey>,
    /// The policy, or none, that applies to all listeners of a port. Ports where several apply are missing.
    whole_ports: BTreeMap<ListenerPort, Option<&'a Arc<OwnPolicy>>>,
    /// Whether the Gateway shares the address of Ingresses, where ClientTrafficPolicies cannot apply.
    is_shared: bool,
}

impl<'a> ClientPolicies<'a> {
    /// The policies of a Gateway.
    pub(crate) fn for_gateway(reading: &'a GatewayReading, attached: &'a AttachedPolicies) -> Self {
        let gateway = reading.own_parent().map(|own| &own.gateway);
        let gateway = gateway.filter(|_| attached.has_kind(Kind::ClientTrafficPolicy));
        let mut ports: BTreeMap<ListenerPort, Vec<Option<&Arc<OwnPolicy>>>> = BTreeMap::new();
        if let Some(gateway) = gateway {
            let all = reading.parents.values().flat_map(|parent| &parent.listeners);
            for listener in all.filter(|it| it.is_accepted()) {
                let decided = deciding_policy(attached, gateway, &listener.entry.id);
                let of_port = ports.entry(port_key(listener)).or_default();
                if !of_port.iter().any(|known| is_same_policy(*known, decided)) {
                    of_port.push(decided);
                }
            }
        }
        let only = |(port, of_port): (ListenerPort, Vec<_>)| (of_port.len() == 1).then(|| (port, of_port[0]));
        Self {
            attached,
            gateway,
            whole_ports: ports.into_iter().filter_map(only).collect(),
            is_shared: reading.is_shared,
        }
    }

    /// The settings for the clients of a listener.
    pub(crate) fn traffic(&self, listener: &Listener) -> ClientTraffic {
        let Some(gateway) = self.gateway else { return ClientTraffic::default() };
        let names_of = |policy: Option<&Arc<OwnPolicy>>| {
            policy.and_then(|policy| policy.clients()).cloned().unwrap_or_default()
        };
        if let Some(policy) = self.whole_ports.get(&port_key(listener)) {
            return names_of(*policy);
        }
        let gateway_wide = names_of(gateway_policy(self.attached, gateway));
        match listener.entry.protocol {
            Protocol::Http => gateway_wide,
            _ => {
                let deciding = names_of(deciding_policy(self.attached, gateway, &listener.entry.id));
                ClientTraffic { proxy_protocol: gateway_wide.proxy_protocol, ..deciding }
            }
        }
    }

    /// Why a policy cannot apply to a listener alone.
    pub(crate) fn fault(&self, listener: &Listener, policy: &OwnPolicy) -> Option<Fault> {
        let gateway = self.gateway?;
        let decides =
            |owner: Option<&Arc<OwnPolicy>>| owner.is_some_and(|it| it.reference == policy.reference);
        let entry = &listener.entry;
        if self.is_shared && decides(deciding_policy(self.attached, gateway, &entry.id)) {
            let problem = format!(
                "listener {} is at the address of Ingresses, whose clients the policy would be for too",
                entry.id.name
            );
            return Some(Fault::new("Invalid", problem));
        }
        let concerns_port = entry.protocol == Protocol::Http
            || policy.clients().is_some_and(|clients| clients.proxy_protocol.is_some());
        let cannot = concerns_port
            && !self.whole_ports.contains_key(&port_key(listener))
            && decides(deciding_policy(self.attached, gateway, &entry.id))
            && !decides(gateway_policy(self.attached, gateway));
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

/// Whether a usable policy applies to the clients of a listener.
pub(crate) fn decides_about_clients(
    attached: &AttachedPolicies,
    gateway: &ObjectKey,
    listener: &ListenerId,
) -> bool {
    attached.has_kind(Kind::ClientTrafficPolicy) && deciding_policy(attached, gateway, listener).is_some()
}

fn port_key(listener: &Listener) -> ListenerPort {
    (listener.entry.port, listener.entry.protocol == Protocol::Udp)
}

fn is_same_policy(left: Option<&Arc<OwnPolicy>>, right: Option<&Arc<OwnPolicy>>) -> bool {
    left.map(|policy| &policy.reference) == right.map(|policy| &policy.reference)
}

/// The most specific usable policy; unusable policies have no effect.
fn deciding_policy<'a>(
    attached: &'a AttachedPolicies,
    gateway: &ObjectKey,
    listener: &ListenerId,
) -> Option<&'a Arc<OwnPolicy>> {
    let along = attached.for_listener(Kind::ClientTrafficPolicy, gateway, listener);
    along.into_iter().rev().find(|policy| policy.content.is_ok())
}

fn gateway_policy<'a>(attached: &'a AttachedPolicies, gateway: &ObjectKey) -> Option<&'a Arc<OwnPolicy>> {
    let gateway_target = PolicyTarget::whole_object(&ObjectRef::new(Kind::Gateway, gateway.clone()));
    attached.deciding_policy(Kind::ClientTrafficPolicy, &gateway_target)
}
