//! Endpoints of HTTP/2 whose messages and frames break rules: what the client gets, what the endpoint is told, and that nobody
//! else notices.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use Gets::{Broken, Whole};
use Told::{GoAway, Nothing, Reset};
use tokio::time::sleep;

use super::hostile_tests::{
    CALM, CANCEL, CLOSED, COMPRESSION, CONTINUATION, DATA, END, FLOW, GOAWAY, Gets, HEADERS, OK, PING, POST,
    PRIORITY, PROTOCOL, PUSH_PROMISE, RESET, SETTINGS, SIZE, Shared, WHOLE, WINDOW_UPDATE, field, frame,
    gets, go_away, good, head, setting, settle, stage, status, word,
};
use crate::testing::{Stage, on_stage};

type Says = fn(u32) -> Vec<u8>;

/// What an endpoint is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// RST_STREAM, and the connection goes on.
    Reset(u32),
    GoAway(u32),
}

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
    ("as many fields as may be", |id| head(id, END, &[("a", "b"); 99]), Whole(200), Nothing),
    ("more fields than may be", |id| head(id, END, &[("a", "b"); 110]), Whole(502), Reset(CANCEL)),
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
