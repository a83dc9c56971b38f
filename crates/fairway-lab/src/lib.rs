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

pub mod adapter;
pub mod cluster;
pub mod command;
pub mod peers;
pub mod scenario;

pub use fairway_lab_measure as measure;
pub use fairway_lab_report as report;
pub use fairway_lab_results as results;
pub use fairway_lab_traffic::{backend, crosscheck, load};
