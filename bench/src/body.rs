//! What requests carry and what they are answered with. Values only.

/// How much a path answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Body {
    Kilobyte,
    Megabyte,
    /// A message of gRPC, in answer to a small one.
    Message,
}

/// The message of a call: not compressed, 100 bytes.
pub(crate) const CALLED_WITH: [u8; 105] = {
    let mut message = [b'x'; 105];
    message[0] = 0;
    message[1] = 0;
    message[2] = 0;
    message[3] = 0;
    message[4] = 100;
    message
};

impl Body {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Kilobyte => "/k",
            Self::Megabyte => "/m",
            Self::Message => "/bench.Bench/Call",
        }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Kilobyte | Self::Message => 1 << 10,
            Self::Megabyte => 1 << 20,
        }
    }
}
