//! Every documented key of ingress-nginx and the F5 controller is known: it works, or a diagnostic reports the loss.
//! `docs/configmap.md` lists the effect of each key of ingress-nginx, in the words of the diagnostics.

use std::path::Path;

use fairway_ingress::translate;
use fairway_model::{DownstreamSettings, SessionTickets, Settings};
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{HostOptions, Options, UnsupportedProtection};
use fairway_objects::resources::{Change, Resources};
use serde_json::{Map, Value, json};

use crate::support::{NOW, object};

/// Every key of ingress-nginx, with a value other than its default.
const INGRESS_NGINX: &str = include_str!("upstream/configmap-keys.txt");

/// docs/content/configuration/global-configuration/configmap-resource.md of the F5 controller.
const F5: &str = "
    access-log access-log-off app-protect-compressed-requests-action app-protect-cookie-seed app-protect-cpu-thresholds
    app-protect-dos-arb-fqdn app-protect-dos-log-format app-protect-dos-log-format-escaping app-protect-failure-mode-action
    app-protect-physical-memory-util-thresholds app-protect-reconnect-period-seconds client-max-body-size
    default-server-access-log-off default-server-return error-log-level external-status-address fail-timeout hsts
    hsts-behind-proxy hsts-include-subdomains hsts-max-age http-snippets http2 ingress-template keepalive keepalive-requests
    keepalive-timeout lb-method location-snippets log-format log-format-escaping main-snippets main-template
    map-hash-bucket-size map-hash-max-size max-fails opentracing opentracing-tracer opentracing-tracer-config
    proxy-buffer-size proxy-buffering proxy-buffers proxy-connect-timeout proxy-hide-headers proxy-max-temp-file-size
    proxy-pass-headers proxy-protocol proxy-read-timeout proxy-send-timeout real-ip-header real-ip-recursive
    redirect-to-https resolver-addresses resolver-ipv6 resolver-timeout resolver-valid server-names-hash-bucket-size
    server-names-hash-max-size server-snippets server-tokens set-real-ip-from ssl-ciphers ssl-dhparam-file
    ssl-prefer-server-ciphers ssl-protocols ssl-redirect stream-log-format stream-log-format-escaping stream-snippets
    transportserver-template upstream-zone-size variables-hash-bucket-size variables-hash-max-size virtualserver-template
    worker-connections worker-cpu-affinity worker-processes worker-rlimit-nofile worker-shutdown-timeout
";

/// The keys of ingress-nginx with their values.
fn keys_of_ingress_nginx() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = INGRESS_NGINX.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').expect("a key and its value"))
}

/// Keys without effect unless another key is set, and that key.
const BESIDE: &[(&str, (&str, &str))] = &[
    ("otel-", ("otlp-collector-host", "collector")),
    ("otel-sampler-ratio", ("otel-sampler", "TraceIdRatioBased")),
    ("otlp-collector-port", ("otlp-collector-host", "collector")),
];

/// The diagnostics of a key with this value.
fn diagnostics_of(key: &str, value: &str) -> Vec<Diagnostic> {
    let beside = BESIDE.iter().filter(|(start, _)| key.starts_with(start)).map(|(_, beside)| *beside);
    let pairs = beside.chain([(key, value)]);
    let data: Map<String, Value> = pairs.map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let metadata = |name: &str| json!({"name": name, "namespace": "default"});
    let mut resources = Resources::default();
    for map in [
        json!({"kind": "ConfigMap", "metadata": metadata("settings"), "data": data}),
        json!({"kind": "ConfigMap", "metadata": metadata("headers"), "data": {"X-One": "1"}}),
    ] {
        resources.apply(Change::Set(object(map), None));
    }
    let options = Options {
        configmap: ObjectKey::parse("default/settings"),
        hosts: HostOptions {
            unsupported_protection: UnsupportedProtection::Ignored,
            ..HostOptions::default()
        },
        ..Options::default()
    };
    translate(&resources, &options, NOW).diagnostics.iter().cloned().collect()
}

/// Their codes.
fn codes(key: &str, value: &str) -> Vec<&'static str> {
    diagnostics_of(key, value).iter().map(|found| found.code).collect()
}

/// The effect of a key: a section of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyEffect {
    Served,
    NoEffect,
    NotServed,
    Refused,
}

