//! The impact of changes on requests, and what cannot be known.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    AccessList, Action, Backend, BackendKey, BackendProtocol, Balancing, BasicAuth, Config, Deny, Endpoint,
    Extension, FixedResponse, FixedResponseReason, Forwarding, GrpcService, Guard, HeaderEdit, HeaderField,
    HostKey, HostPattern, HttpsRedirect, LimitKey, LimitScope, Listener, ListenerProtocol, Match,
    MutationRules, NamedValueMatch, Origin, PathForm, PathMatch, PathRewrite, Phases, Policy,
    ProcessingPhases, RateLimit, Redirect, RedirectTarget, RequestEdit, Route, Rule, RuleLabels, RuleOrder,
    ServiceName, TextMatch, Timeouts, Users, VirtualHost, WeightedBackend, WildcardSpan,
};

use super::{
    Comparison, DifferenceKind, KnownClient, KnownRequest, KnownRule, OtherSettings, Unknown, Verdict,
};
use crate::compile;

const TABLE: &str = "t";

fn key(host: &str) -> HostKey {
    HostKey { table: TABLE.into(), host: HostPattern::parse(host, WildcardSpan::ManyLabels).unwrap() }
}

fn backend(name: &str, number: u8) -> Arc<Backend> {
    Arc::new(Backend {
        key: format!("shop/{name}:80").as_str().into(),
        origin: Origin::object("Service", "shop", name),
        service: ServiceName { namespace: "shop".into(), name: name.into(), port: "80".into() },
        endpoints: vec![Endpoint::at(format!("10.0.0.{number}:8080").parse().unwrap())],
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing: Balancing::RoundRobin,
        session: None,
        traffic: None,
    })
}

fn rule(field: &str, path: PathMatch, service: &str) -> Rule {
    Rule {
        origin: Origin::object("HTTPRoute", "shop", "web").at(field),
        matches: vec![Match { path, ..Match::default() }],
        phases: Phases::none(),
        action: forward_to(&[(service, 1)]),
        policy: Policy::default().shared(),
        labels: RuleLabels::default(),
    }
}

fn forward_to(shares: &[(&str, u32)]) -> Action {
    let share = |(service, weight): &(&str, u32)| {
        WeightedBackend::new(format!("shop/{service}:80").as_str().into(), *weight)
    };
    Action::Forward(shares.iter().map(share).collect())
}

fn prefix(path: &str) -> PathMatch {
    PathMatch::Prefix(path.into())
}

fn host(name: &str, rules: Vec<Rule>) -> Arc<VirtualHost> {
    let origin = Origin::object("HTTPRoute", "shop", "web");
    Arc::new(VirtualHost {
        key: key(name),
        order: RuleOrder::Precedence,
        path_form: PathForm::Normalised,
        routes: vec![Arc::new(Route { origin, created: None, hostname_rank: 0, rules })],
        certificate: None,
        clients: None,
        suites: None,
        falls_through: true,
    })
}

/// `a.test` with `/` and `/cart`, which go to separate Services.
fn served() -> Config {
    let mut config = Config::default();
    for (number, name) in (1..).zip(["web", "cart", "next"]) {
        let backend = backend(name, number);
        config.backends.insert(backend.key.clone(), backend);
    }
    for (name, protocol, port) in
        [("http", ListenerProtocol::Http, 80), ("https", ListenerProtocol::Https, 443)]
    {
        let listener = Listener::new(name, protocol, port, TABLE);
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }
    let rules = vec![rule("rules[0]", prefix("/"), "web"), rule("rules[1]", prefix("/cart"), "cart")];
    put(&mut config, rules);
    config
}

fn put(config: &mut Config, rules: Vec<Rule>) {
    let host = host("a.test", rules);
    config.hosts.insert(host.key.clone(), host);
}

/// The same with another first rule.
fn with_rule(edit: impl FnOnce(&mut Rule)) -> Config {
    let mut config = served();
    let mut rules = config.hosts[&key("a.test")].routes[0].rules.clone();
    edit(&mut rules[0]);
    put(&mut config, rules);
    config
}

fn guarded(guard: Guard) -> Config {
    with_rule(|rule| rule.phases = Arc::new(Phases::from(guard)))
}

