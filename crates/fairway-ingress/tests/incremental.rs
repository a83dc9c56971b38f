//! An update after any edits equals a translation from scratch.

use std::time::Duration;

use fairway_ingress::{Translation, Translator, translate};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::{
    Compat, Defaults, ExternalNameOptions, ExternalNames, HostOwnership, Options, ServiceMaps, Trust,
    WithoutClass,
};
use fairway_objects::resources::{Change, Resources};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{NOW, object};

const PREFIX: &str = "nginx.ingress.kubernetes.io";

#[derive(Clone, Debug)]
enum Edit {
    Set(Value),
    Remove(Kind, ObjectKey),
    Resolve(Vec<std::net::IpAddr>),
}

fn change(edit: &Edit) -> Change {
    match edit {
        Edit::Set(value) => Change::Set(object(value.clone()), None),
        Edit::Remove(kind, key) => Change::Remove(ObjectRef::new(*kind, key.clone())),
        Edit::Resolve(addresses) => {
            Change::Resolved { name: "up.example.com".into(), addresses: addresses.clone() }
        }
    }
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "default"})
}

fn any_annotations() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let annotation = prop::sample::select(vec![
        ("use-regex", "true"),
        ("rewrite-target", "/$1"),
        ("app-root", "/app"),
        ("backend-protocol", "HTTPS"),
        ("proxy-ssl-secret", "default/c0"),
        ("proxy-ssl-verify", "on"),
        ("custom-headers", "default/headers"),
        ("canary", "true"),
        ("canary-weight", "20"),
        ("affinity", "cookie"),
        ("affinity-mode", "persistent"),
        ("session-cookie-name", "route"),
        ("load-balance", "ewma"),
        ("upstream-hash-by", "$host"),
        ("service-upstream", "true"),
        ("affinity-canary-behavior", "legacy"),
        ("default-backend", "s1"),
        ("auth-url", "http://10.96.0.1/x"),
        ("auth-url", "http://s1.default.svc/x"),
        ("auth-url", "https://up.example.com/x"),
        ("auth-url", "https://$host/x"),
        ("mirror-target", "http://10.96.0.1$request_uri"),
        ("mirror-target", "https://up.example.com$request_uri"),
        ("denylist-source-range", "10.0.0.0/8"),
        ("permanent-redirect", "https://x.test"),
        ("server-alias", "b.a.test, *.test, b.test"),
        ("server-alias", "*.a.test"),
        ("from-to-www-redirect", "true"),
        ("ssl-passthrough", "true"),
        ("enable-opentelemetry", "true"),
        ("enable-opentelemetry", "false"),
        ("opentelemetry-trust-incoming-span", "false"),
        ("opentelemetry-operation-name", "$service_name"),
    ]);
    let verified =
        [("backend-protocol", "HTTPS"), ("proxy-ssl-secret", "default/c0"), ("proxy-ssl-verify", "on")];
    prop_oneof![3 => prop::collection::vec(annotation, 0..4), 1 => Just(verified.to_vec())]
}

