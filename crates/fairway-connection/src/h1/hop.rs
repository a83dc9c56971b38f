//! One HTTP/1.x connection, for either side of an exchange. The only module that knows HTTP/1.
//!
//! One type serves clients and endpoints. Heads and bodies are parsed and written in canonical form with
//! `fairway_http::http1`, never passed through. Hop-by-hop fields are read and removed here; the exchange decides what
//! is sent.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_http::http1::{
    BodyLimits, BodyPart, BodyReader, BodyWriter, Framing, HeadParser, Parsed, RequestHop, expects_continue,
    keep_alive, request_framing, response_framing, strip_hop_by_hop, upgrade_to, write_request,
    write_response,
};
use fairway_http::{BodySize, Head, HeadLimits, Known, Malformed, Method, Version};
use fairway_net::transport::Transport;
use fairway_net::wire::{PeerState, ReadResult, Wire, Workspace};

use super::chunk_joiner::Gatherer;
use crate::sides::{
    BodyStep, Channel, Downstream, Failure, HeadRead, Hop, Persistence, RequestMeta, RequestPlan,
    ResponseMeta, ResponsePlan, Upgrade, Upstream,
};

/// One HTTP/1.x connection.
pub struct H1<S> {
    pub(super) wire: Wire<S>,
    pub(super) workspace: Rc<Workspace>,
    reader: BodyReader,
    writer: BodyWriter,
    parser: HeadParser,
    /// The method of the current request: the framing of its response depends on it.
    method: Method,
    /// Whether the peer keeps the connection open after this message.
    peer_keeps_alive: bool,
    /// Whether we asked the peer to close after this request.
    request_closes: bool,
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
            peer_keeps_alive: true,
            request_closes: false,
        }
    }

    /// Reads a request head.
    pub fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead<RequestMeta>> {
        let Self { wire, workspace, parser, .. } = self;
        let read = ready!(poll_head(cx, wire, workspace, |bytes| parser.request(head, bytes, limits)));
        Poll::Ready(match read {
            HeadRead::Whole(count) => HeadRead::Whole(self.take_request_meta(head, count)),
            other => {
                if matches!(other, HeadRead::Malformed(_)) {
                    self.reader = unframed_body();
                }
                other.map_failure()
            }
        })
    }

    /// Bytes of the request body not read yet; `None` if its length is unknown.
    pub(super) fn unread_body(&self) -> Option<u64> {
        if self.reader.is_done() { Some(0) } else { self.reader.remaining() }
    }

    /// Reads and removes the hop-by-hop fields of a request.
    fn take_request_meta(&mut self, head: &mut Head, head_bytes: usize) -> RequestMeta {
        let framing = request_framing(head);
        self.reader = match framing {
            Ok(framing) => BodyReader::new(framing, BodyLimits::default()),
            Err(_) => unframed_body(),
        };
        self.method = head.method();
        let arrival = RequestMeta {
            head_bytes: u32::try_from(head_bytes).unwrap_or(u32::MAX),
            body: framing.map(size_of_body),
            expects_continue: expects_continue(head),
            persistence: if keep_alive(head) { Persistence::KeepAlive } else { Persistence::Close },
            upgrade: requested_upgrade(head),
        };
        strip_hop_by_hop(head);
        arrival
    }

    /// Queues a complete response before any request was read.
    pub fn queue_response(&mut self, bytes: &[u8]) {
        self.wire.outbox(&self.workspace).extend_from_slice(bytes);
    }

    /// Whether the input that failed to parse is the preface of HTTP/2 (RFC 9113 §3.4).
    pub fn is_http2_preface(&self) -> bool {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let pending = self.wire.pending();
        pending.starts_with(PREFACE) || PREFACE.starts_with(pending)
    }

    /// The underlying wire, for another protocol.
    pub fn into_wire(self) -> Wire<S> {
        self.wire
    }

    /// Bytes that were read and not used.
    pub fn residue(&self) -> usize {
        self.wire.residue()
    }

    /// Reads and removes the hop-by-hop fields of a final or 101 response.
    fn take_response_meta(&mut self, response: &mut Head) -> Result<ResponseMeta, Malformed> {
        let upgrade = if response.status() == 101 { requested_upgrade(response) } else { Upgrade::None };
        let framing = response_framing(response, self.method)?;
        self.peer_keeps_alive =
            keep_alive(response) && framing != Framing::UntilClose && !self.request_closes;
        self.reader = BodyReader::new(framing, BodyLimits::default());
        strip_hop_by_hop(response);
        Ok(ResponseMeta { body: size_of_body(framing), upgrade })
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
            Ok(ReadResult::Taken(step)) => step,
            Ok(ReadResult::Eof) => reader.at_eof().map(|()| BodyStep::End).map_err(|_| Failure::Closed),
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

    fn send_head(&mut self, response: &mut Head, plan: &ResponsePlan) -> Persistence {
        // Without chunks, a body of unknown length ends when the connection closes.
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
            response.append(b"Transfer-Encoding", b"chunked");
        }
        match persistence {
            Persistence::Close => response.append(b"Connection", b"close"),
            Persistence::KeepAlive if plan.version == Version::Http10 => {
                response.append(b"Connection", b"keep-alive");
            }
            Persistence::Upgraded => {
                response.append(b"Connection", b"upgrade");
                response.append(b"Upgrade", b"websocket");
            }
            Persistence::KeepAlive => {}
        }
        write_response(response, Version::Http11, self.wire.outbox(&self.workspace));
        self.writer = BodyWriter::new(framing);
        persistence
    }

    fn unread_body(&self) -> Option<u64> {
        self.unread_body()
    }

    fn poll_client_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.wire.poll_ahead(cx, &self.workspace) {
            PeerState::Open => Poll::Pending,
            PeerState::Ended | PeerState::Broken => Poll::Ready(()),
        }
    }

    fn abort(&mut self) {
        self.wire.abort();
    }
}

