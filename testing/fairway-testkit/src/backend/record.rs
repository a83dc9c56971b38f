//! The record of what a backend received. Never touches a socket.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;

use crate::wire::{self, Fields};

/// The request header that identifies repeated deliveries of a request.
const NUMBER_FIELD: &str = "X-Request-Number";

/// A request that reached a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Which connection brought it, counted from 0.
    pub connection: usize,
    /// The method.
    pub method: String,
    /// The target as it was written.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The fields in the order of the wire.
    pub headers: Fields,
    /// The content, decoded when it was chunked.
    pub body: Vec<u8>,
    /// The trailer section of a chunked body.
    pub trailers: Fields,
}

impl RecordedRequest {
    /// The first value of the field `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header_values(name).first().copied()
    }

    /// Every value of the field `name`.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        wire::values(&self.headers, name)
    }

    /// Its `X-Request-Number`.
    pub fn number(&self) -> Option<&str> {
        self.header(NUMBER_FIELD)
    }
}

/// A recorded connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedConnection {
    /// The other end.
    pub peer: SocketAddr,
    /// Every byte that was read from it, inside TLS if there is TLS.
    pub bytes: Vec<u8>,
    /// Whether it is still there.
    pub state: ConnectionState,
}

/// The state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// In use or idle.
    Open,
    /// Waiting at a `Wait` step or a held response.
    Waiting,
    /// Open, but nothing that comes reaches it and nothing leaves it.
    Vanished,
    /// Ended as intended by either side.
    Ended,
    /// Ended because something was not as the script or HTTP wants it.
    Failed(String),
}

/// How a connection ends, as decided by its script or the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Vanish,
    Close,
    Reset,
}

/// Connections, each with what decides its end, and requests.
#[derive(Default)]
pub(super) struct RecordContents {
    pub(super) connections: Vec<(RecordedConnection, watch::Sender<Option<Ending>>)>,
    pub(super) requests: Vec<RecordedRequest>,
}

/// The record of a backend. Every change wakes the waiters.
pub(super) struct Record {
    contents: Mutex<RecordContents>,
    changes: watch::Sender<u64>,
}

impl Record {
    pub(super) fn new() -> Self {
        Self { contents: Mutex::default(), changes: watch::Sender::new(0) }
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn record_connection(&self, peer: SocketAddr) -> (usize, watch::Receiver<Option<Ending>>) {
        let (sender, receiver) = watch::channel(None);
        let recorded = RecordedConnection { peer, bytes: Vec::new(), state: ConnectionState::Open };
        let number = self.change(|kept| {
            kept.connections.push((recorded, sender));
            kept.connections.len() - 1
        });
        (number, receiver)
    }

    pub(super) fn record_bytes(&self, connection: usize, bytes: &[u8]) {
        self.change(|kept| kept.connections[connection].0.bytes.extend_from_slice(bytes));
    }

    pub(super) fn record_request(&self, request: RecordedRequest) {
        self.change(|kept| kept.requests.push(request));
    }

    pub(super) fn set_state(&self, connection: usize, state: ConnectionState) {
        self.change(|kept| kept.connections[connection].0.state = state);
    }

    /// Decides the end of every connection that is open now; later ones are not touched.
    pub(super) fn end_connections(&self, ending: Ending) {
        for (_, sender) in &self.contents().connections {
            sender.send_replace(Some(ending));
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut RecordContents) -> T) -> T {
        let result = change(&mut self.contents());
        self.changes.send_modify(|version| *version += 1);
        result
    }

    pub(super) fn contents(&self) -> MutexGuard<'_, RecordContents> {
        self.contents.lock().expect("no holder of this lock panics")
    }
}
