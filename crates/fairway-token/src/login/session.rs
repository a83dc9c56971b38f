//! A user who has logged in: what is kept of the provider's tokens, in the cookies of a browser.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::exchange::Tokens;
use super::logout::{SessionId, session_id, unnamed_id, user_id};
use crate::claims::{Claims, NotATime};
use crate::jws::Token;
use crate::refusal::Refusal;

/// The longest session, in bytes before it is encrypted: with all else, a request stays below the usual limits of a head.
const MAX_SESSION_BYTES: usize = 11 << 10;
/// How long before its tokens expire a session is refreshed, at most; a quarter of their lifetime where that is shorter.
const REFRESH_MARGIN_SECONDS: u64 = 60;

/// A session. Only the browser has it, encrypted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    #[serde(rename = "i")]
    id_token: String,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    access_token: Option<String>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// In seconds since 1970, as all of these: when the user logged in.
    #[serde(rename = "b")]
    begun: u64,
    /// The same by the clock of the provider.
    #[serde(rename = "l", default)]
    logged_in: u64,
    /// Its name at the provider, where the first ID token said that.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// When its tokens came.
    #[serde(rename = "t")]
    refreshed: u64,
    /// Until when they are valid.
    #[serde(rename = "v")]
    valid_until: u64,
    /// When the user must log in again, whatever the tokens say.
    #[serde(rename = "e")]
    ends: u64,
}

