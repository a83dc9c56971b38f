//! Which of several rules of one host wins: one test per precedence rule.

use std::sync::Arc;

use fairway_model::{
    Forwarding, Match, NamedValueMatch, PathForm, PathMatch, PathRewrite, Phases, Route, Rule, RuleOrder,
    TextMatch,
};
use fairway_routing::{Matched, compile};

use crate::tables::*;

fn request_for(path: &str) -> Ask {
    Ask::get("a.test", path)
}

fn with_method(route_match: Match, method: &str) -> Match {
    Match { method: Some(method.into()), ..route_match }
}

fn with_headers(route_match: Match, names: &[&str]) -> Match {
    Match { headers: names.iter().map(|name| field(name, "1")).collect(), ..route_match }
}

fn with_query(route_match: Match, names: &[&str]) -> Match {
    Match { query: names.iter().map(|name| field(name, "1")).collect(), ..route_match }
}

#[test]
fn an_exact_path_beats_every_prefix() {
    let rules = vec![rule("prefix", vec![prefix("/a/b")]), rule("exact", vec![exact("/a/b")])];
    assert_eq!(winner_among(rules.clone(), &request_for("/a/b")), "exact");
    assert_eq!(winner_among(rules, &request_for("/a/b/")), "prefix");
}

#[test]
fn the_longest_prefix_wins() {
    let rules = ["/", "/a", "/a/b", "/a/b/", "/a/b/c"].map(|path| rule(path, vec![prefix(path)]));
    for (path, winner) in [
        ("/", "/"),
        ("*", "/"),
        ("", "/"),
        ("/ab", "/"),
        ("/a", "/a"),
        ("/a/bb", "/a"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("/a/b/cc", "/a/b/"),
        ("/a/b/c", "/a/b/c"),
        ("/a/b/c/d/e", "/a/b/c"),
    ] {
        assert_eq!(winner_among(rules.to_vec(), &request_for(path)), winner, "{path}");
    }
}

#[test]
fn a_trailing_slash_is_part_of_a_prefix() {
    let rules = vec![rule("slash", vec![prefix("/a/")])];
    assert_eq!(winner_among(rules.clone(), &request_for("/a")), "no rule of a.test");
    assert_eq!(winner_among(rules.clone(), &request_for("/a/")), "slash");
    assert_eq!(winner_among(rules, &request_for("/a/b")), "slash");
}

#[test]
fn a_regex_precedes_prefixes_and_follows_exact_paths_longest_first() {
    let rules = vec![rule("short", vec![regex("/r.*")]), rule("long", vec![regex("/r[a-z]+")])];
    assert_eq!(winner_among(rules.clone(), &request_for("/rx")), "long");
    assert_eq!(winner_among(rules.clone(), &request_for("/r1")), "short");
    let with_prefixes = [rules, vec![rule("prefix", vec![prefix("/rx")]), rule("all", vec![prefix("/")])]];
    let with_prefixes = with_prefixes.concat();
    assert_eq!(winner_among(with_prefixes.clone(), &request_for("/rx")), "long");
    assert_eq!(winner_among(with_prefixes.clone(), &request_for("/rx/y")), "long");
    assert_eq!(winner_among(with_prefixes.clone(), &request_for("/x")), "all");
    let with_exact = [with_prefixes, vec![rule("exact", vec![exact("/rx")])]].concat();
    assert_eq!(winner_among(with_exact, &request_for("/rx")), "exact");
}

#[test]
fn a_regex_after_prefixes_precedes_only_the_root() {
    let late = |pattern| Match { after_prefixes: true, ..regex(pattern) };
    let rules = vec![
        rule("all", vec![prefix("/")]),
        rule("ping", vec![late("/[^/]+/Ping$")]),
        rule("cart", vec![prefix("/shop.Cart")]),
        rule("early", vec![regex("/early/[A-Z].*")]),
        rule("exact", vec![exact("/shop.List/Ping")]),
    ];
    for (path, winner) in [
        ("/shop.Cart/Ping", "cart"),
        ("/shop.Cart", "cart"),
        ("/shop.Pay/Ping", "ping"),
        ("/shop.Pay/Pong", "all"),
        ("/shop.List/Ping", "exact"),
        ("/early/Ping", "early"),
        ("/", "all"),
        ("*", "all"),
    ] {
        assert_eq!(winner_among(rules.clone(), &request_for(path)), winner, "{path}");
    }
    let request = request_for("/shop.Cart/Ping");
    let with = |route_match| vec![rule("cart", vec![route_match]), rule("ping", vec![late("/[^/]+/Ping$")])];
    assert_eq!(winner_among(with(with_headers(prefix("/shop.Cart"), &["x"])), &request), "ping");
    assert_eq!(
        winner_among(with(with_headers(prefix("/shop.Cart"), &["x"])), &request.header("x", "1")),
        "cart"
    );
}

#[test]
fn a_regex_is_anchored_at_the_start_only() {
    let rules = vec![rule("regex", vec![regex("(?:/r|/s)")])];
    assert_eq!(winner_among(rules.clone(), &request_for("/s/more")), "regex");
    assert_eq!(winner_among(rules, &request_for("/x/s")), "no rule of a.test");
}

#[test]
fn a_path_longer_than_patterns_may_read_has_no_rule() {
    let long = format!("/{}", "a".repeat(8 * 1024));
    let with = |pattern| vec![rule("open", vec![prefix("/")]), rule("regex", vec![regex(pattern)])];
    assert_eq!(winner_among(with("/a+b"), &request_for(&long)), "no rule of a.test");
    assert_eq!(winner_among(with("/a+b"), &request_for(&long[..long.len() - 1])), "open");
    let literal = PathMatch::Regex { pattern: "/b".into(), ignore_case: true };
    let literal = Match { path: literal, ..Match::default() };
    let rules = vec![rule("open", vec![prefix("/")]), rule("literal", vec![literal])];
    assert_eq!(winner_among(rules.clone(), &request_for(&long)), "open", "nothing reads on");
    let rewrite =
        PathRewrite::Regex { pattern: "/b(.*)".into(), replacement: "/$1".into(), ignore_case: true };
    let forwarding = Forwarding { path: Some(rewrite), ..Forwarding::default() };
    let phases = Phases::from(forwarding).shared();
    let rewriting = Rule { phases, ..rule("rewriting", vec![exact("/b")]) };
    let rules = [rules, vec![rewriting]].concat();
    assert_eq!(winner_among(rules, &request_for(&long)), "no rule of a.test");
}

#[test]
fn a_method_beats_headers() {
    let rules = vec![
        rule("headers", vec![with_headers(prefix("/"), &["x", "y"])]),
        rule("method", vec![with_method(prefix("/"), "GET")]),
    ];
    let ask = request_for("/").header("x", "1").header("y", "1");
    assert_eq!(winner_among(rules.clone(), &ask), "method");
    assert_eq!(winner_among(rules, &ask.method("PUT")), "headers");
}

#[test]
fn more_headers_beat_fewer_and_more_query_parameters() {
    let rules = vec![
        rule("query", vec![with_headers(with_query(prefix("/"), &["q", "r"]), &["x"])]),
        rule("headers", vec![with_headers(prefix("/"), &["x", "y"])]),
    ];
    let request = request_for("/?q=1&r=1").header("x", "1");
    assert_eq!(winner_among(rules.clone(), &request), "query");
    assert_eq!(winner_among(rules, &request.header("y", "1")), "headers");
}

#[test]
fn more_query_parameters_beat_fewer() {
    let rules = vec![
        rule("one", vec![with_query(prefix("/"), &["q"])]),
        rule("two", vec![with_query(prefix("/"), &["q", "r"])]),
    ];
    assert_eq!(winner_among(rules.clone(), &request_for("/?q=1&r=1")), "two");
    assert_eq!(winner_among(rules, &request_for("/?q=1")), "one");
}

fn winner_of_routes(routes: Vec<Arc<Route>>) -> String {
    winner(&compile(&config(vec![host("a.test", routes)]), None).snapshot, &request_for("/"))
}

fn catch_all(name: &str, created: Option<i64>) -> Arc<Route> {
    route(name, created, vec![rule(name, vec![prefix("/")])])
}

#[test]
fn the_oldest_route_wins_and_an_unknown_age_is_youngest() {
    assert_eq!(winner_of_routes(vec![catch_all("a", Some(2)), catch_all("b", Some(1))]), "b");
    assert_eq!(winner_of_routes(vec![catch_all("a", None), catch_all("b", Some(9))]), "b");
}

#[test]
fn then_the_name_decides_as_one_text() {
    assert_eq!(winner_of_routes(vec![catch_all("b", Some(1)), catch_all("a", Some(1))]), "a");
    // "ns-2/z" comes before "ns/a", because "-" is before "/".
    let mut other = (*catch_all("z", Some(1))).clone();
    other.origin.namespace = "ns-2".into();
    assert_eq!(winner_of_routes(vec![catch_all("a", Some(1)), Arc::new(other)]), "z");
}

#[test]
fn then_the_order_in_the_list() {
    let same = route("r", None, vec![rule("first", vec![prefix("/")]), rule("second", vec![prefix("/")])]);
    assert_eq!(winner_of_routes(vec![same]), "first");
}

fn of_rank(hostname_rank: u32, route: Arc<Route>) -> Arc<Route> {
    Arc::new(Route { hostname_rank, ..Arc::unwrap_or_clone(route) })
}

#[test]
fn the_more_specific_hostname_of_a_route_beats_a_longer_path_of_an_older_route() {
    let long = rule("long", vec![prefix("/a/b"), with_headers(prefix("/"), &["x"])]);
    let routes = [
        of_rank(0, route("older", Some(1), vec![long])),
        of_rank(1, route("newer", Some(2), vec![rule("short", vec![prefix("/a")])])),
        of_rank(2, route("newest", Some(3), vec![rule("header", vec![with_headers(exact("/a/b"), &["h"])])])),
    ];
    let orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0]].map(|order| order.map(|at: usize| routes[at].clone()));
    for routes in orders {
        let config = config(vec![host("a.test", routes.to_vec())]);
        let snapshot = compile(&config, None).snapshot;
        let asks = [
            (request_for("/a/b").header("h", "1"), "header"),
            (request_for("/a/b"), "short"),
            (request_for("/a/b/c").header("h", "1").header("x", "1"), "short"),
            (request_for("/b").header("x", "1"), "long"),
            (request_for("/b"), "no rule of a.test"),
        ];
        for (asked, wins) in asks {
            assert_eq!(winner(&snapshot, &asked), wins, "{}", asked.normalised);
        }
    }
}

