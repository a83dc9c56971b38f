//! The largest Gateway that the API admits, with a thousand ListenerSets: every listener is served, and a change
//! costs a fraction of a full translation.

use std::sync::LazyLock;
use std::time::Duration;

use fairway_gateway::{Condition, GatewayStatus, ListenerStatus, OwnStatus};
use fairway_ingress::{Translation, Translator};
use fairway_model::{HostPattern, PathMatch, VirtualHost};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::{GatewayPlacement, Options};
use fairway_objects::resources::{Change, Resources};
use serde_json::{Value, json};

use crate::support::{NOW, object};

const GROUP: &str = "gateway.networking.k8s.io/v1";
/// `maxItems` of `spec.listeners` of a Gateway.
const LISTENERS: usize = 64;
const SETS: usize = 3_000;

static SECRET: LazyLock<Change> = LazyLock::new(|| {
    let wish = json!({"kind": "Certificate", "metadata": metadata("tls", 0), "names": ["*.test"]});
    Change::Set(object(wish), None)
});

fn metadata(name: &str, day: usize) -> Value {
    let created = format!("2026-01-{:02}T00:00:00Z", day + 1);
    json!({"name": name, "namespace": "a", "creationTimestamp": created, "generation": 1, "uid": name})
}

/// Every second listener of the Gateway terminates TLS, and all of the ListenerSets do.
fn listener(name: &str, host: &str, https: bool) -> Value {
    let mut listener = json!({"name": name, "port": 80, "protocol": "HTTP", "hostname": host});
    if https {
        listener["port"] = json!(443);
        listener["protocol"] = json!("HTTPS");
        listener["tls"] = json!({"certificateRefs": [{"name": "tls"}]});
    }
    listener
}

fn gateway() -> Value {
    let listeners: Vec<_> =
        (0..LISTENERS).map(|at| listener(&format!("l{at}"), &format!("l{at}.test"), at % 2 == 1)).collect();
    json!({"apiVersion": GROUP, "kind": "Gateway", "metadata": metadata("edge", 0), "spec": {
        "gatewayClassName": "fairway", "listeners": listeners,
        "allowedListeners": {"namespaces": {"from": "All"}}}})
}

fn set(name: &str, host: &str, day: usize) -> Change {
    let listeners = json!([listener("https", host, true)]);
    let set = json!({"apiVersion": GROUP, "kind": "ListenerSet", "metadata": metadata(name, day),
                     "spec": {"parentRef": {"name": "edge"}, "listeners": listeners}});
    Change::Set(object(set), None)
}

fn route(name: &str, parent: &Value, path: &str) -> Change {
    let rule = json!({"matches": [{"path": {"value": path}}], "backendRefs": [{"name": "web", "port": 80}]});
    let route = json!({"apiVersion": GROUP, "kind": "HTTPRoute", "metadata": metadata(name, 0),
                       "spec": {"parentRefs": [parent], "rules": [rule]}});
    Change::Set(object(route), None)
}

fn to_set(at: usize) -> Value {
    json!({"kind": "ListenerSet", "name": format!("s{at}")})
}

