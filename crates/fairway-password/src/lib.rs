//! Passwords against the hashes that `htpasswd` and `crypt(3)` write. Pure: no I/O, no clock, no thread; it stores nothing.
//!
//! [`struct@Hash`] says what a text is and what verifying it costs; what is not known, or costs too much, is no hash, so nobody's
//! password fits it.

mod file;
mod hash;
mod md5_crypt;

pub use file::{Entry, entries};
pub use hash::{Cost, Hash, MOST_COST_OF_BCRYPT, MOST_ROUNDS, NotAHash};
