//! The laboratory: it reruns the five published benchmarks of ingress controllers, against Fairway and against the
//! controllers that people would otherwise choose, and writes a report that can be checked.
//!
//! ```text
//! scenario ─► peers ─► cluster (testbed or the user's)          backend ◄─ the pods that proxies forward to
//!    │                    ▲ adapter: what runs beside nginx, HAProxy, Envoy and Caddy in their pods
//!    ├─► load ──► requests through the proxy, and straight to the pods
//!    ├─► measure: CPU, memory, pairs of blocks
//!    └─► results.json + histograms ─► report: one HTML file
//! ```
//!
//! Never uses a crate of the proxy: one parser bug must not blind both sides.

pub mod echo;

#[cfg(feature = "laboratory")]
pub mod adapter;
#[cfg(feature = "laboratory")]
pub mod cluster;
#[cfg(feature = "laboratory")]
pub mod command;
#[cfg(feature = "laboratory")]
pub mod measure;
#[cfg(feature = "laboratory")]
pub mod peers;
#[cfg(feature = "laboratory")]
pub mod scenario;

#[cfg(feature = "laboratory")]
pub use fairway_lab_report as report;
#[cfg(feature = "laboratory")]
pub use fairway_lab_results as results;
#[cfg(feature = "laboratory")]
pub use fairway_lab_traffic::{backend, crosscheck, load};
