//! Assigns listeners to addresses, shared or their own, and finds the listener for the server name of a TLS client.
//! Binds nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{
    DownstreamSettings, HostPattern, Http3Settings, Listener, ListenerProtocol, PortProtocol,
    ProxyProtocolMode, TlsVersions, WildcardSpan,
};
use imbl::OrdMap;

use crate::problem::Problem;
use crate::{client_limits, unsupported};

/// An address to bind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// The address as configured.
    pub address: SocketAddr,
    /// A number may be a TCP port and a UDP port.
    pub transport: PortProtocol,
    /// The listener that owns a free port (port 0); free ports are never shared.
    pub owner: Option<Arc<str>>,
}

/// What an address serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port<T> {
    /// Cleartext HTTP.
    Clear(T),
    /// TLS.
    Tls(ByName<T>),
    /// QUIC: HTTP/3 at the UDP port of a [`Port::Tls`], with the same names. Listeners without HTTP/3 are included as
    /// closed: a name of another listener must never fall back to a less specific one.
    Quic(ByName<T>),
    /// Forwarded connections.
    Stream(T),
    /// Forwarded datagrams.
    Datagrams(T),
}

/// A listener of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortListener {
    /// It is served.
    Served(Arc<Listener>),
    /// Its connections are closed: it needs an unsupported feature, or, at a [`Port::Quic`], it has no HTTP/3.
    Closed(Arc<Listener>),
}

/// Values by TLS server name: the exact name, otherwise the longest wildcard, otherwise the catch-all, which also
/// applies to clients without a server name. Persistent: clones are free, and a change costs its own size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByName<T> {
    exact: OrdMap<Arc<str>, T>,
    /// By suffix, in the order of [`WildcardSpan`].
    wildcards: OrdMap<Arc<str>, [Option<T>; 2]>,
    any_host: Option<T>,
}

/// The ports of a configuration, and what is wrong with its listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) by_key: BTreeMap<PortKey, Port<PortListener>>,
    pub(crate) problems: Vec<Problem>,
}

impl Ports {
    /// Assigns each listener, in the order of names, the addresses that it asks for, and then UDP ports to those with
    /// HTTP/3.
    pub(crate) fn from_listeners(listeners: &OrdMap<Arc<str>, Arc<Listener>>, http3: Http3Rules) -> Self {
        let mut ports = Self::default();
        for listener in listeners.values() {
            let carried = match unsupported::of_listener(listener) {
                None => PortListener::Served(listener.clone()),
                Some(unserved) => {
                    let text =
                        format!("the listener {}: {unserved}; its connections are closed", listener.name);
                    ports.problem(listener, text);
                    PortListener::Closed(listener.clone())
                }
            };
            for text in client_limits::limit_problems(listener) {
                ports.problem(listener, text);
            }
            for address in &listener.bind {
                if let Err(why) = ports.add(*address, listener, carried.clone()) {
                    ports.problem(listener, why);
                }
            }
        }
        // Addresses that serve nothing are not bound: clients notice immediately.
        ports.by_key.retain(|_, port| port.carried().any(|it| matches!(it, PortListener::Served(_))));
        ports.add_http3(http3);
        ports
    }

    /// Adds a QUIC port for each TLS port with an HTTP/3 listener.
    fn add_http3(&mut self, rules: Http3Rules) {
        let (mut added, mut problems) = (Vec::new(), Vec::new());
        for (key, port) in &self.by_key {
            let Port::Tls(by_name) = port else { continue };
            let has_http3 =
                |it: &PortListener| matches!(it, PortListener::Served(listener) if rules.is_on(listener));
            let mut with_http3: Vec<_> = by_name.values().filter(|it| has_http3(it)).collect();
            if with_http3.is_empty() {
                continue;
            }
            let key = PortKey { transport: PortProtocol::Udp, ..key.clone() };
            let Some(why) =
                rules.obstacle(port).or_else(|| Some(taken_for_datagrams(self.by_key.get(&key)?)))
            else {
                let or_closed = |it: &PortListener| match has_http3(it) {
                    true => it.clone(),
                    false => PortListener::Closed(it.listener().clone()),
                };
                added.push((key, Port::Quic(by_name.map(or_closed))));
                continue;
            };
            with_http3.sort_unstable_by_key(|it| &it.listener().name);
            problems.extend(with_http3.into_iter().map(|it| {
                let listener = it.listener();
                let text = format!(
                    "the listener {} has no HTTP/3 at {}: {why}; it serves HTTP/1.1 and HTTP/2 there",
                    listener.name, key.address
                );
                Problem { origin: listener.origin.clone(), text }
            }));
        }
        self.by_key.extend(added);
        self.problems.extend(problems);
    }

