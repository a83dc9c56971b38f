//! Translates Fairway's own policies for the Gateway API: [`clients`] for listeners, [`backends`] for Services,
//! [`security`] for requests, [`extensions`] for services that see them. `value` parses durations, numbers and
//! ranges.
//!
//! Pure and total. Targets, precedence and the handling of invalid policies are decided elsewhere.

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

pub(crate) use reading::{PolicyError, PolicyWarning};
