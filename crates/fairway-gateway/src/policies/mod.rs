//! What Fairway's policies for Gateway API say, as values of the model: [`clients`] for listeners, [`backends`] for Services,
//! [`security`] for requests. `value` reads times, numbers and ranges.
//!
//! Pure and total. It knows no target: which policy holds where, and what becomes of one that cannot be read, is
//! `fairway-gateway`'s.

pub mod backends;
pub mod clients;
mod external;
mod reading;
pub mod security;
mod value;

pub use reading::{Reading, Warning, Wrong};
