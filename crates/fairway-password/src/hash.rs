//! One hash: which scheme wrote it, what verifying it costs, and whether a password fits.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{PasswordVerifier, ShaCrypt};

use crate::md5_crypt::md5_crypt;

/// The most rounds of `$5$` and `$6$`: a hundred times those that `crypt(3)` takes by default.
pub const MOST_ROUNDS: u32 = 500_000;
/// The highest cost of bcrypt: each one more takes twice as long, and `htpasswd` takes 5 by default.
pub const MOST_COST_OF_BCRYPT: u32 = 14;
/// Where `$5$` and `$6$` begin to count, whatever the text says.
const FEWEST_ROUNDS: u32 = 1_000;

/// A text that is known to be a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash<'t> {
    scheme: Scheme,
    /// All of the text, or what follows the name of the scheme in braces.
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

/// What verifying a password takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// One digest at most.
    Nothing,
    /// What makes guessing slow.
    Slow,
}

/// Why a text is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAHash {
    /// No scheme that is known writes it.
    Unknown,
    /// Verifying it would take too long.
    TooSlow,
}

impl<'t> Hash<'t> {
    /// Reads a text.
    ///
    /// # Errors
    /// Nobody's password fits the text.
    pub fn read(text: &'t str) -> Result<Self, NotAHash> {
        let braced = [("{PLAIN}", Scheme::Plain), ("{SSHA}", Scheme::SaltedSha1), ("{SHA}", Scheme::Sha1)];
        for (name, scheme) in braced {
            if let Some(text) = text.strip_prefix(name) {
                return Ok(Self { scheme, text });
            }
        }
        let scheme = match text.get(1..).and_then(|rest| rest.split_once('$')).map(|(id, _)| id) {
            _ if !text.starts_with('$') => return Err(NotAHash::Unknown),
            Some("1") => Scheme::Md5("$1$"),
            Some("apr1") => Scheme::Md5("$apr1$"),
            Some("5" | "6") if rounds(text) > MOST_ROUNDS => return Err(NotAHash::TooSlow),
            Some("5" | "6") if rounds(text) < FEWEST_ROUNDS => return Err(NotAHash::Unknown),
            Some("5" | "6") => Scheme::Sha2,
            Some("2a" | "2b" | "2x" | "2y") => match text.get(4..6).and_then(|cost| cost.parse().ok()) {
                Some(0..=MOST_COST_OF_BCRYPT) => Scheme::Bcrypt,
                Some(_) => return Err(NotAHash::TooSlow),
                None => return Err(NotAHash::Unknown),
            },
            _ => return Err(NotAHash::Unknown),
        };
        Ok(Self { scheme, text })
    }

    /// What [`Self::fits`] takes.
    #[must_use]
    pub fn cost(&self) -> Cost {
        match self.scheme {
            Scheme::Plain | Scheme::Sha1 | Scheme::SaltedSha1 => Cost::Nothing,
            Scheme::Md5(_) | Scheme::Sha2 | Scheme::Bcrypt => Cost::Slow,
        }
    }

    /// Whether this is the password. Compares in constant time.
    #[must_use]
    pub fn fits(&self, password: &[u8]) -> bool {
        match self.scheme {
            Scheme::Plain => is_same(password, self.text.as_bytes()),
            Scheme::Sha1 => self.fits_digest(password, 0..=0),
            Scheme::SaltedSha1 => self.fits_digest(password, 0..=usize::MAX),
            Scheme::Md5(magic) => match self.text[magic.len()..].split_once('$') {
                Some((salt, expected)) => is_same(&md5_crypt(password, magic, salt), expected.as_bytes()),
                None => false,
            },
            Scheme::Sha2 => ShaCrypt::default().verify_password(password, self.text).is_ok(),
            Scheme::Bcrypt => bcrypt::verify(password, self.text).unwrap_or(false),
        }
    }

    /// The digest is that of the password and the salt behind it.
    fn fits_digest(&self, password: &[u8], salts: std::ops::RangeInclusive<usize>) -> bool {
        let Ok(bytes) = STANDARD.decode(self.text) else { return false };
        let Some((expected, salt)) = bytes.split_at_checked(SHA1_OUTPUT_LEN) else { return false };
        let found = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[password, salt].concat());
        salts.contains(&salt.len()) && is_same(found.as_ref(), expected)
    }
}

/// The rounds that a text of `$5$` or `$6$` asks for; the default where it says nothing.
fn rounds(text: &str) -> u32 {
    let said = text[3..].split('$').next().and_then(|part| part.strip_prefix("rounds="));
    said.map_or(5_000, |rounds| rounds.parse().unwrap_or(u32::MAX))
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::*;

    /// Written by htpasswd, openssl and crypt(3) for the password `secret`, unless it says another.
    const WRITTEN: &[(&str, &str)] = &[
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
    fn the_password_fits_what_others_wrote_and_no_other_does() {
        for (password, text) in WRITTEN {
            let hash = Hash::read(text).unwrap();
            assert!(hash.fits(password.as_bytes()), "{text}");
            for wrong in ["Secret", "secre", "secret ", "secret\0", "x"] {
                assert!(!hash.fits(wrong.as_bytes()), "{wrong} for {text}");
            }
        }
    }

    #[test]
    fn a_hash_that_is_changed_or_cut_lets_nobody_in() {
        for (password, text) in WRITTEN.iter().filter(|(password, _)| !password.is_empty()) {
            let last = text.len() - 1;
            for at in (0..last).chain([last / 2]) {
                let cut = &text[..at];
                assert!(!Hash::read(cut).is_ok_and(|hash| hash.fits(password.as_bytes())), "{cut}");
            }
        }
    }

    #[test]
    fn what_is_no_hash_says_why() {
        for text in
            ["", "secret", "sa3tHJ3/KuYvI", "$7$x$y", "$", "$$", "$1", "{MD5}x", "$2z$04$x", "$2b$xx$", "*"]
        {
            assert_eq!(Hash::read(text), Err(NotAHash::Unknown), "{text}");
        }
        for text in ["$6$rounds=500001$s$h", "$5$rounds=99999999999999$s$h", "$2b$15$x", "$2y$31$x"] {
            assert_eq!(Hash::read(text), Err(NotAHash::TooSlow), "{text}");
        }
        assert_eq!(Hash::read("$6$rounds=999$s$h"), Err(NotAHash::Unknown));
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
            _ = Hash::read(&text).map(|hash| hash.fits(&password));
        }
    }
}
