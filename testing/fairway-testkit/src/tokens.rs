//! Private keys of an issuer of tokens, and tokens signed with them byte by byte: no library makes the headers of hostile ones.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaEncoding, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A private key with an id.
pub struct Signer {
    id: &'static str,
    key: Key,
}

enum Key {
    Rsa(&'static str, RsaKeyPair, &'static dyn RsaEncoding),
    Ec(&'static str, EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
}

impl Signer {
    /// A signer for each algorithm.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let rsa: [(_, _, &'static dyn RsaEncoding); 6] = [
            ("rs256", "RS256", &signature::RSA_PKCS1_SHA256),
            ("rs384", "RS384", &signature::RSA_PKCS1_SHA384),
            ("rs512", "RS512", &signature::RSA_PKCS1_SHA512),
            ("ps256", "PS256", &signature::RSA_PSS_SHA256),
            ("ps384", "PS384", &signature::RSA_PSS_SHA384),
            ("ps512", "PS512", &signature::RSA_PSS_SHA512),
        ];
        let rsa = rsa.into_iter().map(|(id, algorithm, encoding)| {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key can be made");
            Self { id, key: Key::Rsa(algorithm, pair, encoding) }
        });
        let curves = [
            ("es256", "ES256", &signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            ("es384", "ES384", &signature::ECDSA_P384_SHA384_FIXED_SIGNING),
        ];
        let curves = curves.into_iter().map(|(id, algorithm, signing)| Self {
            id,
            key: Key::Ec(algorithm, EcdsaKeyPair::generate(signing).expect("a key can be made")),
        });
        rsa.chain(curves).chain([Self::ed25519("ed")]).collect()
    }

    /// A signer for RS256.
    #[must_use]
    pub fn rs256(id: &'static str) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key can be made");
        Self { id, key: Key::Rsa("RS256", pair, &signature::RSA_PKCS1_SHA256) }
    }

    /// A signer for EdDSA.
    #[must_use]
    pub fn ed25519(id: &'static str) -> Self {
        Self { id, key: Key::Edwards(Ed25519KeyPair::generate().expect("a key can be made")) }
    }

    /// Its `kid`.
    #[must_use]
    pub fn key_id(&self) -> &'static str {
        self.id
    }

    /// Its `alg`.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match &self.key {
            Key::Rsa(algorithm, ..) | Key::Ec(algorithm, _) => algorithm,
            Key::Edwards(_) => "EdDSA",
        }
    }

    /// The key as the issuer publishes it.
    #[must_use]
    pub fn public(&self) -> Value {
        let mut key = match &self.key {
            Key::Rsa(algorithm, pair, _) => {
                let public = pair.public_key();
                let modulus = encode(public.modulus().big_endian_without_leading_zero());
                let exponent = encode(public.exponent().big_endian_without_leading_zero());
                json!({"kty": "RSA", "n": modulus, "e": exponent, "alg": algorithm})
            }
            Key::Ec(algorithm, pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(pair.public_key().as_ref().len() / 2);
                let curve = if *algorithm == "ES256" { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
            }
            Key::Edwards(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref())})
            }
        };
        key["kid"] = self.id.into();
        key["use"] = "sig".into();
        key
    }

    /// A token with this header and these claims.
    #[must_use]
    pub fn token(&self, header: &Value, claims: &Value) -> String {
        self.sign(&format!("{}.{}", encode(header.to_string()), encode(claims.to_string())))
    }

    /// Signs a text as it is.
    #[must_use]
    pub fn sign(&self, signing_input: &str) -> String {
        let message = signing_input.as_bytes();
        let random = SystemRandom::new();
        let signature = match &self.key {
            Key::Rsa(_, pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, message, &mut signature).expect("it can sign");
                signature
            }
            Key::Ec(_, pair) => pair.sign(&random, message).expect("it can sign").as_ref().to_vec(),
            Key::Edwards(pair) => pair.sign(message).as_ref().to_vec(),
        };
        format!("{signing_input}.{}", encode(signature))
    }
}

/// The JWK Set of an issuer with these keys (RFC 7517 §5).
#[must_use]
pub fn jwk_set(signers: &[Signer]) -> String {
    let keys: Vec<_> = signers.iter().map(Signer::public).collect();
    json!({ "keys": keys }).to_string()
}

/// base64url without padding (RFC 7515 §2).
#[must_use]
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
