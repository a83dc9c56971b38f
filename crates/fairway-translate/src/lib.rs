//! Kubernetes objects in, [`fairway_model::Config`] and diagnostics out.
//!
//! `ingress` and `gateway` are the two APIs, `shared` is what both refer to: Services, endpoints, certificates.
//! [`Resources`] keeps the objects; [`Translator`] repeats only what a change touches.
//!
//! Pure, total and deterministic: no I/O, no clock (the time is passed in), and no object can make the whole fail.

mod diagnostic;
pub mod gateway;
mod ingress;
mod inputs;
mod listeners;
mod object;
mod options;
mod resources;
mod shared;
mod translation;
mod translator;

pub use diagnostic::{Diagnostic, Diagnostics, Scope, Severity};
pub use ingress::annotations::family::{Class, Known, Support};
pub use ingress::annotations::registry::known_annotations;
pub use ingress::references::References;
pub use object::{DocumentSource, Kind, Object, ObjectKey, ObjectRef, Sourced};
pub use options::{
    CONTROLLER, External, ExternalNames, HostOptions, HostOwnership, IngressListeners, ListenAt,
    LogFormatChoice, LoopbackEndpoints, Options, Own, ProxySenders, Trust, UnsupportedProtection,
    WithoutClass,
};
pub use resources::{Change, Resources};
pub use shared::references::Difference;
pub use translation::{IngressStatus, Translation};
pub use translator::{Translator, translate};
