//! Error codes (RFC 9114 §8.1, RFC 9204 §6).

pub use fairway_http2::Scope;

/// A broken rule.
pub type Fault = fairway_http2::Fault<Code>;

fairway_http2::codes! {
    "An error code of HTTP/3 or QPACK (RFC 9114 §8.1, RFC 9204 §6).";
    /// H3_NO_ERROR: there is no error.
    NoError = 0x100, "no_error";
    /// H3_GENERAL_PROTOCOL_ERROR: a rule was broken and no other code fits.
    GeneralProtocol = 0x101, "general_protocol_error";
    /// H3_INTERNAL_ERROR: the sender failed.
    Internal = 0x102, "internal_error";
    /// H3_STREAM_CREATION_ERROR: the peer opened a stream that it must not open.
    StreamCreation = 0x103, "stream_creation_error";
    /// H3_CLOSED_CRITICAL_STREAM: a stream that the connection needs was closed.
    ClosedCriticalStream = 0x104, "closed_critical_stream";
    /// H3_FRAME_UNEXPECTED: a frame is not allowed now or on this stream.
    FrameUnexpected = 0x105, "frame_unexpected";
    /// H3_FRAME_ERROR: a frame has a bad layout or size.
    Frame = 0x106, "frame_error";
    /// H3_EXCESSIVE_LOAD: the peer causes too much work.
    ExcessiveLoad = 0x107, "excessive_load";
    /// H3_ID_ERROR: a stream or push id is used incorrectly.
    Id = 0x108, "id_error";
    /// H3_SETTINGS_ERROR: a SETTINGS frame breaks a rule.
    Settings = 0x109, "settings_error";
    /// H3_MISSING_SETTINGS: the control stream does not begin with SETTINGS.
    MissingSettings = 0x10a, "missing_settings";
    /// H3_REQUEST_REJECTED: the request was refused before any processing.
    RequestRejected = 0x10b, "request_rejected";
    /// H3_REQUEST_CANCELLED: the request or its response is no longer wanted.
    RequestCancelled = 0x10c, "request_cancelled";
    /// H3_REQUEST_INCOMPLETE: the request stream ended before the request was complete.
    RequestIncomplete = 0x10d, "request_incomplete";
    /// H3_MESSAGE_ERROR: a message is malformed.
    Message = 0x10e, "message_error";
    /// H3_CONNECT_ERROR: the connection of a CONNECT request failed.
    Connect = 0x10f, "connect_error";
    /// H3_VERSION_FALLBACK: the request must be repeated over HTTP/1.1.
    VersionFallback = 0x110, "version_fallback";
    /// QPACK_DECOMPRESSION_FAILED: a field section cannot be decoded.
    QpackDecompression = 0x200, "qpack_decompression_failed";
    /// QPACK_ENCODER_STREAM_ERROR: an instruction on the encoder stream breaks a rule.
    QpackEncoderStream = 0x201, "qpack_encoder_stream_error";
    /// QPACK_DECODER_STREAM_ERROR: an instruction on the decoder stream breaks a rule.
    QpackDecoderStream = 0x202, "qpack_decoder_stream_error";
}

impl Code {
    /// The code with this number. Unknown ones "MUST be treated as equivalent to H3_NO_ERROR" (RFC 9114 §9).
    #[must_use]
    pub fn from_number(number: u64) -> Code {
        Code::ALL.iter().copied().find(|code| code.number() == number).unwrap_or(Code::NoError)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_back_and_unknown_ones_mean_no_error() {
        for &code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), code);
        }
        for number in [0, 0x111, 0x203, 0x1f * 7 + 0x21, u64::MAX] {
            assert_eq!(Code::from_number(number), Code::NoError);
        }
    }
}