    fn add(
        &mut self,
        address: SocketAddr,
        listener: &Arc<Listener>,
        carried: PortListener,
    ) -> Result<(), String> {
        let transport = listener.protocol.port_protocol();
        let owner = (address.port() == 0)
            .then(|| listener.address_owner.clone().unwrap_or_else(|| listener.name.clone()));
        let key = PortKey { address, transport, owner };
        let is_taken = |owner: &PortListener| {
            format!(
                "{address} is taken by the listener {}; the listener is not served at this address",
                owner.listener().name
            )
        };
        match (self.by_key.get_mut(&key), listener.protocol.begins_with_tls()) {
            (Some(port @ Port::Tls(_)), true) => {
                let other = introduced_otherwise(port, listener);
                let Port::Tls(by_name) = port else { return Ok(()) };
                by_name.insert(&listener.host, carried).map_err(|by| is_taken(&by))?;
                other.map_or(Ok(()), Err)
            }
            (Some(port), _) => Err(port.carried().next().map(is_taken).unwrap_or_default()),
            (None, _) => {
                self.by_key.insert(key, Port::alone(listener, carried));
                Ok(())
            }
        }
    }

    fn problem(&mut self, listener: &Listener, text: String) {
        self.problems.push(Problem { origin: listener.origin.clone(), text });
    }
}

/// The HTTP/3 settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Http3Rules {
    settings: Http3Settings,
    versions: TlsVersions,
}

impl Http3Rules {
    /// The settings of a configuration.
    pub(crate) fn from_settings(settings: &DownstreamSettings) -> Self {
        Self { settings: settings.http3, versions: settings.tls_versions }
    }

    /// Whether a listener has HTTP/3, unless there is an obstacle.
    fn is_on(self, listener: &Listener) -> bool {
        let is_on = listener.clients.http3.unwrap_or(self.settings.offered);
        is_on && listener.protocol == ListenerProtocol::Https
    }

    /// Why a TLS port's address cannot have HTTP/3.
    fn obstacle(self, port: &Port<PortListener>) -> Option<String> {
        let begins_with_header = match port.introduction() {
            Some(ProxyProtocolMode::Required { .. }) => true,
            Some(ProxyProtocolMode::None) => false,
            None => self.settings.behind_proxy_protocol,
        };
        if begins_with_header {
            return Some(
                "its connections begin with the PROXY protocol, which QUIC cannot carry, so the addresses of clients would \
                 be lost"
                    .to_owned(),
            );
        }
        (self.versions == TlsVersions::Only12).then(|| "QUIC needs TLS 1.3, which is switched off".to_owned())
    }
}

/// Why HTTP/3 is not possible at an address whose UDP port is in use.
fn taken_for_datagrams(port: &Port<PortListener>) -> String {
    let names: Vec<_> = port.carried().map(|it| &*it.listener().name).collect();
    format!("its UDP port is taken by the listener {}", names.join(", "))
}

impl Port<PortListener> {
    /// A port with its first listener.
    fn alone(listener: &Listener, carried: PortListener) -> Self {
        match listener.protocol {
            ListenerProtocol::Http => Self::Clear(carried),
            ListenerProtocol::Tcp => Self::Stream(carried),
            ListenerProtocol::Udp => Self::Datagrams(carried),
            ListenerProtocol::Https | ListenerProtocol::Tls | ListenerProtocol::TlsPassthrough => {
                let mut by_name = ByName::default();
                by_name.replace(&listener.host, Some(carried));
                Self::Tls(by_name)
            }
        }
    }

