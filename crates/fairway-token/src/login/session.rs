//! A user's session: the stored part of the provider's tokens, in browser cookies.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::exchange::Tokens;
use super::logout::{SessionId, session_id, unnamed_id, user_id};
use crate::claims::{Claims, NotATime};
use crate::jws::Token;
use crate::refusal::Refusal;

/// Maximum size of a session before encryption, in bytes: with everything else, a request stays below the usual
/// limits of a head.
const MAX_SESSION_BYTES: usize = 11 << 10;
/// Maximum time before token expiry at which a session is refreshed; a quarter of the token lifetime if that is
/// shorter.
const REFRESH_MARGIN_SECONDS: u64 = 60;

/// A session. Stored only in the browser, encrypted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    #[serde(rename = "i")]
    id_token: String,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    access_token: Option<String>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// When the user logged in; in seconds since 1970, like all times here.
    #[serde(rename = "b")]
    started_at: u64,
    /// The same, by the clock of the provider.
    #[serde(rename = "l", default)]
    provider_login_at: u64,
    /// Its name at the provider, if the first ID token contained it.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// When its tokens were received.
    #[serde(rename = "t")]
    refreshed_at: u64,
    /// When they expire.
    #[serde(rename = "v")]
    valid_until: u64,
    /// When the user must log in again, whatever the tokens say.
    #[serde(rename = "e")]
    expires_at: u64,
}

/// The session does not fit into browser cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl Session {
    /// Starts a session from tokens with a verified ID token.
    ///
    /// # Errors
    /// There is no ID token, or it has no expiry.
    pub fn begin(
        tokens: Tokens,
        keep_access_token: bool,
        max_lifetime: Duration,
        now: Duration,
    ) -> Result<Self, Refusal> {
        let id_token = tokens.id_token.ok_or(Refusal::Malformed)?;
        let lifetime = lifetime(tokens.expires_in, &id_token, now)?;
        let started = now.as_secs();
        let claims = Token::parse(id_token.as_bytes())?.into_claims();
        let logged_in = claims.issued_at().map_err(|NotATime| Refusal::Malformed)?;
        Ok(Self {
            id_token,
            access_token: Some(tokens.access_token).filter(|_| keep_access_token),
            refresh_token: tokens.refresh_token,
            started_at: started,
            provider_login_at: logged_in.unwrap_or(started),
            name: claims.session_id().map(str::to_owned),
            refreshed_at: started,
            valid_until: started.saturating_add(lifetime.as_secs()),
            expires_at: started.saturating_add(max_lifetime.as_secs()),
        })
    }

    /// The session with refreshed tokens. A new ID token must be verified and belong to the same user.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn refresh(&self, tokens: Tokens, now: Duration) -> Result<Self, Refusal> {
        let mut session = self.clone();
        if let Some(id_token) = tokens.id_token {
            session.id_token = id_token;
        }
        // An unchanged ID token does not indicate how long the new tokens are valid.
        let lifetime = match tokens.expires_in {
            None if session.id_token == self.id_token => {
                Duration::from_secs(self.valid_until.saturating_sub(self.refreshed_at))
            }
            expires_in => lifetime(expires_in, &session.id_token, now)?,
        };
        if session.access_token.is_some() {
            session.access_token = Some(tokens.access_token);
        }
        session.refresh_token = tokens.refresh_token.or(session.refresh_token);
        session.refreshed_at = now.as_secs();
        session.valid_until = session.refreshed_at.saturating_add(lifetime.as_secs());
        Ok(session)
    }

    /// Deserialises the result of [`to_bytes`](Self::to_bytes).
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Serialises the session.
    ///
    /// # Errors
    /// It does not fit into browser cookies.
    pub fn to_bytes(&self) -> Result<Vec<u8>, TooLarge> {
        let bytes = serde_json::to_vec(self).map_err(|_| TooLarge)?;
        if bytes.len() <= MAX_SESSION_BYTES { Ok(bytes) } else { Err(TooLarge) }
    }

    /// The claims of the user.
    ///
    /// # Errors
    /// The ID token is malformed.
    pub fn claims(&self) -> Result<Claims, Refusal> {
        Ok(Token::parse(self.id_token.as_bytes())?.into_claims())
    }

    /// Identifies the user to log out at the provider.
    #[must_use]
    pub fn id_token(&self) -> &str {
        &self.id_token
    }

    /// The access token for endpoints, if kept.
    #[must_use]
    pub fn access_token(&self) -> Option<&str> {
        self.access_token.as_deref()
    }

    /// The refresh token.
    #[must_use]
    pub fn refresh_token(&self) -> Option<&str> {
        self.refresh_token.as_deref()
    }

    /// When the user logged in, since 1970.
    #[must_use]
    pub fn begun(&self) -> Duration {
        Duration::from_secs(self.started_at)
    }

    /// When its tokens were received, since 1970. Combined with this time, an unchanged refresh token is distinct
    /// after each refresh.
    #[must_use]
    pub fn refreshed_at(&self) -> Duration {
        Duration::from_secs(self.refreshed_at)
    }

    /// When the user logged in by the clock of the provider, in seconds since 1970.
    #[must_use]
    pub fn logged_in_at(&self) -> u64 {
        self.provider_login_at
    }

    /// The ids by which a provider ends this session of a group, given the user's claims: see
    /// [`EndedSessions`](super::EndedSessions).
    pub fn ids<'s>(&'s self, claims: &'s Claims, group: &'s str) -> impl Iterator<Item = SessionId> {
        let current = claims.session_id().filter(|name| self.name.as_deref() != Some(name));
        let names = self.name.as_deref().into_iter().chain(current).filter(|name| !name.is_empty());
        let is_unnamed = names.clone().next().is_none();
        let of_user = claims.subject().into_iter().flat_map(move |subject| {
            let unnamed = is_unnamed.then(|| unnamed_id(group, subject));
            unnamed.into_iter().chain([user_id(group, subject)])
        });
        names.map(move |name| session_id(group, name)).chain(of_user)
    }

    /// How long requests may use it as it is.
    #[must_use]
    pub fn time_left(&self, now: Duration) -> Duration {
        Duration::from_secs(self.valid_until.min(self.expires_at)).saturating_sub(now)
    }

    /// Whether the user must log in again, unless a refresh succeeds.
    #[must_use]
    pub fn is_over(&self, now: Duration) -> bool {
        self.time_left(now).is_zero()
    }

    /// Whether it should be refreshed, and can be.
    #[must_use]
    pub fn needs_refresh(&self, now: Duration) -> bool {
        self.refresh_token.is_some()
            && now >= self.refresh_at()
            && now.as_secs() < self.expires_at
            // Refreshing gains nothing if the session ends before its tokens.
            && self.valid_until < self.expires_at
    }

    /// Time until it needs a refresh.
    #[must_use]
    pub fn time_until_refresh(&self, now: Duration) -> Duration {
        match self.refresh_token {
            Some(_) => self.refresh_at().saturating_sub(now).min(self.time_left(now)),
            None => self.time_left(now),
        }
    }

    fn refresh_at(&self) -> Duration {
        let lifetime = self.valid_until.saturating_sub(self.refreshed_at);
        Duration::from_secs(self.valid_until - REFRESH_MARGIN_SECONDS.min(lifetime / 4))
    }
}

