//! Limits of a body's framing.

/// Limits of a chunked body besides its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes of a chunk line: the size and the extensions, which are dropped.
    pub chunk_line_bytes: u16,
    /// Bytes of the trailer section.
    pub trailer_bytes: u16,
    /// Bytes of all chunk lines with extensions, in addition to one for every 16 bytes of data.
    pub extension_bytes: u32,
}

impl Default for BodyLimits {
    fn default() -> Self {
        BodyLimits { chunk_line_bytes: 1024, trailer_bytes: 8 * 1024, extension_bytes: 16 * 1024 }
    }
}