#[test]
fn a_better_path_with_failing_conditions_leaves_the_request_to_the_next() {
    let rules = vec![
        rule("root", vec![prefix("/")]),
        rule("exact", vec![with_method(exact("/a/b"), "PUT")]),
        rule("long", vec![with_headers(prefix("/a/b"), &["x"])]),
        rule("slash", vec![with_query(prefix("/a/"), &["q"])]),
    ];
    assert_eq!(winner_among(rules.clone(), &request_for("/a/b?q=1").header("x", "1").method("PUT")), "exact");
    assert_eq!(winner_among(rules.clone(), &request_for("/a/b?q=1").header("x", "1")), "long");
    assert_eq!(winner_among(rules.clone(), &request_for("/a/b?q=1")), "slash");
    assert_eq!(winner_among(rules, &request_for("/a/b")), "root");
}

#[test]
fn a_listed_host_takes_the_first_that_matches() {
    let rules = vec![
        rule("prefix", vec![with_method(prefix("/a"), "PUT")]),
        rule("regex", vec![regex("/a.*")]),
        rule("exact", vec![exact("/a")]),
    ];
    let mut listed = host("a.test", vec![route("r", None, rules)]);
    listed.order = RuleOrder::Listed;
    let snapshot = compile(&config(vec![listed]), None).snapshot;
    assert_eq!(winner(&snapshot, &request_for("/a")), "regex");
    assert_eq!(winner(&snapshot, &request_for("/a").method("PUT")), "prefix");
    assert_eq!(winner(&snapshot, &request_for("/b")), "no rule of a.test");
}

