//! What a client of HTTP/3 says and hears over one connection of QUIC, for tests: frames that are written and read here, so that no
//! error of the codec can hide behind its own mirror image. Knows no network.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, VecDeque};

use fairway_http2::hpack::huffman;
use quinn_proto::{
    Connection, ConnectionError, Dir, Event, ReadError, Side, StreamEvent, StreamId, VarInt, WriteError,
};

/// Frames and streams (RFC 9114 §7.2, §6.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;
const GOAWAY: u64 = 7;
const CONTROL: u64 = 0;
const DECODER: u8 = 3;

/// What came of a request.
#[derive(Default)]
pub(crate) struct Answer {
    /// 0 before its final head.
    pub(crate) status: u64,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) interim: Vec<u64>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) is_whole: bool,
    pub(crate) reset: Option<u64>,
    /// Whether the server wants no more of the request, and its code.
    pub(crate) stopped: Option<u64>,
    input: Vec<u8>,
    /// Bytes of a DATA frame that are still to come.
    data_left: u64,
    /// What QUIC did not take yet, and whether the end follows.
    output: VecDeque<u8>,
    ends: bool,
}

impl Answer {
    pub(crate) fn is_over(&self) -> bool {
        self.is_whole || self.reset.is_some()
    }

    /// What the client gave QUIC no room for.
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
            if kind == DATA {
                self.data_left = payload;
                self.input.drain(..used);
                continue;
            }
            let end = used + payload as usize;
            if self.input.len() < end {
                return;
            }
            if kind == HEADERS {
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
                status => (self.status, self.fields) = (status, fields),
            },
        }
    }
}

/// The requests of one connection, and what came of them.
pub(crate) struct Conversation {
    /// By the number of the stream.
    pub(crate) answers: BTreeMap<u64, Answer>,
    /// By the number of the stream, what came on those that the server opened.
    unidirectional: BTreeMap<u64, (StreamId, Vec<u8>)>,
    /// The ids of the server's GOAWAY frames.
    pub(crate) goes_away: Vec<u64>,
    /// Whether responses are read.
    pub(crate) consumes: bool,
    /// Whether the server's QPACK decoder stream is read.
    pub(crate) hears_decoder: bool,
    /// Why the connection is over.
    pub(crate) lost: Option<ConnectionError>,
}

impl Conversation {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            answers: BTreeMap::new(),
            unidirectional: BTreeMap::new(),
            goes_away: Vec::new(),
            consumes: true,
            hears_decoder: true,
            lost: None,
        }
    }

    /// Opens the control stream, which begins with SETTINGS (RFC 9114 §6.2.1).
    pub(crate) fn greet(quic: &mut Connection) {
        open_with(quic, &[CONTROL as u8, 4, 0]);
    }

    /// Takes what QUIC has to say.
    pub(crate) fn handle(&mut self, event: Event, quic: &mut Connection) {
        match event {
            Event::ConnectionLost { reason } => self.lost = Some(reason),
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = quic.streams().accept(Dir::Uni) {
                    self.unidirectional.insert(id.index(), (id, Vec::new()));
                }
            }
            Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                if let Some(answer) = self.answers.get_mut(&id.index()) {
                    answer.stopped = Some(error_code.into_inner());
                    answer.output.clear();
                }
            }
            _ => {}
        }
    }

    /// Gives QUIC what it takes of requests, and reads what came.
    pub(crate) fn go_on(&mut self, quic: &mut Connection) {
        if self.lost.is_some() {
            return;
        }
        for (id, input) in self.unidirectional.values_mut() {
            if !self.hears_decoder && input.first() == Some(&DECODER) {
                continue;
            }
            _ = read(quic, *id, |bytes| input.extend_from_slice(bytes));
            self.goes_away.extend(goaways(input));
        }
        for (number, answer) in &mut self.answers {
            let id = request(*number);
            write(quic, id, answer);
            if !self.consumes || answer.is_over() {
                continue;
            }
            match read(quic, id, |bytes| answer.take(bytes)) {
                Read::More => {}
                Read::End => answer.is_whole = true,
                Read::Reset(code) => answer.reset = Some(code),
            }
        }
    }

    /// Asks with these fields besides the pseudo fields; `ends` says whether that is all of the request.
    pub(crate) fn ask(
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
        self.ask_with_block(quic, &block, ends)
    }

    /// The same with a block of fields as it is.
    pub(crate) fn ask_with_block(&mut self, quic: &mut Connection, block: &[u8], ends: bool) -> u64 {
        let mut answer = Answer { ends, ..Answer::default() };
        put_frame(HEADERS, block, &mut answer.output);
        self.open(quic, answer)
    }

    /// These bytes on a stream of a request that says nothing else.
    pub(crate) fn send_raw(&mut self, quic: &mut Connection, bytes: &[u8]) -> u64 {
        let output = bytes.iter().copied().collect();
        self.open(quic, Answer { output, ..Answer::default() })
    }

    fn open(&mut self, quic: &mut Connection, answer: Answer) -> u64 {
        let id = quic.streams().open(Dir::Bi).expect("the server takes one more");
        self.answers.insert(id.index(), answer);
        id.index()
    }

    /// A piece of a body.
    pub(crate) fn send(&mut self, number: u64, data: &[u8], ends: bool) {
        let answer = self.answers.get_mut(&number).unwrap();
        if !data.is_empty() {
            put_frame(DATA, data, &mut answer.output);
        }
        answer.ends = ends;
    }

    /// Trailers, and the end.
    pub(crate) fn send_trailers(&mut self, number: u64, fields: &[(&str, &str)]) {
        let mut block = vec![0, 0];
        fields.iter().for_each(|(name, value)| encode(name, value, &mut block));
        let answer = self.answers.get_mut(&number).unwrap();
        put_frame(HEADERS, &block, &mut answer.output);
        answer.ends = true;
    }

    /// H3_REQUEST_CANCELLED in both directions (RFC 9114 §4.1.1).
    pub(crate) fn cancel(&mut self, quic: &mut Connection, number: u64) {
        let (id, code) = (request(number), VarInt::from_u32(0x10c));
        // The request may have ended, which leaves nothing to reset.
        _ = quic.send_stream(id).reset(code);
        quic.recv_stream(id).stop(code).unwrap();
        self.answers.get_mut(&number).unwrap().reset = Some(0x10c);
    }
}

