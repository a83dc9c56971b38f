//! ConfigMap keys of ingress-nginx and of the F5 controller that Fairway ignores. A table states for each key whether
//! Fairway lacks its effect or does not need it, and the message that users get.

use fairway_objects::annotations::text::{parse_bool, parse_size};

use crate::ingress::settings::problem::KeyProblem;

/// What ignoring a key means for users.
enum KeyEffect {
    /// Users miss nothing: the key tunes something that Fairway does differently or not at all.
    Needless,
    /// Users miss a feature.
    Lost,
    /// The key may restrict access. Ignoring it could let anyone in, so Fairway refuses all requests that it covers.
    Protects,
}

/// Ignored keys that share a message.
struct IgnoredKeys {
    /// The names of the keys; a trailing `*` matches any suffix.
    names: &'static [&'static str],
    effect: KeyEffect,
    /// What Fairway does instead.
    problem: &'static str,
    /// What that means for users.
    consequence: &'static str,
}

const fn needless(
    names: &'static [&'static str],
    problem: &'static str,
    consequence: &'static str,
) -> IgnoredKeys {
    IgnoredKeys { names, effect: KeyEffect::Needless, problem, consequence }
}

const fn lost(
    names: &'static [&'static str],
    problem: &'static str,
    consequence: &'static str,
) -> IgnoredKeys {
    IgnoredKeys { names, effect: KeyEffect::Lost, problem, consequence }
}

/// Fairway's default limit of a request line, in bytes (docs/limits.md).
const DEFAULT_MAX_REQUEST_LINE_BYTES: u64 = 8 << 10;
/// Fairway's default limit of a request head, in bytes (docs/limits.md).
const DEFAULT_MAX_HEAD_BYTES: u64 = 32 << 10;

const NO_EFFECT: &str = "it has no effect";
const NOT_NEEDED: &str = "it is not needed";

