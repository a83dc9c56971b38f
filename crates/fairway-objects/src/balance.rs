//! How requests are balanced over a backend's endpoints, and the part of a backend's key that depends on it.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fairway_model::{
    BackendTraffic, Balancing, EndpointHealth, SameSite, SecureCookie, SessionCarrier, SessionCookie,
    SessionHash, SessionKey, SessionStart, Stickiness, StickyFailure, TrafficDistribution,
};

/// How requests are balanced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Balance {
    /// The algorithm for requests that are not bound to an endpoint.
    pub balancing: Balancing,
    /// The parts of a request that bind it to an endpoint.
    pub hash: Option<Arc<HashKey>>,
    /// Which endpoints are preferred, if not by the hints of their EndpointSlices.
    pub distribution: Option<TrafficDistribution>,
    /// Health checks and slow start of endpoints.
    pub health: Option<Arc<EndpointHealth>>,
    /// Further traffic settings from an annotation.
    pub traffic: Option<Arc<BackendTraffic>>,
    /// The session cookie, which takes precedence. It names no backend yet.
    pub cookie: Option<Arc<SessionCookie>>,
}

/// The values of `trafficDistribution`: those of a Service, and one more.
pub const DISTRIBUTIONS: [(&str, TrafficDistribution); 3] = [
    ("PreferSameZone", TrafficDistribution::PreferSameZone),
    ("PreferSameNode", TrafficDistribution::PreferSameNode),
    ("Any", TrafficDistribution::Any),
];

/// The parts of a request to hash, as written and as parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HashKey {
    /// Letters, digits and `-_${}`.
    pub text: Arc<str>,
    /// The same, parsed.
    pub hash: SessionHash,
}

impl Default for Balance {
    fn default() -> Self {
        let (distribution, health, traffic) = (None, None, None);
        Self { balancing: Balancing::RoundRobin, hash: None, distribution, health, traffic, cookie: None }
    }
}

impl Balance {
    /// The part of the key that tells backends of the same Service and port apart; empty for round robin.
    pub fn suffix(&self) -> String {
        let mut suffix = match self.balancing {
            Balancing::RoundRobin => String::new(),
            Balancing::PeakEwma => ";ewma".to_owned(),
            Balancing::LeastRequests => ";least-requests".to_owned(),
            Balancing::Random => ";random".to_owned(),
        };
        suffix.push_str(match self.distribution {
            None => "",
            Some(TrafficDistribution::PreferSameZone) => ";same-zone",
            Some(TrafficDistribution::PreferSameNode) => ";same-node",
            Some(TrafficDistribution::Any) => ";any-zone",
        });
        // Different settings must never share a backend; equal ones may.
        let hash = |hash_into: &dyn Fn(&mut DefaultHasher)| {
            let mut hash = DefaultHasher::new();
            hash_into(&mut hash);
            hash.finish()
        };
        if let Some(health) = &self.health {
            _ = write!(suffix, ";health={:016x}", hash(&|it| health.hash(it)));
        }
        if let Some(traffic) = &self.traffic {
            _ = write!(suffix, ";traffic={:016x}", hash(&|it| traffic.hash(it)));
        }
        if let Some(cookie) = &self.cookie {
            write_cookie(&mut suffix, cookie);
        } else if let Some(HashKey { text, hash }) = self.hash.as_deref() {
            suffix.extend([";hash=", text]);
            _ = hash.spread.map(|spread| write!(suffix, ";spread={spread}"));
        }
        suffix
    }

    /// The same without sessions.
    pub fn without_sessions(&self) -> Self {
        Self { cookie: None, ..self.clone() }
    }

    /// The settings from annotations of ingress-nginx, without Fairway's own.
    pub fn of_ingress_nginx(&self) -> Self {
        Self { distribution: None, health: None, traffic: None, ..self.clone() }
    }

    /// The same with the settings from Fairway's own annotations in `annotated`.
    pub fn with_annotations_of(self, annotated: &Self) -> Self {
        let (distribution, health, traffic) =
            (annotated.distribution, annotated.health.clone(), annotated.traffic.clone());
        Self { distribution, health, traffic, ..self }
    }

    /// The same without new sessions: responses do not set the cookie, and requests with a cookie stay with their endpoint.
    pub fn without_new_sessions(mut self) -> Self {
        let elsewhere = |cookie: &Arc<SessionCookie>| {
            Arc::new(SessionCookie { begins: SessionStart::Elsewhere, ..(**cookie).clone() })
        };
        self.cookie = self.cookie.as_ref().map(elsewhere);
        self
    }

