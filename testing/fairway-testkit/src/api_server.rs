//! An API server for tests and benchmarks. It serves, lists and watches its objects, in pages and as streams, and accepts
//! creates, updates and merge patches. Tests choose which requests fail and how. Without Roles, everything is permitted. It
//! validates no objects.
//!
//! It needs no socket: a test with virtual time passes its client's requests to [`ApiServer::request`]. [`ListeningServer`]
//! serves separate processes; it also forwards pod ports and serves pod logs.

mod access;
mod discovery;
mod faults;
mod kubelet;
mod listening;
mod objects;
mod port_forward;
mod request;
mod responses;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod watch;

pub use discovery::{Definition, GATEWAY_API, INFERENCE_EXTENSION, POLICIES};
pub use faults::{Failure, Listing, Network};
pub use kubelet::{FORWARD_TO, PRINTED};
pub use listening::ListeningServer;
pub use request::ApiRequest;
pub use responses::{Page, note_writer};
pub use server::{ApiResponse, ApiServer};
pub use watch::Watch;
