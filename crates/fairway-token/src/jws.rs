//! A signed token in compact form: read, compared with what a rule expects, and verified.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

use crate::claims::{Claims, NotATime};
use crate::json::parse_object;
use crate::jwk::KeySet;
use crate::refusal::Refusal;

/// The longest token that is read, in bytes: as long as the header section of a request usually may be.
pub const MAX_TOKEN_BYTES: usize = 16 << 10;
/// How many keys a token without a key id is tried with: each costs a public-key operation.
const MAX_TRIES: usize = 8;
/// The longest key id, in bytes.
const MAX_KEY_ID_BYTES: usize = 256;
/// Plain tokens and access tokens (RFC 9068 §2.1): a logout token or a proof of possession by the same issuer lets nobody in.
const PLAIN_KINDS: [&str; 2] = ["jwt", "at+jwt"];

/// A token that was read. Nothing of it is true before [`Token::verify`].
#[derive(Clone, Debug)]
pub struct Token<'t> {
    signing_input: &'t str,
    signature: &'t str,
    algorithm: Algorithm,
    key_id: Option<Box<str>>,
    claims: Claims,
}

/// What a rule expects of a token.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'e, A> {
    /// `iss`.
    pub issuer: &'e str,
    /// One of these is in `aud`. Where there are none, tokens with an `aud` are refused: they are for others (RFC 7519 §4.1.3).
    pub audiences: &'e [A],
    /// How far clocks may differ.
    pub skew: Duration,
    /// Since 1970.
    pub now: Duration,
}

impl<'t> Token<'t> {
    /// Reads the compact form (RFC 7515 §7.1): three parts in base64url without padding, of which the first two are JSON objects in
    /// which no name occurs twice.
    ///
    /// # Errors
    /// It is anything else, or asks for an algorithm or extension that does not exist here.
    pub fn parse(text: &'t [u8]) -> Result<Self, Refusal> {
        Self::parse_one_of(text, &PLAIN_KINDS)
    }

    /// Reads a token whose `typ`, if it has one, is one of `kinds` (RFC 8725 §3.11).
    pub(crate) fn parse_one_of(text: &'t [u8], kinds: &[&str]) -> Result<Self, Refusal> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::Malformed);
        }
        let text = std::str::from_utf8(text).map_err(|_| Refusal::Malformed)?;
        let (signing_input, signature) = text.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let (header, payload) = signing_input.split_once('.').ok_or(Refusal::Malformed)?;
        let header = decode_object(header).ok_or(Refusal::Malformed)?;
        let algorithm = read_algorithm(&header)?;
        // `b64` changes what is signed, and stands in `crit` where it is honest (RFC 7797 §6).
        if ["crit", "b64", "zip", "enc"].iter().any(|name| header.contains_key(*name))
            || !is_one_of(&header, kinds)
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

    /// Who issued it, as it says itself: decides whose keys it is verified with.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.claims.issuer()
    }

    /// Compares its claims with what is expected. Cheaper than [`Token::verify`], and therefore first.
    ///
    /// # Errors
    /// The first claim that does not fit.
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

    /// Compares an ID token with the login that it ends (OpenID Connect Core 1.0 §3.1.3.7), besides [`Token::check`]. A refreshed one
    /// has no `nonce` to be compared with (§12.2).
    ///
    /// # Errors
    /// It is for another login or another client, or says of nobody who logged in.
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

    /// Finds the key whose signature it is.
    ///
    /// # Errors
    /// There is none with this id for this algorithm, or the signature is of none of them.
    pub fn verify(&self, keys: &KeySet) -> Result<(), Refusal> {
        let id = self.key_id.as_deref();
        let mut candidates = keys.candidates(self.algorithm, id).take(MAX_TRIES).peekable();
        if candidates.peek().is_none() {
            return Err(Refusal::UnknownKey);
        }
        let message = self.signing_input.as_bytes();
        let is_signed_by =
            |key| jsonwebtoken::crypto::verify(self.signature, message, key, self.algorithm).unwrap_or(false);
        match candidates.any(is_signed_by) {
            true => Ok(()),
            // It may be the key of one that is not published here yet: those without an id were only tried.
            false if id.is_some_and(|id| !keys.has_id(id)) => Err(Refusal::UnknownKey),
            false => Err(Refusal::Signature),
        }
    }

    /// What it says. True only after [`Token::verify`].
    #[must_use]
    pub fn into_claims(self) -> Claims {
        self.claims
    }

    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// For how long it is still valid, with the skew; at most 100 years.
    #[must_use]
    pub fn lifetime(&self, now: Duration, skew: Duration) -> Duration {
        const LONGEST: f64 = 100.0 * 365.0 * 86_400.0;
        let expiry = self.claims.time("exp").ok().flatten().unwrap_or_default();
        let left = expiry + skew.as_secs_f64() - now.as_secs_f64();
        Duration::from_secs_f64(left.clamp(0.0, LONGEST))
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

/// Whether the token says nothing of its kind, or that it is one of these.
fn is_one_of(header: &Map<String, Value>, kinds: &[&str]) -> bool {
    let Some(kind) = header.get("typ") else { return true };
    let Some(kind) = kind.as_str() else { return false };
    let kind = kind.to_ascii_lowercase();
    kinds.contains(&kind.strip_prefix("application/").unwrap_or(&kind))
}