fn by_header(value: &str) -> Match {
    let headers = vec![NamedValueMatch { name: "x-canary".into(), value: TextMatch::Exact(value.into()) }];
    Match { headers, ..Match::default() }
}

fn request(path: &str) -> KnownRequest<'_> {
    KnownRequest {
        listener: Some("http"),
        over_tls: false,
        method: "GET",
        host: "a.test",
        path,
        has_query: false,
        client: KnownClient::Address("192.0.2.7".parse().unwrap()),
        rule: Some(KnownRule { kind: "HTTPRoute", namespace: "shop", name: "web", field: "rules[0]" }),
        forwarded: true,
        endpoint: Some("10.0.0.1:8080".parse().unwrap()),
    }
}

fn compared(before: &Config, after: &Config, request: &KnownRequest<'_>) -> Verdict {
    let (before, after) = (compile(before, None).snapshot, compile(after, None).snapshot);
    Comparison::new(&before, &after).compare(request).verdict
}

fn change(after: &Config, request: &KnownRequest<'_>) -> Verdict {
    compared(&served(), after, request)
}

/// A verdict in one word; an undecided one has a question mark.
fn word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Same => "same".to_owned(),
        Verdict::Settings(settings) => settings.label().to_owned(),
        Verdict::Otherwise(difference) => difference.kind.label().to_owned(),
        Verdict::Undecided(unknown) => format!("{}?", unknown.label()),
    }
}

#[test]
fn a_change_of_a_rule_is_classified_by_its_effect() {
    let rewrite = PathRewrite::Full("/new".into());
    let headers = HeaderEdit {
        set: vec![HeaderField { name: "X-A".into(), value: "b".into() }],
        ..HeaderEdit::default()
    };
    let slow = Timeouts { read: Duration::from_secs(9), ..Timeouts::default() };
    let limit = RateLimit {
        policy: "p".into(),
        requests: 1,
        per: Duration::from_secs(1),
        burst: 0,
        status: 429,
        exempt: Vec::new(),
        key: LimitKey::default(),
        scope: LimitScope::default(),
    };
    let moved = Redirect { status: 301, target: RedirectTarget::Url("https://b.test/".into()) };
    let secure = HttpsRedirect { status: 308, keep_trailing_slash: false, explicit_port: false };
    let refuses = |path| {
        Guard::Deny(Deny { status: 403, when: vec![Match { path: prefix(path), ..Match::default() }] })
    };
    let phases = |phases: Phases| with_rule(|rule| rule.phases = Arc::new(phases));
    let missing = FixedResponse { status: 503, reason: FixedResponseReason::MissingReference };
    for (after, expected) in [
        (served(), "same"),
        (with_rule(|rule| rule.action = forward_to(&[("next", 1)])), "backend"),
        (with_rule(|rule| rule.action = forward_to(&[("web", 1), ("next", 0)])), "same"),
        (with_rule(|rule| rule.action = forward_to(&[("web", 9), ("next", 1)])), "weights?"),
        (with_rule(|rule| rule.action = forward_to(&[("web", 0)])), "refused"),
        (with_rule(|rule| rule.action = Action::FixedResponse(missing)), "refused"),
        (with_rule(|rule| rule.matches[0].path = prefix("/other")), "no_route"),
        (with_rule(|rule| rule.matches[0].path = PathMatch::Exact("/x".into())), "same"),
        (with_rule(|rule| rule.matches[0].method = Some("GET".into())), "same"),
        (with_rule(|rule| rule.matches[0].method = Some("POST".into())), "no_route"),
        (with_rule(|rule| rule.matches[0] = by_header("always")), "headers?"),
        (with_rule(|rule| rule.origin = Origin::object("Ingress", "shop", "web")), "route"),
        (with_rule(|rule| rule.policy = Policy { timeouts: slow, ..Policy::default() }.shared()), "policy"),
        (phases(Forwarding { path: Some(rewrite), ..Forwarding::default() }.into()), "path"),
        (phases(RequestEdit::Host("b.test".into()).into()), "host"),
        (phases(RequestEdit::Headers(headers).into()), "headers"),
        (guarded(Guard::RateLimit(limit)), "filters"),
        (guarded(Guard::Redirect(moved)), "redirect"),
        (guarded(Guard::HttpsRedirect(secure)), "redirect"),
        (guarded(Guard::OverTls), "refused"),
        (guarded(refuses("/x")), "refused"),
        (guarded(refuses("/y")), "same"),
        (guarded(Guard::NeedsEndpoint), "same"),
    ] {
        let verdict = change(&after, &request("/x"));
        assert_eq!(word(&verdict), expected, "{verdict:?} of {:#?}", after.hosts);
    }
}