#[test]
fn rules_see_the_form_of_the_path_that_their_host_names() {
    let mut virtual_host = host("a.test", vec![route("r", None, vec![rule("r", vec![prefix("/a/b")])])]);
    let request = Ask { normalised: "/a%2Fb/c".into(), decoded: "/a/b/c".into(), ..request_for("/") };
    assert_eq!(
        winner(&compile(&config(vec![virtual_host.clone()]), None).snapshot, &request),
        "no rule of a.test"
    );
    virtual_host.path_form = PathForm::Decoded;
    assert_eq!(winner(&compile(&config(vec![virtual_host]), None).snapshot, &request), "r");
}

#[test]
fn the_covered_prefix_is_counted_without_its_slash() {
    let matches = vec![prefix("/p"), prefix("/s/"), exact("/e"), regex("/r+")];
    let snapshot =
        compile(&config(vec![host("a.test", vec![route("r", None, vec![rule("r", matches)])])]), None)
            .snapshot;
    for (path, expected) in [("/p/x", 2), ("/p", 2), ("/s/x", 2), ("/e", 2), ("/rrr", 0)] {
        let request = request_for(path);
        match snapshot.lookup(snapshot.table(TABLE).unwrap(), &request.request()) {
            Matched::Rule { prefix, .. } => assert_eq!(prefix, expected, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn an_invalid_match_affects_no_other() {
    let broken = NamedValueMatch { name: "x".into(), value: TextMatch::Regex("(".into()) };
    let rules = vec![
        rule("bad", vec![regex("/a("), prefix("/b")]),
        rule("header", vec![Match { headers: vec![broken], ..exact("/c") }]),
        rule("good", vec![prefix("/")]),
    ];
    let compiled = compile(&config(vec![host("a.test", vec![route("r", None, rules)])]), None);
    let texts: Vec<_> = compiled.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "HTTPRoute ns/header spec.rules[0]: the regular expression of header \"x\" cannot be used: unclosed group; \
             this match never applies",
            "HTTPRoute ns/bad spec.rules[0]: the regular expression of path \"/a(\" cannot be used: unclosed group; \
             this match never applies",
        ]
    );
    for (path, expected) in [("/a(", "good"), ("/b", "bad"), ("/c", "good")] {
        assert_eq!(winner(&compiled.snapshot, &request_for(path).header("x", "(")), expected, "{path}");
    }
}
