//! For tests only: everything around Fairway in a wire test or an end-to-end test.
//!
//! Owns raw clients, scripted backends, an API server, certificates, manifest fixtures, golden files and the started
//! binary. Uses no parser of Fairway, so that one parser bug cannot hide on both sides, and never relies on sleeps:
//! everything waits for a condition with a deadline. A condition that fails panics with the reason.

pub mod api_server;
pub mod backend;
pub mod certificates;
pub mod client;
pub mod golden;
pub mod json_schema;
pub mod manifests;
pub mod mmdb;
pub mod ocsp;
pub mod process;
pub mod proof;
mod stream;
pub mod tokens;
pub mod wait;
pub mod wire;

pub use backend::{Backend, BackendResponse, Behaviour, RecordedRequest, ScriptStep};
pub use certificates::{Authority, KeyKind, Leaf};
pub use client::{Client, RawResponse, Request};
pub use manifests::Manifests;
pub use process::{Fairway, Program};
pub use wait::{eventually, free_port};