    /// How its connections begin, before any name is known: as the first listener, by name, that specifies it.
    #[must_use]
    pub fn introduction(&self) -> Option<&ProxyProtocolMode> {
        let says = self.carried().filter(|it| it.listener().clients.proxy_protocol.is_some());
        says.min_by_key(|it| &it.listener().name)?.listener().clients.proxy_protocol.as_ref()
    }
}

/// The problem if listeners of a port want connections to begin in different ways. Listeners come in the order of their
/// names.
fn introduced_otherwise(port: &Port<PortListener>, listener: &Listener) -> Option<String> {
    let (before, wanted) = (port.introduction()?, listener.clients.proxy_protocol.as_ref()?);
    let first = port.carried().map(|it| &it.listener().name).min()?;
    (before != wanted).then(|| {
        format!(
            "the listener {}: connections to its address begin as the listener {first} says, before the name is known that \
             chooses between them; what this one says of the PROXY protocol has no effect",
            listener.name
        )
    })
}

impl PortListener {
    /// The listener.
    #[must_use]
    pub fn listener(&self) -> &Arc<Listener> {
        match self {
            Self::Served(listener) | Self::Closed(listener) => listener,
        }
    }
}

impl<T: Clone> Port<T> {
    /// Converts the values.
    pub fn map<U: Clone>(&self, mut to: impl FnMut(&T) -> U) -> Port<U> {
        match self {
            Self::Clear(value) => Port::Clear(to(value)),
            Self::Stream(value) => Port::Stream(to(value)),
            Self::Datagrams(value) => Port::Datagrams(to(value)),
            Self::Tls(by_name) => Port::Tls(by_name.map(to)),
            Self::Quic(by_name) => Port::Quic(by_name.map(to)),
        }
    }

    /// All values.
    pub fn carried(&self) -> impl Iterator<Item = &T> {
        let (alone, named) = match self {
            Self::Clear(value) | Self::Stream(value) | Self::Datagrams(value) => (Some(value), None),
            Self::Tls(by_name) | Self::Quic(by_name) => (None, Some(by_name.values())),
        };
        alone.into_iter().chain(named.into_iter().flatten())
    }

    /// The values by server name; `None` if there are no server names.
    #[must_use]
    pub fn by_name(&self) -> Option<&ByName<T>> {
        match self {
            Self::Tls(by_name) | Self::Quic(by_name) => Some(by_name),
            Self::Clear(_) | Self::Stream(_) | Self::Datagrams(_) => None,
        }
    }
}

impl<T: Clone> ByName<T> {
    /// The value for a client that requests `name` (lower case), or no name.
    #[must_use]
    pub fn choose(&self, name: Option<&str>) -> Option<&T> {
        let named = name.and_then(|name| self.exact.get(name).or_else(|| self.wildcard(name)));
        named.or(self.any_host.as_ref())
    }

    /// The value of the longest suffix: dots are tried from the left.
    fn wildcard(&self, name: &str) -> Option<&T> {
        if self.wildcards.is_empty() {
            return None;
        }
        let dots = name.match_indices('.').filter(|(star, _)| *star > 0);
        dots.into_iter().find_map(|(star, _)| {
            let [one_label, many_labels] = self.wildcards.get(&name[star + 1..])?;
            one_label.as_ref().filter(|_| !name[..star].contains('.')).or(many_labels.as_ref())
        })
    }

    /// Inserts `value` unless there is one already, which is returned.
    fn insert(&mut self, host: &HostPattern, value: T) -> Result<(), T> {
        match self.at(host) {
            Some(taken) => Err(taken.clone()),
            None => {
                self.replace(host, Some(value));
                Ok(())
            }
        }
    }

    /// The value of exactly this pattern.
    fn at(&self, host: &HostPattern) -> Option<&T> {
        match host {
            HostPattern::Any => self.any_host.as_ref(),
            HostPattern::Exact(name) => self.exact.get(name),
            HostPattern::Wildcard { suffix, span } => {
                self.wildcards.get(suffix)?[position_of(*span)].as_ref()
            }
        }
    }

