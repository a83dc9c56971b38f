//! The bodies of responses. Values only.

use fairway_lab_traffic::call;

/// The size of a path's response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Body {
    Kilobyte,
    Megabyte,
    /// `ok` and the end of a line, at this path alone.
    Health,
    /// A gRPC message, in response to a small one.
    Message,
    /// A datagram that is echoed.
    Datagram,
}

impl Body {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Kilobyte => "/1kb.bin",
            Self::Megabyte => "/1mb.bin",
            Self::Health => "/healthz",
            Self::Message => call::PATH,
            Self::Datagram => "",
        }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Kilobyte => 1 << 10,
            Self::Megabyte => 1 << 20,
            Self::Health => 3,
            Self::Message => call::RESPONSE,
            Self::Datagram => 100,
        }
    }
}
