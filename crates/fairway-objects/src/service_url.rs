//! The URL of a service that requests are held for: where it leads, and what is asked there. Resolves nothing: a name is one
//! of a Service by its form alone.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::variables::{self, template};
use fairway_model::{
    BackendProtocol, OwnScheme, SubjectName, Template, TrustedRoots, UpstreamVerification, shown_url,
};
use fairway_token::digest;

use crate::backend::{BackendRef, ByUrl, Purpose};
use crate::object::ObjectKey;
use crate::options::Firewall;
use crate::resources::Resources;
use crate::transport::{PolicyTls, TlsOrigination, Transport};

/// A URL with variables in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl {
    /// Which host is asked.
    pub place: UrlPlace,
    /// Path and query.
    pub target: Template,
}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlPlace {
    /// To the host that the client asks for, whichever that is.
    OwnHost(Option<OwnScheme>),
    /// To this host.
    Host(UrlHost),
}

/// A host that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlHost {
    /// A name in lower case, or an address.
    pub name: Arc<str>,
    /// As written, or the scheme's own.
    pub port: u16,
    /// What is spoken there.
    pub scheme: OwnScheme,
}

impl ServiceUrl {
    /// Reads a URL, or says what is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("\"{}\" {why}", shown_url(text)));
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['#', '"', '\\']) {
            return wrong("has a character that no URL has here");
        }
        if text.contains('@') {
            // By its form it may stand in the path: behind a password with a slash, of which the port would be a part.
            return wrong("has an @, before which a password may be");
        }
        let Some((scheme, rest)) = text.split_once("://") else { return wrong("is no http or https URL") };
        let scheme = match scheme {
            "http" => Some(OwnScheme::Http),
            "https" => Some(OwnScheme::Https),
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
        let target = template(&[slash, target].concat())
            .map_err(|variable| variables::problem_of_url(text, &variable))?;
        let place = match (authority.contains('$'), scheme) {
            (true, _) => match authority {
                "$host" | "$http_host" | "$best_http_host" | "$server_name" | "${host}" => {
                    UrlPlace::OwnHost(scheme)
                }
                _ => return wrong("has a variable in its host besides $host as a whole"),
            },
            (false, None) => return wrong("names a host, and then its scheme must be http or https"),
            (false, Some(scheme)) => match UrlHost::read(authority, scheme) {
                Some(host) => UrlPlace::Host(host),
                None => return wrong("names no host"),
            },
        };
        Ok(Self { place, target })
    }
}

impl UrlHost {
    /// Reads a name or an address, which may have a port.
    pub fn read(authority: &str, scheme: OwnScheme) -> Option<Self> {
        let bracketed = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (name, port) = match bracketed {
            Some((name, rest)) => (name, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) }),
            None => match authority.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (authority, None),
            },
        };
        let default = match scheme {
            OwnScheme::Http => 80,
            OwnScheme::Https => 443,
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

    /// The address, where it is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.name.parse::<IpAddr>().ok().map(|address| address.to_canonical())
    }

    /// The Service that the name would be of: `name.namespace.svc`, also with the usual domain of a cluster.
    pub fn service(&self) -> Option<ObjectKey> {
        let name = self.name.strip_suffix(".cluster.local").unwrap_or(&self.name);
        let (name, namespace) = name.strip_suffix(".svc")?.split_once('.')?;
        (!name.is_empty() && !namespace.is_empty() && !namespace.contains('.'))
            .then(|| ObjectKey::new(namespace, name))
    }

    /// The backend behind it: the endpoints of the Service that has this name or address, else whatever the name stands for.
    /// Whoever answers `https` there is not verified.
    pub fn backend(&self, resources: &Resources, purpose: Purpose) -> BackendRef {
        self.backend_over(resources, purpose, &TlsOrigination::default())
    }

    /// The same, where TLS begins like `tls`. It asks for the name of the URL, unless `tls` has another one.
    pub fn backend_over(&self, resources: &Resources, purpose: Purpose, tls: &TlsOrigination) -> BackendRef {
        let by_address = self.address().and_then(|address| resources.service_at(address).cloned());
        let service = self.service().or(by_address).unwrap_or_else(|| ObjectKey::new("", &self.name));
        let transport = match self.scheme {
            OwnScheme::Http => Transport::Plain,
            OwnScheme::Https => Transport::Tls(Arc::new(TlsOrigination {
                name: Some(tls.name.clone().unwrap_or_else(|| self.name.clone())),
                // An address is no name (RFC 6066 §3).
                sni: tls.name.is_some() || self.address().is_none(),
                ..tls.clone()
            })),
        };
        BackendRef::of_url(service, self.port, &transport, ByUrl { host: self.name.clone(), purpose })
    }

    /// The same over TLS to a host that has a certificate of the name of the URL, by one of `roots`.
    pub fn backend_verified(&self, roots: TrustedRoots, purpose: Purpose) -> BackendRef {
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
        BackendRef::of_url(service, self.port, &transport, ByUrl { host: self.name.clone(), purpose })
    }
}

/// The port of the web application firewall, where none is written.
const FIREWALL_PORT: u16 = 9002;

/// Reads where the web application firewall answers: `IP[:PORT]` or `NAME.NAMESPACE.svc[:PORT]`.
///
/// # Errors
/// It is neither.
pub fn firewall(text: &str) -> Result<Firewall, String> {
    let wrong = || format!("\"{text}\" is neither IP:PORT nor NAME.NAMESPACE.svc:PORT");
    let has_port =
        text.rsplit_once(':').is_some_and(|(name, _)| !name.starts_with('[') || name.ends_with(']'));
    let host = UrlHost::read(text, OwnScheme::Http).ok_or_else(wrong)?;
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

    /// Its endpoints, which speak HTTP/2 in the clear: those of the Service, or the address itself.
    pub fn backend(&self) -> BackendRef {
        let host = UrlHost { name: Arc::clone(&self.host), port: self.port, scheme: OwnScheme::Http };
        let service = host.service().unwrap_or_else(|| ObjectKey::new("", &self.host));
        let by_url = ByUrl { host: host.name, purpose: Purpose::Firewall };
        BackendRef::of_url(service, self.port, &Transport::H2c, by_url)
    }
}

/// A name that two sets of roots do not share: hosts with different trust are different backends. No object has it.
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
        match ServiceUrl::read(text).unwrap().place {
            UrlPlace::Host(host) => host,
            UrlPlace::OwnHost(_) => panic!("{text} leads to the request's own host"),
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
        assert_eq!(firewall("127.0.0.1").unwrap().backend().by_service(), None);
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
            ServiceUrl::read("http://a?x=$request_uri").unwrap().target.to_string(),
            "/?x=$request_uri"
        );
    }

    #[test]
    fn a_host_that_is_a_variable_is_the_requests_own() {
        let read = ServiceUrl::read("https://$host/oauth2/auth").unwrap();
        assert_eq!(read.place, UrlPlace::OwnHost(Some(OwnScheme::Https)));
        assert_eq!(ServiceUrl::read("$scheme://$best_http_host/x").unwrap().place, UrlPlace::OwnHost(None));
    }

    #[test]
    fn whatever_else_is_no_url() {
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
            assert!(ServiceUrl::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_repeats_no_password() {
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
            let problem = ServiceUrl::read(wrong).unwrap_err();
            assert!(!problem.contains("hunter2"), "{wrong}: {problem}");
        }
        let problem = ServiceUrl::read("http://a/?x=$arg_x").unwrap_err();
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
