//! HTTP/1.x over a wire, for either side of an exchange. The only module that knows HTTP/1.
//!
//! One type serves clients and endpoints: heads and bodies are read through `fairway_http::http1`'s parsers and written in
//! canonical form, never passed through. What a head says about its own hop is read here and removed; the rest is the
//! exchange's. It never decides what is sent; the exchange does.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_http::http1::{
    BodyLimits, BodyReader, BodyWriter, Framing, HeadParser, Parsed, Part, RequestHop, expects_continue,
    keep_alive, request_framing, response_framing, strip_hop_by_hop, upgrade_to, write_request,
    write_response,
};
use fairway_http::{BodySize, Head, HeadLimits, Known, Malformed, Method, Version};
use fairway_net::transport::Transport;
use fairway_net::wire::{Ahead, Input, Wire, Workspace};

use super::gather::Gatherer;
use crate::sides::{
    AnswerPlan, Arrival, BodyStep, Channel, Downstream, Failure, HeadRead, Hop, Persistence, Reply,
    RequestPlan, Upgrade, Upstream,
};

/// What a connection is between two heads.
pub struct H1<S> {
    pub(super) wire: Wire<S>,
    pub(super) workspace: Rc<Workspace>,
    reader: BodyReader,
    writer: BodyWriter,
    parser: HeadParser,
    /// Of the request that was sent, or received: an answer's framing depends on it.
    method: Method,
    /// Whether the peer keeps the connection after this message.
    stays: bool,
    /// Whether the request that was sent was to be the last one.
    closes: bool,
}

impl<S: Transport> H1<S> {
    /// An idle connection.
    pub fn new(wire: Wire<S>, workspace: Rc<Workspace>) -> Self {
        Self {
            wire,
            workspace,
            reader: BodyReader::new(Framing::None, BodyLimits::default()),
            writer: BodyWriter::new(Framing::None),
            parser: HeadParser::new(),
            method: Method::Other,
            stays: true,
            closes: false,
        }
    }

    /// Reads a request head.
    pub fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead<Arrival>> {
        let Self { wire, workspace, parser, .. } = self;
        let read = ready!(poll_head(cx, wire, workspace, |bytes| parser.request(head, bytes, limits)));
        Poll::Ready(match read {
            HeadRead::Whole(count) => HeadRead::Whole(self.arrived(head, count)),
            other => {
                if matches!(other, HeadRead::Malformed(_)) {
                    self.reader = unknown_body();
                }
                other.without()
            }
        })
    }

    /// How many bytes of a request's body are still to come; `None` where nobody can say.
    pub(super) fn unread_body(&self) -> Option<u64> {
        if self.reader.is_done() { Some(0) } else { self.reader.remaining() }
    }

    /// What the head says about this hop; it is removed from the head.
    fn arrived(&mut self, head: &mut Head, head_bytes: usize) -> Arrival {
        let framing = request_framing(head);
        self.reader = match framing {
            Ok(framing) => BodyReader::new(framing, BodyLimits::default()),
            Err(_) => unknown_body(),
        };
        self.method = head.method();
        let arrival = Arrival {
            head_bytes: u32::try_from(head_bytes).unwrap_or(u32::MAX),
            body: framing.map(size_of_body),
            expects_continue: expects_continue(head),
            persistence: if keep_alive(head) { Persistence::KeepAlive } else { Persistence::Close },
            upgrade: asks_for(head),
        };
        strip_hop_by_hop(head);
        arrival
    }

    /// Queues a whole answer that is sent before a request is known.
    pub fn queue_answer(&mut self, bytes: &[u8]) {
        self.wire.outbox(&self.workspace).extend_from_slice(bytes);
    }

    /// Whether what came first, and is no request, begins a connection of HTTP/2 (RFC 9113 §3.4).
    pub fn begins_http2(&self) -> bool {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let came = self.wire.pending();
        came.starts_with(PREFACE) || PREFACE.starts_with(came)
    }

    /// The bytes below, for another protocol.
    pub fn into_wire(self) -> Wire<S> {
        self.wire
    }

    /// Bytes that were read and belong to what comes next.
    pub fn residue(&self) -> usize {
        self.wire.residue()
    }

