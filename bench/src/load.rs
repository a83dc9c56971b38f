//! The load generator: a closed loop of N connections on one thread, every answer checked for status and exact length.
//!
//! `answer` reads answers, `connection` is one socket with or without TLS, `failure` names what goes wrong,
//! `generator` is the loop, `tls` the client's side of the handshake. Nothing here knows which proxy it talks to.

mod answer;
mod connection;
mod failure;
mod generator;
mod tls;

pub(crate) use generator::{Generator, Plan, Tally};
pub(crate) use tls::client;