/// These bytes on a new stream that carries no request.
pub(crate) fn open_with(quic: &mut Connection, bytes: &[u8]) -> StreamId {
    let id = quic.streams().open(Dir::Uni).expect("the server takes one more");
    assert_eq!(quic.send_stream(id).write(bytes), Ok(bytes.len()));
    id
}

/// The pseudo fields of a request.
pub(crate) fn head<'t>(method: &'t str, path: &'t str) -> [(&'static str, &'t str); 4] {
    [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path)]
}

/// The stream of a request.
pub(crate) fn request(number: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, number)
}

enum Read {
    More,
    End,
    Reset(u64),
}

fn read(quic: &mut Connection, id: StreamId, mut take: impl FnMut(&[u8])) -> Read {
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

/// Gives QUIC what it takes of a request.
fn write(quic: &mut Connection, id: StreamId, answer: &mut Answer) {
    let mut stream = quic.send_stream(id);
    while !answer.output.is_empty() {
        match stream.write(answer.output.make_contiguous()) {
            Ok(count) => drop(answer.output.drain(..count)),
            Err(WriteError::Blocked) => return,
            Err(_) => return answer.output.clear(),
        }
    }
    if std::mem::take(&mut answer.ends) {
        // The server may have stopped it meanwhile.
        _ = stream.finish();
    }
}

/// The ids of the GOAWAY frames that are whole in the input of a stream, which are taken out of it.
fn goaways(input: &mut Vec<u8>) -> Vec<u64> {
    let mut ids = Vec::new();
    if input.first() != Some(&(CONTROL as u8)) {
        return ids;
    }
    while let Some((kind, payload, used)) = frame(&input[1..]) {
        let (begin, end) = (1 + used, 1 + used + payload as usize);
        if input.len() < end {
            break;
        }
        if kind == GOAWAY {
            ids.push(varint(&input[begin..end]).unwrap().0);
        }
        input.drain(1..end);
    }
    ids
}

/// Type and length of a frame, and the bytes of both.
fn frame(input: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, first) = varint(input)?;
    let (length, second) = varint(&input[first..])?;
    Some((kind, length, first + second))
}

/// A number (RFC 9000 §16), and its length.
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

/// A literal field line with a literal name (RFC 9204 §4.5.6).
fn encode(name: &str, value: &str, out: &mut Vec<u8>) {
    integer(0x20, 3, name.len(), out);
    out.extend_from_slice(name.as_bytes());
    integer(0, 7, value.len(), out);
    out.extend_from_slice(value.as_bytes());
}

/// A number behind a pattern in the first byte (RFC 7541 §5.1).
fn integer(pattern: u8, bits: u32, number: usize, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if number < most {
        return out.push(pattern | number as u8);
    }
    out.push(pattern | most as u8);
    let mut rest = number - most;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// The lines of a block of fields that has no dynamic table.
fn decode(block: &[u8]) -> Vec<(String, String)> {
    let mut rest = block;
    assert_eq!((number(8, &mut rest), number(7, &mut rest)), (0, 0), "no dynamic table was offered");
    let mut fields = Vec::new();
    while let Some(&first) = rest.first() {
        let field = match first {
            0xc0.. => fixed(number(6, &mut rest)),
            0x50..0x60 | 0x70..0x80 => {
                let (name, _) = fixed(number(4, &mut rest));
                (name, string(7, &mut rest))
            }
            0x20..0x40 => (string(3, &mut rest), string(7, &mut rest)),
            _ => panic!("a line of the dynamic table"),
        };
        fields.push(field);
    }
    fields
}

/// What the static table (RFC 9204, appendix A) has of statuses; others are named by their index.
fn fixed(index: usize) -> (String, String) {
    let status = match index {
        24..=28 => [103, 200, 304, 404, 503][index - 24],
        63..=71 => [100, 204, 206, 302, 400, 403, 421, 425, 500][index - 63],
        _ => return (format!("#{index}"), String::new()),
    };
    (":status".to_owned(), status.to_string())
}

fn number(bits: u32, rest: &mut &[u8]) -> usize {
    let most = (1 << bits) - 1;
    let mut value = usize::from(rest[0]) & most;
    *rest = &rest[1..];
    if value == most {
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
