//! Keys that ingress-nginx or the F5 controller read and Fairway does not: what each would have meant, so that an operator
//! knows what is lost and what is simply not needed.

use fairway_objects::annotations::text::{bytes, switch};

use crate::ingress::settings::problem::KeyProblem;

/// What becomes of a key.
enum Fate {
    /// It tunes something that Fairway does otherwise or not at all.
    Needless,
    /// What it asks for is missing.
    Lost,
    /// It may keep somebody out, so that nobody is let in without it.
    Protects,
}

/// Keys with the same fate.
struct Group {
    /// A name that ends in `*` is the beginning of many.
    names: &'static [&'static str],
    fate: Fate,
    problem: &'static str,
    consequence: &'static str,
}

const fn needless(names: &'static [&'static str], problem: &'static str, consequence: &'static str) -> Group {
    Group { names, fate: Fate::Needless, problem, consequence }
}

const fn lost(names: &'static [&'static str], problem: &'static str, consequence: &'static str) -> Group {
    Group { names, fate: Fate::Lost, problem, consequence }
}

/// What Fairway takes where no flag says otherwise (docs/limits.md), in bytes.
const REQUEST_LINE: u64 = 8 << 10;
const HEAD: u64 = 32 << 10;

const NO_EFFECT: &str = "it has no effect";
const NOT_NEEDED: &str = "it is not needed";

const GROUPS: &[Group] = &[
    needless(
        &[
            "map-hash-*",
            "proxy-headers-hash-*",
            "server-name-hash-*",
            "server-names-hash-*",
            "types-hash-*",
            "variables-hash-*",
        ],
        "there are no tables whose size has to be chosen",
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
        "workers take connections by themselves, and nothing is ever reloaded",
        NOT_NEEDED,
    ),
    needless(
        &["upstream-keepalive-time"],
        "connections to endpoints have no age",
        "they end after upstream-keepalive-requests and after upstream-keepalive-timeout without use",
    ),
    needless(
        &["ssl-buffer-size", "ssl-session-cache*", "ssl-session-timeout"],
        "sessions are resumed by tickets whose keys change by themselves",
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
        "where one names another namespace, the paths of the Ingress answer 503, or its hosts 403 (auth-tls-secret)",
    ),
    needless(
        &["annotation-value-word-blocklist", "strict-validate-path-type"],
        "annotations are read as data and cannot bring configuration with them",
        NOT_NEEDED,
    ),
    needless(
        &["access-log-params"],
        "lines are gathered and written by a thread of its own, so that buffer, flush and gzip have nothing to do",
        NO_EFFECT,
    ),
    needless(
        &["access-log-path", "error-log-*", "http-access-log-path", "stream-access-log-path"],
        "the access log goes to standard output, and what Fairway says of itself to standard error",
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
        "it configures a part of nginx that is not here",
        NO_EFFECT,
    ),
    needless(
        &["app-root", "upstream-hash-by*"],
        "in ingress-nginx, too, only the annotation of this name has an effect",
        NO_EFFECT,
    ),
    needless(
        &["forwarded-for-proxy-protocol-header"],
        "no header is needed to hand the address of a PROXY header on inside of Fairway",
        NOT_NEEDED,
    ),
    lost(
        &["forwarded-host-header"],
        "X-Original-Forwarded-Host has the X-Forwarded-Host of the client",
        "backends do not get the header that it names there",
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
        "a connection for which an endpoint cannot be reached is tried at others, eight at most and for five seconds",
        NO_EFFECT,
    ),
    lost(
        &["log-format-stream", "stream-log-format*"],
        "connections and sessions are logged in its default format, with more fields behind it",
        "its value is not used",
    ),
    lost(
        &["disable-stream-access-log"],
        "disable-access-log switches the lines of requests, connections and sessions off together",
        "connections and sessions are logged",
    ),
    needless(
        &["fail-timeout", "max-fails", "upstream-fail-timeout", "upstream-max-fails"],
        "endpoints that fail are left out for a second, and longer each time they fail again",
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
        "responses are compressed for every client that accepts that",
        "the User-Agent of requests has no effect on it",
    ),
    lost(
        &["default-server-return"],
        "requests for a host that no Ingress names get 404",
        "clients get that in place of what it says",
    ),
    lost(
        &["real-ip-header", "real-ip-recursive", "set-real-ip-from"],
        "use-forwarded-headers and proxy-real-ip-cidr say whose X-Forwarded-For is believed",
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
        "the Server field of backends is removed from answers",
        "clients do not see it",
    ),
    lost(&["server-tokens"], "Fairway does not name itself in answers", NO_EFFECT),
    lost(&["enable-syslog"], "the access log goes to standard output", "nothing is sent to syslog"),
    lost(
        &["enable-opentracing", "opentracing", "otel-trace-in-http"],
        "enable-opentelemetry is the key that turns tracing on, and spans are sent with OpenTelemetry's protocol alone",
        "requests are not traced because of this key",
    ),
    needless(
        &["datadog-*", "jaeger-*", "opentelemetry-*", "opentracing-*", "otel-*", "otlp-*", "zipkin-*"],
        "enable-opentelemetry and the keys beside it say what is traced and where spans go",
        NO_EFFECT,
    ),
    needless(&["app-protect-*"], "there is no App Protect", NO_EFFECT),
    needless(&["syslog-*"], "the access log goes to standard output", NO_EFFECT),
    needless(&["ocsp-*"], "it configures something that is not here", NO_EFFECT),
    needless(&["geoip2-*"], "the files that --geoip names are read again when they change", NOT_NEEDED),
    needless(&["use-geoip2"], "the flag --geoip names databases, whose variables always work", NOT_NEEDED),
    lost(
        &["use-geoip"],
        "databases of GeoIP Legacy are not read, and --geoip takes MMDB files",
        "variables that begin with $geoip_ have no value",
    ),
    Group {
        names: &[
            "http-snippets",
            "ingress-template",
            "location-snippets",
            "main-template",
            "server-snippets",
        ],
        fate: Fate::Protects,
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

impl Group {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => *known == name,
        })
    }
}

