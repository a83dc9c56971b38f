//! An HTTP/1.1 connection or a datagram socket. It has one request in flight at a time.

use std::io::{self, ErrorKind};

use fairway_lab_measure::results::Class;

use super::response::{Expected, Reader};
use super::thread_counts::{Exchange, RequestOutcome};
use super::transport::{Received, Scratch, Transport};
use crate::http1::Progress;

/// An open connection.
pub(super) struct Http1 {
    pub(super) transport: Transport,
    reader: Reader,
    current: Option<Exchange>,
    received: u64,
}

/// Whether the connection can be used after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The response is incomplete.
    Busy,
    /// It can carry another request.
    Free,
    /// It is closed or must be closed.
    Over,
}

impl Http1 {
    pub(super) fn new(transport: Transport) -> Self {
        Self { transport, reader: Reader::default(), current: None, received: 0 }
    }

    /// The request in flight.
    pub(super) fn current(&self) -> Option<Exchange> {
        self.current
    }

    /// Bytes received since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Writes a request.
    pub(super) fn send(&mut self, bytes: &[u8], exchange: Exchange) -> io::Result<()> {
        self.reader.reset();
        self.current = Some(exchange);
        self.transport.send(bytes)
    }

    /// Gives up the current request; returns its class and what it was waiting for.
    pub(super) fn give_up(&mut self) -> Option<(Exchange, Class, String)> {
        let exchange = self.current.take()?;
        Some(if self.reader.has_head() {
            (
                exchange,
                Class::BodyTimeout,
                format!("{}, and then not all of its body", self.reader.head().line()),
            )
        } else {
            (exchange, Class::HeadTimeout, "no head of an answer".to_owned())
        })
    }

    /// Handles a failed write.
    pub(super) fn write_failed(&mut self, error: &io::Error) -> Option<(Exchange, RequestOutcome)> {
        let exchange = self.current.take()?;
        Some((exchange, RequestOutcome::Failed(Class::Write, error.to_string())))
    }

    /// Reads available data.
    pub(super) fn receive(
        &mut self,
        scratch: &mut Scratch,
        expected: &Expected,
    ) -> (After, Option<(Exchange, RequestOutcome)>) {
        let received = match self.transport.receive(scratch) {
            Ok(Received::Nothing) => return (self.state(), None),
            Ok(received) => received,
            Err(error) => return (After::Over, self.broken(&error)),
        };
        let bytes = scratch.bytes();
        self.received += bytes.len() as u64;
        if self.current.is_none() {
            // Between requests the server may only close; TLS records without data are fine.
            let is_fine = bytes.is_empty() && received == Received::Bytes;
            return (if is_fine { After::Free } else { After::Over }, None);
        }
        if let Some(length) = expected.echo {
            return self.check_echo(bytes, length);
        }
        let progress = match self.reader.feed(bytes, expected) {
            Ok(progress) => progress,
            Err(what) => return (After::Over, self.fail(Class::Malformed, what.to_owned())),
        };
        match (progress, received) {
            (Progress::Done(used), _) if used < bytes.len() => {
                let text = format!("{} bytes after the end of the answer", bytes.len() - used);
                (After::Over, self.fail(Class::Malformed, text))
            }
            (Progress::Done(_), _) => {
                let is_over = self.reader.head().close || received == Received::End;
                (if is_over { After::Over } else { After::Free }, self.complete(expected))
            }
            (Progress::More, Received::End) if self.reader.is_complete_at_end() => {
                (After::Over, self.complete(expected))
            }
            (Progress::More, Received::End) => (After::Over, self.fail_at_end()),
            (Progress::More, _) => (After::Busy, None),
        }
    }

    /// An echo is correct if its length and number match the datagram sent.
    fn check_echo(&mut self, bytes: &[u8], length: usize) -> (After, Option<(Exchange, RequestOutcome)>) {
        match self.current {
            Some(exchange) if bytes.len() == length && bytes.starts_with(&exchange.number.to_be_bytes()) => {
                self.current = None;
                (After::Free, Some((exchange, RequestOutcome::Answered { wrong: None })))
            }
            _ => {
                let text = format!("an echo of {} bytes, or of another datagram", bytes.len());
                (After::Over, self.fail(Class::WrongRoute, text))
            }
        }
    }

    fn state(&self) -> After {
        if self.current.is_some() { After::Busy } else { After::Free }
    }

    fn complete(&mut self, expected: &Expected) -> Option<(Exchange, RequestOutcome)> {
        let exchange = self.current.take()?;
        let head = self.reader.head();
        Some((exchange, expected.outcome_for(head.status, head.matched, || head.line())))
    }

    fn fail_at_end(&mut self) -> Option<(Exchange, RequestOutcome)> {
        if self.reader.has_head() {
            let text = format!("{}, and the end of the stream within its body", self.reader.head().line());
            return self.fail(Class::Truncated, text);
        }
        let text = if self.reader.has_begun() {
            "the end of the stream within the head"
        } else {
            "the end of the stream instead of an answer"
        };
        self.fail(Class::ReadEof, text.to_owned())
    }

    fn broken(&mut self, error: &io::Error) -> Option<(Exchange, RequestOutcome)> {
        let class = if self.reader.has_head() {
            Class::Truncated
        } else if error.kind() == ErrorKind::UnexpectedEof {
            Class::ReadEof
        } else {
            Class::ReadReset
        };
        self.fail(class, error.to_string())
    }

    fn fail(&mut self, class: Class, text: String) -> Option<(Exchange, RequestOutcome)> {
        self.current.take().map(|exchange| (exchange, RequestOutcome::Failed(class, text)))
    }
}