/// The ignored keys, except those that [`check_ignored`] handles by value. The first entry that contains a key
/// applies.
const IGNORED_KEYS: &[IgnoredKeys] = &[
    needless(
        &[
            "map-hash-*",
            "proxy-headers-hash-*",
            "server-name-hash-*",
            "server-names-hash-*",
            "types-hash-*",
            "variables-hash-*",
        ],
        "Fairway has no hash tables to size",
        NOT_NEEDED,
    ),
    needless(
        &["client-header-buffer-size", "grpc-buffer-size-kb", "large-client-header-buffers"],
        "the flags --max-head-bytes, --max-request-line-bytes and --max-head-fields limit request heads",
        NO_EFFECT,
    ),
    needless(&["client-body-timeout"], "the flag --body-idle says how long a body may pause", NO_EFFECT),
    needless(
        &["worker-shutdown-timeout"],
        "the flag --drain-timeout says how long exchanges in flight may take",
        NO_EFFECT,
    ),
    needless(
        &[
            "enable-aio-write",
            "enable-multi-accept",
            "enable-serial-reloads",
            "reuse-port",
            "worker-serial-reloads",
        ],
        "workers accept connections independently, and nothing is reloaded",
        NOT_NEEDED,
    ),
    needless(
        &["upstream-keepalive-time"],
        "connections to endpoints have no maximum age",
        "they end after upstream-keepalive-requests and after upstream-keepalive-timeout without use",
    ),
    needless(
        &["ssl-buffer-size", "ssl-session-cache*", "ssl-session-timeout"],
        "sessions are resumed with tickets whose keys rotate automatically",
        NOT_NEEDED,
    ),
    needless(
        &["ssl-dh-param", "ssl-dhparam-file"],
        "keys are exchanged by X25519MLKEM768, X25519, P-256 or P-384",
        NO_EFFECT,
    ),
    lost(
        &["allow-cross-namespace-resources"],
        "annotations can only name Secrets and ConfigMaps in the namespace of their Ingress",
        "if one names another namespace, the paths of the Ingress return 503, or its hosts 403 (auth-tls-secret)",
    ),
    needless(
        &["annotation-value-word-blocklist", "strict-validate-path-type"],
        "annotations are data and cannot inject configuration",
        NOT_NEEDED,
    ),
    needless(
        &["access-log-params"],
        "a separate thread writes the log, and buffer, flush and gzip do not apply",
        NO_EFFECT,
    ),
    needless(
        &["access-log-path", "error-log-*", "http-access-log-path", "stream-access-log-path"],
        "the access log goes to standard output, Fairway's own log to standard error",
        NO_EFFECT,
    ),
    needless(
        &["bind-address*", "disable-ipv6*", "enable-vts-status", "nginx-status-*", "vts-*"],
        "the flags --http, --https and --admin say where Fairway listens",
        NO_EFFECT,
    ),
    needless(
        &[
            "debug-connections",
            "default-type",
            "limit-conn-zone-variable",
            "lua-shared-dicts",
            "plugins",
            "resolver-*",
            "upstream-zone-size",
        ],
        "it configures a part of nginx that Fairway does not have",
        NO_EFFECT,
    ),
    needless(
        &["app-root", "upstream-hash-by*"],
        "as in ingress-nginx, only the annotation of this name has an effect",
        NO_EFFECT,
    ),
    needless(
        &["forwarded-for-proxy-protocol-header"],
        "Fairway needs no header to pass on the address of a PROXY header",
        NOT_NEEDED,
    ),
    lost(
        &["forwarded-host-header"],
        "X-Original-Forwarded-Host has the X-Forwarded-Host of the client",
        "backends do not get the header that it names",
    ),
    lost(
        &["enable-auth-access-log"],
        "requests to authentication services have no lines of their own in the access log",
        "they are not logged",
    ),
    needless(
        &["proxy-ssl-location-only"],
        "proxy-ssl-secret and its companions always apply to the paths of their own Ingress only",
        "it counts as true",
    ),
    needless(
        &["proxy-stream-next-upstream-timeout", "proxy-stream-next-upstream-tries"],
        "if an endpoint cannot be reached, others are tried, at most eight and for five seconds",
        NO_EFFECT,
    ),
    lost(
        &["log-format-stream", "stream-log-format*"],
        "connections and sessions are logged in its default format with additional fields",
        "its value is not used",
    ),
    lost(
        &["disable-stream-access-log"],
        "disable-access-log turns off the lines of requests, connections and sessions together",
        "connections and sessions are logged",
    ),
    needless(
        &["fail-timeout", "max-fails", "upstream-fail-timeout", "upstream-max-fails"],
        "failing endpoints are ejected for a second, and longer each time they fail again",
        NO_EFFECT,
    ),
    needless(
        &["proxy-protocol-header-timeout"],
        "the flag --head-timeout says how long a PROXY protocol header may take",
        NO_EFFECT,
    ),
    needless(
        &["default-server-access-log-off", "enable-access-log-for-default-backend"],
        "requests that no Ingress serves are logged like all others",
        NO_EFFECT,
    ),
    lost(
        &["disable-proxy-intercept-errors"],
        "only the annotation of this name leaves the error responses of backends as they are",
        "where custom-http-errors names their status, pages replace them",
    ),
    needless(
        &["external-status-address"],
        "the flags --publish-service and --publish-status-address say which address Ingresses get",
        NO_EFFECT,
    ),
    needless(&["ssl-prefer-server-ciphers"], "the order of ssl-ciphers counts", NO_EFFECT),
    lost(&["worker-cpu-affinity"], "workers are not pinned to CPUs", "the system places them"),
    lost(
        &["retry-non-idempotent"],
        "a request that is not idempotent is never sent twice, if an endpoint may have seen it",
        NO_EFFECT,
    ),
    lost(
        &["gzip-disable"],
        "responses are compressed for every client that accepts it",
        "its User-Agent does not matter",
    ),
    lost(
        &["default-server-return"],
        "requests for a host that no Ingress names get 404",
        "clients get that in place of what it says",
    ),
    lost(
        &["real-ip-header", "real-ip-recursive", "set-real-ip-from"],
        "use-forwarded-headers and proxy-real-ip-cidr decide whose X-Forwarded-For is trusted",
        "requests through a proxy have the proxy's address, also where source ranges are checked",
    ),
    lost(
        &["redirect-to-https"],
        "force-ssl-redirect sends requests to https, and use-forwarded-headers says whose X-Forwarded-Proto counts",
        "requests that came in the clear to a proxy in front are served",
    ),
    lost(
        &["hsts-behind-proxy"],
        "Strict-Transport-Security is sent to clients of https, and use-forwarded-headers says whose X-Forwarded-Proto \
         counts",
        NO_EFFECT,
    ),
    lost(
        &["proxy-pass-headers"],
        "headers of backends are passed on, apart from Server",
        "clients do not see those that are removed",
    ),
    lost(
        &["proxy-add-original-uri-header"],
        "proxy-set-headers can set X-Original-Uri to $request_uri",
        "backends do not get it",
    ),
    lost(&["global-rate-limit-*"], "limits are counted by each replica", NO_EFFECT),
    lost(
        &["allow-backend-server-header"],
        "the Server header of backends is removed from responses",
        "clients do not see it",
    ),
    lost(&["server-tokens"], "Fairway does not name itself in responses", NO_EFFECT),
    lost(&["enable-syslog"], "the access log goes to standard output", "nothing is sent to syslog"),
    lost(
        &["enable-opentracing", "opentracing", "otel-trace-in-http"],
        "enable-opentelemetry turns tracing on, and spans are sent only with OpenTelemetry's protocol",
        "requests are not traced because of this key",
    ),
    needless(
        &["datadog-*", "jaeger-*", "opentelemetry-*", "opentracing-*", "otel-*", "otlp-*", "zipkin-*"],
        "enable-opentelemetry and related keys decide what is traced and where spans go",
        NO_EFFECT,
    ),
    needless(&["app-protect-*"], "there is no App Protect", NO_EFFECT),
    needless(&["syslog-*"], "the access log goes to standard output", NO_EFFECT),
    needless(&["ocsp-*"], "it configures something that Fairway does not have", NO_EFFECT),
    needless(&["geoip2-*"], "the files that --geoip names are read again when they change", NOT_NEEDED),
    needless(&["use-geoip2"], "the flag --geoip names databases, whose variables always work", NOT_NEEDED),
    lost(
        &["use-geoip"],
        "databases of GeoIP Legacy are not read, and --geoip takes MMDB files",
        "variables that begin with $geoip_ have no value",
    ),
    IgnoredKeys {
        names: &[
            "http-snippets",
            "ingress-template",
            "location-snippets",
            "main-template",
            "server-snippets",
        ],
        effect: KeyEffect::Protects,
        problem: "it is nginx configuration, which is never interpreted, and may restrict who is let in",
        consequence: "",
    },
    lost(
        &[
            "main-snippet",
            "main-snippets",
            "stream-snippet",
            "stream-snippets",
            "transportserver-template",
            "virtualserver-template",
        ],
        "it is nginx configuration, which is never interpreted",
        NO_EFFECT,
    ),
];

