//! The digest of a configuration: equal on every replica that serves the same content, whatever the order of changes. Updated at
//! a cost proportional to the change.
//!
//! Every entry (host, backend, certificate, listener, stream) is hashed separately and the hashes are added lane by lane, so that
//! an entry can be removed again. The digest is public, and whoever knows the rest of a configuration could guess a secret in it:
//! secrets are therefore not hashed. It does not resist deliberate collisions: whoever can write entries serves traffic anyway.

use std::fmt;
use std::io::{self, Write};

use aws_lc_rs::digest::{Context, SHA256};
use fairway_model::{Certificate, Config, Listener, VirtualHost};
use imbl::ordmap::DiffItem;
use serde::{Serialize, Serializer};

/// A digest of a configuration, printed as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest([u64; 2]);

/// The sum over all entries, updated incrementally.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningDigest {
    entries: Digest,
    /// Whether secrets are hashed.
    is_complete: bool,
}

/// The digest of everything serialized of a configuration, header values included: for files that contain it, never published.
#[must_use]
pub(crate) fn config_digest(config: &Config) -> Digest {
    RunningDigest { is_complete: true, ..RunningDigest::default() }.update(&Config::default(), config)
}

/// The same for a configuration whose hosts are known only in serialized form.
pub(crate) fn config_and_hosts_digest<'h>(config: &Config, hosts: impl Iterator<Item = &'h str>) -> Digest {
    let mut digest = config_digest(config);
    for host in hosts {
        let mut hashing = Hashing(Context::new(&SHA256));
        hashing.0.update(b"host");
        hashing.0.update(host.as_bytes());
        digest.add(finish(hashing));
    }
    digest
}

impl RunningDigest {
    /// The digest of `new`, after `old` was the last configuration (initially an empty one).
    pub(crate) fn update(&mut self, old: &Config, new: &Config) -> Digest {
        let of_host = if self.is_complete { full_host_digest } else { public_host_digest };
        self.update_entries(old.hosts.diff(&new.hosts), |host| of_host(host));
        self.update_entries(old.backends.diff(&new.backends), |backend| entry_digest("backend", backend));
        self.update_entries(old.certificates.diff(&new.certificates), |certificate| {
            certificate_digest(certificate)
        });
        self.update_entries(old.listeners.diff(&new.listeners), |listener| listener_digest(listener));
        self.update_entries(old.streams.diff(&new.streams), |stream| entry_digest("stream", stream));
        let mut sum = self.entries;
        sum.add(entry_digest("rest", &(&new.default_certificate, &new.settings)));
        sum
    }

    fn update_entries<'a, K: 'a, V: 'a>(
        &mut self,
        difference: impl Iterator<Item = DiffItem<'a, 'a, K, V>>,
        hash: impl Fn(&V) -> Digest,
    ) {
        for item in difference {
            match item {
                DiffItem::Add(_, new) => self.entries.add(hash(new)),
                DiffItem::Remove(_, old) => self.entries.subtract(hash(old)),
                DiffItem::Update { old: (_, old), new: (_, new) } => {
                    self.entries.subtract(hash(old));
                    self.entries.add(hash(new));
                }
            }
        }
    }
}

impl Digest {
    /// As a number that fits a double exactly: equal for equal digests, and hardly ever for others.
    pub(crate) fn number(self) -> u64 {
        self.0[0] >> 12
    }

    fn add(&mut self, other: Self) {
        for (lane, more) in self.0.iter_mut().zip(other.0) {
            *lane = lane.wrapping_add(more);
        }
    }

