//! Tokens that a worker has verified, until they end, and the keys that it verifies them with.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::ClaimHeader;
use fairway_net::clock::Instant;
use fairway_routing::{KeySource, TokenCheck};
use fairway_token::{Claims, InvalidKeySet, KeySet, MAX_TOKEN_BYTES};

use super::documents::{Documents, Shared};
use super::kept::{Kept, Tag};

/// How long a verified token is remembered at most: a key that an issuer withdraws is noticed earlier.
const MAX_MEMORY: Duration = Duration::from_secs(300);
/// Memory of claims for each byte of their token.
const CLAIM_BYTES_PER_TOKEN_BYTE: usize = 3;
/// The most memory of one token: the longest has room.
const MAX_TOKEN_MEMORY: usize = (CLAIM_BYTES_PER_TOKEN_BYTE + 1) * MAX_TOKEN_BYTES;

/// What a worker verifies tokens with and remembers of them.
pub(crate) struct Tokens {
    verified: Kept<Arc<VerifiedToken>>,
    pub(crate) key_sets: Documents<KeySet>,
    /// How often keys had changed when a token was looked for last.
    changes: Cell<u64>,
}

/// A token that passed a check.
pub(crate) struct VerifiedToken {
    /// The number of its issuer in the check.
    issuer: usize,
    pub(crate) claims: Claims,
    /// The headers that endpoints get of it.
    pub(crate) headers: Box<[(Arc<str>, String)]>,
}

impl VerifiedToken {
    /// With what endpoints are told of these claims.
    pub(crate) fn new(issuer: usize, claims: Claims, headers: &[ClaimHeader]) -> Arc<Self> {
        let told = headers.iter().filter_map(|of| {
            let value = claims.header_value(&of.claim)?.into_owned();
            Some((Arc::clone(&of.header), value))
        });
        let headers = told.collect();
        Arc::new(Self { issuer, claims, headers })
    }
}

impl Tokens {
    pub(crate) fn new(key_sets: Shared<KeySet>) -> Self {
        Self {
            verified: Kept::up_to(MAX_TOKEN_MEMORY),
            key_sets: Documents::new(key_sets),
            changes: Cell::new(0),
        }
    }

    /// What is remembered of a token that passed a check. Nothing while something has to be done for the keys of its issuer.
    pub(crate) fn find(&self, check: &TokenCheck, token: &[u8]) -> Option<Arc<VerifiedToken>> {
        let verified = self.verified.find(&self.tag(check, token))?;
        if let KeySource::Published { id, .. } = &check.keys[verified.issuer]
            && !self.key_sets.is_settled(id, Instant::now())
        {
            return None;
        }
        let changes = self.key_sets.changes();
        if self.changes.replace(changes) != changes {
            self.verified.clear();
            return None;
        }
        Some(verified)
    }

    /// Remembers a token until it ends.
    pub(crate) fn remember(
        &self,
        check: &TokenCheck,
        token: &[u8],
        verified: Arc<VerifiedToken>,
        lifetime: Duration,
    ) {
        let bytes = token.len() * CLAIM_BYTES_PER_TOKEN_BYTE;
        self.verified.keep(self.tag(check, token), verified, bytes, lifetime.min(MAX_MEMORY));
    }

    /// Forgets the tokens, which are verified again.
    pub(crate) fn forget(&self) {
        self.verified.clear();
    }

    fn tag(&self, check: &TokenCheck, token: &[u8]) -> Tag {
        self.verified.tag(&[&check.identity, token])
    }
}

/// What an issuer answers when it is asked for its keys; `None` where that is something else.
pub(crate) fn read_key_set(text: &[u8]) -> Option<KeySet> {
    match KeySet::parse(text) {
        Ok(keys) => Some(keys),
        // It has withdrawn all of them.
        Err(InvalidKeySet::NoneUsable) => Some(KeySet::default()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_can_withdraw_all_of_its_keys_and_no_page_of_errors_does() {
        let key =
            br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        assert!(read_key_set(key).is_some_and(|keys| !keys.is_empty()));
        assert!(read_key_set(b"{\"keys\":[]}").is_some_and(|keys| keys.is_empty()));
        assert!(read_key_set(b"<html>").is_none());
    }
}
