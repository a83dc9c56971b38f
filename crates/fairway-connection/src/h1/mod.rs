//! HTTP/1.x connections and their lingering close.

mod gather;
mod hop;
mod linger;

pub use hop::H1;
pub use linger::linger;
