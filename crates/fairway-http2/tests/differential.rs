//! The `h2` crate as a second opinion: one frame after the other, right and wrong, behind the same beginning, and both
//! servers must say the same of it: the connection ends, a stream does, or nothing does.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

use std::collections::BTreeMap;

use fairway_http2::frame::{ACK, END_HEADERS, END_STREAM, HEADER_BYTES, Header, Kind};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// What a server says of some input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Nothing,
    /// It reset a stream.
    Stream,
    /// It ended the connection.
    Connection,
    /// It answers nothing any more, and does not say why.
    Silent,
}

/// The mark behind the input: whoever answers it has read all before it.
const MARK: [u8; 8] = *b"the mark";

/// What frames say, if they say enough: the mark is answered, or the connection ends.
fn judged(bytes: &[u8]) -> Option<Said> {
    let mut whole = 0;
    while let Some(header) = bytes[whole..].first_chunk::<HEADER_BYTES>() {
        let end = whole + HEADER_BYTES + Header::read(header).length as usize;
        if end > bytes.len() {
            break;
        }
        whole = end;
    }
    let frames = frames(&bytes[..whole]);
    if goodbyes(&frames).iter().any(|(_, code)| *code as u32 != 0) {
        return Some(Said::Connection);
    }
    let answered = frames.iter().any(|frame| frame.kind == Kind::Ping && frame.payload == MARK);
    let said = if resets(&frames).is_empty() { Said::Nothing } else { Said::Stream };
    answered.then_some(said)
}

fn ours(input: &[u8]) -> Said {
    let mut peer = Peer::raw(fairway_http2::Config::default());
    peer.send(input);
    judged(peer.server.pending()).expect("it answers or ends")
}

/// Takes requests and keeps them, without an answer.
async fn serve(stream: DuplexStream) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut requests = Vec::new();
    // An error comes again and again.
    while let Some(Ok(request)) = connection.accept().await {
        requests.push(request);
    }
}

/// Passes when every other task had time enough to do all that it could: there is nothing else to wait for here.
async fn everybody() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn theirs(input: &[u8]) -> Said {
    let (mut client, server) = duplex(1 << 16);
    let task = tokio::task::spawn_local(serve(server));
    client.write_all(input).await.unwrap();
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let said = loop {
        if let Some(said) = judged(&bytes) {
            break said;
        }
        tokio::select! {
            biased;
            read = client.read(&mut piece) => match read {
                Ok(0) | Err(_) => break Said::Connection,
                Ok(count) => bytes.extend_from_slice(&piece[..count]),
            },
            () = everybody() => break Said::Silent,
        }
    };
    task.abort();
    said
}

/// A beginning that has streams of all kinds: 1 has a body to come, 3 has ended, 5 was reset.
fn beginning() -> Vec<u8> {
    let streams = [headers(1, false, POST), headers(3, true, GET), headers(5, false, POST), reset(5, 8)];
    [PREFACE, &settings(&[]), &frame(Kind::Settings, ACK, 0, &[]), &streams.concat()].concat()
}

/// Frames of every type on every kind of stream with several flags and lengths, and others that are wrong in one thing.
fn frames_to_judge() -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for kind in 0..=11u8 {
        for stream in [0, 1, 2, 3, 5, 7] {
            for flags in [0, END_STREAM, END_HEADERS, END_HEADERS | END_STREAM, 8, 0x20 | END_HEADERS] {
                for (name, payload) in payloads() {
                    let length = u32::try_from(payload.len()).unwrap();
                    let header = Header { length, kind, flags, stream };
                    let name = format!("kind {kind} stream {stream} flags {flags:#x} {name}");
                    all.insert(name, [&header.bytes()[..], &payload].concat());
                }
            }
        }
    }
    for (number, value) in
        [(2, 2), (3, 0), (4, 0x8000_0000), (4, 0x7fff_ffff), (5, 16_383), (5, 1 << 24), (8, 2), (99, 9)]
    {
        all.insert(format!("setting {number} of {value}"), settings(&[(number, value)]));
    }
    let window = [window_update(0, 0x7fff_ffff), window_update(1, 0x7fff_ffff), window_update(1, 1)];
    for (at, bytes) in window.into_iter().enumerate() {
        all.insert(format!("window {at}"), bytes);
    }
    for (name, field) in FIELDS {
        let (field_name, value) = field.split_once('=').unwrap();
        all.insert(format!("field {name}"), headers(7, true, &[GET, &literal(field_name, value)].concat()));
    }
    all
}

