//! A connection of HTTP/3 (RFC 9114) over [`Quic`], driven from the thread's own epoll loop: [`Http3::receive`] and
//! [`Http3::expire`] take what came, [`Http3::drive`] says what became of requests, [`Http3::transmit`] writes all that is
//! to be written since, so that an acknowledgement and the next requests go together. The framing is its own and shares
//! nothing with the proxy's.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use fairway_lab_measure::results::Class;
use quinn_proto::{ConnectionError, Dir, Event, ReadError, StreamEvent, StreamId, VarInt, WriteError};

use super::answer::Expected;
use super::frames::{Answer, CONTROL_STREAM, Control, DECODER_STREAM, ENCODER_STREAM, SETTINGS, frame};
use super::qpack::Malformed;
use super::quic::{Datagrams, Quic, not_made};
use super::tally::{Exchange, Fate};

/// RFC 9114 §8.1.
const NO_ERROR: u32 = 0x100;
const GENERAL_PROTOCOL_ERROR: u32 = 0x101;
const STREAM_CREATION_ERROR: u32 = 0x103;
const REQUEST_CANCELLED: u32 = 0x10c;

/// A connection that is open or being made.
pub(super) struct Http3 {
    pub(super) quic: Quic,
    streams: Vec<Stream>,
    /// Streams of the server that are read.
    peers: Vec<Peer>,
    /// The number by which the deadline of the handshake is found, until that is done.
    opening: Option<u64>,
    state: State,
    /// Whether the server allows one more stream.
    can_open: bool,
    /// When a timer of the thread looks after it next.
    pub(super) armed: Option<Instant>,
    received: u64,
}

enum State {
    Open,
    /// The peer takes no more requests; those that it has may end.
    Leaving,
    Over(Class, String),
}

/// A request on its way.
struct Stream {
    id: StreamId,
    exchange: Exchange,
    answer: Answer,
    /// What the connection did not take of the request yet.
    unsent: Bytes,
}

/// A stream that the server opened.
struct Peer {
    id: StreamId,
    control: Control,
}

/// How far a connection is that is being made.
pub(super) enum Opened {
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

    /// The number by which the deadline of its handshake is found, before that is done.
    pub(super) fn opening(&self) -> Option<u64> {
        self.opening
    }

    /// Whether it can take one more, of at most `most`.
    pub(super) fn has_room(&self, most: usize) -> bool {
        let is_open = matches!(self.state, State::Open) && self.opening.is_none();
        is_open && self.can_open && self.streams.len() < most
    }

    /// Whether it has ended, or ends as soon as its requests have.
    pub(super) fn is_over(&self) -> bool {
        match self.state {
            State::Over(..) => true,
            State::Leaving => self.streams.is_empty(),
            State::Open => false,
        }
    }

    /// Bytes of streams since this was asked last.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Reads what is there, once.
    pub(super) fn receive(&mut self, room: &mut Datagrams, now: Instant) {
        if let Err(error) = self.quic.receive(room, now) {
            self.system_failed(&error);
        }
    }

