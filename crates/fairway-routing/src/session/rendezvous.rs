//! Session affinity: which endpoint of a backend gets a request, by a cookie or by a hash of request attributes. The
//! same in every worker and replica, so that a session stays where it is whoever serves its requests.
//!
//! Hashing selects the endpoint with the highest weight for the request (rendezvous hashing): a new endpoint takes its
//! share from all others, one that leaves gives its share to all others, and no other session moves.

use std::io::Write as _;
use std::net::IpAddr;
use std::num::NonZeroU16;

use fairway_http::Head;
use fairway_model::{
    Backend, SameSite, SecureCookie, SessionCookie, SessionHash, SessionKey, SessionPart, SessionStart,
    Stickiness, StickyFailure,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::session::cookies::{cookie_of, parameter_of};
use crate::session::token::{IssuedToken, SessionTimes, Token};

/// The affinity of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// None.
    #[default]
    Anywhere,
    /// The endpoint with this key, as long as there is one.
    To(u64),
    /// The endpoint with the highest weight for this hash.
    By(u64),
    /// One of this many endpoints with the highest weights for this hash.
    Among(u64, NonZeroU16),
}

/// The session of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The affinity of the request.
    pub belongs: Affinity,
    /// The session key, if it begins with this request.
    pub fresh: Option<u64>,
    /// When it began and was last seen, if it has a limited lifetime.
    pub times: SessionTimes,
}

/// The request attributes that may determine a session.
pub struct SessionRequest<'r> {
    /// For its cookies and the headers in a hash.
    pub request: &'r Head,
    /// Lower case, without port.
    pub host: &'r str,
    /// As received.
    pub target: &'r [u8],
    /// Without the question mark; empty if there is none.
    pub query: &'r [u8],
    /// Normalised.
    pub path: &'r [u8],
    /// After the real-IP settings were applied.
    pub client: IpAddr,
    /// Seconds since 1970, for sessions with a limited lifetime.
    pub now: i64,
}

impl Session {
    /// No session.
    pub const NONE: Self =
        Self { belongs: Affinity::Anywhere, fresh: None, times: SessionTimes { began: 0, last_seen: 0 } };

    /// The session of a request. `random` makes the key of a new one.
    pub fn for_request(key: &SessionKey, request: &SessionRequest<'_>, random: impl FnOnce() -> u64) -> Self {
        match key {
            SessionKey::Hash(SessionHash { parts, spread }) => {
                let mut hash = PartHash::new();
                parts.iter().for_each(|part| request.write(part, &mut hash));
                let hash = hash.finish();
                let belongs = spread.map_or(Affinity::By(hash), |spread| Affinity::Among(hash, spread));
                Self { belongs, ..Self::default() }
            }
            SessionKey::Cookie(cookie) => {
                let token = Token::from_request(cookie, request.request, request.now);
                let times = token.map(|token| token.times).unwrap_or_default();
                match (cookie.stickiness, token.map(|token| token.key)) {
                    (Stickiness::Persistent, session) => {
                        let named = session.and_then(from_hex).map_or(Affinity::Anywhere, Affinity::To);
                        Self { belongs: named, fresh: None, times }
                    }
                    (Stickiness::Balanced, Some(session)) => {
                        // Sessions that began with ingress-nginx continue: any text is a key.
                        let hash = from_hex(session).unwrap_or_else(|| hash_of(session));
                        Self { belongs: Affinity::By(hash), ..Self::default() }
                    }
                    (Stickiness::Balanced, None) if cookie.begins == SessionStart::Elsewhere => {
                        Self::default()
                    }
                    (Stickiness::Balanced, None) => {
                        let key = random();
                        Self { belongs: Affinity::By(key), fresh: Some(key), ..Self::default() }
                    }
                }
            }
        }
    }

    /// The affinity of a connection or of a client's datagrams, for which only the client's address is known: the same
    /// as for requests of this client if nothing else decides, and none if the address does not matter.
    pub fn of_address(key: Option<&SessionKey>, client: IpAddr) -> Affinity {
        match key {
            Some(key @ SessionKey::Hash(hash)) if hash.parts.contains(&SessionPart::Address) => {
                let request = Head::new();
                let session_request = SessionRequest {
                    request: &request,
                    host: "",
                    target: b"",
                    query: b"",
                    path: b"",
                    client,
                    now: 0,
                };
                Self::for_request(key, &session_request, || 0).belongs
            }
            _ => Affinity::Anywhere,
        }
    }

