//! Whose `X-Forwarded-*` are believed, settled from the ConfigMap and the flag. Neither can widen what the other says:
//! where both name ranges, only addresses in both count.

use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use ipnet::IpNet;

use crate::ingress::trust::{AddressSource, TrustsEverybody, is_everybody};

/// What the ConfigMap says.
#[derive(Debug, Default)]
pub(super) struct Forwarded {
    pub(super) switch: Switch,
    /// `proxy-real-ip-cidr`, without what is no range.
    pub(super) ranges: Option<Vec<IpNet>>,
    /// Whether `forwarded-for-header` names another header than `X-Forwarded-For`: no other is read.
    pub(super) in_another_header: bool,
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
    pub(super) ranges: Vec<IpNet>,
    /// When that is everybody.
    pub(super) everybody: Option<TrustsEverybody>,
    /// What of the two has no effect.
    pub(super) problem: Option<Diagnostic>,
}

impl Forwarded {
    /// With the ranges of `--trusted-forwarders`; `at` is the place of a key.
    pub(super) fn settle(self, flag: &[IpNet], at: impl Fn(&str) -> Origin) -> TrustedForwarders {
        if self.in_another_header {
            return TrustedForwarders::default();
        }
        let warned = |key: &str, problem: String, consequence: &str| {
            let found = Diagnostic::new(Severity::Warning, "trust-narrowed", at(key));
            Some(found.because(problem, consequence))
        };
        let (ranges, problem) = match (self.switch, self.ranges) {
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
        let everybody = is_everybody(&ranges).then(|| trusts_everybody(self.switch, flag, &at));
        TrustedForwarders { ranges, everybody, problem }
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
