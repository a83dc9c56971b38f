//! The endpoints of backends as one worker sees them: health, load, idle connections, and which one gets the next
//! request.
//!
//! * [`group`]: the endpoints of one backend. It picks one for each attempt, from an endpoint picker's choice if there
//!   is one, and applies the backend's limits of attempts in flight and its ejection policy.
//! * [`endpoint`]: one address with its pool, shared by all groups that have it.
//! * [`health`]: the results of passive health checking.
//! * [`checks`]: the results of active health checks, shared by all workers.
//! * [`circuit`]: limits on what all workers together have in flight for a backend.
//! * [`concurrency`]: such a limit that adapts to response times.
//! * [`lease`]: one exchange's part of a pooled connection.
//! * [`idle_eviction`]: closes idle connections when descriptors run short.
//! * [`state`]: a copy of the state for observers.
//!
//! All of it belongs to one worker and outlives snapshots: a group follows its backend, an endpoint its address and
//! everything that makes two connections to it interchangeable. No group picks an endpoint that has as many attempts in
//! flight as its backend allows, and an attempt makes room however it ends. Nothing here connects or knows what a
//! request is.

pub mod checks;
pub mod circuit;
mod concurrency;
pub mod endpoint;
mod gate;
pub mod group;
pub mod health;
mod high_water;
pub mod idle_eviction;
pub mod lease;
pub mod state;

pub use checks::{CheckState, CheckedEndpoint, HealthChecks};
pub use circuit::{CircuitTotals, Circuits, ConnectionPermit, LimitReached, PendingRequest, RequestPermit};
pub use endpoint::{
    ConnectInProgress, ConnectOutcome, ConnectTicket, Endpoint, EndpointIdentity, PickReason, PickedEndpoint,
    PoolLimits,
};
pub use group::picked_endpoints::Picks;
pub use group::{Group, Groups, TriedMembers};
pub use health::Blame;
pub use idle_eviction::DescriptorRoom;
pub use lease::Lease;
pub use state::EndpointState;
