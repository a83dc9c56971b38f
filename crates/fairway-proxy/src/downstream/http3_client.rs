//! A minimal HTTP/3 client over one QUIC connection, for tests: frames are written and parsed here, so that no
//! codec error is hidden by its mirror image. Knows no network.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, VecDeque};

use fairway_http2::hpack::huffman;
use quinn_proto::{
    Connection, ConnectionError, Dir, Event, ReadError, Side, StreamEvent, StreamId, VarInt, WriteError,
};

/// Types of frames and streams (RFC 9114 §7.2, §6.2).
const DATA_FRAME: u64 = 0;
const HEADERS_FRAME: u64 = 1;
const GOAWAY_FRAME: u64 = 7;
const CONTROL_STREAM: u64 = 0;
const DECODER_STREAM: u8 = 3;

/// What a request stream received.
#[derive(Default)]
pub(crate) struct Http3Response {
    /// 0 before its final head.
    pub(crate) status: u64,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) interim: Vec<u64>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) is_complete: bool,
    pub(crate) reset: Option<u64>,
    /// The code with which the server stopped the request, if it did.
    pub(crate) stopped: Option<u64>,
    input: Vec<u8>,
    /// Bytes of the current DATA frame still to come.
    data_left: u64,
    /// Data QUIC has not taken yet, and whether the end follows.
    output: VecDeque<u8>,
    ends: bool,
}

impl Http3Response {
    pub(crate) fn is_finished(&self) -> bool {
        self.is_complete || self.reset.is_some()
    }

    /// Bytes not yet accepted by QUIC.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            if self.data_left > 0 {
                let count = self.input.len().min(self.data_left as usize);
                self.body.extend(self.input.drain(..count));
                self.data_left -= count as u64;
                if self.data_left > 0 {
                    return;
                }
            }
            let Some((kind, payload, used)) = frame(&self.input) else { return };
            if kind == DATA_FRAME {
                self.data_left = payload;
                self.input.drain(..used);
                continue;
            }
            let end = used + payload as usize;
            if self.input.len() < end {
                return;
            }
            if kind == HEADERS_FRAME {
                let fields = decode(&self.input[used..end]);
                self.take_fields(fields);
            }
            self.input.drain(..end);
        }
    }

    fn take_fields(&mut self, fields: Vec<(String, String)>) {
        match fields.iter().find(|(name, _)| name == ":status") {
            None => self.trailers = fields,
            Some((_, status)) => match status.parse().unwrap() {
                interim @ 100..=199 => self.interim.push(interim),
                status => (self.status, self.headers) = (status, fields),
            },
        }
    }
}

/// Requests of one connection and their responses.
pub(crate) struct Http3Conversation {
    /// By stream number.
    pub(crate) responses: BTreeMap<u64, Http3Response>,
    /// Data of streams opened by the server, by stream number.
    unidirectional: BTreeMap<u64, (StreamId, Vec<u8>)>,
    /// Ids of the server's GOAWAY frames.
    pub(crate) goaway_ids: Vec<u64>,
    /// Whether responses are read.
    pub(crate) reads_responses: bool,
    /// Whether the server's QPACK decoder stream is read.
    pub(crate) reads_decoder_stream: bool,
    /// Why the connection was lost.
    pub(crate) connection_error: Option<ConnectionError>,
}

