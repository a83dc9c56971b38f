//! Valid tokens of every algorithm, and a corpus of hostile ones: none of them authenticates.

mod checks;
mod corpus;

use std::time::Duration;

use fairway_testkit::tokens::{Signer, jwk_set};
use fairway_token::{Expected, KeySet, Refusal, Token};
use proptest::prelude::*;
use serde_json::json;

use crate::corpus::{AUDIENCE, HOSTILE, ISSUER, NOW, claims};

const SKEW: Duration = Duration::from_secs(30);

fn key_set(signers: &[Signer]) -> KeySet {
    KeySet::parse(jwk_set(signers).as_bytes()).expect("its keys are good")
}

fn admit(token: &[u8], keys: &KeySet) -> Result<fairway_token::Claims, Refusal> {
    let token = Token::parse(token)?;
    token.check(&Expected { issuer: ISSUER, audiences: &[AUDIENCE], skew: SKEW, now: NOW })?;
    token.verify(keys)?;
    Ok(token.into_claims())
}

#[test]
fn tokens_of_every_algorithm_are_admitted() {
    let signers = Signer::all();
    let keys = key_set(&signers);
    for signer in &signers {
        let named = signer.token(&json!({"alg": signer.algorithm(), "kid": signer.key_id()}), &claims());
        let unnamed = signer.token(&json!({"alg": signer.algorithm(), "typ": "at+jwt"}), &claims());
        for token in [named, unnamed] {
            let admitted = admit(token.as_bytes(), &keys).expect("it is good");
            assert_eq!(admitted.subject(), Some("alice"), "{}", signer.algorithm());
        }
    }
}

/// Each has a signature that its author could make; if the author is the issuer, its claims or header are wrong.
#[test]
fn no_hostile_token_is_admitted() {
    let signers = Signer::all();
    let keys = key_set(&signers);
    let (mut hostile, mut names) = (0, std::collections::BTreeSet::new());
    for case in HOSTILE {
        for (name, token) in (case.tokens)(&signers) {
            let name = format!("{}: {name}", case.name);
            let admitted = admit(&token, &keys);
            match case.refusal {
                Some(refusal) => assert_eq!(admitted.err(), Some(refusal), "{name}"),
                None => assert!(admitted.is_err(), "{name}"),
            }
            hostile += 1;
            assert!(names.insert(name.clone()), "{name} is there twice");
        }
    }
    assert!(hostile >= 200, "the corpus has only {hostile} tokens");
}

proptest! {
    /// A changed token is refused wherever it was changed.
    #[test]
    fn no_changed_byte_is_overlooked(place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let signers = [Signer::ed25519("ed")];
        let keys = key_set(&signers);
        let token = signers[0].token(&json!({"alg": "EdDSA", "kid": "ed"}), &claims());
        let mut changed = token.into_bytes();
        let position = place.index(changed.len());
        prop_assume!(changed[position] != byte);
        changed[position] = byte;
        prop_assert!(admit(&changed, &keys).is_err(), "{}", String::from_utf8_lossy(&changed));
    }

    #[test]
    fn arbitrary_bytes_are_refused(text in prop::collection::vec(any::<u8>(), 0..400)) {
        checks::token(&text);
        checks::login(&text);
    }
}

#[test]
fn times_are_compared_with_the_skew() {
    let signers = [Signer::ed25519("ed")];
    let keys = key_set(&signers);
    let at = |name: &str, seconds: f64| {
        let mut claims = claims();
        claims[name] = json!(seconds);
        admit(signers[0].token(&json!({"alg": "EdDSA"}), &claims).as_bytes(), &keys).map(|_| ()).err()
    };
    let now = NOW.as_secs_f64();
    assert_eq!(at("exp", now - 29.0), None);
    assert_eq!(at("exp", now - 29.5), None);
    assert_eq!(at("exp", now - 30.0), Some(Refusal::Expired));
    assert_eq!(at("nbf", now + 30.0), None);
    assert_eq!(at("nbf", now + 30.5), Some(Refusal::NotYetValid));
}