    /// Replaces or removes the value of exactly this pattern, and returns the previous one.
    pub(crate) fn replace(&mut self, host: &HostPattern, value: Option<T>) -> Option<T> {
        match host {
            HostPattern::Any => std::mem::replace(&mut self.any_host, value),
            HostPattern::Exact(name) => match value {
                Some(value) => self.exact.insert(name.clone(), value),
                None => self.exact.remove(name),
            },
            HostPattern::Wildcard { suffix, span } => {
                let mut both = self.wildcards.get(suffix).cloned().unwrap_or([None, None]);
                let before = std::mem::replace(&mut both[position_of(*span)], value);
                match both {
                    [None, None] => self.wildcards.remove(suffix),
                    both => self.wildcards.insert(suffix.clone(), both),
                };
                before
            }
        }
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty() && self.any_host.is_none()
    }

    fn map<U: Clone>(&self, mut to: impl FnMut(&T) -> U) -> ByName<U> {
        ByName {
            exact: self.exact.iter().map(|(name, value)| (name.clone(), to(value))).collect(),
            wildcards: self
                .wildcards
                .iter()
                .map(|(suffix, both)| (suffix.clone(), both.each_ref().map(|one| one.as_ref().map(&mut to))))
                .collect(),
            any_host: self.any_host.as_ref().map(&mut to),
        }
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.exact.values().chain(self.wildcards.values().flatten().flatten()).chain(&self.any_host)
    }
}

/// The index of the values of a suffix.
fn position_of(span: WildcardSpan) -> usize {
    match span {
        WildcardSpan::OneLabel => 0,
        WildcardSpan::ManyLabels => 1,
    }
}

