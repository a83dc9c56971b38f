//! Translates Gateway API objects into parts of a [`fairway_model::Config`] and object statuses.
//!
//! [`Gateways`] keeps the translation up to date: it reads classes ([`class`]), Gateways with their ListenerSets
//! ([`gateway`], from [`listener`]s, without those in [`conflict`]), and routes ([`route`]), attaches routes to
//! listeners ([`attach`]) and turns them into [`rules`]. The results are object statuses ([`status`]), the needs of
//! Gateways ([`requirements`]), and [`translation::ConfigChanges`]; the caller creates backends and certificates, together
//! with those of Ingresses. Fairway's own policies ([`policy`], read by [`policies`]) configure listeners
//! ([`client_traffic`]), backends, and the access control and extensions of requests ([`guards`]). A [`pool`] is a
//! backend whose endpoints a service picks. [`fleet`] describes the cluster resources of each Gateway.
//!
//! A rule that cannot be served closes its requests or matches none, and affects no other rule. A SecurityPolicy that
//! cannot be enforced closes what it protects, and a policy of another namespace opens nothing. An ExtensionPolicy
//! states for each service whether a failure closes or opens. A status update preserves what other controllers wrote,
//! and a Service that its Gateway does not own is never touched.
//!
//! Pure, total and deterministic: no I/O, no clock, and no object can make the whole translation fail.

mod attach;
mod authority;
mod backend;
mod class;
mod client_traffic;
mod condition;
mod conflict;
pub mod features;
mod filter;
pub mod fleet;
mod frontend;
mod gateway;
mod gateway_status;
mod grant;
mod guards;
mod hostname;
mod http_route_filter;
mod listener;
mod listening;
mod matches;
mod namespaces;
mod naming;
mod parameters;
mod pattern_budget;
mod placement;
mod policies;
mod policy;
mod pool;
mod release;
mod requirements;
mod route;
mod rules;
mod shared;
mod snapshot;
mod stage;
mod state;
mod status;
mod tls_policy;
mod translation;
mod update;
mod work;

pub use condition::Condition;
pub use listener::CertificateState;
pub use naming::{Naming, ReferenceChange};
pub use placement::ServicePort;
pub use requirements::{PortTransport, WantedAddress, WantedGateway};
pub use state::Gateways;
pub use status::{
    ClassStatus, GatewayStatus, ListenerSetStatus, ListenerStatus, ObjectStatus, OwnStatus, ParentStatus,
};
pub use translation::{ConfigChanges, GatewayTranslation};
pub use work::Work;