fn any_ingress() -> impl Strategy<Value = Value> {
    let annotations = any_annotations();
    let host = || prop::sample::select(vec!["a.test", "b.a.test", "*.a.test", "*.test", ""]);
    let path = prop::sample::select(vec!["/", "/a", "/a/", "/a(.*)", "/(?!x)", "/b"]);
    let kind = prop::sample::select(vec!["Exact", "Prefix", "ImplementationSpecific"]);
    let service = || prop::sample::select(vec!["s0", "s1", "s2"]);
    let port =
        prop::sample::select(vec![json!({"number": 80}), json!({"name": "http"}), json!({"number": 9})]);
    let rule = (host(), path, kind, service(), port).prop_map(|(host, path, kind, service, port)| {
        let backend = json!({"service": {"name": service, "port": port}});
        json!({"host": host, "http": {"paths": [{"path": path, "pathType": kind, "backend": backend}]}})
    });
    let tls = prop::option::of((host(), prop::sample::select(vec!["c0", "c0", "c1", "none"])));
    let default = prop::option::of(service());
    let class = prop::sample::select(vec![
        Some("fairway"),
        Some("fairway"),
        Some("fairway"),
        Some("k0"),
        Some("k1"),
        None,
    ]);
    let created = prop::option::of(1..4u32);
    let namespace = prop::sample::select(vec!["default", "default", "other", "third"]);
    let shared = prop::sample::select(vec![None, None, Some("*"), Some("other"), Some("default, third")]);
    let compat = prop::sample::select(vec![None, None, None, Some("nginx"), Some("strict")]);
    let issuer = |keys: Value| json!({"issuers": [{"issuer": "a", "keys": keys}]});
    let identity = prop::sample::select(vec![
        None,
        None,
        Some(("jwt", issuer(json!({"url": "http://s1.default.svc/x"})))),
        Some(("jwt", issuer(json!({"url": "https://up.example.com/x"})))),
        Some((
            "jwt",
            issuer(
                json!({"url": "https://up.example.com/x", "caCertificateRefs": [{"kind": "Secret", "name": "c0"}]}),
            ),
        )),
        Some(("jwt", issuer(json!({"ref": {"kind": "ConfigMap", "name": "headers"}})))),
        Some(("api-key", json!({"secretRefs": [{"name": "c0"}]}))),
    ]);
    let ownership = (namespace, shared, compat, identity);
    let shape = (prop::collection::vec(rule, 0..3), tls, default, class);
    (0..5usize, annotations, shape, created, ownership).prop_map(
        |(name, annotations, (rules, tls, default, class), created, (namespace, shared, compat, identity))| {
            let mut annotations: serde_json::Map<_, _> =
                annotations.iter().map(|(name, value)| (format!("{PREFIX}/{name}"), json!(value))).collect();
            if let Some(shared) = shared {
                annotations.insert("fairway.dev/shared-hosts".to_owned(), json!(shared));
            }
            if let Some(compat) = compat {
                annotations.insert("fairway.dev/compat".to_owned(), json!(compat));
            }
            if let Some((name, value)) = identity {
                annotations.insert(format!("fairway.dev/{name}"), json!(value.to_string()));
            }
            let mut metadata = metadata(&format!("i{name}"));
            metadata["namespace"] = json!(namespace);
            metadata["annotations"] = json!(annotations);
            metadata["creationTimestamp"] = json!(created.map(|day| format!("2026-01-0{day}T00:00:00Z")));
            let tls: Vec<_> = tls.map(|(host, secret)| json!({"hosts": [host], "secretName": secret})).into_iter().collect();
            let port = json!({"number": 80});
            let default = default.map(|name| json!({"service": {"name": name, "port": port}}));
            let spec = json!({"ingressClassName": class, "rules": rules, "tls": tls, "defaultBackend": default});
            json!({"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": metadata, "spec": spec})
        },
    )
}

