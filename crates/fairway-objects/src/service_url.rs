//! The URL of a service that is called while a request waits: its host and its path. Resolves nothing: whether a name is that of
//! a Service is decided by its form.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::variables::{self, parse_template};
use fairway_model::{
    BackendProtocol, SubjectName, Template, TrustedRoots, UpstreamVerification, UrlScheme, redact_url,
};
use fairway_token::digest;

use crate::backend::{BackendPurpose, BackendRef, UrlReference};
use crate::object::ObjectKey;
use crate::options::Firewall;
use crate::resources::Resources;
use crate::transport::{PolicyTls, TlsOrigination, Transport};

/// A URL that may contain variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl {
    /// The host.
    pub destination: UrlDestination,
    /// Path and query.
    pub target: Template,
}

/// The host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlDestination {
    /// The host of the client's request.
    OwnHost(Option<UrlScheme>),
    /// This host.
    Host(UrlHost),
}

/// A host in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlHost {
    /// A name in lower case, or an address.
    pub name: Arc<str>,
    /// As written, or the default of the scheme.
    pub port: u16,
    /// The scheme.
    pub scheme: UrlScheme,
}

impl ServiceUrl {
    /// Parses a URL; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("\"{}\" {why}", redact_url(text)));
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['#', '"', '\\']) {
            return wrong("has a character that no URL has here");
        }
        if text.contains('@') {
            // The `@` may be part of the path, after a password with a slash, of which the port would be a part.
            return wrong("has an @, before which a password may be");
        }
        let Some((scheme, rest)) = text.split_once("://") else { return wrong("is no http or https URL") };
        let scheme = match scheme {
            "http" => Some(UrlScheme::Http),
            "https" => Some(UrlScheme::Https),
            "$scheme" | "$pass_access_scheme" => None,
            "grpc" | "grpcs" => {
                return wrong(
                    "asks over gRPC, which externalAuth.grpc of a SecurityPolicy for Gateway API does",
                );
            }
            _ => return wrong("is no http or https URL"),
        };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let slash = if target.starts_with('/') { "" } else { "/" };
        let target = parse_template(&[slash, target].concat())
            .map_err(|variable| variables::url_problem(text, &variable))?;
        let part = match (authority.contains('$'), scheme) {
            (true, _) => match authority {
                "$host" | "$http_host" | "$best_http_host" | "$server_name" | "${host}" => {
                    UrlDestination::OwnHost(scheme)
                }
                _ => return wrong("has a variable in its host besides $host as a whole"),
            },
            (false, None) => return wrong("names a host, and then its scheme must be http or https"),
            (false, Some(scheme)) => match UrlHost::parse(authority, scheme) {
                Some(host) => UrlDestination::Host(host),
                None => return wrong("names no host"),
            },
        };
        Ok(Self { destination: part, target })
    }
}

