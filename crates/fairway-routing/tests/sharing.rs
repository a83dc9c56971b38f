//! A listener with two tables: of the rules that each finds, the more specific one serves. Compared with the oracle's
//! result for each table.

use std::cmp::Ordering;
use std::sync::Arc;

use fairway_model::{
    Config, HostKey, HostPattern, Listener, ListenerProtocol, Match, Origin, PathForm, PathMatch, Rule,
    RuleOrder, VirtualHost, WildcardSpan,
};
use fairway_routing::oracle::{self, OracleMatch};
use fairway_routing::{Matched, Snapshot, compile};
use proptest::prelude::*;

use crate::tables::*;

const ROUTES: &str = "routes";

fn in_routes(name: &str, matches: Vec<Match>) -> VirtualHost {
    let virtual_host = host(name, vec![route("route", None, vec![rule("route", matches)])]);
    let key = HostKey { table: ROUTES.into(), host: pattern(name, WildcardSpan::ManyLabels) };
    VirtualHost { key, falls_through: true, ..virtual_host }
}

fn in_ingresses(name: &str, order: RuleOrder, matches: Vec<Match>) -> VirtualHost {
    let virtual_host = host(name, vec![route("ingress", Some(1), vec![of_path(rule("ingress", matches))])]);
    VirtualHost { order, path_form: PathForm::Decoded, ..virtual_host }
}

/// A rule for a path of an Ingress.
fn of_path(rule: Rule) -> Rule {
    Rule { origin: rule.origin.at("spec.rules[0].http.paths[0]"), ..rule }
}

/// With a listener that has both tables.
fn shared(hosts: Vec<VirtualHost>) -> Config {
    let mut config = config(hosts);
    let listener = Listener::new("http", ListenerProtocol::Http, 80, TABLE);
    let listener = Listener { routes: Some(ROUTES.into()), ..listener };
    config.listeners.insert("http".into(), Arc::new(listener));
    config
}

fn looked_up<'s>(snapshot: &'s Snapshot, ask: &Ask) -> Matched<'s> {
    let table = snapshot.table_of(snapshot.listener("http").expect("it is there"));
    snapshot.lookup(table.expect("a listener names it"), &ask.request())
}

/// Which of the two serves.
fn serving_rule(hosts: Vec<VirtualHost>, ask: &Ask) -> String {
    match looked_up(&compile(&shared(hosts), None).snapshot, ask) {
        Matched::Rule { rule, .. } => rule.route().origin.name.to_string(),
        Matched::NoRule(_) => "no rule".to_owned(),
        Matched::NoHost => "no host".to_owned(),
    }
}

