//! What an explanation says about the candidates that lost.

use std::sync::Arc;

use fairway_model::{Match, NamedValueMatch, RuleOrder, TextMatch};
use fairway_routing::explain::Criterion;
use fairway_routing::{HostVerdict, MatchVerdict, compile};

use crate::tables::*;

fn verdicts(host: fairway_model::VirtualHost, ask: &Ask) -> Vec<(String, MatchVerdict)> {
    let snapshot = compile(&config(vec![host]), None).snapshot;
    let explanation =
        snapshot.explain(snapshot.table(TABLE).expect("a listener names the table"), &ask.request());
    let steps = explanation.hosts.into_iter().flat_map(|host| host.matches);
    steps.map(|step| (step.rule.rule().origin.name.to_string(), step.verdict)).collect()
}

#[test]
fn every_match_is_listed_in_order_with_the_reason_it_lost() {
    let invalid = NamedValueMatch { name: "x".into(), value: TextMatch::Regex("(".into()) };
    let rules = vec![
        rule("root", vec![prefix("/")]),
        rule("other-path", vec![exact("/b")]),
        rule("method", vec![Match { method: Some("PUT".into()), ..exact("/a") }]),
        rule("header", vec![Match { headers: vec![field("x", "1"), field("y", "1")], ..exact("/a") }]),
        rule("query", vec![Match { query: vec![field("q", "1")], ..exact("/a") }]),
        rule("invalid", vec![Match { headers: vec![invalid], ..prefix("/a") }]),
        rule("winner", vec![prefix("/a")]),
        rule("later", vec![prefix("/a")]),
    ];
    let found =
        verdicts(host("a.test", vec![route("r", None, rules)]), &Ask::get("a.test", "/a").header("x", "1"));
    let expected = [
        ("method", MatchVerdict::Method),
        ("header", MatchVerdict::Header("y".into())),
        ("query", MatchVerdict::Query("q".into())),
        ("other-path", MatchVerdict::Path),
        ("invalid", MatchVerdict::Invalid("\"(\" cannot be used: unclosed group".into())),
        ("winner", MatchVerdict::Wins),
        ("later", MatchVerdict::Outranked(Criterion::Listed)),
        ("root", MatchVerdict::Outranked(Criterion::PathLength)),
    ];
    assert_eq!(found, expected.map(|(name, verdict)| (name.to_owned(), verdict)));
}

#[test]
fn the_deciding_match_is_named() {
    let routes = |older: i64| {
        vec![
            route("a", Some(5), vec![rule("a", vec![prefix("/")])]),
            route("b", Some(older), vec![rule("b", vec![prefix("/")])]),
        ]
    };
    let ask = Ask::get("a.test", "/");
    let by_age = verdicts(host("a.test", routes(1)), &ask);
    assert_eq!(by_age[1], ("a".to_owned(), MatchVerdict::Outranked(Criterion::Age)));
    let by_name = verdicts(host("a.test", routes(5)), &ask);
    assert_eq!(by_name[1], ("b".to_owned(), MatchVerdict::Outranked(Criterion::Name)));
    let mut ranked = routes(1);
    Arc::make_mut(&mut ranked[0]).hostname_rank = 1;
    let by_hostname = verdicts(host("a.test", ranked), &ask);
    assert_eq!(by_hostname[1], ("b".to_owned(), MatchVerdict::Outranked(Criterion::Hostname)));
    let mut listed = host("a.test", routes(1));
    listed.order = RuleOrder::Listed;
    assert_eq!(verdicts(listed, &ask)[1], ("b".to_owned(), MatchVerdict::Outranked(Criterion::Listed)));
}

#[test]
fn hosts_say_why_they_were_left() {
    let mut exact_host = host("a.test", vec![route("r", None, vec![rule("r", vec![prefix("/x")])])]);
    exact_host.falls_through = true;
    let all = |name: &str| host(name, vec![route("r", None, vec![rule("r", vec![prefix("/")])])]);
    let snapshot = compile(&config(vec![exact_host, all("*.test"), all("")]), None).snapshot;
    let explained = |ask: Ask| {
        let explanation =
            snapshot.explain(snapshot.table(TABLE).expect("a listener names the table"), &ask.request());
        explanation.hosts.iter().map(|step| step.verdict).collect::<Vec<_>>()
    };
    use HostVerdict::{FallsThrough, LessSpecific, Serves};
    assert_eq!(explained(Ask::get("a.test", "/y")), [FallsThrough, Serves, LessSpecific]);
    assert_eq!(explained(Ask::get("a.test", "/x")), [Serves, LessSpecific, LessSpecific]);
    assert_eq!(explained(Ask::get("elsewhere", "/")), [Serves]);
}
