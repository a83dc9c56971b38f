//! Whose `X-Forwarded-*` are believed, and which header names the client, settled from the ConfigMap and the flag. Neither can
//! widen what the other says: where both name ranges, only addresses in both count.

use std::sync::Arc;

use fairway_model::{ForwardedTrust, Introduction, Origin};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use ipnet::IpNet;

use crate::ingress::trust::{AddressSource, TrustsEverybody, is_everybody};

/// What the ConfigMap says.
#[derive(Debug, Default)]
pub(super) struct Forwarded {
    pub(super) switch: Switch,
    /// `proxy-real-ip-cidr`, without what is no range.
    pub(super) ranges: Option<Vec<IpNet>>,
    /// `enable-real-ip`: these peers are believed about the client's address, even if `use-forwarded-headers` is not true.
    pub(super) real_ip: bool,
    /// `use-proxy-protocol`, where no flag says how connections begin.
    pub(super) proxy_protocol: bool,
    /// `compute-full-forwarded-for`.
    pub(super) append: bool,
    /// `forwarded-for-header`.
    pub(super) header: AddressHeader,
}

/// The header that names the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AddressHeader {
    /// `X-Forwarded-For`.
    #[default]
    Usual,
    /// Another one, in lower case.
    Other(Arc<str>),
    /// What the key says is no name of a header, so that nobody is believed.
    Unreadable,
}

/// `use-forwarded-headers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Switch {
    /// The flag decides.
    #[default]
    Unset,
    On,
    Off,
}

/// The peers whose `X-Forwarded-*` are believed.
#[derive(Debug, Default)]
pub(super) struct TrustedForwarders {
    pub(super) trust: ForwardedTrust,
    /// When that is everybody.
    pub(super) everybody: Option<TrustsEverybody>,
    /// What of the two has no effect.
    pub(super) problem: Option<Diagnostic>,
}

/// The peers that may name the client in a PROXY header, and what follows from it.
#[derive(Debug, Default)]
pub(super) struct Introduced {
    pub(super) introduction: Option<Introduction>,
    /// When every peer may.
    pub(super) everybody: Option<TrustsEverybody>,
    /// When none could, so that none is expected.
    pub(super) problem: Option<Diagnostic>,
}

const BY_PROXY_PROTOCOL: &str = "use-proxy-protocol";

impl Forwarded {
    /// Whether connections to the listeners of Ingresses begin with a PROXY header, by the ConfigMap alone.
    pub(super) fn introduced(&self, at: impl Fn(&str) -> Origin) -> Introduced {
        if !self.proxy_protocol {
            return Introduced::default();
        }
        let trusted = match &self.ranges {
            // An empty list stands for every peer.
            Some(ranges) if ranges.is_empty() => {
                let found = Diagnostic::new(Severity::Error, "invalid-setting", at(BY_PROXY_PROTOCOL));
                let problem = "use-proxy-protocol: proxy-real-ip-cidr has no range that can be read";
                let consequence =
                    "no listener expects a PROXY header, and requests that begin with one answer 400";
                return Introduced {
                    problem: Some(found.because(problem, consequence)),
                    ..Introduced::default()
                };
            }
            Some(ranges) => ranges.clone(),
            None => Vec::new(),
        };
        let everybody = (trusted.is_empty() || is_everybody(&trusted)).then(|| TrustsEverybody {
            source: AddressSource::ProxyProtocol,
            origin: at(BY_PROXY_PROTOCOL),
            problem: "use-proxy-protocol is true, and proxy-real-ip-cidr names no less than everybody: the PROXY header \
                      of every peer is believed",
        });
        Introduced { introduction: Some(Introduction::ProxyProtocol { trusted }), everybody, problem: None }
    }

