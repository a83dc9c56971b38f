//! The endpoints of backends as one worker knows them: their health, their load, the idle connections to them, and who gets
//! the next request.
//!
//! * [`group`]: the endpoints of one backend. It picks one for each attempt, from those that somebody else picked for
//!   the request where there are some, and keeps to what the backend says of its traffic: how many requests an endpoint may have under way, and what ejects one.
//! * [`endpoint`]: one address, shared by all groups that have it, with its pool.
//! * [`health`]: what failures say of it.
//! * [`checks`]: what health checks say of it, to all workers.
//! * [`circuit`]: what all workers together may have under way with a backend that limits it.
//! * [`concurrency`]: a limit of those that moves with how long responses take.
//! * [`lease`]: one exchange's worth of a connection, which the pool lends.
//! * [`room`]: idle connections give way when descriptors run short.
//! * [`state`]: what of all this others may look at.
//!
//! All of it belongs to one worker and outlives snapshots: a group follows its backend, an endpoint its address and
//! everything that makes two connections to it alike. No group chooses an endpoint that has as many attempts
//! under way as its backend allows, and an attempt that ends, however it does, makes room. Nothing here connects, and nothing knows what a request is.

pub mod checks;
pub mod circuit;
mod concurrency;
pub mod endpoint;
mod gate;
pub mod group;
pub mod health;
mod high_water;
pub mod lease;
pub mod room;
pub mod state;

pub use checks::{CheckState, Checked, Checks};
pub use circuit::{Circuits, ConnectionPlace, Full, Pending, RequestPlace, UnderWay};
pub use endpoint::{Awaited, Chosen, Endpoint, EndpointIdentity, Errand, Opened, PoolLimits, Underway};
pub use group::picks::Picks;
pub use group::{Group, Groups, Tried};
pub use health::Blame;
pub use lease::Lease;
pub use room::Room;
pub use state::EndpointState;