#[test]
fn the_more_specific_host_then_path_serves_and_the_route_where_they_are_as_specific() {
    use RuleOrder::{Listed, Precedence};
    let late = |route_match: Match| Match { method: Some("PUT".into()), ..route_match };
    for (routes, ingress, order, path, expected) in [
        (("a.test", vec![prefix("/")]), ("a.test", vec![prefix("/")]), Precedence, "/x", "route"),
        (("a.test", vec![prefix("/")]), ("a.test", vec![prefix("/a")]), Precedence, "/a/x", "ingress"),
        (("a.test", vec![prefix("/")]), ("a.test", vec![prefix("/a")]), Precedence, "/b", "route"),
        (("a.test", vec![prefix("/a/b")]), ("a.test", vec![prefix("/a")]), Precedence, "/a/b", "route"),
        (("a.test", vec![prefix("/a")]), ("a.test", vec![prefix("/a/")]), Precedence, "/a/", "route"),
        (("a.test", vec![prefix("/a")]), ("a.test", vec![exact("/a")]), Precedence, "/a", "ingress"),
        (("a.test", vec![exact("/a")]), ("a.test", vec![exact("/a")]), Precedence, "/a", "route"),
        (("a.test", vec![exact("/a")]), ("a.test", vec![regex("/a[a-z]*")]), Listed, "/a", "route"),
        (("a.test", vec![prefix("/a")]), ("a.test", vec![regex("/a[a-z]*")]), Listed, "/a/x", "ingress"),
        (("a.test", vec![prefix("/")]), ("a.test", vec![regex("/")]), Listed, "/a/x", "route"),
        // Of a rule with several matches, the matching one counts.
        (
            ("a.test", vec![prefix("/"), late(exact("/a"))]),
            ("a.test", vec![prefix("/a")]),
            Precedence,
            "/a",
            "ingress",
        ),
        (("a.test", vec![late(prefix("/a"))]), ("a.test", vec![prefix("/")]), Precedence, "/a", "ingress"),
        (("*.test", vec![exact("/a")]), ("a.test", vec![prefix("/")]), Precedence, "/a", "ingress"),
        (("a.test", vec![prefix("/")]), ("*.test", vec![exact("/a")]), Precedence, "/a", "route"),
        (("a.test", vec![prefix("/b")]), ("*.test", vec![exact("/a")]), Precedence, "/a", "ingress"),
        (("*.test", vec![prefix("/")]), ("*.test", vec![prefix("/")]), Precedence, "/a", "route"),
        (("", vec![exact("/a")]), ("", vec![prefix("/")]), Precedence, "/b", "ingress"),
        (("b.test", vec![prefix("/")]), ("b.test", vec![prefix("/")]), Precedence, "/", "no host"),
    ] {
        let description = format!("{routes:?} {ingress:?} {path}");
        let hosts = vec![in_routes(routes.0, routes.1), in_ingresses(ingress.0, order, ingress.1)];
        assert_eq!(serving_rule(hosts, &Ask::get("a.test", path)), expected, "{description}");
    }
}

#[test]
fn rules_without_an_object_yield_to_every_rule_of_a_route() {
    for origin in [
        Origin::object("Default", "", "no-route"),
        Origin::object("Ingress", "shop", "web"),
        Origin::object("Ingress", "shop", "web").at("spec.defaultBackend"),
    ] {
        let fallback = Rule { origin, ..rule("404", vec![prefix("/")]) };
        let rules = vec![of_path(rule("i", vec![prefix("/i")])), fallback];
        let hosts =
            vec![in_routes("*.test", vec![prefix("/")]), host("a.test", vec![route("ingress", None, rules)])];
        assert_eq!(serving_rule(hosts.clone(), &Ask::get("a.test", "/i")), "ingress");
        assert_eq!(serving_rule(hosts, &Ask::get("a.test", "/x")), "route");
    }
}

#[test]
fn a_path_too_long_for_the_expressions_of_one_table_is_served_by_neither() {
    let long = format!("/a{}", "x".repeat(fairway_pattern::LONGEST_TEXT));
    let expression = || vec![regex("/a.*b")];
    let hosts =
        vec![in_routes("a.test", vec![prefix("/")]), in_ingresses("a.test", RuleOrder::Listed, expression())];
    assert_eq!(serving_rule(hosts.clone(), &Ask::get("a.test", "/a")), "route");
    assert_eq!(serving_rule(hosts, &Ask::get("a.test", &long)), "no rule");
    let hosts = vec![
        in_routes("a.test", expression()),
        in_ingresses("a.test", RuleOrder::Precedence, vec![prefix("/")]),
    ];
    assert_eq!(serving_rule(hosts, &Ask::get("a.test", &long)), "no rule");
}

#[test]
fn a_table_shares_hosts_with_another_only_while_a_listener_has_both() {
    let hosts = vec![
        in_routes("a.test", vec![prefix("/a")]),
        in_ingresses("a.test", RuleOrder::Precedence, vec![prefix("/")]),
    ];
    let both = compile(&shared(hosts.clone()), None).snapshot;
    let ask = Ask::get("a.test", "/a");
    assert!(
        matches!(looked_up(&both, &ask), Matched::Rule { rule, .. } if *rule.route().origin.name == *"route")
    );
    let alone = compile(&config(hosts), Some(&both)).snapshot;
    assert!(
        matches!(looked_up(&alone, &ask), Matched::Rule { rule, .. } if *rule.route().origin.name == *"ingress")
    );
    let found = alone.lookup(alone.table(ROUTES).expect("it has hosts"), &Ask::get("a.test", "/b").request());
    assert!(matches!(found, Matched::NoRule(_)));
}

