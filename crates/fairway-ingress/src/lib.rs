//! Translates Kubernetes objects into a [`fairway_model::Config`] and diagnostics.
//!
//! `ingress` contains the Ingress API, `fairway_gateway` the Gateway API, and `fairway_objects` what both refer to.
//! [`Resources`](fairway_objects::resources::Resources) stores the objects; [`Translator`] updates only what a change
//! affects.
//!
//! In `ingress/annotations`, each family of annotations has a file with its names, referenced objects, and
//! translation into phases. The table of known annotations, the diagnostics for unsupported ones and
//! `docs/annotations.md` are derived from these files. `service_maps` reads the ConfigMaps of TCP and UDP services;
//! `translator` has a file per stage of an update.
//!
//! Everything without effect gets a diagnostic. Unavailable protection closes paths (503), unless the operator says
//! otherwise. No text of an object is ever interpreted as program configuration, except for rules of the web
//! application firewall, which `seclang` parses completely and writes anew.
//!
//! Pure, total and deterministic: no I/O, no clock (the time is passed in), and no object can make the whole
//! translation fail.

mod ingress;
mod listeners;
pub mod seclang;
mod service_maps;
mod translation;
mod translator;

pub use ingress::annotations::family::{AnnotationClass, KnownAnnotation, Support};
pub use ingress::annotations::registry::known_annotations;
pub use ingress::references::References;
pub use ingress::shared_service::KEPT_APART;
pub use translation::{IngressStatus, Translation};
pub use translator::{Translator, translate};