fn any_other_object() -> impl Strategy<Value = Value> {
    let class = (0..2usize, any::<bool>(), any::<bool>()).prop_map(|(name, ours, default)| {
        let controller = if ours { "fairway.dev/ingress-controller" } else { "other" };
        let annotations = json!({"ingressclass.kubernetes.io/is-default-class": default.to_string()});
        let metadata = json!({"name": format!("k{name}"), "annotations": annotations});
        json!({"kind": "IngressClass", "metadata": metadata, "spec": {"controller": controller}})
    });
    let service = (0..3usize, 0..4usize).prop_map(|(name, shape)| {
        let spec = match shape {
            0 => json!({
                "clusterIP": format!("10.96.0.{}", 2 - name),
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            }),
            1 => json!({"ports": [{"name": "http", "port": 9}]}),
            2 => json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "http", "port": 53}]}),
            _ => json!({"type": "ExternalName", "externalName": "up.example.com"}),
        };
        json!({"kind": "Service", "metadata": metadata(&format!("s{name}")), "spec": spec})
    });
    let slice = (0..3usize, 0..3usize, 1..5u8, any::<bool>()).prop_map(|(name, service, last, ready)| {
        let mut metadata = metadata(&format!("e{name}"));
        metadata["labels"] = json!({"kubernetes.io/service-name": format!("s{service}")});
        let endpoints = json!([{"addresses": [format!("10.0.0.{last}")], "conditions": {"ready": ready}}]);
        let ports = json!([{"name": "http", "port": 8080}]);
        json!({"kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints})
    });
    let map = (any::<bool>(), prop::sample::select(vec!["X-One", "X-Two"]), any::<bool>()).prop_map(
        |(settings, header, redirect)| {
            let data = json!({
                "global-allowed-response-headers": header, "ssl-redirect": redirect.to_string(),
                "use-forwarded-headers": redirect.to_string(),
                "add-headers": if redirect { "default/headers" } else { "" },
                "proxy-set-headers": if redirect { "" } else { "default/headers" },
                "proxy-stream-timeout": if redirect { "90s" } else { "600s" },
                "enable-opentelemetry": redirect.to_string(),
                "otlp-collector-host": if redirect { "collector" } else { "" },
            });
            match settings {
                true => json!({"kind": "ConfigMap", "metadata": metadata("settings"), "data": data}),
                false => json!({"kind": "ConfigMap", "metadata": metadata("headers"), "data": {header: "1"}}),
            }
        },
    );
    let target = prop::sample::select(vec![
        "default/s0:80",
        "default/s1:http",
        "default/s2:53::PROXY",
        "s0",
        "default/s0:9",
    ]);
    let services = prop::collection::btree_map(prop::sample::select(vec!["53", "9000", "x"]), target, 0..3);
    let services = (any::<bool>(), services).prop_map(|(tcp, data)| {
        let name = if tcp { "tcp" } else { "udp" };
        json!({"kind": "ConfigMap", "metadata": metadata(name), "data": data})
    });
    // c0 is always valid and c1 never: a Secret that breaks keeps its last valid certificate, and a translation from
    // scratch has none to keep.
    let names = prop::sample::select(vec!["*.a.test", "a.test"]);
    let certificate = (any::<bool>(), names, 2024..2028i32).prop_map(|(good, names, until)| match good {
        true => json!({"kind": "Certificate", "metadata": metadata("c0"), "names": [names], "until": until}),
        false => {
            json!({"kind": "Certificate", "metadata": metadata("c1"), "names": [names], "foreignKey": true})
        }
    });
    let old_ingress =
        Just(json!({"kind": "Ingress", "apiVersion": "extensions/v1beta1", "metadata": metadata("old")}));
    prop_oneof![2 => class, 3 => service, 3 => slice, 2 => map, 2 => services, 2 => certificate, 1 => old_ingress]
}

fn any_edits() -> impl Strategy<Value = Vec<Vec<Edit>>> {
    let keys = |namespace: &'static str, prefix: &'static str, count: i32| {
        (0..count).prop_map(move |at: i32| ObjectKey::new(namespace, &format!("{prefix}{at}")))
    };
    let default_keys = |prefix: &'static str, count: i32| keys("default", prefix, count);
    let ingress_names =
        prop_oneof![2 => default_keys("i", 5), 1 => keys("other", "i", 5), 1 => keys("third", "i", 5)];
    let removal = prop_oneof![
        3 => ingress_names.prop_map(|key| Edit::Remove(Kind::Ingress, key)),
        1 => keys("", "k", 2).prop_map(|key| Edit::Remove(Kind::IngressClass, key)),
        1 => default_keys("s", 3).prop_map(|key| Edit::Remove(Kind::Service, key)),
        1 => default_keys("e", 3).prop_map(|key| Edit::Remove(Kind::EndpointSlice, key)),
        1 => default_keys("c", 2).prop_map(|key| Edit::Remove(Kind::Secret, key)),
        1 => prop::sample::select(vec!["settings", "headers", "tcp", "udp"])
            .prop_map(|name| Edit::Remove(Kind::ConfigMap, ObjectKey::new("default", name))),
        1 => Just(Edit::Remove(Kind::OldIngress, ObjectKey::new("default", "old"))),
    ];
    let resolve = prop::collection::vec(prop::sample::select(vec!["10.1.0.1", "10.1.0.2"]), 0..2)
        .prop_map(|texts| Edit::Resolve(texts.iter().map(|text| text.parse().unwrap()).collect()));
    let edit = prop_oneof![
        6 => any_ingress().prop_map(Edit::Set),
        6 => any_other_object().prop_map(Edit::Set),
        3 => removal,
        1 => resolve,
    ];
    prop::collection::vec(prop::collection::vec(edit, 1..4), 1..14)
}

fn trust_resolved_names() -> Trust {
    let external = ExternalNameOptions { names: ExternalNames::Resolved, ..ExternalNameOptions::default() };
    Trust { external, ..Trust::default() }
}

fn options() -> Options {
    Options {
        configmap: ObjectKey::parse("default/settings"),
        defaults: Defaults { certificate: ObjectKey::parse("default/c0"), backend: None },
        trust: trust_resolved_names(),
        ..Options::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_update_gives_what_a_translation_from_scratch_gives(
        steps in any_edits(),
        hours in 0..100_000i64,
        owned in any::<bool>(),
        strict in prop::sample::select(vec![false, false, false, true]),
        backend in prop::sample::select(vec![None, Some("default/s2")]),
    ) {
        let mut options = options();
        options.defaults.backend = backend.and_then(ObjectKey::parse);
        options.listeners.service_maps = ServiceMaps {
            tcp: ObjectKey::parse("default/tcp"),
            udp: ObjectKey::parse("default/udp"),
            ..ServiceMaps::default()
        };
        if owned {
            options.hosts.ownership = HostOwnership::Namespace;
        }
        if strict {
            options.hosts.compat = Compat::Strict;
        }
        let mut resources = Resources::default();
        for at in 0..2 {
            let spec = json!({"ports": [{"name": "http", "port": 80}]});
            let service = json!({"kind": "Service", "metadata": metadata(&format!("s{at}")), "spec": spec});
            resources.apply(Change::Set(object(service), None));
        }
        let certificate = json!({"kind": "Certificate", "metadata": metadata("c0"), "names": ["*.a.test"]});
        resources.apply(Change::Set(object(certificate), None));
        let mut translator = Translator::new(options.clone());
        let mut now = NOW;
        for step in steps {
            let changes: Vec<Change> = step.iter().map(change).collect();
            let changed: Vec<ObjectRef> = changes.iter().map(Change::reference).collect();
            changes.into_iter().for_each(|change| resources.apply(change));
            now += hours * 3600;
            let updated = translator.update(&resources, &changed, now);
            check_same(&updated, &translate(&resources, &options, now))?;
        }
    }
}

fn check_same(updated: &Translation, scratch: &Translation) -> Result<(), TestCaseError> {
    let text = |it: &Translation| it.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>();
    prop_assert_eq!(text(updated), text(scratch));
    prop_assert_eq!(&updated.config, &scratch.config);
    prop_assert_eq!(&updated.status, &scratch.status);
    prop_assert_eq!(&updated.external_names, &scratch.external_names);
    Ok(())
}

/// Applies the documents one after the other, and returns the translation after the last.
fn translate_in_steps(documents: &[Value], now: i64) -> Translation {
    let mut resources = Resources::default();
    let mut translator = Translator::new(options());
    let mut last = Translation::default();
    for document in documents {
        let change = Change::Set(object(document.clone()), None);
        let changed = [change.reference()];
        resources.apply(change);
        last = translator.update(&resources, &changed, now);
    }
    last
}

fn codes(translation: &Translation) -> Vec<&str> {
    translation.diagnostics.iter().map(|found| found.code).collect()
}

#[test]
fn an_ingress_without_a_spec_is_read_again_when_an_object_of_its_annotations_appears() {
    let mut metadata = metadata("i");
    metadata["annotations"] = json!({format!("{PREFIX}/custom-headers"): "default/headers"});
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata});
    let headers = json!({"kind": "ConfigMap", "metadata": {"name": "headers", "namespace": "default"}, "data": {"X-A": "b"}});
    let options = Options { without_class: WithoutClass::Served, ..Options::default() };
    let (mut resources, mut translator) = (Resources::default(), Translator::new(options.clone()));
    let mut last = translator.update(&resources, &[], NOW);
    for document in [ingress, headers] {
        let change = change(&Edit::Set(document));
        let changed = [change.reference()];
        resources.apply(change);
        last = translator.update(&resources, &changed, NOW);
    }
    assert!(!codes(&last).contains(&"missing-reference"), "{:?}", codes(&last));
    assert_eq!(codes(&last), codes(&translate(&resources, &options, NOW)));
}

