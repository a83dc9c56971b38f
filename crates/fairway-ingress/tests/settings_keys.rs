//! Every key that ingress-nginx or the F5 controller documents is known: it works, or a diagnostic says what is lost.
//! `docs/configmap.md` lists what becomes of each key of ingress-nginx, as the diagnostics say it.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fairway-ingress --test integration settings_keys::` writes the page.

use std::path::Path;

use fairway_ingress::translate;
use fairway_model::{DownstreamSettings, SessionTickets, Settings};
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{HostOptions, Options, UnsupportedProtection};
use fairway_objects::resources::{Change, Resources};
use serde_json::{Map, Value, json};

use crate::support::{NOW, object};

/// Every key of ingress-nginx, with a value that asks for another thing than its default.
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

/// Keys that have no effect without another one, and that one.
const BESIDE: &[(&str, (&str, &str))] = &[
    ("otel-", ("otlp-collector-host", "collector")),
    ("otel-sampler-ratio", ("otel-sampler", "TraceIdRatioBased")),
    ("otlp-collector-port", ("otlp-collector-host", "collector")),
];

/// What is said about a key with this value.
fn said(key: &str, value: &str) -> Vec<Diagnostic> {
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

/// The codes of it.
fn codes(key: &str, value: &str) -> Vec<&'static str> {
    said(key, value).iter().map(|found| found.code).collect()
}

/// What becomes of a key.
fn fate(key: &str, value: &str) -> String {
    if key == "worker-processes" {
        return "| served | at the next start |".to_owned();
    }
    let said = said(key, value);
    let about =
        said.iter().find(|found| found.code.ends_with("setting") || found.code.ends_with("protection"));
    let Some(about) = about else { return "| served | |".to_owned() };
    let why = about.problem.strip_prefix(&format!("{key}: ")).unwrap_or(&about.problem);
    let why = why.strip_prefix(&format!("{key} is not supported yet: ")).unwrap_or(why).replace('|', "\\|");
    // What the column before it says.
    let said_already = ["it has no effect", "it is not needed"].contains(&about.consequence.as_str());
    let consequence = if said_already { String::new() } else { format!("; {}", about.consequence) };
    match about.code {
        // A warning about what the operator takes on.
        "setting" if ["ssl-early-data", "ssl-session-ticket-key"].contains(&key) => {
            format!("| served | {why}{consequence} |")
        }
        "setting" => format!("| no effect | {why}{consequence} |"),
        "unsupported-setting" => format!("| not served | {why}{consequence} |"),
        "unsupported-protection" => format!("| refused | {why} |"),
        other => panic!("{key}: {value}: {other}: {}", about.problem),
    }
}

#[test]
fn the_page_lists_what_becomes_of_every_key_of_ingress_nginx() {
    let mut page = INTRODUCTION.to_owned();
    for (key, value) in keys_of_ingress_nginx() {
        page.push_str(&format!("| `{key}` {}\n", fate(key, value)));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configmap.md");
    fairway_testkit::golden::check(file, &page);
}

const INTRODUCTION: &str = "# Keys of ingress-nginx's ConfigMap

Look up here what Fairway does with each key of the ConfigMap that `--configmap` names, as ingress-nginx v1.15.1 and its \
predecessors read it. [operate.md](operate.md#the-settings-configmap) describes the keys that are served, with their defaults; \
`fairway check` prints what is said here about the keys of your own ConfigMap. Keys that only Fairway has, such as `enable-zstd`, are in \
operate.md.

* **served**: the key has the effect that it has in ingress-nginx, or the difference that operate.md and \
[record 0003](design/0003-differences-from-ingress-nginx.md) describe.
* **no effect**: a note says why nothing is lost.
* **not served**: a warning says what is lost.
* **refused**: the key protects. While it is set, all Ingresses return 503, unless you set `--ignore-unsupported-protection`.

A value of the wrong type gives a diagnostic that names the key, and the default is used; other keys are not affected. A list of \
addresses or clients to keep out that cannot be read counts as refused.

This page is generated from the diagnostics of `crates/fairway-ingress/tests/upstream/configmap-keys.txt`, where each key has a \
value that is not its default.

| key | with Fairway | why |
| --- | --- | --- |
";

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

/// What becomes of keys of which there is nothing to say.
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
fn keys_of_a_template_that_mean_the_same_in_both_dialects_have_the_same_effect() {
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
        let said: String = translated.diagnostics.iter().map(|found| format!("{found}\n")).collect();
        (translated.config.settings.tickets, said)
    };
    // "openssl rand 80 | openssl enc -A -base64", as the documentation of ingress-nginx says.
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
    let one = DownstreamSettings { requests_per_connection: 1, ..DownstreamSettings::default() };
    for data in [
        json!({"keep-alive": "0"}),
        json!({"keep-alive": "0s", "keep-alive-requests": "100"}),
        json!({"keepalive-requests": "100", "keepalive-timeout": "0"}),
    ] {
        assert_eq!(settings(&data).downstream, one, "{data}");
    }
    let usual = settings(&json!({"keep-alive": "30", "keep-alive-requests": "100"})).downstream;
    assert_eq!((usual.idle_timeout.as_secs(), usual.requests_per_connection), (30, 100));
}
