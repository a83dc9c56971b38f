//! Ingresses as objects of the Gateway API, and what is lost on the way ([`moved`]).
//!
//! The input is what translation made of the Ingresses, not their text: who wins a path, which rule a canary has and where a
//! redirect leads is decided already. `filters`, `paths` and `backends` turn the parts of a rule, `own_filter` those that only a filter of Fairway's own says, `drafts` puts them together for
//! requests in the clear and over TLS, `protection` turns guards into policies, `routes`, `streams` and `listeners` collect them into objects, and `rows` says of each
//! annotation what became of it.

mod backends;
mod bodies;
mod drafts;
mod filters;
mod input;
mod listeners;
mod missing;
mod moving;
mod naming;
mod object;
mod own_filter;
mod paths;
mod pattern;
mod protection;
mod remark;
mod routes;
mod rows;
mod sessions;
mod streams;

pub use input::{Choice, Input};
pub use missing::{Missing, certificate, missing};
pub use moving::{Entry, Moved, moved};
pub use object::Written;
pub use remark::{Fate, Remark};
pub use rows::Row;
