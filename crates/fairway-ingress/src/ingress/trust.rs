//! When every client can claim any address, and how that affects the source ranges of Ingresses.

use std::fmt;

use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{ProxySenders, Trust};
use ipnet::IpNet;

/// Maximum number of Ingresses named in one message; each also gets its own warning.
const MAX_NAMED_INGRESSES: usize = 20;

/// How a client states its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressSource {
    /// In `X-Forwarded-For`.
    ForwardedHeaders,
    /// In a PROXY protocol header.
    ProxyProtocol,
}

/// Every client is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UniversalTrust {
    pub(crate) source: AddressSource,
    /// The responsible setting.
    pub(crate) origin: Origin,
    /// The problem in words.
    pub(crate) problem: &'static str,
}

impl UniversalTrust {
    /// By the PROXY protocol, if every peer may use it.
    pub(crate) fn by_proxy_protocol(trust: &Trust) -> Option<Self> {
        let ProxySenders::Peers(ranges) = &trust.proxy_protocol else { return None };
        let (flag, problem) = if ranges.is_empty() {
            (
                "--proxy-protocol",
                "--proxy-protocol-trusted names no range: the PROXY header of every peer is believed",
            )
        } else if covers_everyone(ranges) {
            (
                "--proxy-protocol-trusted",
                "its ranges are those of everybody: the PROXY header of every peer is believed",
            )
        } else {
            return None;
        };
        let origin = Origin::object("Flag", "", flag);
        Some(Self { source: AddressSource::ProxyProtocol, origin, problem })
    }

    /// The diagnostic, given the Ingresses that check source ranges.
    pub(crate) fn describe<'k>(
        &self,
        restricting: impl ExactSizeIterator<Item = &'k ObjectKey>,
    ) -> Diagnostic {
        let count = restricting.len();
        let named =
            restricting.take(MAX_NAMED_INGRESSES).map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let unnamed = count.checked_sub(MAX_NAMED_INGRESSES).filter(|more| *more > 0);
        let suffix = unnamed.map(|more| format!(" and {more} more")).unwrap_or_default();
        let effect = match count {
            0 => String::new(),
            1 => format!("; the source ranges of Ingress {named} keep nobody out"),
            _ => format!("; the source ranges of Ingresses {named}{suffix} keep nobody out"),
        };
        Diagnostic::new(Severity::Warning, "trusts-everybody", self.origin.clone())
            .because(self.problem, format!("any client can claim any address{effect}"))
    }
}

impl AddressSource {
    /// How to fix it.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::ForwardedHeaders => "proxy-real-ip-cidr or --trusted-forwarders names the proxies in front",
            Self::ProxyProtocol => {
                "--proxy-protocol-trusted, or proxy-real-ip-cidr where the ConfigMap has use-proxy-protocol, names the load \
                 balancers in front"
            }
        }
    }
}

impl fmt::Display for AddressSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ForwardedHeaders => "in X-Forwarded-For (use-forwarded-headers)",
            Self::ProxyProtocol => "in a PROXY header (--proxy-protocol or use-proxy-protocol)",
        })
    }
}

/// Whether the ranges cover all of IPv4 or all of IPv6.
pub(crate) fn covers_everyone(ranges: &[IpNet]) -> bool {
    IpNet::aggregate(&ranges.to_vec()).iter().any(|range| range.prefix_len() == 0)
}
