//! Both ends of a measured request: the load generator, the backend with its options and its memory of ids, and the
//! comparison of the generator with others.
//!
//! ```text
//! load ─► requests through whatever is measured ─► backend
//!   └─► fairway-lab-measure: what became of them
//! ```
//!
//! Knows no cluster, no peer and no scenario, and never uses a crate of the proxy: one parser bug must not blind both
//! sides.

pub mod backend;
pub mod call;
pub mod crosscheck;
mod http1;
pub mod load;