#[test]
fn a_difference_shows_both_outcomes() {
    let Verdict::Otherwise(it) =
        change(&with_rule(|rule| rule.action = forward_to(&[("next", 1)])), &request("/x"))
    else {
        panic!("another Service gets it")
    };
    assert_eq!((&*it.before, &*it.after), ("Service shop/web:80", "Service shop/next:80"));
    let mut gone = served();
    gone.hosts.remove(&key("a.test"));
    let Verdict::Otherwise(it) = change(&gone, &request("/x")) else { panic!("nothing serves it") };
    assert_eq!(it.kind, DifferenceKind::NoRoute);
    assert_eq!((&*it.before, &*it.after), ("Service shop/web:80 at /x", "404, no route"));
    let Verdict::Otherwise(it) = compared(&gone, &served(), &request("/x")) else {
        panic!("a rule serves it")
    };
    assert_eq!(it.kind, DifferenceKind::Served);
}

#[test]
fn endpoints_that_come_and_go_make_no_difference() {
    let mut after = served();
    for backend in served().backends.values() {
        let backend = Backend { endpoints: Vec::new(), ..Backend::clone(backend) };
        after.backends.insert(backend.key.clone(), Arc::new(backend));
    }
    assert_eq!(change(&after, &request("/x")), Verdict::Same);
}

#[test]
fn another_protocol_and_other_balancing_are_distinguished() {
    let with = |edit: fn(&mut Backend)| {
        let mut after = served();
        let mut backend = Backend::clone(&after.backends[&BackendKey::from("shop/web:80")]);
        edit(&mut backend);
        after.backends.insert(backend.key.clone(), Arc::new(backend));
        after
    };
    let protocol = change(&with(|backend| backend.protocol = BackendProtocol::H2c), &request("/x"));
    assert_eq!(word(&protocol), "protocol");
    let balancing = change(&with(|backend| backend.balancing = Balancing::Random), &request("/x"));
    assert_eq!(balancing, Verdict::Settings(OtherSettings::Backend));
}

#[test]
fn an_access_list_decides_by_a_recorded_address() {
    let list = AccessList { deny: Vec::new(), allow: vec!["10.0.0.0/8".parse().unwrap()] };
    let after = guarded(Guard::Access(list));
    for (client, expected) in [
        (KnownClient::Address("10.1.2.3".parse().unwrap()), "same"),
        (KnownClient::Address("192.0.2.7".parse().unwrap()), "refused"),
        (KnownClient::UnknownAddress, "refused"),
        (KnownClient::UnrecordedAddress, "client_address?"),
    ] {
        let verdict = change(&after, &KnownRequest { client, ..request("/x") });
        assert_eq!(word(&verdict), expected, "{client:?}");
    }
}

#[test]
fn passwords_are_not_known_but_that_one_was_right_is() {
    let basic = |policy: &str| {
        Guard::BasicAuth(BasicAuth { policy: policy.into(), realm: "r".into(), users: Users::default() })
    };
    let (open, closed) = (served(), guarded(basic("a")));
    let mut moved = closed.clone();
    let mut rules = moved.hosts[&key("a.test")].routes[0].rules.clone();
    rules[0].action = forward_to(&[("next", 1)]);
    put(&mut moved, rules);
    let refused = KnownRequest { forwarded: false, endpoint: None, ..request("/x") };
    for (before, after, request, expected) in [
        (&open, &closed, &request("/x"), "authentication?"),
        (&closed, &open, &request("/x"), "same"),
        (&closed, &open, &refused, "authentication?"),
        (&closed, &closed, &refused, "same"),
        (&closed, &guarded(basic("b")), &request("/x"), "authentication?"),
        (&closed, &moved, &request("/x"), "backend"),
        (&closed, &moved, &refused, "authentication?"),
    ] {
        assert_eq!(word(&compared(before, after, request)), expected);
    }
}

