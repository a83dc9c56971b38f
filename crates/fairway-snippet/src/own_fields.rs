//! The headers of requests that ingress-nginx writes itself.

/// The fields that ingress-nginx itself writes with `proxy_set_header`: nginx sends one more of the same name besides. In lower case.
const OWN_FIELDS: [&str; 11] = [
    "x-request-id",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-scheme",
    "x-original-forwarded-for",
    "x-original-forwarded-host",
    "proxy",
];

/// Whether ingress-nginx itself writes a field of requests.
pub(crate) fn is_own(lower: &str) -> bool {
    OWN_FIELDS.contains(&lower)
}
