//! Generates probes from a configuration: for each rule, its path, the boundaries of its path type, CORS, and each header and
//! cookie that it mentions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fairway_model::{
    Config, CorsOrigin, Guard, HostPattern, ListenerProtocol, Match, PathMatch, Rule, RuleStep, VirtualHost,
};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};

use crate::address::Schemes;
use crate::located::is_of_object;
use crate::probe::{Probe, ProbeKind, Purpose, Scheme};
use crate::sample::{self, UNKNOWN_NAME};

/// An origin that no object allows by name.
const UNKNOWN_ORIGIN: &str = "https://fairway-compare.invalid";

/// Probes without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The probes in the order of the hosts.
    pub(crate) probes: Vec<Probe>,
    /// Number of probes that cannot be sent as valid requests.
    pub(crate) invalid: usize,
    /// Whether any probe comes from a rule of an object.
    pub(crate) is_of_objects: bool,
    seen_ids: HashSet<String>,
}

/// The host and schemes of a rule's probes.
struct ProbeTarget<'h> {
    host: &'h VirtualHost,
    name: Arc<str>,
    schemes: Schemes,
    /// The scheme for most probes: https if the host has a certificate.
    main: Scheme,
}

/// Generates all probes of a configuration.
pub(crate) fn collect_probes(config: &Config, schemes: Schemes) -> Collected {
    let mut all = Collected::default();
    let mut tables: HashMap<&str, TableListeners> = HashMap::new();
    for listener in config.listeners.values() {
        for table in listener.tables() {
            let served = tables.entry(table).or_default();
            served.http |= listener.protocol == ListenerProtocol::Http;
            served.https |= listener.protocol == ListenerProtocol::Https;
        }
    }
    let mut catches_all = false;
    for host in config.hosts.values() {
        let served = tables.get(&*host.key.table).copied().unwrap_or_default();
        let Some(schemes) = served.restrict_to(schemes) else { continue };
        catches_all |= host.key.host == HostPattern::Any;
        let rules = || host.routes.iter().flat_map(|route| &route.rules);
        all.is_of_objects |= rules().any(is_of_object);
        all.add_host(host, schemes, served.https && !served.http);
    }
    if !catches_all && !all.probes.is_empty() {
        all.add_unknown_host(schemes);
    }
    all
}

/// The listeners of a table.
#[derive(Clone, Copy, Debug, Default)]
struct TableListeners {
    http: bool,
    https: bool,
}

impl TableListeners {
    /// The schemes in `schemes` that have a listener.
    fn restrict_to(self, schemes: Schemes) -> Option<Schemes> {
        match (self.http && schemes.has(Scheme::Http), self.https && schemes.has(Scheme::Https)) {
            (true, true) => Some(Schemes::Both),
            (true, false) => Some(Schemes::Http),
            (false, true) => Some(Schemes::Https),
            (false, false) => None,
        }
    }
}

impl Collected {
    /// Adds a probe unless it is a duplicate.
    pub(crate) fn add(&mut self, probe: Probe) {
        if !is_valid_request(&probe) {
            self.invalid += 1;
        } else if self.seen_ids.insert(format!("{:?}", probe.dedup_key())) {
            self.probes.push(probe);
        }
    }

    /// `has_tls`: whether the host is only reachable over TLS, with the certificate of its listener.
    fn add_host(&mut self, host: &VirtualHost, schemes: Schemes, has_tls: bool) {
        let main_scheme = if host.certificate.is_some() || has_tls { Scheme::Https } else { Scheme::Http };
        let target = ProbeTarget {
            host,
            name: name_of(&host.key.host),
            schemes,
            main: schemes.preferred(main_scheme),
        };
        if schemes.has(Scheme::Https) {
            self.add(Probe::handshake(&target.name));
        }
        for rule in host.routes.iter().flat_map(|route| &route.rules) {
            for matched in &rule.matches {
                self.add_match(&target, rule, matched);
            }
            for matched in denied_matches(rule) {
                self.add_denied(&target, rule, matched);
            }
        }
        self.add(target.request(ProbeKind::Get, &format!("/{UNKNOWN_NAME}-no-such-path"), Purpose::NoRule));
    }

