//! Kubernetes objects in, [`fairway_model::Config`] and diagnostics out.
//!
//! `ingress` is translated here and Gateway API in `fairway_gateway`; what both refer to is in `fairway_objects`. [`Resources`](fairway_objects::resources::Resources)
//! keeps the objects; [`Translator`] repeats only what a change touches.
//!
//! Pure, total and deterministic: no I/O, no clock (the time is passed in), and no object can make the whole fail.

mod ingress;
mod listeners;
mod service_maps;
mod translation;
mod translator;

pub use ingress::annotations::family::{Class, Known, Support};
pub use ingress::annotations::registry::known_annotations;
pub use ingress::references::References;
pub use ingress::shared_service::KEPT_APART;
pub use translation::{IngressStatus, Translation};
pub use translator::{Translator, translate};