fn matches() -> impl Strategy<Value = Match> {
    let paths = vec!["/", "/a", "/a/", "/a/b", "/ab"];
    let kind = prop_oneof![
        1 => proptest::sample::select(paths.clone()).prop_map(exact),
        3 => proptest::sample::select(paths).prop_map(prefix),
        1 => proptest::sample::select(vec!["/a", "/a.*", "/[ab]"]).prop_map(regex),
    ];
    (kind, any::<bool>()).prop_map(|(matched, put)| Match { method: put.then(|| "PUT".into()), ..matched })
}

fn rules() -> impl Strategy<Value = Vec<Match>> {
    proptest::collection::vec(matches(), 1..4)
}

fn names() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["a.test", "x.a.test", "*.test", "*.a.test", ""])
}

/// The host, and how specific the match is that the oracle finds in one table.
fn alone(config: &Config, table: &str, ask: &Ask) -> Option<(HostPattern, bool, usize)> {
    let OracleMatch::Rule { host, .. } = oracle::find(config, table, &ask.request()) else { return None };
    let found = oracle::ranked(&config.hosts[&host]);
    let judged =
        found.into_iter().find(|place| place.judged(ask.normalised.as_bytes(), &ask.request()).is_ok())?;
    let text = match &judged.source.path {
        PathMatch::Exact(_) => return Some((host.host, true, 0)),
        PathMatch::Prefix(text) | PathMatch::Regex { pattern: text, .. } => text.trim_end_matches('/').len(),
    };
    Some((host.host, false, text))
}

proptest! {
    #[test]
    fn lookup_and_explanation_decide_as_the_rule_says(
        routes in proptest::collection::vec((names(), rules()), 0..4),
        ingresses in proptest::collection::vec((names(), any::<bool>(), rules()), 0..4),
        host in proptest::sample::select(vec!["a.test", "x.a.test", "b.test", "other"]),
        path in proptest::sample::select(vec!["/", "/a", "/a/", "/a/b", "/ab", "/a/b/c"]),
        put: bool,
    ) {
        let order = |listed| if listed { RuleOrder::Listed } else { RuleOrder::Precedence };
        let hosts = routes.into_iter().map(|(name, matches)| in_routes(name, matches));
        let others = ingresses.into_iter().map(|(name, listed, matches)| in_ingresses(name, order(listed), matches));
        let config = shared(hosts.chain(others).collect());
        let ask = Ask::get(host, path).method(if put { "PUT" } else { "GET" });
        let side = match (alone(&config, ROUTES, &ask), alone(&config, TABLE, &ask)) {
            (None, _) => TABLE,
            (_, None) => ROUTES,
            (Some(own), Some(other)) => {
                let length = |host: &HostPattern| match host {
                    HostPattern::Exact(_) => usize::MAX,
                    HostPattern::Wildcard { suffix, .. } => suffix.len(),
                    HostPattern::Any => 0,
                };
                let key = |(host, exact, text): (HostPattern, bool, usize)| (length(&host), exact, text);
                if key(own).cmp(&key(other)) == Ordering::Less { TABLE } else { ROUTES }
            }
        };
        let snapshot = compile(&config, None).snapshot;
        let found = oracle_match(looked_up(&snapshot, &ask));
        let expected = oracle::find(&config, side, &ask.request());
        if matches!(expected, OracleMatch::Rule { .. }) {
            prop_assert_eq!(&found, &expected, "{:?}", ask);
        } else {
            let serves = matches!(found, OracleMatch::Rule { .. });
            prop_assert!(!serves);
        }
        let table = snapshot.table_of(snapshot.listener("http").unwrap()).unwrap();
        prop_assert_eq!(oracle_match(snapshot.explain(table, &ask.request()).outcome), found);
    }
}