fn payloads() -> [(&'static str, Vec<u8>); 9] {
    [
        ("empty", vec![]),
        ("one byte", vec![0]),
        ("four zeros", vec![0; 4]),
        ("an increment", vec![0, 0, 0, 1]),
        ("five bytes", vec![0, 0, 0, 9, 1]),
        ("six bytes", vec![0; 6]),
        ("eight bytes", vec![0, 0, 0, 1, 0, 0, 0, 0]),
        ("a request", GET.to_vec()),
        ("padding and more", vec![2, 0x82, 0x86, 0x84, 0x01, 0x01, b'a', 0, 0]),
    ]
}

const FIELDS: [(&str, &str); 14] = [
    ("plain", "x=y"),
    ("upper case", "X=y"),
    ("connection", "connection=close"),
    ("keep-alive", "keep-alive=1"),
    ("transfer-encoding", "transfer-encoding=chunked"),
    ("upgrade", "upgrade=h2c"),
    ("te", "te=trailers"),
    ("other te", "te=gzip"),
    ("late pseudo", ":method=GET"),
    ("status", ":status=200"),
    ("unknown pseudo", ":x=y"),
    ("length", "content-length=5"),
    ("bad length", "content-length=five"),
    ("line feed", "x=a\nb"),
];

#[tokio::test(flavor = "current_thread")]
async fn both_servers_say_the_same() {
    let (mut differ, mut met) = (Vec::new(), [false; KNOWN.len()]);
    let judge = async {
        for (name, frame) in frames_to_judge() {
            let mark = support::frame(Kind::Ping, 0, 0, &MARK);
            let input = [&beginning()[..], &frame, &mark].concat();
            let (ours, theirs) = (ours(&input), theirs(&input).await);
            let known = |(part, said, _): &(&str, _, _)| name.contains(part) && *said == (ours, theirs);
            match KNOWN.iter().position(known) {
                Some(at) => met[at] = true,
                None if ours == theirs => {}
                None => differ.push(format!("{name}: {ours:?}, h2 {theirs:?}")),
            }
        }
    };
    tokio::task::LocalSet::new().run_until(judge).await;
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    assert_eq!(met, [true; KNOWN.len()], "a difference that is known is gone");
}

/// An error of the stream for us, of the connection for `h2`, which may be so (RFC 9113 §5.4).
const NARROWER: (Said, Said) = (Said::Stream, Said::Connection);

/// What `h2` ends the connection for, and we ignore.
const IGNORED: (Said, Said) = (Said::Nothing, Said::Connection);

/// Where we differ, and the rule that we follow.
const KNOWN: &[(&str, (Said, Said), &str)] = &[
    (
        "kind 0 stream 3 ",
        NARROWER,
        "DATA behind END_STREAM is an error of the stream (RFC 9113 §5.1, half-closed)",
    ),
    ("kind 1 stream 3 ", NARROWER, "and so are HEADERS"),
    ("kind 1 stream 5 ", NARROWER, "and HEADERS behind RST_STREAM (§5.1, closed)"),
    ("kind 2 stream ", NARROWER, "PRIORITY of another length than 5 (§6.3)"),
    ("kind 8 stream 1 ", NARROWER, "an increment of 0 (§6.9)"),
    ("kind 8 stream 3 ", NARROWER, "the same"),
    ("kind 8 stream 5 ", IGNORED, "WINDOW_UPDATE on a closed stream says nothing any more (§5.1)"),
    ("kind 4 stream 0 ", IGNORED, "an acknowledgement of nothing is no error, and is charged"),
    (
        "kind 1 stream 1 flags 0x5 a request",
        (Said::Stream, Said::Nothing),
        "trailers with pseudo-header fields (§8.1)",
    ),
    ("kind 1 stream 1 ", NARROWER, "an empty field name makes a message malformed (§8.2.1)"),
    ("kind 1 stream 7 ", NARROWER, "the same"),
    ("field upper case", NARROWER, "a malformed message is an error of its stream (§8.1.1)"),
    ("field unknown pseudo", NARROWER, "the same"),
    ("field line feed", NARROWER, "the same"),
];
