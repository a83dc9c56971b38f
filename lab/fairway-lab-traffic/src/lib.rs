//! Both ends of a measured request: the load generator and the backend with its options and its record of ids; and the
//! comparison of the generator with other tools.
//!
//! ```text
//! load ─► requests through whatever is measured ─► backend
//!   └─► fairway-lab-measure: what became of them
//! ```
//!
//! Knows no cluster, peer or scenario, and uses no crate of the proxy, so that one parser bug cannot hide on both sides.

pub mod backend;
pub mod call;
pub mod crosscheck;
mod http1;
pub mod load;
