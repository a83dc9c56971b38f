//! The token of a session, in a cookie or a header: `KEY|BACKEND`, and `KEY|BACKEND|BEGAN|SEEN` if the session has a
//! limited lifetime. The times are seconds since 1970. Clients could forge a token, and would only get another
//! endpoint.

use std::io::Write as _;

use fairway_http::Head;
use fairway_model::{SessionCarrier, SessionCookie, SessionLifetime};

use crate::session::cookies::cookie_of;

/// The separator of a token's parts, as in ingress-nginx.
const DELIMITER: u8 = b'|';

/// The session token of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'r> {
    /// The session key.
    pub key: &'r [u8],
    /// The name of its backend; empty if there is none.
    pub backend: &'r [u8],
    /// When it began and was last seen, if that matters.
    pub times: SessionTimes,
}

/// When a session began and was last seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionTimes {
    pub(super) began: i64,
    pub(super) last_seen: i64,
}

/// The session token of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// The session key.
    pub key: u64,
    /// When it began.
    pub began: i64,
}

impl<'r> Token<'r> {
    /// The token of a request that has one and has not expired. `now` is for sessions with a limited lifetime.
    #[must_use]
    pub fn from_request(session: &SessionCookie, request: &'r Head, now: i64) -> Option<Self> {
        let name = session.name.as_bytes();
        let text = match session.carrier {
            SessionCarrier::Cookie => cookie_of(request, name),
            SessionCarrier::Header => request.named(name),
        };
        let mut parts = text?.split(|byte| *byte == DELIMITER);
        let key = parts.next().filter(|key| !key.is_empty())?;
        let backend = parts.next().unwrap_or_default();
        if session.lifetime == SessionLifetime::default() {
            return Some(Self { key, backend, times: SessionTimes::default() });
        }
        // A token without times predates the limits, and its session starts again.
        let times = SessionTimes {
            began: parts.next().and_then(seconds)?,
            last_seen: parts.next().and_then(seconds)?,
        };
        let SessionLifetime { absolute, idle } = session.lifetime;
        let is_over = |since: i64, limit: Option<std::num::NonZeroU32>| {
            limit.is_some_and(|most| now.saturating_sub(since) >= i64::from(most.get()))
        };
        let lasts = !is_over(times.began, absolute) && !is_over(times.last_seen, idle);
        lasts.then_some(Self { key, backend, times })
    }
}

impl IssuedToken {
    /// Appends the token.
    pub fn write(self, into: &mut Vec<u8>, session: &SessionCookie, now: i64) {
        let Self { key, began } = self;
        let written = match session.lifetime == SessionLifetime::default() {
            true => write!(into, "{key:016x}|{}", session.backend),
            false => write!(into, "{key:016x}|{}|{began:x}|{now:x}", session.backend),
        };
        written.expect("writing to memory cannot fail");
    }

    /// The `Max-Age` of its cookie: for a cookie that lasts as long as the session, the remaining time.
    pub(super) fn max_age(self, session: &SessionCookie, now: i64) -> Option<i64> {
        let passed = session.lifetime.absolute.map_or(0, |_| now.saturating_sub(self.began));
        session.max_age.map(|most| most.saturating_sub(passed))
    }
}

fn seconds(text: &[u8]) -> Option<i64> {
    i64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use fairway_model::{SameSite, SecureCookie, SessionStart, Stickiness, StickyFailure};

    use super::*;

    fn session(absolute: u32, idle: u32) -> SessionCookie {
        SessionCookie {
            name: "cart".into(),
            backend: "b1".into(),
            stickiness: Stickiness::Persistent,
            path: None,
            domain: None,
            expires: None,
            max_age: Some(100),
            secure: SecureCookie::OverTls,
            same_site: SameSite::Absent,
            on_failure: StickyFailure::Moves,
            begins: SessionStart::Here,
            carrier: SessionCarrier::Cookie,
            lifetime: SessionLifetime { absolute: NonZeroU32::new(absolute), idle: NonZeroU32::new(idle) },
        }
    }

    fn request(name: &[u8], value: &[u8]) -> Head {
        let mut request = Head::new();
        request.start_request(b"GET", b"/");
        request.append(name, value);
        request
    }

    #[test]
    fn a_session_lasts_for_its_absolute_and_its_idle_time() {
        let lasts = |cookie: &SessionCookie, began, written, now| {
            let mut value = b"cart=".to_vec();
            IssuedToken { key: 7, began }.write(&mut value, cookie, written);
            Token::from_request(cookie, &request(b"Cookie", &value), now).is_some()
        };
        for (absolute, idle, began, written, now, expected) in [
            (100, 0, 1000, 1000, 1099, true),
            (100, 0, 1000, 1050, 1100, false),
            (0, 10, 1000, 1050, 1059, true),
            (0, 10, 1000, 1050, 1060, false),
            (100, 10, 1000, 1095, 1101, false),
            (0, 0, 1000, 1000, i64::MAX, true),
            // The clock of another replica is ahead.
            (100, 10, 1005, 1005, 1000, true),
        ] {
            assert_eq!(
                lasts(&session(absolute, idle), began, written, now),
                expected,
                "{absolute} {idle} {now}"
            );
        }
        assert!(!lasts(&session(0, 1), i64::MIN, i64::MIN, i64::MAX), "no time overflows");
    }

    #[test]
    fn a_token_is_read_back_and_other_texts_are_none() {
        let bounded = session(100, 0);
        let header = SessionCookie { carrier: SessionCarrier::Header, ..bounded.clone() };
        let mut value = Vec::new();
        IssuedToken { key: 0xab, began: 10 }.write(&mut value, &header, 20);
        assert_eq!(value, b"00000000000000ab|b1|a|14");
        let request_of = |value: &[u8]| request(b"Cart", value);
        let token = Token::from_request(&header, &request_of(&value), 20)
            .map(|it| (it.key.to_vec(), it.backend.to_vec()));
        assert_eq!(token, Some((b"00000000000000ab".to_vec(), b"b1".to_vec())));
        for other in [&b""[..], b"|", b"ab", b"ab|b1", b"ab|b1|a", b"ab|b1|a|x", b"ab|b1||"] {
            assert_eq!(Token::from_request(&header, &request_of(other), 20), None, "{other:?}");
        }
        let mut cookie = b"cart=".to_vec();
        cookie.extend_from_slice(&value);
        assert!(Token::from_request(&header, &request(b"Cookie", &cookie), 20).is_none(), "it is no cookie");
        assert!(Token::from_request(&bounded, &request(b"Cookie", &cookie), 20).is_some());
    }

    #[test]
    fn a_cookie_with_the_lifetime_of_its_session_has_the_remaining_time() {
        let issued = IssuedToken { key: 1, began: 1000 };
        assert_eq!(issued.max_age(&session(100, 0), 1040), Some(60));
        assert_eq!(issued.max_age(&session(0, 0), 1040), Some(100));
    }
}
