//! A login in progress: its secrets, and the authorization request.

use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::provider::Endpoint;
use crate::digest::digest;

/// How long a user may take to log in.
pub const MAX_ATTEMPT_AGE: Duration = Duration::from_secs(15 * 60);
const STATE_BYTES: usize = 16;
const VERIFIER_BYTES: usize = 32;
/// Part of the state that names the attempt, in bytes.
const NAME_BYTES: usize = 8;

/// A login in progress. Stored only in the browser, encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginAttempt {
    state: String,
    nonce: String,
    verifier: String,
    /// Path and query that the browser requested.
    pub target: String,
    /// In seconds since 1970.
    begun: u64,
}

/// Parameters of the authorization request (OpenID Connect Core 1.0 §3.1.2.1).
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationRequest<'r, S> {
    /// The authorization endpoint.
    pub endpoint: &'r Endpoint,
    /// The client id.
    pub client_id: &'r str,
    /// Where the browser is redirected after the login.
    pub redirect_uri: &'r str,
    /// Requested scopes, in addition to `openid`.
    pub scopes: &'r [S],
    /// Provider-specific parameters.
    pub parameters: &'r [(S, S)],
}

impl LoginAttempt {
    /// Starts a login for a request to `target`; `None` if the system provides no random numbers.
    #[must_use]
    pub fn begin(target: String, now: Duration) -> Option<Self> {
        Some(Self {
            state: random_text::<STATE_BYTES>()?,
            nonce: random_text::<STATE_BYTES>()?,
            verifier: random_text::<VERIFIER_BYTES>()?,
            target,
            begun: now.as_secs(),
        })
    }

    /// Deserialises the result of [`to_bytes`](Self::to_bytes).
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Serialises the attempt.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Distinguishes it from other attempts of the same browser.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state[..NAME_BYTES]
    }

    /// The name of the attempt to which a response with this state belongs.
    #[must_use]
    pub fn name_of(state: &str) -> Option<&str> {
        let is_ours = state.len() == encoded_length(STATE_BYTES) && state.bytes().all(is_encoded);
        is_ours.then(|| &state[..NAME_BYTES])
    }

    /// Whether a response belongs to it. Takes constant time.
    #[must_use]
    pub fn has_state(&self, state: &str) -> bool {
        verify_slices_are_equal(self.state.as_bytes(), state.as_bytes()).is_ok()
    }

    /// Whether it has expired, or a clock is wrong.
    #[must_use]
    pub fn is_over(&self, now: Duration) -> bool {
        let started = Duration::from_secs(self.begun);
        now > started + MAX_ATTEMPT_AGE || now + MAX_ATTEMPT_AGE < started
    }

    /// The required `nonce` of the ID token.
    #[must_use]
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// Proves that the party exchanging the code started the login (RFC 7636 §4.1).
    #[must_use]
    pub fn verifier(&self) -> &str {
        &self.verifier
    }

    /// The URL to which the browser is redirected.
    #[must_use]
    pub fn url<S: AsRef<str>>(&self, request: &AuthorizationRequest<'_, S>) -> String {
        let scopes: Vec<_> = request.scopes.iter().map(AsRef::as_ref).collect();
        let mut query = form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", request.client_id)
            .append_pair("redirect_uri", request.redirect_uri)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &self.state)
            .append_pair("nonce", &self.nonce)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(digest(self.verifier.as_bytes())))
            .append_pair("code_challenge_method", "S256")
            .extend_pairs(request.parameters);
        request.endpoint.with_query(&query.finish())
    }
}

fn random_text<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

const fn encoded_length(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn start_login() -> LoginAttempt {
        LoginAttempt::begin("/cart?id=7".to_owned(), NOW).unwrap()
    }

    #[test]
    fn the_browser_is_sent_with_all_that_the_provider_must_know_and_no_secret() {
        let attempt = start_login();
        let request = AuthorizationRequest {
            endpoint: &Endpoint::parse("https://login.example.com/auth?t=1").unwrap(),
            client_id: "shop & co",
            redirect_uri: "https://shop.example.com/oauth2/callback",
            scopes: &["openid", "profile"],
            parameters: &[("audience", "https://api.example.com/")],
        };
        let url = attempt.url(&request);
        let (endpoint, query) = url.split_once('?').unwrap();
        assert_eq!(endpoint, "https://login.example.com/auth");
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let challenge = URL_SAFE_NO_PAD.encode(digest(attempt.verifier().as_bytes()));
        let expected = [
            ("t", "1"),
            ("response_type", "code"),
            ("client_id", "shop & co"),
            ("redirect_uri", "https://shop.example.com/oauth2/callback"),
            ("scope", "openid profile"),
            ("state", &attempt.state),
            ("nonce", attempt.nonce()),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("audience", "https://api.example.com/"),
        ];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(!url.contains(attempt.verifier()) && !url.contains("cart"));
    }

    #[test]
    fn two_attempts_share_no_value() {
        let (one, two) = (start_login(), start_login());
        assert_ne!(one.state, two.state);
        assert_ne!(one.nonce, two.nonce);
        assert_ne!(one.verifier, two.verifier);
        assert_ne!(one.state, one.nonce);
    }

    #[test]
    fn a_response_belongs_to_the_attempt_with_its_state() {
        let (one, two) = (start_login(), start_login());
        assert!(one.has_state(&one.state));
        for other in ["", &two.state, &one.state[1..], &format!("{}a", one.state)] {
            assert!(!one.has_state(other), "{other}");
        }
        assert_eq!(LoginAttempt::name_of(&one.state), Some(one.name()));
        for other in ["", "short", "%00", &"a".repeat(23), &format!("{};", &one.state[1..]), &"ä".repeat(11)]
        {
            assert_eq!(LoginAttempt::name_of(other), None, "{other}");
        }
    }

    #[test]
    fn an_attempt_is_over_after_its_time_and_where_a_clock_is_wrong() {
        let attempt = start_login();
        assert!(!attempt.is_over(NOW) && !attempt.is_over(NOW + MAX_ATTEMPT_AGE));
        assert!(attempt.is_over(NOW + MAX_ATTEMPT_AGE + Duration::from_secs(1)));
        assert!(attempt.is_over(NOW - MAX_ATTEMPT_AGE - Duration::from_secs(1)));
    }

    #[test]
    fn an_attempt_round_trips() {
        let attempt = start_login();
        assert_eq!(LoginAttempt::from_bytes(&attempt.to_bytes()), Some(attempt));
        for other in [&b""[..], b"{}", b"[]", b"\xff"] {
            assert_eq!(LoginAttempt::from_bytes(other), None);
        }
    }
}
