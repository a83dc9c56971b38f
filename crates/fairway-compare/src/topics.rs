//! A table of the annotations and settings that affect each part of a response, which are the likeliest reasons for a
//! difference.

use crate::response::Part;

/// Annotations for redirects. Names with a slash are complete; the others get the prefix.
const REDIRECTS: &[&str] = &[
    "permanent-redirect",
    "permanent-redirect-code",
    "temporal-redirect",
    "temporal-redirect-code",
    "fairway.dev/redirect",
    "from-to-www-redirect",
    "app-root",
    "auth-signin",
    "force-ssl-redirect",
    "ssl-redirect",
    "preserve-trailing-slash",
    "relative-redirects",
    "use-port-in-redirects",
];
const PASSWORDS: &[&str] =
    &["auth-type", "auth-secret", "auth-secret-type", "auth-realm", "auth-url", "auth-signin", "satisfy"];
const ACCESS: &[&str] = &[
    "whitelist-source-range",
    "allowlist-source-range",
    "denylist-source-range",
    "fairway.dev/deny",
    "fairway.dev/real-ip",
    "auth-url",
    "auth-tls-secret",
    "auth-tls-match-cn",
    "auth-tls-verify-client",
    "satisfy",
    "server-snippet",
    "configuration-snippet",
    "enable-modsecurity",
    "modsecurity-snippet",
];
const CLIENT_CERTIFICATES: &[&str] =
    &["auth-tls-secret", "auth-tls-verify-client", "auth-tls-verify-depth", "auth-tls-error-page"];
const LIMITS: &[&str] = &["limit-rps", "limit-rpm", "limit-connections", "limit-burst-multiplier"];
const PATHS: &[&str] = &["use-regex", "rewrite-target", "custom-http-errors", "default-backend"];
const UPSTREAM: &[&str] = &[
    "backend-protocol",
    "proxy-ssl-secret",
    "proxy-ssl-verify",
    "proxy-ssl-name",
    "proxy-read-timeout",
    "proxy-send-timeout",
    "proxy-connect-timeout",
    "proxy-buffer-size",
    "service-upstream",
    "proxy-http-version",
];
const CORS: &[&str] = &[
    "enable-cors",
    "cors-allow-origin",
    "cors-allow-methods",
    "cors-allow-headers",
    "cors-allow-credentials",
    "cors-expose-headers",
    "cors-max-age",
];
const SESSIONS: &[&str] = &[
    "session-cookie-name",
    "affinity",
    "affinity-mode",
    "session-cookie-path",
    "session-cookie-domain",
    "session-cookie-samesite",
    "session-cookie-conditional-samesite-none",
    "session-cookie-secure",
    "session-cookie-expires",
    "session-cookie-max-age",
    "auth-always-set-cookie",
];
const CANARIES: &[&str] = &[
    "canary",
    "canary-by-header",
    "canary-by-header-value",
    "canary-by-header-pattern",
    "canary-by-cookie",
    "canary-weight",
];
const ANSWER_FIELDS: &[&str] = &[
    "custom-headers",
    "fairway.dev/response-headers",
    "configuration-snippet",
    "server-snippet",
    "custom-http-errors",
    "auth-url",
];
const BODIES: &[&str] = &[
    "rewrite-target",
    "custom-http-errors",
    "default-backend",
    "upstream-vhost",
    "mirror-target",
    "server-snippet",
];
const COMPRESSION: &[&str] = &["fairway.dev/compression", "configuration-snippet", "server-snippet"];
const REQUEST_FIELDS: &[&str] = &[
    "fairway.dev/request-headers",
    "auth-response-headers",
    "x-forwarded-prefix",
    "connection-proxy-header",
    "auth-tls-pass-certificate-to-upstream",
    "configuration-snippet",
    "enable-opentelemetry",
];
const TRACES: &[&str] = &["enable-opentelemetry", "opentelemetry-trust-incoming-span"];