impl IgnoredKeys {
    fn contains(&self, name: &str) -> bool {
        self.names.iter().any(|known| match known.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => *known == name,
        })
    }
}

/// Checks a key that Fairway ignores.
///
/// # Errors
/// The problem to report for the key. There is none if Fairway behaves as the value demands anyway, for example
/// because the value turns off a feature that Fairway lacks. Keys that the table does not list are unknown.
pub(super) fn check_ignored(name: &str, value: &str) -> Result<(), KeyProblem> {
    match name {
        "client-header-buffer-size" | "large-client-header-buffers" if exceeds_limits(value) => {
            return Err(KeyProblem::Lost(
                "unless --max-request-line-bytes and --max-head-bytes say otherwise, a request line may have 8 KiB and a \
                 request head 32 KiB",
                "longer request lines get 414, and larger heads 431",
            ));
        }
        "generate-request-id" if parse_bool(value) == Some(true) => return Ok(()),
        "generate-request-id" => {
            return Err(KeyProblem::Lost("requests without X-Request-ID always get one", NO_EFFECT));
        }
        "proxy-stream-next-upstream" => {
            return match parse_bool(value) {
                Some(true) => Ok(()),
                Some(false) => Err(KeyProblem::Lost(
                    "client data is sent only after an endpoint is connected",
                    "if one cannot be reached, others are still tried",
                )),
                None => Err(KeyProblem::NotA("true or false")),
            };
        }
        _ => {}
    }
    let ignored = IGNORED_KEYS.iter().find(|keys| keys.contains(name)).ok_or(KeyProblem::Unknown)?;
    let is_enabled = !value.is_empty() && parse_bool(value) != Some(false);
    match ignored.effect {
        KeyEffect::Needless => Err(KeyProblem::Note(ignored.problem, ignored.consequence)),
        _ if !is_enabled => Ok(()),
        KeyEffect::Lost => Err(KeyProblem::Lost(ignored.problem, ignored.consequence)),
        KeyEffect::Protects => Err(KeyProblem::Unprotected(ignored.problem)),
    }
}

