//! The server's end of a connection, as its owner uses it. What happens in its calls is in `poll`, `head`, `body`, `response`,
//! `order` and `close`.

mod body;
mod close;
mod head;
mod order;
mod poll;
mod response;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fairway_http2::{Note, Priority};
use quinn_proto::StreamId;

use crate::code::Fault;
use crate::config::Config;
use crate::event::Event;
use crate::local::Local;
use crate::requests::{Life, Requests};
use crate::shared::Shared;
use crate::unidirectional::Unidirectional;

/// A connection that a client opened.
///
/// Every call gets the QUIC connection, which must always be the same. After any call, QUIC can have something to send
/// (`Connection::poll_transmit`).
#[derive(Debug)]
pub struct Server {
    shared: Shared,
    requests: Requests,
    local: Local,
    unidirectional: Unidirectional,
    /// Streams of which QUIC takes bytes again, and whose owner does not know that yet.
    sendable: Vec<StreamId>,
    /// The one that was reported last, until it sends or `poll` has nothing more to report.
    turn: Option<StreamId>,
    /// Events that came of calls other than `poll`.
    events: VecDeque<Event>,
    /// An error of the connection that `poll` reports.
    fault: Option<Fault>,
    state: State,
    going: Going,
    /// Request streams that QUIC gave us.
    accepted: u64,
    /// Priorities of streams that have not arrived (RFC 9218 §7.2), newest last.
    early_priorities: Vec<(u64, Priority)>,
    polled_at: Option<Instant>,
    /// Whether the client has all that was sent, as of the last `poll`.
    delivered: bool,
}

/// Whether the connection is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Closed or lost, and the owner knows.
    Closed,
}

/// Whether it goes away (RFC 9114 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    No,
    /// The first GOAWAY was sent.
    Announced,
    /// Streams from this index on are rejected.
    Final(u64),
}

/// Priorities that are kept for streams that have not arrived.
const MAX_EARLY_PRIORITIES: usize = 16;

impl Server {
    /// For a new connection. The control stream and SETTINGS are sent by the first call of [`Server::poll`] that can.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Server {
            shared: Shared::new(config),
            requests: Requests::default(),
            local: Local::new(&config),
            unidirectional: Unidirectional::default(),
            sendable: Vec::new(),
            turn: None,
            events: VecDeque::new(),
            fault: None,
            state: State::Open,
            going: Going::No,
            accepted: 0,
            early_priorities: Vec::new(),
            polled_at: None,
            delivered: false,
        }
    }

    /// A number for a stream that was reported and not released: no other has it meanwhile, and it is below
    /// [`Config::streams`].
    #[must_use]
    pub fn slot(&self, stream: StreamId) -> Option<usize> {
        let slot = self.requests.slot(stream)?;
        let life = self.requests.get(stream)?.life;
        matches!(life, Life::Live | Life::Over).then_some(slot)
    }

    /// How many streams were reported and not released.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.requests.iter().filter(|record| matches!(record.life, Life::Live | Life::Over)).count()
    }

    /// The oldest stream whose head has begun to come and is not complete, for a timeout.
    #[must_use]
    pub fn incomplete_head(&self) -> Option<StreamId> {
        let opening = self.requests.iter().filter(|record| record.life == Life::Opening);
        opening.map(|record| record.id).min_by_key(|id| id.index())
    }

    /// When a stream arrived that is not released yet: when [`Server::poll`] first saw it.
    #[must_use]
    pub fn arrived_at(&self, stream: StreamId) -> Option<Instant> {
        let record = self.requests.get(stream)?;
        Some(self.polled_at? + Duration::from_micros(record.arrived))
    }

    /// The priority of a stream's response: PRIORITY_UPDATE's, or that of the request's and the response's `priority` fields
    /// (RFC 9218).
    #[must_use]
    pub fn priority(&self, stream: StreamId) -> Priority {
        self.requests.get(stream).map_or(Priority::UNSAID, |record| record.priority)
    }

    /// Something that may be worth counting and was not taken yet, one at a time.
    pub fn noted(&mut self) -> Option<Note> {
        self.shared.notes.take()
    }

    /// Gives back the memory that only streams need, if there are none.
    pub fn rest(&mut self) {
        self.requests.rest();
        self.sendable.shrink_to_fit();
        self.shared.notes.rest();
        self.shared.qpack.rest();
        self.shared.section = Vec::new();
    }

    /// The memory that the connection keeps in buffers, in bytes, without what QUIC keeps.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let Shared { qpack, section, head_memory, .. } = &self.shared;
        qpack.kept_bytes() + section.capacity() + head_memory + self.requests.kept_bytes()
    }
}
