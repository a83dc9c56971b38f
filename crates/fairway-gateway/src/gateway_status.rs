//! The statuses of Gateways and ListenerSets.

use fairway_objects::gateway_api::ListenerSetStatus as WrittenStatus;
use fairway_objects::object::Kind;
use fairway_objects::placement::{GatewayAddresses, Placement, PortState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as WrittenCondition;

use crate::condition::{
    ACCEPTED, CONFLICTED, Condition, Fault, INSECURE_FRONTEND, OVERLAPPING_TLS, PROGRAMMED, RESOLVED_REFS,
};
use crate::gateway::{GatewayReading, Listener, Parent};
use crate::listener::{ListenerId, Protocol};
use crate::status::{GatewayStatus, ListenerSetStatus, ListenerStatus};

/// Number of routes attached to a listener.
pub(crate) type AttachedCount<'a> = &'a dyn Fn(&ListenerId) -> usize;

/// ListenerSet messages: [`without_gateway`] recognises this controller's statuses by them.
const MERGED_MESSAGE: &str = "its listeners are those of the Gateway too";
const BOUND_MESSAGE: &str = "its listeners are bound";
const UNBOUND_MESSAGE: &str = "no listener of it is bound yet";
const NO_GATEWAY_MESSAGE: &str = "its Gateway does not exist";

/// The status of a Gateway.
pub(crate) fn gateway(
    reading: &GatewayReading,
    placement: &Placement,
    attached: AttachedCount<'_>,
) -> GatewayStatus {
    let Some(own) = reading.own_parent() else { return GatewayStatus::default() };
    let mut conditions = vec![
        match &reading.parameters_fault {
            Some(fault) if own.refused.is_none() => Condition::unmet(ACCEPTED, fault),
            _ => accepted(own, "the Gateway is served"),
        },
        Condition::true_unless(
            PROGRAMMED,
            gateway_not_programmed(reading, own, placement).as_ref(),
            "Programmed",
            "its listeners are bound",
        ),
        Condition::true_unless(
            RESOLVED_REFS,
            unresolved(reading, own).as_ref(),
            "ResolvedRefs",
            "all that it refers to is there",
        ),
    ];
    if reading.frontend.is_insecure() {
        let message = "clients are served without a certificate, or with one that is not trusted";
        conditions.push(Condition::met(INSECURE_FRONTEND, "ConfigurationChanged", message));
    }
    let sets = reading.parents.iter().filter(|(it, _)| it.kind == Kind::ListenerSet);
    GatewayStatus {
        conditions,
        addresses: match own.refused {
            None => placement.addresses.usable().to_vec(),
            Some(_) => Vec::new(),
        },
        listeners: listeners(own, placement, attached),
        attached_listener_sets: sets.filter(|(_, set)| set.refused.is_none()).count(),
    }
}

/// The status of a ListenerSet.
pub(crate) fn listener_set(
    set: &Parent,
    placement: &Placement,
    attached: AttachedCount<'_>,
) -> ListenerSetStatus {
    let none_programmed = || {
        let none = !set.listeners.iter().any(|it| not_programmed(it, set, placement).is_none());
        none.then(|| Fault::new("Pending", UNBOUND_MESSAGE))
    };
    let fault = set.refused.clone().or_else(none_programmed);
    ListenerSetStatus {
        conditions: vec![
            accepted(set, MERGED_MESSAGE),
            Condition::true_unless(PROGRAMMED, fault.as_ref(), "Programmed", BOUND_MESSAGE),
        ],
        listeners: listeners(set, placement, attached),
    }
}

/// The final status of a ListenerSet whose Gateway is gone; `None` if another controller wrote the current status.
/// The status of a ListenerSet names no controller, so its messages decide; a set that was never served keeps its
/// status.
pub(crate) fn without_gateway(before: &WrittenStatus) -> Option<ListenerSetStatus> {
    const OWN: [(&str, &str); 4] = [
        (ACCEPTED, MERGED_MESSAGE),
        (ACCEPTED, NO_GATEWAY_MESSAGE),
        (PROGRAMMED, BOUND_MESSAGE),
        (PROGRAMMED, UNBOUND_MESSAGE),
    ];
    let is_own = |it: &WrittenCondition| OWN.contains(&(it.type_.as_str(), it.message.as_str()));
    let fault = Fault::new("ParentNotAccepted", NO_GATEWAY_MESSAGE);
    let unmet = |kind| Condition::unmet(kind, &fault);
    before.conditions.iter().any(is_own).then(|| ListenerSetStatus {
        conditions: vec![unmet(ACCEPTED), unmet(PROGRAMMED)],
        listeners: Vec::new(),
    })
}

fn accepted(parent: &Parent, message: &'static str) -> Condition {
    let refused: Vec<&str> = parent
        .listeners
        .iter()
        .filter(|listener| !listener.is_accepted())
        .map(|listener| &*listener.entry.id.name)
        .collect();
    match &parent.refused {
        Some(fault) => Condition::unmet(ACCEPTED, fault),
        None if refused.is_empty() => Condition::met(ACCEPTED, "Accepted", message),
        None => {
            let message = format!("these listeners are not served: {}", refused.join(", "));
            Condition::met(ACCEPTED, "ListenersNotValid", message)
        }
    }
}

fn gateway_not_programmed(
    reading: &GatewayReading,
    own_parent: &Parent,
    placement: &Placement,
) -> Option<Fault> {
    if let Some(fault) = &own_parent.refused {
        return Some(Fault::new("Invalid", fault.message.clone()));
    }
    match &placement.addresses {
        GatewayAddresses::Assigned(_) => {}
        GatewayAddresses::Pending(why) => return Some(Fault::new("AddressNotAssigned", &**why)),
        GatewayAddresses::NotUsable { why, .. } => return Some(Fault::new("AddressNotUsable", &**why)),
        GatewayAddresses::NoResources(why) => return Some(Fault::new("NoResources", &**why)),
    }
    let mut faults = reading.parents.values().flat_map(|parent| {
        parent.listeners.iter().map(|listener| not_programmed(listener, parent, placement))
    });
    let first = faults.next().flatten();
    if first.is_none() || faults.any(|fault| fault.is_none()) {
        return None;
    }
    let reason = match first.as_ref().map(|fault| fault.reason) {
        Some("Pending") => "Pending",
        _ => "Invalid",
    };
    let why = first.map(|fault| fault.message).unwrap_or_default();
    Some(Fault::new(reason, format!("no listener is served: {why}")))
}

fn unresolved(reading: &GatewayReading, parent: &Parent) -> Option<Fault> {
    if let Some(fault) = &reading.client_certificate.fault {
        return Some(fault.clone());
    }
    let unresolved = parent.listeners.iter().filter(|listener| listener.unresolved.is_some());
    let names: Vec<&str> = unresolved.map(|listener| &*listener.entry.id.name).collect();
    (!names.is_empty()).then(|| {
        let problem = format!("references of these listeners cannot be followed: {}", names.join(", "));
        Fault::new("ListenersNotResolved", problem)
    })
}

fn listeners(parent: &Parent, placement: &Placement, attached: AttachedCount<'_>) -> Vec<ListenerStatus> {
    let status = |listener: &Listener| ListenerStatus {
        name: listener.entry.id.name.clone(),
        kinds: listener.entry.kinds.clone(),
        attached_routes: attached(&listener.entry.id),
        conditions: conditions(listener, parent, placement),
    };
    parent.listeners.iter().map(status).collect()
}

fn conditions(listener: &Listener, parent: &Parent, placement: &Placement) -> Vec<Condition> {
    let mut conditions = vec![
        Condition::true_unless(ACCEPTED, listener.refused.as_ref(), "Accepted", "the listener is served"),
        Condition::true_unless(
            PROGRAMMED,
            not_programmed(listener, parent, placement).as_ref(),
            "Programmed",
            "the listener is bound",
        ),
        Condition::true_unless(
            RESOLVED_REFS,
            listener.unresolved.as_ref(),
            "ResolvedRefs",
            "all that it refers to is there",
        ),
        match &listener.conflict {
            Some(fault) => Condition::met(CONFLICTED, fault.reason, fault.message.clone()),
            None => {
                let none = Fault::new("NoConflicts", "no other listener stands in its way");
                Condition::unmet(CONFLICTED, &none)
            }
        },
    ];
    if listener.overlaps {
        let message = match listener.entry.protocol {
            Protocol::Https => {
                "its hostname and that of another listener with TLS of its port overlap; requests on a connection for the \
                 other one are answered 421"
            }
            _ => {
                "its hostname and that of another listener with TLS of its port overlap; the name that a client asks for \
                 decides once for each connection"
            }
        };
        conditions.push(Condition::met(OVERLAPPING_TLS, "OverlappingHostnames", message));
    }
    conditions
}

/// Why no traffic reaches a listener.
fn not_programmed(listener: &Listener, parent: &Parent, placement: &Placement) -> Option<Fault> {
    if let Some(conflict) = &listener.conflict {
        return Some(conflict.clone());
    }
    let invalid = |problem: String| Some(Fault::new("Invalid", problem));
    if let Some(fault) = listener.refused.as_ref().or(parent.refused.as_ref()) {
        return invalid(fault.message.clone());
    }
    if !listener.is_served() {
        let why = listener.unresolved.as_ref().map(|fault| fault.message.clone());
        return invalid(why.unwrap_or_else(|| "nothing can be served by it".to_owned()));
    }
    let entry = &listener.entry;
    let port = placement.port(entry.protocol.port_protocol(), entry.port);
    match port.map(|port| (&port.state, port.bind.is_empty())) {
        Some((PortState::Bound, false)) => None,
        Some((PortState::Failed(why), _)) => Some(Fault::new("PortUnavailable", &**why)),
        Some((PortState::Pending | PortState::Bound, _)) | None => {
            Some(Fault::new("Pending", "its port is not bound yet"))
        }
    }
}