/// Whether buffers of nginx, written as `SIZE` or `NUMBER SIZE`, hold a longer request line or a larger request head
/// than Fairway accepts by default. In nginx, a request line must fit into one buffer, and a head into all of them.
fn exceeds_limits(buffers: &str) -> bool {
    let mut words = buffers.split_whitespace().rev();
    let size = words.next().and_then(parse_size);
    let number = words.next().map_or(Some(1), |number| number.parse::<u64>().ok());
    size.zip(number).is_some_and(|(size, number)| {
        size > DEFAULT_MAX_REQUEST_LINE_BYTES || size.saturating_mul(number) > DEFAULT_MAX_HEAD_BYTES
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_fairway_satisfies_are_not_reported() {
        let satisfied = [
            ("enable-opentracing", "false"),
            ("server-tokens", "false"),
            ("http-snippets", ""),
            ("generate-request-id", "true"),
            ("proxy-stream-next-upstream", "true"),
            ("allow-cross-namespace-resources", "false"),
            ("disable-proxy-intercept-errors", "false"),
        ];
        for (name, value) in satisfied {
            assert!(check_ignored(name, value).is_ok(), "no problem is expected for {name}: {value}");
        }
    }

    #[test]
    fn a_problem_states_whether_a_key_is_needless_lost_protective_or_unknown() {
        assert!(matches!(check_ignored("enable-opentracing", "true"), Err(KeyProblem::Lost(..))));
        assert!(matches!(check_ignored("zipkin-sample-rate", "1.0"), Err(KeyProblem::Note(..))));
        assert!(matches!(check_ignored("generate-request-id", "false"), Err(KeyProblem::Lost(..))));
        assert!(matches!(check_ignored("ssl-session-cache-size", "10m"), Err(KeyProblem::Note(..))));
        assert!(matches!(check_ignored("http-snippets", "deny all;"), Err(KeyProblem::Unprotected(_))));
        assert!(matches!(check_ignored("gzipped", "true"), Err(KeyProblem::Unknown)));
    }

    #[test]
    fn a_key_is_lost_if_clients_get_other_responses_without_it() {
        for (name, value) in [
            ("allow-cross-namespace-resources", "true"),
            ("disable-proxy-intercept-errors", "true"),
            ("large-client-header-buffers", "4 16k"),
            ("large-client-header-buffers", "8 8k"),
            ("client-header-buffer-size", "64k"),
        ] {
            let problem = check_ignored(name, value);
            assert!(
                matches!(problem, Err(KeyProblem::Lost(..))),
                "a warning is expected for {name}: {value}"
            );
        }
        for (name, value) in [
            ("large-client-header-buffers", "4 8k"),
            ("large-client-header-buffers", "many 64k"),
            ("client-header-buffer-size", "1k"),
            ("proxy-ssl-location-only", "true"),
        ] {
            let problem = check_ignored(name, value);
            assert!(matches!(problem, Err(KeyProblem::Note(..))), "a note is expected for {name}: {value}");
        }
    }
}