impl Http3Conversation {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            responses: BTreeMap::new(),
            unidirectional: BTreeMap::new(),
            goaway_ids: Vec::new(),
            reads_responses: true,
            reads_decoder_stream: true,
            connection_error: None,
        }
    }

    /// Opens the control stream, which starts with SETTINGS (RFC 9114 §6.2.1).
    pub(crate) fn open_control_stream(quic: &mut Connection) {
        open_with(quic, &[CONTROL_STREAM as u8, 4, 0]);
    }

    /// Handles an event of QUIC.
    pub(crate) fn handle(&mut self, event: Event, quic: &mut Connection) {
        match event {
            Event::ConnectionLost { reason } => self.connection_error = Some(reason),
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = quic.streams().accept(Dir::Uni) {
                    self.unidirectional.insert(id.index(), (id, Vec::new()));
                }
            }
            Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                if let Some(response) = self.responses.get_mut(&id.index()) {
                    response.stopped = Some(error_code.into_inner());
                    response.output.clear();
                }
            }
            _ => {}
        }
    }

    /// Sends pending request data, and reads what arrived.
    pub(crate) fn exchange_data(&mut self, quic: &mut Connection) {
        if self.connection_error.is_some() {
            return;
        }
        for (id, input) in self.unidirectional.values_mut() {
            if !self.reads_decoder_stream && input.first() == Some(&DECODER_STREAM) {
                continue;
            }
            _ = read_stream(quic, *id, |bytes| input.extend_from_slice(bytes));
            self.goaway_ids.extend(take_goaways(input));
        }
        for (number, response) in &mut self.responses {
            let id = request_stream_id(*number);
            write_pending(quic, id, response);
            if !self.reads_responses || response.is_finished() {
                continue;
            }
            match read_stream(quic, id, |bytes| response.take(bytes)) {
                Read::More => {}
                Read::End => response.is_complete = true,
                Read::Reset(code) => response.reset = Some(code),
            }
        }
    }

    /// Sends a request with these headers besides the pseudo-headers; `ends` says whether it is complete.
    pub(crate) fn request(
        &mut self,
        quic: &mut Connection,
        pseudo: &[(&str, &str)],
        fields: &[(&str, &str)],
        ends: bool,
    ) -> u64 {
        let mut block = vec![0, 0];
        for (name, value) in pseudo.iter().chain(fields) {
            encode(name, value, &mut block);
        }
        self.request_with_block(quic, &block, ends)
    }

    /// Sends a request with a raw header block.
    pub(crate) fn request_with_block(&mut self, quic: &mut Connection, block: &[u8], ends: bool) -> u64 {
        let mut response = Http3Response { ends, ..Http3Response::default() };
        put_frame(HEADERS_FRAME, block, &mut response.output);
        self.open(quic, response)
    }

    /// Sends raw bytes on a request stream.
    pub(crate) fn send_raw(&mut self, quic: &mut Connection, bytes: &[u8]) -> u64 {
        let output = bytes.iter().copied().collect();
        self.open(quic, Http3Response { output, ..Http3Response::default() })
    }

    fn open(&mut self, quic: &mut Connection, response: Http3Response) -> u64 {
        let id = quic.streams().open(Dir::Bi).expect("the server takes one more");
        self.responses.insert(id.index(), response);
        id.index()
    }

    /// Sends a part of a body.
    pub(crate) fn send(&mut self, number: u64, data: &[u8], ends: bool) {
        let response = self.responses.get_mut(&number).unwrap();
        if !data.is_empty() {
            put_frame(DATA_FRAME, data, &mut response.output);
        }
        response.ends = ends;
    }

    /// Sends trailers and ends the request.
    pub(crate) fn send_trailers(&mut self, number: u64, fields: &[(&str, &str)]) {
        let mut block = vec![0, 0];
        fields.iter().for_each(|(name, value)| encode(name, value, &mut block));
        let response = self.responses.get_mut(&number).unwrap();
        put_frame(HEADERS_FRAME, &block, &mut response.output);
        response.ends = true;
    }

    /// H3_REQUEST_CANCELLED in both directions (RFC 9114 §4.1.1).
    pub(crate) fn cancel(&mut self, quic: &mut Connection, number: u64) {
        let (id, code) = (request_stream_id(number), VarInt::from_u32(0x10c));
        // A finished request has nothing to reset.
        _ = quic.send_stream(id).reset(code);
        quic.recv_stream(id).stop(code).unwrap();
        self.responses.get_mut(&number).unwrap().reset = Some(0x10c);
    }
}

/// Opens a stream without a request and sends these bytes.
pub(crate) fn open_with(quic: &mut Connection, bytes: &[u8]) -> StreamId {
    let id = quic.streams().open(Dir::Uni).expect("the server takes one more");
    assert_eq!(quic.send_stream(id).write(bytes), Ok(bytes.len()));
    id
}

/// The pseudo-headers of a request.
pub(crate) fn pseudo_headers<'t>(method: &'t str, path: &'t str) -> [(&'static str, &'t str); 4] {
    [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path)]
}

/// Stream id of a request.
pub(crate) fn request_stream_id(number: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, number)
}

enum Read {
    More,
    End,
    Reset(u64),
}

fn read_stream(quic: &mut Connection, id: StreamId, mut take: impl FnMut(&[u8])) -> Read {
    let mut stream = quic.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Read::More };
    let read = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => take(&chunk.bytes),
            Ok(None) => break Read::End,
            Err(ReadError::Blocked) => break Read::More,
            Err(ReadError::Reset(code)) => break Read::Reset(code.into_inner()),
        }
    };
    let _ = chunks.finalize();
    read
}