/// Annotations that may affect the part, the likeliest first. `statuses` are those of the two responses.
pub(crate) fn annotations(part: &Part, statuses: &[u16]) -> Vec<&'static str> {
    let groups: Vec<&[&str]> = match part {
        Part::Exchange => vec![UPSTREAM],
        Part::Status => {
            let mut groups: Vec<_> = statuses.iter().filter_map(|status| of_status(*status)).collect();
            if groups.is_empty() {
                groups.extend([PATHS, REDIRECTS, UPSTREAM]);
            }
            // Redirects and refusals by the proxy are likelier than different statuses of another backend.
            if statuses.iter().all(|status| matches!(status, 200..=203 | 404 | 500..=599)) {
                groups.push(CANARIES);
            }
            groups
        }
        Part::Certificate | Part::CertificateNames | Part::CertificateTrust => vec![&["server-alias"]],
        Part::Header(name) => of_field(name),
        Part::Cookie { attribute, .. } => vec![of_cookie(attribute), SESSIONS],
        Part::Body => vec![BODIES, CANARIES, ANSWER_FIELDS],
        Part::Received("host") => vec![&["upstream-vhost"]],
        Part::Received("path") => vec![&["rewrite-target", "use-regex", "app-root"]],
        Part::Received("method") => vec![&["auth-method"]],
        Part::Received(_) => vec![CANARIES, &["default-backend", "custom-http-errors"]],
        Part::ReceivedHeader(name) => of_seen_field(name),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in groups.into_iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names
}

fn of_status(status: u16) -> Option<&'static [&'static str]> {
    Some(match status {
        204 => CORS,
        300..=399 => REDIRECTS,
        400 | 495 | 496 => CLIENT_CERTIFICATES,
        401 => PASSWORDS,
        403 => ACCESS,
        404 => PATHS,
        413 => &["proxy-body-size", "proxy-request-buffering"],
        421 => &["auth-tls-secret"],
        429 | 503 => LIMITS,
        500 => &["auth-url"],
        502 | 504 => UPSTREAM,
        _ => return None,
    })
}

fn of_field(name: &str) -> Vec<&'static [&'static str]> {
    match name {
        "location" | "refresh" => vec![REDIRECTS, &["proxy-redirect-from", "proxy-redirect-to"]],
        // Only settings affect these.
        "strict-transport-security" | "server" => Vec::new(),
        "content-encoding" => vec![COMPRESSION],
        "www-authenticate" => vec![PASSWORDS],
        "vary" => vec![CORS, ANSWER_FIELDS, COMPRESSION],
        "access-control-allow-origin" => vec![&["cors-allow-origin"], CORS],
        "access-control-allow-methods" => vec![&["cors-allow-methods"], CORS],
        "access-control-allow-headers" => vec![&["cors-allow-headers"], CORS],
        "access-control-allow-credentials" => vec![&["cors-allow-credentials"], CORS],
        "access-control-expose-headers" => vec![&["cors-expose-headers"], CORS],
        "access-control-max-age" => vec![&["cors-max-age"], CORS],
        // These depend on whether the backend or the controller responds.
        _ => vec![ANSWER_FIELDS, BODIES, CANARIES],
    }
}

fn of_cookie(attribute: &str) -> &'static [&'static str] {
    match attribute {
        "path" => &["session-cookie-path", "proxy-cookie-path"],
        "domain" => &["session-cookie-domain", "proxy-cookie-domain"],
        "samesite" => &["session-cookie-samesite", "session-cookie-conditional-samesite-none"],
        "secure" => &["session-cookie-secure"],
        "expires" => &["session-cookie-expires"],
        "max-age" => &["session-cookie-max-age"],
        _ => &[],
    }
}

fn of_seen_field(name: &str) -> Vec<&'static [&'static str]> {
    match name {
        "x-forwarded-prefix" => vec![&["x-forwarded-prefix", "rewrite-target"], REQUEST_FIELDS],
        "host" => vec![&["upstream-vhost"]],
        "connection" => vec![&["connection-proxy-header"]],
        "traceparent" | "tracestate" => vec![TRACES, REQUEST_FIELDS],
        "authorization" => vec![PASSWORDS, REQUEST_FIELDS],
        name if name.starts_with("ssl-client-") => vec![CLIENT_CERTIFICATES, REQUEST_FIELDS],
        _ => vec![REQUEST_FIELDS],
    }
}