#[test]
fn a_secret_that_breaks_keeps_the_certificate_that_it_had() {
    let good = json!({"kind": "Certificate", "metadata": metadata("c0"), "names": ["a.test"]});
    let broken = json!({"kind": "Secret", "metadata": metadata("c0"), "stringData": {"tls.crt": "nonsense"}});
    let settings = json!({"kind": "ConfigMap", "metadata": metadata("settings"), "data": {}});
    let before = translate_in_steps(&[settings.clone(), good.clone()], NOW);
    assert_eq!(before.config.certificates.len(), 1);
    let after_break = translate_in_steps(&[settings.clone(), good, broken.clone()], NOW);
    assert_eq!(after_break.config.certificates.len(), 1);
    assert_eq!(codes(&after_break), ["invalid-certificate"]);
    let never_good = translate_in_steps(&[settings, broken], NOW);
    assert_eq!((never_good.config.certificates.len(), never_good.config.default_certificate), (0, None));
}

#[test]
fn a_certificate_expires_without_any_change_of_an_object() {
    let mut resources = Resources::default();
    let until =
        json!({"kind": "Certificate", "metadata": metadata("c0"), "names": ["a.test"], "until": 2027});
    let settings = json!({"kind": "ConfigMap", "metadata": metadata("settings")});
    for document in [until, settings] {
        resources.apply(Change::Set(object(document), None));
    }
    let mut translator = Translator::new(options());
    assert_eq!(codes(&translator.update(&resources, &[], NOW)), [""; 0]);
    assert_eq!(codes(&translator.update(&resources, &[], NOW + 2 * 365 * 86_400)), ["certificate-expired"]);
}