/// All objects, with one route per listener.
fn all_resources() -> Resources {
    let mut resources = Resources::default();
    let class = json!({"apiVersion": GROUP, "kind": "GatewayClass", "metadata": {"name": "fairway"},
                       "spec": {"controllerName": "fairway.dev/gateway-controller"}});
    let service =
        json!({"kind": "Service", "metadata": metadata("web", 0), "spec": {"ports": [{"port": 80}]}});
    let mut slice = json!({"kind": "EndpointSlice", "metadata": metadata("web-1", 0), "addressType": "IPv4",
                           "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 8080}]});
    slice["metadata"]["labels"] = json!({"kubernetes.io/service-name": "web"});
    for value in [class, service, slice, gateway()] {
        resources.apply(Change::Set(object(value), None));
    }
    resources.apply(SECRET.clone());
    for at in 0..LISTENERS {
        let parent = json!({"name": "edge", "sectionName": format!("l{at}")});
        resources.apply(route(&format!("of-l{at}"), &parent, "/"));
    }
    for at in 0..SETS {
        resources.apply(set(&format!("s{at}"), &format!("s{at}.test"), 0));
        resources.apply(route(&format!("of-s{at}"), &to_set(at), "/"));
    }
    resources
}

fn translator() -> Translator {
    let mut options = Options::default();
    options.gateways.placement = GatewayPlacement::At(vec!["10.9.0.1".parse().unwrap()]);
    Translator::new(options)
}

fn status<'a>(translation: &'a Translation, kind: Kind, name: &str) -> &'a OwnStatus {
    let object = ObjectRef::new(kind, ObjectKey::new("a", name));
    &translation
        .gateway
        .statuses
        .get(&object)
        .unwrap_or_else(|| panic!("{object:?} has no status"))
        .own_status
}

fn condition_holds(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|it| it.kind == kind && it.holds)
}

fn assert_is_served(listener: &ListenerStatus) {
    let all = ["Accepted", "Programmed", "ResolvedRefs"];
    assert!(all.iter().all(|kind| condition_holds(&listener.conditions, kind)), "{listener:?}");
    assert!(!condition_holds(&listener.conditions, "Conflicted"), "{listener:?}");
    assert_eq!(listener.attached_routes, 1, "{listener:?}");
}

fn own_gateway(translation: &Translation) -> &GatewayStatus {
    match status(translation, Kind::Gateway, "edge") {
        OwnStatus::Gateway(status) => status,
        other => panic!("{other:?}"),
    }
}

/// The listener of a ListenerSet, and whether the set is accepted.
fn of_set<'a>(translation: &'a Translation, name: &str) -> (&'a ListenerStatus, bool) {
    match status(translation, Kind::ListenerSet, name) {
        OwnStatus::ListenerSet(status) => {
            (&status.listeners[0], condition_holds(&status.conditions, "Accepted"))
        }
        other => panic!("{other:?}"),
    }
}

fn hosts<'a>(translation: &'a Translation, name: &str) -> Vec<&'a VirtualHost> {
    let pattern = HostPattern::Exact(name.into());
    translation.config.hosts.values().map(|host| &**host).filter(|host| host.key.host == pattern).collect()
}

#[test]
fn sixty_four_listeners_and_three_thousand_listener_sets_are_served_each_with_its_own_route() {
    let mut resources = all_resources();
    let mut translator = translator();
    let translation = translator.update(&resources, &[], NOW);
    let gateway = own_gateway(&translation);
    assert_eq!((gateway.listeners.len(), gateway.attached_listener_sets), (LISTENERS, SETS));
    gateway.listeners.iter().for_each(assert_is_served);
    assert!(["Accepted", "Programmed"].iter().all(|kind| condition_holds(&gateway.conditions, kind)));
    for at in 0..SETS {
        let (listener, is_accepted) = of_set(&translation, &format!("s{at}"));
        assert_is_served(listener);
        assert!(is_accepted, "s{at}");
    }
    let of_gateways = translation.config.hosts.keys().filter(|key| key.table.starts_with("gateway/"));
    assert_eq!(of_gateways.count(), LISTENERS + SETS);
    for (host, route) in
        [("l0.test", "of-l0"), ("l63.test", "of-l63"), ("s0.test", "of-s0"), ("s999.test", "of-s999")]
    {
        let [host] = hosts(&translation, host)[..] else { panic!("{host} is not there once") };
        assert_eq!(host.routes.iter().map(|it| &*it.origin.name).collect::<Vec<_>>(), [route]);
    }
    assert_eq!(translation.diagnostics.iter().count(), 0);

    // Another one claims an existing hostname: the older one keeps it, and no other listener is affected.
    let late = set("late", "s7.test", 1);
    let changed = [late.reference()];
    resources.apply(late);
    let translation = translator.update(&resources, &changed, NOW);
    let (listener, is_accepted) = of_set(&translation, "late");
    assert!(condition_holds(&listener.conditions, "Conflicted") && !is_accepted, "{listener:?}");
    assert_is_served(of_set(&translation, "s7").0);
    assert_eq!(own_gateway(&translation).attached_listener_sets, SETS);
}

