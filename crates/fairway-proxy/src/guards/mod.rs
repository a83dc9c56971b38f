//! What the guards of a worker verify with and remember: passwords, off the workers, and answers of authentication services.
//! Bounded, whatever clients claim; it never sees a connection, and never keeps a password, or what could be
//! computed back to one, or what a request said.

mod kept_answers;
mod passwords;
mod queue;

pub(crate) use kept_answers::{KeptAnswers, Tag};
pub(crate) use passwords::{Claim, Passwords, Pool, Word};
