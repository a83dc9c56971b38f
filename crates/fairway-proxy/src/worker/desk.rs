//! What one exchange writes on: reused from exchange to exchange, so that none of it is allocated again.

use std::net::IpAddr;

use fairway_http1::Head;

/// Buffers of one exchange.
pub(crate) struct Desk {
    /// The request's head; filters edit it.
    pub(crate) request: Head,
    /// The answer's head; filters edit it.
    pub(crate) answer: Head,
    /// Who asks.
    pub(crate) parties: Parties,
    /// The host that routes: lower case, without port.
    pub(crate) host: String,
    /// The normalised path, when it differs from the one received.
    pub(crate) normalised: Vec<u8>,
    /// The decoded path, when it differs from the one received.
    pub(crate) decoded: Vec<u8>,
    /// The target that is forwarded, when a rewrite made one.
    pub(crate) target: Vec<u8>,
    /// What is held of the request's body for another attempt.
    pub(crate) replay: Vec<u8>,
    /// The body of an answer that Fairway makes, or a header value in the making.
    pub(crate) text: Vec<u8>,
}

/// Who asks, as the access log shows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parties {
    /// The client, once trust is settled.
    pub(crate) client: Option<IpAddr>,
    /// Who sent the bytes, where that is not what the transport says the client is.
    pub(crate) sender: Option<IpAddr>,
}

impl Desk {
    /// How many a worker keeps.
    pub(crate) const SPARES: usize = 1024;

    /// Vectors above this size are not kept.
    const MOST: usize = 16 * 1024;

    /// Empties it for the next exchange and frees what grew large.
    pub(crate) fn trim(&mut self) {
        self.request.clear();
        self.answer.clear();
        self.host.clear();
        let Self { normalised, decoded, target, replay, text, .. } = self;
        for bytes in [normalised, decoded, target, replay, text] {
            bytes.clear();
            bytes.shrink_to(Self::MOST);
        }
    }
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            request: Head::new(),
            answer: Head::new(),
            parties: Parties::default(),
            host: String::new(),
            normalised: Vec::new(),
            decoded: Vec::new(),
            target: Vec::new(),
            replay: Vec::new(),
            text: Vec::new(),
        }
    }
}
