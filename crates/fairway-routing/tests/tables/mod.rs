//! Concise constructors of model values and requests for tests.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use fairway_model::{
    Action, Backend, BackendKey, BackendProtocol, Balancing, Config, Endpoint, HostKey, HostPattern,
    Listener, ListenerProtocol, Match, NamedValueMatch, Origin, PathForm, PathMatch, Route, Rule, RuleLabels,
    RuleOrder, ServiceName, TextMatch, VirtualHost, WeightedBackend, WildcardSpan,
};
use fairway_routing::oracle::OracleMatch;
use fairway_routing::{CompiledHost, Fields, Matched, Request, Snapshot, compile};

pub(crate) const TABLE: &str = "table";

/// The header fields of a test request.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestFields(pub(crate) Vec<(String, String)>);

impl Fields for TestFields {
    fn first(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_bytes())
    }
}

/// A request that owns its parts.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) normalised: String,
    pub(crate) decoded: String,
    pub(crate) query: String,
    pub(crate) fields: TestFields,
}

impl Ask {
    pub(crate) fn get(host: &str, path: &str) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self {
            host: host.to_owned(),
            method: "GET".to_owned(),
            normalised: path.to_owned(),
            decoded: path.to_owned(),
            query: query.to_owned(),
            fields: TestFields::default(),
        }
    }

    pub(crate) fn method(self, method: &str) -> Self {
        Self { method: method.to_owned(), ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.fields.0.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn request(&self) -> Request<'_, TestFields> {
        Request {
            host: &self.host,
            method: self.method.as_bytes(),
            normalised: self.normalised.as_bytes(),
            decoded: self.decoded.as_bytes(),
            query: self.query.as_bytes(),
            fields: &self.fields,
        }
    }
}

pub(crate) fn pattern(host: &str, span: WildcardSpan) -> HostPattern {
    HostPattern::parse(host, span).expect("tests name valid hosts")
}

pub(crate) fn host(name: &str, routes: Vec<Arc<Route>>) -> VirtualHost {
    VirtualHost {
        key: HostKey { table: TABLE.into(), host: pattern(name, WildcardSpan::OneLabel) },
        order: RuleOrder::Precedence,
        path_form: PathForm::Normalised,
        routes,
        certificate: None,
        clients: None,
        suites: None,
        falls_through: false,
    }
}

pub(crate) fn route(name: &str, created: Option<i64>, rules: Vec<Rule>) -> Arc<Route> {
    Arc::new(Route { origin: Origin::object("HTTPRoute", "ns", name), created, hostname_rank: 0, rules })
}

/// A rule that sends everything to the backend of its name.
pub(crate) fn rule(name: &str, matches: Vec<Match>) -> Rule {
    Rule {
        origin: Origin::object("HTTPRoute", "ns", name).at("spec.rules[0]"),
        matches,
        phases: Arc::default(),
        action: Action::Forward(vec![WeightedBackend::new(name.into(), 1)]),
        policy: Arc::default(),
        labels: RuleLabels::default(),
    }
}

pub(crate) fn exact(path: &str) -> Match {
    Match { path: PathMatch::Exact(path.into()), ..Match::default() }
}

pub(crate) fn prefix(path: &str) -> Match {
    Match { path: PathMatch::Prefix(path.into()), ..Match::default() }
}

pub(crate) fn regex(pattern: &str) -> Match {
    Match { path: PathMatch::Regex { pattern: pattern.into(), ignore_case: false }, ..Match::default() }
}

pub(crate) fn field(name: &str, value: &str) -> NamedValueMatch {
    NamedValueMatch { name: name.into(), value: TextMatch::Exact(value.into()) }
}

pub(crate) fn backend(name: &str, endpoints: u16) -> Arc<Backend> {
    let endpoint = |n: u16| Endpoint::at(([10, 0, 0, 1], 8000 + n).into());
    Arc::new(Backend {
        key: name.into(),
        origin: Origin::object("Service", "ns", name),
        service: ServiceName::default(),
        endpoints: (0..endpoints).map(endpoint).collect(),
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing: Balancing::RoundRobin,
        session: None,
        traffic: None,
    })
}

pub(crate) fn put_listener(config: &mut Config, name: &str, table: &str) {
    let listener = Listener::new(name, ListenerProtocol::Http, 80, table);
    config.listeners.insert(name.into(), Arc::new(listener));
}

pub(crate) fn config(hosts: Vec<VirtualHost>) -> Config {
    let mut config = Config::default();
    put_listener(&mut config, "http", TABLE);
    for host in hosts {
        put(&mut config, host);
    }
    config
}

pub(crate) fn put(config: &mut Config, host: VirtualHost) {
    config.hosts.insert(host.key.clone(), Arc::new(host));
}

pub(crate) fn put_backend(config: &mut Config, name: &str, endpoints: u16) {
    config.backends.insert(BackendKey::from(name), backend(name, endpoints));
}

/// The result of a lookup as the oracle's type.
pub(crate) fn oracle_match(matched: Matched<'_>) -> OracleMatch {
    let number = |host: &CompiledHost, id| {
        host.rules().iter().position(|rule| rule.id() == id).expect("the rule is one of the host")
    };
    match matched {
        Matched::Rule { host, rule, prefix } => {
            OracleMatch::Rule { host: host.key().clone(), rule: number(host, rule.id()), prefix }
        }
        Matched::NoRule(host) => OracleMatch::NoRule(host.key().clone()),
        Matched::NoHost => OracleMatch::NoHost,
    }
}

/// The backend that `ask` is forwarded to, named after its rule.
pub(crate) fn winner(snapshot: &Snapshot, ask: &Ask) -> String {
    let table = snapshot.table(TABLE).expect("a listener names the table");
    match snapshot.lookup(table, &ask.request()) {
        Matched::Rule { rule, .. } => match &rule.rule().action {
            Action::Forward(backends) => backends[0].backend.to_string(),
            Action::FixedResponse(answer) => answer.status.to_string(),
        },
        Matched::NoRule(host) => format!("no rule of {}", host.key().host),
        Matched::NoHost => "no host".to_owned(),
    }
}

/// The winning rule on a host with these rules, each in its own route.
pub(crate) fn winner_among(rules: Vec<Rule>, ask: &Ask) -> String {
    let routes =
        rules.into_iter().enumerate().map(|(n, rule)| route(&format!("r{n}"), None, vec![rule])).collect();
    winner(&compile(&config(vec![host("a.test", routes)]), None).snapshot, ask)
}
