//! Kubernetes objects in, [`fairway_model::Config`] and diagnostics out.
//!
//! `ingress` is translated here and Gateway API in `fairway_gateway`; what both refer to is in `fairway_objects`. [`Resources`]
//! keeps the objects; [`Translator`] repeats only what a change touches.
//!
//! Pure, total and deterministic: no I/O, no clock (the time is passed in), and no object can make the whole fail.

mod ingress;
mod listeners;
mod service_maps;
mod translation;
mod translator;

pub use fairway_gateway::{
    ClassStatus, Condition, GatewayStatus, GatewayTranslation, ListenerSetStatus, ListenerStatus,
    ObjectStatus, OwnStatus, ParentStatus, PortTransport, WantedAddress, WantedGateway,
};
pub use fairway_objects::diagnostic::{Diagnostic, Diagnostics, Scope, Severity};
pub use fairway_objects::gateway_resources::Releases;
pub use fairway_objects::issued::issued;
pub use fairway_objects::lines::Lines;
pub use fairway_objects::object::{DocumentSource, Kind, Object, ObjectKey, ObjectRef, Sourced};
pub use fairway_objects::options::{
    CONTROLLER, ClientDefaults, Compat, Defaults, External, ExternalNames, GATEWAY_CONTROLLER,
    GatewayOptions, GatewayScope, HostOptions, HostOwnership, IngressListeners, ListenAt, LogFormatChoice,
    LoopbackEndpoints, Options, Places, ProxySenders, ReservedPorts, ServiceMaps, SslPassthrough, Trust,
    UnsupportedProtection, WithoutClass,
};
pub use fairway_objects::own::{Own, OwnListener, overlap};
pub use fairway_objects::placement::{Address, AddressKind, Addresses, Placement, PortPlacement, PortState};
pub use fairway_objects::references::Difference;
pub use fairway_objects::resources::{Change, Resources};
pub use ingress::annotations::family::{Class, Known, Support};
pub use ingress::annotations::registry::known_annotations;
pub use ingress::references::References;
pub use ingress::shared_service::KEPT_APART;
pub use translation::{IngressStatus, Translation};
pub use translator::{Translator, translate};
