//! What must hold for any bytes, for the tests and for the fuzz target.

use std::time::Duration;

use fairway_token::{Expected, KeySet, Token};

/// Any bytes as a token and as a key set: nothing panics, and a token that is read does not pass without its key.
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
