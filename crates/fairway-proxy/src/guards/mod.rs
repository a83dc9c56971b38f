//! What the guards of a worker verify with and remember: passwords, off the workers, tokens, and answers of authentication services.
//! Bounded, whatever clients claim; it never sees a connection, and never keeps a password, or what could be
//! computed back to one, or what a request said.

mod kept;
mod key_sets;
mod passwords;
mod queue;
mod tokens;

pub(crate) use kept::{Kept, Tag};
pub(crate) use key_sets::{Fetch, Keys, Shared as SharedKeySets};
pub(crate) use passwords::{Claim, Passwords, Pool, Word};
pub(crate) use tokens::{Tokens, VerifiedToken};