    /// What a final answer, or a switch of protocols, says about this hop; it is removed from the head.
    fn replied(&mut self, answer: &mut Head) -> Result<Reply, Malformed> {
        let upgrade = if answer.status() == 101 { asks_for(answer) } else { Upgrade::None };
        let framing = response_framing(answer, self.method)?;
        self.stays = keep_alive(answer) && framing != Framing::UntilClose && !self.closes;
        self.reader = BodyReader::new(framing, BodyLimits::default());
        strip_hop_by_hop(answer);
        Ok(Reply { body: size_of_body(framing), upgrade })
    }
}

impl<S: Transport> Channel for H1<S> {
    fn poll_body<F>(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let Self { wire, workspace, reader, .. } = self;
        if reader.is_done() {
            return Poll::Ready(Ok(BodyStep::End));
        }
        let workspace: &Workspace = workspace;
        let input = ready!(wire.poll_input(cx, workspace, most, |cx, bytes| {
            drain(reader, bytes, workspace, |data| sink(cx, data))
        }));
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

    fn progress(&self) -> u64 {
        self.wire.progress()
    }

    fn sent(&self) -> u64 {
        self.wire.sent()
    }

    fn open_tunnel(&mut self) {
        self.reader = BodyReader::new(Framing::UntilClose, BodyLimits::default());
        self.writer = BodyWriter::new(Framing::UntilClose);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.wire.poll_shutdown(cx).map_err(|_| Failure::Closed)
    }
}

impl<S: Transport> Downstream for H1<S> {
    fn peer(&self) -> Option<IpAddr> {
        self.wire.peer()
    }

    fn send_interim(&mut self, interim: &Head) {
        write_response(interim, Version::Http11, self.wire.outbox(&self.workspace));
    }

    fn send_head(&mut self, answer: &mut Head, plan: &AnswerPlan) -> Persistence {
        // Without chunks, a body of unknown length ends with the connection.
        let unbounded = plan.body == BodySize::Unknown && plan.version == Version::Http10;
        let persistence = match plan.persistence {
            Persistence::KeepAlive if unbounded && self.method != Method::Head => Persistence::Close,
            planned => planned,
        };
        let framing = match plan.body {
            BodySize::None => Framing::None,
            BodySize::Exact(length) => Framing::Length(length),
            BodySize::Unknown if unbounded => Framing::UntilClose,
            BodySize::Unknown => Framing::Chunked,
        };
        if framing == Framing::Chunked {
            answer.append(b"Transfer-Encoding", b"chunked");
        }
        match persistence {
            Persistence::Close => answer.append(b"Connection", b"close"),
            Persistence::KeepAlive if plan.version == Version::Http10 => {
                answer.append(b"Connection", b"keep-alive");
            }
            Persistence::Upgraded => {
                answer.append(b"Connection", b"upgrade");
                answer.append(b"Upgrade", b"websocket");
            }
            Persistence::KeepAlive => {}
        }
        write_response(answer, Version::Http11, self.wire.outbox(&self.workspace));
        self.writer = BodyWriter::new(framing);
        persistence
    }

    fn unread(&self) -> Option<u64> {
        self.unread_body()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.wire.poll_ahead(cx, &self.workspace) {
            Ahead::Open => Poll::Pending,
            Ahead::Ended | Ahead::Broken => Poll::Ready(()),
        }
    }

    fn abort(&mut self) {
        self.wire.abort();
    }
}

impl<S: Transport> Upstream for H1<S> {
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>) {
        self.method = request.method();
        self.stays = false;
        let framing = match plan.body {
            BodySize::None => Framing::None,
            BodySize::Exact(length) => Framing::Length(length),
            BodySize::Unknown => Framing::Chunked,
        };
        let upgrade = match plan.upgrade {
            Upgrade::None => None,
            Upgrade::WebSocket => Some(&b"websocket"[..]),
        };
        // Neither a handshake nor chunks are known to HTTP/1.0.
        let http10 = plan.http10 && upgrade.is_none() && framing != Framing::Chunked;
        let connection = plan.connection.filter(|_| upgrade.is_none());
        self.closes = match connection {
            Some(option) => option == b"close",
            None => http10,
        };
        let hop = RequestHop { chunked: framing == Framing::Chunked, upgrade, connection, http10 };
        write_request(request, plan.target, &hop, self.wire.outbox(&self.workspace));
        self.writer = BodyWriter::new(framing);
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead<Reply>> {
        let Self { wire, workspace, parser, .. } = self;
        let Poll::Ready(read) =
            poll_head(cx, wire, workspace, |bytes| parser.response(answer, bytes, limits))
        else {
            // The answer may take long, and the request has left.
            wire.rest_outbox(workspace);
            return Poll::Pending;
        };
        Poll::Ready(match read {
            HeadRead::Whole(_) if matches!(answer.status(), 100 | 102..=199) => {
                strip_hop_by_hop(answer);
                answer.remove_known(Known::ContentLength);
                HeadRead::Whole(Reply { body: BodySize::None, upgrade: Upgrade::None })
            }
            HeadRead::Whole(_) => match self.replied(answer) {
                Ok(reply) => HeadRead::Whole(reply),
                Err(rule) => HeadRead::Malformed(rule),
            },
            other => other.without(),
        })
    }

    fn received(&self) -> u64 {
        self.wire.received()
    }

    fn is_reusable(&self) -> bool {
        self.stays && self.reader.is_done() && self.wire.residue() == 0
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        self.wire.stream().owes_acknowledgement()
    }

    fn watch_closely(&self) {
        self.wire.stream().watch_closely();
    }
}

impl<S: Transport> Hop for H1<S> {
    fn is_quiet(&mut self) -> bool {
        self.wire.is_quiet()
    }