    fn add_match(&mut self, probe_target: &ProbeTarget<'_>, rule: &Rule, route_match: &Match) {
        if !is_of_object(rule) {
            return self.add(probe_target.request(ProbeKind::Get, "/", Purpose::NoRule));
        }
        let paths = sample::paths(&route_match.path, probe_target.host.path_form);
        let Some(first) = paths.first() else { return };
        let (first, without) = (with_query(first, route_match), first);
        if let Some(method) = &route_match.method {
            return self.add_method(probe_target, method, route_match, &first);
        }
        if !route_match.query.is_empty() {
            self.add(probe_target.request(ProbeKind::Get, without, Purpose::Query));
        }
        if !(route_match.headers.is_empty() && route_match.cookies.is_empty()) {
            return self.add_conditions(probe_target, route_match, &first);
        }
        for scheme in probe_target.schemes.all() {
            self.add(Probe::request(scheme, &probe_target.name, ProbeKind::Get, &first, Purpose::Path));
        }
        self.add(probe_target.request(ProbeKind::Head, &first, Purpose::Path));
        for path in &paths[1..] {
            self.add(probe_target.request(ProbeKind::Get, &with_query(path, route_match), Purpose::PathType));
        }
        self.add_cors(probe_target, rule, &first);
        if rule.phases.steps().any(changes_the_target) {
            let sign = if first.contains('?') { '&' } else { '?' };
            let target = format!("{first}{sign}{UNKNOWN_NAME}=1");
            for scheme in probe_target.schemes.all() {
                self.add(Probe::request(scheme, &probe_target.name, ProbeKind::Get, &target, Purpose::Query));
            }
        }
    }

    /// Adds probes with the method of a match, if it is safe, and with another method.
    fn add_method(
        &mut self,
        probe_target: &ProbeTarget<'_>,
        method: &str,
        route_match: &Match,
        target: &str,
    ) {
        let headers: Vec<_> =
            route_match.headers.iter().map(|it| (it.name.to_string(), sample::value(&it.value))).collect();
        match [ProbeKind::Get, ProbeKind::Head, ProbeKind::Options]
            .into_iter()
            .find(|kind| kind.method() == Some(method))
        {
            Some(kind) => {
                self.add(
                    probe_target.request(kind, target, Purpose::Method).with_headers(fields(&headers, &[])),
                );
            }
            None => self.invalid += 1,
        }
        let other = if method == "GET" { ProbeKind::Options } else { ProbeKind::Get };
        self.add(probe_target.request(other, target, Purpose::Method).with_headers(fields(&headers, &[])));
    }

    /// Adds probes with the required headers and cookies, and with another value for each.
    fn add_conditions(&mut self, probe_target: &ProbeTarget<'_>, route_match: &Match, target: &str) {
        let headers: Vec<_> =
            route_match.headers.iter().map(|it| (it.name.to_string(), sample::value(&it.value))).collect();
        let cookies: Vec<_> =
            route_match.cookies.iter().map(|it| (it.name.to_string(), sample::value(&it.value))).collect();
        let purpose = if headers.is_empty() { Purpose::Cookie } else { Purpose::Header };
        self.add(
            probe_target.request(ProbeKind::Get, target, purpose).with_headers(fields(&headers, &cookies)),
        );
        for at in 0..headers.len() {
            let other = with_other(&headers, at);
            self.add(
                probe_target
                    .request(ProbeKind::Get, target, Purpose::Header)
                    .with_headers(fields(&other, &cookies)),
            );
        }
        for at in 0..cookies.len() {
            let other = with_other(&cookies, at);
            self.add(
                probe_target
                    .request(ProbeKind::Get, target, Purpose::Cookie)
                    .with_headers(fields(&headers, &other)),
            );
        }
    }

    /// Adds a request that the rule refuses. If the condition matches every path, it uses the path of the rule.
    fn add_denied(&mut self, probe_target: &ProbeTarget<'_>, rule: &Rule, route_match: &Match) {
        let path = match (&route_match.path, rule.matches.first()) {
            (PathMatch::Prefix(path), Some(own)) if **path == *"/" => &own.path,
            (path, _) => path,
        };
        let Some(first) = sample::paths(path, probe_target.host.path_form).into_iter().next() else { return };
        self.add_conditions(probe_target, route_match, &with_query(&first, route_match));
    }

