//! Endpoints of HTTP/2 that break rules, in virtual time: frames are written by hand, so nothing keeps them from any of it.
//! What the client gets, what the endpoint is told, and that nobody else notices.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use fairway_model::BackendProtocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::{spawn_local, yield_now};
use tokio::time::{sleep, timeout};

use crate::testing::{Client, Meeting, Stage, on_stage};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Flags: END_STREAM or ACK, and END_HEADERS.
pub(super) const END: u8 = 1;
pub(super) const WHOLE: u8 = 4;

/// `:status: 200`.
const OK: &[u8] = &[0x88];

const POST: &str = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn word(kind: u8, stream: u32, word: u32) -> Vec<u8> {
    frame(kind, 0, stream, &word.to_be_bytes())
}

fn setting(number: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&number.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

fn go_away(last: u32) -> Vec<u8> {
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

fn status(stream: u32, flags: u8, status: &str) -> Vec<u8> {
    frame(HEADERS, flags | WHOLE, stream, &field(":status", status))
}

/// The end of a connection that writes any frame.
pub(super) struct Raw {
    stream: DuplexStream,
    input: Vec<u8>,
    said: Shared,
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
    async fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
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
        loop {
            let (kind, flags, stream, payload) = self.next().await?;
            match kind {
                HEADERS | DATA if flags & END > 0 => return Some(stream),
                PING if flags & END == 0 => self.say(frame(PING, END, 0, &payload)).await,
                SETTINGS if flags & END == 0 => self.say(frame(SETTINGS, END, 0, &[])).await,
                _ => {}
            }
        }
    }

    /// The same of HTTP/1, whose stream has the number 1.
    pub(super) async fn text_request(&mut self) -> Option<u32> {
        loop {
            let text = String::from_utf8_lossy(&self.input).into_owned();
            if let Some(at) = text.find("\r\n\r\n") {
                let length = if text.to_lowercase().contains("content-length: 2") { 2 } else { 0 };
                self.fill(at + 4 + length).await?;
                self.input.drain(..at + 4 + length);
                return Some(1);
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
async fn good(mut raw: Raw) {
    raw.say(frame(SETTINGS, 0, 0, &[])).await;
    while let Some(id) = raw.request().await {
        raw.say([head(id, 0, &[]), frame(DATA, END, id, b"ok")].concat()).await;
    }
}

/// A stage over endpoints of HTTP/2; the script gets the number of the connection, from 1.
fn stage<F: Future<Output = ()> + 'static>(
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
enum Gets {
    /// A whole answer.
    Whole(u16),
    /// The beginning of one.
    Broken,
}

/// What an endpoint is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// RST_STREAM, and the connection goes on.
    Reset(u32),
    GoAway(u32),
}

async fn gets(client: &mut Client) -> Gets {
    loop {
        match timeout(Duration::from_secs(600), client.answer()).await.unwrap() {
            Some(seen) if seen.status < 200 => {}
            Some(seen) => return Whole(seen.status),
            None => return Broken,
        }
    }
}

pub(super) async fn settle() {
    for _ in 0..200 {
        yield_now().await;
    }
}

type Says = fn(u32) -> Vec<u8>;

const PROTOCOL: u32 = 1;
const FLOW: u32 = 3;
const CLOSED: u32 = 5;
const SIZE: u32 = 6;
const CANCEL: u32 = 8;
const COMPRESSION: u32 = 9;
const CALM: u32 = 11;

use Gets::{Broken, Whole};
use Told::{GoAway, Nothing, Reset};

/// What an endpoint says to a request, what the client gets, and what the endpoint is told.
const MESSAGES: &[(&str, Says, Gets, Told)] = &[
    ("an answer", |id| [head(id, 0, &[]), frame(DATA, END, id, b"ok")].concat(), Whole(200), Nothing),
    ("a body before its head", |id| frame(DATA, END, id, b"ok"), Whole(502), Reset(PROTOCOL)),
    ("two heads", |id| [head(id, 0, &[]), head(id, 0, &[])].concat(), Broken, Reset(PROTOCOL)),
    (
        "trailers that do not end",
        |id| [head(id, 0, &[]), frame(HEADERS, WHOLE, id, &field("a", "b"))].concat(),
        Broken,
        Reset(PROTOCOL),
    ),
    ("a status in trailers", |id| [head(id, 0, &[]), head(id, END, &[])].concat(), Broken, Reset(PROTOCOL)),
    (
        "DATA after the end",
        |id| [head(id, 0, &[]), frame(DATA, END, id, b"ok"), frame(DATA, END, id, b"no")].concat(),
        Whole(200),
        Reset(CLOSED),
    ),
    (
        "a head after the end",
        |id| [head(id, END, &[]), head(id, END, &[])].concat(),
        Whole(200),
        Reset(CLOSED),
    ),
    (
        "more than its length",
        |id| [head(id, 0, &[("content-length", "1")]), frame(DATA, END, id, b"ok")].concat(),
        Broken,
        Reset(PROTOCOL),
    ),
    (
        "less than its length",
        |id| [head(id, 0, &[("content-length", "3")]), frame(DATA, END, id, b"ok")].concat(),
        Broken,
        Reset(PROTOCOL),
    ),
    ("a length and no body", |id| head(id, END, &[("content-length", "3")]), Whole(502), Reset(PROTOCOL)),
    (
        "a length, no body, trailers",
        |id| {
            let trailers = frame(HEADERS, WHOLE | END, id, &field("a", "b"));
            [head(id, 0, &[("content-length", "3")]), trailers].concat()
        },
        Broken,
        Reset(PROTOCOL),
    ),
    (
        "two lengths",
        |id| head(id, 0, &[("content-length", "1"), ("content-length", "2")]),
        Whole(502),
        Reset(PROTOCOL),
    ),
    ("a length that is none", |id| head(id, 0, &[("content-length", "+1")]), Whole(502), Reset(PROTOCOL)),
    ("a stream that was never opened", |id| head(id + 2, END, &[]), Whole(502), GoAway(PROTOCOL)),
    ("a stream of its own", |_| head(2, END, &[]), Whole(502), GoAway(PROTOCOL)),
    ("a head on no stream", |_| head(0, END, &[]), Whole(502), GoAway(PROTOCOL)),
    ("a push", |id| frame(PUSH_PROMISE, WHOLE, id, &[0, 0, 0, 2, 0x82]), Whole(502), GoAway(PROTOCOL)),
    ("endless interim answers", |id| status(id, 0, "103").repeat(100), Whole(502), Reset(CANCEL)),
    ("an interim answer that ends", |id| status(id, END, "103"), Whole(502), Reset(PROTOCOL)),
    ("101", |id| status(id, 0, "101"), Whole(502), Reset(PROTOCOL)),
    ("a status of letters", |id| status(id, END, "abc"), Whole(502), Reset(PROTOCOL)),
    ("no status", |id| frame(HEADERS, WHOLE | END, id, &field("a", "b")), Whole(502), Reset(PROTOCOL)),
    ("two of them", |id| head(id, END, &[(":status", "200")]), Whole(502), Reset(PROTOCOL)),
    ("a path in an answer", |id| head(id, END, &[(":path", "/")]), Whole(502), Reset(PROTOCOL)),
    ("an upper case name", |id| head(id, END, &[("X-A", "b")]), Whole(502), Reset(PROTOCOL)),
    ("a field of one hop", |id| head(id, END, &[("connection", "x")]), Whole(502), Reset(PROTOCOL)),
    ("framing of HTTP/1", |id| head(id, 0, &[("transfer-encoding", "chunked")]), Whole(502), Reset(PROTOCOL)),
    ("a line end in a value", |id| head(id, END, &[("a", "b\r\nc: d")]), Whole(502), Reset(PROTOCOL)),
    ("a NUL in a value", |id| head(id, END, &[("a", "b\0")]), Whole(502), Reset(PROTOCOL)),
    ("a colon in a name", |id| head(id, END, &[("a:b", "c")]), Whole(502), Reset(PROTOCOL)),
    (
        "RST after the whole answer",
        |id| [head(id, END, &[]), word(RESET, id, 2)].concat(),
        Whole(200),
        Nothing,
    ),
    ("RST within it", |id| [head(id, 0, &[]), word(RESET, id, 2)].concat(), Broken, Nothing),
    ("RST NO_ERROR within it", |id| [head(id, 0, &[]), word(RESET, id, 0)].concat(), Broken, Nothing),
    (
        "DATA after RST",
        |id| [head(id, 0, &[]), word(RESET, id, 2), frame(DATA, END, id, b"ok")].concat(),
        Broken,
        Reset(CLOSED),
    ),
    ("GOAWAY above it", |id| [go_away(id), head(id, END, &[])].concat(), Whole(200), Nothing),
    ("GOAWAY below it, mid-answer", |id| [head(id, 0, &[]), go_away(0)].concat(), Broken, Reset(CANCEL)),
    ("GOAWAY that rises", |id| [go_away(id), go_away(id + 2)].concat(), Whole(502), GoAway(PROTOCOL)),
    ("a large head", |id| large(id), Whole(502), Reset(CANCEL)),
];

/// A head of 100 fields that are one entry of the table, of 4,000 bytes each.
fn large(id: u32) -> Vec<u8> {
    // A literal with indexing: the name `a`, and 3,900 bytes (127 + 0x3d + 0x1d << 7).
    let entry = [&[0x40, 1, b'a', 0x7f, 0xbd, 0x1d][..], &[b'x'; 3900]].concat();
    frame(HEADERS, WHOLE | END, id, &[OK, &entry, &[0xbe; 100]].concat())
}

/// The same of frames that are about the connection.
const FRAMES: &[(&str, Says, Gets, Told)] = &[
    ("SETTINGS that allow pushes", |_| setting(2, 1), Whole(502), GoAway(PROTOCOL)),
    ("a window above 2^31 - 1", |_| setting(4, 1 << 31), Whole(502), GoAway(FLOW)),
    ("frames of one byte", |_| setting(5, 1), Whole(502), GoAway(PROTOCOL)),
    ("SETTINGS of five bytes", |_| frame(SETTINGS, 0, 0, &[0; 5]), Whole(502), GoAway(SIZE)),
    ("SETTINGS of a stream", |id| frame(SETTINGS, 0, id, &[]), Whole(502), GoAway(PROTOCOL)),
    ("an ACK with settings", |_| frame(SETTINGS, END, 0, &[0; 6]), Whole(502), GoAway(SIZE)),
    ("PING of seven bytes", |_| frame(PING, 0, 0, &[0; 7]), Whole(502), GoAway(SIZE)),
    ("PING of a stream", |id| frame(PING, 0, id, &[0; 8]), Whole(502), GoAway(PROTOCOL)),
    ("WINDOW_UPDATE by 0", |_| word(WINDOW_UPDATE, 0, 0), Whole(502), GoAway(PROTOCOL)),
    ("the same of a stream", |id| word(WINDOW_UPDATE, id, 0), Whole(502), Reset(PROTOCOL)),
    ("WINDOW_UPDATE by too much", |_| word(WINDOW_UPDATE, 0, 0x7fff_ffff), Whole(502), GoAway(FLOW)),
    ("the same of a stream", |id| word(WINDOW_UPDATE, id, 0x7fff_ffff), Whole(502), Reset(FLOW)),
    ("WINDOW_UPDATE of three bytes", |_| frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Whole(502), GoAway(SIZE)),
    ("WINDOW_UPDATE of an idle stream", |id| word(WINDOW_UPDATE, id + 2, 9), Whole(502), GoAway(PROTOCOL)),
    ("RST of three bytes", |id| frame(RESET, 0, id, &[0; 3]), Whole(502), GoAway(SIZE)),
    ("RST of an idle stream", |id| word(RESET, id + 2, 8), Whole(502), GoAway(PROTOCOL)),
    ("GOAWAY of a stream", |id| frame(GOAWAY, 0, id, &[0; 8]), Whole(502), GoAway(PROTOCOL)),
    ("PRIORITY of four bytes", |id| frame(PRIORITY, 0, id, &[0; 4]), Whole(502), Reset(SIZE)),
    ("CONTINUATION alone", |id| frame(CONTINUATION, WHOLE, id, OK), Whole(502), GoAway(PROTOCOL)),
    (
        "DATA within a block",
        |id| [frame(HEADERS, 0, id, OK), frame(DATA, END, id, b"ok")].concat(),
        Whole(502),
        GoAway(PROTOCOL),
    ),
    (
        "an unknown frame within a block",
        |id| [frame(HEADERS, 0, id, OK), frame(77, 0, id, b"ok")].concat(),
        Whole(502),
        GoAway(PROTOCOL),
    ),
    (
        "unknown frames, settings and flags",
        |id| {
            let unknown = [frame(77, 0xff, 0, b"what"), frame(200, 0, id, &[]), setting(0x99, 7)].concat();
            [unknown, head(id, END | 0x40, &[])].concat()
        },
        Whole(200),
        Nothing,
    ),
    ("DATA above 16,384", |id| frame(DATA, END, id, &[0; 16_385]), Whole(502), Reset(SIZE)),
    ("a head above 16,384", |id| frame(HEADERS, WHOLE, id, &[0; 16_385]), Whole(502), GoAway(SIZE)),
    ("padding above its frame", |id| frame(DATA, 8, id, &[9, 0]), Whole(502), GoAway(PROTOCOL)),
    ("field 0", |id| frame(HEADERS, WHOLE | END, id, &[0x80]), Whole(502), GoAway(COMPRESSION)),
    (
        "a field beyond the table",
        |id| frame(HEADERS, WHOLE | END, id, &[0xfe]),
        Whole(502),
        GoAway(COMPRESSION),
    ),
    (
        "a table beyond ours",
        |id| frame(HEADERS, WHOLE | END, id, &[0x3f, 0xe2, 0x1f, 0x88]),
        Whole(502),
        GoAway(COMPRESSION),
    ),
    (
        "a size behind a field",
        |id| frame(HEADERS, WHOLE | END, id, &[0x88, 0x20]),
        Whole(502),
        GoAway(COMPRESSION),
    ),
    (
        "an endless number",
        |id| frame(HEADERS, WHOLE | END, id, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        Whole(502),
        GoAway(COMPRESSION),
    ),
    (
        "half a field",
        |id| frame(HEADERS, WHOLE | END, id, &[0x88, 0, 5, b'a']),
        Whole(502),
        GoAway(COMPRESSION),
    ),
    (
        "half a block, and GOAWAY",
        |id| [frame(HEADERS, 0, id, OK), go_away(id)].concat(),
        Whole(502),
        GoAway(1),
    ),
    (
        "a flood of empty CONTINUATION",
        |id| [frame(HEADERS, 0, id, OK), frame(CONTINUATION, 0, id, &[]).repeat(300)].concat(),
        Whole(502),
        GoAway(CALM),
    ),
    (
        "an endless block",
        |id| [frame(HEADERS, 0, id, OK), frame(CONTINUATION, 0, id, &[0; 16_000]).repeat(3)].concat(),
        Whole(502),
        GoAway(CALM),
    ),
    (
        "a flood of empty DATA",
        |id| [head(id, 0, &[]), frame(DATA, 0, id, &[]).repeat(300)].concat(),
        Broken,
        GoAway(CALM),
    ),
    ("a flood of SETTINGS", |_| frame(SETTINGS, 0, 0, &[]).repeat(300), Whole(502), GoAway(CALM)),
    ("a flood of ACKs", |_| frame(SETTINGS, END, 0, &[]).repeat(300), Whole(502), GoAway(CALM)),
    ("a flood of PING", |_| frame(PING, 0, 0, &[0; 8]).repeat(600), Whole(502), GoAway(CALM)),
    ("a flood of PONG", |_| frame(PING, END, 0, &[0; 8]).repeat(1100), Whole(502), GoAway(CALM)),
    (
        "a flood of PRIORITY",
        |id| frame(PRIORITY, 0, id, &[0, 0, 0, 99, 1]).repeat(1100),
        Whole(502),
        GoAway(CALM),
    ),
    ("a flood of WINDOW_UPDATE", |_| word(WINDOW_UPDATE, 0, 1).repeat(1200), Whole(502), GoAway(CALM)),
    ("a flood of unknown frames", |_| frame(77, 0, 0, &[]).repeat(1100), Whole(502), GoAway(CALM)),
    ("a flood of GOAWAY", |id| go_away(id).repeat(1100), Whole(502), GoAway(CALM)),
    ("a flood of RST", |id| word(RESET, id, 8).repeat(1200), Whole(502), GoAway(CALM)),
];

/// A first endpoint that keeps a client waiting until it is released, a hostile second one, and good ones.
fn beside_a_witness(says: Says, released: &Rc<Cell<bool>>, held: &Rc<Cell<bool>>) -> (Stage, Shared) {
    let (released, held) = (Rc::clone(released), Rc::clone(held));
    stage(2, move |number, mut raw| {
        let (released, held) = (Rc::clone(&released), Rc::clone(&held));
        async move {
            if number > 2 {
                return good(raw).await;
            }
            raw.say(frame(SETTINGS, 0, 0, &[])).await;
            let id = raw.request().await.unwrap();
            if number == 1 {
                held.set(true);
                while !released.get() {
                    sleep(Duration::from_millis(5)).await;
                }
                raw.say([head(id, 0, &[]), frame(DATA, END, id, b"ok")].concat()).await;
            } else {
                raw.say(says(id)).await;
            }
            raw.rest().await;
        }
    })
}

/// What is not as expected.
async fn play(name: &str, says: Says, expected: Gets, told: Told) -> Option<String> {
    let (released, held) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (stage, said) = beside_a_witness(says, &released, &held);
    let (mut witness, mut client) = (stage.client(), stage.client());
    witness.send("GET /witness HTTP/1.1\r\nHost: a\r\n\r\n").await;
    while !held.get() {
        sleep(Duration::from_millis(1)).await;
    }
    client.send(POST).await;
    let got = gets(&mut client).await;
    settle().await;
    let ends: Vec<_> = said.borrow().iter().filter(|one| one.0 != PING).copied().collect();
    let goes = ends.iter().any(|one| one.0 == GOAWAY);
    let is_told = match told {
        Nothing => ends.is_empty(),
        Reset(code) => ends.contains(&(RESET, 1, code)) && !goes,
        GoAway(code) => ends.contains(&(GOAWAY, 0, code)),
    };
    released.set(true);
    let other = gets(&mut witness).await;
    drop((witness, client));
    settle().await;
    let counted = (faults(&stage, "stream_fault"), faults(&stage, "connection_fault"));
    let is_counted = match told {
        Nothing => counted == (0, 0),
        // One that is above a GOAWAY is Fairway's to end, and no fault.
        Reset(_) => counted.0 + faults(&stage, "goaway_received") > 0 && counted.1 == 0,
        GoAway(_) => counted.1 == 1,
    };
    let passing = (got == expected) && is_told && is_counted && other == Whole(200);
    let rest = stage.at_rest();
    (!passing || rest.is_err())
        .then(|| format!("{name}: {got:?}, told {ends:?}, counted {counted:?}, other {other:?}, {rest:?}"))
}

/// How many faults of endpoints of this kind were counted, whatever the reason.
fn faults(stage: &Stage, event: &str) -> u64 {
    let series = format!("fairway_upstream_http2_events_total{{event=\"{event}\",");
    let metrics = stage.metrics();
    let values = metrics.lines().filter(|line| line.starts_with(&series));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

async fn play_all(cases: &[(&str, Says, Gets, Told)]) {
    let mut wrong = Vec::new();
    for (name, says, expected, told) in cases {
        on_stage(async { wrong.extend(play(name, *says, *expected, *told).await) }).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn answers_that_break_rules() {
    play_all(MESSAGES).await;
}

#[tokio::test(start_paused = true)]
async fn frames_that_break_rules_and_floods() {
    play_all(FRAMES).await;
}

/// An answer in pieces, and where its head and its last byte are.
fn answer(id: u32) -> (Vec<u8>, usize) {
    let head = head(id, 0, &[("content-type", "text/plain")]);
    let length = head.len();
    (
        [
            head,
            frame(DATA, 0, id, b"hello "),
            frame(DATA, 0, id, b"world"),
            frame(HEADERS, END | WHOLE, id, &field("a", "b")),
        ]
        .concat(),
        length,
    )
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_dies_at_every_byte_of_an_answer() {
    let (whole, head_length) = answer(1);
    for (request, is_safe) in [("GET /x HTTP/1.1\r\nHost: a\r\n\r\n", true), (POST, false)] {
        for cut in 0..=whole.len() {
            on_stage(async {
                let requests = Rc::new(Cell::new(0));
                let count = Rc::clone(&requests);
                let (stage, _) = stage(2, move |number, mut raw| {
                    let count = Rc::clone(&count);
                    async move {
                        raw.say(frame(SETTINGS, 0, 0, &[])).await;
                        let Some(id) = raw.request().await else { return };
                        count.set(count.get() + 1);
                        let (bytes, _) = answer(id);
                        raw.say(&bytes[..if number == 1 { cut } else { bytes.len() }]).await;
                        if number > 1 {
                            raw.rest().await;
                        }
                    }
                });
                let mut client = stage.client();
                client.send(request).await;
                let got = gets(&mut client).await;
                // Nine bytes of a frame's header say whose answer it is.
                let (expected, tries) = match cut {
                    0..9 if is_safe => (Whole(200), 2),
                    at if at < head_length => (Whole(502), 1),
                    at if at < whole.len() => (Broken, 1),
                    _ => (Whole(200), 1),
                };
                assert_eq!((got, requests.get()), (expected, tries), "cut at {cut}, {request:?}");
                drop(client);
                settle().await;
                assert_eq!(stage.at_rest(), Ok(()));
            })
            .await;
        }
    }
}

/// Endpoints that say to each request what its number, from 1, asks for; and how many requests there were.
fn numbered(says: impl Fn(usize, u32) -> Vec<u8> + 'static) -> (Stage, Rc<Cell<usize>>) {
    let requests = Rc::new(Cell::new(0));
    let (count, says) = (Rc::clone(&requests), Rc::new(says));
    let (stage, _) = stage(2, move |_, mut raw| {
        let (count, says) = (Rc::clone(&count), Rc::clone(&says));
        async move {
            raw.say(frame(SETTINGS, 0, 0, &[])).await;
            while let Some(id) = raw.request().await {
                count.set(count.get() + 1);
                raw.say(says(count.get(), id)).await;
            }
        }
    });
    (stage, requests)
}

#[tokio::test(start_paused = true)]
async fn the_same_request_twice_is_not_taken_for_one_that_was_not_sent() {
    on_stage(async {
        let (stage, requests) =
            numbered(|number, id| if number == 3 { word(RESET, id, 2) } else { head(id, END, &[]) });
        let mut client = stage.client();
        for (number, expected) in [(1, 200), (2, 200), (3, 502)] {
            assert_eq!(client.ask(POST).await.unwrap().status, expected, "{number}");
        }
        assert_eq!(requests.get(), 3, "no endpoint got the third one again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_post_that_is_refused_on_a_stream_that_was_used_before_goes_elsewhere() {
    on_stage(async {
        let (stage, requests) =
            numbered(|number, id| if number == 3 { word(RESET, id, 7) } else { head(id, END, &[]) });
        let mut client = stage.client();
        for _ in 0..3 {
            assert_eq!(client.ask(POST).await.unwrap().status, 200);
        }
        assert_eq!(requests.get(), 4);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_refuses_everything_costs_nobody_an_answer_and_is_left_alone() {
    on_stage(async {
        let (refused, stage_of) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
        let count = Rc::clone(&refused);
        let first = Rc::clone(&stage_of);
        let said = Shared::default();
        let stage = Stage::speaking(BackendProtocol::H2c, 2, move |address| {
            let (count, said) = (Rc::clone(&count), Rc::clone(&said));
            if first.get().is_none() {
                first.set(Some(address));
            }
            let refuses = first.get() == Some(address);
            Meeting::with(move |stream| async move {
                let mut raw = Raw::new(stream, &said);
                if !refuses {
                    return good(raw).await;
                }
                raw.say(frame(SETTINGS, 0, 0, &[])).await;
                while let Some(id) = raw.request().await {
                    count.set(count.get() + 1);
                    raw.say(word(RESET, id, 7)).await;
                }
            })
        });
        let mut client = stage.client();
        for _ in 0..40 {
            assert_eq!(client.ask(POST).await.unwrap().status, 200);
        }
        assert!(refused.get() <= 8, "{} requests went to it", refused.get());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_no_streams_is_no_place_to_wait_and_leaves_no_connections_behind() {
    on_stage(async {
        let (stage, _) = stage(1, |_, mut raw| async move {
            raw.say(setting(3, 0)).await;
            while let Some(id) = raw.request().await {
                raw.say(word(RESET, id, 7)).await;
            }
        });
        for _ in 0..30 {
            let mut client = stage.client();
            client.send(POST).await;
            assert!(matches!(gets(&mut client).await, Whole(502 | 503)));
        }
        sleep(Duration::from_secs(2)).await;
        stage.worker.tick();
        assert_eq!(stage.worker.groups.idle_connections(), 0);
        assert_eq!(stage.at_rest(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn windows_that_shrink_and_stay_closed_stop_a_body_and_nobody_else() {
    on_stage(async {
        let (stage, said) = stage(1, |_, mut raw| async move {
            raw.say(setting(4, 100)).await;
            let mut got = 0;
            loop {
                let Some((kind, flags, stream, payload)) = raw.next().await else { return };
                match kind {
                    // It takes a hundred bytes, then makes the window negative, and keeps it.
                    DATA => {
                        got += payload.len();
                        if got >= 100 {
                            raw.say(setting(4, 0)).await;
                        }
                    }
                    HEADERS if flags & END > 0 => raw.say(head(stream, END, &[])).await,
                    SETTINGS if flags & END == 0 => raw.say(frame(SETTINGS, END, 0, &[])).await,
                    _ => {}
                }
            }
        });
        let mut slow = stage.client();
        slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(gets(&mut slow).await, Whole(200));
        slow.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n{}",
            "x".repeat(50_000)
        ))
        .await;
        settle().await;
        let mut other = stage.client();
        other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(gets(&mut other).await, Whole(200));
        assert!(matches!(gets(&mut slow).await, Whole(502 | 504)));
        assert!(said.borrow().iter().any(|one| (one.0, one.2) == (RESET, CANCEL)));
        assert!(!said.borrow().iter().any(|one| one.0 == GOAWAY));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn more_than_the_window_ends_the_stream_and_what_waits_is_bounded_by_it() {
    on_stage(async {
        let (stage, said) = stage(1, |_, mut raw| async move {
            raw.say(frame(SETTINGS, 0, 0, &[])).await;
            let id = raw.request().await.unwrap();
            raw.say(head(id, 0, &[])).await;
            for _ in 0..64 {
                raw.say(frame(DATA, 0, id, &[b'x'; 16_384])).await;
                settle().await;
            }
            raw.rest().await;
        });
        let mut client = stage.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        // It reads nothing, so credit for a megabyte cannot have been given.
        sleep(Duration::from_secs(1)).await;
        assert!(said.borrow().contains(&(RESET, 1, FLOW)), "{:?}", said.borrow());
        let came = client.rest().await.len();
        assert!(came < 400_000, "{came} bytes");
        settle().await;
        assert_eq!(stage.at_rest(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn clients_that_read_nothing_do_not_end_the_calls_of_others() {
    on_stage(async {
        let (stage, said) = stage(1, |_, mut raw| async move {
            raw.say(frame(SETTINGS, 0, 0, &[])).await;
            let mut calls = 0;
            while let Some(id) = raw.request().await {
                calls += 1;
                raw.say(head(id, 0, &[])).await;
                if calls <= 6 {
                    // The client's pipe takes these; small ones wait in Fairway.
                    raw.say(frame(DATA, 0, id, &[7; 16_000]).repeat(4)).await;
                    settle().await;
                    raw.say(frame(DATA, 0, id, &[7; 100]).repeat(300)).await;
                } else {
                    raw.say(frame(DATA, END, id, b"ok")).await;
                }
            }
        });
        let mut idle = Vec::new();
        for _ in 0..6 {
            let mut client = stage.client();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            idle.push(client);
            settle().await;
        }
        let mut other = stage.client();
        other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(gets(&mut other).await, Whole(200));
        assert_eq!(stage.connects().len(), 1);
        assert!(said.borrow().is_empty(), "{:?}", said.borrow());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_outlives_its_connection_however_slowly_it_is_read() {
    on_stage(async {
        let (stage, _) = stage(1, |_, mut raw| async move {
            raw.say(frame(SETTINGS, 0, 0, &[])).await;
            let id = raw.request().await.unwrap();
            let body = frame(DATA, 0, id, &[b'x'; 16_000]);
            raw.say([head(id, 0, &[("content-length", "64000")]), body.repeat(3)].concat()).await;
            raw.say(frame(DATA, END, id, &[b'x'; 16_000])).await;
        });
        let mut client = stage.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(client.answer().await.unwrap().body.len(), 64_000);
    })
    .await;
}

/// Sends a body of endless frames of one byte to the first request, and answers the others in between.
async fn flooding(raw: Raw) {
    let Raw { stream, said, .. } = raw;
    let (from, mut to) = tokio::io::split(stream);
    let (ours, mut theirs) = duplex(64 * 1024);
    // Requests are read by a task of their own: nothing that Fairway writes waits for the flood.
    let waiting = Rc::new(RefCell::new(Vec::new()));
    let asked = Rc::clone(&waiting);
    let reader = spawn_local(async move {
        let mut raw = Raw::new(ours, &said);
        while let Some(id) = raw.request().await {
            asked.borrow_mut().push(id);
        }
    });
    let feeder = spawn_local(async move {
        let mut from = from;
        let _ = tokio::io::copy(&mut from, &mut theirs).await;
    });
    let mut flood = frame(SETTINGS, 0, 0, &[]);
    let mut first = None;
    while to.write_all(&flood).await.is_ok() {
        flood.clear();
        for id in waiting.borrow_mut().drain(..) {
            let is_first = *first.get_or_insert(id) == id;
            let end = if is_first { Vec::new() } else { frame(DATA, END, id, b"ok") };
            flood.extend([head(id, 0, &[]), end].concat());
        }
        if let Some(id) = first {
            flood.extend(frame(DATA, 0, id, b"x").repeat(500));
        }
        yield_now().await;
    }
    reader.abort();
    feeder.abort();
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_tiny_data_leaves_room_for_others() {
    on_stage(async {
        let (stage, _) = stage(1, |_, raw| flooding(raw));
        let mut flooded = stage.client();
        flooded.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let reader = spawn_local(async move {
            let mut piece = [0; 4096];
            while flooded.stream.read(&mut piece).await.unwrap_or(0) > 0 {}
        });
        let mut other = stage.client();
        for _ in 0..20 {
            assert_eq!(other.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap().status, 200);
        }
        reader.abort();
    })
    .await;
}