impl<T: Clone> Default for ByName<T> {
    fn default() -> Self {
        Self { exact: OrdMap::new(), wildcards: OrdMap::new(), any_host: None }
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{ClientCertificateMode, ClientVerification, ListenerTls};

    use super::*;

    const PORT: &str = "0.0.0.0:8443";

    fn listener(name: &str, protocol: ListenerProtocol, host: &str) -> Listener {
        let host = HostPattern::parse(host, WildcardSpan::ManyLabels).unwrap();
        Listener { bind: vec![PORT.parse().unwrap()], host, ..Listener::new(name, protocol, 443, "table") }
    }

    fn ports(listeners: impl IntoIterator<Item = Listener>) -> Ports {
        let named = listeners.into_iter().map(|listener| (listener.name.clone(), Arc::new(listener)));
        Ports::from_listeners(&named.collect(), Http3Rules::from_settings(&DownstreamSettings::default()))
    }

    /// The same with HTTP/3 settings.
    fn ports_with(
        listeners: impl IntoIterator<Item = Listener>,
        settings: impl FnOnce(&mut DownstreamSettings),
    ) -> Ports {
        let named = listeners.into_iter().map(|listener| (listener.name.clone(), Arc::new(listener)));
        let mut downstream = DownstreamSettings::default();
        settings(&mut downstream);
        Ports::from_listeners(&named.collect(), Http3Rules::from_settings(&downstream))
    }

    fn offered(settings: &mut DownstreamSettings) {
        settings.http3.offered = true;
    }

    /// The listener for a QUIC client, with a `!` if it is closed; `None` without QUIC.
    fn chosen_over_quic(ports: &Ports, name: &str) -> Option<String> {
        let by_name = ports.by_key.iter().find_map(|(key, port)| match port {
            Port::Quic(by_name) if key.transport == PortProtocol::Udp => Some(by_name),
            _ => None,
        })?;
        Some(match by_name.choose(Some(name))? {
            PortListener::Served(listener) => listener.name.to_string(),
            PortListener::Closed(listener) => format!("{}!", listener.name),
        })
    }

    /// The listener for a client, with a `!` if it is closed.
    fn describe_choice(ports: &Ports, name: Option<&str>) -> String {
        let [Port::Tls(by_name)] = ports.by_key.values().collect::<Vec<_>>()[..] else { panic!("{ports:?}") };
        match by_name.choose(name) {
            Some(PortListener::Served(listener)) => listener.name.to_string(),
            Some(PortListener::Closed(listener)) => format!("{}!", listener.name),
            None => "none".to_owned(),
        }
    }

    fn problems(ports: &Ports) -> Vec<String> {
        ports.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_exact_name_is_chosen_then_the_longest_wildcard_then_the_catch_all() {
        let mut one_label = listener("one-label", ListenerProtocol::Https, "*.one.test");
        one_label.host = HostPattern::parse("*.one.test", WildcardSpan::OneLabel).unwrap();
        let all = [
            listener("exact", ListenerProtocol::Https, "a.b.test"),
            listener("long", ListenerProtocol::Https, "*.b.test"),
            listener("short", ListenerProtocol::Https, "*.test"),
            one_label,
            listener("every", ListenerProtocol::Https, ""),
        ];
        let with = ports(all.clone());
        let without = ports(all[..4].iter().cloned());
        for (name, listener, otherwise) in [
            (Some("a.b.test"), "exact", "exact"),
            (Some("x.b.test"), "long", "long"),
            (Some("x.a.b.test"), "long", "long"),
            (Some("b.test"), "short", "short"),
            (Some("x.one.test"), "one-label", "one-label"),
            (Some("y.x.one.test"), "short", "short"),
            (Some("test"), "every", "none"),
            (Some(".test"), "every", "none"),
            (Some("elsewhere.org"), "every", "none"),
            (None, "every", "none"),
        ] {
            assert_eq!(describe_choice(&with, name), listener, "{name:?}");
            assert_eq!(describe_choice(&without, name), otherwise, "{name:?}");
        }
        assert_eq!(problems(&with), Vec::<String>::new());
    }

    #[test]
    fn listeners_with_tls_share_an_address_wherever_it_terminates() {
        let verifying = ListenerTls {
            clients: Some(ClientVerification {
                roots: "".into(),
                revoked: "".into(),
                depth: None,
                demand: ClientCertificateMode::Optional,
            }),
            ..ListenerTls::default()
        };
        let ports = ports([
            listener("web", ListenerProtocol::Https, ""),
            listener("pass", ListenerProtocol::TlsPassthrough, "pass.test"),
            listener("inner", ListenerProtocol::Tls, "*.db.test"),
            Listener { tls: verifying, ..listener("mutual", ListenerProtocol::Https, "mutual.test") },
        ]);
        for (name, listener) in
            [("pass.test", "pass"), ("x.db.test", "inner"), ("mutual.test", "mutual"), ("x.test", "web")]
        {
            assert_eq!(describe_choice(&ports, Some(name)), listener);
        }
        assert_eq!(problems(&ports), Vec::<String>::new());
    }

    #[test]
    fn a_removed_pattern_leaves_others_of_its_suffix() {
        let pattern = |host: &str, span| HostPattern::parse(host, span).unwrap();
        let narrow = pattern("*.a.test", WildcardSpan::OneLabel);
        let many = pattern("*.a.test", WildcardSpan::ManyLabels);
        let mut names = ByName::default();
        assert_eq!((names.replace(&narrow, Some(1)), names.replace(&many, Some(2))), (None, None));
        let before = names.clone();
        assert_eq!((names.choose(Some("x.a.test")), names.choose(Some("y.x.a.test"))), (Some(&1), Some(&2)));
        assert_eq!(names.replace(&narrow, None), Some(1));
        assert_eq!((names.choose(Some("x.a.test")), names.is_empty()), (Some(&2), false));
        assert_eq!((names.replace(&many, None), names.is_empty()), (Some(2), true));
        assert_eq!(before.choose(Some("x.a.test")), Some(&1), "a copy does not change");
    }

    #[test]
    fn an_address_is_shared_by_tls_only_and_each_name_is_of_the_first_listener() {
        let ports = ports([
            listener("a", ListenerProtocol::Https, "a.test"),
            listener("b", ListenerProtocol::Https, "a.test"),
            listener("c", ListenerProtocol::Http, ""),
            listener("d", ListenerProtocol::Tcp, ""),
        ]);
        assert_eq!(describe_choice(&ports, Some("a.test")), "a");
        let refusal = "0.0.0.0:8443 is taken by the listener a; the listener is not served at this address";
        assert_eq!(
            problems(&ports),
            [
                format!("Listener b: {refusal}"),
                format!("Listener c: {refusal}"),
                format!("Listener d: {refusal}"),
            ]
        );
    }

    #[test]
    fn a_number_may_be_a_port_of_tcp_and_one_of_udp() {
        let ports = ports([
            listener("dns-tcp", ListenerProtocol::Tcp, ""),
            listener("dns-udp", ListenerProtocol::Udp, ""),
            listener("other", ListenerProtocol::Udp, ""),
        ]);
        let [(tcp, Port::Stream(stream)), (udp, Port::Datagrams(datagrams))] =
            ports.by_key.iter().collect::<Vec<_>>()[..]
        else {
            panic!("{ports:?}")
        };
        assert_eq!(
            (tcp.transport, udp.transport, tcp.address),
            (PortProtocol::Tcp, PortProtocol::Udp, udp.address)
        );
        assert_eq!((&*stream.listener().name, &*datagrams.listener().name), ("dns-tcp", "dns-udp"));
        let refusal =
            "0.0.0.0:8443 is taken by the listener dns-udp; the listener is not served at this address";
        assert_eq!(problems(&ports), [format!("Listener other: {refusal}")]);
    }

    #[test]
    fn listeners_that_share_an_address_are_introduced_in_one_way() {
        let introduced = |name: &str, introduction| {
            let mut listener = listener(name, ListenerProtocol::Tls, &format!("{name}.test"));
            listener.clients.proxy_protocol = introduction;
            listener
        };
        let header = || Some(ProxyProtocolMode::Required { trusted: Vec::new() });
        let all = ports([
            introduced("a", None),
            introduced("b", header()),
            introduced("c", header()),
            introduced("d", Some(ProxyProtocolMode::None)),
        ]);
        assert_eq!(all.by_key.values().next().and_then(Port::introduction), header().as_ref());
        let [problem] = &problems(&all)[..] else { panic!("{all:?}") };
        assert!(
            problem.starts_with("Listener d: the listener d: connections to its address begin as"),
            "{problem}"
        );
        assert_eq!(describe_choice(&all, Some("d.test")), "d", "it is served all the same");
    }

    #[test]
    fn http3_is_off_unless_the_settings_or_the_listener_say_so() {
        let web = || listener("web", ListenerProtocol::Https, "");
        let saying = |http3| {
            let mut listener = web();
            listener.clients.http3 = http3;
            listener
        };
        let on = Some("web".to_owned());
        for (own, everywhere, expected) in [
            (None, false, None),
            (None, true, on.clone()),
            (Some(true), false, on),
            (Some(false), true, None),
        ] {
            let ports = ports_with([saying(own)], |settings| settings.http3.offered = everywhere);
            assert_eq!(chosen_over_quic(&ports, "x.test"), expected, "{own:?} {everywhere}");
            assert_eq!(ports.by_key.len(), 1 + usize::from(expected.is_some()));
            assert_eq!(problems(&ports), Vec::<String>::new());
        }
    }

    #[test]
    fn a_port_of_quic_has_the_address_of_its_port_of_tls() {
        let free = Listener {
            bind: vec!["127.0.0.1:0".parse().unwrap(), "[::1]:8443".parse().unwrap()],
            ..listener("web", ListenerProtocol::Https, "")
        };
        let ports = ports_with([free, listener("plain", ListenerProtocol::Http, "")], offered);
        let ports_of = |transport| {
            let keys = ports.by_key.keys().filter(move |key| key.transport == transport);
            keys.map(|key| (key.address, key.owner.clone())).collect::<Vec<_>>()
        };
        let plain = (PORT.parse().unwrap(), None);
        assert_eq!(ports_of(PortProtocol::Tcp).len(), 3);
        assert!(
            ports_of(PortProtocol::Tcp).contains(&plain) && !ports_of(PortProtocol::Udp).contains(&plain)
        );
        assert_eq!(ports_of(PortProtocol::Udp).len(), 2);
        assert!(ports_of(PortProtocol::Udp).iter().all(|key| ports_of(PortProtocol::Tcp).contains(key)));
    }

    #[test]
    fn names_without_http3_are_closed_over_quic() {
        let mut without = listener("without", ListenerProtocol::Https, "without.test");
        without.clients.http3 = Some(false);
        let ports = ports_with(
            [
                listener("web", ListenerProtocol::Https, ""),
                listener("pass", ListenerProtocol::TlsPassthrough, "pass.test"),
                listener("inner", ListenerProtocol::Tls, "*.db.test"),
                without,
            ],
            offered,
        );
        for (name, expected) in
            [("x.test", "web"), ("pass.test", "pass!"), ("x.db.test", "inner!"), ("without.test", "without!")]
        {
            assert_eq!(chosen_over_quic(&ports, name).as_deref(), Some(expected));
        }
        assert_eq!(problems(&ports), Vec::<String>::new());
        let alone = ports_with([listener("pass", ListenerProtocol::TlsPassthrough, "")], offered);
        assert_eq!(chosen_over_quic(&alone, "x.test"), None);
    }

    #[test]
    fn a_listener_of_udp_keeps_its_port_from_http3() {
        let ports = ports_with(
            [
                listener("b", ListenerProtocol::Https, "b.test"),
                listener("a", ListenerProtocol::Https, "a.test"),
                listener("dns", ListenerProtocol::Udp, ""),
            ],
            offered,
        );
        let problem = |name| {
            format!(
                "Listener {name}: the listener {name} has no HTTP/3 at {PORT}: its UDP port is taken by the listener dns; it \
                 serves HTTP/1.1 and HTTP/2 there"
            )
        };
        assert_eq!(problems(&ports), [problem("a"), problem("b")]);
        let transports: Vec<_> = ports.by_key.iter().map(|(key, port)| (key.transport, port)).collect();
        assert!(matches!(
            transports[..],
            [(PortProtocol::Tcp, Port::Tls(_)), (PortProtocol::Udp, Port::Datagrams(_))]
        ));
    }

    #[test]
    fn there_is_no_http3_behind_the_proxy_protocol_or_without_tls_1_3() {
        let introduced = |introduction| {
            let mut listener = listener("web", ListenerProtocol::Https, "");
            listener.clients.proxy_protocol = introduction;
            listener
        };
        let header = || Some(ProxyProtocolMode::Required { trusted: Vec::new() });
        let by_flags = |settings: &mut DownstreamSettings| {
            settings.http3 =
                Http3Settings { offered: true, behind_proxy_protocol: true, ..Http3Settings::default() };
        };
        for ports in [ports_with([introduced(header())], offered), ports_with([introduced(None)], by_flags)] {
            assert_eq!(chosen_over_quic(&ports, "x.test"), None);
            let [problem] = &problems(&ports)[..] else { panic!("{ports:?}") };
            assert!(problem.contains("has no HTTP/3 at 0.0.0.0:8443: its connections begin with the PROXY"));
        }
        let says_none = ports_with([introduced(Some(ProxyProtocolMode::None))], by_flags);
        assert_eq!(chosen_over_quic(&says_none, "x.test").as_deref(), Some("web"));
        let old = ports_with([introduced(None)], |settings| {
            settings.http3.offered = true;
            settings.tls_versions = TlsVersions::Only12;
        });
        assert_eq!(chosen_over_quic(&old, "x.test"), None);
        assert!(problems(&old)[0].contains("QUIC needs TLS 1.3, which is switched off"), "{old:?}");
    }

    #[test]
    fn free_ports_are_never_shared() {
        let free = |name| Listener {
            bind: vec!["127.0.0.1:0".parse().unwrap()],
            ..listener(name, ListenerProtocol::Https, "")
        };
        let ports = ports([free("a"), free("b")]);
        assert_eq!((ports.by_key.len(), ports.problems.len()), (2, 0));
    }
}
