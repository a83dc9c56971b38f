//! Kubernetes objects by kind and name, the operator's options, and what both Ingress and Gateway API refer to: Services and
//! their endpoints, external names, certificates.
//!
//! [`kinds`] is the table of supported kinds; [`gateway_api`], [`inference`] and [`policies`] define the kinds that are not part
//! of Kubernetes. [`manifest`] decodes objects from YAML, and [`annotations`] the values that annotations and policies share.
//! [`resources::Resources`] stores the objects; [`diagnostic::Diagnostics`] their problems.
//!
//! [`backend`], [`endpoints`], [`certificate`] and [`external`] resolve references to Services, Secrets and names; `few`,
//! [`mod@slice`], [`pod`] and `lines` are compact representations of numerous objects.
//!
//! Pure: no I/O and no clock. It stores the objects of both APIs and interprets neither.

pub mod annotations;
pub mod backend;
pub mod backend_traffic;
pub mod balance;
pub mod buffering;
pub mod certificate;
pub mod certificate_issuer;
pub mod compression;
pub mod custom_resource;
pub mod diagnostic;
pub mod duration;
mod endpoints;
pub mod external;
pub mod external_processor;
pub mod few;
mod field;
pub mod gateway_api;
pub mod gateway_resources;
pub mod health;
pub mod identity;
pub mod inference;
pub mod inputs;
pub mod insertion_order;
mod key;
pub mod kinds;
mod lines;
pub mod manifest;
pub mod multicluster;
pub mod object;
pub mod options;
pub mod own_addresses;
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