/// The effect of a key, and the reason.
fn effect(key: &str, value: &str) -> (KeyEffect, String) {
    if key == "worker-processes" {
        return (KeyEffect::Served, "at the next start".to_owned());
    }
    let messages = diagnostics_of(key, value);
    let about =
        messages.iter().find(|found| found.code.ends_with("setting") || found.code.ends_with("protection"));
    let Some(about) = about else { return (KeyEffect::Served, String::new()) };
    let why = about.problem.strip_prefix(&format!("{key}: ")).unwrap_or(&about.problem);
    let why = why.strip_prefix(&format!("{key} is not supported yet: ")).unwrap_or(why);
    // The heading states this already.
    let is_repeated = ["it has no effect", "it is not needed"].contains(&about.consequence.as_str());
    let consequence = if is_repeated { String::new() } else { format!("; {}", about.consequence) };
    match about.code {
        // A warning about the risk that the operator accepts.
        "setting" if ["ssl-early-data", "ssl-session-ticket-key"].contains(&key) => {
            (KeyEffect::Served, format!("{why}{consequence}"))
        }
        "setting" => (KeyEffect::NoEffect, format!("{why}{consequence}")),
        "unsupported-setting" => (KeyEffect::NotServed, format!("{why}{consequence}")),
        "unsupported-protection" => (KeyEffect::Refused, why.to_owned()),
        other => panic!("{key}: {value}: {other}: {}", about.problem),
    }
}

