//! Connections of HTTP/2 to endpoints as the pool keeps them, in virtual time: when they are asked whether somebody is there,
//! when they are let go, and what resets do to them.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]
