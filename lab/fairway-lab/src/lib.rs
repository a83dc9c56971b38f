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
//! What measures and keeps results, what sends, and what draws are crates of their own (`fairway-lab-measure`, `-traffic`,
//! `-report`). Never uses a crate of the proxy: one parser bug must not blind both sides.

mod adapter;
pub mod cluster;
pub mod command;
pub mod peers;
pub mod scenario;
