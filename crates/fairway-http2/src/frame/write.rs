//! Writes frames.

use super::rules::{FLAG_ACK, FLAG_END_STREAM, FrameKind, Header};
use crate::fault::Code;

/// The supported settings (RFC 9113 §6.5.2, RFC 8441 §3, RFC 9218 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Setting {
    /// Bytes of the dynamic table.
    HeaderTableSize = 1,
    /// Whether a server may push.
    EnablePush = 2,
    /// Streams that the other side may open.
    MaxConcurrentStreams = 3,
    /// The window of a new stream.
    InitialWindowSize = 4,
    /// The largest payload.
    MaxFrameSize = 5,
    /// The largest list of fields.
    MaxHeaderListSize = 6,
    /// Whether `:protocol` is supported.
    EnableConnectProtocol = 8,
    /// Whether the priorities of RFC 7540 are ignored.
    NoRfc7540Priorities = 9,
}

impl Setting {
    /// The setting with this number; unknown ones are ignored (RFC 9113 §6.5.2).
    #[must_use]
    pub const fn from_number(number: u16) -> Option<Setting> {
        Some(match number {
            1 => Setting::HeaderTableSize,
            2 => Setting::EnablePush,
            3 => Setting::MaxConcurrentStreams,
            4 => Setting::InitialWindowSize,
            5 => Setting::MaxFrameSize,
            6 => Setting::MaxHeaderListSize,
            8 => Setting::EnableConnectProtocol,
            9 => Setting::NoRfc7540Priorities,
            _ => return None,
        })
    }
}

/// Appends a frame.
#[inline]
pub fn write_frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let header = Header { length: payload.len() as u32, kind: kind.number(), flags, stream };
    out.extend_from_slice(&header.bytes());
    out.extend_from_slice(payload);
}

/// Appends the header of a DATA frame of this length.
#[inline]
pub fn write_data_header(stream: u32, length: usize, end: bool, out: &mut Vec<u8>) {
    let flags = if end { FLAG_END_STREAM } else { 0 };
    let header = Header { length: length as u32, kind: FrameKind::Data.number(), flags, stream };
    out.extend_from_slice(&header.bytes());
}

/// Appends SETTINGS.
pub fn write_settings(settings: &[(Setting, u32)], out: &mut Vec<u8>) {
    let length = settings.len() as u32 * 6;
    let header = Header { length, kind: FrameKind::Settings.number(), flags: 0, stream: 0 };
    out.extend_from_slice(&header.bytes());
    for &(setting, value) in settings {
        out.extend_from_slice(&(setting as u16).to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of SETTINGS.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write_frame(FrameKind::Settings, FLAG_ACK, 0, &[], out);
}

/// Appends PING or its acknowledgement.
pub fn write_ping(payload: [u8; 8], ack: bool, out: &mut Vec<u8>) {
    write_frame(FrameKind::Ping, if ack { FLAG_ACK } else { 0 }, 0, &payload, out);
}

/// Appends RST_STREAM.
pub fn write_reset(stream: u32, code: Code, out: &mut Vec<u8>) {
    write_frame(FrameKind::Reset, 0, stream, &(code as u32).to_be_bytes(), out);
}

/// Appends WINDOW_UPDATE.
#[inline]
pub fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    write_frame(FrameKind::WindowUpdate, 0, stream, &increment.to_be_bytes(), out);
}

/// Appends GOAWAY with the broken rule, if any, as debug data.
pub fn write_go_away(last: u32, code: Code, rule: &str, out: &mut Vec<u8>) {
    let header =
        Header { length: 8 + rule.len() as u32, kind: FrameKind::GoAway.number(), flags: 0, stream: 0 };
    out.extend_from_slice(&header.bytes());
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
    out.extend_from_slice(rule.as_bytes());
}

/// Appends PRIORITY_UPDATE.
pub fn write_priority_update(stream: u32, priority: &[u8], out: &mut Vec<u8>) {
    let length = 4 + priority.len() as u32;
    let header = Header { length, kind: FrameKind::PriorityUpdate.number(), flags: 0, stream: 0 };
    out.extend_from_slice(&header.bytes());
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(priority);
}
