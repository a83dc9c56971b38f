//! The Gateway API v1.7.0, experimental channel: its kinds as plain structs, generated from the CRDs by `make gateway-types`.
//! They also read objects of earlier releases: the fields that v1.7 removed from `sessionPersistence` are kept.
//!
//! Structs with the same fields are one struct, under the name in the Gateway API. Enumerations are strings, so that an unknown
//! value leaves the rest of the object readable; an absent list is an empty one; an absent required field has its empty value,
//! because manifests are read without an API server in front of them.
//!
//! Each kind implements [`k8s_openapi::Resource`] and [`k8s_openapi::Metadata`], like the built-in ones. Nothing here validates
//! an object.

mod gateways;
mod kinds;
mod routes;

pub use gateways::*;
pub use kinds::*;
pub use routes::*;
