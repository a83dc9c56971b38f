//! What is wrong with what a peer sent: the error codes of RFC 9113 §7, and how far an error reaches in HTTP/2 and HTTP/3. Never
//! decides what to send.

/// Declares the error codes of a version of HTTP with their metric labels.
#[doc(hidden)]
#[macro_export]
macro_rules! codes {
    ($about:literal; $($(#[$doc:meta])* $name:ident = $number:literal, $label:literal;)+) => {
        #[doc = $about]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Code {
            $($(#[$doc])* $name = $number,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name),+];

            /// The metric label.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Code::$name => $label,)+ }
            }
        }
    };
}

codes! {
    "An error code (RFC 9113 §7).";
    /// There is no error.
    NoError = 0, "no_error";
    /// A rule of the protocol is broken and no other code fits.
    Protocol = 1, "protocol_error";
    /// The sender failed.
    Internal = 2, "internal_error";
    /// A flow-control rule is broken.
    FlowControl = 3, "flow_control_error";
    /// SETTINGS were not acknowledged in time.
    SettingsTimeout = 4, "settings_timeout";
    /// A frame came on a stream that was half-closed.
    StreamClosed = 5, "stream_closed";
    /// A frame has a length that its type cannot have.
    FrameSize = 6, "frame_size_error";
    /// The stream was refused before anything was done with it.
    Refused = 7, "refused_stream";
    /// The stream is no longer wanted.
    Cancel = 8, "cancel";
    /// The compression state can no longer be kept.
    Compression = 9, "compression_error";
    /// A tunnel broke.
    Connect = 10, "connect_error";
    /// The peer makes too much work.
    EnhanceYourCalm = 11, "enhance_your_calm";
    /// The transport is not safe enough.
    InadequateSecurity = 12, "inadequate_security";
    /// The request wants HTTP/1.1.
    Http11Required = 13, "http_1_1_required";
}

impl Code {
    /// The code of this number. An unknown one "MUST NOT trigger any special behavior" and may be taken for
    /// INTERNAL_ERROR (RFC 9113 §7).
    #[must_use]
    pub const fn of(number: u32) -> Code {
        if number < Code::ALL.len() as u32 { Code::ALL[number as usize] } else { Code::Internal }
    }
}

/// How far an error reaches (RFC 9113 §5.4, RFC 9114 §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The connection ends.
    Connection,
    /// One stream ends.
    Stream,
}

/// A broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault<C = Code> {
    /// How far it reaches.
    pub scope: Scope,
    /// The code that the peer gets.
    pub code: C,
    /// Which rule, in one or two words for logs and metrics; one of a bounded number.
    pub rule: &'static str,
}

impl<C> Fault<C> {
    /// An error of the connection.
    #[must_use]
    pub const fn connection(code: C, rule: &'static str) -> Self {
        Fault { scope: Scope::Connection, code, rule }
    }

    /// An error of a stream.
    #[must_use]
    pub const fn stream(code: C, rule: &'static str) -> Self {
        Fault { scope: Scope::Stream, code, rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbered_in_order_and_unknown_ones_are_internal_errors() {
        for (number, &code) in Code::ALL.iter().enumerate() {
            assert_eq!(code as usize, number);
            assert_eq!(Code::of(code as u32), code);
        }
        assert_eq!(Code::of(14), Code::Internal);
        assert_eq!(Code::of(u32::MAX), Code::Internal);
    }
}