impl UrlHost {
    /// Parses a name or an address, optionally with a port.
    pub fn parse(authority: &str, scheme: UrlScheme) -> Option<Self> {
        let bracketed = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (name, port) = match bracketed {
            Some((name, rest)) => (name, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) }),
            None => match authority.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (authority, None),
            },
        };
        let default = match scheme {
            UrlScheme::Http => 80,
            UrlScheme::Https => 443,
        };
        let port = port.map_or(Some(default), |port| port.parse().ok().filter(|port| *port > 0))?;
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let good = match bracketed {
            Some(_) => matches!(name.parse(), Ok(IpAddr::V6(_))),
            None => !name.is_empty() && name.chars().all(plain) && !name.starts_with('.'),
        };
        good.then(|| Self { name: name.into(), port, scheme })
    }

    /// The address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.name.parse::<IpAddr>().ok().map(|address| address.to_canonical())
    }

    /// The Service with this name: `name.namespace.svc`, also with the usual cluster domain.
    pub fn service(&self) -> Option<ObjectKey> {
        let name = self.name.strip_suffix(".cluster.local").unwrap_or(&self.name);
        let (name, namespace) = name.strip_suffix(".svc")?.split_once('.')?;
        (!name.is_empty() && !namespace.is_empty() && !namespace.contains('.'))
            .then(|| ObjectKey::new(namespace, name))
    }

    /// The backend for this host: the endpoints of the Service with this name or address, else the addresses of the name. `https`
    /// endpoints are not verified.
    pub fn backend(&self, resources: &Resources, purpose: BackendPurpose) -> BackendRef {
        self.backend_with_tls(resources, purpose, &TlsOrigination::default())
    }

    /// The same with the TLS settings `tls`. The server name is that of the URL, unless `tls` has one.
    pub fn backend_with_tls(
        &self,
        resources: &Resources,
        purpose: BackendPurpose,
        tls: &TlsOrigination,
    ) -> BackendRef {
        let by_address = self.address().and_then(|address| resources.service_with_address(address).cloned());
        let service = self.service().or(by_address).unwrap_or_else(|| ObjectKey::new("", &self.name));
        let transport = match self.scheme {
            UrlScheme::Http => Transport::Plain,
            UrlScheme::Https => Transport::Tls(Arc::new(TlsOrigination {
                name: Some(tls.name.clone().unwrap_or_else(|| self.name.clone())),
                // An address is not a server name (RFC 6066 §3).
                sni: tls.name.is_some() || self.address().is_none(),
                ..tls.clone()
            })),
        };
        BackendRef::from_url(
            service,
            self.port,
            &transport,
            UrlReference { host: self.name.clone(), purpose },
        )
    }

    /// The same over TLS, verifying that the host has a certificate for the name in the URL, issued by one of `roots`.
    pub fn backend_verified(&self, roots: TrustedRoots, purpose: BackendPurpose) -> BackendRef {
        let service = self.service().unwrap_or_else(|| ObjectKey::new("", &self.name));
        let transport = Transport::Policy(Arc::new(PolicyTls {
            policy: ObjectKey::new("", &roots_name(&roots)),
            server_name: self.name.clone(),
            verification: UpstreamVerification::Subject {
                roots,
                names: vec![SubjectName::Dns(self.name.clone())],
            },
            client_certificate: None,
            protocol: BackendProtocol::Http1,
        }));
        BackendRef::from_url(
            service,
            self.port,
            &transport,
            UrlReference { host: self.name.clone(), purpose },
        )
    }
}

/// The default port of the web application firewall.
const FIREWALL_PORT: u16 = 9002;

/// Parses the address of the web application firewall: `IP[:PORT]` or `NAME.NAMESPACE.svc[:PORT]`.
///
/// # Errors
/// It is neither.
pub fn firewall(text: &str) -> Result<Firewall, String> {
    let wrong = || format!("\"{text}\" is neither IP:PORT nor NAME.NAMESPACE.svc:PORT");
    let has_port =
        text.rsplit_once(':').is_some_and(|(name, _)| !name.starts_with('[') || name.ends_with(']'));
    let host = UrlHost::parse(text, UrlScheme::Http).ok_or_else(wrong)?;
    let is_known = host.address().is_some() || host.service().is_some();
    let port = if has_port { host.port } else { FIREWALL_PORT };
    is_known.then(|| Firewall { host: host.name.clone(), port }).ok_or_else(wrong)
}

impl Firewall {
    /// `HOST:PORT`.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Its endpoints, contacted with HTTP/2 without TLS: those of the Service, or the address itself.
    pub fn backend(&self) -> BackendRef {
        let host = UrlHost { name: Arc::clone(&self.host), port: self.port, scheme: UrlScheme::Http };
        let service = host.service().unwrap_or_else(|| ObjectKey::new("", &self.host));
        let by_url = UrlReference { host: host.name, purpose: BackendPurpose::Firewall };
        BackendRef::from_url(service, self.port, &Transport::H2c, by_url)
    }
}

