//! Kubernetes objects in, [`fairway_model::Config`] and diagnostics out.
//!
//! `ingress` is translated here and Gateway API in `fairway_gateway`; what both refer to is in `fairway_objects`. [`Resources`](fairway_objects::resources::Resources)
//! keeps the objects; [`Translator`] repeats only what a change touches.
//!
//! In `ingress/annotations` each family of annotations has a file with its names, the objects they name, and how they become filters by
//! phase. The table of known annotations, the diagnostics for unsupported ones and `docs/annotations.md` follow from these files.
//! `service_maps` reads the ConfigMaps of TCP and UDP services; `translator` has a file per stage of an update.
//!
//! What has no effect has a diagnostic. What asks for protection that cannot be given is closed (503), unless the operator says
//! otherwise. No text of an object is ever interpreted as configuration of a program, but rules of the web application firewall: `seclang`
//! reads them in every part and writes them anew.
//!
//! Pure, total and deterministic: no I/O, no clock (the time is passed in), and no object can make the whole fail.

mod ingress;
mod listeners;
pub mod seclang;
mod service_maps;
mod translation;
mod translator;

pub use ingress::annotations::family::{Class, Known, Support};
pub use ingress::annotations::registry::known_annotations;
pub use ingress::references::References;
pub use ingress::shared_service::KEPT_APART;
pub use translation::{IngressStatus, Translation};
pub use translator::{Translator, translate};
