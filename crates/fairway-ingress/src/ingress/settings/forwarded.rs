//! Whose `X-Forwarded-*` are trusted, and which header names the client, combined from the ConfigMap and the flag.
//! Neither can widen the other: if both name ranges, only addresses in both are trusted.

use std::sync::Arc;

use fairway_model::{ForwardedTrust, Origin, ProxyProtocolMode};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use ipnet::IpNet;

use crate::ingress::trust::{AddressSource, UniversalTrust, covers_everyone};

/// The settings of the ConfigMap.
#[derive(Debug, Default)]
pub(super) struct Forwarded {
    pub(super) switch: ForwardedSwitch,
    /// The valid ranges of `proxy-real-ip-cidr`.
    pub(super) ranges: Option<Vec<IpNet>>,
    /// `enable-real-ip`: these peers are trusted about the client address even if `use-forwarded-headers` is not
    /// true.
    pub(super) real_ip: bool,
    /// `use-proxy-protocol`, if no flag decides.
    pub(super) proxy_protocol: bool,
    /// `compute-full-forwarded-for`.
    pub(super) append: bool,
    /// `forwarded-for-header`.
    pub(super) header: AddressHeader,
}

/// The header with the client address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AddressHeader {
    /// `X-Forwarded-For`.
    #[default]
    Usual,
    /// Another one, in lower case.
    Other(Arc<str>),
    /// An invalid header name, so that no peer is trusted.
    Unreadable,
}

/// `use-forwarded-headers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ForwardedSwitch {
    /// The flag decides.
    #[default]
    Unset,
    On,
    Off,
}

/// The peers whose `X-Forwarded-*` are trusted.
#[derive(Debug, Default)]
pub(super) struct TrustedForwarders {
    pub(super) trust: ForwardedTrust,
    /// Set if every peer is trusted.
    pub(super) everybody: Option<UniversalTrust>,
    /// Reports what of the two settings has no effect.
    pub(super) problem: Option<Diagnostic>,
}

/// The peers that may name the client in a PROXY protocol header.
#[derive(Debug, Default)]
pub(super) struct ProxyProtocolSetting {
    pub(super) introduction: Option<ProxyProtocolMode>,
    /// Set if every peer may.
    pub(super) everybody: Option<UniversalTrust>,
    /// Set if no peer could, so that no header is expected.
    pub(super) problem: Option<Diagnostic>,
}

const BY_PROXY_PROTOCOL: &str = "use-proxy-protocol";

impl Forwarded {
    /// Whether connections to Ingress listeners begin with a PROXY protocol header, by the ConfigMap alone.
    pub(super) fn proxy_protocol(&self, at: impl Fn(&str) -> Origin) -> ProxyProtocolSetting {
        if !self.proxy_protocol {
            return ProxyProtocolSetting::default();
        }
        let trusted = match &self.ranges {
            // An empty list accepts every peer.
            Some(ranges) if ranges.is_empty() => {
                let found = Diagnostic::new(Severity::Error, "invalid-setting", at(BY_PROXY_PROTOCOL));
                let problem = "use-proxy-protocol: proxy-real-ip-cidr has no range that can be read";
                let consequence =
                    "no listener expects a PROXY header, and requests that begin with one answer 400";
                return ProxyProtocolSetting {
                    problem: Some(found.because(problem, consequence)),
                    ..ProxyProtocolSetting::default()
                };
            }
            Some(ranges) => ranges.clone(),
            None => Vec::new(),
        };
        let everybody = (trusted.is_empty() || covers_everyone(&trusted)).then(|| UniversalTrust {
            source: AddressSource::ProxyProtocol,
            origin: at(BY_PROXY_PROTOCOL),
            problem: "use-proxy-protocol is true, and proxy-real-ip-cidr names no less than everybody: the PROXY header \
                      of every peer is believed",
        });
        ProxyProtocolSetting {
            introduction: Some(ProxyProtocolMode::Required { trusted }),
            everybody,
            problem: None,
        }
    }

    /// Combines this with the ranges of `--trusted-forwarders`; `at` gives the origin of a key.
    pub(super) fn resolve(self, flag: &[IpNet], at: impl Fn(&str) -> Origin) -> TrustedForwarders {
        let append = self.append;
        let header = match &self.header {
            AddressHeader::Usual => None,
            AddressHeader::Other(name) => Some(Arc::clone(name)),
            AddressHeader::Unreadable => {
                let trust = ForwardedTrust { append, ..ForwardedTrust::default() };
                return TrustedForwarders { trust, everybody: None, problem: None };
            }
        };
        // With `use-forwarded-headers` or the flag, peers are trusted about the address as well.
        let is_on =
            self.switch == ForwardedSwitch::On || (self.switch == ForwardedSwitch::Unset && !flag.is_empty());
        let address_only = self.real_ip && !is_on;
        let switch = if address_only { ForwardedSwitch::On } else { self.switch };
        let warned = |key: &str, problem: String, consequence: &str| {
            let found = Diagnostic::new(Severity::Warning, "trust-narrowed", at(key));
            Some(found.because(problem, consequence))
        };
        let (ranges, problem) = match (switch, self.ranges) {
            (ForwardedSwitch::Off, _) if !flag.is_empty() => {
                let problem =
                    "use-forwarded-headers is false, and --trusted-forwarders names ranges".to_owned();
                (Vec::new(), warned("use-forwarded-headers", problem, "nobody is believed"))
            }
            (ForwardedSwitch::Off, _) => (Vec::new(), None),
            (ForwardedSwitch::On, None) if flag.is_empty() => (all_addresses(), None),
            (ForwardedSwitch::Unset, Some(_)) if flag.is_empty() => (Vec::new(), None),
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
                (intersection(&key, flag), problem)
            }
        };
        let everybody = covers_everyone(&ranges).then(|| match address_only {
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

fn trusts_everybody(switch: ForwardedSwitch, flag: &[IpNet], at: &impl Fn(&str) -> Origin) -> UniversalTrust {
    let (origin, problem) = match (switch, flag.is_empty()) {
        (ForwardedSwitch::Unset, _) | (_, false) => (
            Origin::object("Flag", "", "--trusted-forwarders"),
            "its ranges are those of everybody: the X-Forwarded-* of every client are believed",
        ),
        _ => (
            at("use-forwarded-headers"),
            "use-forwarded-headers is true, and neither proxy-real-ip-cidr nor --trusted-forwarders names less than \
             everybody: the X-Forwarded-* of every client are believed",
        ),
    };
    UniversalTrust { source: AddressSource::ForwardedHeaders, origin, problem }
}

fn real_ip_of_everybody(at: &impl Fn(&str) -> Origin) -> UniversalTrust {
    UniversalTrust {
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

/// The intersection of two lists of ranges.
fn intersection(own_ranges: &[IpNet], others: &[IpNet]) -> Vec<IpNet> {
    let inner = own_ranges.iter().filter(|range| is_within(range, others));
    let mut ranges: Vec<_> =
        inner.chain(others.iter().filter(|range| is_within(range, own_ranges))).copied().collect();
    ranges.sort();
    ranges.dedup();
    ranges
}
