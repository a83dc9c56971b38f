//! HTTP/1.x connections and their lingering close.

mod chunk_joiner;
mod hop;
mod linger;

pub use hop::H1;
pub use linger::linger;
