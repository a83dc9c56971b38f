//! EndpointSlices to endpoints: which addresses of a Service's port get requests now.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_model::{Endpoint, PortProtocol};

use crate::diagnostic::{Diagnostic, Severity};
use crate::inputs::Inputs;
use crate::object::{Kind, ObjectKey};
use crate::options::LoopbackEndpoints;
use crate::slice::{Condition, Slice, SliceAddress};
use crate::transport::is_port_of;

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
        for SliceAddress { endpoint, condition, address, pod } in &slice.object.addresses {
            let into = match condition {
                Condition::Ready => &mut ready,
                Condition::LastResort => &mut last_resort,
                Condition::Out => continue,
            };
            let judged = match address {
                Ok(ip) => usable(*ip, inputs.options.loopback_endpoints)
                    .map_err(|problem| (ip.to_string(), problem)),
                Err(text) => Err((text.to_string(), NO_ADDRESS)),
            };
            match judged {
                Ok(ip) => add(into, ip, &numbers, pod.as_ref()),
                Err((text, problem)) => {
                    let field = format!("endpoints[{endpoint}].addresses");
                    let origin = slice.origin(Kind::EndpointSlice, key, &field);
                    let found = Diagnostic::new(Severity::Error, "invalid-endpoint", origin);
                    diagnostics
                        .push(found.because(format!("\"{text}\" {problem}"), "the address is not used"));
                }
            }
        }
    }
    let used = if ready.is_empty() { last_resort } else { ready };
    let mut endpoints: Vec<_> = used.into_iter().map(|(address, name)| Endpoint { address, name }).collect();
    endpoints.shrink_to_fit();
    endpoints
}

fn add(into: &mut Addresses, ip: IpAddr, numbers: &[u16], pod: Option<&Arc<str>>) {
    for number in numbers {
        into.entry(SocketAddr::new(ip, *number)).or_insert_with(|| pod.cloned());
    }
}

/// The port's numbers in a slice: by name (EndpointSlice API: "must match the name of the Service port").
fn numbers(slice: &Slice, wanted: &PortChoice) -> Vec<u16> {
    if slice.ports.is_empty() {
        return wanted.number.into_iter().collect();
    }
    let named = slice.ports.iter().filter(|port| port.name.as_deref().unwrap_or_default() == &*wanted.name);
    let fitting = named.filter(|port| is_port_of(wanted.protocol, port.protocol.as_deref()));
    fitting.filter_map(|port| port.port.map_or(wanted.number, |number| u16::try_from(number).ok())).collect()
}

const NO_ADDRESS: &str = "is no address";

/// The address in its usual form, where it may get requests (EndpointSlice API: no loopback, link-local or multicast
/// address).
pub(crate) fn usable(ip: IpAddr, loopback: LoopbackEndpoints) -> Result<IpAddr, &'static str> {
    let ip = ip.to_canonical();
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
        let judged = |text: &str, loopback| usable(text.parse().expect("an address"), loopback);
        for good in ["10.0.0.1", "2001:db8::1"] {
            assert!(judged(good, refused).is_ok(), "{good}");
        }
        for bad in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.169.254"] {
            assert!(judged(bad, refused).is_err(), "{bad}");
        }
        assert!(judged("::1", LoopbackEndpoints::Accepted).is_ok());
        assert!(judged("169.254.169.254", LoopbackEndpoints::Accepted).is_err());
    }
}
