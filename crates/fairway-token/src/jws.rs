//! Signed tokens in compact form: parsing, claim checks and signature verification.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

use crate::claims::{Claims, NotATime};
use crate::json::parse_object;
use crate::jwk::KeySet;
use crate::refusal::Refusal;

/// Maximum length of a token, in bytes; the usual limit for the header section of a request.
pub const MAX_TOKEN_BYTES: usize = 16 << 10;
/// Maximum number of keys tried for a token without a key id: each costs a public-key operation.
const MAX_KEYS_TRIED: usize = 8;
/// Maximum length of a key id, in bytes.
const MAX_KEY_ID_BYTES: usize = 256;
/// Plain tokens and access tokens (RFC 9068 §2.1): logout tokens and proofs of possession of the same issuer do not
/// authenticate.
const PLAIN_KINDS: [&str; 2] = ["jwt", "at+jwt"];

/// A parsed token. Nothing in it is trustworthy before [`Token::verify`].
#[derive(Clone, Debug)]
pub struct Token<'t> {
    signing_input: &'t str,
    signature: &'t str,
    algorithm: Algorithm,
    key_id: Option<Box<str>>,
    claims: Claims,
}

/// The requirements on a token.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'e, A> {
    /// `iss`.
    pub issuer: &'e str,
    /// One of these must be in `aud`. If empty, tokens with an `aud` are refused, because they are meant for others
    /// (RFC 7519 §4.1.3).
    pub audiences: &'e [A],
    /// Tolerated clock skew.
    pub skew: Duration,
    /// Time since 1970.
    pub now: Duration,
}

impl<'t> Token<'t> {
    /// Parses the compact form (RFC 7515 §7.1): three parts in base64url without padding, of which the first two are
    /// JSON objects without duplicate names.
    ///
    /// # Errors
    /// It is malformed, or requires an unsupported algorithm or extension.
    pub fn parse(text: &'t [u8]) -> Result<Self, Refusal> {
        Self::parse_one_of(text, &PLAIN_KINDS)
    }