    /// With the ranges of `--trusted-forwarders`; `at` is the place of a key.
    pub(super) fn settle(self, flag: &[IpNet], at: impl Fn(&str) -> Origin) -> TrustedForwarders {
        let append = self.append;
        let header = match &self.header {
            AddressHeader::Usual => None,
            AddressHeader::Other(name) => Some(Arc::clone(name)),
            AddressHeader::Unreadable => {
                let trust = ForwardedTrust { append, ..ForwardedTrust::default() };
                return TrustedForwarders { trust, everybody: None, problem: None };
            }
        };
        // With `use-forwarded-headers` or the flag, peers are believed about the address as well.
        let is_on = self.switch == Switch::On || (self.switch == Switch::Unset && !flag.is_empty());
        let address_only = self.real_ip && !is_on;
        let switch = if address_only { Switch::On } else { self.switch };
        let warned = |key: &str, problem: String, consequence: &str| {
            let found = Diagnostic::new(Severity::Warning, "trust-narrowed", at(key));
            Some(found.because(problem, consequence))
        };
        let (ranges, problem) = match (switch, self.ranges) {
            (Switch::Off, _) if !flag.is_empty() => {
                let problem =
                    "use-forwarded-headers is false, and --trusted-forwarders names ranges".to_owned();
                (Vec::new(), warned("use-forwarded-headers", problem, "nobody is believed"))
            }
            (Switch::Off, _) => (Vec::new(), None),
            (Switch::On, None) if flag.is_empty() => (all_addresses(), None),
            (Switch::Unset, Some(_)) if flag.is_empty() => (Vec::new(), None),
            (_, None) => (flag.to_vec(), None),
            (_, Some(key)) if flag.is_empty() => (key, None),
            (_, Some(key)) => {
                let outside: Vec<_> = key.iter().filter(|range| !is_within(range, flag)).collect();
                let list = outside.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let problem = format!("{list} of proxy-real-ip-cidr is not within --trusted-forwarders");
                let consequence = "only addresses in both are believed";
                let problem = if outside.is_empty() {
                    None
                } else {
                    warned("proxy-real-ip-cidr", problem, consequence)
                };
                (both(&key, flag), problem)
            }
        };
        let everybody = is_everybody(&ranges).then(|| match address_only {
            true => real_ip_of_everybody(&at),
            false => trusts_everybody(switch, flag, &at),
        });
        TrustedForwarders {
            trust: ForwardedTrust { ranges, append, header, address_only },
            everybody,
            problem,
        }
    }
}

fn trusts_everybody(switch: Switch, flag: &[IpNet], at: &impl Fn(&str) -> Origin) -> TrustsEverybody {
    let (origin, problem) = match (switch, flag.is_empty()) {
        (Switch::Unset, _) | (_, false) => (
            Origin::object("Flag", "", "--trusted-forwarders"),
            "its ranges are those of everybody: the X-Forwarded-* of every client are believed",
        ),
        _ => (
            at("use-forwarded-headers"),
            "use-forwarded-headers is true, and neither proxy-real-ip-cidr nor --trusted-forwarders names less than \
             everybody: the X-Forwarded-* of every client are believed",
        ),
    };
    TrustsEverybody { source: AddressSource::ForwardedHeaders, origin, problem }
}

fn real_ip_of_everybody(at: &impl Fn(&str) -> Origin) -> TrustsEverybody {
    TrustsEverybody {
        source: AddressSource::ForwardedHeaders,
        origin: at("enable-real-ip"),
        problem: "enable-real-ip is true, and neither proxy-real-ip-cidr nor --trusted-forwarders names less than \
                  everybody: the client's address in forwarded-for-header of every client is believed",
    }
}

/// All of IPv4 and IPv6.
fn all_addresses() -> Vec<IpNet> {
    ["0.0.0.0/0", "::/0"].map(|net| net.parse().expect("they are ranges")).into()
}

fn is_within(range: &IpNet, ranges: &[IpNet]) -> bool {
    ranges.iter().any(|around| around.contains(range))
}

/// What is in a range of each list.
fn both(some: &[IpNet], others: &[IpNet]) -> Vec<IpNet> {
    let inner = some.iter().filter(|range| is_within(range, others));
    let mut ranges: Vec<_> =
        inner.chain(others.iter().filter(|range| is_within(range, some))).copied().collect();
    ranges.sort();
    ranges.dedup();
    ranges
}
