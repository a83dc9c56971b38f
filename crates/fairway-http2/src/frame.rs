//! Frames (RFC 9113 §4, §6): headers, the rules of each type, reading and writing payloads. Knows no streams.

mod payload;
mod rules;
mod write;

pub use payload::{
    Block, check_priority, first_u32, go_away, headers_payload, priority_update, settings, strip_padding,
};
pub use rules::{
    FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FLAG_PADDED, FLAG_PRIORITY, HEADER_BYTES, MAX_FRAME_BYTES,
};
pub use rules::{FrameKind, Header, check_header};
pub use write::{Setting, write_data_header, write_frame, write_go_away, write_ping, write_priority_update};
pub use write::{write_reset, write_settings, write_settings_ack, write_window_update};

#[cfg(test)]
mod tests;