/// Sends pending data of a request.
fn write_pending(quic: &mut Connection, id: StreamId, response: &mut Http3Response) {
    let mut stream = quic.send_stream(id);
    while !response.output.is_empty() {
        match stream.write(response.output.make_contiguous()) {
            Ok(count) => drop(response.output.drain(..count)),
            Err(WriteError::Blocked) => return,
            Err(_) => return response.output.clear(),
        }
    }
    if std::mem::take(&mut response.ends) {
        // The server may have stopped it meanwhile.
        _ = stream.finish();
    }
}

/// Removes complete GOAWAY frames from the input of a stream; returns their ids.
fn take_goaways(input: &mut Vec<u8>) -> Vec<u64> {
    let mut ids = Vec::new();
    if input.first() != Some(&(CONTROL_STREAM as u8)) {
        return ids;
    }
    while let Some((kind, payload, used)) = frame(&input[1..]) {
        let (begin, end) = (1 + used, 1 + used + payload as usize);
        if input.len() < end {
            break;
        }
        if kind == GOAWAY_FRAME {
            ids.push(varint(&input[begin..end]).unwrap().0);
        }
        input.drain(1..end);
    }
    ids
}

/// Type and length of a frame, and the bytes they take.
fn frame(input: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, first) = varint(input)?;
    let (length, second) = varint(&input[first..])?;
    Some((kind, length, first + second))
}

/// A variable-length integer (RFC 9000 §16), and its length.
fn varint(input: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (input.first()? >> 6);
    let bytes = input.get(..length)?;
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Some((number & (u64::MAX >> (64 - 8 * length + 2)), length))
}

fn put_varint(number: u64, out: &mut VecDeque<u8>) {
    match number {
        0..64 => out.push_back(number as u8),
        64..16384 => out.extend((number as u16 | 0x4000).to_be_bytes()),
        _ => out.extend((number as u32 | 0x8000_0000).to_be_bytes()),
    }
}

fn put_frame(kind: u64, payload: &[u8], out: &mut VecDeque<u8>) {
    put_varint(kind, out);
    put_varint(payload.len() as u64, out);
    out.extend(payload);
}

/// A literal field line with literal name (RFC 9204 §4.5.6).
fn encode(name: &str, value: &str, out: &mut Vec<u8>) {
    integer(0x20, 3, name.len(), out);
    out.extend_from_slice(name.as_bytes());
    integer(0, 7, value.len(), out);
    out.extend_from_slice(value.as_bytes());
}

/// A prefix integer (RFC 7541 §5.1).
fn integer(pattern: u8, bits: u32, number: usize, out: &mut Vec<u8>) {
    let limit = (1 << bits) - 1;
    if number < limit {
        return out.push(pattern | number as u8);
    }
    out.push(pattern | limit as u8);
    let mut rest = number - limit;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// Decodes a field section without dynamic table.
fn decode(block: &[u8]) -> Vec<(String, String)> {
    let mut rest = block;
    assert_eq!((number(8, &mut rest), number(7, &mut rest)), (0, 0), "no dynamic table was offered");
    let mut fields = Vec::new();
    while let Some(&first) = rest.first() {
        let field = match first {
            0xc0.. => static_table_entry(number(6, &mut rest)),
            0x50..0x60 | 0x70..0x80 => {
                let (name, _) = static_table_entry(number(4, &mut rest));
                (name, string(7, &mut rest))
            }
            0x20..0x40 => (string(3, &mut rest), string(7, &mut rest)),
            _ => panic!("a line of the dynamic table"),
        };
        fields.push(field);
    }
    fields
}

/// Status entries of the static table (RFC 9204, appendix A); others are named by their index.
fn static_table_entry(index: usize) -> (String, String) {
    let status = match index {
        24..=28 => [103, 200, 304, 404, 503][index - 24],
        63..=71 => [100, 204, 206, 302, 400, 403, 421, 425, 500][index - 63],
        _ => return (format!("#{index}"), String::new()),
    };
    (":status".to_owned(), status.to_string())
}

fn number(bits: u32, rest: &mut &[u8]) -> usize {
    let limit = (1 << bits) - 1;
    let mut value = usize::from(rest[0]) & limit;
    *rest = &rest[1..];
    if value == limit {
        for shift in (0..).step_by(7) {
            let byte = rest[0];
            *rest = &rest[1..];
            value += usize::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
    }
    value
}

fn string(bits: u32, rest: &mut &[u8]) -> String {
    let is_huffman = rest[0] >> bits & 1 == 1;
    let length = number(bits, rest);
    let (text, behind) = rest.split_at(length);
    *rest = behind;
    let mut decoded = text.to_vec();
    if is_huffman {
        decoded.clear();
        huffman::decode(text, &mut decoded).unwrap();
    }
    String::from_utf8(decoded).unwrap()
}
