//! An HTTP/3 connection (RFC 9114) over [`Quic`], driven from the thread's epoll loop: [`Http3::receive`] and
//! [`Http3::expire`] handle input, [`Http3::drive`] reports outcomes, and [`Http3::transmit`] writes all pending output at
//! once, so that acknowledgements and new requests share datagrams. The framing shares no code with the proxy.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use fairway_lab_measure::results::Class;
use quinn_proto::{ConnectionError, Dir, Event, ReadError, StreamEvent, StreamId, VarInt, WriteError};

use super::frames::{Answer, CONTROL_STREAM, Control, DECODER_STREAM, ENCODER_STREAM, SETTINGS_FRAME, frame};
use super::qpack::Malformed;
use super::quic::{Quic, ReceiveBuffer, classify_connect_error};
use super::response::Expected;
use super::thread_counts::{Exchange, RequestOutcome};

/// RFC 9114 §8.1.
const NO_ERROR: u32 = 0x100;
const GENERAL_PROTOCOL_ERROR: u32 = 0x101;
const STREAM_CREATION_ERROR: u32 = 0x103;
const REQUEST_CANCELLED: u32 = 0x10c;

/// A connection that is open or being opened.
pub(super) struct Http3 {
    pub(super) quic: Quic,
    streams: Vec<Stream>,
    /// Streams opened by the server.
    peers: Vec<Peer>,
    /// The key of the handshake's deadline, until the handshake is complete.
    opening: Option<u64>,
    state: State,
    /// Whether the server allows one more stream.
    can_open: bool,
    /// When the thread's timer next handles this connection.
    pub(super) armed: Option<Instant>,
    received: u64,
}

enum State {
    Open,
    /// The server accepts no more requests and completes those in flight.
    Leaving,
    Over(Class, String),
}

/// A request in flight.
struct Stream {
    id: StreamId,
    exchange: Exchange,
    response: Answer,
    /// The part of the request not yet written.
    unsent: Bytes,
}

/// A stream that the server opened.
struct Peer {
    id: StreamId,
    control: Control,
}

/// The progress of opening a connection.
pub(super) enum OpeningProgress {
    Not,
    Yes,
    Failed(Class, String),
}

impl Http3 {
    pub(super) fn new(quic: Quic, number: u64) -> Self {
        Self {
            quic,
            streams: Vec::new(),
            peers: Vec::new(),
            opening: Some(number),
            state: State::Open,
            can_open: true,
            armed: None,
            received: 0,
        }
    }

    /// The key of the handshake's deadline, until the handshake is complete.
    pub(super) fn opening(&self) -> Option<u64> {
        self.opening
    }

    /// Whether it can carry another request, with at most `limit` in flight.
    pub(super) fn has_room(&self, limit: usize) -> bool {
        let is_open = matches!(self.state, State::Open) && self.opening.is_none();
        is_open && self.can_open && self.streams.len() < limit
    }

    /// Whether it is closed, or closes once its requests are complete.
    pub(super) fn is_over(&self) -> bool {
        match self.state {
            State::Over(..) => true,
            State::Leaving => self.streams.is_empty(),
            State::Open => false,
        }
    }

    /// Stream bytes received since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Reads one batch of datagrams.
    pub(super) fn receive(&mut self, buffer: &mut ReceiveBuffer, now: Instant) {
        if let Err(error) = self.quic.receive(buffer, now) {
            self.system_failed(&error);
        }
    }