    fn subtract(&mut self, other: Self) {
        for (lane, less) in self.0.iter_mut().zip(other.0) {
            *lane = lane.wrapping_sub(less);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Feeds serialized data to the hash.
struct Hashing(Context);

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entry_digest(kind: &str, value: &impl Serialize) -> Digest {
    finish(hash_entry(kind, value))
}

fn full_host_digest(host: &VirtualHost) -> Digest {
    entry_digest("host", host)
}

fn public_host_digest(host: &VirtualHost) -> Digest {
    host.without_secrets().map_or_else(|| full_host_digest(host), |shown| full_host_digest(&shown))
}

/// The chain is not serialized with a certificate; the key belongs to the chain.
fn certificate_digest(certificate: &Certificate) -> Digest {
    let mut hashing = hash_entry("certificate", certificate);
    for der in &certificate.chain {
        hashing.0.update(der);
    }
    finish(hashing)
}

/// Replicas that serve the same may bind different addresses, for example those of their nodes.
fn listener_digest(listener: &Listener) -> Digest {
    entry_digest("listener", &Listener { bind: Vec::new(), ..listener.clone() })
}

fn hash_entry(kind: &str, value: &impl Serialize) -> Hashing {
    let mut hashing = Hashing(Context::new(&SHA256));
    hashing.0.update(kind.as_bytes());
    serde_json::to_writer(&mut hashing, value).expect("the values of the model can be written as JSON");
    hashing
}

fn finish(hashing: Hashing) -> Digest {
    let digest = hashing.0.finish();
    let lane = |at: usize| {
        let bytes = digest.as_ref()[at..at + 8].try_into().expect("SHA-256 has 32 bytes");
        u64::from_be_bytes(bytes)
    };
    Digest([lane(0), lane(8)])
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use fairway_model::{
        Action, Backend, BackendProtocol, BackendTraffic, Balancing, CertificateKey, HeaderEdit, HeaderField,
        HostKey, HostPattern, ListenerProtocol, Origin, PathForm, Phases, PrivateKey, RequestEdit, Route,
        Rule, RuleLabels, RuleOrder, ServiceName,
    };

    use super::*;

    fn certificate(name: &str, chain: &[u8]) -> Arc<Certificate> {
        Arc::new(Certificate {
            key: CertificateKey(name.into()),
            origin: Origin::object("Secret", "a", name),
            chain: vec![chain.into()],
            private_key: PrivateKey::default(),
            names: Vec::new(),
            not_after: 1,
            issued: Arc::default(),
        })
    }

    fn config(certificates: &[(&str, &[u8])]) -> Config {
        let entries = certificates.iter().map(|(name, chain)| certificate(name, chain));
        let certificates = entries.map(|it| (it.key.clone(), it)).collect();
        Config { certificates, ..Config::default() }
    }

    #[test]
    fn the_order_of_changes_does_not_matter() {
        let steps = [
            config(&[("x", b"1")]),
            config(&[("x", b"2"), ("y", b"1")]),
            config(&[("y", b"1"), ("z", b"3")]),
        ];
        let mut running = RunningDigest::default();
        let mut last = Config::default();
        for step in steps {
            let stepwise = running.update(&last, &step);
            assert_eq!(stepwise, config_digest(&step));
            last = step;
        }
    }

    #[test]
    fn a_secret_cannot_be_guessed_from_the_digest() {
        let with = |value: &str| {
            let field = HeaderField { name: "Authorization".into(), value: value.into() };
            let edit = HeaderEdit { set: vec![field], ..HeaderEdit::default() };
            let rule = Rule {
                origin: Origin::default(),
                matches: Vec::new(),
                phases: Phases::from(RequestEdit::Headers(edit)).shared(),
                action: Action::Forward(Vec::new()),
                policy: Arc::default(),
                labels: RuleLabels::default(),
            };
            let host = VirtualHost {
                key: HostKey { table: "t".into(), host: HostPattern::Any },
                order: RuleOrder::Listed,
                path_form: PathForm::Decoded,
                routes: vec![Arc::new(Route {
                    origin: Origin::default(),
                    created: None,
                    hostname_rank: 0,
                    rules: vec![rule],
                })],
                certificate: None,
                clients: None,
                suites: None,
                falls_through: false,
            };
            Config { hosts: [(host.key.clone(), Arc::new(host))].into_iter().collect(), ..Config::default() }
        };
        let shown = |value| RunningDigest::default().update(&Config::default(), &with(value));
        assert_eq!(shown("Basic one"), shown("Basic two"));
        assert_ne!(config_digest(&with("Basic one")), config_digest(&with("Basic two")));
    }

    #[test]
    fn the_table_of_a_listener_counts_and_its_addresses_do_not() {
        let with = |port: u16, table: &str| {
            let bind = vec![([127, 0, 0, 1], port).into()];
            let listener = Listener { bind, ..Listener::new("http", ListenerProtocol::Http, 80, table) };
            let listeners = [(listener.name.clone(), Arc::new(listener))].into_iter().collect();
            config_digest(&Config { listeners, ..Config::default() })
        };
        assert_eq!(with(80, "ingress"), with(8080, "ingress"));
        assert_ne!(with(80, "ingress"), with(80, "other"));
    }

    #[test]
    fn traffic_settings_of_listeners_and_backends_count() {
        let with = |connections: Option<NonZeroU32>, in_flight: Option<NonZeroU32>| {
            let mut listener = Listener::new("http", ListenerProtocol::Http, 80, "ingress");
            listener.clients.connections = connections;
            let backend = Backend {
                key: "a".into(),
                origin: Origin::object("Service", "a", "a"),
                service: ServiceName::default(),
                endpoints: Vec::new(),
                protocol: BackendProtocol::Http1,
                tls: None,
                balancing: Balancing::RoundRobin,
                session: None,
                traffic: BackendTraffic { in_flight, ..BackendTraffic::default() }.if_not_empty(),
            };
            let mut config = Config::default();
            config.listeners.insert(listener.name.clone(), Arc::new(listener));
            config.backends.insert(backend.key.clone(), Arc::new(backend));
            config_digest(&config)
        };
        let limit = Some(NonZeroU32::MIN);
        assert_eq!(with(limit, limit), with(limit, limit));
        assert_ne!(with(None, None), with(limit, None));
        assert_ne!(with(None, None), with(None, limit));
    }

    #[test]
    fn different_contents_have_different_digests() {
        let mut settings = config(&[("x", b"1")]);
        settings.settings.downstream.requests_per_connection = 7;
        let all =
            [config(&[]), config(&[("x", b"1")]), config(&[("x", b"2")]), config(&[("y", b"1")]), settings];
        let digests: std::collections::HashSet<_> = all
            .iter()
            .map(|config| RunningDigest::default().update(&Config::default(), config).to_string())
            .collect();
        assert_eq!(digests.len(), all.len());
        assert!(digests.iter().all(|digest| digest.len() == 32));
    }
}