    fn rest(&mut self) {
        self.wire.rest(&self.workspace);
    }

    fn abandon(&mut self) {
        self.wire.abort();
    }
}

fn poll_head<S: Transport>(
    cx: &mut Context<'_>,
    wire: &mut Wire<S>,
    workspace: &Workspace,
    mut parse: impl FnMut(&[u8]) -> Result<Parsed, Malformed>,
) -> Poll<HeadRead<usize>> {
    let input = ready!(wire.poll_whole(cx, workspace, |bytes| match parse(bytes) {
        Ok(Parsed::Complete { consumed }) => (consumed, Some(HeadRead::Whole(consumed))),
        Ok(Parsed::Incomplete) => (0, None),
        Err(malformed) => (0, Some(HeadRead::Malformed(malformed))),
    }));
    Poll::Ready(match input {
        Ok(Input::Taken(read)) => read,
        Ok(Input::Eof) if wire.residue() == 0 => HeadRead::Closed,
        Err(error) if is_unreachable(error.kind()) => HeadRead::Unreachable,
        Ok(Input::Eof) | Err(_) => HeadRead::Cut,
    })
}

/// Feeds `bytes` to the reader and its data to `sink`, small pieces together; says how many bytes belong to this body.
fn drain(
    reader: &mut BodyReader,
    bytes: &[u8],
    workspace: &Workspace,
    mut sink: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> (usize, Result<BodyStep, Failure>) {
    let mut used = 0;
    let mut gatherer = Gatherer::new(workspace);
    let step = loop {
        match reader.next(&bytes[used..]) {
            Ok((count, part)) => {
                used += count;
                match part {
                    Part::Data(data) => {
                        if let Err(failure) = gatherer.add(data, &mut sink) {
                            break Err(failure);
                        }
                    }
                    Part::NeedMore => break Ok(BodyStep::More),
                    Part::End => break Ok(BodyStep::End),
                }
            }
            Err(malformed) => break Err(Failure::Malformed(malformed)),
        }
    };
    // What came before a mistake goes on as well.
    match gatherer.end(&mut sink) {
        Ok(()) => (used, step),
        Err(refused) => {
            // It may have been read to its end, but was not taken: nothing may begin behind it.
            *reader = unknown_body();
            (used, Err(refused))
        }
    }
}

/// What may come of a body whose end nobody knows: no request begins behind it.
fn unknown_body() -> BodyReader {
    BodyReader::new(Framing::UntilClose, BodyLimits::default())
}

const fn size_of_body(framing: Framing) -> BodySize {
    match framing {
        Framing::None => BodySize::None,
        Framing::Length(length) => BodySize::Exact(length),
        Framing::Chunked | Framing::UntilClose => BodySize::Unknown,
    }
}

/// `websocket` is the only protocol to switch to; others are ignored, as a server may (RFC 9110 §7.8).
fn asks_for(head: &Head) -> Upgrade {
    match upgrade_to(head) {
        Some(protocol) if protocol.eq_ignore_ascii_case(b"websocket") => Upgrade::WebSocket,
        _ => Upgrade::None,
    }
}

/// Whether nobody is there any more, as opposed to somebody who closed.
fn is_unreachable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}