    /// Handles timers due at `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        self.quic.expire(now);
    }

    /// Writes pending output.
    pub(super) fn transmit(&mut self, now: Instant) {
        if let Err(error) = self.quic.transmit(now) {
            self.system_failed(&error);
        }
    }

    /// Closes the connection even if requests are in flight.
    pub(super) fn close(mut self: Box<Self>) {
        let now = Instant::now();
        self.quic.connection.close(now, VarInt::from_u32(NO_ERROR), Bytes::new());
        // The server may already be gone.
        _ = self.quic.transmit(now);
    }

    /// The result of the handshake, once complete.
    pub(super) fn take_opened(&mut self) -> OpeningProgress {
        if let State::Over(class, text) = &self.state {
            return OpeningProgress::Failed(*class, text.clone());
        }
        while let Some(event) = self.quic.event() {
            match event {
                Event::Connected => {
                    self.start();
                    return OpeningProgress::Yes;
                }
                Event::ConnectionLost { reason } => {
                    let (class, text) = classify_connect_error(&reason);
                    return OpeningProgress::Failed(class, text);
                }
                _ => {}
            }
        }
        OpeningProgress::Not
    }

    /// Opens the client's streams and sends empty settings: no dynamic table, no limits.
    fn start(&mut self) {
        self.opening = None;
        let settings = frame(SETTINGS_FRAME, &[]);
        for (kind, content) in
            [(CONTROL_STREAM, &settings[..]), (ENCODER_STREAM, &[][..]), (DECODER_STREAM, &[][..])]
        {
            // A server must allow three (RFC 9114 §6.2).
            let Some(id) = self.quic.connection.streams().open(Dir::Uni) else { continue };
            // Types below 64 take one byte.
            let bytes = [&[kind as u8][..], content].concat();
            if !matches!(self.quic.connection.send_stream(id).write(&bytes), Ok(taken) if taken == bytes.len())
            {
                self.fail(Class::ConnectOther, "the server takes no settings".to_owned());
            }
        }
    }

    /// Sends a request's frames. Returns false, with nothing sent, if the server accepts no more.
    pub(super) fn send(&mut self, frames: &[u8], exchange: Exchange) -> bool {
        let Some(id) = self.quic.connection.streams().open(Dir::Bi) else {
            self.can_open = false;
            return false;
        };
        let mut stream = Stream { id, exchange, response: Answer::default(), unsent: Bytes::new() };
        let mut sender = self.quic.connection.send_stream(id);
        let taken = match sender.write(frames) {
            Ok(taken) => taken,
            Err(WriteError::Blocked) => 0,
            // The stream's response reports the reason.
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => frames.len(),
        };
        if taken == frames.len() {
            // A stopped stream needs no FIN.
            _ = sender.finish();
        } else {
            stream.unsent = Bytes::copy_from_slice(&frames[taken..]);
        }
        self.streams.push(stream);
        true
    }

    /// Gives up the request with this number; returns its outcome.
    pub(super) fn give_up(&mut self, number: u64) -> Option<(Exchange, RequestOutcome)> {
        let place = self.streams.iter().position(|stream| stream.exchange.number == number)?;
        let stream = self.streams.swap_remove(place);
        self.cancel(stream.id);
        let fate = match stream.response.status() {
            None => RequestOutcome::Failed(Class::HeadTimeout, "no head of an answer".to_owned()),
            Some(status) => RequestOutcome::Failed(
                Class::BodyTimeout,
                format!("HTTP/3 {status}, and then not all of its body"),
            ),
        };
        Some((stream.exchange, fate))
    }

    /// Processes received data; adds finished requests to `ended`.
    pub(super) fn drive(&mut self, expected: &Expected, ended: &mut Vec<(Exchange, RequestOutcome)>) {
        while let Some(event) = self.quic.event() {
            match event {
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => {
                    self.read_answer(id, expected, ended);
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read_peer(id, ended),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.quic.connection.streams().accept(Dir::Uni) {
                        self.peers.push(Peer { id, control: Control::default() });
                        self.read_peer(id, ended);
                    }
                }
                Event::Stream(StreamEvent::Writable { id }) => self.write_rest(id),
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.can_open = true,
                Event::ConnectionLost { reason } => self.handle_connection_loss(&reason),
                _ => {}
            }
        }
        if let State::Over(class, text) = &self.state {
            for stream in self.streams.drain(..) {
                let fate = match stream.response.status() {
                    Some(status) => {
                        RequestOutcome::Failed(Class::Truncated, format!("HTTP/3 {status}, and {text}"))
                    }
                    None => RequestOutcome::Failed(*class, text.clone()),
                };
                ended.push((stream.exchange, fate));
            }
        }
    }

    fn read_answer(
        &mut self,
        id: StreamId,
        expected: &Expected,
        ended: &mut Vec<(Exchange, RequestOutcome)>,
    ) {
        let Some(place) = self.streams.iter().position(|stream| stream.id == id) else { return };
        let stream = &mut self.streams[place];
        let fate = match self.quic.connection.recv_stream(id).read(true) {
            Err(error) => Some(RequestOutcome::Failed(Class::ReadReset, error.to_string())),
            Ok(mut chunks) => {
                let fate = loop {
                    match chunks.next(usize::MAX) {
                        Ok(Some(chunk)) => {
                            self.received += chunk.bytes.len() as u64;
                            if let Err(why) = stream.response.feed(&chunk.bytes, expected) {
                                break Some(stream.response.malformed(why));
                            }
                        }
                        Ok(None) => break Some(stream.response.end(expected)),
                        Err(ReadError::Blocked) => break None,
                        Err(ReadError::Reset(code)) => break Some(stream.response.reset(code.into_inner())),
                    }
                };
                // Pending output is always written later.
                _ = chunks.finalize();
                fate
            }
        };
        if let Some(fate) = fate {
            let stream = self.streams.swap_remove(place);
            if !stream.unsent.is_empty() || !matches!(fate, RequestOutcome::Answered { .. }) {
                self.cancel(id);
            }
            ended.push((stream.exchange, fate));
        }
    }

    /// Reads from a stream that the server opened.
    fn read_peer(&mut self, id: StreamId, ended: &mut Vec<(Exchange, RequestOutcome)>) {
        let Some(place) = self.peers.iter().position(|peer| peer.id == id) else { return };
        let peer = &mut self.peers[place];
        let mut receiver = self.quic.connection.recv_stream(id);
        let Ok(mut chunks) = receiver.read(true) else { return };
        let mut outcome: Result<(), Malformed> = Ok(());
        let mut is_over = false;
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    self.received += chunk.bytes.len() as u64;
                    outcome = outcome.and_then(|()| peer.control.feed(&chunk.bytes));
                }
                Err(ReadError::Blocked) => break,
                Ok(None) | Err(ReadError::Reset(_)) => {
                    is_over = true;
                    break;
                }
            }
        }
        _ = chunks.finalize();
        let is_ignored = peer.control.is_ignored();
        if is_over && peer.control.is_critical() {
            outcome = outcome.and(Err("it ended a stream that stays open as long as the connection"));
        }
        if let Some(last) = peer.control.take_last() {
            self.handle_goaway(last, ended);
        }
        if is_over {
            self.peers.swap_remove(place);
        } else if is_ignored {
            self.peers.swap_remove(place);
            // It may have ended in the meantime.
            _ = self.quic.connection.recv_stream(id).stop(VarInt::from_u32(STREAM_CREATION_ERROR));
        }
        if let Err(why) = outcome {
            self.close_malformed(why);
        }
    }

    /// Handles GOAWAY: the server accepts no more requests and drops those from stream id `first` on (RFC 9114 §5.2).
    fn handle_goaway(&mut self, first: u64, ended: &mut Vec<(Exchange, RequestOutcome)>) {
        if matches!(self.state, State::Open) {
            self.state = State::Leaving;
        }
        let mut place = 0;
        while let Some(stream) = self.streams.get(place) {
            if u64::from(VarInt::from(stream.id)) < first {
                place += 1;
                continue;
            }
            let stream = self.streams.swap_remove(place);
            self.cancel(stream.id);
            let text = "the server left it behind (GOAWAY)".to_owned();
            ended.push((stream.exchange, RequestOutcome::Failed(Class::ReadReset, text)));
        }
    }

    fn write_rest(&mut self, id: StreamId) {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) else { return };
        let mut sender = self.quic.connection.send_stream(id);
        match sender.write(&stream.unsent) {
            Ok(taken) => _ = stream.unsent.split_to(taken),
            Err(WriteError::Blocked) => return,
            // The stream's response reports the reason.
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => stream.unsent.clear(),
        }
        if stream.unsent.is_empty() {
            // A stopped stream needs no FIN.
            _ = sender.finish();
        }
    }

    /// Cancels both directions of a stream; either may already be closed.
    fn cancel(&mut self, id: StreamId) {
        let code = VarInt::from_u32(REQUEST_CANCELLED);
        _ = self.quic.connection.send_stream(id).reset(code);
        _ = self.quic.connection.recv_stream(id).stop(code);
    }

    fn handle_connection_loss(&mut self, reason: &ConnectionError) {
        let class = match reason {
            ConnectionError::ApplicationClosed(close)
                if close.error_code.into_inner() == u64::from(NO_ERROR) =>
            {
                Class::ReadEof
            }
            ConnectionError::TransportError(_) => Class::Malformed,
            _ => Class::ReadReset,
        };
        self.fail(class, format!("the connection ended: {reason}"));
    }

    /// Closes the connection after a protocol violation by the server.
    fn close_malformed(&mut self, why: Malformed) {
        let code = VarInt::from_u32(GENERAL_PROTOCOL_ERROR);
        self.quic.connection.close(Instant::now(), code, Bytes::from_static(why.as_bytes()));
        self.fail(Class::Malformed, why.to_owned());
    }

    fn system_failed(&mut self, error: &io::Error) {
        let class = match error.kind() {
            _ if self.opening.is_none() => Class::ReadReset,
            io::ErrorKind::ConnectionRefused => Class::ConnectRefused,
            _ => Class::ConnectOther,
        };
        self.fail(class, error.to_string());
    }

    /// Keeps the first reason.
    fn fail(&mut self, class: Class, text: String) {
        if !matches!(self.state, State::Over(..)) {
            self.state = State::Over(class, text);
        }
    }
}
