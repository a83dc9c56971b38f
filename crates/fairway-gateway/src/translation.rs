//! The result of translating Gateway API objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{HostKey, Listener, StreamKey, StreamRoute, VirtualHost};
use fairway_objects::backend::BackendRef;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{ObjectKey, ObjectRef};
use imbl::OrdMap;

use crate::requirements::WantedGateway;
use crate::status::ObjectStatus;

/// The result besides the configuration. All parts are persistent: a clone is free, and a diff of two versions costs
/// only the size of the difference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayTranslation {
    /// The status of each object that belongs to this controller, or still has an entry of it.
    pub statuses: OrdMap<ObjectRef, Arc<ObjectStatus>>,
    /// Gateways that need addresses and ports.
    pub wanted_gateways: OrdMap<ObjectKey, Arc<WantedGateway>>,
}

/// Changes to the configuration by key; `None` removes a part.
#[derive(Debug, Default)]
pub struct ConfigChanges {
    /// Listeners.
    pub listeners: Vec<(Arc<str>, Option<Arc<Listener>>)>,
    /// Virtual hosts.
    pub hosts: Vec<(HostKey, Option<Arc<VirtualHost>>)>,
    /// Non-HTTP routes.
    pub streams: Vec<(StreamKey, Option<Arc<StreamRoute>>)>,
    /// All backends that a route uses from now on.
    pub backends: Vec<(ObjectRef, Vec<BackendRef>)>,
    /// All Secrets whose certificates a listener uses from now on, by listener name.
    pub certificates: Vec<(Arc<str>, BTreeSet<ObjectKey>)>,
    /// All diagnostics of an object.
    pub diagnostics: Vec<(ObjectRef, Vec<Diagnostic>)>,
}