fn lifetime(expires_in: Option<Duration>, id_token: &str, now: Duration) -> Result<Duration, Refusal> {
    match expires_in {
        Some(expires_in) => Ok(expires_in),
        None => Ok(Token::parse(id_token.as_bytes())?.lifetime(now, Duration::ZERO)),
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { started_at: begun, refreshed_at: refreshed, valid_until, expires_at: ends, .. } = self;
        write!(
            f,
            "Session {{ begun: {begun}, refreshed: {refreshed}, valid_until: {valid_until}, ends: {ends}, .. }}"
        )
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(1_800_000_000 + seconds)
    }

    fn id_token(subject: &str, expiry: u64) -> String {
        let part = |text: String| URL_SAFE_NO_PAD.encode(text);
        let claims = format!(r#"{{"sub":"{subject}","exp":{}}}"#, at(expiry).as_secs());
        [part(r#"{"alg":"ES256"}"#.to_owned()), part(claims), "c2ln".to_owned()].join(".")
    }

    fn tokens(refresh_token: Option<&str>, expires_in: Option<u64>) -> Tokens {
        Tokens {
            access_token: "access".to_owned(),
            id_token: Some(id_token("jo", 120)),
            refresh_token: refresh_token.map(str::to_owned),
            expires_in: expires_in.map(Duration::from_secs),
        }
    }

    fn start_session(refresh_token: Option<&str>, expires_in: Option<u64>) -> Session {
        Session::begin(tokens(refresh_token, expires_in), true, LIFETIME, at(0)).unwrap()
    }

    #[test]
    fn a_session_without_refresh_token_ends_with_its_tokens() {
        for (expires_in, seconds) in [(Some(300), 300), (None, 120), (Some(9000), 3600)] {
            let session = start_session(None, expires_in);
            assert_eq!(session.time_left(at(0)), Duration::from_secs(seconds));
            assert_eq!(session.time_until_refresh(at(0)), Duration::from_secs(seconds));
            assert!(!session.is_over(at(seconds - 1)) && session.is_over(at(seconds)));
            assert!(!session.needs_refresh(at(seconds)));
        }
    }

    #[test]
    fn a_session_is_refreshed_before_its_tokens_expire_until_it_ends() {
        let session = start_session(Some("one"), Some(300));
        assert!(
            !session.needs_refresh(at(239))
                && session.needs_refresh(at(240))
                && session.needs_refresh(at(2000))
        );
        assert_eq!(session.time_until_refresh(at(0)), Duration::from_secs(240));
        let short = start_session(Some("one"), Some(40));
        assert!(!short.needs_refresh(at(29)) && short.needs_refresh(at(30)));
        let mut next = tokens(Some("two"), Some(300));
        next.access_token = "fresh".to_owned();
        let refreshed = session.refresh(next, at(250)).unwrap();
        assert_eq!((refreshed.refresh_token(), refreshed.access_token()), (Some("two"), Some("fresh")));
        assert_eq!((refreshed.begun(), refreshed.time_left(at(250))), (at(0), Duration::from_secs(300)));
        let last = session.refresh(tokens(None, Some(300)), at(3500)).unwrap();
        assert_eq!(last.refresh_token(), Some("one"), "the one before stays valid (RFC 6749 §6)");
        assert_eq!(last.time_left(at(3500)), Duration::from_secs(100));
        assert!(!last.needs_refresh(at(3599)) && last.is_over(at(3600)));
    }

    #[test]
    fn a_refresh_without_id_token_and_lifetime_is_worth_as_much_as_the_one_before() {
        let session = start_session(Some("one"), Some(300));
        let next = Tokens { id_token: None, ..tokens(None, None) };
        let refreshed = session.refresh(next, at(300)).unwrap();
        assert_eq!(refreshed.claims().unwrap().subject(), Some("jo"));
        assert_eq!(refreshed.time_left(at(300)), Duration::from_secs(300));
    }

    #[test]
    fn a_session_keeps_the_name_and_the_login_of_its_first_token() {
        let with = |claims: &str| {
            let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
            let token = [part(r#"{"alg":"ES256"}"#), part(claims), "c2ln".to_owned()].join(".");
            Tokens { id_token: Some(token), ..tokens(None, Some(300)) }
        };
        let first = with(r#"{"iss":"i","sub":"jo","exp":1900000000,"iat":1700000000.5,"sid":"one"}"#);
        let session = Session::begin(first, false, LIFETIME, at(0)).unwrap();
        assert_eq!(session.logged_in_at(), 1_700_000_000);
        let ids = |session: &Session| session.ids(&session.claims().unwrap(), "shop").collect::<Vec<_>>();
        let [one, two] = ["one", "two"].map(|name| session_id("shop", name));
        let user = user_id("shop", "jo");
        assert_eq!(ids(&session), [one, user]);
        for (claims, expected) in [
            (r#"{"iss":"i","sub":"jo","exp":1900000000,"iat":1800000000}"#, vec![one, user]),
            (r#"{"iss":"i","sub":"jo","exp":1900000000,"iat":1800000000,"sid":"two"}"#, vec![one, two, user]),
        ] {
            let refreshed = session.refresh(with(claims), at(100)).unwrap();
            let read = Session::from_bytes(&refreshed.to_bytes().unwrap()).unwrap();
            assert_eq!((ids(&read), read.logged_in_at()), (expected, 1_700_000_000));
        }
        let unnamed = with(r#"{"iss":"i","sub":"jo","exp":1900000000,"sid":""}"#);
        let unnamed = Session::begin(unnamed, false, LIFETIME, at(0)).unwrap();
        assert_eq!(ids(&unnamed), [unnamed_id("shop", "jo"), user]);
        let bad = with(r#"{"iss":"i","sub":"jo","exp":1900000000,"iat":"now"}"#);
        assert_eq!(Session::begin(bad, false, LIFETIME, at(0)), Err(Refusal::Malformed));
    }

    #[test]
    fn a_session_round_trips_within_its_size_limit() {
        let session = start_session(Some("one"), Some(300));
        assert_eq!(Session::from_bytes(&session.to_bytes().unwrap()), Some(session.clone()));
        assert!(!format!("{session:?}").contains("one"));
        let forgetful = Session::begin(tokens(None, Some(300)), false, LIFETIME, at(0)).unwrap();
        assert_eq!(forgetful.access_token(), None);
        let large = Tokens { access_token: "a".repeat(MAX_SESSION_BYTES), ..tokens(None, Some(300)) };
        let large = Session::begin(large, true, LIFETIME, at(0)).unwrap();
        assert_eq!(large.to_bytes(), Err(TooLarge));
        for other in [&b""[..], b"{}", b"[]", b"\xff"] {
            assert_eq!(Session::from_bytes(other), None);
        }
        let without = Tokens { id_token: None, ..tokens(None, Some(300)) };
        assert_eq!(Session::begin(without, true, LIFETIME, at(0)), Err(Refusal::Malformed));
    }
}