    /// Does what is due by `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        self.quic.expire(now);
    }

    /// Writes what is to be written.
    pub(super) fn transmit(&mut self, now: Instant) {
        if let Err(error) = self.quic.transmit(now) {
            self.system_failed(&error);
        }
    }

    /// Ends the connection, whether or not requests are on their way.
    pub(super) fn close(mut self: Box<Self>) {
        let now = Instant::now();
        self.quic.connection.close(now, VarInt::from_u32(NO_ERROR), Bytes::new());
        // The other side may be gone already; there is nobody to tell.
        _ = self.quic.transmit(now);
    }

    /// What the handshake came to, if it is done.
    pub(super) fn take_opened(&mut self) -> Opened {
        if let State::Over(class, text) = &self.state {
            return Opened::Failed(*class, text.clone());
        }
        while let Some(event) = self.quic.event() {
            match event {
                Event::Connected => {
                    self.begin();
                    return Opened::Yes;
                }
                Event::ConnectionLost { reason } => {
                    let (class, text) = not_made(&reason);
                    return Opened::Failed(class, text);
                }
                _ => {}
            }
        }
        Opened::Not
    }

    /// Opens the streams that a client has, with its settings, which are none: no dynamic table and no limits.
    fn begin(&mut self) {
        self.opening = None;
        let settings = frame(SETTINGS, &[]);
        for (kind, content) in
            [(CONTROL_STREAM, &settings[..]), (ENCODER_STREAM, &[][..]), (DECODER_STREAM, &[][..])]
        {
            // A server must allow for three (RFC 9114 §6.2).
            let Some(id) = self.quic.connection.streams().open(Dir::Uni) else { continue };
            // Types below 64 are a byte.
            let bytes = [&[kind as u8][..], content].concat();
            if !matches!(self.quic.connection.send_stream(id).write(&bytes), Ok(taken) if taken == bytes.len())
            {
                self.fail(Class::ConnectOther, "the server takes no settings".to_owned());
            }
        }
    }

    /// Sends a request, which is whole frames. False when the peer takes no more: nothing was sent, and the request is still
    /// to do.
    pub(super) fn send(&mut self, frames: &[u8], exchange: Exchange) -> bool {
        let Some(id) = self.quic.connection.streams().open(Dir::Bi) else {
            self.can_open = false;
            return false;
        };
        let mut stream = Stream { id, exchange, answer: Answer::default(), unsent: Bytes::new() };
        let mut sender = self.quic.connection.send_stream(id);
        let taken = match sender.write(frames) {
            Ok(taken) => taken,
            Err(WriteError::Blocked) => 0,
            // The answer to the stream says why.
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => frames.len(),
        };
        if taken == frames.len() {
            // A stream that was stopped needs no end.
            _ = sender.finish();
        } else {
            stream.unsent = Bytes::copy_from_slice(&frames[taken..]);
        }
        self.streams.push(stream);
        true
    }

    /// Gives up the request with this number: what it was doing.
    pub(super) fn give_up(&mut self, number: u64) -> Option<(Exchange, Fate)> {
        let place = self.streams.iter().position(|stream| stream.exchange.number == number)?;
        let stream = self.streams.swap_remove(place);
        self.cancel(stream.id);
        let fate = match stream.answer.status() {
            None => Fate::Failed(Class::HeadTimeout, "no head of an answer".to_owned()),
            Some(status) => {
                Fate::Failed(Class::BodyTimeout, format!("HTTP/3 {status}, and then not all of its body"))
            }
        };
        Some((stream.exchange, fate))
    }

    /// Takes what came; what ended is added to `ended`.
    pub(super) fn drive(&mut self, expected: &Expected, ended: &mut Vec<(Exchange, Fate)>) {
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
                Event::ConnectionLost { reason } => self.lost(&reason),
                _ => {}
            }
        }
        if let State::Over(class, text) = &self.state {
            for stream in self.streams.drain(..) {
                let fate = match stream.answer.status() {
                    Some(status) => Fate::Failed(Class::Truncated, format!("HTTP/3 {status}, and {text}")),
                    None => Fate::Failed(*class, text.clone()),
                };
                ended.push((stream.exchange, fate));
            }
        }
    }

    fn read_answer(&mut self, id: StreamId, expected: &Expected, ended: &mut Vec<(Exchange, Fate)>) {
        let Some(place) = self.streams.iter().position(|stream| stream.id == id) else { return };
        let stream = &mut self.streams[place];
        let fate = match self.quic.connection.recv_stream(id).read(true) {
            Err(error) => Some(Fate::Failed(Class::ReadReset, error.to_string())),
            Ok(mut chunks) => {
                let fate = loop {
                    match chunks.next(usize::MAX) {
                        Ok(Some(chunk)) => {
                            self.received += chunk.bytes.len() as u64;
                            if let Err(why) = stream.answer.feed(&chunk.bytes, expected) {
                                break Some(stream.answer.malformed(why));
                            }
                        }
                        Ok(None) => break Some(stream.answer.end(expected)),
                        Err(ReadError::Blocked) => break None,
                        Err(ReadError::Reset(code)) => break Some(stream.answer.reset(code.into_inner())),
                    }
                };
                // All that is to be written is written later in any case.
                _ = chunks.finalize();
                fate
            }
        };
        if let Some(fate) = fate {
            let stream = self.streams.swap_remove(place);
            if !stream.unsent.is_empty() || !matches!(fate, Fate::Answered { .. }) {
                self.cancel(id);
            }
            ended.push((stream.exchange, fate));
        }
    }

    /// Reads a stream that the server opened.
    fn read_peer(&mut self, id: StreamId, ended: &mut Vec<(Exchange, Fate)>) {
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
            self.leave(last, ended);
        }
        if is_over {
            self.peers.swap_remove(place);
        } else if is_ignored {
            self.peers.swap_remove(place);
            // It may have ended meanwhile.
            _ = self.quic.connection.recv_stream(id).stop(VarInt::from_u32(STREAM_CREATION_ERROR));
        }
        if let Err(why) = outcome {
            self.violated(why);
        }
    }

    /// The server takes no more requests, and works on none from this number on (RFC 9114 §5.2).
    fn leave(&mut self, first: u64, ended: &mut Vec<(Exchange, Fate)>) {
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
            ended.push((stream.exchange, Fate::Failed(Class::ReadReset, text)));
        }
    }

    fn write_rest(&mut self, id: StreamId) {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) else { return };
        let mut sender = self.quic.connection.send_stream(id);
        match sender.write(&stream.unsent) {
            Ok(taken) => _ = stream.unsent.split_to(taken),
            Err(WriteError::Blocked) => return,
            // The answer to the stream says why.
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => stream.unsent.clear(),
        }
        if stream.unsent.is_empty() {
            // A stream that was stopped needs no end.
            _ = sender.finish();
        }
    }

    /// Neither side needs the stream any longer; it may have ended on both.
    fn cancel(&mut self, id: StreamId) {
        let code = VarInt::from_u32(REQUEST_CANCELLED);
        _ = self.quic.connection.send_stream(id).reset(code);
        _ = self.quic.connection.recv_stream(id).stop(code);
    }

    fn lost(&mut self, reason: &ConnectionError) {
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

    /// The server does what a server must not do.
    fn violated(&mut self, why: Malformed) {
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

    /// The first reason counts.
    fn fail(&mut self, class: Class, text: String) {
        if !matches!(self.state, State::Over(..)) {
            self.state = State::Over(class, text);
        }
    }
}
