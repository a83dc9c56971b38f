//! The host names that the admin server accepts. A web site can point its own name to the address of the admin server and read
//! the responses in an operator's browser (DNS rebinding); such requests carry that name in `Host`. Only names that no web site
//! can have are accepted: addresses, `localhost`, names without a dot, and names of Services.

use std::net::{IpAddr, Ipv6Addr};

use hyper::Request;
use hyper::header::HOST;

/// Why a request is refused.
pub(super) const FOREIGN_HOST_TEXT: &str = "this name does not belong to the admin server; use an address, localhost, or the name of a Service \
                                  (NAME.NAMESPACE.svc)\n";

/// Names below these are private to a machine (RFC 6761 §6.3) or a cluster.
const PRIVATE_SUFFIXES: [&str; 3] = [".localhost", ".svc", ".svc.cluster.local"];

/// Whether every `Host` of the request is one that no web site can have. Browsers always send `Host`.
pub(super) fn has_private_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).into_iter();
    let is_private_host = hosts.all(|host| host.to_str().is_ok_and(is_private));
    is_private_host && request.uri().authority().is_none_or(|authority| is_private(authority.as_str()))
}

fn is_private(authority: &str) -> bool {
    if let Some(bracketed) = authority.strip_prefix('[') {
        return bracketed.split(']').next().is_some_and(|it| it.parse::<Ipv6Addr>().is_ok());
    }
    let name = authority.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    let is_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    name.parse::<IpAddr>().is_ok()
        || name.bytes().all(is_label)
        || PRIVATE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_web_site_can_have_are_refused() {
        for (host, is_answered) in [
            ("127.0.0.1:10254", true),
            ("10.1.2.3", true),
            ("[::1]:10254", true),
            ("[fd00::1]", true),
            ("localhost:10254", true),
            ("LocalHost.", true),
            ("a.localhost", true),
            ("fairway-7d9f", true),
            ("fairway.fairway-system.svc:10254", true),
            ("fairway.fairway-system.svc.cluster.local.", true),
            ("", true),
            ("evil.example", false),
            ("evil.example:10254", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("x.svc.evil.example", false),
            ("svc.cluster.local.evil.example", false),
            ("fairway.fairway-system", false),
            ("[evil.example]", false),
            ("evil.example\u{e9}", false),
            ("127.0.0.1@evil.example", false),
            ("0x7f.1", false),
        ] {
            assert_eq!(is_private(host), is_answered, "{host}");
        }
    }

    #[test]
    fn every_host_of_a_request_is_checked() {
        let request = |hosts: &[&str], uri: &str| {
            let request = hosts.iter().fold(Request::get(uri), |request, host| request.header(HOST, *host));
            has_private_host(&request.body(()).unwrap())
        };
        assert!(request(&[], "/config"), "HTTP/1.0 has none");
        assert!(request(&["localhost"], "/config"));
        assert!(!request(&["localhost", "evil.example"], "/config"));
        assert!(!request(&["localhost"], "http://evil.example/config"));
    }
}
