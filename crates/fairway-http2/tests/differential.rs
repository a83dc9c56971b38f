//! Compares with the `h2` crate: single valid and invalid frames after the same beginning, for which both servers must
//! give the same result: the connection ends, a stream ends, or neither.

use fairway_http2::frame::FrameKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::support;
use crate::support::table::{MARK, ServerResult, beginning, frames_to_judge, judged};
use crate::support::*;

fn ours(input: &[u8]) -> ServerResult {
    let mut peer = Peer::raw(fairway_http2::Config::default());
    peer.send(input);
    judged(peer.server.pending()).expect("it answers or ends")
}

/// Accepts requests and keeps them without a response.
async fn serve(stream: DuplexStream) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut requests = Vec::new();
    // Errors repeat.
    while let Some(Ok(request)) = connection.accept().await {
        requests.push(request);
    }
}

/// Passes once all other tasks have had enough time to finish: there is nothing else to wait for.
async fn everybody() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn theirs(input: &[u8]) -> ServerResult {
    let (mut client, server) = duplex(1 << 16);
    let task = tokio::task::spawn_local(serve(server));
    client.write_all(input).await.unwrap();
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let outcome = loop {
        if let Some(said) = judged(&bytes) {
            break said;
        }
        tokio::select! {
            biased;
            read = client.read(&mut piece) => match read {
                Ok(0) | Err(_) => break ServerResult::Connection,
                Ok(count) => bytes.extend_from_slice(&piece[..count]),
            },
            () = everybody() => break ServerResult::Silent,
        }
    };
    task.abort();
    outcome
}

#[tokio::test(flavor = "current_thread")]
async fn both_servers_say_the_same() {
    let (mut differ, mut met) = (Vec::new(), [false; KNOWN.len()]);
    let judge = async {
        for (name, frame) in frames_to_judge() {
            let mark = support::frame(FrameKind::Ping, 0, 0, &MARK);
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

/// A stream error for us and a connection error for `h2`, which is allowed (RFC 9113 §5.4).
const NARROWER: (ServerResult, ServerResult) = (ServerResult::Stream, ServerResult::Connection);

/// What `h2` ends the connection for, and we ignore.
const IGNORED: (ServerResult, ServerResult) = (ServerResult::Nothing, ServerResult::Connection);

/// Where we differ, and the rule that we follow.
const KNOWN: &[(&str, (ServerResult, ServerResult), &str)] = &[
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
        (ServerResult::Stream, ServerResult::Nothing),
        "trailers with pseudo-header fields (§8.1)",
    ),
    ("kind 1 stream 1 ", NARROWER, "an empty field name makes a message malformed (§8.2.1)"),
    ("kind 1 stream 7 ", NARROWER, "the same"),
    ("field upper case", NARROWER, "a malformed message is an error of its stream (§8.1.1)"),
    ("field unknown pseudo", NARROWER, "the same"),
    ("field line feed", NARROWER, "the same"),
];
