//! Converts Ingresses to Gateway API objects and reports what is lost ([`move_objects`]).
//!
//! The input is the translation of the Ingresses, not their text, so conflicts, canaries and redirects are already resolved.
//! `filters`, `paths` and `backends` convert the parts of a rule, `own_filter` those that need an HTTPRouteFilter, and `protection`
//! converts guards to policies. `drafts` combines them for plain requests and requests over TLS, `routes`, `streams` and
//! `listeners` build the objects, and `rows` reports on each annotation.

mod backends;
mod bodies;
mod conversion;
mod drafts;
mod filters;
mod input;
mod listeners;
mod missing;
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

pub use conversion::{Moved, MovedIngress, move_objects};
pub use input::{ConversionOptions, Input};
pub use missing::{Missing, certificate, missing};
pub use object::WrittenObject;
pub use remark::{Outcome, Remark};
pub use rows::ConvertedAnnotation;
