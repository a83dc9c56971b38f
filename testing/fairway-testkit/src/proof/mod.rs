//! Proofs under churn and change: `fairway run` and real backends as processes, under load, with every violation counted.
//! Tests run them briefly, `fairway-bench` at length; both check the same figures.
//!
//! [`fleet`] is the backends, [`traffic`] the load, [`deliveries`] the received requests; [`churn`], [`changes`],
//! [`steadiness`], [`kill`], [`routes`], [`check`], [`compare`], [`spread`] and [`floods`] are the proofs. They use only
//! the loopback address and stop when their value is dropped. They return figures and judge nothing.

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
