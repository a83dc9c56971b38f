//! The pods that run Fairway, seen from outside with the caller's own credentials: `discovery` lists them, `tunnel` reaches a port
//! through the API server (also ports on the pod's loopback address), `lines` reads logs.

mod discovery;
mod error;
mod lines;
mod tunnel;

pub use discovery::{DEFAULT_NAMESPACE, FairwayPod, PodSearch, find_pods};
pub use error::PodError;
pub use lines::{LogLines, LogRange, read_log};
pub use tunnel::{Refusal, Tunnel, connect};
