//! The request: its checks, its client, the headers that are forwarded, and its body.

pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod copy;
pub(crate) mod fields;
pub(crate) mod validation;