#[test]
fn decisions_of_extensions_are_unknown() {
    let extended = |name: &str| {
        let service = GrpcService {
            backend: "shop/next:80".into(),
            authority: "next".into(),
            timeouts: Timeouts::default(),
        };
        let extension = Extension {
            name: name.into(),
            service,
            message_timeout: Duration::from_millis(200),
            failure_mode_allow: false,
            request: ProcessingPhases::default(),
            response: ProcessingPhases::default(),
            allow_mode_override: false,
            mutation_rules: MutationRules::default(),
            max_buffered_body: 1,
            attributes: Vec::new(),
            metadata: Vec::new(),
            picks_endpoint: false,
        };
        let phases = Phases { extensions: vec![Arc::new(extension)], ..Phases::default() };
        with_rule(|rule| rule.phases = Arc::new(phases))
    };
    let (open, seen) = (served(), extended("a"));
    let closed = FixedResponse { status: 500, reason: FixedResponseReason::ExtensionUnavailable };
    let closed = with_rule(|rule| rule.action = Action::FixedResponse(closed));
    let refused = KnownRequest { forwarded: false, endpoint: None, ..request("/x") };
    for (before, after, request, expected) in [
        (&open, &seen, &request("/x"), "extension?"),
        (&seen, &extended("b"), &request("/x"), "extension?"),
        (&seen, &seen, &request("/x"), "same"),
        (&seen, &seen, &refused, "same"),
        (&seen, &open, &request("/x"), "filters"),
        (&seen, &open, &refused, "extension?"),
        (&open, &closed, &request("/x"), "refused"),
    ] {
        assert_eq!(word(&compared(before, after, request)), expected);
    }
}

#[test]
fn the_endpoint_identifies_the_share_of_a_request() {
    let shares = |web, next| with_rule(|rule| rule.action = forward_to(&[("web", web), ("next", next)]));
    let request_to = |endpoint: Option<&str>| KnownRequest {
        endpoint: endpoint.map(|address| address.parse().unwrap()),
        ..request("/x")
    };
    let (web, next, neither) =
        (request_to(Some("10.0.0.1:8080")), request_to(Some("10.0.0.3:8080")), request_to(None));
    for (after, request, expected) in [
        (shares(1, 0), &web, "same"),
        (shares(1, 0), &next, "backend"),
        (shares(1, 0), &neither, "weights?"),
        (shares(2, 2), &neither, "same"),
        (shares(9, 1), &web, "weights?"),
        (with_rule(|rule| rule.action = forward_to(&[("cart", 1)])), &neither, "backend"),
    ] {
        let verdict = compared(&shares(1, 1), &after, request);
        assert_eq!(word(&verdict), expected, "{request:?}: {verdict:?}");
    }
}

/// Like a canary by header: two rules from the same field.
fn canary(value: &str, service: &str, main: &str) -> Config {
    let mut config = served();
    let always = Rule { matches: vec![by_header(value)], ..rule("rules[0]", prefix("/"), service) };
    put(&mut config, vec![always, rule("rules[0]", prefix("/"), main)]);
    config
}

#[test]
fn headers_are_unknown_but_the_rule_they_selected_is_known() {
    let before = canary("always", "next", "web");
    let (on_main, on_canary) =
        (request("/x"), KnownRequest { endpoint: Some("10.0.0.3:8080".parse().unwrap()), ..request("/x") });
    let unclear = KnownRequest { endpoint: None, ..request("/x") };
    for (after, request, expected) in [
        (canary("always", "next", "web"), &unclear, "same"),
        (canary("always", "next", "cart"), &on_main, "backend"),
        (canary("always", "next", "cart"), &on_canary, "same"),
        (canary("always", "next", "cart"), &unclear, "headers?"),
        (canary("always", "cart", "web"), &on_canary, "backend"),
        (canary("always", "cart", "web"), &on_main, "same"),
        (canary("sometimes", "next", "web"), &on_main, "headers?"),
        (served(), &on_main, "same"),
        (served(), &on_canary, "backend"),
        (served(), &unclear, "headers?"),
    ] {
        assert_eq!(word(&compared(&before, &after, request)), expected, "{request:?}");
    }
    assert_eq!(word(&change(&before, &on_main)), "headers?", "a canary that is new");
}

