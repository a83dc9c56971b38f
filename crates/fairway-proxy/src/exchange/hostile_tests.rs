//! Endpoints of HTTP/2 that may break rules, in virtual time: frames are written by hand, so nothing keeps them from any of it.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use fairway_model::BackendProtocol;
use fairway_testkit::wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::testing::{Client, Meeting, Stage};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flags: END_STREAM or ACK, and END_HEADERS.
pub(super) const END: u8 = 1;
pub(super) const WHOLE: u8 = 4;

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

/// A field that is not indexed.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let (name_length, value_length) = (u8::try_from(name.len()).unwrap(), u8::try_from(value.len()).unwrap());
    [&[0, name_length], name.as_bytes(), &[value_length], value.as_bytes()].concat()
}

/// A head of an answer with these fields.
pub(super) fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let fields: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
    frame(HEADERS, flags | WHOLE, stream, &[OK, &fields].concat())
}

pub(super) fn status(stream: u32, flags: u8, status: &str) -> Vec<u8> {
    frame(HEADERS, flags | WHOLE, stream, &field(":status", status))
}

/// The end of a connection that writes any frame.
pub(super) struct Raw {
    pub(super) stream: DuplexStream,
    input: Vec<u8>,
    pub(super) said: Shared,
}

/// What Fairway told hostile endpoints: kind, stream, and first word of what ends streams and connections, and PINGs.
pub(super) type Shared = Rc<RefCell<Vec<(u8, u32, u32)>>>;

impl Raw {
    pub(super) fn new(stream: DuplexStream, said: &Shared) -> Self {
        Self { stream, input: Vec::new(), said: Rc::clone(said) }
    }

    pub(super) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
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
            RESET => self.said.borrow_mut().push((RESET, stream, word(0))),
            GOAWAY => self.said.borrow_mut().push((GOAWAY, 0, word(4))),
            PING if header[4] & END == 0 => self.said.borrow_mut().push((PING, 0, word(0))),
            _ => {}
        }
        Some((header[3], header[4], stream, payload))
    }

    /// Waits for a whole request; gives its stream.
    pub(super) async fn request(&mut self) -> Option<u32> {
        self.request_with_body().await.map(|(stream, _)| stream)
    }

    /// The same with its body.
    pub(super) async fn request_with_body(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut body = Vec::new();
        loop {
            let (kind, flags, stream, payload) = self.next().await?;
            if kind == DATA {
                body.extend_from_slice(&payload);
            }
            match kind {
                HEADERS | DATA if flags & END > 0 => return Some((stream, body)),
                PING if flags & END == 0 => self.say(frame(PING, END, 0, &payload)).await,
                SETTINGS if flags & END == 0 => self.say(frame(SETTINGS, END, 0, &[])).await,
                _ => {}
            }
        }
    }

    /// The same of HTTP/1, whose stream has the number 1.
    pub(super) async fn text_request_with_body(&mut self) -> Option<(u32, Vec<u8>)> {
        loop {
            if let Some(head) = wire::head(&self.input).unwrap() {
                let rest = &self.input[head.length..];
                let body = match wire::framing(&head.fields).unwrap() {
                    Some(wire::Framing::Length(length)) => {
                        (rest.len() >= length).then(|| (rest[..length].to_vec(), length))
                    }
                    Some(wire::Framing::Chunked) => {
                        wire::chunked(rest).unwrap().map(|one| (one.content, one.length))
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

    /// Takes what comes until the connection ends.
    pub(super) async fn rest(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// Answers everything with 200 and two bytes.
pub(super) async fn good(mut raw: Raw) {
    raw.say(frame(SETTINGS, 0, 0, &[])).await;
    while let Some(id) = raw.request().await {
        raw.say([head(id, 0, &[]), frame(DATA, END, id, b"ok")].concat()).await;
    }
}

/// A stage over endpoints of HTTP/2; the script gets the number of the connection, from 1.
pub(super) fn stage<F: Future<Output = ()> + 'static>(
    endpoints: usize,
    script: impl Fn(usize, Raw) -> F + 'static,
) -> (Stage, Shared) {
    let said = Shared::default();
    let (theirs, count, script) = (Rc::clone(&said), Cell::new(0), Rc::new(script));
    let stage = Stage::speaking(BackendProtocol::H2c, endpoints, move |_| {
        count.set(count.get() + 1);
        let (number, said, script) = (count.get(), Rc::clone(&theirs), Rc::clone(&script));
        Meeting::with(move |stream| async move { script(number, Raw::new(stream, &said)).await })
    });
    (stage, said)
}

/// What a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gets {
    /// A whole answer.
    Whole(u16),
    /// The beginning of one.
    Broken,
}

pub(super) async fn gets(client: &mut Client) -> Gets {
    loop {
        match timeout(Duration::from_secs(600), client.answer()).await.unwrap() {
            Some(seen) if seen.status < 200 => {}
            Some(seen) => return Gets::Whole(seen.status),
            None => return Gets::Broken,
        }
    }
}

pub(super) async fn settle() {
    for _ in 0..200 {
        yield_now().await;
    }
}

pub(super) const PROTOCOL: u32 = 1;
pub(super) const FLOW: u32 = 3;
pub(super) const CLOSED: u32 = 5;
pub(super) const SIZE: u32 = 6;
pub(super) const CANCEL: u32 = 8;
pub(super) const COMPRESSION: u32 = 9;
pub(super) const CALM: u32 = 11;
