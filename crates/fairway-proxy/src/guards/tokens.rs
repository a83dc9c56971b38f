//! Tokens that a worker has verified, until they expire, and the keys for verifying them.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::ClaimHeader;
use fairway_net::clock::Instant;
use fairway_routing::{KeySource, TokenCheck};
use fairway_token::{Claims, InvalidKeySet, KeySet, MAX_TOKEN_BYTES};

use super::cache::{CacheTag, ExpiringCache};
use super::documents::{Documents, SharedDocuments};

/// The maximum time for which a verified token is remembered. A withdrawn key is noticed earlier.
const MAX_REMEMBER_TIME: Duration = Duration::from_secs(300);
/// Bytes of memory for the claims, per byte of their token.
const CLAIM_BYTES_PER_TOKEN_BYTE: usize = 3;
/// The maximum size of one token in memory: enough for the longest.
const MAX_TOKEN_ENTRY_BYTES: usize = (CLAIM_BYTES_PER_TOKEN_BYTE + 1) * MAX_TOKEN_BYTES;

/// The token verification of a worker, with its remembered tokens.
pub(crate) struct Tokens {
    verified: ExpiringCache<Arc<VerifiedToken>>,
    pub(crate) key_sets: Documents<KeySet>,
    /// The value of `key_sets.changes()` at the last lookup.
    changes: Cell<u64>,
}

/// A token that passed a check.
pub(crate) struct VerifiedToken {
    /// The index of its issuer in the check.
    issuer: usize,
    pub(crate) claims: Claims,
    /// The headers for endpoints.
    pub(crate) headers: Box<[(Arc<str>, String)]>,
}

impl VerifiedToken {
    /// Creates a token with the headers for these claims.
    pub(crate) fn new(issuer: usize, claims: Claims, headers: &[ClaimHeader]) -> Arc<Self> {
        let claim_headers = headers.iter().filter_map(|header| {
            let value = claims.header_value(&header.claim)?.into_owned();
            Some((Arc::clone(&header.header), value))
        });
        let headers = claim_headers.collect();
        Arc::new(Self { issuer, claims, headers })
    }
}

impl Tokens {
    pub(crate) fn new(key_sets: SharedDocuments<KeySet>) -> Self {
        Self {
            verified: ExpiringCache::with_max_entry_bytes(MAX_TOKEN_ENTRY_BYTES),
            key_sets: Documents::new(key_sets),
            changes: Cell::new(0),
        }
    }

    /// A remembered token. `None` while the keys of its issuer need a fetch.
    pub(crate) fn find(&self, check: &TokenCheck, token: &[u8]) -> Option<Arc<VerifiedToken>> {
        let verified = self.verified.find(&self.tag(check, token))?;
        if let KeySource::Published { id, .. } = &check.keys[verified.issuer]
            && !self.key_sets.is_current(id, Instant::now())
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

    /// Remembers a token until it expires.
    pub(crate) fn remember(
        &self,
        check: &TokenCheck,
        token: &[u8],
        verified: Arc<VerifiedToken>,
        lifetime: Duration,
    ) {
        let bytes = token.len() * CLAIM_BYTES_PER_TOKEN_BYTE;
        self.verified.insert(self.tag(check, token), verified, bytes, lifetime.min(MAX_REMEMBER_TIME));
    }

    /// Forgets the remembered tokens; they are verified again.
    pub(crate) fn forget(&self) {
        self.verified.clear();
    }

    fn tag(&self, check: &TokenCheck, token: &[u8]) -> CacheTag {
        self.verified.tag(&[&check.identity, token])
    }
}

/// Reads the key set of an issuer; `None` if the text is not one.
pub(crate) fn read_key_set(text: &[u8]) -> Option<KeySet> {
    match KeySet::parse(text) {
        Ok(keys) => Some(keys),
        // The issuer has withdrawn all keys.
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
