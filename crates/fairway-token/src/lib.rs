//! JSON Web Tokens (RFC 7519), verified with published keys (RFC 7517). Pure: no I/O, and the time is passed in.
//!
//! A token authenticates a request only after three steps, each of which can only refuse: [`Token::parse`] parses the
//! compact form (RFC 7515 §7.1) strictly, [`Token::check`] compares its claims with the requirements of a rule, and
//! [`Token::verify`] finds the key of a [`KeySet`] that signed it. The key determines the possible algorithms, never
//! the token (RFC 8725 §3.1): `none` and symmetric algorithms are not implemented. [`login`] implements the OpenID
//! Connect code flow, by which users get a token.

mod claims;
mod digest;
mod json;
mod jwk;
mod jws;
pub mod login;
mod refusal;

pub use claims::Claims;
pub use digest::{Digest, digest};
pub use jwk::{InvalidKeySet, KeySet, MAX_KEY_SET_BYTES, MAX_KEYS, SkippedKey};
pub use jws::{Expected, MAX_TOKEN_BYTES, Token};
pub use refusal::Refusal;
