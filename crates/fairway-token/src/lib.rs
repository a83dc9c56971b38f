//! JSON Web Tokens (RFC 7519) against the keys that an issuer publishes (RFC 7517). Pure: no I/O, and the time is passed in.
//!
//! A request is let in by a token only after three steps, each of which can only refuse: [`Token::parse`] reads the compact form
//! (RFC 7515 §7.1) strictly, [`Token::check`] compares its claims with what a rule expects, and [`Token::verify`] finds a key of a
//! [`KeySet`] whose signature it is. The key decides which algorithms are possible and never the token (RFC 8725 §3.1): `none` and
//! symmetric algorithms do not exist here. [`login`] is how users get a token: the code flow of OpenID Connect.

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
