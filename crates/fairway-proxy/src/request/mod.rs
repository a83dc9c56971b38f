//! A request before anything acts on it: checked once, who asks for it, which of its fields go on, and its body.

pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod copy;
pub(crate) mod fields;
pub(crate) mod intake;