    /// The token for the response, if it needs one. `keys` are those of all endpoints, `index` is the endpoint that
    /// responded, `now` is for sessions with a limited lifetime.
    pub fn issue_token(
        self,
        cookie: &SessionCookie,
        keys: &[u64],
        index: usize,
        now: i64,
        random: impl FnOnce() -> u64,
    ) -> Option<IssuedToken> {
        if cookie.begins == SessionStart::Elsewhere {
            return None;
        }
        let answered = *keys.get(index)?;
        let moves = cookie.on_failure == StickyFailure::Moves;
        let begins = |key| IssuedToken { key, began: now };
        match (cookie.stickiness, self.belongs) {
            (Stickiness::Persistent, Affinity::To(key)) if key == answered => {
                let is_seen = cookie.lifetime.idle.is_some() && self.times.last_seen != now;
                is_seen.then_some(IssuedToken { key, began: self.times.began })
            }
            (Stickiness::Persistent, Affinity::To(key)) if keys.contains(&key) && !moves => None,
            (Stickiness::Persistent, _) => Some(begins(answered)),
            (Stickiness::Balanced, Affinity::By(hash)) if moves && heaviest(keys, hash) != Some(index) => {
                Some(begins(session_at(answered, random())))
            }
            (Stickiness::Balanced, _) => self.fresh.map(begins),
        }
    }
}

impl SessionRequest<'_> {
    fn write(&self, part: &SessionPart, hash: &mut PartHash) {
        match part {
            SessionPart::Address => match self.client {
                IpAddr::V4(address) => hash.write(&address.octets()),
                IpAddr::V6(address) => hash.write(&address.octets()),
            },
            SessionPart::Header(name) => hash.write(self.request.named(name.as_bytes()).unwrap_or_default()),
            SessionPart::Cookie(name) => {
                hash.write(cookie_of(self.request, name.as_bytes()).unwrap_or_default());
            }
            SessionPart::Query(name) => {
                hash.write(parameter_of(self.query, name.as_bytes()).unwrap_or_default());
            }
            SessionPart::Host => hash.write(self.host.as_bytes()),
            SessionPart::Target => hash.write(self.target),
            SessionPart::Path => hash.write(self.path),
            SessionPart::Text(text) => hash.write(text.as_bytes()),
        }
        hash.end();
    }
}

/// The keys of a backend's endpoints, in order; empty without session affinity.
pub fn keys(backend: &Backend) -> Box<[u64]> {
    if backend.session.is_none() {
        return Box::default();
    }
    let key = |endpoint: &fairway_model::Endpoint| {
        let mut hash = PartHash::new();
        hash.write(backend.service.namespace.as_bytes());
        hash.end();
        hash.write(backend.service.name.as_bytes());
        hash.end();
        hash.write(endpoint.address.to_string().as_bytes());
        hash.finish()
    };
    backend.endpoints.iter().map(key).collect()
}

/// The rendezvous weight of an endpoint key for this hash.
pub fn weight(key: u64, hash: u64) -> u64 {
    mix(key ^ hash)
}

/// A session key for which the endpoint with this key outweighs about a million others. So the session stays as long as
/// the endpoint exists.
fn session_at(key: u64, random: u64) -> u64 {
    key ^ unmixed(!(random >> 20))
}

fn heaviest(keys: &[u64], hash: u64) -> Option<usize> {
    (0..keys.len()).max_by_key(|index| weight(keys[*index], hash))
}

/// Appends the value of `Set-Cookie` (RFC 6265 §4.1.1), with attributes in the order of ingress-nginx.
pub fn set_cookie(
    into: &mut Vec<u8>,
    cookie: &SessionCookie,
    issued: IssuedToken,
    now: i64,
    path: &str,
    is_tls: bool,
    user_agent: Option<&[u8]>,
) {
    into.extend_from_slice(cookie.name.as_bytes());
    into.push(b'=');
    issued.write(into, cookie, now);
    let mut add = |attribute: std::fmt::Arguments<'_>| {
        into.write_fmt(attribute).expect("writing to memory cannot fail");
    };
    if let Some(seconds) = cookie.expires {
        let now = Timestamp::now().as_second();
        let when = Timestamp::from_second(now.saturating_add(seconds)).unwrap_or(Timestamp::MAX);
        add(format_args!("; Expires={}", when.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")));
    }
    if let Some(seconds) = issued.max_age(cookie, now) {
        add(format_args!("; Max-Age={seconds}"));
    }
    if let Some(domain) = &cookie.domain {
        add(format_args!("; Domain={domain}"));
    }
    add(format_args!("; Path={}", cookie.path.as_deref().unwrap_or(path)));
    if is_tls || cookie.secure == SecureCookie::Always {
        add(format_args!("; Secure"));
    }
    add(format_args!("; HttpOnly"));
    let rejects_none = || user_agent.is_some_and(takes_none_for_strict);
    match cookie.same_site {
        SameSite::Absent => {}
        SameSite::NoneIfKnown if rejects_none() => {}
        SameSite::None | SameSite::NoneIfKnown => add(format_args!("; SameSite=None")),
        SameSite::Lax => add(format_args!("; SameSite=Lax")),
        SameSite::Strict => add(format_args!("; SameSite=Strict")),
    }
}

/// Whether a browser rejects cookies with `SameSite=None`, or treats it as `Strict`: Chrome 40 to 69, iOS 12, and
/// Safari on macOS 10.14, detected like ingress-nginx does.
fn takes_none_for_strict(user_agent: &[u8]) -> bool {
    let has = |words: &str| user_agent.windows(words.len()).any(|window| window == words.as_bytes());
    ["Chrome/4", "Chrome/5", "Chrome/6", "CPU iPhone OS 12", "iPad; CPU OS 12"].into_iter().any(has)
        || (["Macintosh", "Intel Mac OS X 10_14", "Safari"].into_iter().all(has) && !has("Chrome"))
}

fn from_hex(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 16)?;
    u64::from_str_radix(text, 16).ok()
}

