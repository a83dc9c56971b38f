//! Proofs under churn and change: `fairway run` and real backends as processes, load on top, and what may not happen
//! counted. Tests run them short, `fairway-bench` runs them long; both judge the same figures.
//!
//! [`fleet`] is the backends, [`traffic`] the load, [`deliveries`] what arrived; [`churn`], [`changes`], [`steadiness`],
//! [`kill`], [`routes`], [`check`], [`compare`], [`spread`] and [`floods`] are the proofs. Everything stays on the loopback address,
//! and ends with the value that started it. Nothing here judges: the figures are handed to whoever asked.

pub mod changes;
pub mod check;
pub mod churn;
pub mod compare;
pub mod delays;
pub mod deliveries;
pub mod fleet;
pub mod floods;
mod frames;
pub mod kill;
pub mod routes;
pub mod site;
pub mod spread;
pub mod steadiness;
pub mod traffic;
