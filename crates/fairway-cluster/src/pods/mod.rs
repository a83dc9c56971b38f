//! The pods that run Fairway, for whoever looks at them from outside with credentials of their own: `found` lists them, `tunnel` reaches
//! a port of one through the API server, also a port on the loopback address of the pod, `lines` reads what one prints. It never asks
//! a pod anything itself.

mod error;
mod found;
mod lines;
mod tunnel;

pub use error::PodError;
pub use found::{DEFAULT_NAMESPACE, FairwayPod, Search, find};
pub use lines::{LogLines, LogRange, read_log};
pub use tunnel::{Refusal, Tunnel, connect};