/// FNV-1a, mixed at the end: the same in every process. Clients that choose their keys can choose their endpoint, as
/// they can in other ways.
struct PartHash(u64);

impl PartHash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Ends a part; the next bytes belong to another one.
    fn end(&mut self) {
        self.write(&[0]);
    }

    fn finish(&self) -> u64 {
        mix(self.0)
    }
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = PartHash::new();
    hash.write(bytes);
    hash.finish()
}

/// The finalizer of SplitMix64.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The inverse of [`mix`].
fn unmixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 31) ^ (bits >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    bits = (bits ^ (bits >> 27) ^ (bits >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    bits ^ (bits >> 30) ^ (bits >> 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: u16) -> Vec<u64> {
        (0..count).map(|number| hash_of(format!("10.0.0.{number}:80").as_bytes())).collect()
    }

    #[test]
    fn a_moved_session_belongs_to_the_endpoint_that_responded() {
        let keys = keys(100);
        let mut random = fastrand::Rng::with_seed(1);
        for index in 0..100 {
            for _ in 0..100 {
                let session = session_at(keys[index], random.u64(..));
                assert_eq!(unmixed(mix(session)), session);
                assert_eq!(heaviest(&keys, session), Some(index));
                let moved = (0..3).map(|_| session_at(keys[index], random.u64(..)));
                assert!(moved.into_iter().all(|other| other != session), "no two sessions are the same");
            }
        }
    }

    #[test]
    fn a_new_endpoint_takes_its_share_and_no_other_session_moves() {
        let keys = keys(8);
        let mut shares = [0; 8];
        let mut moved = 0;
        for session in 0..20_000_u64 {
            let hash = mix(session);
            let (before, after) = (heaviest(&keys[..7], hash).unwrap(), heaviest(&keys, hash).unwrap());
            shares[after] += 1;
            moved += usize::from(before != after);
            assert!(before == after || after == 7, "sessions move to the new one alone");
        }
        assert!(shares.iter().all(|share| (2_250..2_750).contains(share)), "{shares:?}");
        assert!((2_250..2_750).contains(&moved), "{moved}");
    }

    #[test]
    fn connections_and_requests_of_an_address_belong_to_the_same_endpoint() {
        let client = [192, 0, 2, 7].into();
        let key = |parts: &[SessionPart]| {
            SessionKey::Hash(SessionHash { parts: parts.to_vec(), spread: NonZeroU16::new(2) })
        };
        let by_address = key(&[SessionPart::Address]);
        let request = Head::new();
        let session_request = SessionRequest {
            request: &request,
            host: "a",
            target: b"/",
            query: b"",
            path: b"/",
            client,
            now: 0,
        };
        assert_eq!(
            Session::of_address(Some(&by_address), client),
            Session::for_request(&by_address, &session_request, || 0).belongs
        );
        assert_ne!(
            Session::of_address(Some(&by_address), client),
            Session::of_address(Some(&by_address), [192, 0, 2, 8].into())
        );
        assert_eq!(Session::of_address(Some(&key(&[SessionPart::Host])), client), Affinity::Anywhere);
        assert_eq!(Session::of_address(None, client), Affinity::Anywhere);
    }

    #[test]
    fn browsers_that_reject_none_are_known() {
        for (agent, takes) in [
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_14_6) AppleWebKit/605.1.15 Version/12.1.2 Safari/605.1.15",
                true,
            ),
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
                false,
            ),
            ("Mozilla/5.0 (Windows NT 10.0) Chrome/58.0.3029.110 Safari/537.36", true),
            ("curl/8", false),
        ] {
            assert_eq!(takes_none_for_strict(agent.as_bytes()), takes, "{agent}");
        }
    }
}
