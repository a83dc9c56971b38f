//! HTTP/1.x over a wire, for either side of an exchange.
//!
//! One type serves clients and endpoints: heads and bodies are read through `fairway-http1`'s parsers and written in
//! canonical form, never passed through. It never decides what is sent; the exchange does.

mod linger;

use std::io::ErrorKind;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_http1::{
    BodyLimits, BodyReader, BodyWriter, Framing, Head, HeadLimits, Malformed, Parsed, Part, Version,
};

use crate::exchange::sides::{AnswerPlan, BodyStep, Channel, Downstream, Failure, Persistence, Upstream};
use crate::transport::Transport;
use crate::wire::{Input, Wire, Workspace};

pub(crate) use linger::linger;

/// What a connection is between two heads.
pub(crate) struct H1<S> {
    pub(crate) wire: Wire<S>,
    workspace: Rc<Workspace>,
    reader: BodyReader,
    writer: BodyWriter,
}

/// How reading a head ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadRead {
    /// It is whole, and took so many bytes.
    Whole(usize),
    /// The peer closed before its first byte.
    Closed,
    /// The peer closed or reset within it.
    Cut,
    /// The network gave the peer up: it does not answer keep-alive (tcp(7)), or there is no way.
    Unreachable,
    /// It breaks a rule.
    Malformed(Malformed),
}

impl<S: Transport> H1<S> {
    /// An idle connection.
    pub(crate) fn new(wire: Wire<S>, workspace: Rc<Workspace>) -> Self {
        Self { wire, workspace, reader: no_reader(), writer: BodyWriter::new(Framing::None) }
    }

    /// Reads a request head.
    pub(crate) fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead> {
        self.poll_head(cx, |bytes| head.parse_request(bytes, limits))
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        mut parse: impl FnMut(&[u8]) -> Result<Parsed, Malformed>,
    ) -> Poll<HeadRead> {
        let input = ready!(self.wire.poll_whole(cx, &self.workspace, |bytes| match parse(bytes) {
            Ok(Parsed::Complete { consumed }) => (consumed, Some(HeadRead::Whole(consumed))),
            Ok(Parsed::Incomplete) => (0, None),
            Err(malformed) => (0, Some(HeadRead::Malformed(malformed))),
        }));
        Poll::Ready(match input {
            Ok(Input::Taken(read)) => read,
            Ok(Input::Eof) if self.wire.residue() == 0 => HeadRead::Closed,
            Err(error) if is_unreachable(error.kind()) => HeadRead::Unreachable,
            Ok(Input::Eof) | Err(_) => HeadRead::Cut,
        })
    }

    /// The body that follows the request head just read.
    pub(crate) fn expect_request_body(&mut self, framing: Framing) {
        self.reader = BodyReader::new(framing, BodyLimits::default());
    }

    /// Whether the body that was expected has been read to its end.
    pub(crate) fn is_body_read(&self) -> bool {
        self.reader.is_done()
    }

    /// Bytes of the expected body that are still to come, where its length is known.
    pub(crate) fn body_remaining(&self) -> Option<u64> {
        self.reader.remaining()
    }

    /// Queues a whole answer that is sent before a request is known.
    pub(crate) fn queue_answer(&mut self, bytes: &[u8]) {
        self.wire.outbox(&self.workspace).extend_from_slice(bytes);
    }

    /// Gives the buffers back that hold nothing.
    pub(crate) fn rest(&mut self) {
        self.wire.rest(&self.workspace);
    }

    pub(crate) fn workspace(&self) -> &Rc<Workspace> {
        &self.workspace
    }
}

impl<S: Transport> Channel for H1<S> {
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, mut sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let Self { wire, workspace, reader, .. } = self;
        if reader.is_done() {
            return Poll::Ready(Ok(BodyStep::End));
        }
        let input =
            ready!(wire.poll_input(cx, workspace, |cx, bytes| drain(reader, bytes, |data| sink(cx, data))));
        Poll::Ready(match input {
            Ok(Input::Taken(step)) => step,
            Ok(Input::Eof) => reader.at_eof().map(|()| BodyStep::End).map_err(|_| Failure::Closed),
            Err(_) => Err(Failure::Closed),
        })
    }

    fn send_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        if self.writer.passes_through() {
            self.writer.passed(data.len()).map_err(Failure::Malformed)?;
            self.wire.send(cx, &self.workspace, data).map_err(|_| Failure::Closed)
        } else {
            self.writer.write(data, self.wire.outbox(&self.workspace)).map_err(Failure::Malformed)
        }
    }

    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        self.writer.finish(trailers, self.wire.outbox(&self.workspace)).map_err(Failure::Malformed)
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.reader.trailers()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.wire.poll_flush(cx).map_err(|_| Failure::Closed)
    }

    fn queued(&self) -> usize {
        self.wire.queued()
    }
}

impl<S: Transport> Downstream for H1<S> {
    fn send_interim(&mut self, interim: &Head) {
        interim.write_response(Version::Http11, self.wire.outbox(&self.workspace));
    }

    fn send_head(&mut self, answer: &mut Head, body: Framing, plan: &AnswerPlan) {
        let framing = match body {
            Framing::Chunked | Framing::UntilClose if plan.version == Version::Http11 => Framing::Chunked,
            Framing::Chunked => Framing::UntilClose,
            other => other,
        };
        match framing {
            Framing::Chunked => answer.append(b"Transfer-Encoding", b"chunked"),
            Framing::Length(_) | Framing::None | Framing::UntilClose => {}
        }
        match plan.persistence {
            Persistence::Close => answer.append(b"Connection", b"close"),
            Persistence::KeepAlive if plan.version == Version::Http10 => {
                answer.append(b"Connection", b"keep-alive");
            }
            Persistence::KeepAlive | Persistence::Upgraded => {}
        }
        answer.write_response(Version::Http11, self.wire.outbox(&self.workspace));
        self.writer = BodyWriter::new(framing);
    }
}

impl<S: Transport> Upstream for H1<S> {
    fn send_request(&mut self, request: &Head, target: &[u8], body: Framing) {
        request.write_request(target, self.wire.outbox(&self.workspace));
        self.writer = BodyWriter::new(body);
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead> {
        self.poll_head(cx, |bytes| answer.parse_response(bytes, limits))
    }

    fn expect_body(&mut self, framing: Framing) {
        self.reader = BodyReader::new(framing, BodyLimits::default());
    }

    fn sent(&self) -> u64 {
        self.wire.sent()
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        self.wire.stream().owes_acknowledgement()
    }

    fn watch_closely(&self) {
        self.wire.stream().watch_closely();
    }
}

/// Feeds `bytes` to the reader and its data to `sink`; says how many bytes belong to this body.
fn drain(
    reader: &mut BodyReader,
    bytes: &[u8],
    mut sink: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> (usize, Result<BodyStep, Failure>) {
    let mut used = 0;
    loop {
        match reader.next(&bytes[used..]) {
            Ok((count, part)) => {
                used += count;
                match part {
                    Part::Data(data) => {
                        if let Err(failure) = sink(data) {
                            return (used, Err(failure));
                        }
                    }
                    Part::NeedMore => return (used, Ok(BodyStep::More)),
                    Part::End => return (used, Ok(BodyStep::End)),
                }
            }
            Err(malformed) => return (used, Err(Failure::Malformed(malformed))),
        }
    }
}

fn no_reader() -> BodyReader {
    BodyReader::new(Framing::None, BodyLimits::default())
}

/// Whether nobody is there any more, as opposed to somebody who closed.
fn is_unreachable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}
