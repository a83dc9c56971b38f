//! Where connections arrive and which route table serves them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One kind of traffic on one port. The address to bind is the process's business (flags), not the configuration's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Unique; `http` and `https` for Ingress.
    pub name: Arc<str>,
    /// What is spoken on it.
    pub protocol: ListenerProtocol,
    /// The port that clients see: redirects, `X-Forwarded-Port` and logs use it, whatever port is bound.
    pub public_port: u16,
    /// The route table that serves it: the `table` part of [`crate::HostKey`]. Several listeners may share one.
    pub table: Arc<str>,
}

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListenerProtocol {
    /// HTTP in the clear.
    Http,
    /// HTTP over TLS that ends here.
    Https,
}
