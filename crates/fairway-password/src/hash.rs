//! Password hashes: scheme, verification cost, and verification.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{PasswordVerifier, ShaCrypt};

use crate::md5_crypt::md5_crypt;

/// Maximum rounds of `$5$` and `$6$`: a hundred times the default of `crypt(3)`.
pub const MAX_ROUNDS: u32 = 500_000;
/// Maximum bcrypt cost: each increment doubles the time, and `htpasswd` uses 5 by default.
pub const MAX_BCRYPT_COST: u32 = 14;
/// Minimum rounds of `$5$` and `$6$`, even if the hash specifies fewer.
const MIN_ROUNDS: u32 = 1_000;

/// A valid hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash<'t> {
    scheme: Scheme,
    /// The whole text, or the part after the scheme in braces.
    text: &'t str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// `{PLAIN}`: the password itself.
    Plain,
    /// `{SHA}`.
    Sha1,
    /// `{SSHA}`: the salt follows the digest.
    SaltedSha1,
    /// `$apr1$` or `$1$`, which comes first.
    Md5(&'static str),
    /// `$5$` or `$6$`.
    Sha2,
    /// `$2a$`, `$2b$`, `$2x$` or `$2y$`.
    Bcrypt,
}

/// The cost of verifying a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyCost {
    /// At most one digest.
    Nothing,
    /// Deliberately slow.
    Slow,
}

/// Why a text is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidHash {
    /// Unknown scheme.
    Unknown,
    /// Verification would take too long.
    TooSlow,
}

impl<'t> Hash<'t> {
    /// Parses a hash.
    ///
    /// # Errors
    /// The text is not a supported hash, so no password matches it.
    pub fn read(text: &'t str) -> Result<Self, InvalidHash> {
        let braced = [("{PLAIN}", Scheme::Plain), ("{SSHA}", Scheme::SaltedSha1), ("{SHA}", Scheme::Sha1)];
        for (name, scheme) in braced {
            if let Some(text) = text.strip_prefix(name) {
                return Ok(Self { scheme, text });
            }
        }
        let scheme = match text.get(1..).and_then(|rest| rest.split_once('$')).map(|(id, _)| id) {
            _ if !text.starts_with('$') => return Err(InvalidHash::Unknown),
            Some("1") => Scheme::Md5("$1$"),
            Some("apr1") => Scheme::Md5("$apr1$"),
            Some("5" | "6") if rounds(text) > MAX_ROUNDS => return Err(InvalidHash::TooSlow),
            Some("5" | "6") if rounds(text) < MIN_ROUNDS => return Err(InvalidHash::Unknown),
            Some("5" | "6") => Scheme::Sha2,
            Some("2a" | "2b" | "2x" | "2y") => match text.get(4..6).and_then(|cost| cost.parse().ok()) {
                Some(0..=MAX_BCRYPT_COST) => Scheme::Bcrypt,
                Some(_) => return Err(InvalidHash::TooSlow),
                None => return Err(InvalidHash::Unknown),
            },
            _ => return Err(InvalidHash::Unknown),
        };
        Ok(Self { scheme, text })
    }

    /// The cost of [`Self::verify`].
    #[must_use]
    pub fn cost(&self) -> VerifyCost {
        match self.scheme {
            Scheme::Plain | Scheme::Sha1 | Scheme::SaltedSha1 => VerifyCost::Nothing,
            Scheme::Md5(_) | Scheme::Sha2 | Scheme::Bcrypt => VerifyCost::Slow,
        }
    }

    /// Whether this is the password. Compares in constant time.
    #[must_use]
    pub fn verify(&self, password: &[u8]) -> bool {
        match self.scheme {
            Scheme::Plain => constant_time_eq(password, self.text.as_bytes()),
            Scheme::Sha1 => self.verify_digest(password, 0..=0),
            Scheme::SaltedSha1 => self.verify_digest(password, 0..=usize::MAX),
            Scheme::Md5(magic) => match self.text[magic.len()..].split_once('$') {
                Some((salt, expected)) => {
                    constant_time_eq(&md5_crypt(password, magic, salt), expected.as_bytes())
                }
                None => false,
            },
            Scheme::Sha2 => ShaCrypt::default().verify_password(password, self.text).is_ok(),
            Scheme::Bcrypt => bcrypt::verify(password, self.text).unwrap_or(false),
        }
    }