#[test]
fn the_page_lists_every_key_of_ingress_nginx() {
    let mut groups: Vec<((KeyEffect, String), Vec<String>)> = Vec::new();
    for (key, value) in keys_of_ingress_nginx() {
        let (effect, name) = (effect(key, value), format!("`{key}`"));
        match groups.iter_mut().find(|(known, _)| *known == effect) {
            Some((_, keys)) => keys.push(name),
            None => groups.push((effect, vec![name])),
        }
    }
    let mut page = INTRODUCTION.to_owned();
    for (section, heading, meaning) in SECTIONS {
        page.push_str(&format!("\n## {heading}\n\n{meaning}\n\n"));
        for ((_, why), keys) in groups.iter().filter(|((effect, _), _)| effect == section) {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            page.push_str(&format!("* {}{why}\n", keys.join(", ")));
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configmap.md");
    fairway_testkit::golden::check(file, &page);
}

const INTRODUCTION: &str = "# Keys of ingress-nginx's ConfigMap

Look up here what Fairway does with each key of the ConfigMap that `--configmap` names, as ingress-nginx \
v1.15.1 and earlier releases read it. `fairway check` says the same about your own ConfigMap. \
[operate.md](operate.md#the-settings-configmap) has the defaults of the served keys, and the keys that \
only Fairway has, such as `enable-zstd`.

A value of the wrong type gives a diagnostic, and the default is used. A list of addresses or clients to \
keep out that cannot be read counts as refused.

This page is generated from the diagnostics for \
`crates/fairway-ingress/tests/upstream/configmap-keys.txt`, where each key has a value that is not its \
default.
";

/// A section of the page, with its heading and meaning.
const SECTIONS: &[(KeyEffect, &str, &str)] = &[
    (
        KeyEffect::Served,
        "Served",
        "These keys have the same effect as in ingress-nginx, except for the differences in operate.md and [record \
         0003](design/0003-differences-from-ingress-nginx.md).",
    ),
    (KeyEffect::NoEffect, "No effect", "A note says why nothing is lost."),
    (KeyEffect::NotServed, "Not served", "A warning says what is lost."),
    (
        KeyEffect::Refused,
        "Refused",
        "These keys protect. While one is set, all Ingresses return 503, unless you set \
         `--ignore-unsupported-protection`.",
    ),
];

#[test]
fn every_documented_key_is_known() {
    let keys = || keys_of_ingress_nginx().map(|(key, _)| key).chain(F5.split_whitespace());
    let unknown: Vec<_> = keys()
        .filter(|key| ["true", "1", "x"].iter().any(|value| codes(key, value).contains(&"unknown-setting")))
        .collect();
    assert_eq!(unknown, [""; 0]);
    assert!(keys().count() > 280);
    assert_eq!(codes("no-such-key", "true"), ["unknown-setting"]);
}

/// The effect of keys without diagnostics.
fn settings(data: &Value) -> Settings {
    let metadata = json!({"name": "settings", "namespace": "default"});
    let mut resources = Resources::default();
    let map = json!({"kind": "ConfigMap", "metadata": metadata, "data": data});
    resources.apply(Change::Set(object(map), None));
    let options = Options { configmap: ObjectKey::parse("default/settings"), ..Options::default() };
    let translated = translate(&resources, &options, NOW);
    assert!(translated.diagnostics.iter().next().is_none(), "{:?}", translated.diagnostics);
    translated.config.settings
}

#[test]
fn template_keys_with_the_same_meaning_in_both_dialects_have_the_same_effect() {
    let ours = json!({
        "log-format-upstream": "$host $status", "log-format-escape-json": "true", "disable-access-log": "true",
        "keep-alive": "315", "keep-alive-requests": "10000000", "max-worker-connections": "7",
        "upstream-keepalive-connections": "200", "use-http2": "false",
    });
    let theirs = json!({
        "log-format": "$host\n$status", "log-format-escaping": "json", "access-log-off": "true",
        "keepalive-timeout": "315", "keepalive-requests": "10000000", "worker-connections": "7",
        "keepalive": "200", "http2": "false",
    });
    assert_eq!(settings(&ours), settings(&theirs));
}

#[test]
fn the_keys_about_session_tickets_are_honoured() {
    let tickets = |data: &Value| {
        let map = json!({"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": data});
        let mut resources = Resources::default();
        resources.apply(Change::Set(object(map), None));
        let options = Options { configmap: ObjectKey::parse("default/settings"), ..Options::default() };
        let translated = translate(&resources, &options, NOW);
        let messages: String = translated.diagnostics.iter().map(|found| format!("{found}\n")).collect();
        (translated.config.settings.tickets, messages)
    };
    // "openssl rand 80 | openssl enc -A -base64", as in the documentation of ingress-nginx.
    let key = "WW9gcPHgfcrw6DNqY5VE2NjM6gtgUhJ4Vn6ZwRGi/7+A9TNFa4Fvfe1cmlPec9bxDoenN70aMBeZBlcrKshnKT4WJxFNLCuTHhfn4loTOEo=";
    for (data, bytes) in [
        (json!({"ssl-session-ticket-key": key}), 80),
        (json!({"ssl-session-ticket-key": key, "ssl-session-tickets": "true"}), 80),
        (json!({"ssl-session-ticket-key": &key[..64]}), 48),
    ] {
        let (set, said) = tickets(&data);
        let SessionTickets::Fixed { secret } = set else { panic!("{said}") };
        assert_eq!((secret.bytes().len(), &secret.bytes()[..3]), (bytes, &b"Yo`"[..]));
        assert!(
            said.contains("note[setting]: ConfigMap default/settings data.ssl-session-ticket-key"),
            "{said}"
        );
        assert!(!said.contains("WW9gcPHg"), "{said}");
    }
    for wrong in [&key[..60], &key[..8], "WW9gcPHgfcrw!", "YQ=="] {
        let (set, said) = tickets(&json!({"ssl-session-ticket-key": wrong}));
        assert_eq!(set, SessionTickets::Rotating);
        assert!(said.contains("warning[invalid-setting]") && !said.contains(wrong), "{said}");
    }
    for data in [
        json!({"ssl-session-tickets": "false"}),
        json!({"ssl-session-tickets": "false", "ssl-session-ticket-key": key}),
    ] {
        let (set, said) = tickets(&data);
        assert_eq!(set, SessionTickets::Off, "{said}");
    }
    for data in [json!({}), json!({"ssl-session-tickets": "true"}), json!({"ssl-session-ticket-key": ""})] {
        assert_eq!(tickets(&data), (SessionTickets::Rotating, String::new()), "{data}");
    }
    assert!(tickets(&json!({"ssl-session-tickets": "perhaps"})).1.contains("is not true or false"));
}

#[test]
fn without_keep_alive_each_connection_carries_one_request() {
    let single_request = DownstreamSettings { requests_per_connection: 1, ..DownstreamSettings::default() };
    for data in [
        json!({"keep-alive": "0"}),
        json!({"keep-alive": "0s", "keep-alive-requests": "100"}),
        json!({"keepalive-requests": "100", "keepalive-timeout": "0"}),
    ] {
        assert_eq!(settings(&data).downstream, single_request, "{data}");
    }
    let usual = settings(&json!({"keep-alive": "30", "keep-alive-requests": "100"})).downstream;
    assert_eq!((usual.idle_timeout.as_secs(), usual.requests_per_connection), (30, 100));
}
