//! Which host serves a name, and what happens when none of its rules matches.

use fairway_model::{CertificateKey, VirtualHost, WildcardSpan};
use fairway_routing::{Matched, Snapshot, compile};

use crate::tables::*;

fn named(name: &str, span: WildcardSpan, path: &str) -> VirtualHost {
    let mut virtual_host = host("x.test", vec![route("r", None, vec![rule(name, vec![prefix(path)])])]);
    virtual_host.key.host = pattern(name, span);
    virtual_host
}

fn exact_host(name: &str) -> VirtualHost {
    named(name, WildcardSpan::OneLabel, "/")
}

fn wildcard_host(name: &str) -> VirtualHost {
    named(name, WildcardSpan::ManyLabels, "/")
}

fn snapshot(hosts: Vec<VirtualHost>) -> std::sync::Arc<Snapshot> {
    compile(&config(hosts), None).snapshot
}

#[test]
fn exact_names_precede_wildcards_and_wildcards_precede_the_catch_all() {
    let snapshot = snapshot(vec![
        exact_host("a.b.test"),
        exact_host("*.b.test"),
        wildcard_host("*.test"),
        exact_host(""),
    ]);
    for (name, winner_name) in [
        ("a.b.test", "a.b.test"),
        ("x.b.test", "*.b.test"),
        ("x.y.b.test", "*.test"),
        ("b.test", "*.test"),
        ("test", ""),
        (".test", ""),
        ("", ""),
    ] {
        assert_eq!(winner(&snapshot, &Ask::get(name, "/")), winner_name, "{name}");
    }
}

#[test]
fn at_one_suffix_one_label_is_more_specific_than_many() {
    let mut many_labels = wildcard_host("*.b.test");
    many_labels.routes = vec![route("r", None, vec![rule("many", vec![prefix("/")])])];
    let snapshot = snapshot(vec![many_labels, exact_host("*.b.test")]);
    assert_eq!(winner(&snapshot, &Ask::get("a.b.test", "/")), "*.b.test");
    assert_eq!(winner(&snapshot, &Ask::get("a.a.b.test", "/")), "many");
}

#[test]
fn a_less_specific_host_is_not_tried() {
    let only = named("a.test", WildcardSpan::OneLabel, "/only");
    let snapshot = snapshot(vec![only, exact_host("*.test"), exact_host("")]);
    assert_eq!(winner(&snapshot, &Ask::get("a.test", "/only")), "a.test");
    assert_eq!(winner(&snapshot, &Ask::get("a.test", "/else")), "no rule of a.test");
}

#[test]
fn hosts_of_gateway_tables_fall_through() {
    let mut first = named("a.test", WildcardSpan::OneLabel, "/only");
    let mut second = named("*.test", WildcardSpan::ManyLabels, "/wild");
    (first.falls_through, second.falls_through) = (true, true);
    let with_any = snapshot(vec![first.clone(), second.clone(), exact_host("")]);
    assert_eq!(winner(&with_any, &Ask::get("a.test", "/wild")), "*.test");
    assert_eq!(winner(&with_any, &Ask::get("a.test", "/else")), "");
    let without = snapshot(vec![first, second]);
    assert_eq!(winner(&without, &Ask::get("a.test", "/else")), "no rule of a.test");
    assert_eq!(winner(&without, &Ask::get("other", "/else")), "no host");
}

#[test]
fn tables_are_independent() {
    let mut other = exact_host("a.test");
    other.key.table = "other".into();
    let mut config = config(vec![other]);
    put_listener(&mut config, "spare", "without-hosts");
    let snapshot = compile(&config, None).snapshot;
    assert_eq!(winner(&snapshot, &Ask::get("a.test", "/")), "no host");
    let spare = snapshot.table("without-hosts").unwrap();
    assert!(matches!(snapshot.lookup(spare, &Ask::get("a.test", "/").request()), Matched::NoHost));
    assert!(snapshot.host(snapshot.table("other").unwrap(), "a.test").is_some());
    assert_eq!(snapshot.table("never-named"), None);
    assert_eq!(&*snapshot.listener("spare").unwrap().table, "without-hosts");
}

#[test]
fn a_name_of_tls_gets_the_certificate_of_its_most_specific_host() {
    let mut wild = exact_host("*.test");
    wild.certificate = Some(CertificateKey::from("ns/wild"));
    let snapshot = snapshot(vec![wild, exact_host("plain.test")]);
    let table = snapshot.table(TABLE).unwrap();
    let certificate =
        |name| snapshot.host(table, name).and_then(|host| host.certificate()).map(ToString::to_string);
    assert_eq!(certificate("a.test").as_deref(), Some("ns/wild"));
    assert_eq!(certificate("plain.test"), None);
    assert_eq!(certificate("elsewhere"), None);
}
