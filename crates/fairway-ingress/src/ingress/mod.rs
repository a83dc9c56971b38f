//! The Ingress API with the annotations of ingress-nginx.
//!
//! An Ingress is selected by its class ([`class`]) and read by itself, with its annotations ([`read`],
//! [`annotations`]). On each of its hosts it is combined with other Ingresses ([`ownership`], [`layout`],
//! [`sharing`]) into a virtual host ([`host`], [`rules`]).

pub(crate) mod aliases;
pub(crate) mod annotations;
pub(crate) mod auth_cache;
pub(crate) mod canary;
pub(crate) mod class;
pub(crate) mod closed;
pub(crate) mod compat;
pub(crate) mod compression;
pub(crate) mod context;
pub(crate) mod contributions;
pub(crate) mod defaults;
pub(crate) mod errors;
pub(crate) mod external_auth;
pub(crate) mod fairway_annotations;
mod firewall;
pub(crate) mod host;
pub(crate) mod host_certificate;
pub(crate) mod identity;
pub(crate) mod layout;
pub(crate) mod location;
pub(crate) mod old_api;
pub(crate) mod order;
pub(crate) mod ownership;
pub(crate) mod passthrough;
pub(crate) mod pattern;
pub(crate) mod read;
pub(crate) mod reader;
pub(crate) mod referenced;
pub(crate) mod references;
pub(crate) mod rules;
pub(crate) mod served;
pub(crate) mod settings;
pub(crate) mod shared_hosts;
pub(crate) mod shared_service;
pub(crate) mod sharing;
mod snippets;
pub(crate) mod span_name;
pub(crate) mod to_https;
pub(crate) mod trust;
pub(crate) mod validation;
pub(crate) mod values;
