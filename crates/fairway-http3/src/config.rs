//! The configuration of a connection.

use fairway_http2::fields::Limits;

/// The settings of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Request streams served at the same time. Should equal `max_concurrent_bidi_streams` of the QUIC transport;
    /// further streams wait unread in QUIC.
    pub streams: u32,
    /// Limits of a head; also SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 §4.2.2).
    pub limits: Limits,
    /// Whether to offer extended CONNECT (RFC 9220).
    pub extended_connect: bool,
    /// Bytes of the dynamic table that the client's encoder may use (SETTINGS_QPACK_MAX_TABLE_CAPACITY, RFC 9204 §5), at most
    /// 32,768; 0 for no dynamic table.
    pub qpack_table: u32,
    /// Streams that may wait for insertions into the dynamic table (SETTINGS_QPACK_BLOCKED_STREAMS, RFC 9204 §5).
    pub blocked_streams: u32,
    /// Bytes of incomplete heads that the connection may buffer. Streams that would need more are reset with
    /// H3_REQUEST_REJECTED.
    pub head_memory: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            streams: 100,
            limits: Limits::default(),
            extended_connect: false,
            qpack_table: 4096,
            blocked_streams: 16,
            head_memory: 512 * 1024,
        }
    }
}
