//! Large configurations for benchmarks.
#![allow(dead_code, reason = "each bench uses its part")]

use std::sync::Arc;

use fairway_model::{
    Action, Backend, BackendKey, BackendProtocol, Balancing, Config, Endpoint, HostKey, HostPattern, Match,
    Origin, PathForm, PathMatch, Route, Rule, RuleLabels, RuleOrder, ServiceName, VirtualHost,
    WeightedBackend,
};
use fairway_routing::Fields;

pub(crate) const TABLE: &str = "ingress";

pub(crate) struct NoFields;

impl Fields for NoFields {
    fn first(&self, _: &str) -> Option<&[u8]> {
        None
    }
}

pub(crate) fn host_name(n: usize) -> String {
    format!("app-{n}.team-{}.example.com", n % 97)
}

pub(crate) fn path(n: usize) -> String {
    format!("/api/v{}/service-{n}", n % 7)
}

/// This many hosts with one catch-all rule.
pub(crate) fn hosts_with_a_rule(count: usize) -> Config {
    hosts(count, &["/"])
}

/// This many hosts with three paths.
pub(crate) fn hosts_with_three_paths(count: usize) -> Config {
    hosts(count, &["/", "/api", "/api/v1"])
}

fn hosts(count: usize, paths: &[&str]) -> Config {
    let mut config = Config::default();
    for n in 0..count {
        put_host(&mut config, n, paths);
        put_backend(&mut config, n, 3);
    }
    config
}

/// This many routes on one host.
pub(crate) fn one_host_with_paths(count: usize) -> Config {
    let rules = (0..count).map(|n| rule(n, &path(n))).collect();
    let mut config = Config::default();
    let host = host("paths.example.com", rules);
    config.hosts.insert(host.key.clone(), Arc::new(host));
    config
}

/// Replaces host `n` by one with a rule for each of `paths`.
pub(crate) fn put_host(config: &mut Config, n: usize, paths: &[&str]) {
    let host = host(&host_name(n), paths.iter().map(|path| rule(n, path)).collect());
    config.hosts.insert(host.key.clone(), Arc::new(host));
}

pub(crate) fn put_backend(config: &mut Config, n: usize, endpoints: u16) {
    let key = backend_key(n);
    let endpoint = |port: u16| Endpoint::at(([10, 0, 0, 1], 8000 + port).into());
    let backend = Backend {
        key: key.clone(),
        origin: Origin::object("Service", "ns", &key.0),
        service: ServiceName::default(),
        endpoints: (0..endpoints).map(endpoint).collect(),
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing: Balancing::RoundRobin,
        session: None,
        traffic: None,
    };
    config.backends.insert(key, Arc::new(backend));
}

/// A pseudo-random permutation of the numbers below `count`.
pub(crate) fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for place in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.swap(place, state as usize % (place + 1));
    }
    numbers.into_iter()
}

fn backend_key(n: usize) -> BackendKey {
    BackendKey(format!("ns/service-{n}:80").into())
}

fn host(name: &str, rules: Vec<Rule>) -> VirtualHost {
    VirtualHost {
        key: HostKey { table: TABLE.into(), host: HostPattern::Exact(name.into()) },
        order: RuleOrder::Precedence,
        path_form: PathForm::Decoded,
        routes: vec![Arc::new(Route {
            origin: Origin::object("Ingress", "ns", name),
            created: None,
            hostname_rank: 0,
            rules,
        })],
        certificate: None,
        clients: None,
        suites: None,
        falls_through: false,
    }
}

fn rule(n: usize, path: &str) -> Rule {
    Rule {
        origin: Origin::default(),
        matches: vec![Match { path: PathMatch::Prefix(path.into()), ..Match::default() }],
        phases: Arc::default(),
        action: Action::Forward(vec![WeightedBackend::new(backend_key(n), 1)]),
        policy: Arc::default(),
        labels: RuleLabels::default(),
    }
}