    /// The session key for the data plane. `tag` names the backend in cookies.
    pub fn session(&self, tag: &str) -> Option<SessionKey> {
        match (&self.cookie, &self.hash) {
            (Some(cookie), _) => Some(SessionKey::Cookie(Arc::new(SessionCookie {
                backend: tag.into(),
                ..(**cookie).clone()
            }))),
            (None, by) => by.as_ref().map(|by| SessionKey::Hash(by.hash.clone())),
        }
    }
}

/// Writes every attribute that differs from the default. No value contains a semicolon.
fn write_cookie(suffix: &mut String, cookie: &SessionCookie) {
    let SessionCookie { name, backend: _, stickiness, path, domain, expires, max_age, .. } = cookie;
    let SessionCookie { secure, same_site, on_failure, begins, carrier, lifetime, .. } = cookie;
    _ = write!(suffix, ";session={name}");
    let mut add = |attribute: &str, value: Option<&dyn std::fmt::Display>| {
        _ = value.map(|value| write!(suffix, ";{attribute}={value}"));
    };
    add("path", path.as_ref().map(|path| path as _));
    add("domain", domain.as_ref().map(|domain| domain as _));
    add("expires", expires.as_ref().map(|seconds| seconds as _));
    add("max-age", max_age.as_ref().map(|seconds| seconds as _));
    add("lasts", lifetime.absolute.as_ref().map(|seconds| seconds as _));
    add("idle", lifetime.idle.as_ref().map(|seconds| seconds as _));
    suffix.push_str(match same_site {
        SameSite::Absent => "",
        SameSite::None => ";same-site=none",
        SameSite::NoneIfKnown => ";same-site=none-if-known",
        SameSite::Lax => ";same-site=lax",
        SameSite::Strict => ";same-site=strict",
    });
    let flags = [
        (*stickiness == Stickiness::Persistent, ";persistent"),
        (*secure == SecureCookie::Always, ";secure"),
        (*on_failure == StickyFailure::Moves, ";moves"),
        (*begins == SessionStart::Elsewhere, ";not-set"),
        (*carrier == SessionCarrier::Header, ";header"),
    ];
    flags.into_iter().filter(|(set, _)| *set).for_each(|(_, flag)| suffix.push_str(flag));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroU32;

    use fairway_model::SessionLifetime;

    use super::*;

    #[test]
    fn different_cookies_make_different_backends() {
        let second = NonZeroU32::new(1);
        let plain = SessionCookie {
            name: "route".into(),
            backend: "".into(),
            stickiness: Stickiness::Balanced,
            path: None,
            domain: None,
            expires: None,
            max_age: None,
            secure: SecureCookie::OverTls,
            same_site: SameSite::Absent,
            on_failure: StickyFailure::Returns,
            begins: SessionStart::Here,
            carrier: SessionCarrier::Cookie,
            lifetime: SessionLifetime::default(),
        };
        let cookies = [
            SessionCookie { name: "other".into(), ..plain.clone() },
            SessionCookie { stickiness: Stickiness::Persistent, ..plain.clone() },
            SessionCookie { path: Some("/a".into()), ..plain.clone() },
            SessionCookie { domain: Some("/a".into()), ..plain.clone() },
            SessionCookie { expires: Some(1), ..plain.clone() },
            SessionCookie { max_age: Some(1), ..plain.clone() },
            SessionCookie { secure: SecureCookie::Always, ..plain.clone() },
            SessionCookie { same_site: SameSite::None, ..plain.clone() },
            SessionCookie { same_site: SameSite::NoneIfKnown, ..plain.clone() },
            SessionCookie { same_site: SameSite::Lax, ..plain.clone() },
            SessionCookie { same_site: SameSite::Strict, ..plain.clone() },
            SessionCookie { on_failure: StickyFailure::Moves, ..plain.clone() },
            SessionCookie { begins: SessionStart::Elsewhere, ..plain.clone() },
            SessionCookie { carrier: SessionCarrier::Header, ..plain.clone() },
            SessionCookie { lifetime: SessionLifetime { absolute: second, idle: None }, ..plain.clone() },
            SessionCookie { lifetime: SessionLifetime { absolute: None, idle: second }, ..plain.clone() },
            plain,
        ];
        let suffix = |cookie: &SessionCookie| {
            Balance { cookie: Some(cookie.clone().into()), ..Balance::default() }.suffix()
        };
        let suffixes: BTreeSet<_> = cookies.iter().map(suffix).collect();
        assert_eq!(suffixes.len(), cookies.len(), "{suffixes:?}");
        assert_eq!(suffix(&cookies[16]), ";session=route");
    }
}