    fn add_cors(&mut self, probe_target: &ProbeTarget<'_>, rule: &Rule, target: &str) {
        let cors = rule.phases.guards.iter().find_map(|guard| match guard {
            Guard::Preflight(cors) => Some(cors),
            _ => None,
        });
        let mut origins = vec![UNKNOWN_ORIGIN.to_owned()];
        origins.extend(cors.iter().flat_map(|cors| &cors.origins).filter_map(allowed_origin));
        origins.dedup();
        for origin in origins {
            let from = ("origin".to_owned(), origin);
            let method = ("access-control-request-method".to_owned(), "GET".to_owned());
            let preflight = probe_target.request(ProbeKind::Options, target, Purpose::Cors);
            self.add(preflight.with_headers([from.clone(), method]));
            if cors.is_some() {
                self.add(probe_target.request(ProbeKind::Get, target, Purpose::Cors).with_headers([from]));
            }
        }
    }

    /// Adds probes for a host that no object mentions.
    fn add_unknown_host(&mut self, schemes: Schemes) {
        let name = name_of(&HostPattern::Any);
        if schemes.has(Scheme::Https) {
            self.add(Probe::handshake(&name));
        }
        for scheme in schemes.all() {
            self.add(Probe::request(scheme, &name, ProbeKind::Get, "/", Purpose::NoRule));
        }
    }
}

impl ProbeTarget<'_> {
    fn request(&self, kind: ProbeKind, target: &str, purpose: Purpose) -> Probe {
        Probe::request(self.main, &self.name, kind, target, purpose)
    }
}

/// A name that the pattern covers.
pub(crate) fn name_of(host: &HostPattern) -> Arc<str> {
    match host {
        HostPattern::Exact(name) => Arc::clone(name),
        HostPattern::Wildcard { suffix, .. } => format!("{UNKNOWN_NAME}.{suffix}").into(),
        HostPattern::Any => format!("{UNKNOWN_NAME}.invalid").into(),
    }
}

/// An origin that matches an allowed one.
fn allowed_origin(origin: &CorsOrigin) -> Option<String> {
    match origin {
        CorsOrigin::Any => None,
        CorsOrigin::Exact(origin) => Some(origin.to_string()),
        CorsOrigin::OneLabel { before, after } => {
            let before = if before.is_empty() { "https://" } else { &**before };
            Some(format!("{before}{UNKNOWN_NAME}{after}"))
        }
        CorsOrigin::Wildcard { before, after } => Some(format!("{before}{UNKNOWN_NAME}{after}")),
    }
}

/// The matches that the rule's guards refuse.
fn denied_matches(rule: &Rule) -> impl Iterator<Item = &Match> {
    rule.phases.guards.iter().flat_map(|guard| match guard {
        Guard::Deny(deny) => deny.when.as_slice(),
        _ => &[],
    })
}

fn changes_the_target(step: RuleStep<'_>) -> bool {
    matches!(step, RuleStep::Guard(Guard::HttpsRedirect(_) | Guard::Redirect(_)) | RuleStep::Path(_))
}

