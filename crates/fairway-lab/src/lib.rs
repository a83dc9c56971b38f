//! The laboratory: what stands around a proxy when it is tried out or measured. So far the echo backend.
//!
//! Never uses a crate of the proxy: one parser bug must not blind both sides.

pub mod echo;
