//! The impact of a configuration change on requests that were served, of which only some parts are known.
//!
//! A recorded request ([`KnownRequest`]) has neither headers nor a query. [`Comparison`] looks it up in the
//! configurations before and after the change (`configuration`, `candidates`), evaluates what the rules do with it
//! (`treatment` with `guards`, `location` and `forwarded`), and compares the results (`difference`). Whatever depends
//! on something unknown is undecided, never guessed. Endpoints are ignored: they come and go without a configuration
//! change.

mod candidates;
mod comparison;
mod configuration;
mod difference;
mod forwarded;
mod guards;
mod location;
mod own_response;
mod recorded_request;
#[cfg(test)]
mod tests;
mod treatment;
mod verdict;

pub use comparison::{ComparedRequest, Comparison, ServedRoute};
pub use recorded_request::{KnownClient, KnownRequest, KnownRule};
pub use verdict::{Difference, DifferenceKind, OtherSettings, Unknown, Verdict};
