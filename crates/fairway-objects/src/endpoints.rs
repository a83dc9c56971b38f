//! Converts EndpointSlices to endpoints: which addresses of a Service's port get requests now.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_model::{Endpoint, PortProtocol};

use crate::diagnostic::{Diagnostic, Severity};
use crate::external;
use crate::inputs::Inputs;
use crate::object::{Kind, ObjectKey, Sourced};
use crate::options::{LoopbackEndpoints, Options};
use crate::slice::{EndpointCondition, EndpointSlice, SliceAddress};
use crate::transport::is_port_of;

/// Selects a port of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChoice {
    /// The name of the Service's port; empty if it has none.
    pub name: Arc<str>,
    /// The number for slices without ports.
    pub number: Option<u16>,
    /// The protocol: ports of different protocols may have the same number.
    pub protocol: PortProtocol,
}

type EndpointsByAddress = BTreeMap<SocketAddr, Endpoint>;

/// The endpoints of a port, without duplicates, ordered by address.
pub(crate) fn endpoints_from_slices<'s>(
    slices: impl Iterator<Item = (&'s ObjectKey, &'s Sourced<EndpointSlice>)>,
    port: &PortChoice,
    inputs: Inputs<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Endpoint> {
    let (mut ready, mut last_resort) = (EndpointsByAddress::new(), EndpointsByAddress::new());
    for (key, slice) in slices {
        let numbers = port_numbers(&slice.object, port);
        for entry in &slice.object.addresses {
            let SliceAddress { endpoint, condition, address, .. } = entry;
            let into = match condition {
                EndpointCondition::Ready => &mut ready,
                EndpointCondition::LastResort => &mut last_resort,
                EndpointCondition::NotServing => continue,
            };
            let judged = match address {
                Ok(ip) => check_address(*ip, inputs.options).map_err(|problem| (ip.to_string(), problem)),
                Err(text) => Err((text.to_string(), NO_ADDRESS.to_owned())),
            };
            match judged {
                Ok(ip) => add_endpoints(into, ip, &numbers, entry),
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
    let mut endpoints: Vec<_> = used.into_values().collect();
    endpoints.shrink_to_fit();
    endpoints
}

fn add_endpoints(into: &mut EndpointsByAddress, ip: IpAddr, numbers: &[u16], entry: &SliceAddress) {
    for number in numbers {
        let address = SocketAddr::new(ip, *number);
        let endpoint = || Endpoint { address, name: entry.pod.clone(), place: entry.topology.clone() };
        into.entry(address).or_insert_with(endpoint);
    }
}

/// The port's numbers in a slice, by name (EndpointSlice API: "must match the name of the Service port").
fn port_numbers(slice: &EndpointSlice, choice: &PortChoice) -> Vec<u16> {
    if slice.ports.is_empty() {
        return choice.number.into_iter().collect();
    }
    let named = slice.ports.iter().filter(|port| port.name.as_deref().unwrap_or_default() == &*choice.name);
    let fitting = named.filter(|port| is_port_of(choice.protocol, port.protocol.as_deref()));
    fitting.filter_map(|port| port.port.map_or(choice.number, |number| u16::try_from(number).ok())).collect()
}

pub(crate) const NO_ADDRESS: &str = "is no address";

/// The address in canonical form, if it may get requests (EndpointSlice API: no loopback, link-local or multicast address).
/// Whoever writes EndpointSlices chooses addresses as freely as the author of an external name, so metadata services are refused
/// here as well.
pub(crate) fn check_address(ip: IpAddr, options: &Options) -> Result<IpAddr, String> {
    let ip = ip.to_canonical();
    if ip.is_loopback() && options.loopback_endpoints == LoopbackEndpoints::Accepted {
        return Ok(ip);
    }
    let Some((range, what)) = external::special_range(ip, &options.trust.external.allowed) else {
        return Ok(ip);
    };
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if ip.is_loopback() {
        return Err("is a loopback address, which would be the proxy itself".to_owned());
    }
    if ip.is_unspecified() || ip.is_multicast() || link_local {
        return Err("is not the address of a pod".to_owned());
    }
    Err(format!("is in {range} ({what}); --external-name-allow opens it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pod_addresses_are_accepted() {
        let mut options = Options { loopback_endpoints: LoopbackEndpoints::Refused, ..Options::default() };
        let judged =
            |text: &str, options: &Options| check_address(text.parse().expect("an address"), options);
        for good in ["10.0.0.1", "2001:db8::1", "fd00::1", "100.64.0.1"] {
            assert!(judged(good, &options).is_ok(), "{good}");
        }
        let of_the_machine =
            ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.169.254", "fe80::1"];
        let of_clouds = ["100.100.100.200", "168.63.129.16", "fd00:ec2::254", "::ffff:100.100.100.200"];
        let translated = ["64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::127.0.0.1"];
        for bad in of_the_machine.iter().chain(&of_clouds).chain(&translated) {
            assert!(judged(bad, &options).is_err(), "{bad}");
        }
        options.loopback_endpoints = LoopbackEndpoints::Accepted;
        assert!(judged("::1", &options).is_ok());
        for bad in ["169.254.169.254", "64:ff9b::7f00:1"] {
            assert!(judged(bad, &options).is_err(), "{bad}");
        }
        options.trust.external.allowed = vec!["168.63.129.16/32".parse().expect("a range")];
        assert!(judged("168.63.129.16", &options).is_ok(), "an exception opens it");
        assert!(judged("100.100.100.200", &options).is_err(), "and nothing else");
    }
}
