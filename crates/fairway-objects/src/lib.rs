//! Kubernetes objects by kind and name, the operator's choices, and what Ingress and Gateway API both refer to: Services and
//! their endpoints, external names, certificates.
//!
//! [`kinds`] is the table of what is read; [`gateway_api`], [`inference`] and [`policies`] are the kinds that are no part of
//! Kubernetes itself. [`manifest`] reads objects from YAML, and [`annotations`] the values that annotations and policies share. [`resources::Resources`] keeps the objects;
//! [`diagnostic::Diagnostics`] what is wrong with them.
//!
//! [`backend`], [`endpoints`], [`certificate`] and [`external`] say what a reference to a Service, a Secret or a name leads to; `few`,
//! [`mod@slice`], [`pod`] and `lines` keep small what there is a lot of.
//!
//! Pure: no I/O and no clock. It keeps the objects of both APIs and judges neither.

pub mod annotations;
pub mod backend;
pub mod backend_traffic;
pub mod balance;
pub mod buffering;
pub mod certificate;
pub mod compression;
pub mod custom_resource;
pub mod diagnostic;
pub mod duration;
mod endpoints;
pub mod external;
pub mod external_processor;
pub mod few;
mod field;
pub mod filling;
pub mod gateway_api;
pub mod gateway_resources;
pub mod health;
pub mod identity;
pub mod inference;
pub mod inputs;
pub mod issued;
mod key;
pub mod kinds;
mod lines;
pub mod manifest;
pub mod multicluster;
pub mod object;
pub mod options;
pub mod own;
pub mod passwords;
pub mod placement;
pub mod pod;
pub mod policies;
mod pool;
pub mod references;
pub mod resources;
pub mod roots;
pub mod service;
pub mod service_url;
pub mod shared;
pub mod sign_in;
pub mod slice;
pub mod transport;
pub mod users;