/// What is said of a key; nothing where its value asks for nothing.
pub(super) fn read(name: &str, value: &str) -> Result<(), KeyProblem> {
    match name {
        "client-header-buffer-size" | "large-client-header-buffers" if hold_more(value) => {
            return Err(KeyProblem::Lost(
                "unless --max-request-line-bytes and --max-head-bytes say otherwise, a request line may have 8 KiB and a \
                 request head 32 KiB",
                "longer request lines are answered 414, and larger heads 431",
            ));
        }
        "generate-request-id" if switch(value) == Some(true) => return Ok(()),
        "generate-request-id" => {
            return Err(KeyProblem::Lost("requests without X-Request-ID always get one", NO_EFFECT));
        }
        "proxy-stream-next-upstream" => {
            return match switch(value) {
                Some(true) => Ok(()),
                Some(false) => Err(KeyProblem::Lost(
                    "no byte of a client goes out before an endpoint is connected with",
                    "where one cannot be reached, others are tried all the same",
                )),
                None => Err(KeyProblem::NotA("true or false")),
            };
        }
        _ => {}
    }
    let group = GROUPS.iter().find(|group| group.has(name)).ok_or(KeyProblem::Unknown)?;
    let asks = !value.is_empty() && switch(value) != Some(false);
    match group.fate {
        Fate::Needless => Err(KeyProblem::Note(group.problem, group.consequence)),
        _ if !asks => Ok(()),
        Fate::Lost => Err(KeyProblem::Lost(group.problem, group.consequence)),
        Fate::Protects => Err(KeyProblem::Unprotected(group.problem)),
    }
}

/// Whether buffers of nginx, `SIZE` or `NUMBER SIZE`, hold more of a request than Fairway takes.
fn hold_more(buffers: &str) -> bool {
    let mut words = buffers.split_whitespace().rev();
    let size = words.next().and_then(bytes);
    let number = words.next().map_or(Some(1), |number| number.parse::<u64>().ok());
    size.zip(number).is_some_and(|(size, number)| size > REQUEST_LINE || size.saturating_mul(number) > HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_asks_for_nothing_is_not_spoken_of() {
        let quiet = [
            ("enable-opentracing", "false"),
            ("server-tokens", "false"),
            ("http-snippets", ""),
            ("generate-request-id", "true"),
            ("proxy-stream-next-upstream", "true"),
            ("allow-cross-namespace-resources", "false"),
            ("disable-proxy-intercept-errors", "false"),
        ];
        for (name, value) in quiet {
            assert!(read(name, value).is_ok(), "{name}: {value}");
        }
    }

    #[test]
    fn what_is_lost_is_a_warning_and_what_protects_closes() {
        assert!(matches!(read("enable-opentracing", "true"), Err(KeyProblem::Lost(..))));
        assert!(matches!(read("zipkin-sample-rate", "1.0"), Err(KeyProblem::Note(..))));
        assert!(matches!(read("generate-request-id", "false"), Err(KeyProblem::Lost(..))));
        assert!(matches!(read("ssl-session-cache-size", "10m"), Err(KeyProblem::Note(..))));
        assert!(matches!(read("http-snippets", "deny all;"), Err(KeyProblem::Unprotected(_))));
        assert!(matches!(read("gzipped", "true"), Err(KeyProblem::Unknown)));
    }

    #[test]
    fn what_answers_requests_otherwise_is_lost() {
        for (name, value) in [
            ("allow-cross-namespace-resources", "true"),
            ("disable-proxy-intercept-errors", "true"),
            ("large-client-header-buffers", "4 16k"),
            ("large-client-header-buffers", "8 8k"),
            ("client-header-buffer-size", "64k"),
        ] {
            assert!(matches!(read(name, value), Err(KeyProblem::Lost(..))), "{name}: {value}");
        }
        for (name, value) in [
            ("large-client-header-buffers", "4 8k"),
            ("large-client-header-buffers", "many 64k"),
            ("client-header-buffer-size", "1k"),
            ("proxy-ssl-location-only", "true"),
        ] {
            assert!(matches!(read(name, value), Err(KeyProblem::Note(..))), "{name}: {value}");
        }
    }
}