    /// Compares with a digest of the password followed by the salt.
    fn verify_digest(&self, password: &[u8], salts: std::ops::RangeInclusive<usize>) -> bool {
        let Ok(bytes) = STANDARD.decode(self.text) else { return false };
        let Some((expected, salt)) = bytes.split_at_checked(SHA1_OUTPUT_LEN) else { return false };
        let found = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[password, salt].concat());
        salts.contains(&salt.len()) && constant_time_eq(found.as_ref(), expected)
    }
}

/// The rounds specified by `$5$` or `$6$`, or the default.
fn rounds(text: &str) -> u32 {
    let stated_rounds = text[3..].split('$').next().and_then(|part| part.strip_prefix("rounds="));
    stated_rounds.map_or(5_000, |rounds| rounds.parse().unwrap_or(u32::MAX))
}

fn constant_time_eq(left: &[u8], right: &[u8]) -> bool {
    verify_slices_are_equal(left, right).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::*;

    /// Created by htpasswd, openssl and crypt(3).
    const KNOWN_HASHES: &[(&str, &str)] = &[
        ("secret", "{PLAIN}secret"),
        ("", "{PLAIN}"),
        ("secret", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="),
        ("secret", "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0"),
        ("secret", "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1"),
        ("", "$1$x$fwjfZtMwarkdetsjiQreU1"),
        ("a longer password than sixteen bytes", "$1$saltsalt$H5tGA1bwjWH57Z1GTUFCr0"),
        ("secret", "$apr1$r31.....$G/cElGhD0cboYkZN5h5Ne/"),
        ("a longer password than sixteen bytes", "$apr1$r31.....$4rOnWBjwHzEmGnLxh/ZgF/"),
        ("secret", "$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi."),
        ("secret", "$5$rounds=1000$saltstring$AH5PD0i.riCRu4BNDy9v7OPV7u3dfLBApcXI6khquVA"),
        (
            "secret",
            "$6$saltstring$AIsRs/Ee56G/tC8MEHhvReZTfx8u3rXXMl6eYrjCG9ibix19DxoMBLogdTET5Ukw9Sf7eZTITsuk0Ry5qulYz.",
        ),
        (
            "secret",
            "$6$rounds=1000$saltstring$2BkAo106CG84raQcWpAlhyy6TSSkAsL1nfvBCoezLYyerUzY2l8axTvq6NynEt7SQAx3/cdop9ds0po8uaeHq0",
        ),
        ("secret", "$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"),
        ("secret", "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"),
        ("secret", "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"),
    ];

    #[test]
    fn verifies_hashes_of_other_tools() {
        for (password, text) in KNOWN_HASHES {
            let hash = Hash::read(text).unwrap();
            assert!(hash.verify(password.as_bytes()), "{text}");
            for wrong in ["Secret", "secre", "secret ", "secret\0", "x"] {
                assert!(!hash.verify(wrong.as_bytes()), "{wrong} for {text}");
            }
        }
    }

    #[test]
    fn changed_or_truncated_hashes_match_no_password() {
        for (password, text) in KNOWN_HASHES.iter().filter(|(password, _)| !password.is_empty()) {
            let last = text.len() - 1;
            for at in (0..last).chain([last / 2]) {
                let cut = &text[..at];
                assert!(!Hash::read(cut).is_ok_and(|hash| hash.verify(password.as_bytes())), "{cut}");
            }
        }
    }

    #[test]
    fn rejects_invalid_hashes() {
        for text in
            ["", "secret", "sa3tHJ3/KuYvI", "$7$x$y", "$", "$$", "$1", "{MD5}x", "$2z$04$x", "$2b$xx$", "*"]
        {
            assert_eq!(Hash::read(text), Err(InvalidHash::Unknown), "{text}");
        }
        for text in ["$6$rounds=500001$s$h", "$5$rounds=99999999999999$s$h", "$2b$15$x", "$2y$31$x"] {
            assert_eq!(Hash::read(text), Err(InvalidHash::TooSlow), "{text}");
        }
        assert_eq!(Hash::read("$6$rounds=999$s$h"), Err(InvalidHash::Unknown));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_text_makes_it_panic(
            scheme in "(\\$1\\$|\\$apr1\\$|\\$5\\$|\\$6\\$rounds=1000\\$|\\$2b\\$04\\$|\\{SHA\\}|\\{SSHA\\}|)",
            rest in "[ -~é]{0,70}",
            password in any::<Vec<u8>>(),
        ) {
            let text = scheme + &rest;
            _ = Hash::read(&text).map(|hash| hash.verify(&password));
        }
    }
}
