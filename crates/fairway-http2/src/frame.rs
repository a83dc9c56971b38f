//! Frames (RFC 9113 §4, §6): headers, the rule of each type, payloads in and out. Never knows which streams there are.

mod payload;
mod rules;
mod write;

pub use payload::{Block, block, go_away, payload, priority, priority_update, settings, word};
pub use rules::{ACK, END_HEADERS, END_STREAM, FRAME_BYTES, HEADER_BYTES, PADDED, PRIORITY};
pub use rules::{Header, Kind, judge};
pub use write::{Setting, write_data_header, write_frame, write_go_away, write_ping, write_priority_update};
pub use write::{write_reset, write_settings, write_settings_ack, write_window_update};

#[cfg(test)]
mod tests;
