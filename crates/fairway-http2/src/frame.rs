//! Frames (RFC 9113 §4, §6): headers, the rule of each type, payloads in and out. Never knows which streams there are.

mod payload;
mod rules;
mod write;

pub use payload::{Block, block, go_away, payload, priority, priority_update, settings, word};
pub use rules::{Header, Kind, judge};
pub use write::{Setting, write_data_header, write_frame, write_go_away, write_ping, write_priority_update};
pub use write::{write_reset, write_settings, write_settings_ack, write_window_update};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 9;

/// The last frame of a stream's direction (DATA, HEADERS).
pub const END_STREAM: u8 = 0x1;
/// An answer to SETTINGS or PING.
pub const ACK: u8 = 0x1;
/// The last frame of a field block.
pub const END_HEADERS: u8 = 0x4;
/// The payload begins with the length of its padding.
pub const PADDED: u8 = 0x8;
/// HEADERS with the deprecated priority.
pub const PRIORITY: u8 = 0x20;

/// The largest frame that every endpoint takes (RFC 9113 §4.2), and the largest that we take.
pub const FRAME_BYTES: u32 = 16_384;

#[cfg(test)]
mod tests;
