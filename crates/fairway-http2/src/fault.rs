//! Protocol errors: the codes of RFC 9113 §7 and the scope of an error, for HTTP/2 and HTTP/3. Does not decide what to
//! send.

/// Declares the error codes of an HTTP version with their metric labels.
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
    /// A flow-control rule was broken.
    FlowControl = 3, "flow_control_error";
    /// SETTINGS were not acknowledged in time.
    SettingsTimeout = 4, "settings_timeout";
    /// A frame arrived on a half-closed stream.
    StreamClosed = 5, "stream_closed";
    /// A frame has a length that its type does not allow.
    FrameSize = 6, "frame_size_error";
    /// The stream was refused before any processing.
    Refused = 7, "refused_stream";
    /// The stream is no longer wanted.
    Cancel = 8, "cancel";
    /// The compression state cannot be maintained.
    Compression = 9, "compression_error";
    /// A tunnel failed.
    Connect = 10, "connect_error";
    /// The peer causes too much work.
    EnhanceYourCalm = 11, "enhance_your_calm";
    /// The transport is not secure enough.
    InadequateSecurity = 12, "inadequate_security";
    /// The request requires HTTP/1.1.
    Http11Required = 13, "http_1_1_required";
}

impl Code {
    /// The code with this number. An unknown one "MUST NOT trigger any special behavior" and may be treated as
    /// INTERNAL_ERROR (RFC 9113 §7).
    #[must_use]
    pub const fn from_number(number: u32) -> Code {
        if number < Code::ALL.len() as u32 { Code::ALL[number as usize] } else { Code::Internal }
    }
}

/// The scope of an error (RFC 9113 §5.4, RFC 9114 §8).
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
    /// Its scope.
    pub scope: Scope,
    /// The code to send to the peer.
    pub code: C,
    /// The rule, in one or two words for logs and metrics; from a bounded set.
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
            assert_eq!(Code::from_number(code as u32), code);
        }
        assert_eq!(Code::from_number(14), Code::Internal);
        assert_eq!(Code::from_number(u32::MAX), Code::Internal);
    }
}
