//! Support for HTTP/2 endpoints that break rules, in virtual time: frames are written by hand, so that anything can be sent.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use fairway_model::BackendProtocol;
use fairway_testkit::wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::testing::{Client, ScriptedConnect, TestWorker};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flags: END_STREAM or ACK, and END_HEADERS.
pub(super) const FLAG_END_STREAM: u8 = 1;
pub(super) const FLAG_END_HEADERS: u8 = 4;

/// `:status: 200`.
pub(super) const OK: &[u8] = &[0x88];

pub(super) const POST: &str = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

pub(super) fn word(kind: u8, stream: u32, word: u32) -> Vec<u8> {
    frame(kind, 0, stream, &word.to_be_bytes())
}

pub(super) fn setting(number: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&number.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

pub(super) fn go_away(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

/// A literal field without indexing.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let (name_length, value_length) = (u8::try_from(name.len()).unwrap(), u8::try_from(value.len()).unwrap());
    [&[0, name_length], name.as_bytes(), &[value_length], value.as_bytes()].concat()
}

/// A response head with these fields.
pub(super) fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let fields: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
    frame(HEADERS, flags | FLAG_END_HEADERS, stream, &[OK, &fields].concat())
}

pub(super) fn status(stream: u32, flags: u8, status: &str) -> Vec<u8> {
    frame(HEADERS, flags | FLAG_END_HEADERS, stream, &field(":status", status))
}

/// An end of a connection that can write any frame.
pub(super) struct Raw {
    pub(super) stream: DuplexStream,
    input: Vec<u8>,
    pub(super) sent_frames: SentFrames,
}

/// What Fairway sent to hostile endpoints: type, stream and first word of frames that end streams and connections, and of
/// PINGs.
pub(super) type SentFrames = Rc<RefCell<Vec<(u8, u32, u32)>>>;

impl Raw {
    pub(super) fn new(stream: DuplexStream, sent_frames: &SentFrames) -> Self {
        Self { stream, input: Vec::new(), sent_frames: Rc::clone(sent_frames) }
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // Fairway may have closed.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    async fn fill(&mut self, count: usize) -> Option<()> {
        while self.input.len() < count {
            if self.stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                return None;
            }
        }
        Some(())
    }

    /// The next frame: kind, flags, stream, payload.
    pub(super) async fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        self.fill(9).await?;
        if self.input.starts_with(b"PRI") {
            self.fill(24).await?;
            self.input.drain(..24);
            self.fill(9).await?;
        }
        let header: Vec<u8> = self.input.drain(..9).collect();
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        self.fill(length).await?;
        let payload: Vec<u8> = self.input.drain(..length).collect();
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match header[3] {
            RST_STREAM => self.sent_frames.borrow_mut().push((RST_STREAM, stream, word(0))),
            GOAWAY => self.sent_frames.borrow_mut().push((GOAWAY, 0, word(4))),
            PING if header[4] & FLAG_END_STREAM == 0 => {
                self.sent_frames.borrow_mut().push((PING, 0, word(0)));
            }
            _ => {}
        }
        Some((header[3], header[4], stream, payload))
    }

    /// Waits for a complete request; returns its stream.
    pub(super) async fn request(&mut self) -> Option<u32> {
        self.request_with_body().await.map(|(stream, _)| stream)
    }

    /// Waits for a complete request with its body.
    pub(super) async fn request_with_body(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut body = Vec::new();
        loop {
            let (kind, flags, stream, payload) = self.next().await?;
            if kind == DATA {
                body.extend_from_slice(&payload);
            }
            match kind {
                HEADERS | DATA if flags & FLAG_END_STREAM > 0 => return Some((stream, body)),
                PING if flags & FLAG_END_STREAM == 0 => {
                    self.send(frame(PING, FLAG_END_STREAM, 0, &payload)).await;
                }
                SETTINGS if flags & FLAG_END_STREAM == 0 => {
                    self.send(frame(SETTINGS, FLAG_END_STREAM, 0, &[])).await;
                }
                _ => {}
            }
        }
    }

    /// The same for HTTP/1; the stream number is 1.
    pub(super) async fn text_request_with_body(&mut self) -> Option<(u32, Vec<u8>)> {
        loop {
            if let Some(head) = wire::head(&self.input).unwrap() {
                let rest = &self.input[head.length..];
                let body = match wire::framing(&head.fields).unwrap() {
                    Some(wire::Framing::Length(length)) => {
                        (rest.len() >= length).then(|| (rest[..length].to_vec(), length))
                    }
                    Some(wire::Framing::Chunked) => {
                        wire::chunked(rest).unwrap().map(|chunk| (chunk.content, chunk.length))
                    }
                    _ => Some((Vec::new(), 0)),
                };
                if let Some((body, length)) = body {
                    self.input.drain(..head.length + length);
                    return Some((1, body));
                }
            }
            self.fill(self.input.len() + 1).await?;
        }
    }

    /// Reads until the connection ends.
    pub(super) async fn read_to_end(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// Responds to everything with 200 and two bytes.
pub(super) async fn serve_well(mut raw: Raw) {
    raw.send(frame(SETTINGS, 0, 0, &[])).await;
    while let Some(id) = raw.request().await {
        raw.send([head(id, 0, &[]), frame(DATA, FLAG_END_STREAM, id, b"ok")].concat()).await;
    }
}

/// A stage with HTTP/2 endpoints; the script gets the number of the connection, from 1.
pub(super) fn stage<F: Future<Output = ()> + 'static>(
    endpoints: usize,
    script: impl Fn(usize, Raw) -> F + 'static,
) -> (TestWorker, SentFrames) {
    let sent_frames = SentFrames::default();
    let (theirs, count, script) = (Rc::clone(&sent_frames), Cell::new(0), Rc::new(script));
    let stage = TestWorker::with_protocol(BackendProtocol::H2c, endpoints, move |_| {
        count.set(count.get() + 1);
        let (number, sent_frames, script) = (count.get(), Rc::clone(&theirs), Rc::clone(&script));
        ScriptedConnect::served_by(move |stream| async move {
            script(number, Raw::new(stream, &sent_frames)).await;
        })
    });
    (stage, sent_frames)
}

/// What a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientResult {
    /// A complete response.
    Whole(u16),
    /// A truncated response.
    Broken,
}

pub(super) async fn client_result(client: &mut Client) -> ClientResult {
    loop {
        match timeout(Duration::from_secs(600), client.response()).await.unwrap() {
            Some(seen) if seen.status < 200 => {}
            Some(seen) => return ClientResult::Whole(seen.status),
            None => return ClientResult::Broken,
        }
    }
}

pub(super) async fn run_ready_tasks() {
    for _ in 0..200 {
        yield_now().await;
    }
}

pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const FLOW_CONTROL_ERROR: u32 = 3;
pub(super) const STREAM_CLOSED: u32 = 5;
pub(super) const FRAME_SIZE_ERROR: u32 = 6;
pub(super) const CANCEL: u32 = 8;
pub(super) const COMPRESSION_ERROR: u32 = 9;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;
