//! Gateway API objects in, pieces of [`fairway_model::Config`] and exact statuses out.
//!
//! [`Gateways`] keeps the translation up to date: it reads classes ([`class`]), Gateways with their ListenerSets
//! ([`gateway`], from [`listener`]s, without those in [`conflict`]), and routes ([`route`]), which it attaches to
//! listeners ([`attach`]) and turns into [`rules`]. What it finds is the status of each object ([`status`]), what
//! Gateways need ([`wanted`]), and [`translation::Pieces`] of the configuration; backends and certificates are made
//! by whoever owns them together with those of Ingresses. Policies
//! of Fairway's own ([`policy`], read by [`policies`]) say more about the clients of listeners ([`client_traffic`]), about backends,
//! and who may pass and which services see requests ([`guards`]). A [`pool`] has endpoints among which a service of its own picks.
//! [`fleet`] is what the cluster needs for each Gateway.
//!
//! A rule that cannot be served closes its requests or matches none, and affects no other rule. A SecurityPolicy that cannot be served
//! closes what it protects, and one of another namespace opens nothing. A service of an ExtensionPolicy that cannot be asked closes or opens
//! as it says itself. A status says nothing for others, and leaves what others
//! wrote as it is; a Service that its Gateway does not own is never touched.
//!
//! Pure, total and deterministic: no I/O, no clock, and no object can make the whole fail.

mod afford;
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
mod noted;
mod parameters;
mod place;
mod policies;
mod policy;
mod pool;
mod release;
mod route;
mod rules;
mod shared;
mod stage;
mod state;
mod status;
mod tls_policy;
mod translation;
mod update;
mod wanted;
mod work;

pub use condition::Condition;
pub use listener::Certified;
pub use naming::{Naming, Noticed};
pub use place::ServicePort;
pub use state::Gateways;
pub use status::{
    ClassStatus, GatewayStatus, ListenerSetStatus, ListenerStatus, ObjectStatus, OwnStatus, ParentStatus,
};
pub use translation::{GatewayTranslation, Pieces};
pub use wanted::{PortTransport, WantedAddress, WantedGateway};
pub use work::Work;