fn thread_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(spent).unwrap()
}

/// The minimum CPU time of several updates with a change.
fn least_time(
    translator: &mut Translator,
    resources: &mut Resources,
    change: impl Fn(usize) -> Change,
) -> Duration {
    let costs = (0..20).map(|at| {
        let change = change(at);
        let changed = [change.reference()];
        resources.apply(change);
        let before = thread_time();
        translator.update(resources, &changed, NOW);
        thread_time() - before
    });
    costs.min().unwrap()
}

#[test]
fn a_change_costs_a_fraction_of_a_full_translation() {
    let (mut resources, mut translator) = (all_resources(), translator());
    let before = thread_time();
    translator.update(&resources, &[], NOW);
    let all = thread_time() - before;
    let of_route = least_time(&mut translator, &mut resources, |at| {
        route(&format!("of-s{}", at * 31), &to_set(at * 31), "/other")
    });
    // A ListenerSet is checked together with all others of its Gateway; their routes and hosts stay unchanged.
    let of_set = least_time(&mut translator, &mut resources, |at| {
        set(&format!("s{}", at * 31), &format!("moved{at}.test"), 0)
    });
    println!("everything: {all:?}; one route: {of_route:?}; one ListenerSet: {of_set:?}");
    assert!(of_route * 50 < all, "one route took {of_route:?}, everything {all:?}");
    assert!(of_set * 5 < all, "one ListenerSet took {of_set:?}, everything {all:?}");
}

/// A route for its own host at the only listener of a ListenerSet.
fn at_one_listener(at: usize, path: &str) -> Change {
    let rule = json!({"matches": [{"path": {"value": path}}], "backendRefs": [{"name": "web", "port": 80}]});
    let parent = json!({"kind": "ListenerSet", "name": "wide"});
    let route = json!({"apiVersion": GROUP, "kind": "HTTPRoute", "metadata": metadata(&format!("w{at}"), 0),
                       "spec": {"parentRefs": [parent], "hostnames": [format!("h{at}.wide.test")], "rules": [rule]}});
    Change::Set(object(route), None)
}

#[test]
fn a_route_change_costs_the_same_for_any_number_of_routes_at_its_listener() {
    let cost = |count: usize| {
        let (mut resources, mut translator) = (all_resources(), translator());
        resources.apply(set("wide", "*.wide.test", 0));
        (0..count).for_each(|at| resources.apply(at_one_listener(at, "/")));
        translator.update(&resources, &[], NOW);
        least_time(&mut translator, &mut resources, |at| at_one_listener(at * 13, "/other"))
    };
    let (few, many) = (cost(500), cost(20_000));
    println!("one of 500: {few:?}, one of 20,000: {many:?}");
    // A proportional cost would be forty times as high.
    assert!(many < few * 4, "one change among 500 took {few:?}, among 20,000 {many:?}");
}

/// A rule with a regular expression that reads the whole path.
fn greedy(name: &str, day: usize, count: usize) -> Change {
    let rule = |at: usize| {
        let path = json!({"type": "RegularExpression", "value": format!("/x.*{name}{at}")});
        json!({"matches": [{"path": path}], "backendRefs": [{"name": "web", "port": 80}]})
    };
    let rules: Vec<_> = (0..count).map(rule).collect();
    let route = json!({"apiVersion": GROUP, "kind": "HTTPRoute", "metadata": metadata(name, day), "spec": {
        "parentRefs": [{"name": "edge", "sectionName": "l0"}], "rules": rules}});
    Change::Set(object(route), None)
}