/// A name that is unique per set of roots: hosts with different roots are different backends. No object has this name.
fn roots_name(roots: &TrustedRoots) -> String {
    match roots {
        TrustedRoots::System => "roots:system".to_owned(),
        TrustedRoots::Pem(pem) => {
            let digest = digest(pem.as_bytes());
            let hex = digest[..16].iter().map(|byte| format!("{byte:02x}"));
            hex.fold("roots:".to_owned(), |name, byte| name + &byte)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> UrlHost {
        match ServiceUrl::parse(text).unwrap().destination {
            UrlDestination::Host(host) => host,
            UrlDestination::OwnHost(_) => panic!("{text} leads to the request's own host"),
        }
    }

    #[test]
    fn the_firewall_is_an_address_or_a_service() {
        for (text, authority) in [
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("127.0.0.1", "127.0.0.1:9002"),
            ("[::1]", "[::1]:9002"),
            ("[::1]:9000", "[::1]:9000"),
            ("waf.security.svc", "waf.security.svc:9002"),
            ("waf.security.svc.cluster.local:1", "waf.security.svc.cluster.local:1"),
        ] {
            assert_eq!(firewall(text).unwrap().authority(), authority, "{text}");
        }
        for wrong in
            ["", ":9002", "waf", "waf.example.com:9002", "127.0.0.1:0", "http://127.0.0.1:9002", "::1"]
        {
            assert!(firewall(wrong).is_err(), "{wrong}");
        }
        assert_eq!(firewall("127.0.0.1").unwrap().backend().service_key(), None);
    }

    #[test]
    fn hosts_have_the_port_of_their_scheme() {
        for (text, name, port) in [
            ("http://Auth.Test", "auth.test", 80),
            ("https://auth.test./x?y", "auth.test", 443),
            ("http://10.0.0.1:4180/a", "10.0.0.1", 4180),
            ("http://[fd00::1]:81?x", "fd00::1", 81),
        ] {
            let found = host(text);
            assert_eq!((&*found.name, found.port), (name, port), "{text}");
        }
        assert_eq!(
            ServiceUrl::parse("http://a?x=$request_uri").unwrap().target.to_string(),
            "/?x=$request_uri"
        );
    }

    #[test]
    fn a_variable_host_is_that_of_the_request() {
        let read = ServiceUrl::parse("https://$host/oauth2/auth").unwrap();
        assert_eq!(read.destination, UrlDestination::OwnHost(Some(UrlScheme::Https)));
        assert_eq!(
            ServiceUrl::parse("$scheme://$best_http_host/x").unwrap().destination,
            UrlDestination::OwnHost(None)
        );
    }

    #[test]
    fn other_texts_are_not_urls() {
        for wrong in [
            "",
            "auth.test/x",
            "ftp://a/x",
            "grpc://a/",
            "http:///x",
            "http://a b/",
            "http://user@a/",
            "http://a:0/",
            "http://a:70000/",
            "http://auth.$host/",
            "http://$host:8080/",
            "$scheme://auth.test/",
            "http://a/#x",
            "http://a/$arg_x",
            "http://a/\"",
            "http://[::1/",
            "http://[10.0.0.1]/",
            "http://a/\r\nX: y",
        ] {
            assert!(ServiceUrl::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_about_a_url_repeat_no_password() {
        for wrong in [
            "u:hunter2@a/x",
            "//u:hunter2@a/",
            "http:/u:hunter2@a/",
            "https:u:hunter2@a",
            "http:\\\\u:hunter2@a",
            " http://u:hunter2@a/",
            "http://u:hunter2@a:0/",
            "http://u:x/hunter2@a/",
            "http://u:x?hunter2@a/",
            "http://u:x#hunter2@a/",
            "http://u:1/hunter2@a/",
            "http://u:1?hunter2@a/",
            "http://u:hunter2@x@a/",
            "http://u:$hunter2@a/",
            "http://a/$hunter2@b/",
            "http://a:0/?token=hunter2",
            "http://a:0/#hunter2",
        ] {
            let problem = ServiceUrl::parse(wrong).unwrap_err();
            assert!(!problem.contains("hunter2"), "{wrong}: {problem}");
        }
        let problem = ServiceUrl::parse("http://a/?x=$arg_x").unwrap_err();
        assert!(problem.contains("has $arg_x"), "{problem}");
    }

    #[test]
    fn names_of_services_have_their_form() {
        let service = |text: &str| host(text).service();
        let expected = Some(ObjectKey::new("login", "proxy"));
        assert_eq!(service("http://proxy.login.svc/"), expected);
        assert_eq!(service("http://proxy.login.svc.cluster.local:4180/"), expected);
        for other in ["http://proxy.login/", "http://a.b.c.svc/", "http://proxy.svc/", "http://svc/"] {
            assert_eq!(service(other), None, "{other}");
        }
    }
}
