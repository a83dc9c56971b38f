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
//! Measurement and results, load generation, and reports are separate crates (`fairway-lab-measure`, `-traffic`,
//! `-report`). Uses no crate of the proxy, so that one parser bug cannot hide on both sides.

mod adapter;
pub mod cluster;
pub mod command;
pub mod peers;
pub mod scenario;
