//! The token of scenarios that need one, signed once with RS256 by a key that every peer has.

use std::sync::LazyLock;

use fairway_testkit::tokens::{Signer, jwk_set};
use serde_json::json;

pub(crate) const ISSUER: &str = "https://login.bench.example";
pub(crate) const AUDIENCE: &str = "bench";
/// The claim passed to the backend, and its header.
pub(crate) const CLAIM_HEADER: (&str, &str) = ("sub", "x-user");

static TOKENS: LazyLock<[String; 2]> = LazyLock::new(|| {
    let signer = Signer::rs256("bench");
    // Typical claims, about 800 bytes with the signature.
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "7f3d2a91-0c47-4b0e-9b43-54a1a3b0f6d2", "iat": 1_700_000_000, "exp": 4_000_000_000_u64,
        "jti": "d0c5f3c0-8f25-4f0e-8b4e-2f3a5a0f9f11", "azp": "bench", "scope": "openid profile email",
        "email": "alice@bench.example", "realm_access": { "roles": ["user", "staff"] },
    });
    let token = signer.token(&json!({ "alg": "RS256", "typ": "JWT", "kid": signer.key_id() }), &claims);
    [token, jwk_set(&[signer])]
});

/// The header that clients send.
pub(crate) fn token() -> &'static str {
    &TOKENS[0]
}

/// The issuer's JWK Set.
pub(crate) fn keys() -> &'static str {
    &TOKENS[1]
}