impl<S: Transport> Upstream for H1<S> {
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>) {
        self.method = request.method();
        self.peer_keeps_alive = false;
        let framing = match plan.body {
            BodySize::None => Framing::None,
            BodySize::Exact(length) => Framing::Length(length),
            BodySize::Unknown => Framing::Chunked,
        };
        let upgrade = match plan.upgrade {
            Upgrade::None => None,
            Upgrade::WebSocket => Some(&b"websocket"[..]),
        };
        // HTTP/1.0 has neither upgrades nor chunks.
        let http10 = plan.http10 && upgrade.is_none() && framing != Framing::Chunked;
        let connection = plan.connection.filter(|_| upgrade.is_none());
        self.request_closes = match connection {
            Some(option) => option == b"close",
            None => http10,
        };
        let hop = RequestHop { chunked: framing == Framing::Chunked, upgrade, connection, http10 };
        write_request(request, plan.target, &hop, self.wire.outbox(&self.workspace));
        self.writer = BodyWriter::new(framing);
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        limits: &HeadLimits,
    ) -> Poll<HeadRead<ResponseMeta>> {
        let Self { wire, workspace, parser, .. } = self;
        let Poll::Ready(read) =
            poll_head(cx, wire, workspace, |bytes| parser.response(answer, bytes, limits))
        else {
            // The response may take long, and the request is sent completely.
            wire.rest_outbox(workspace);
            return Poll::Pending;
        };
        Poll::Ready(match read {
            HeadRead::Whole(_) if matches!(answer.status(), 100 | 102..=199) => {
                strip_hop_by_hop(answer);
                answer.remove_known(Known::ContentLength);
                HeadRead::Whole(ResponseMeta { body: BodySize::None, upgrade: Upgrade::None })
            }
            HeadRead::Whole(_) => match self.take_response_meta(answer) {
                Ok(reply) => HeadRead::Whole(reply),
                Err(rule) => HeadRead::Malformed(rule),
            },
            other => other.map_failure(),
        })
    }

    fn received(&self) -> u64 {
        self.wire.received()
    }

    fn is_reusable(&self) -> bool {
        self.peer_keeps_alive && self.reader.is_done() && self.wire.residue() == 0
    }

    fn unacknowledged_for(&self) -> Option<Duration> {
        self.wire.stream().owes_acknowledgement()
    }

    fn shorten_keepalive(&self) {
        self.wire.stream().watch_closely();
    }
}

impl<S: Transport> Hop for H1<S> {
    fn is_reusable_now(&mut self) -> bool {
        self.wire.is_quiet()
    }

    fn release_buffers(&mut self) {
        self.wire.release_memory(&self.workspace);
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
        Ok(ReadResult::Taken(read)) => read,
        Ok(ReadResult::Eof) if wire.residue() == 0 => HeadRead::Closed,
        Err(error) if is_unreachable(error.kind()) => HeadRead::Unreachable,
        Ok(ReadResult::Eof) | Err(_) => HeadRead::Cut,
    })
}

/// Feeds `bytes` to the reader and its data to `sink`, small chunks joined. Returns how many bytes belong to this body.
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
                    BodyPart::Data(data) => {
                        if let Err(failure) = gatherer.push(data, &mut sink) {
                            break Err(failure);
                        }
                    }
                    BodyPart::NeedMore => break Ok(BodyStep::More),
                    BodyPart::End => break Ok(BodyStep::End),
                }
            }
            Err(malformed) => break Err(Failure::Malformed(malformed)),
        }
    };
    // Data that precedes an error is still forwarded.
    match gatherer.finish(&mut sink) {
        Ok(()) => (used, step),
        Err(refused) => {
            // The reader may have reached the end although `sink` refused the data: no request may follow.
            *reader = unframed_body();
            (used, Err(refused))
        }
    }
}

/// The body of a message whose framing is invalid: no request may follow it.
fn unframed_body() -> BodyReader {
    BodyReader::new(Framing::UntilClose, BodyLimits::default())
}

const fn size_of_body(framing: Framing) -> BodySize {
    match framing {
        Framing::None => BodySize::None,
        Framing::Length(length) => BodySize::Exact(length),
        Framing::Chunked | Framing::UntilClose => BodySize::Unknown,
    }
}

/// The upgrade that the head asks for. Only `websocket` is supported; a server may ignore others (RFC 9110 §7.8).
fn requested_upgrade(head: &Head) -> Upgrade {
    match upgrade_to(head) {
        Some(protocol) if protocol.eq_ignore_ascii_case(b"websocket") => Upgrade::WebSocket,
        _ => Upgrade::None,
    }
}

/// Whether the peer is unreachable, as opposed to having closed the connection.
fn is_unreachable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}
