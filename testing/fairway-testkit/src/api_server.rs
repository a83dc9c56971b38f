//! An API server for tests and benchmarks: it gives, lists and watches the objects that it has, in pages and as streams, and takes
//! new ones, updates and merge patches. A test says which requests fail, and how. Without Roles everybody may do everything. Knows
//! no rule of any kind of object.
//!
//! It needs no socket: a test whose time is virtual passes the requests of its client to [`ApiServer::request`]. A
//! [`ListeningServer`] is for programs that run as processes; it forwards ports of pods, and has what they printed.

mod access;
mod answers;
mod discovery;
mod faults;
mod kubelet;
mod listening;
mod objects;
mod port_forward;
mod request;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod watch;

pub use answers::{Page, note_writer};
pub use discovery::{Definition, GATEWAY_API, INFERENCE_EXTENSION, POLICIES};
pub use faults::{Failure, Listing, Network};
pub use kubelet::{FORWARD_TO, PRINTED};
pub use listening::ListeningServer;
pub use request::ApiRequest;
pub use server::{Answer, ApiServer};
pub use watch::Watch;