fn conditions(translation: &Translation, name: &str) -> Vec<Condition> {
    match status(translation, Kind::HttpRoute, name) {
        OwnStatus::Route(parents) => parents[0].conditions.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_route_without_any_affordable_pattern_is_not_accepted_and_not_counted() {
    let (mut resources, mut translator) = (all_resources(), translator());
    for (name, day, count) in [("old", 1, 120), ("young", 2, 120), ("youngest-of-all", 3, 2)] {
        resources.apply(greedy(name, day, count));
    }
    let all = translator.update(&resources, &[], NOW);
    let found = conditions(&all, "youngest-of-all");
    let accepted = found.iter().find(|it| it.kind == "Accepted").unwrap();
    assert_eq!((accepted.holds, accepted.reason), (false, "UnsupportedValue"), "{accepted:?}");
    assert!(accepted.message.contains("no rule of it is left at the host \"l0.test\""), "{accepted:?}");
    assert!(!found.iter().any(|it| it.kind == "PartiallyInvalid"), "{found:?}");
    assert!(condition_holds(&conditions(&all, "young"), "PartiallyInvalid"), "something is left of it");
    let attached = |translation: &Translation| own_gateway(translation).listeners[0].attached_routes;
    assert_eq!(attached(&all), 3, "of-l0, old and young");

    let old = ObjectRef::new(Kind::HttpRoute, ObjectKey::new("a", "old"));
    resources.apply(Change::Remove(old.clone()));
    let without = translator.update(&resources, std::slice::from_ref(&old), NOW);
    assert!(condition_holds(&conditions(&without, "youngest-of-all"), "Accepted"));
    assert_eq!(attached(&without), 3, "of-l0, young and youngest-of-all");
    resources.apply(greedy("old", 1, 120));
    let again = translator.update(&resources, &[old], NOW);
    assert_eq!((conditions(&again, "youngest-of-all"), attached(&again)), (found, 3));
}

#[test]
fn routes_of_a_host_share_one_regex_budget_and_the_younger_route_gets_the_condition() {
    let (mut resources, mut translator) = (all_resources(), translator());
    // Each route by itself is within its limit.
    for (name, day) in [("old", 1), ("young", 2)] {
        resources.apply(greedy(name, day, 120));
    }
    let both = translator.update(&resources, &[], NOW);
    let is_same = |translation: &Translation, name: &str| {
        let host = hosts(translation, "l0.test")[0];
        let routes = host.routes.iter().filter(|route| *route.origin.name == *name);
        let regex = |path: &PathMatch| matches!(path, PathMatch::Regex { .. });
        routes
            .flat_map(|route| &route.rules)
            .filter(|rule| rule.matches.iter().any(|it| regex(&it.path)))
            .count()
    };
    assert_eq!(is_same(&both, "old"), 120, "the older one has all of its rules");
    assert!((1..120).contains(&is_same(&both, "young")), "{}", is_same(&both, "young"));
    assert!(!condition_holds(&conditions(&both, "old"), "PartiallyInvalid"));
    assert!(condition_holds(&conditions(&both, "young"), "PartiallyInvalid"));
    let messages: Vec<String> = both.diagnostics.iter().map(ToString::to_string).collect();
    assert!(messages.iter().all(|text| text.contains("HTTPRoute a/young spec.rules[")), "{messages:?}");
    assert!(messages[0].contains("no request for the host \"l0.test\" matches it"), "{}", messages[0]);

    let old = ObjectRef::new(Kind::HttpRoute, ObjectKey::new("a", "old"));
    resources.apply(Change::Remove(old.clone()));
    let alone = translator.update(&resources, &[old], NOW);
    assert_eq!((is_same(&alone, "young"), alone.diagnostics.iter().count()), (120, 0));
    assert!(
        !condition_holds(&conditions(&alone, "young"), "PartiallyInvalid"),
        "it is told anew without being changed"
    );
}
