//! Published keys of an issuer: a JSON Web Key Set (RFC 7517 §5).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};

use crate::json::parse_object;

/// Maximum size of a key set, in bytes.
pub const MAX_KEY_SET_BYTES: usize = 256 << 10;
/// Maximum number of keys used of a set: a token without a key id may be tried with each.
pub const MAX_KEYS: usize = 32;
/// Supported sizes of RSA keys, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

const RSA_ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The public keys of an issuer that can verify signatures; empty by default.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
    skipped: Vec<SkippedKey>,
}

#[derive(Clone, Debug)]
struct PublicKey {
    id: Option<Box<str>>,
    algorithms: Box<[Algorithm]>,
    key: DecodingKey,
}

/// A key of a set that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedKey {
    /// Its index in the set.
    pub index: usize,
    /// The reason, as a sentence about it.
    pub why: &'static str,
}

/// Why a text is not a key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidKeySet {
    /// It is larger than [`MAX_KEY_SET_BYTES`].
    TooLarge,
    /// It is not a JSON object, or has duplicate names.
    NotAnObject,
    /// It has no `keys` list.
    NoKeys,
    /// None of its keys can verify a signature.
    NoneUsable,
}

impl fmt::Display for InvalidKeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the key set has more than {MAX_KEY_SET_BYTES} bytes"),
            Self::NotAnObject => f.write_str("the key set is not a JSON object without repeated names"),
            Self::NoKeys => f.write_str("the key set has no list \"keys\""),
            Self::NoneUsable => f.write_str(
                "the key set has no public key (RSA of 2048 bits or more, P-256, P-384, Ed25519) for signatures",
            ),
        }
    }
}

impl KeySet {
    /// Parses a set. Unusable keys are skipped, as RFC 7517 §5 specifies for keys that are not understood.
    ///
    /// # Errors
    /// The text is not a key set, or none of its keys is usable.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidKeySet> {
        if text.len() > MAX_KEY_SET_BYTES {
            return Err(InvalidKeySet::TooLarge);
        }
        let set = parse_object(text).ok_or(InvalidKeySet::NotAnObject)?;
        let list = set.get("keys").and_then(Value::as_array).ok_or(InvalidKeySet::NoKeys)?;
        let (mut keys, mut skipped) = (Vec::new(), Vec::new());
        for (index, entry) in list.iter().enumerate() {
            let read = match entry.as_object() {
                _ if keys.len() == MAX_KEYS => Err("there are too many before it"),
                Some(entry) => PublicKey::read(entry),
                None => Err("it is not an object"),
            };
            match read {
                Ok(key) => keys.push(key),
                Err(why) => skipped.push(SkippedKey { index, why }),
            }
        }
        match keys.is_empty() {
            true => Err(InvalidKeySet::NoneUsable),
            false => Ok(Self { keys, skipped }),
        }
    }

    /// The number of usable keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none, which [`KeySet::parse`] rejects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The skipped keys with reasons.
    #[must_use]
    pub fn skipped(&self) -> &[SkippedKey] {
        &self.skipped
    }

    /// Whether a key has this id.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// The keys that may have signed a token: those with its key id and those without one; all if the token has no
    /// key id.
    pub(crate) fn candidates<'k>(
        &'k self,
        algorithm: Algorithm,
        id: Option<&'k str>,
    ) -> impl Iterator<Item = &'k DecodingKey> {
        let is_named = move |key: &&PublicKey| match (id, key.id.as_deref()) {
            (Some(id), Some(own)) => id == own,
            _ => true,
        };
        let fits = move |key: &&PublicKey| key.algorithms.contains(&algorithm);
        self.keys.iter().filter(is_named).filter(fits).map(|key| &key.key)
    }
}

impl PublicKey {
    /// Parses a key (RFC 7517 §4, RFC 7518 §6, RFC 8037 §2).
    fn read(entry: &Map<String, Value>) -> Result<Self, &'static str> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        if entry.contains_key("d") {
            return Err("it is a private key, which must not be published");
        }
        if entry.contains_key("use") && text("use") != Some("sig") {
            return Err("its \"use\" is not signatures");
        }
        let verifies = |operations: &Value| {
            operations.as_array().is_some_and(|list| list.iter().any(|each| each.as_str() == Some("verify")))
        };
        if entry.get("key_ops").is_some_and(|operations| !verifies(operations)) {
            return Err("its \"key_ops\" do not contain \"verify\"");
        }
        let id = match entry.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.as_str().into()),
            Some(_) => return Err("its \"kid\" is not a text"),
        };
        let (algorithms, key) = match text("kty") {
            Some("RSA") => (RSA_ALGORITHMS, read_rsa(text("n"), text("e"))?),
            Some("EC") => read_point(text("crv"), text("x"), text("y"))?,
            Some("OKP") => (&[Algorithm::EdDSA][..], read_edwards(text("crv"), text("x"))?),
            Some("oct") => return Err("it is symmetric: who verifies with it could sign"),
            _ => return Err("its \"kty\" is not RSA, EC or OKP"),
        };
        let algorithms = match entry.get("alg") {
            None => algorithms.into(),
            Some(own) => {
                let own =
                    own.as_str().and_then(|own| own.parse().ok()).filter(|own| algorithms.contains(own));
                [own.ok_or("its \"alg\" does not fit its type")?].into()
            }
        };
        Ok(Self { id, algorithms, key })
    }
}

fn read_rsa(modulus: Option<&str>, exponent: Option<&str>) -> Result<DecodingKey, &'static str> {
    const INVALID: &str = "its \"n\" and \"e\" are not numbers in base64url";
    let (modulus, exponent) =
        (decode_base64url(modulus).ok_or(INVALID)?, decode_base64url(exponent).ok_or(INVALID)?);
    let leading = modulus.iter().position(|byte| *byte != 0).ok_or(INVALID)?;
    let modulus = &modulus[leading..];
    let bits = modulus.len() * 8 - modulus[0].leading_zeros() as usize;
    match RSA_BITS.contains(&bits) {
        true => Ok(DecodingKey::from_rsa_raw_components(modulus, &exponent)),
        false => Err("its modulus has less than 2048 or more than 8192 bits"),
    }
}

fn read_point(
    curve: Option<&str>,
    x: Option<&str>,
    y: Option<&str>,
) -> Result<(&'static [Algorithm], DecodingKey), &'static str> {
    const INVALID: &str = "its \"x\" and \"y\" are not coordinates of its curve in base64url";
    let (algorithms, bytes): (&[Algorithm], _) = match curve {
        Some("P-256") => (&[Algorithm::ES256], 32),
        Some("P-384") => (&[Algorithm::ES384], 48),
        _ => return Err("its \"crv\" is neither P-256 nor P-384"),
    };
    let is_whole = |part: Option<&str>| decode_base64url(part).is_some_and(|part| part.len() == bytes);
    let (Some(x), Some(y), true) = (x, y, is_whole(x) && is_whole(y)) else { return Err(INVALID) };
    Ok((algorithms, DecodingKey::from_ec_components(x, y).map_err(|_| INVALID)?))
}

fn read_edwards(curve: Option<&str>, x: Option<&str>) -> Result<DecodingKey, &'static str> {
    if curve != Some("Ed25519") {
        return Err("its \"crv\" is not Ed25519");
    }
    let point = decode_base64url(x)
        .filter(|point| point.len() == 32)
        .ok_or("its \"x\" is not a point of Ed25519 in base64url")?;
    Ok(DecodingKey::from_ed_der(&point))
}

fn decode_base64url(part: Option<&str>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part?).ok().filter(|bytes| !bytes.is_empty())
}
