//! The names by which the admin server answers. A web site may have a name of its own lead to the address of the admin server, and
//! read in an operator's browser what it answers (DNS rebinding); the request then has that name in `Host`. Names that no web site can
//! have are answered: addresses, `localhost`, names without a dot, and those of Services.

use std::net::{IpAddr, Ipv6Addr};

use hyper::Request;
use hyper::header::HOST;

/// Why a request is refused.
pub(super) const FOREIGN: &str = "this name does not belong to the admin server; use an address, localhost, or the name of a Service \
                                  (NAME.NAMESPACE.svc)\n";

/// Names below these are private to a machine (RFC 6761 §6.3) or a cluster.
const PRIVATE: [&str; 3] = [".localhost", ".svc", ".svc.cluster.local"];

/// Whether the request asks for no name that may be a web site's. No browser leaves `Host` out.
pub(super) fn is_answered<B>(request: &Request<B>) -> bool {
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
        || PRIVATE.iter().any(|suffix| name.ends_with(suffix))
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
    fn every_host_of_a_request_counts() {
        let request = |hosts: &[&str], uri: &str| {
            let request = hosts.iter().fold(Request::get(uri), |request, host| request.header(HOST, *host));
            is_answered(&request.body(()).unwrap())
        };
        assert!(request(&[], "/config"), "HTTP/1.0 has none");
        assert!(request(&["localhost"], "/config"));
        assert!(!request(&["localhost", "evil.example"], "/config"));
        assert!(!request(&["localhost"], "http://evil.example/config"));
    }
}
