//! Who of a backend's endpoints gets a request, and what tells backends of the same Service and port apart by it.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fairway_model::{
    BackendTraffic, Balancing, EndpointHealth, SameSite, SecureCookie, SessionCarrier, SessionCookie,
    SessionHash, SessionKey, SessionStart, Stickiness, StickyFailure, TrafficDistribution,
};

/// Who gets a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Balance {
    /// How endpoints take turns where nothing binds a request to one.
    pub balancing: Balancing,
    /// What requests have in common that belong to the same endpoint.
    pub hash: Option<Arc<HashBy>>,
    /// Which endpoints are preferred, where that is not as the hints of their EndpointSlices say.
    pub distribution: Option<TrafficDistribution>,
    /// What makes endpoints fit for requests.
    pub health: Option<Arc<EndpointHealth>>,
    /// What else an annotation says of how endpoints are used.
    pub traffic: Option<Arc<BackendTraffic>>,
    /// The cookie of sessions, which counts for more. It names no backend yet.
    pub cookie: Option<Arc<SessionCookie>>,
}

/// The values of `trafficDistribution`, which are those of a Service but for the last.
pub const DISTRIBUTIONS: [(&str, TrafficDistribution); 3] = [
    ("PreferSameZone", TrafficDistribution::PreferSameZone),
    ("PreferSameNode", TrafficDistribution::PreferSameNode),
    ("Any", TrafficDistribution::Any),
];

/// What requests have in common, as it was written and as it is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HashBy {
    /// Letters, digits and `-_${}`.
    pub text: Arc<str>,
    /// The same, read.
    pub hash: SessionHash,
}

impl Default for Balance {
    fn default() -> Self {
        let (distribution, health, traffic) = (None, None, None);
        Self { balancing: Balancing::RoundRobin, hash: None, distribution, health, traffic, cookie: None }
    }
}

impl Balance {
    /// What tells backends of the same Service and port apart; empty for requests in turn.
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
        // Two that differ must never share a backend, and equal ones may.
        let hash = |of: &dyn Fn(&mut DefaultHasher)| {
            let mut hash = DefaultHasher::new();
            of(&mut hash);
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
        } else if let Some(HashBy { text, hash }) = self.hash.as_deref() {
            suffix.extend([";hash=", text]);
            _ = hash.spread.map(|spread| write!(suffix, ";spread={spread}"));
        }
        suffix
    }

    /// The same without sessions.
    pub fn without_sessions(&self) -> Self {
        Self { cookie: None, ..self.clone() }
    }

    /// What annotations of ingress-nginx say of it, without Fairway's own.
    pub fn of_ingress_nginx(&self) -> Self {
        Self { distribution: None, health: None, traffic: None, ..self.clone() }
    }

    /// The same with what Fairway's own annotations say in another one.
    pub fn with_own(self, of: &Self) -> Self {
        let (distribution, health, traffic) = (of.distribution, of.health.clone(), of.traffic.clone());
        Self { distribution, health, traffic, ..self }
    }

    /// The same where sessions do not begin: answers do not set the cookie, and requests that have it stay at their endpoint.
    pub fn without_new_sessions(mut self) -> Self {
        let elsewhere = |cookie: &Arc<SessionCookie>| {
            Arc::new(SessionCookie { begins: SessionStart::Elsewhere, ..(**cookie).clone() })
        };
        self.cookie = self.cookie.as_ref().map(elsewhere);
        self
    }

    /// The same for the data plane. `tag` names the backend in cookies.
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

/// All that a cookie does not have by default. No value has a semicolon.
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
    fn cookies_that_differ_make_backends_that_differ() {
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
