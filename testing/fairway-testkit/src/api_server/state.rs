//! The state of a server, shared with its watches.

use super::access::Access;
use super::discovery::Definitions;
use super::faults::{Fault, Listing, Network};
use super::objects::Objects;

pub(super) struct ServerState {
    pub(super) objects: Objects,
    pub(super) access: Access,
    pub(super) definitions: Definitions,
    pub(super) faults: Vec<Fault>,
    pub(super) network: Network,
    pub(super) lists: Listing,
    /// The minor version of Kubernetes.
    pub(super) minor: u32,
    /// The method and the URI of every request.
    pub(super) requests: Vec<(String, String)>,
    pub(super) watches: Watches,
}

/// Watches by their number.
#[derive(Default)]
pub(super) struct Watches {
    pub(super) begun: u64,
    /// Watches up to this number are silenced.
    pub(super) stalled: u64,
    /// Up to this one they are closed.
    pub(super) closed: u64,
}

impl ServerState {
    pub(super) fn new() -> Self {
        Self {
            objects: Objects::new(),
            access: Access::default(),
            definitions: Definitions::none(),
            faults: Vec::new(),
            network: Network::Up,
            lists: Listing::Streams,
            minor: 36,
            requests: Vec::new(),
            watches: Watches::default(),
        }
    }
}