#[test]
fn a_query_matters_only_to_requests_that_had_one() {
    let after = with_rule(|rule| {
        let query = vec![NamedValueMatch { name: "q".into(), value: TextMatch::Exact("1".into()) }];
        rule.matches = vec![Match { query, ..Match::default() }];
    });
    assert_eq!(word(&change(&after, &request("/x"))), "no_route");
    let known_request = KnownRequest { has_query: true, ..request("/x") };
    assert_eq!(change(&after, &known_request), Verdict::Undecided(Unknown::Query));
}

#[test]
fn a_removed_listener_no_longer_serves_its_requests() {
    let mut after = served();
    after.listeners.remove("http");
    assert_eq!(word(&change(&after, &request("/x"))), "listener");
    let over_tls = KnownRequest { listener: Some("https"), over_tls: true, ..request("/x") };
    assert_eq!(change(&after, &over_tls), Verdict::Same);
}

#[test]
fn a_request_with_an_unknown_listener_is_found_by_its_rule() {
    let mut config = served();
    let mut other = Listener::new("other", ListenerProtocol::Http, 81, "other");
    other.table = "other".into();
    config.listeners.insert(other.name.clone(), Arc::new(other));
    let unknown = KnownRequest { listener: None, ..request("/x") };
    assert_eq!(compared(&config, &config, &unknown), Verdict::Same);
    let lost = KnownRequest { rule: None, ..unknown };
    assert_eq!(compared(&config, &config, &lost), Verdict::Undecided(Unknown::Listener));
}

#[test]
fn objects_that_were_not_read_are_not_known() {
    let missing = FixedResponse { status: 503, reason: FixedResponseReason::MissingReference };
    let after = with_rule(|rule| rule.action = Action::FixedResponse(missing));
    let (before, after) = (compile(&served(), None).snapshot, compile(&after, None).snapshot);
    let undecided = Comparison::new(&before, &after).of_incomplete_objects().compare(&request("/x"));
    assert_eq!(undecided.verdict, Verdict::Undecided(Unknown::Object));
    let same = Comparison::new(&after, &after).of_incomplete_objects().compare(&request("/x"));
    assert_eq!(same.verdict, Verdict::Same);
    assert_eq!(&*same.route.unwrap().origin.field, "rules[0]");
}

#[test]
fn truncated_requests_are_undecided() {
    for (host, path) in [("a.test", "/long…"), ("a.tes…", "/x"), ("a.test", "/\u{fffd}"), ("a.test", "")]
    {
        let verdict = change(&served(), &KnownRequest { host, path, ..request("/x") });
        assert_eq!(verdict, Verdict::Undecided(Unknown::Text), "{host} {path}");
    }
    let rule = KnownRule { kind: "HTTPRoute", namespace: "sh…", name: "web", field: "rules[…" };
    let cut = KnownRequest { rule: Some(rule), ..request("/x") };
    assert_eq!(change(&served(), &cut), Verdict::Same);
}

#[test]
fn ten_thousand_requests_are_compared_by_five_thousand_routes() {
    let many = |service: &str| {
        let mut config = served();
        for number in 0..2_500 {
            let mut rules =
                vec![rule("rules[0]", prefix("/"), service), rule("rules[1]", prefix("/cart"), "cart")];
            if number % 10 == 0 {
                rules[0].matches.push(by_header("always"));
            }
            let host = host(&format!("h{number}.test"), rules);
            config.hosts.insert(host.key.clone(), host);
        }
        compile(&config, None).snapshot
    };
    let (before, after) = (many("web"), many("next"));
    let comparison = Comparison::new(&before, &after);
    let mut moved = 0;
    for number in 0..10_000 {
        let (host, path) = (format!("h{}.test", number % 2_500), format!("/{number}"));
        let request = KnownRequest { host: &host, path: &path, ..request("/x") };
        moved += usize::from(word(&comparison.compare(&request).verdict) == "backend");
    }
    assert_eq!(moved, 10_000);
}