fn with_query(path: &str, route_match: &Match) -> String {
    let pairs = route_match.query.iter().map(|it| {
        format!("{}={}", sample::query_part(&it.name), sample::query_part(&sample::value(&it.value)))
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

fn with_other(pairs: &[(String, String)], at: usize) -> Vec<(String, String)> {
    let mut other = pairs.to_vec();
    if let Some((_, value)) = other.get_mut(at) {
        UNKNOWN_NAME.clone_into(value);
    }
    other
}

fn fields(headers: &[(String, String)], cookies: &[(String, String)]) -> Vec<(String, String)> {
    let mut fields = headers.to_vec();
    if !cookies.is_empty() {
        let pairs: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        fields.push(("cookie".to_owned(), pairs.join("; ")));
    }
    fields
}

/// Whether a probe can be sent as a valid request.
pub(crate) fn is_valid_request(probe: &Probe) -> bool {
    let target = probe.kind == ProbeKind::Handshake
        || (probe.target.starts_with('/') && PathAndQuery::try_from(probe.target.as_str()).is_ok());
    let field = |(name, value): &(String, String)| {
        HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
    };
    target && HeaderValue::from_str(&probe.host).is_ok() && probe.fields.iter().all(field)
}

#[cfg(test)]
mod tests {
    use fairway_model::{
        Action, CertificateKey, Cors, CorsMode, FixedResponse, FixedResponseReason, HostKey, Listener,
        NamedValueMatch, Origin, PathForm, Phases, Route, RuleLabels, RuleOrder, TextMatch,
    };

    use super::*;

    fn rule(matches: Vec<Match>, phases: Phases) -> Rule {
        Rule {
            origin: Origin::object("Ingress", "a", "web").at("spec.rules[0]"),
            matches,
            phases: phases.shared(),
            action: Action::FixedResponse(FixedResponse {
                status: 404,
                reason: FixedResponseReason::NoRoute,
            }),
            policy: Arc::default(),
            labels: RuleLabels::default(),
        }
    }

    fn prefix(path: &str) -> Match {
        Match { path: PathMatch::Prefix(path.into()), ..Match::default() }
    }

    fn config(certificate: Option<CertificateKey>, rules: Vec<Rule>) -> Config {
        let key = HostKey { table: "ingress".into(), host: HostPattern::Exact("a.test".into()) };
        let route =
            Route { origin: Origin::object("Ingress", "a", "web"), created: None, hostname_rank: 0, rules };
        let host = VirtualHost {
            key: key.clone(),
            order: RuleOrder::Precedence,
            path_form: PathForm::Normalised,
            routes: vec![Arc::new(route)],
            certificate,
            clients: None,
            suites: None,
            falls_through: false,
        };
        let mut config = Config::default();
        for (name, protocol, port) in
            [("http", ListenerProtocol::Http, 80), ("https", ListenerProtocol::Https, 443)]
        {
            config.listeners.insert(name.into(), Arc::new(Listener::new(name, protocol, port, "ingress")));
        }
        config.hosts.insert(key, Arc::new(host));
        config
    }

    fn probe_urls(config: &Config, schemes: Schemes) -> Vec<String> {
        collect_probes(config, schemes).probes.iter().map(Probe::to_string).collect()
    }

    #[test]
    fn a_plain_rule_is_probed_on_its_path_its_boundaries_and_with_a_preflight() {
        let found =
            probe_urls(&config(None, vec![rule(vec![prefix("/a")], Phases::default())]), Schemes::Both);
        assert_eq!(
            found,
            [
                "TLS handshake for a.test",
                "GET http://a.test/a",
                "GET https://a.test/a",
                "HEAD http://a.test/a",
                "GET http://a.test/a/",
                "GET http://a.test/a/fairway-compare",
                "GET http://a.test/a-fairway-compare",
                "OPTIONS http://a.test/a (origin: https://fairway-compare.invalid, access-control-request-method: GET)",
                "GET http://a.test/fairway-compare-no-such-path",
                "TLS handshake for fairway-compare.invalid",
                "GET http://fairway-compare.invalid/",
                "GET https://fairway-compare.invalid/",
            ]
        );
    }

    #[test]
    fn a_host_with_a_certificate_is_probed_over_tls_unless_only_http_is_requested() {
        let config = config(Some("a/cert".into()), vec![rule(vec![prefix("/")], Phases::default())]);
        let found = probe_urls(&config, Schemes::Both);
        assert!(found.contains(&"HEAD https://a.test/".to_owned()), "{found:?}");
        let plain = probe_urls(&config, Schemes::Http);
        assert!(!plain.is_empty() && plain.iter().all(|probe| probe.contains(" http://")), "{plain:?}");
        let tls = probe_urls(&config, Schemes::Https);
        assert!(tls.iter().all(|probe| !probe.contains(" http://")), "{tls:?}");
    }

    #[test]
    fn safe_methods_and_queries_are_probed_with_matching_and_other_values() {
        let of_method = |method: &str| Match { method: Some(method.into()), ..prefix("/m") };
        let by_query = Match {
            query: vec![NamedValueMatch { name: "v".into(), value: TextMatch::Exact("2".into()) }],
            ..prefix("/q")
        };
        let rules = vec![rule(vec![of_method("HEAD"), of_method("POST"), by_query], Phases::default())];
        let config = config(None, rules);
        let found = collect_probes(&config, Schemes::Http);
        assert_eq!((found.invalid, found.is_of_objects), (1, true));
        let probes: Vec<_> = found.probes.iter().map(Probe::to_string).collect();
        for wanted in
            ["HEAD http://a.test/m", "GET http://a.test/m", "GET http://a.test/q?v=2", "GET http://a.test/q"]
        {
            assert!(probes.contains(&wanted.to_owned()), "{wanted}: {probes:?}");
        }
        assert!(probes.iter().all(|probe| !probe.starts_with("POST")), "{probes:?}");
    }

    #[test]
    fn a_table_is_probed_over_the_schemes_of_its_listeners() {
        let mut config = config(None, vec![rule(vec![prefix("/")], Phases::default())]);
        config.listeners.remove("http");
        let found = probe_urls(&config, Schemes::Both);
        assert!(found.iter().all(|probe| !probe.contains(" http://a.test")), "{found:?}");
        assert!(found.contains(&"GET https://a.test/".to_owned()), "{found:?}");
        config.listeners.clear();
        assert_eq!(probe_urls(&config, Schemes::Both), [""; 0]);
    }

    #[test]
    fn headers_and_cookies_are_probed_with_matching_and_other_values() {
        let condition = |name: &str, value: &str| NamedValueMatch {
            name: name.into(),
            value: TextMatch::Exact(value.into()),
        };
        let by_header = Match { headers: vec![condition("x-canary", "always")], ..prefix("/") };
        let by_cookie = Match { cookies: vec![condition("beta", "yes")], ..prefix("/") };
        let by_query = Match { query: vec![condition("v", "2 3")], ..prefix("/q") };
        let rules = vec![rule(vec![by_header, by_cookie, by_query], Phases::default())];
        let found = probe_urls(&config(None, rules), Schemes::Http);
        for wanted in [
            "GET http://a.test/ (x-canary: always)",
            "GET http://a.test/ (x-canary: fairway-compare)",
            "GET http://a.test/ (cookie: beta=yes)",
            "GET http://a.test/ (cookie: beta=fairway-compare)",
            "GET http://a.test/q?v=2%203",
        ] {
            assert!(found.iter().any(|probe| probe == wanted), "{wanted} in {found:#?}");
        }
    }

    #[test]
    fn allowed_origins_are_probed_and_duplicate_probes_are_sent_once() {
        let cors = Cors {
            origins: vec![
                CorsOrigin::Exact("https://shop.test".into()),
                CorsOrigin::OneLabel { before: "https://".into(), after: ".b.test".into() },
            ],
            methods: "GET".into(),
            headers: "".into(),
            expose: "".into(),
            credentials: false,
            max_age: 1,
            manner: CorsMode::IngressNginx,
        };
        let one_rule = rule(vec![prefix("/"), prefix("/")], cors.into());
        let found = probe_urls(&config(None, vec![one_rule]), Schemes::Http);
        for origin in ["https://shop.test", "https://fairway-compare.b.test", UNKNOWN_ORIGIN] {
            assert!(found.contains(&format!("GET http://a.test/ (origin: {origin})")), "{found:#?}");
        }
        let mut once = found.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), found.len());
    }

    #[test]
    fn probes_that_are_no_valid_requests_are_counted_and_not_sent() {
        let odd = NamedValueMatch { name: "x-a".into(), value: TextMatch::Exact("a\nb".into()) };
        let rules = vec![rule(vec![Match { headers: vec![odd], ..prefix("/") }], Phases::default())];
        let all = collect_probes(&config(None, rules), Schemes::Http);
        assert_eq!(all.invalid, 1);
        assert!(all.probes.iter().all(is_valid_request));
    }
}
