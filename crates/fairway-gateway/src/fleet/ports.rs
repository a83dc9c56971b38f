//! The assignment of pod ports to Gateway ports, kept by the leader in a ConfigMap and read by every replica.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use fairway_objects::object::ObjectKey;

/// ConfigMap key of the list.
const LIST_KEY: &str = "ports";
/// ConfigMap key of the last assigned port.
const LAST_PORT_KEY: &str = "last";

/// A port of a Gateway.
pub(crate) type GatewayPort = (ObjectKey, u16);

/// The range of ports that can be assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// The assigned ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    assigned: BTreeMap<GatewayPort, u16>,
    /// The last assigned port: the search for a free one starts after it, so that freed ports are not reused at once.
    last: u16,
}

impl Default for PortRange {
    /// Below the kernel's ephemeral ports.
    fn default() -> Self {
        Self { first: 20_000, last: 29_999 }
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: is no range of ports as in 20000-29999");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port >= 1024);
        let (first, last) = port(first)
            .zip(port(last))
            .ok_or_else(|| format!("{} with ports from 1024 on, which need no privilege", wrong()))?;
        if first > last {
            return Err(format!("{text}: the first port is larger than the last one"));
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl PortRange {
    /// All ports of the range.
    #[must_use]
    pub fn ports(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    fn contains(self, port: u16) -> bool {
        self.ports().contains(&port)
    }

    fn next_port(self, port: u16) -> u16 {
        if self.contains(port) && port < self.last { port + 1 } else { self.first }
    }

    /// Number of ports.
    fn len(self) -> usize {
        usize::from(self.last - self.first) + 1
    }
}

impl Ports {
    /// Reads the ConfigMap. A port on an unreadable line is assigned again.
    #[must_use]
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let lines = data.get(LIST_KEY).map(String::as_str).unwrap_or_default().lines();
        let mut pod_ports = BTreeSet::new();
        let assigned_ports =
            lines.filter_map(parse_entry).filter(|(_, port)| pod_ports.insert(*port)).collect();
        Self {
            assigned: assigned_ports,
            last: data.get(LAST_PORT_KEY).and_then(|text| text.parse().ok()).unwrap_or(0),
        }
    }

    /// As [`Ports::read`]; `None` if the ConfigMap contains no list, for example because it was emptied.
    #[must_use]
    pub fn listed(data: &BTreeMap<String, String>) -> Option<Self> {
        data.contains_key(LIST_KEY).then(|| Self::read(data))
    }

    /// Whether no port is assigned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.assigned.is_empty()
    }

    /// The data of the ConfigMap.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        let line = |((gateway, port), given): (&GatewayPort, &u16)| format!("{gateway}:{port} {given}\n");
        let list = self.assigned.iter().map(line).collect();
        [(LIST_KEY.to_owned(), list), (LAST_PORT_KEY.to_owned(), self.last.to_string())].into()
    }

    /// The pod port of a Gateway port.
    #[must_use]
    pub fn pod_port(&self, gateway: &ObjectKey, port: u16) -> Option<u16> {
        self.assigned.get(&(gateway.clone(), port)).copied()
    }

    /// Assigns a port to each of `wanted`, in order, while ports are free; ports outside the range are replaced. If
    /// `wanted` is complete, other ports are freed. Returns whether anything changed.
    pub fn settle<'a>(
        &mut self,
        wanted: impl Iterator<Item = (&'a ObjectKey, u16)> + Clone,
        is_all: bool,
        range: PortRange,
    ) -> bool {
        let before = self.assigned.clone();
        let keep: BTreeSet<GatewayPort> = wanted.clone().map(|(key, port)| (key.clone(), port)).collect();
        self.assigned.retain(|wanted, given| (!is_all || keep.contains(wanted)) && range.contains(*given));
        let mut used_ports: BTreeSet<u16> = self.assigned.values().copied().collect();
        for (gateway, port) in wanted {
            if self.pod_port(gateway, port).is_some() {
                continue;
            }
            let Some(free) = self.find_free(range, &used_ports) else { break };
            used_ports.insert(free);
            self.last = free;
            self.assigned.insert((gateway.clone(), port), free);
        }
        before != self.assigned
    }

    /// Whether the range has no free port.
    #[must_use]
    pub(crate) fn is_used_up(&self, range: PortRange) -> bool {
        self.assigned.values().filter(|given| range.contains(**given)).count() >= range.len()
    }

    fn find_free(&self, range: PortRange, used_ports: &BTreeSet<u16>) -> Option<u16> {
        if used_ports.len() >= range.len() {
            return None;
        }
        let mut port = range.next_port(self.last);
        while used_ports.contains(&port) {
            port = range.next_port(port);
        }
        Some(port)
    }
}

/// `NAMESPACE/NAME:PORT GIVEN`.
fn parse_entry(line: &str) -> Option<(GatewayPort, u16)> {
    let (wanted, given) = line.split_once(' ')?;
    let (gateway, port) = wanted.rsplit_once(':')?;
    Some(((ObjectKey::parse(gateway)?, port.parse().ok()?), given.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("shop", name)
    }

    fn allocate(ports: &mut Ports, requests: &[(&str, u16)], range: &str) -> bool {
        let keyed_requests: Vec<_> = requests.iter().map(|(name, port)| (key(name), *port)).collect();
        ports.settle(keyed_requests.iter().map(|(key, port)| (key, *port)), true, range.parse().unwrap())
    }

    #[test]
    fn a_port_stays_with_its_gateway_and_a_freed_one_rests() {
        let mut ports = Ports::default();
        assert!(allocate(&mut ports, &[("a", 80), ("b", 80)], "20000-20003"));
        assert_eq!(
            (ports.pod_port(&key("a"), 80), ports.pod_port(&key("b"), 80)),
            (Some(20_000), Some(20_001))
        );
        assert!(!allocate(&mut ports, &[("b", 80), ("a", 80)], "20000-20003"), "in any order");
        assert!(allocate(&mut ports, &[("b", 80)], "20000-20003"));
        assert!(allocate(&mut ports, &[("b", 80), ("c", 80)], "20000-20003"));
        assert_eq!(ports.pod_port(&key("c"), 80), Some(20_002), "not the one that was just freed");
        assert_eq!(ports.pod_port(&key("b"), 80), Some(20_001));
    }

    #[test]
    fn an_exhausted_range_leaves_the_last_ports_unassigned() {
        let mut ports = Ports::default();
        allocate(&mut ports, &[("a", 80), ("a", 443), ("b", 80)], "20000-20001");
        assert_eq!((ports.pod_port(&key("a"), 443), ports.pod_port(&key("b"), 80)), (Some(20_001), None));
        allocate(&mut ports, &[("a", 443), ("b", 80)], "20000-20001");
        assert_eq!(ports.pod_port(&key("b"), 80), Some(20_000), "once there is one");
    }

    #[test]
    fn an_incomplete_list_frees_no_ports() {
        let mut ports = Ports::default();
        allocate(&mut ports, &[("a", 80), ("b", 80)], "20000-20003");
        let unknown_claims = [(key("b"), 80), (key("c"), 80)];
        let claims = unknown_claims.iter().map(|(key, port)| (key, *port));
        assert!(ports.settle(claims, false, "20000-20003".parse().unwrap()));
        assert_eq!(
            [ports.pod_port(&key("a"), 80), ports.pod_port(&key("c"), 80)],
            [Some(20_000), Some(20_002)]
        );
    }

    #[test]
    fn another_range_gives_other_ports() {
        let mut ports = Ports::default();
        allocate(&mut ports, &[("a", 80)], "20000-20009");
        assert!(allocate(&mut ports, &[("a", 80)], "30000-30009"));
        assert_eq!(ports.pod_port(&key("a"), 80), Some(30_000));
    }

    #[test]
    fn the_list_round_trips_without_duplicate_ports() {
        let mut ports = Ports::default();
        allocate(&mut ports, &[("a", 80), ("a.b", 443)], "20000-20009");
        assert_eq!(Ports::read(&ports.data()), ports);
        assert_eq!(ports.data()["ports"], "shop/a:80 20000\nshop/a.b:443 20001\n");
        let damaged =
            [("ports".to_owned(), "shop/a:80 20000\nnonsense\nshop/b:80 20000\n".to_owned())].into();
        let read = Ports::read(&damaged);
        assert_eq!((read.pod_port(&key("a"), 80), read.pod_port(&key("b"), 80)), (Some(20_000), None));
    }

    #[test]
    fn a_range_is_read_from_a_flag() {
        assert_eq!("20000-29999".parse::<PortRange>().unwrap(), PortRange::default());
        for wrong in ["20000", "80-90", "30000-20000", "1024-70000", "a-b"] {
            assert!(wrong.parse::<PortRange>().is_err(), "{wrong}");
        }
    }
}