/// Keys of the settings ConfigMap that may affect the part, the likeliest first.
pub(crate) fn settings(part: &Part, statuses: &[u16]) -> &'static [&'static str] {
    match part {
        Part::Header(name) if name == "strict-transport-security" => {
            &["hsts", "hsts-max-age", "hsts-include-subdomains", "hsts-preload"]
        }
        Part::Header(name) if name == "location" => {
            &["ssl-redirect", "force-ssl-redirect", "use-port-in-redirects"]
        }
        Part::Header(name) if name == "server" => &["server-tokens"],
        Part::Header(name) if name == "content-encoding" => &["use-gzip", "enable-brotli", "enable-zstd"],
        Part::ReceivedHeader(name) if name.starts_with("x-forwarded-") || name == "x-real-ip" => &[
            "use-forwarded-headers",
            "compute-full-forwarded-for",
            "forwarded-for-header",
            "proxy-real-ip-cidr",
            "enable-real-ip",
            "use-proxy-protocol",
        ],
        Part::ReceivedHeader(name) if name.contains('_') => {
            &["enable-underscores-in-headers", "ignore-invalid-headers", "proxy-set-headers"]
        }
        Part::ReceivedHeader(name) if name == "traceparent" || name == "tracestate" => {
            &["enable-opentelemetry", "opentelemetry-trust-incoming-span", "proxy-set-headers"]
        }
        Part::ReceivedHeader(_) => &["proxy-set-headers"],
        Part::Received("path") => &["forwarded-path"],
        Part::Status => match statuses {
            [300..=399, _] | [_, 300..=399] => &["ssl-redirect", "force-ssl-redirect", "http-redirect-code"],
            [403, _] | [_, 403] => &[
                "whitelist-source-range",
                "denylist-source-range",
                "block-cidrs",
                "block-user-agents",
                "block-referers",
            ],
            [401, _] | [_, 401] => &["global-auth-url"],
            _ => &[],
        },
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use fairway_ingress::known_annotations;

    use super::*;

    #[test]
    fn the_likeliest_annotations_come_first() {
        let field = |name: &str| annotations(&Part::Header(name.to_owned()), &[]);
        assert_eq!(field("access-control-max-age")[..2], ["cors-max-age", "enable-cors"]);
        assert_eq!(field("location")[0], "permanent-redirect");
        let cookie = |attribute: &str| {
            annotations(&Part::Cookie { name: "a".to_owned(), attribute: attribute.to_owned() }, &[])
        };
        assert_eq!(cookie("path")[0], "session-cookie-path");
        assert_eq!(cookie("")[0], "session-cookie-name");
        let status = |statuses: &[u16]| annotations(&Part::Status, statuses);
        assert_eq!(status(&[200, 401])[0], "auth-type");
        assert!(!status(&[200, 308]).contains(&"canary") && status(&[200, 404]).contains(&"canary"));
        assert_eq!(settings(&Part::Header("strict-transport-security".to_owned()), &[])[0], "hsts");
        assert_eq!(settings(&Part::Status, &[200, 308])[0], "ssl-redirect");
    }

    #[test]
    fn every_annotation_of_the_table_exists() {
        let fields = [
            "location",
            "vary",
            "content-encoding",
            "www-authenticate",
            "access-control-allow-origin",
            "x-other",
        ];
        let mut parts: Vec<_> = fields.map(|name| Part::Header(name.to_owned())).into();
        let without_topic =
            ["x-forwarded-prefix", "host", "connection", "authorization", "ssl-client-verify", "traceparent"];
        parts.extend(without_topic.map(|name| Part::ReceivedHeader(name.to_owned())));
        parts.extend(
            ["path", "domain", "samesite", "secure", "expires", "max-age"]
                .map(|attribute| Part::Cookie { name: "a".to_owned(), attribute: attribute.to_owned() }),
        );
        parts.extend([Part::Exchange, Part::Body, Part::Certificate]);
        parts.extend(["host", "path", "method", "service"].map(Part::Received));
        let mut names: Vec<&str> = parts.iter().flat_map(|part| annotations(part, &[])).collect();
        for status in [200, 204, 308, 400, 401, 403, 404, 413, 421, 429, 500, 502] {
            names.extend(annotations(&Part::Status, &[status]));
        }
        let known = |name: &str| known_annotations().iter().any(|known| known.name == name);
        let unknown: Vec<_> = names.into_iter().filter(|name| !name.contains('/') && !known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
