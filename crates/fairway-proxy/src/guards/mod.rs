//! The state of a worker's guards: password verification on other threads, tokens, logins, cached responses of authentication
//! services, and the limits that replicas share. Everything is bounded, whatever clients send. It never stores a password,
//! anything from which one could be computed, or the content of a request.

mod cache;
mod documents;
mod fleet;
mod logins;
mod logouts;
mod passwords;
mod queue;
mod refreshes;
mod tokens;

pub(crate) use cache::{CacheTag, ExpiringCache};
pub(crate) use documents::{DocumentLookup, Fetch, SharedDocuments};
pub(crate) use fleet::LeaseFigures;
pub use fleet::{Borrower, FleetLimits, FleetSize, Message as LeaseMessage, Round as LeaseRound};
pub(crate) use logins::{Logins, OpenSession, Permit, Purpose};
pub(crate) use logouts::NotShared;
pub use logouts::{Logouts, ShareLogout};
pub(crate) use passwords::{Claim, PasswordThreads, PasswordVerdict, Passwords};
pub(crate) use refreshes::{RefreshFailure, Refreshed, Refreshes};
pub(crate) use tokens::{Tokens, VerifiedToken, read_key_set};