#[test]
fn without_audiences_only_tokens_for_everybody_are_admitted() {
    let signers = [Signer::ed25519("ed")];
    let keys = key_set(&signers);
    let check = |claims: &serde_json::Value| {
        let token = signers[0].token(&json!({"alg": "EdDSA"}), claims);
        let token = Token::parse(token.as_bytes())?;
        token.check::<&str>(&Expected { issuer: ISSUER, audiences: &[], skew: SKEW, now: NOW })?;
        token.verify(&keys)
    };
    let mut claims = claims();
    assert_eq!(check(&claims), Err(Refusal::Audience));
    claims.as_object_mut().expect("it is one").remove("aud");
    assert_eq!(check(&claims), Ok(()));
}

#[test]
fn keys_that_cannot_be_used_are_skipped_and_named() {
    let signer = Signer::ed25519("ed");
    let mut set = json!({"keys": [signer.public()]});
    let keys = set["keys"].as_array_mut().expect("it is a list");
    let point = "A".repeat(43);
    for unusable in [
        json!({"kty": "oct", "k": "c2VjcmV0"}),
        json!({"kty": "OKP", "crv": "Ed448", "x": point}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}),
        json!({"kty": "EC", "crv": "P-521", "x": point, "y": point}),
        json!({"kty": "EC", "crv": "P-256", "x": point, "y": "AA"}),
        json!({"kty": "EC", "crv": "P-256", "x": point, "y": point, "d": point}),
        json!({"kty": "EC", "crv": "P-256", "x": point, "y": point, "alg": "RS256"}),
        json!({"kty": "EC", "crv": "P-256", "x": point, "y": point, "alg": "HS256"}),
        json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
        json!({"kty": "RSA", "n": "!", "e": "AQAB"}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": point, "use": "enc"}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": point, "key_ops": ["sign"]}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": point, "kid": 1}),
        json!({"kty": "future"}),
        json!("text"),
    ] {
        keys.push(unusable);
    }
    let all = keys.len();
    let set = KeySet::parse(set.to_string().as_bytes()).expect("one key is good");
    assert_eq!((set.len(), set.skipped().len()), (1, all - 1), "{:?}", set.skipped());
}

#[test]
fn rejects_invalid_key_sets() {
    use fairway_token::InvalidKeySet::{NoKeys, NoneUsable, NotAnObject, TooLarge};
    let large = format!("{{\"keys\": [], \"x\": \"{}\"}}", "x".repeat(fairway_token::MAX_KEY_SET_BYTES));
    for (text, problem) in [
        ("<html>", NotAnObject),
        ("[]", NotAnObject),
        (r#"{"keys": [], "keys": []}"#, NotAnObject),
        ("{}", NoKeys),
        (r#"{"keys": {}}"#, NoKeys),
        (r#"{"keys": []}"#, NoneUsable),
        (&large, TooLarge),
    ] {
        assert_eq!(KeySet::parse(text.as_bytes()).err(), Some(problem), "{text:.40}");
    }
}

#[test]
fn the_corpus_is_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/token");
    let inputs = std::fs::read_dir(corpus).expect("the corpus is committed");
    let inputs: Vec<_> = inputs.map(|entry| std::fs::read(entry.expect("it can be listed").path())).collect();
    assert!(!inputs.is_empty());
    for input in inputs {
        let input = input.expect("it can be read");
        checks::token(&input);
        checks::login(&input);
    }
}

/// A set without ids: a token signed with an unpublished key justifies fetching the set again.
#[test]
fn an_unknown_key_id_is_reported_even_after_trying_keys_without_one() {
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    let mut key = old.public();
    key.as_object_mut().expect("it is one").remove("kid");
    let keys = KeySet::parse(json!({"keys": [key]}).to_string().as_bytes()).expect("it is good");
    let token = |signer: &Signer| signer.token(&json!({"alg": "EdDSA", "kid": signer.key_id()}), &claims());
    assert!(admit(token(&old).as_bytes(), &keys).is_ok());
    assert_eq!(admit(token(&new).as_bytes(), &keys).err(), Some(Refusal::UnknownKey));
}
