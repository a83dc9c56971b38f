//! HTTP/2 endpoints with invalid messages and frames: what the client gets, what the endpoint is sent, and that other requests
//! are not affected.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ClientResult::{Broken, Whole};
use SentToEndpoint::{GoAway, Nothing, Reset};
use tokio::time::sleep;

use super::hostile_tests::{
    CANCEL, COMPRESSION_ERROR, CONTINUATION, ClientResult, DATA, ENHANCE_YOUR_CALM, FLAG_END_HEADERS,
    FLAG_END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY, HEADERS, OK, PING, POST, PRIORITY,
    PROTOCOL_ERROR, PUSH_PROMISE, RST_STREAM, SETTINGS, STREAM_CLOSED, SentFrames, WINDOW_UPDATE,
    client_result, field, frame, go_away, head, run_ready_tasks, serve_well, setting, stage, status, word,
};
use crate::testing::{TestWorker, run_local};

type ResponseFrames = fn(u32) -> Vec<u8>;

/// What an endpoint is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentToEndpoint {
    Nothing,
    /// RST_STREAM, and the connection continues.
    Reset(u32),
    GoAway(u32),
}

/// What an endpoint sends as response, what the client gets, and what the endpoint is sent.
const MESSAGES: &[(&str, ResponseFrames, ClientResult, SentToEndpoint)] = &[
    (
        "an answer",
        |id| [head(id, 0, &[]), frame(DATA, FLAG_END_STREAM, id, b"ok")].concat(),
        Whole(200),
        Nothing,
    ),
    (
        "a body before its head",
        |id| frame(DATA, FLAG_END_STREAM, id, b"ok"),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    ("two heads", |id| [head(id, 0, &[]), head(id, 0, &[])].concat(), Broken, Reset(PROTOCOL_ERROR)),
    (
        "trailers that do not end",
        |id| [head(id, 0, &[]), frame(HEADERS, FLAG_END_HEADERS, id, &field("a", "b"))].concat(),
        Broken,
        Reset(PROTOCOL_ERROR),
    ),
    (
        "a status in trailers",
        |id| [head(id, 0, &[]), head(id, FLAG_END_STREAM, &[])].concat(),
        Broken,
        Reset(PROTOCOL_ERROR),
    ),
    (
        "DATA after the end",
        |id| {
            [
                head(id, 0, &[]),
                frame(DATA, FLAG_END_STREAM, id, b"ok"),
                frame(DATA, FLAG_END_STREAM, id, b"no"),
            ]
            .concat()
        },
        Whole(200),
        Reset(STREAM_CLOSED),
    ),
    (
        "a head after the end",
        |id| [head(id, FLAG_END_STREAM, &[]), head(id, FLAG_END_STREAM, &[])].concat(),
        Whole(200),
        Reset(STREAM_CLOSED),
    ),
    (
        "more than its length",
        |id| [head(id, 0, &[("content-length", "1")]), frame(DATA, FLAG_END_STREAM, id, b"ok")].concat(),
        Broken,
        Reset(PROTOCOL_ERROR),
    ),
    (
        "less than its length",
        |id| [head(id, 0, &[("content-length", "3")]), frame(DATA, FLAG_END_STREAM, id, b"ok")].concat(),
        Broken,
        Reset(PROTOCOL_ERROR),
    ),
    (
        "a length and no body",
        |id| head(id, FLAG_END_STREAM, &[("content-length", "3")]),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    (
        "a length, no body, trailers",
        |id| {
            let trailers = frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, id, &field("a", "b"));
            [head(id, 0, &[("content-length", "3")]), trailers].concat()
        },
        Broken,
        Reset(PROTOCOL_ERROR),
    ),
    (
        "two lengths",
        |id| head(id, 0, &[("content-length", "1"), ("content-length", "2")]),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    (
        "a length that is none",
        |id| head(id, 0, &[("content-length", "+1")]),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    (
        "a stream that was never opened",
        |id| head(id + 2, FLAG_END_STREAM, &[]),
        Whole(502),
        GoAway(PROTOCOL_ERROR),
    ),
    ("a stream of its own", |_| head(2, FLAG_END_STREAM, &[]), Whole(502), GoAway(PROTOCOL_ERROR)),
    ("a head on no stream", |_| head(0, FLAG_END_STREAM, &[]), Whole(502), GoAway(PROTOCOL_ERROR)),
    (
        "a push",
        |id| frame(PUSH_PROMISE, FLAG_END_HEADERS, id, &[0, 0, 0, 2, 0x82]),
        Whole(502),
        GoAway(PROTOCOL_ERROR),
    ),
    ("endless interim answers", |id| status(id, 0, "103").repeat(100), Whole(502), Reset(CANCEL)),
    (
        "an interim answer that ends",
        |id| status(id, FLAG_END_STREAM, "103"),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    ("101", |id| status(id, 0, "101"), Whole(502), Reset(PROTOCOL_ERROR)),
    ("a status of letters", |id| status(id, FLAG_END_STREAM, "abc"), Whole(502), Reset(PROTOCOL_ERROR)),
    (
        "no status",
        |id| frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, id, &field("a", "b")),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    ("two of them", |id| head(id, FLAG_END_STREAM, &[(":status", "200")]), Whole(502), Reset(PROTOCOL_ERROR)),
    (
        "a path in an answer",
        |id| head(id, FLAG_END_STREAM, &[(":path", "/")]),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    (
        "an upper case name",
        |id| head(id, FLAG_END_STREAM, &[("X-A", "b")]),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    (
        "a field of one hop",
        |id| head(id, FLAG_END_STREAM, &[("connection", "x")]),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    (
        "framing of HTTP/1",
        |id| head(id, 0, &[("transfer-encoding", "chunked")]),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    (
        "a line end in a value",
        |id| head(id, FLAG_END_STREAM, &[("a", "b\r\nc: d")]),
        Whole(502),
        Reset(PROTOCOL_ERROR),
    ),
    ("a NUL in a value", |id| head(id, FLAG_END_STREAM, &[("a", "b\0")]), Whole(502), Reset(PROTOCOL_ERROR)),
    ("a colon in a name", |id| head(id, FLAG_END_STREAM, &[("a:b", "c")]), Whole(502), Reset(PROTOCOL_ERROR)),
    (
        "RST after the whole answer",
        |id| [head(id, FLAG_END_STREAM, &[]), word(RST_STREAM, id, 2)].concat(),
        Whole(200),
        Nothing,
    ),
    ("RST within it", |id| [head(id, 0, &[]), word(RST_STREAM, id, 2)].concat(), Broken, Nothing),
    ("RST NO_ERROR within it", |id| [head(id, 0, &[]), word(RST_STREAM, id, 0)].concat(), Broken, Nothing),
    (
        "DATA after RST",
        |id| [head(id, 0, &[]), word(RST_STREAM, id, 2), frame(DATA, FLAG_END_STREAM, id, b"ok")].concat(),
        Broken,
        Reset(STREAM_CLOSED),
    ),
    ("GOAWAY above it", |id| [go_away(id), head(id, FLAG_END_STREAM, &[])].concat(), Whole(200), Nothing),
    ("GOAWAY below it, mid-answer", |id| [head(id, 0, &[]), go_away(0)].concat(), Broken, Reset(CANCEL)),
    ("GOAWAY that rises", |id| [go_away(id), go_away(id + 2)].concat(), Whole(502), GoAway(PROTOCOL_ERROR)),
    ("a large head", |id| large(id), Whole(502), Reset(CANCEL)),
    ("as many fields as may be", |id| head(id, FLAG_END_STREAM, &[("a", "b"); 99]), Whole(200), Nothing),
    (
        "more fields than may be",
        |id| head(id, FLAG_END_STREAM, &[("a", "b"); 110]),
        Whole(502),
        Reset(CANCEL),
    ),
];

/// A head of 100 fields that refer to one table entry of 4,000 bytes.
fn large(id: u32) -> Vec<u8> {
    // A literal with indexing: the name `a`, and 3,900 bytes (127 + 0x3d + 0x1d << 7).
    let entry = [&[0x40, 1, b'a', 0x7f, 0xbd, 0x1d][..], &[b'x'; 3900]].concat();
    frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, id, &[OK, &entry, &[0xbe; 100]].concat())
}

/// The same for frames that concern the connection.
const FRAMES: &[(&str, ResponseFrames, ClientResult, SentToEndpoint)] = &[
    ("SETTINGS that allow pushes", |_| setting(2, 1), Whole(502), GoAway(PROTOCOL_ERROR)),
    ("a window above 2^31 - 1", |_| setting(4, 1 << 31), Whole(502), GoAway(FLOW_CONTROL_ERROR)),
    ("frames of one byte", |_| setting(5, 1), Whole(502), GoAway(PROTOCOL_ERROR)),
    ("SETTINGS of five bytes", |_| frame(SETTINGS, 0, 0, &[0; 5]), Whole(502), GoAway(FRAME_SIZE_ERROR)),
    ("SETTINGS of a stream", |id| frame(SETTINGS, 0, id, &[]), Whole(502), GoAway(PROTOCOL_ERROR)),
    (
        "an ACK with settings",
        |_| frame(SETTINGS, FLAG_END_STREAM, 0, &[0; 6]),
        Whole(502),
        GoAway(FRAME_SIZE_ERROR),
    ),
    ("PING of seven bytes", |_| frame(PING, 0, 0, &[0; 7]), Whole(502), GoAway(FRAME_SIZE_ERROR)),
    ("PING of a stream", |id| frame(PING, 0, id, &[0; 8]), Whole(502), GoAway(PROTOCOL_ERROR)),
    ("WINDOW_UPDATE by 0", |_| word(WINDOW_UPDATE, 0, 0), Whole(502), GoAway(PROTOCOL_ERROR)),
    ("the same of a stream", |id| word(WINDOW_UPDATE, id, 0), Whole(502), Reset(PROTOCOL_ERROR)),
    (
        "WINDOW_UPDATE by too much",
        |_| word(WINDOW_UPDATE, 0, 0x7fff_ffff),
        Whole(502),
        GoAway(FLOW_CONTROL_ERROR),
    ),
    (
        "the same of a stream",
        |id| word(WINDOW_UPDATE, id, 0x7fff_ffff),
        Whole(502),
        Reset(FLOW_CONTROL_ERROR),
    ),
    (
        "WINDOW_UPDATE of three bytes",
        |_| frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
        Whole(502),
        GoAway(FRAME_SIZE_ERROR),
    ),
    (
        "WINDOW_UPDATE of an idle stream",
        |id| word(WINDOW_UPDATE, id + 2, 9),
        Whole(502),
        GoAway(PROTOCOL_ERROR),
    ),
    ("RST of three bytes", |id| frame(RST_STREAM, 0, id, &[0; 3]), Whole(502), GoAway(FRAME_SIZE_ERROR)),
    ("RST of an idle stream", |id| word(RST_STREAM, id + 2, 8), Whole(502), GoAway(PROTOCOL_ERROR)),
    ("GOAWAY of a stream", |id| frame(GOAWAY, 0, id, &[0; 8]), Whole(502), GoAway(PROTOCOL_ERROR)),
    ("PRIORITY of four bytes", |id| frame(PRIORITY, 0, id, &[0; 4]), Whole(502), Reset(FRAME_SIZE_ERROR)),
    (
        "CONTINUATION alone",
        |id| frame(CONTINUATION, FLAG_END_HEADERS, id, OK),
        Whole(502),
        GoAway(PROTOCOL_ERROR),
    ),
    (
        "DATA within a block",
        |id| [frame(HEADERS, 0, id, OK), frame(DATA, FLAG_END_STREAM, id, b"ok")].concat(),
        Whole(502),
        GoAway(PROTOCOL_ERROR),
    ),
    (
        "an unknown frame within a block",
        |id| [frame(HEADERS, 0, id, OK), frame(77, 0, id, b"ok")].concat(),
        Whole(502),
        GoAway(PROTOCOL_ERROR),
    ),
    (
        "unknown frames, settings and flags",
        |id| {
            let unknown = [frame(77, 0xff, 0, b"what"), frame(200, 0, id, &[]), setting(0x99, 7)].concat();
            [unknown, head(id, FLAG_END_STREAM | 0x40, &[])].concat()
        },
        Whole(200),
        Nothing,
    ),
    (
        "DATA above 16,384",
        |id| frame(DATA, FLAG_END_STREAM, id, &[0; 16_385]),
        Whole(502),
        Reset(FRAME_SIZE_ERROR),
    ),
    (
        "a head above 16,384",
        |id| frame(HEADERS, FLAG_END_HEADERS, id, &[0; 16_385]),
        Whole(502),
        GoAway(FRAME_SIZE_ERROR),
    ),
    ("padding above its frame", |id| frame(DATA, 8, id, &[9, 0]), Whole(502), GoAway(PROTOCOL_ERROR)),
    (
        "field 0",
        |id| frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, id, &[0x80]),
        Whole(502),
        GoAway(COMPRESSION_ERROR),
    ),
    (
        "a field beyond the table",
        |id| frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, id, &[0xfe]),
        Whole(502),
        GoAway(COMPRESSION_ERROR),
    ),
    (
        "a table beyond ours",
        |id| frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, id, &[0x3f, 0xe2, 0x1f, 0x88]),
        Whole(502),
        GoAway(COMPRESSION_ERROR),
    ),
    (
        "a size behind a field",
        |id| frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, id, &[0x88, 0x20]),
        Whole(502),
        GoAway(COMPRESSION_ERROR),
    ),
    (
        "an endless number",
        |id| {
            frame(
                HEADERS,
                FLAG_END_HEADERS | FLAG_END_STREAM,
                id,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            )
        },
        Whole(502),
        GoAway(COMPRESSION_ERROR),
    ),
    (
        "half a field",
        |id| frame(HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, id, &[0x88, 0, 5, b'a']),
        Whole(502),
        GoAway(COMPRESSION_ERROR),
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
        GoAway(ENHANCE_YOUR_CALM),
    ),
    (
        "an endless block",
        |id| [frame(HEADERS, 0, id, OK), frame(CONTINUATION, 0, id, &[0; 16_000]).repeat(3)].concat(),
        Whole(502),
        GoAway(ENHANCE_YOUR_CALM),
    ),
    (
        "a flood of empty DATA",
        |id| [head(id, 0, &[]), frame(DATA, 0, id, &[]).repeat(300)].concat(),
        Broken,
        GoAway(ENHANCE_YOUR_CALM),
    ),
    (
        "a flood of SETTINGS",
        |_| frame(SETTINGS, 0, 0, &[]).repeat(300),
        Whole(502),
        GoAway(ENHANCE_YOUR_CALM),
    ),
    (
        "a flood of ACKs",
        |_| frame(SETTINGS, FLAG_END_STREAM, 0, &[]).repeat(300),
        Whole(502),
        GoAway(ENHANCE_YOUR_CALM),
    ),
    ("a flood of PING", |_| frame(PING, 0, 0, &[0; 8]).repeat(600), Whole(502), GoAway(ENHANCE_YOUR_CALM)),
    (
        "a flood of PONG",
        |_| frame(PING, FLAG_END_STREAM, 0, &[0; 8]).repeat(1100),
        Whole(502),
        GoAway(ENHANCE_YOUR_CALM),
    ),
    (
        "a flood of PRIORITY",
        |id| frame(PRIORITY, 0, id, &[0, 0, 0, 99, 1]).repeat(1100),
        Whole(502),
        GoAway(ENHANCE_YOUR_CALM),
    ),
    (
        "a flood of WINDOW_UPDATE",
        |_| word(WINDOW_UPDATE, 0, 1).repeat(1200),
        Whole(502),
        GoAway(ENHANCE_YOUR_CALM),
    ),
    (
        "a flood of unknown frames",
        |_| frame(77, 0, 0, &[]).repeat(1100),
        Whole(502),
        GoAway(ENHANCE_YOUR_CALM),
    ),
    ("a flood of GOAWAY", |id| go_away(id).repeat(1100), Whole(502), GoAway(ENHANCE_YOUR_CALM)),
    ("a flood of RST", |id| word(RST_STREAM, id, 8).repeat(1200), Whole(502), GoAway(ENHANCE_YOUR_CALM)),
];

/// A first endpoint that keeps a client waiting until it is released, a hostile second one, and good ones.
fn beside_a_witness(
    says: ResponseFrames,
    released: &Rc<Cell<bool>>,
    held: &Rc<Cell<bool>>,
) -> (TestWorker, SentFrames) {
    let (released, held) = (Rc::clone(released), Rc::clone(held));
    stage(2, move |number, mut raw| {
        let (released, held) = (Rc::clone(&released), Rc::clone(&held));
        async move {
            if number > 2 {
                return serve_well(raw).await;
            }
            raw.send(frame(SETTINGS, 0, 0, &[])).await;
            let id = raw.request().await.unwrap();
            if number == 1 {
                held.set(true);
                while !released.get() {
                    sleep(Duration::from_millis(5)).await;
                }
                raw.send([head(id, 0, &[]), frame(DATA, FLAG_END_STREAM, id, b"ok")].concat()).await;
            } else {
                raw.send(says(id)).await;
            }
            raw.read_to_end().await;
        }
    })
}

/// Returns what is not as expected.
async fn run_case(
    name: &str,
    says: ResponseFrames,
    expected: ClientResult,
    expected_frames: SentToEndpoint,
) -> Option<String> {
    let (released, held) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (stage, sent_frames) = beside_a_witness(says, &released, &held);
    let (mut witness, mut client) = (stage.client(), stage.client());
    witness.send("GET /witness HTTP/1.1\r\nHost: a\r\n\r\n").await;
    while !held.get() {
        sleep(Duration::from_millis(1)).await;
    }
    client.send(POST).await;
    let got = client_result(&mut client).await;
    run_ready_tasks().await;
    let ends: Vec<_> = sent_frames.borrow().iter().filter(|frame| frame.0 != PING).copied().collect();
    let goes = ends.iter().any(|frame| frame.0 == GOAWAY);
    let is_told = match expected_frames {
        Nothing => ends.is_empty(),
        Reset(code) => ends.contains(&(RST_STREAM, 1, code)) && !goes,
        GoAway(code) => ends.contains(&(GOAWAY, 0, code)),
    };
    released.set(true);
    let other = client_result(&mut witness).await;
    drop((witness, client));
    run_ready_tasks().await;
    let counted = (faults(&stage, "stream_fault"), faults(&stage, "connection_fault"));
    let is_counted = match expected_frames {
        Nothing => counted == (0, 0),
        // A stream above the GOAWAY is ended by Fairway, which is not a fault.
        Reset(_) => counted.0 + faults(&stage, "goaway_received") > 0 && counted.1 == 0,
        GoAway(_) => counted.1 == 1,
    };
    let passing = (got == expected) && is_told && is_counted && other == Whole(200);
    let rest = stage.check_idle();
    (!passing || rest.is_err())
        .then(|| format!("{name}: {got:?}, told {ends:?}, counted {counted:?}, other {other:?}, {rest:?}"))
}

/// The counted endpoint faults of this kind, for any reason.
fn faults(stage: &TestWorker, event: &str) -> u64 {
    let series = format!("fairway_upstream_http2_events_total{{event=\"{event}\",");
    let metrics = stage.metrics();
    let values = metrics.lines().filter(|line| line.starts_with(&series));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

async fn run_cases(cases: &[(&str, ResponseFrames, ClientResult, SentToEndpoint)]) {
    let mut wrong = Vec::new();
    for (name, says, expected, expected_frames) in cases {
        run_local(async { wrong.extend(run_case(name, *says, *expected, *expected_frames).await) }).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn answers_that_break_rules() {
    run_cases(MESSAGES).await;
}

#[tokio::test(start_paused = true)]
async fn frames_that_break_rules_and_floods() {
    run_cases(FRAMES).await;
}

/// A response in frames, and the positions of the end of its head and of its last byte.
fn response(id: u32) -> (Vec<u8>, usize) {
    let head = head(id, 0, &[("content-type", "text/plain")]);
    let length = head.len();
    (
        [
            head,
            frame(DATA, 0, id, b"hello "),
            frame(DATA, 0, id, b"world"),
            frame(HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, id, &field("a", "b")),
        ]
        .concat(),
        length,
    )
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_dies_after_every_byte_of_a_response() {
    let (whole, head_length) = response(1);
    for (request, is_safe) in [("GET /x HTTP/1.1\r\nHost: a\r\n\r\n", true), (POST, false)] {
        for cut in 0..=whole.len() {
            run_local(async {
                let requests = Rc::new(Cell::new(0));
                let count = Rc::clone(&requests);
                let (stage, _) = stage(2, move |number, mut raw| {
                    let count = Rc::clone(&count);
                    async move {
                        raw.send(frame(SETTINGS, 0, 0, &[])).await;
                        let Some(id) = raw.request().await else { return };
                        count.set(count.get() + 1);
                        let (bytes, _) = response(id);
                        raw.send(&bytes[..if number == 1 { cut } else { bytes.len() }]).await;
                        if number > 1 {
                            raw.read_to_end().await;
                        }
                    }
                });
                let mut client = stage.client();
                client.send(request).await;
                let got = client_result(&mut client).await;
                // The nine bytes of a frame's header say which response it belongs to.
                let (expected, tries) = match cut {
                    0..9 if is_safe => (Whole(200), 2),
                    at if at < head_length => (Whole(502), 1),
                    at if at < whole.len() => (Broken, 1),
                    _ => (Whole(200), 1),
                };
                assert_eq!((got, requests.get()), (expected, tries), "cut at {cut}, {request:?}");
                drop(client);
                run_ready_tasks().await;
                assert_eq!(stage.check_idle(), Ok(()));
            })
            .await;
        }
    }
}
