//! Kubernetes objects in, [`fairway_model::Config`] and diagnostics out.
//!
//! The modules follow the way of an object: it is kept ([`resources`]), chosen by its class ([`class`]), read with its
//! annotations ([`plan`], [`annotation`] and the files named after what they set), laid out as the locations of a host
//! ([`path`], [`host`]), and joined with what its backends and certificates refer to ([`backend`], [`endpoints`],
//! [`certificate`]). [`translator`] repeats only what a change touches.
//!
//! Pure, total and deterministic: no I/O, no clock (the time is passed in), and no object can make the whole fail.

mod access;
pub mod annotation;
mod backend;
mod certificate;
mod claim;
mod class;
mod cors;
pub mod diagnostic;
mod endpoints;
mod external;
mod headers;
mod host;
mod limits;
mod old_api;
pub mod options;
mod path;
mod plan;
mod redirect;
mod references;
pub mod resources;
mod rewrite;
mod settings;
pub mod translator;
mod upstream;
mod validation;

pub use annotation::registry::{Class, Known, Support, known_annotations};
pub use diagnostic::{Diagnostic, Diagnostics, Scope, Severity};
pub use options::{
    ClassCompat, External, ExternalNames, LoopbackEndpoints, Options, Own, ProxySenders, PublicPorts, Trust,
    UnsupportedProtection, WithoutClass,
};
pub use references::{Difference, References};
pub use resources::{Change, DocumentSource, Kind, Object, ObjectKey, ObjectRef, Resources, Sourced};
pub use translator::{IngressStatus, Translation, Translator, translate};
