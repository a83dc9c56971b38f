//! The Gateway API v1.7.0, experimental channel: its kinds as plain structs, generated from the CRDs by `make gateway-types`.
//! Objects of earlier releases are read by them, too: they have the fields that v1.7 took from `sessionPersistence`.
//!
//! Structs with the same fields are one struct, under the name that the Gateway API gives it. Enumerations are strings, so that
//! a value that is not known leaves the rest of the object readable; a list that is absent is an empty one; a required field
//! that is absent has its empty value, because manifests are read without an API server in front of them.
//!
//! Each kind implements [`k8s_openapi::Resource`] and [`k8s_openapi::Metadata`], as the built-in ones do. Nothing here judges an
//! object.

mod gateways;
mod kinds;
mod routes;

pub use gateways::*;
pub use kinds::*;
pub use routes::*;
