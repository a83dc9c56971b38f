//! Key exchange on the curve P-521, which rustls lacks. In TLS 1.2 the offered groups are also the curves
//! accepted in certificates (RFC 8422 §5.1.1): OpenSSL with a P-521 certificate answers a client without P-521
//! with "no shared cipher".

use aws_lc_rs::agreement::{ECDH_P521, EphemeralPrivateKey, PublicKey, UnparsedPublicKey, agree_ephemeral};
use aws_lc_rs::rand::SystemRandom;
use rustls::crypto::{ActiveKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};

/// ECDH on P-521 (RFC 8446 §4.2.8.2).
pub(crate) static SECP521R1: &dyn SupportedKxGroup = &Secp521r1;

#[derive(Debug)]
struct Secp521r1;

impl SupportedKxGroup for Secp521r1 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let private =
            EphemeralPrivateKey::generate(&ECDH_P521, &SystemRandom::new()).map_err(|_| GetRandomFailed)?;
        let public = private.compute_public_key().map_err(|_| GetRandomFailed)?;
        Ok(Box::new(Secp521r1Exchange { private, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

struct Secp521r1Exchange {
    private: EphemeralPrivateKey,
    public: PublicKey,
}

impl ActiveKeyExchange for Secp521r1Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let invalid = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);
        // TLS forbids compressed points, which the library would accept.
        if peer.first() != Some(&4) {
            return Err(invalid);
        }
        agree_ephemeral(self.private, UnparsedPublicKey::new(&ECDH_P521, peer), invalid, |secret| {
            Ok(SharedSecret::from(secret))
        })
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_ref()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_derive_the_same_secret() {
        let (ours, theirs) = (SECP521R1.start().unwrap(), SECP521R1.start().unwrap());
        let (our_key, their_key) = (ours.pub_key().to_vec(), theirs.pub_key().to_vec());
        let (one, other) = (ours.complete(&their_key).unwrap(), theirs.complete(&our_key).unwrap());
        assert_eq!(one.secret_bytes(), other.secret_bytes());
        assert_eq!(one.secret_bytes().len(), 66);
    }

    #[test]
    fn compressed_points_and_points_off_the_curve_are_refused() {
        let key = SECP521R1.start().unwrap().pub_key().to_vec();
        let mut compressed = key[..67].to_vec();
        compressed[0] = 2 | (key[132] & 1);
        let mut beside = key.clone();
        beside[132] ^= 1;
        for peer in [&compressed[..], &beside, &key[..132], &[4], &[]] {
            assert!(SECP521R1.start().unwrap().complete(peer).is_err(), "{peer:?}");
        }
        assert!(SECP521R1.start().unwrap().complete(&key).is_ok());
    }
}
