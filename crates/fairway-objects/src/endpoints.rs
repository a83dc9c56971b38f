//! EndpointSlices to endpoints: which addresses of a Service's port get requests now.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_model::Endpoint;
use k8s_openapi::api::discovery::v1::{Endpoint as SliceEndpoint, EndpointSlice};

use crate::diagnostic::{Diagnostic, Severity};
use crate::inputs::Inputs;
use crate::object::{Kind, ObjectKey};
use crate::options::LoopbackEndpoints;
use crate::transport::PortProtocol;

/// Which port of a slice is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChoice {
    /// The name of the Service's port; empty where it has none.
    pub name: Arc<str>,
    /// The number for slices without ports.
    pub number: Option<u16>,
    /// What it takes: a port of each protocol may have the same number.
    pub protocol: PortProtocol,
}

/// Whether an endpoint may get requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Ready,
    /// Terminating, but still serving: used when none is ready.
    LastResort,
    Out,
}

type Addresses = BTreeMap<SocketAddr, Option<Arc<str>>>;

/// The endpoints of a Service's port, of all its slices, each address once, in order of address.
pub fn of_service(
    service: &ObjectKey,
    port: &PortChoice,
    inputs: Inputs<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Endpoint> {
    let (mut ready, mut last_resort) = (Addresses::new(), Addresses::new());
    for (key, slice) in inputs.resources.slices_of(service) {
        let numbers = numbers(&slice.object, port);
        for (at, endpoint) in slice.object.endpoints.iter().flatten().enumerate() {
            let into = match condition(endpoint) {
                Condition::Ready => &mut ready,
                Condition::LastResort => &mut last_resort,
                Condition::Out => continue,
            };
            for text in &endpoint.addresses {
                match address(text, inputs.options.loopback_endpoints) {
                    Ok(ip) => add(into, ip, &numbers, endpoint),
                    Err(problem) => {
                        let origin =
                            slice.origin(Kind::EndpointSlice, key, &format!("endpoints[{at}].addresses"));
                        let found = Diagnostic::new(Severity::Error, "invalid-endpoint", origin);
                        diagnostics
                            .push(found.because(format!("\"{text}\" {problem}"), "the address is not used"));
                    }
                }
            }
        }
    }
    let used = if ready.is_empty() { last_resort } else { ready };
    used.into_iter().map(|(address, name)| Endpoint { address, name }).collect()
}

fn add(into: &mut Addresses, ip: IpAddr, numbers: &[u16], endpoint: &SliceEndpoint) {
    let name = endpoint.target_ref.as_ref().and_then(|target| target.name.as_deref());
    for number in numbers {
        into.entry(SocketAddr::new(ip, *number)).or_insert_with(|| name.map(Arc::from));
    }
}

/// The port's numbers in a slice: by name (EndpointSlice API: "must match the name of the Service port").
fn numbers(slice: &EndpointSlice, wanted: &PortChoice) -> Vec<u16> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    if ports.is_empty() {
        return wanted.number.into_iter().collect();
    }
    let named = ports.iter().filter(|port| port.name.as_deref().unwrap_or_default() == &*wanted.name);
    let fitting = named.filter(|port| wanted.protocol.is(port.protocol.as_deref()));
    fitting.filter_map(|port| port.port.map_or(wanted.number, |number| u16::try_from(number).ok())).collect()
}

/// EndpointSlice API, `EndpointConditions`: nil `ready` and nil `serving` count as true.
fn condition(endpoint: &SliceEndpoint) -> Condition {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let serving = conditions.serving.unwrap_or(true);
    let terminating = conditions.terminating.unwrap_or(false);
    if conditions.ready.unwrap_or(true) {
        Condition::Ready
    } else if serving && terminating {
        Condition::LastResort
    } else {
        Condition::Out
    }
}

/// An address that may get requests (EndpointSlice API: no loopback, link-local or multicast address).
pub fn address(text: &str, loopback: LoopbackEndpoints) -> Result<IpAddr, &'static str> {
    let ip = text.parse::<IpAddr>().map_err(|_| "is no address")?.to_canonical();
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if ip.is_loopback() && loopback == LoopbackEndpoints::Refused {
        return Err("is a loopback address, which would be the proxy itself");
    }
    if ip.is_unspecified() || ip.is_multicast() || link_local {
        return Err("is not the address of a pod");
    }
    Ok(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_pods_get_requests() {
        let refused = LoopbackEndpoints::Refused;
        for good in ["10.0.0.1", "2001:db8::1"] {
            assert!(address(good, refused).is_ok(), "{good}");
        }
        for bad in
            ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.169.254", "a.test"]
        {
            assert!(address(bad, refused).is_err(), "{bad}");
        }
        assert!(address("::1", LoopbackEndpoints::Accepted).is_ok());
        assert!(address("169.254.169.254", LoopbackEndpoints::Accepted).is_err());
    }
}