#[test]
fn the_addresses_of_an_external_name_become_endpoints() {
    let mut resources = Resources::default();
    let spec = json!({"type": "ExternalName", "externalName": "up.example.com"});
    let service = json!({"kind": "Service", "metadata": metadata("s0"), "spec": spec});
    resources.apply(Change::Set(object(service), None));
    resources.apply(numbered_ingress(0, "/", "s0"));
    let mut translator = Translator::new(options());
    let first = translator.update(&resources, &[], NOW);
    assert_eq!(first.external_names.iter().map(|name| &**name).collect::<Vec<_>>(), ["up.example.com"]);
    let resolved = change(&Edit::Resolve(vec!["10.1.0.1".parse().unwrap()]));
    let changed = [resolved.reference()];
    resources.apply(resolved);
    let second = translator.update(&resources, &changed, NOW);
    let backend = second.config.backends.values().next().unwrap();
    assert_eq!(backend.endpoints[0].address.to_string(), "10.1.0.1:80");
}

#[test]
fn an_edit_shares_unchanged_parts() {
    let mut resources = Resources::default();
    for at in 0..3 {
        resources.apply(numbered_ingress(at, "/", "s"));
    }
    let mut translator = Translator::new(Options::default());
    let first = translator.update(&resources, &[], NOW);
    let edit = numbered_ingress(1, "/other", "s");
    let changed = [edit.reference()];
    resources.apply(edit);
    let second = translator.update(&resources, &changed, NOW);
    assert_eq!(first.config.hosts.diff(&second.config.hosts).count(), 1);
    let scopes: Vec<_> = second.diagnostics.changed_since(&first.diagnostics).collect();
    assert!(scopes.len() <= 2, "{scopes:?}");
}

fn numbered_ingress(number: usize, path: &str, service: &str) -> Change {
    let backend = json!({"service": {"name": service, "port": {"number": 80}}});
    let paths = json!([{"path": path, "pathType": "Prefix", "backend": backend}]);
    let rules = json!([{"host": format!("h{number}.test"), "http": {"paths": paths}}]);
    let spec = json!({"ingressClassName": "fairway", "rules": rules});
    let value = json!({"kind": "Ingress", "apiVersion": "networking.k8s.io/v1",
                       "metadata": metadata(&format!("i{number}")), "spec": spec});
    Change::Set(object(value), None)
}

