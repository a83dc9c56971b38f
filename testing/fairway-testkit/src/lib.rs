//! For tests only: what stands around Fairway in a wire test or an end-to-end test.
//!
//! Owns raw clients, scripted backends, an API server, certificates, manifest fixtures, golden files and the started binary. Never
//! uses a parser of Fairway (one parser bug must not blind both sides) and never sleeps for luck: everything waits for a condition
//! with a deadline. What keeps a test from going on, such as a deadline that passes, is a panic that says why.

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

pub use backend::{Answer, Backend, Behaviour, RecordedRequest, Step};
pub use certificates::{Authority, KeyKind, Leaf};
pub use client::{Client, RawResponse, Request};
pub use manifests::Manifests;
pub use process::{Fairway, Program};
pub use wait::{eventually, free_port};
