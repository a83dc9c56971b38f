//! A backend connection with HTTP/2 prior knowledge. Every request gets the same response, so field blocks are never
//! decoded: it counts frames, respects the client's windows and sends the same headers each time.
//!
//! Never exceeds the connection's window; waiting streams are served in order of arrival.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use crate::call;

/// RFC 9113 §6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

const HEADER_TABLE_SIZE: u16 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
/// The default size of a client's dynamic table (RFC 9113 §6.5.2).
const USUAL_TABLE: u32 = 4096;
const USUAL_WINDOW: i64 = 65_535;
/// The limit of Go servers.
const STREAMS: u32 = 250;
/// Bytes of request bodies after which the window is returned to the client.
const CREDIT: usize = 16 * 1024;

/// Bytes per read.
const PIECE: usize = 64 * 1024;

/// Serves until the client closes the connection or breaks the protocol, or the server is gone. Requests wait while
/// responses are `held`.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    answer: &ResponseTemplate,
    mut held: watch::Receiver<bool>,
) {
    let mut connection = Http2::new();
    let mut input = vec![0; PIECE];
    loop {
        if stream.write_all(&connection.out).await.is_err() {
            return;
        }
        connection.out.clear();
        let read = tokio::select! {
            biased;
            changed = held.changed() => match changed {
                Ok(()) => 0,
                Err(_) => return,
            },
            read = stream.read(&mut input) => match read {
                Ok(0) | Err(_) => return,
                Ok(read) => read,
            },
        };
        let is_held = *held.borrow_and_update();
        if connection.take(&input[..read], answer, is_held).is_none() {
            return;
        }
    }
}

/// The response to every request, in its encoded forms.
pub(super) struct ResponseTemplate {
    /// Headers added to the client's dynamic table, for the first response of a connection.
    first: Blocks,
    /// Headers that refer to the dynamic table.
    later: Blocks,
    /// Headers for a client without a dynamic table.
    plain: Blocks,
    body: Vec<u8>,
}

struct Blocks {
    head: Vec<u8>,
    /// gRPC's status; without it the body ends the stream.
    trailers: Option<Vec<u8>>,
}

impl ResponseTemplate {
    /// The response to a gRPC call: one message, then the status.
    pub(super) fn of_call() -> Self {
        let kind = [(31, call::CONTENT_TYPE)];
        Self {
            first: Blocks { head: block(&kind, true), trailers: Some(field_with_name(call::STATUS, 0x40)) },
            // The newest entry is 62 (RFC 7541 §2.3.3).
            later: Blocks { head: vec![0x88, 0x80 | 63], trailers: Some(vec![0x80 | 62]) },
            plain: Blocks { head: block(&kind, false), trailers: Some(field_with_name(call::STATUS, 0)) },
            body: call::message(call::RESPONSE).to_vec(),
        }
    }

    /// A response with a body of this many bytes, which must fit into a frame of the default 16 KiB.
    pub(super) fn with_size(bytes: usize) -> Self {
        let length = bytes.to_string();
        let fields = [
            (54, "bench"),
            (33, "Thu, 01 Jan 2026 00:00:00 GMT"),
            (31, "application/octet-stream"),
            (28, length.as_str()),
        ];
        let blocks = |head| Blocks { head, trailers: None };
        Self {
            first: blocks(block(&fields, true)),
            later: blocks(vec![0x88, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62]),
            plain: blocks(block(&fields, false)),
            body: vec![b'x'; bytes],
        }
    }
}

/// `:status: 200` and these fields, by the index of their names in the static table (RFC 7541 appendix A);
/// `indexed` says whether they enter the dynamic table.
fn block(fields: &[(u8, &str)], indexed: bool) -> Vec<u8> {
    let mut block = vec![0x88];
    for (index, value) in fields {
        match indexed {
            true => block.push(0x40 | index),
            // A prefix of four bits, and one byte for the rest of the index (§5.1).
            false => block.extend([0x0f, index - 15]),
        }
        block.push(value.len() as u8);
        block.extend(value.as_bytes());
    }
    block
}

fn field_with_name((name, value): (&str, &str), kind: u8) -> Vec<u8> {
    let mut field = vec![kind, name.len() as u8];
    field.extend(name.as_bytes());
    field.push(value.len() as u8);
    field.extend(value.as_bytes());
    field
}

/// The state of a connection.
struct Http2 {
    /// Bytes of a frame that has not arrived in full.
    partial: Vec<u8>,
    preface_left: usize,
    /// Pending output.
    out: Vec<u8>,
    /// The connection's send window.
    window: i64,
    /// The initial window of a stream. It is not tracked: a response must fit into it.
    stream_window: i64,
    table: Table,
    /// Streams with complete requests, waiting for responses.
    waiting: VecDeque<u32>,
    unreturned: usize,
}

