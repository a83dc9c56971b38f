//! What one exchange writes on: reused from exchange to exchange, so that none of it is allocated again.

use std::net::IpAddr;

use fairway_message::Head;
use fairway_runtime::counts::UnderWay;
use fairway_runtime::spares::Spare;

use crate::request::body::RequestBody;

/// Buffers of one exchange.
pub(crate) struct Buffers {
    /// The request's head; filters edit it.
    pub(crate) request: Head,
    /// The answer's head; filters edit it.
    pub(crate) answer: Head,
    /// Who asks.
    pub(crate) parties: Parties,
    /// The host that routes: lower case, without port.
    pub(crate) host: String,
    /// Path and query, when the target is absolute.
    pub(crate) origin: Vec<u8>,
    /// The normalised path, when it differs from the one received.
    pub(crate) normalised: Vec<u8>,
    /// The decoded path, when it differs from the one received.
    pub(crate) decoded: Vec<u8>,
    /// The target that is forwarded, when a rewrite made one.
    pub(crate) target: Vec<u8>,
    /// The request's body on its way.
    pub(crate) body: RequestBody,
    /// What is held of the request's body for another attempt.
    pub(crate) replay: Vec<u8>,
    /// The body of an answer that Fairway makes, or a header value in the making.
    pub(crate) text: Vec<u8>,
    /// Where the exchange is counted as being under way.
    pub(crate) under_way: Vec<UnderWay>,
}

/// Who asks, as the access log shows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parties {
    /// The client, once trust is settled.
    pub(crate) client: Option<IpAddr>,
    /// Who sent the bytes, where that is not what the transport says the client is.
    pub(crate) sender: Option<IpAddr>,
}

impl Buffers {
    /// The bytes of all buffers that a worker keeps.
    pub(crate) const SPARE_BYTES: usize = 8 * 1024 * 1024;

    /// Vectors above this size are not kept.
    const MOST: usize = 16 * 1024;
    /// Heads above this size are not kept: one of the default limit just fits.
    const MOST_OF_A_HEAD: usize = 64 * 1024;

    /// Empties it for the next exchange and frees what grew large.
    pub(crate) fn trim(&mut self) {
        for head in [&mut self.request, &mut self.answer] {
            if head.kept_bytes() > Self::MOST_OF_A_HEAD {
                *head = Head::new();
            }
            head.clear();
        }
        self.host.clear();
        self.under_way.clear();
        self.body.drop_copies();
        let Self { origin, normalised, decoded, target, replay, text, .. } = self;
        for bytes in [origin, normalised, decoded, target, replay, text] {
            bytes.clear();
            bytes.shrink_to(Self::MOST);
        }
    }
}

impl Spare for Box<Buffers> {
    fn kept_bytes(&self) -> usize {
        let Buffers { request, answer, host, origin, normalised, decoded, target, replay, text, .. } =
            &**self;
        let vectors = [origin, normalised, decoded, target, replay, text].map(Vec::capacity);
        size_of::<Buffers>()
            + request.kept_bytes()
            + answer.kept_bytes()
            + host.capacity()
            + vectors.iter().sum::<usize>()
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            request: Head::new(),
            answer: Head::new(),
            parties: Parties::default(),
            host: String::new(),
            origin: Vec::new(),
            normalised: Vec::new(),
            decoded: Vec::new(),
            target: Vec::new(),
            body: RequestBody::default(),
            replay: Vec::new(),
            text: Vec::new(),
            under_way: Vec::new(),
        }
    }
}