#[test]
fn the_cost_of_a_change_does_not_depend_on_the_number_of_ingresses() {
    for service in [|at| format!("s{at}"), |_| "s".to_owned()] {
        let (few, many) = (cost_of_a_change(500, service), cost_of_a_change(10_000, service));
        println!("{}: one of 500: {few:?}, one of 10,000: {many:?}", service(0));
        // A cost proportional to the number of Ingresses would be twenty times as high.
        assert!(many < few * 5, "one change among 500 took {few:?}, among 10,000 {many:?}");
    }
}

/// The CPU time of this thread for a change of one Ingress among `count`; `service` names the Service of each. The
/// minimum of many runs: other processes evict caches, but use no CPU time of this thread.
fn cost_of_a_change(count: usize, service: fn(usize) -> String) -> Duration {
    let mut resources = Resources::default();
    for at in 0..count {
        resources.apply(numbered_ingress(at, "/", &service(at)));
        let spec = json!({"ports": [{"port": 80}]});
        let service = json!({"kind": "Service", "metadata": metadata(&service(at)), "spec": spec});
        resources.apply(Change::Set(object(service), None));
    }
    let mut translator = Translator::new(Options::default());
    let first = translator.update(&resources, &[], NOW);
    assert_eq!(first.config.hosts.len(), count + 1);
    let mut fastest = Duration::MAX;
    for round in 0..100 {
        let index = round * 97 % count;
        let change = numbered_ingress(index, "/other", &service(index));
        let changed = [change.reference()];
        resources.apply(change);
        let began = thread_time();
        let updated = translator.update(&resources, &changed, NOW);
        fastest = fastest.min(thread_time() - began);
        assert_ne!(updated.config, first.config);
    }
    fastest
}

fn thread_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(spent).unwrap()
}

/// An Ingress of `namespace` for `host`, created on a day in January.
fn named_ingress(namespace: &str, host: &str, day: u32) -> Change {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    let rules = json!([{"host": host, "http": {"paths": paths}}]);
    let mut metadata = json!({"name": "web", "namespace": namespace});
    metadata["creationTimestamp"] = json!(format!("2026-01-0{day}T00:00:00Z"));
    let spec = json!({"ingressClassName": "fairway", "rules": rules});
    let value =
        json!({"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": metadata, "spec": spec});
    Change::Set(object(value), None)
}

#[test]
fn a_host_passes_to_the_next_namespace_when_its_oldest_ingress_is_deleted() {
    let mut options = Options::default();
    options.hosts.ownership = HostOwnership::Namespace;
    let (mut resources, mut translator) = (Resources::default(), Translator::new(options));
    let mut owners = |change: Change| {
        let changed = [change.reference()];
        resources.apply(change);
        let translation = translator.update(&resources, &changed, NOW);
        let host = |host: &fairway_model::VirtualHost| {
            let owner = &host.routes.first()?.origin.namespace;
            (!owner.is_empty()).then(|| format!("{} {owner}", host.key.host))
        };
        translation.config.hosts.values().filter_map(|it| host(it)).collect::<Vec<_>>()
    };
    let gone =
        |namespace: &str| Change::Remove(ObjectRef::new(Kind::Ingress, ObjectKey::new(namespace, "web")));
    assert_eq!(owners(named_ingress("b", "x.a.test", 2)), ["x.a.test b"]);
    assert_eq!(owners(named_ingress("c", "x.a.test", 3)), ["x.a.test b"]);
    assert_eq!(
        owners(named_ingress("a", "*.a.test", 1)),
        ["*.a.test a"],
        "an older wildcard owns the hosts that it covers"
    );
    assert_eq!(owners(gone("a")), ["x.a.test b"]);
    assert_eq!(owners(gone("b")), ["x.a.test c"]);
    assert_eq!(
        owners(named_ingress("a", "*.a.test", 4)),
        ["x.a.test c", "*.a.test a"],
        "a newer wildcard does not own older hosts"
    );
}
