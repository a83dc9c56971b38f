//! Verifies passwords against hashes from `htpasswd` and `crypt(3)`. Pure: no I/O, no clock, no threads, no storage.
//!
//! [`struct@Hash`] identifies the scheme and the verification cost. An unknown or too expensive hash is invalid, so
//! no password matches it.

mod file;
mod hash;
mod md5_crypt;

pub use file::{PasswordEntry, entries};
pub use hash::{Hash, InvalidHash, MAX_BCRYPT_COST, MAX_ROUNDS, VerifyCost};