/// A session that does not fit into the cookies of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl Session {
    /// Begins a session with tokens whose ID token was verified.
    ///
    /// # Errors
    /// There is no ID token, or it does not say when it expires.
    pub fn begin(
        tokens: Tokens,
        keep_access_token: bool,
        max_lifetime: Duration,
        now: Duration,
    ) -> Result<Self, Refusal> {
        let id_token = tokens.id_token.ok_or(Refusal::Malformed)?;
        let lifetime = lifetime(tokens.expires_in, &id_token, now)?;
        let begun = now.as_secs();
        let claims = Token::parse(id_token.as_bytes())?.into_claims();
        let logged_in = claims.issued_at().map_err(|NotATime| Refusal::Malformed)?;
        Ok(Self {
            id_token,
            access_token: Some(tokens.access_token).filter(|_| keep_access_token),
            refresh_token: tokens.refresh_token,
            begun,
            logged_in: logged_in.unwrap_or(begun),
            name: claims.session_id().map(str::to_owned),
            refreshed: begun,
            valid_until: begun.saturating_add(lifetime.as_secs()),
            ends: begun.saturating_add(max_lifetime.as_secs()),
        })
    }

    /// The session with the tokens that a refresh gave. A new ID token was verified, and is the same user's.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn refresh(&self, tokens: Tokens, now: Duration) -> Result<Self, Refusal> {
        let mut session = self.clone();
        if let Some(id_token) = tokens.id_token {
            session.id_token = id_token;
        }
        // An ID token that did not change says nothing of how long the new tokens are valid.
        let lifetime = match tokens.expires_in {
            None if session.id_token == self.id_token => {
                Duration::from_secs(self.valid_until.saturating_sub(self.refreshed))
            }
            expires_in => lifetime(expires_in, &session.id_token, now)?,
        };
        if session.access_token.is_some() {
            session.access_token = Some(tokens.access_token);
        }
        session.refresh_token = tokens.refresh_token.or(session.refresh_token);
        session.refreshed = now.as_secs();
        session.valid_until = session.refreshed.saturating_add(lifetime.as_secs());
        Ok(session)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// What is kept of it.
    ///
    /// # Errors
    /// It does not fit into the cookies of a browser.
    pub fn to_bytes(&self) -> Result<Vec<u8>, TooLarge> {
        let bytes = serde_json::to_vec(self).map_err(|_| TooLarge)?;
        if bytes.len() <= MAX_SESSION_BYTES { Ok(bytes) } else { Err(TooLarge) }
    }

    /// Who the user is.
    ///
    /// # Errors
    /// The ID token cannot be read.
    pub fn claims(&self) -> Result<Claims, Refusal> {
        Ok(Token::parse(self.id_token.as_bytes())?.into_claims())
    }

    /// Tells the provider whom to log out.
    #[must_use]
    pub fn id_token(&self) -> &str {
        &self.id_token
    }

    /// What endpoints get, where it is kept.
    #[must_use]
    pub fn access_token(&self) -> Option<&str> {
        self.access_token.as_deref()
    }

    /// What a refresh needs.
    #[must_use]
    pub fn refresh_token(&self) -> Option<&str> {
        self.refresh_token.as_deref()
    }

    /// When the user logged in, since 1970.
    #[must_use]
    pub fn begun(&self) -> Duration {
        Duration::from_secs(self.begun)
    }

    /// When its tokens came, since 1970. With this, a refresh token that stays the same is another one each time.
    #[must_use]
    pub fn refreshed_at(&self) -> Duration {
        Duration::from_secs(self.refreshed)
    }

    /// When the user logged in by the clock of the provider, in seconds since 1970.
    #[must_use]
    pub fn logged_in_at(&self) -> u64 {
        self.logged_in
    }

    /// The ids by which a provider ends this session of a group, of whose user these are the claims: see
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

    /// How long requests may still use it as it is.
    #[must_use]
    pub fn time_left(&self, now: Duration) -> Duration {
        Duration::from_secs(self.valid_until.min(self.ends)).saturating_sub(now)
    }

    /// Whether the user must log in again, unless a refresh helps.
    #[must_use]
    pub fn is_over(&self, now: Duration) -> bool {
        self.time_left(now).is_zero()
    }

    /// Whether it should be refreshed, and can be.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.refresh_token.is_some()
            && now >= self.due_at()
            && now.as_secs() < self.ends
            // What ends anyway before its tokens do gains nothing.
            && self.valid_until < self.ends
    }

    /// How long it needs no refresh.
    #[must_use]
    pub fn rests_for(&self, now: Duration) -> Duration {
        match self.refresh_token {
            Some(_) => self.due_at().saturating_sub(now).min(self.time_left(now)),
            None => self.time_left(now),
        }
    }

    fn due_at(&self) -> Duration {
        let lifetime = self.valid_until.saturating_sub(self.refreshed);
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
        let Self { begun, refreshed, valid_until, ends, .. } = self;
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

    fn begin(refresh_token: Option<&str>, expires_in: Option<u64>) -> Session {
        Session::begin(tokens(refresh_token, expires_in), true, LIFETIME, at(0)).unwrap()
    }

    #[test]
    fn a_session_without_refresh_token_ends_with_its_tokens() {
        for (expires_in, seconds) in [(Some(300), 300), (None, 120), (Some(9000), 3600)] {
            let session = begin(None, expires_in);
            assert_eq!(session.time_left(at(0)), Duration::from_secs(seconds));
            assert_eq!(session.rests_for(at(0)), Duration::from_secs(seconds));
            assert!(!session.is_over(at(seconds - 1)) && session.is_over(at(seconds)));
            assert!(!session.is_due(at(seconds)));
        }
    }

    #[test]
    fn a_session_is_refreshed_before_its_tokens_expire_until_it_ends() {
        let session = begin(Some("one"), Some(300));
        assert!(!session.is_due(at(239)) && session.is_due(at(240)) && session.is_due(at(2000)));
        assert_eq!(session.rests_for(at(0)), Duration::from_secs(240));
        let short = begin(Some("one"), Some(40));
        assert!(!short.is_due(at(29)) && short.is_due(at(30)));
        let mut next = tokens(Some("two"), Some(300));
        next.access_token = "fresh".to_owned();
        let refreshed = session.refresh(next, at(250)).unwrap();
        assert_eq!((refreshed.refresh_token(), refreshed.access_token()), (Some("two"), Some("fresh")));
        assert_eq!((refreshed.begun(), refreshed.time_left(at(250))), (at(0), Duration::from_secs(300)));
        let last = session.refresh(tokens(None, Some(300)), at(3500)).unwrap();
        assert_eq!(last.refresh_token(), Some("one"), "the one before stays valid (RFC 6749 §6)");
        assert_eq!(last.time_left(at(3500)), Duration::from_secs(100));
        assert!(!last.is_due(at(3599)) && last.is_over(at(3600)));
    }

    #[test]
    fn a_refresh_without_id_token_and_lifetime_is_worth_as_much_as_the_one_before() {
        let session = begin(Some("one"), Some(300));
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
    fn what_is_kept_is_read_again_and_bounded() {
        let session = begin(Some("one"), Some(300));
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
