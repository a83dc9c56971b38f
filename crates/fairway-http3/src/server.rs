//! The server end of a connection. Its methods are in `poll`, `head`, `body`, `response`, `order` and `close`.

mod body;
mod close;
mod head;
mod order;
mod poll;
mod response;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fairway_http2::{PeerEvent, Priority};
use quinn_proto::StreamId;

use crate::code::Fault;
use crate::config::Config;
use crate::event::Event;
use crate::local::LocalStreams;
use crate::requests::{RequestState, Requests};
use crate::shared::ConnectionShared;
use crate::unidirectional::ClientUniStreams;

/// A connection that a client opened.
///
/// Every call gets the QUIC connection, which must always be the same one. After any call, QUIC may have something to
/// send (`Connection::poll_transmit`).
#[derive(Debug)]
pub struct Server {
    shared: ConnectionShared,
    requests: Requests,
    local: LocalStreams,
    unidirectional: ClientUniStreams,
    /// Streams that QUIC accepts data for again, and whose owner was not told yet.
    sendable: Vec<StreamId>,
    /// The stream that was last reported as writable, until it sends or `poll` has nothing more to report.
    last_served: Option<StreamId>,
    /// Events caused by calls other than `poll`.
    events: VecDeque<Event>,
    /// A connection error that `poll` will report.
    fault: Option<Fault>,
    state: ConnectionState,
    going: Shutdown,
    /// Request streams accepted from QUIC.
    accepted: u64,
    /// Priorities of streams that have not arrived (RFC 9218 §7.2), newest last.
    early_priorities: Vec<(u64, Priority)>,
    polled_at: Option<Instant>,
    /// Whether the client had received everything as of the last `poll`.
    delivered: bool,
}

/// Whether the connection is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    Open,
    /// Closed or lost, and reported to the owner.
    Closed,
}

/// The state of a graceful shutdown (RFC 9114 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    No,
    /// The first GOAWAY was sent.
    Announced,
    /// Streams from this index on are rejected.
    Final(u64),
}

/// Priorities kept for streams that have not arrived.
const MAX_EARLY_PRIORITIES: usize = 16;

impl Server {
    /// For a new connection. The first possible call of [`Server::poll`] sends the control stream and SETTINGS.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Server {
            shared: ConnectionShared::new(config),
            requests: Requests::default(),
            local: LocalStreams::new(&config),
            unidirectional: ClientUniStreams::default(),
            sendable: Vec::new(),
            last_served: None,
            events: VecDeque::new(),
            fault: None,
            state: ConnectionState::Open,
            going: Shutdown::No,
            accepted: 0,
            early_priorities: Vec::new(),
            polled_at: None,
            delivered: false,
        }
    }

    /// A unique number of a stream that was reported and not released, below [`Config::streams`].
    #[must_use]
    pub fn slot(&self, stream: StreamId) -> Option<usize> {
        let slot = self.requests.slot(stream)?;
        let life = self.requests.get(stream)?.life;
        matches!(life, RequestState::Live | RequestState::Over).then_some(slot)
    }

    /// The number of streams reported and not released.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.requests
            .iter()
            .filter(|record| matches!(record.life, RequestState::Live | RequestState::Over))
            .count()
    }

    /// The oldest stream with an incomplete head, for a timeout.
    #[must_use]
    pub fn incomplete_head(&self) -> Option<StreamId> {
        let opening = self.requests.iter().filter(|record| record.life == RequestState::Opening);
        opening.map(|record| record.id).min_by_key(|id| id.index())
    }

    /// When an unreleased stream arrived: when [`Server::poll`] first saw it.
    #[must_use]
    pub fn arrived_at(&self, stream: StreamId) -> Option<Instant> {
        let record = self.requests.get(stream)?;
        Some(self.polled_at? + Duration::from_micros(record.arrived))
    }

    /// The priority of a stream's response: from PRIORITY_UPDATE, or from the `priority` fields of the request and the
    /// response (RFC 9218).
    #[must_use]
    pub fn priority(&self, stream: StreamId) -> Priority {
        self.requests.get(stream).map_or(Priority::UNSPECIFIED, |record| record.priority)
    }

    /// Takes a peer event for metrics, one per call.
    pub fn next_peer_event(&mut self) -> Option<PeerEvent> {
        self.shared.peer_events.take()
    }

    /// Releases the memory that only streams need, if there are none.
    pub fn release_memory(&mut self) {
        self.requests.release_memory();
        self.sendable.shrink_to_fit();
        self.shared.peer_events.release_memory();
        self.shared.qpack.release_memory();
        self.shared.section = Vec::new();
    }

    /// Bytes of memory in the connection's buffers, without those of QUIC.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let ConnectionShared { qpack, section, head_memory, .. } = &self.shared;
        qpack.kept_bytes() + section.capacity() + head_memory + self.requests.kept_bytes()
    }
}
