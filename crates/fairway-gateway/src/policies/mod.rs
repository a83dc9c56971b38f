//! What Fairway's policies for Gateway API say, as values of the model: [`clients`] for listeners, [`backends`] for Services,
//! [`security`] for requests, [`extensions`] for services that see them. `value` reads times, numbers and ranges.
//!
//! Pure and total. It knows no target: which policy holds where, and what becomes of one that cannot be read, is
//! decided beside it.

pub(crate) mod backends;
mod buffering;
pub(crate) mod clients;
mod compression;
pub(crate) mod extensions;
pub(crate) mod external;
mod reading;
pub(crate) mod security;
mod tracing;
mod value;

pub(crate) use reading::{Warning, Wrong};