/// The state of the client's dynamic table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Empty,
    Filled,
    /// The client's table is too small; a size of 0 must be signalled once (RFC 7541 §4.2).
    Refused {
        is_reported: bool,
    },
}

impl Http2 {
    /// An accepted connection.
    fn new() -> Self {
        let mut out = Vec::new();
        let limit = [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &STREAMS.to_be_bytes()].concat();
        frame(&mut out, SETTINGS, 0, 0, &limit);
        Self {
            partial: Vec::new(),
            preface_left: PREFACE,
            out,
            window: USUAL_WINDOW,
            stream_window: USUAL_WINDOW,
            table: Table::Empty,
            waiting: VecDeque::new(),
            unreturned: 0,
        }
    }

    /// Processes received bytes and responds unless responses are held back. `None` when the connection is over.
    fn take(&mut self, bytes: &[u8], response: &ResponseTemplate, is_held: bool) -> Option<()> {
        let skipped = bytes.len().min(self.preface_left);
        self.preface_left -= skipped;
        let mut partial = std::mem::take(&mut self.partial);
        let used = if partial.is_empty() {
            let used = self.frames(&bytes[skipped..])?;
            partial.extend_from_slice(&bytes[skipped + used..]);
            0
        } else {
            partial.extend_from_slice(&bytes[skipped..]);
            self.frames(&partial)?
        };
        partial.drain(..used);
        self.partial = partial;
        if self.unreturned >= CREDIT {
            frame(&mut self.out, WINDOW_UPDATE, 0, 0, &(self.unreturned as u32).to_be_bytes());
            self.unreturned = 0;
        }
        if self.stream_window < response.body.len() as i64 {
            return None;
        }
        if !is_held {
            self.respond(response);
        }
        Some(())
    }

    /// Responds to waiting streams, as far as the window permits.
    fn respond(&mut self, response: &ResponseTemplate) {
        let size = response.body.len() as i64;
        while self.window >= size {
            let Some(stream) = self.waiting.pop_front() else { return };
            self.window -= size;
            let blocks = match self.table {
                Table::Empty => &response.first,
                Table::Filled => &response.later,
                Table::Refused { .. } => &response.plain,
            };
            if self.table == (Table::Refused { is_reported: false }) {
                let head = [&[0x20], &blocks.head[..]].concat();
                frame(&mut self.out, HEADERS, END_HEADERS, stream, &head);
                self.table = Table::Refused { is_reported: true };
            } else {
                frame(&mut self.out, HEADERS, END_HEADERS, stream, &blocks.head);
            }
            let ends = if blocks.trailers.is_some() { 0 } else { END_STREAM };
            frame(&mut self.out, DATA, ends, stream, &response.body);
            if let Some(trailers) = &blocks.trailers {
                frame(&mut self.out, HEADERS, END_HEADERS | END_STREAM, stream, trailers);
            }
            if self.table == Table::Empty {
                self.table = Table::Filled;
            }
        }
    }

    /// The number of bytes in complete frames.
    fn frames(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut used = 0;
        while let Some(head) = bytes.get(used..used + FRAME_HEAD) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = bytes.get(used + FRAME_HEAD..used + FRAME_HEAD + length) else { break };
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            self.frame(head[3], head[4], stream, payload)?;
            used += FRAME_HEAD + length;
        }
        Some(used)
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Option<()> {
        match kind {
            HEADERS | DATA => {
                if kind == DATA {
                    self.unreturned += payload.len();
                }
                if flags & END_STREAM != 0 {
                    self.waiting.push_back(stream);
                }
            }
            SETTINGS if flags & ACK == 0 => {
                self.settings(payload)?;
                frame(&mut self.out, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(&mut self.out, PING, ACK, 0, payload),
            WINDOW_UPDATE if stream == 0 => {
                self.window += i64::from(u32::from_be_bytes(payload.try_into().ok()?));
            }
            GOAWAY => return None,
            _ => {}
        }
        Some(())
    }

    fn settings(&mut self, payload: &[u8]) -> Option<()> {
        for setting in payload.chunks_exact(6) {
            let value = u32::from_be_bytes(setting[2..].try_into().ok()?);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                HEADER_TABLE_SIZE if value < USUAL_TABLE && self.table == Table::Empty => {
                    self.table = Table::Refused { is_reported: false };
                }
                INITIAL_WINDOW_SIZE => self.stream_window = i64::from(value),
                _ => {}
            }
        }
        Some(())
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}
