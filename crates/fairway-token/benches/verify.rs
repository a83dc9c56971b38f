//! The cost of verifying a token that was not seen before, compared with that of the signature alone, which aws-lc
//! verifies.

use std::time::Duration;

use aws_lc_rs::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use criterion::{Criterion, criterion_group, criterion_main};
use fairway_testkit::tokens::{Signer, jwk_set};
use fairway_token::{Expected, KeySet, Token};
use serde_json::json;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn verify(criterion: &mut Criterion) {
    for signer in Signer::all() {
        let algorithm = signer.algorithm();
        let claims = json!({
            "iss": "https://login.example.com", "aud": "shop", "sub": "7f3d2a91-0c47-4b0e-9b43-54a1a3b0f6d2",
            "exp": NOW.as_secs() + 300, "iat": NOW.as_secs(), "scope": "openid profile email",
            "realm_access": {"roles": ["user", "staff"]},
        });
        let token = signer.token(&json!({"alg": algorithm, "typ": "JWT", "kid": signer.key_id()}), &claims);
        let public = signer.public();
        let keys = KeySet::parse(jwk_set(&[signer]).as_bytes()).expect("its keys are good");
        let expected = Expected {
            issuer: "https://login.example.com",
            audiences: &["shop"],
            skew: Duration::ZERO,
            now: NOW,
        };
        criterion.bench_function(&format!("{algorithm} token"), |bencher| {
            bencher.iter(|| {
                let token = Token::parse(token.as_bytes()).expect("it is good");
                token.check(&expected).expect("it is good");
                token.verify(&keys).expect("it is good");
                token.into_claims()
            });
        });
        let (message, signature) = token.rsplit_once('.').expect("it has three parts");
        let signature = URL_SAFE_NO_PAD.decode(signature).expect("it is base64url");
        let part = |name: &str| {
            URL_SAFE_NO_PAD.decode(public[name].as_str().unwrap_or_default()).expect("it is base64url")
        };
        // The key is parsed for each signature, as from a key set; a cached parsed key saves the difference between
        // both.
        match algorithm {
            "RS256" => {
                let (n, e) = (part("n"), part("e"));
                criterion.bench_function("RS256 signature", |bencher| {
                    bencher.iter(|| {
                        let key = RsaPublicKeyComponents { n: &n, e: &e };
                        key.verify(&signature::RSA_PKCS1_2048_8192_SHA256, message.as_bytes(), &signature)
                    });
                });
            }
            "ES256" => {
                let point = [vec![4], part("x"), part("y")].concat();
                criterion.bench_function("ES256 signature", |bencher| {
                    let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, &point);
                    bencher.iter(|| key.verify(message.as_bytes(), &signature));
                });
            }
            _ => {}
        }
    }
}

criterion_group!(benches, verify);
criterion_main!(benches);
