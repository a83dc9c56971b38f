//! Request headers that ingress-nginx sets itself.

/// Headers that ingress-nginx sets with `proxy_set_header`: nginx would send a second header of the same name. In
/// lower case.
const INGRESS_NGINX_HEADERS: [&str; 11] = [
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

/// Whether ingress-nginx sets a request header.
pub(crate) fn is_ingress_nginx_header(lower: &str) -> bool {
    INGRESS_NGINX_HEADERS.contains(&lower)
}
