//! A peer that can write any frames, and reads the replies.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use fairway_http::Head;
use fairway_http2::frame::{
    self, FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind, HEADER_BYTES, Header, write_frame,
};
use fairway_http2::{Code, Config, Event, Server};

pub(crate) mod table;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// `:method: GET`, `:scheme: http`, `:path: /`, `:authority: a`.
pub(crate) const GET: &[u8] = &[0x82, 0x86, 0x84, 0x01, 0x01, b'a'];

/// The same with POST.
pub(crate) const POST: &[u8] = &[0x83, 0x86, 0x84, 0x01, 0x01, b'a'];

/// A frame.
pub(crate) fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(kind, flags, stream, payload, &mut out);
    out
}

pub(crate) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = settings
        .iter()
        .flat_map(|(number, value)| [&number.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(FrameKind::Settings, 0, 0, &payload)
}

pub(crate) fn headers(stream: u32, end: bool, block: &[u8]) -> Vec<u8> {
    frame(FrameKind::Headers, FLAG_END_HEADERS | if end { FLAG_END_STREAM } else { 0 }, stream, block)
}

pub(crate) fn data(stream: u32, end: bool, bytes: &[u8]) -> Vec<u8> {
    frame(FrameKind::Data, if end { FLAG_END_STREAM } else { 0 }, stream, bytes)
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(FrameKind::WindowUpdate, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(FrameKind::Reset, 0, stream, &code.to_be_bytes())
}

pub(crate) fn ping(flags: u8) -> Vec<u8> {
    frame(FrameKind::Ping, flags, 0, &[7; 8])
}

/// A literal field without indexing.
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap();
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

/// The received events, owned; the parts of a body are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReceivedEvent {
    Head { stream: u32, end: bool, method: String, target: String, fields: usize },
    HeadTooLarge { stream: u32, end: bool },
    Trailers { stream: u32, fields: usize },
    Data { stream: u32, bytes: Vec<u8>, end: bool },
    Other(String),
}

/// A frame that the server sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) kind: FrameKind,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A server and its unused input.
pub(crate) struct Peer {
    pub(crate) server: Server,
    pub(crate) head: Head,
    pub(crate) now: u64,
    input: Vec<u8>,
}

impl Peer {
    /// A connection after the handshake.
    pub(crate) fn new() -> Self {
        Peer::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let mut peer = Peer::raw(config);
        let begin = [PREFACE, &settings(&[]), &frame(FrameKind::Settings, FLAG_ACK, 0, &[])].concat();
        assert_eq!(peer.send(&begin), []);
        peer.sent();
        peer
    }

    /// A connection without any input.
    pub(crate) fn raw(config: Config) -> Self {
        Peer { server: Server::new(config, 0), head: Head::new(), now: 0, input: Vec::new() }
    }

    /// Sends bytes and returns the resulting events.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<ReceivedEvent> {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let (mut at, mut seen) = (0, Vec::new());
        loop {
            let (used, event) = self.server.receive(self.now, &input[at..], &mut self.head);
            at += used;
            match event {
                Event::NeedMore | Event::Wait(_) => {
                    if let Event::Wait(wait) = event {
                        seen.push(ReceivedEvent::Other(format!("{wait:?}")));
                    }
                    self.input = input[at..].to_vec();
                    return seen;
                }
                Event::Closed(fault) => {
                    seen.push(ReceivedEvent::Other(format!("Closed({:?}, {})", fault.code, fault.rule)));
                    return seen;
                }
                event => note(event, &self.head, &mut seen),
            }
        }
    }

    /// The frames that the server wrote since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let bytes = self.server.pending().to_vec();
        self.server.mark_written(bytes.len());
        frames(&bytes)
    }

    /// Opens a stream with a complete GET.
    pub(crate) fn get(&mut self, stream: u32) {
        let events = self.send(&headers(stream, true, GET));
        assert!(matches!(events[..], [ReceivedEvent::Head { end: true, .. }]), "{events:?}");
    }

    /// Opens a stream with an incomplete POST.
    pub(crate) fn post(&mut self, stream: u32) {
        let events = self.send(&headers(stream, false, POST));
        assert!(matches!(events[..], [ReceivedEvent::Head { end: false, .. }]), "{events:?}");
    }

    /// Responds on a stream and releases it.
    pub(crate) fn respond(&mut self, stream: u32) {
        assert!(self.server.send_head(stream, &ok(), true));
        self.server.release(stream);
    }
}

/// A 200.
pub(crate) fn ok() -> Head {
    let mut head = Head::new();
    head.start_response(200);
    head
}

fn note(event: Event<'_>, head: &Head, events: &mut Vec<ReceivedEvent>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let new = match event {
        Event::Head { stream, end, .. } => ReceivedEvent::Head {
            stream,
            end,
            method: text(head.method_bytes()),
            target: text(head.target()),
            fields: head.field_count(),
        },
        Event::HeadTooLarge { stream, end } => ReceivedEvent::HeadTooLarge { stream, end },
        Event::Trailers { stream } => ReceivedEvent::Trailers { stream, fields: head.field_count() },
        Event::Data { stream, bytes, end } => {
            match events.last_mut() {
                Some(ReceivedEvent::Data { stream: before, bytes: so_far, end: ended })
                    if *before == stream && !*ended =>
                {
                    so_far.extend_from_slice(bytes);
                    *ended = end;
                    return;
                }
                _ => {}
            }
            ReceivedEvent::Data { stream, bytes: bytes.to_vec(), end }
        }
        event => ReceivedEvent::Other(format!("{event:?}")),
    };
    events.push(new);
}

/// Splits output into frames.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Sent> {
    let mut frames = Vec::new();
    while let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
        let header = Header::read(header);
        let end = HEADER_BYTES + header.length as usize;
        let kind = FrameKind::from_number(header.kind).expect("we write no unknown frames");
        let payload = bytes[HEADER_BYTES..end].to_vec();
        frames.push(Sent { kind, flags: header.flags, stream: header.stream, payload });
        bytes = &bytes[end..];
    }
    assert!(bytes.is_empty());
    frames
}

/// The streams that were reset, with their codes.
pub(crate) fn resets(frames: &[Sent]) -> Vec<(u32, Code)> {
    let reset = frames.iter().filter(|frame| frame.kind == FrameKind::Reset);
    reset.map(|frame| (frame.stream, Code::from_number(frame::first_u32(&frame.payload)))).collect()
}

/// The codes of GOAWAY.
pub(crate) fn goodbyes(frames: &[Sent]) -> Vec<(u32, Code)> {
    let away = frames.iter().filter(|frame| frame.kind == FrameKind::GoAway);
    away.map(|frame| frame::go_away(&frame.payload)).collect()
}

/// The increments of WINDOW_UPDATE by stream.
pub(crate) fn updates(frames: &[Sent]) -> Vec<(u32, u32)> {
    let updates = frames.iter().filter(|frame| frame.kind == FrameKind::WindowUpdate);
    updates.map(|frame| (frame.stream, frame::first_u32(&frame.payload))).collect()
}
