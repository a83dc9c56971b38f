//! What a change of the configuration means for requests that were served, of which only some is known.
//!
//! A request as it is remembered ([`KnownRequest`]) has neither headers nor a query. [`Comparison`] looks it up by the configuration
//! before the change and by the one after it (`arrival`, `candidates`), lets the rules say what they do with it (`treatment` with
//! `guards`, `location` and `forwarded`), and compares the two (`difference`). What depends on something that is not known is
//! undecided, never guessed. Endpoints are left out: they come and go without anybody's change.

mod answer;
mod arrival;
mod candidates;
mod comparison;
mod difference;
mod forwarded;
mod guards;
mod known;
mod location;
#[cfg(test)]
mod tests;
mod treatment;
mod verdict;

pub use comparison::{Compared, Comparison, ServedRoute};
pub use known::{KnownClient, KnownRequest, KnownRule};
pub use verdict::{Difference, DifferenceKind, OtherSettings, Unknown, Verdict};
