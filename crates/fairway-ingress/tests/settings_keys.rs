//! Every key that ingress-nginx or the F5 controller documents is known: it works, or a diagnostic says what is lost.

use fairway_ingress::translate;
use fairway_model::{DownstreamSettings, SessionTickets, Settings};
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{HostOptions, Options, UnsupportedProtection};
use fairway_objects::resources::{Change, Resources};
use serde_json::{Map, Value, json};

use crate::support::{NOW, object};

/// docs/user-guide/nginx-configuration/configmap.md of ingress-nginx, with the keys that only its code has.
const INGRESS_NGINX: &str = "
    access-log-params access-log-path add-headers allow-backend-server-header allow-cross-namespace-resources
    allow-snippet-annotations annotation-value-word-blocklist annotations-risk-level bind-address block-cidrs block-referers
    block-user-agents brotli-level brotli-min-length brotli-types client-body-buffer-size client-body-timeout
    client-header-buffer-size client-header-timeout compute-full-forwarded-for custom-http-errors datadog-collector-host
    datadog-sample-rate debug-connections default-type denylist-source-range disable-access-log disable-http-access-log
    disable-ipv6 disable-ipv6-dns disable-proxy-intercept-errors disable-stream-access-log
    enable-access-log-for-default-backend enable-aio-write enable-brotli enable-modsecurity enable-multi-accept enable-ocsp
    enable-opentelemetry enable-opentracing enable-owasp-modsecurity-crs enable-real-ip enable-serial-reloads enable-syslog
    enable-underscores-in-headers error-log-level error-log-path force-ssl-redirect forwarded-for-header generate-request-id
    geoip2-autoreload-in-minutes global-allowed-response-headers global-auth-always-set-cookie global-auth-cache-duration
    global-auth-cache-key global-auth-method global-auth-request-redirect global-auth-response-headers global-auth-signin
    global-auth-signin-redirect-param global-auth-snippet global-auth-url global-rate-limit-memcached-connect-timeout
    global-rate-limit-memcached-host global-rate-limit-memcached-max-idle-timeout global-rate-limit-memcached-pool-size
    global-rate-limit-memcached-port global-rate-limit-status-code grpc-buffer-size-kb gzip-disable gzip-level gzip-min-length
    gzip-types hide-headers hsts hsts-include-subdomains hsts-max-age hsts-preload http-access-log-path http-redirect-code
    http-snippet http2-max-concurrent-streams http2-max-field-size http2-max-header-size http2-max-requests
    ignore-invalid-headers jaeger-collector-host jaeger-sampler-type keep-alive keep-alive-requests large-client-header-buffers
    limit-conn-status-code limit-conn-zone-variable limit-rate limit-rate-after limit-req-status-code load-balance
    location-snippet log-format-escape-json log-format-escape-none log-format-stream log-format-upstream lua-shared-dicts
    main-snippet map-hash-bucket-size max-worker-connections max-worker-open-files modsecurity-snippet
    nginx-status-ipv4-whitelist nginx-status-ipv6-whitelist no-auth-locations no-tls-redirect-locations opentelemetry-config
    opentelemetry-operation-name opentelemetry-trust-incoming-span opentracing-location-operation-name
    opentracing-operation-name otel-max-export-batch-size otel-max-queuesize otel-sampler otel-sampler-parent-based
    otel-sampler-ratio otel-schedule-delay-millis otel-service-name otlp-collector-host otlp-collector-port plugins
    preserve-trailing-slash proxy-add-original-uri-header proxy-body-size proxy-buffer-size proxy-buffering
    proxy-buffers-number proxy-busy-buffers-size proxy-connect-timeout proxy-cookie-domain proxy-cookie-path
    proxy-headers-hash-bucket-size proxy-headers-hash-max-size proxy-http-version proxy-max-temp-file-size
    proxy-next-upstream proxy-next-upstream-timeout proxy-next-upstream-tries proxy-protocol-header-timeout
    proxy-read-timeout proxy-real-ip-cidr proxy-redirect-from proxy-redirect-to proxy-request-buffering proxy-send-timeout
    proxy-set-headers proxy-ssl-location-only proxy-stream-next-upstream proxy-stream-next-upstream-timeout
    proxy-stream-next-upstream-tries proxy-stream-responses proxy-stream-timeout relative-redirects retry-non-idempotent
    reuse-port server-name-hash-bucket-size server-name-hash-max-size server-snippet server-tokens service-upstream
    skip-access-log-urls ssl-buffer-size ssl-ciphers ssl-dh-param ssl-early-data ssl-ecdh-curve ssl-protocols ssl-redirect
    ssl-reject-handshake ssl-session-cache ssl-session-cache-size ssl-session-ticket-key ssl-session-tickets
    ssl-session-timeout stream-access-log-path stream-snippet strict-validate-path-type syslog-host syslog-port
    upstream-keepalive-connections upstream-keepalive-requests upstream-keepalive-time upstream-keepalive-timeout
    use-forwarded-headers use-geoip use-geoip2 use-gzip use-http2 use-port-in-redirects use-proxy-protocol
    variables-hash-bucket-size variables-hash-max-size whitelist-source-range worker-cpu-affinity worker-processes
    worker-serial-reloads worker-shutdown-timeout zipkin-collector-host zipkin-sample-rate
";

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

/// The codes of what is said about a key with this value.
fn codes(key: &str, value: &str) -> Vec<&'static str> {
    let data: Map<String, Value> = [(key.to_owned(), json!(value))].into_iter().collect();
    let metadata = json!({"name": "settings", "namespace": "default"});
    let mut resources = Resources::default();
    let map = json!({"kind": "ConfigMap", "metadata": metadata, "data": data});
    resources.apply(Change::Set(object(map), None));
    let options = Options {
        configmap: ObjectKey::parse("default/settings"),
        hosts: HostOptions {
            unsupported_protection: UnsupportedProtection::Ignored,
            ..HostOptions::default()
        },
        ..Options::default()
    };
    translate(&resources, &options, NOW).diagnostics.iter().map(|found| found.code).collect()
}

#[test]
fn every_documented_key_is_known() {
    let keys = || INGRESS_NGINX.split_whitespace().chain(F5.split_whitespace());
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
