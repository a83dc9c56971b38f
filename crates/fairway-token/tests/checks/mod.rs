//! Invariants for any bytes, used by the tests and the fuzz target.

use std::time::Duration;

use fairway_token::login::{
    Callback, Endpoint, LogoutToken, Provider, Session, Tokens, find_cookie, without_cookies,
};
use fairway_token::{Expected, KeySet, Token};

/// Any bytes from providers and browsers during a login: nothing panics, and everything parsed can be written again.
pub(crate) fn login(input: &[u8]) {
    const NAME: &str = "__Host-fairway-session-0";
    if let Ok(provider) = Provider::parse(input, "https://login.test") {
        let endpoints = [&provider.authorization_endpoint, &provider.token_endpoint, &provider.jwks_uri];
        for endpoint in endpoints {
            assert_eq!(Endpoint::parse(&endpoint.to_string()).as_ref(), Some(endpoint));
            assert!(endpoint.target().starts_with('/'));
        }
    }
    if let Ok(tokens) = Tokens::parse(input) {
        assert!(tokens.access_token.bytes().all(|byte| byte.is_ascii_graphic()), "it is put into a header");
    }
    if let Some(session) = Session::from_bytes(input) {
        let now = Duration::from_secs(1_800_000_000);
        let _ = (
            session.needs_refresh(now),
            session.time_until_refresh(now),
            session.time_left(now),
            session.claims(),
        );
    }
    let _ = (Callback::parse(input), LogoutToken::parse(input).map(|token| token.ended("shop").count()));
    if let Some(parts) = find_cookie(std::iter::once(input), NAME) {
        let _ = parts.value();
    }
    let mut others = Vec::new();
    without_cookies(std::iter::once(input), NAME.as_bytes(), &mut others);
    assert!(find_cookie(std::iter::once(&*others), NAME).is_none());
}

/// Any bytes as a token and as a key set: nothing panics, and no token passes without its key.
pub(crate) fn token(input: &[u8]) {
    const KEYS: &[u8] =
        br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    if let Ok(keys) = KeySet::parse(input) {
        assert!(!keys.is_empty(), "a set without keys is refused");
    }
    let Ok(token) = Token::parse(input) else { return };
    let now = Duration::from_secs(1_800_000_000);
    let issuer = token.issuer().unwrap_or_default();
    let _ = token.check(&Expected { issuer, audiences: &["shop"], skew: Duration::ZERO, now });
    let keys = KeySet::parse(KEYS).expect("it is one");
    assert!(token.verify(&keys).is_err(), "nobody has the private key");
    let claims = token.into_claims();
    for name in ["sub", "scope", "aud", "a.b"] {
        if let Some(value) = claims.header_value(name) {
            assert!(!value.contains(char::is_control), "{value:?} is one value");
        }
        let _ = (claims.has_any(name, ["a"]), claims.has_scope(name), claims.find(name));
    }
}
