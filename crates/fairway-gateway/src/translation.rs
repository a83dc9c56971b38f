//! The result of a translation of Gateway API objects. Owns its shape, and nothing of how it comes about.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{HostKey, Listener, StreamKey, StreamRoute, VirtualHost};
use fairway_objects::backend::BackendRef;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{ObjectKey, ObjectRef};
use imbl::OrdMap;

use crate::status::ObjectStatus;
use crate::wanted::WantedGateway;

/// What Gateway API objects mean besides traffic. All parts are persistent: a clone costs nothing, and what differs
/// from an earlier one is found at a cost of what differs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayTranslation {
    /// What is to be written to the status of each object that is this controller's, or that still has an entry of
    /// it.
    pub statuses: OrdMap<ObjectRef, Arc<ObjectStatus>>,
    /// The Gateways that need addresses and ports.
    pub wanted: OrdMap<ObjectKey, Arc<WantedGateway>>,
}

/// What an update changes in the configuration: each part with its key, and `None` where it is gone.
#[derive(Debug, Default)]
pub struct Pieces {
    /// Listeners.
    pub listeners: Vec<(Arc<str>, Option<Arc<Listener>>)>,
    /// Virtual hosts.
    pub hosts: Vec<(HostKey, Option<Arc<VirtualHost>>)>,
    /// Where connections go that are not HTTP.
    pub streams: Vec<(StreamKey, Option<Arc<StreamRoute>>)>,
    /// All backends that a route uses from now on.
    pub backends: Vec<(ObjectRef, Vec<BackendRef>)>,
    /// All Secrets whose certificates a listener shows from now on, by its name in the configuration.
    pub certificates: Vec<(Arc<str>, BTreeSet<ObjectKey>)>,
    /// All that is wrong with an object.
    pub diagnostics: Vec<(ObjectRef, Vec<Diagnostic>)>,
}
