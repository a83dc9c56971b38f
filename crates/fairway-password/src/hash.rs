//! One hash: which scheme wrote it, what verifying it costs, and whether a password fits.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{PasswordVerifier, ShaCrypt};

use crate::md5_crypt::md5_crypt;

/// The most rounds of `$5$` and `$6$`: about a third of a second of a processor.
pub const MOST_ROUNDS: u32 = 500_000;
/// The highest cost of bcrypt: about a second of a processor.
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
    /// About a microsecond.
    Nothing,
    /// From a tenth of a millisecond to a second.
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
    use super::*;
}
