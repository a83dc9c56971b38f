//! Messages waiting to be sent, and the waits for their responses. Knows nothing of the responses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::event::{Side, Trailers};
use super::message;
use super::prepared::PreparedExtension;

/// A wait for a response of the service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) serial: u64,
    pub(super) timeout: Duration,
    /// Whether the service has used its one extension of the timeout.
    pub(super) is_extended: bool,
}

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) prepared: Arc<PreparedExtension>,
    messages: VecDeque<(Side, Vec<u8>)>,
    /// The size of `messages`, by side.
    bytes: [usize; 2],
    /// Fields of the first message besides those of every stream.
    attributes: Vec<u8>,
    pub(super) sent: u64,
    serial: u64,
}

impl Outbox {
    pub(super) fn new(prepared: Arc<PreparedExtension>) -> Self {
        Outbox {
            prepared,
            messages: VecDeque::new(),
            bytes: [0; 2],
            attributes: Vec::new(),
            sent: 0,
            serial: 0,
        }
    }

    /// Sets additional fields of the first message.
    pub(super) fn set_attributes(&mut self, attributes: Vec<u8>) {
        self.attributes = attributes;
    }

    /// Sends a head, which `write` encodes together with further fields.
    pub(super) fn headers(&mut self, side: Side, write: impl FnOnce(&[&[u8]]) -> Vec<u8>) -> Wait {
        let message = match self.sent {
            0 => self.first(write),
            _ => write(&[&self.prepared.metadata]),
        };
        self.push(side, message);
        self.begin_wait()
    }

    /// Sends a piece of a body.
    pub(super) fn body(&mut self, side: Side, chunk: &[u8], end_of_stream: bool) -> Wait {
        let message = match self.sent {
            0 => self.first(|extra| message::body(side, chunk, end_of_stream, extra)),
            _ => message::body(side, chunk, end_of_stream, &[]),
        };
        self.push(side, message);
        self.begin_wait()
    }

    /// Sends trailers.
    pub(super) fn trailers(&mut self, side: Side, trailers: &Trailers) -> Wait {
        let message = match self.sent {
            0 => self.first(|extra| message::trailers(side, trailers, extra)),
            _ => message::trailers(side, trailers, &[]),
        };
        self.push(side, message);
        self.begin_wait()
    }

    fn first(&mut self, write: impl FnOnce(&[&[u8]]) -> Vec<u8>) -> Vec<u8> {
        let attributes = std::mem::take(&mut self.attributes);
        write(&[&self.prepared.protocol, &attributes, &self.prepared.metadata])
    }

    fn push(&mut self, side: Side, message: Vec<u8>) {
        self.sent += 1;
        self.bytes[side as usize] += message.len();
        self.messages.push_back((side, message));
    }

    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let (side, message) = self.messages.pop_front()?;
        self.bytes[side as usize] -= message.len();
        Some(message)
    }

    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.bytes = [0; 2];
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The number of bytes of a side that wait to be sent.
    pub(super) fn bytes(&self, side: Side) -> usize {
        self.bytes[side as usize]
    }

    /// A wait that starts now.
    pub(super) fn begin_wait(&mut self) -> Wait {
        self.serial += 1;
        Wait { serial: self.serial, timeout: self.prepared.extension.message_timeout, is_extended: false }
    }
}
