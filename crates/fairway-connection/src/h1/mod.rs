//! HTTP/1.x: the hop, and how its last answer is received.

mod gather;
mod hop;
mod linger;

pub use hop::H1;
pub use linger::linger;
