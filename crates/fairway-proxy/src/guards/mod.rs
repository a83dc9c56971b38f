//! What the guards of a worker verify with and remember: passwords, off the workers, tokens, logins, answers of authentication services, and
//! the limits that replicas share.
//! Bounded, whatever clients claim; it never sees a connection, and never keeps a password, or what could be
//! computed back to one, or what a request said.

mod documents;
mod fleet;
mod kept;
mod logins;
mod logouts;
mod passwords;
mod queue;
mod refreshes;
mod tokens;

pub(crate) use documents::{Fetch, Found, Shared as SharedDocuments};
pub(crate) use fleet::LeaseFigures;
pub use fleet::{Borrower, FleetLimits, FleetSize, Message as LeaseMessage, Round as LeaseRound};
pub(crate) use kept::{Kept, Tag};
pub(crate) use logins::{Logins, OpenSession, Permit, Purpose};
pub(crate) use logouts::NotShared;
pub use logouts::{Logouts, ShareLogout};
pub(crate) use passwords::{Claim, Passwords, Pool, Word};
pub(crate) use refreshes::{RefreshFailure, Refreshed, Refreshes};
pub(crate) use tokens::{Tokens, VerifiedToken, read_key_set};