    /// Parses a token whose `typ`, if present, is one of `kinds` (RFC 8725 §3.11).
    pub(crate) fn parse_one_of(text: &'t [u8], kinds: &[&str]) -> Result<Self, Refusal> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::Malformed);
        }
        let text = std::str::from_utf8(text).map_err(|_| Refusal::Malformed)?;
        let (signing_input, signature) = text.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let (header, payload) = signing_input.split_once('.').ok_or(Refusal::Malformed)?;
        let header = decode_object(header).ok_or(Refusal::Malformed)?;
        let algorithm = read_algorithm(&header)?;
        // `b64` changes what is signed, and must be listed in `crit` (RFC 7797 §6).
        if ["crit", "b64", "zip", "enc"].iter().any(|name| header.contains_key(*name))
            || !has_kind(&header, kinds)
        {
            return Err(Refusal::Unsupported);
        }
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= MAX_KEY_ID_BYTES => Some(id.as_str().into()),
            Some(_) => return Err(Refusal::Malformed),
        };
        let claims = Claims::new(decode_object(payload).ok_or(Refusal::Malformed)?);
        Ok(Self { signing_input, signature, algorithm, key_id, claims })
    }

    /// The claimed issuer, which selects the verification keys.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.claims.issuer()
    }

    /// Checks its claims. Cheaper than [`Token::verify`], and therefore done first.
    ///
    /// # Errors
    /// The first claim that does not match.
    pub fn check<A: AsRef<str>>(&self, expected: &Expected<'_, A>) -> Result<(), Refusal> {
        let claims = &self.claims;
        if claims.issuer() != Some(expected.issuer) {
            return Err(Refusal::Issuer);
        }
        let is_for_us = |audience: &str| expected.audiences.iter().any(|each| each.as_ref() == audience);
        let is_for_all = expected.audiences.is_empty() && !claims.contains("aud");
        if !is_for_all && !claims.texts("aud").any(is_for_us) {
            return Err(Refusal::Audience);
        }
        let (now, skew) = (expected.now.as_secs_f64(), expected.skew.as_secs_f64());
        let time = |name| claims.time(name).map_err(|NotATime| Refusal::Malformed);
        let expiry = time("exp")?.ok_or(Refusal::NoExpiry)?;
        // "the current date/time MUST be before the expiration date/time" (RFC 7519 §4.1.4).
        if now >= expiry + skew {
            return Err(Refusal::Expired);
        }
        match time("nbf")? {
            Some(begin) if now + skew < begin => Err(Refusal::NotYetValid),
            _ => Ok(()),
        }
    }

    /// Checks an ID token against the login that it completes (OpenID Connect Core 1.0 §3.1.3.7), in addition to
    /// [`Token::check`]. A refreshed one has no `nonce` to compare (§12.2).
    ///
    /// # Errors
    /// It belongs to another login or client, or identifies no user.
    pub fn check_login(&self, client_id: &str, nonce: Option<&str>) -> Result<(), Refusal> {
        let text = |name| self.claims.find(name).and_then(Value::as_str);
        if self.claims.subject().is_none_or(str::is_empty) {
            return Err(Refusal::Malformed);
        }
        if nonce.is_some() && text("nonce") != nonce {
            return Err(Refusal::Nonce);
        }
        match self.claims.find("azp") {
            Some(party) if party.as_str() != Some(client_id) => Err(Refusal::Audience),
            None if self.claims.texts("aud").count() > 1 => Err(Refusal::Audience),
            _ => Ok(()),
        }
    }

    /// Verifies the signature.
    ///
    /// # Errors
    /// No key matches the key id and algorithm, or no matching key made the signature.
    pub fn verify(&self, keys: &KeySet) -> Result<(), Refusal> {
        let id = self.key_id.as_deref();
        let mut candidates = keys.candidates(self.algorithm, id).take(MAX_KEYS_TRIED).peekable();
        if candidates.peek().is_none() {
            return Err(Refusal::UnknownKey);
        }
        let message = self.signing_input.as_bytes();
        let is_signed_by =
            |key| jsonwebtoken::crypto::verify(self.signature, message, key, self.algorithm).unwrap_or(false);
        match candidates.any(is_signed_by) {
            true => Ok(()),
            // It may be signed with a key that is not published here yet: keys without an id were only tried.
            false if id.is_some_and(|id| !keys.has_id(id)) => Err(Refusal::UnknownKey),
            false => Err(Refusal::Signature),
        }
    }

    /// The claims. Trustworthy only after [`Token::verify`].
    #[must_use]
    pub fn into_claims(self) -> Claims {
        self.claims
    }

    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Remaining validity including the skew; at most 100 years.
    #[must_use]
    pub fn lifetime(&self, now: Duration, skew: Duration) -> Duration {
        const MAX_LIFETIME: f64 = 100.0 * 365.0 * 86_400.0;
        let expiry = self.claims.time("exp").ok().flatten().unwrap_or_default();
        let time_left = expiry + skew.as_secs_f64() - now.as_secs_f64();
        Duration::from_secs_f64(time_left.clamp(0.0, MAX_LIFETIME))
    }
}

fn decode_object(part: &str) -> Option<Map<String, Value>> {
    parse_object(&URL_SAFE_NO_PAD.decode(part).ok()?)
}

fn read_algorithm(header: &Map<String, Value>) -> Result<Algorithm, Refusal> {
    let name = header.get("alg").and_then(Value::as_str).ok_or(Refusal::Malformed)?;
    match name.parse() {
        Ok(Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) | Err(_) => Err(Refusal::Algorithm),
        Ok(algorithm) => Ok(algorithm),
    }
}

/// Whether the token's type is absent or one of these.
fn has_kind(header: &Map<String, Value>, kinds: &[&str]) -> bool {
    let Some(kind) = header.get("typ") else { return true };
    let Some(kind) = kind.as_str() else { return false };
    let kind = kind.to_ascii_lowercase();
    kinds.contains(&kind.strip_prefix("application/").unwrap_or(&kind))
}
