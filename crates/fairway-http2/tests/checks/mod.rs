//! Checks for any input, shared by fuzz targets, properties and the committed corpora.

#![allow(dead_code, unused_imports, reason = "each test binary and each target uses a part of it")]

mod dice;
mod downgrade;
mod encode;
mod pair;
mod watch;

pub(crate) use dice::Dice;
pub(crate) use downgrade::downgrade;
pub(crate) use encode::encode;
pub(crate) use pair::{pair, play};

use fairway_http::{Head, Method, Target};
use fairway_http2::fields::{BlockOutcome, HeadBuilder, Limits, Message, write_request};
use fairway_http2::hpack::{Decoder, Encoder, StringCoding};
use fairway_http2::{Client, Config, Event, Server, Verdict, Wait};

/// Any bytes as blocks of one direction, each preceded by its length: every verdict is correct, and an accepted request
/// is the same after it was written again.
pub(crate) fn hpack(mut input: &[u8]) {
    let mut decoder = Decoder::new(4096);
    let mut encoders = [Encoder::new(StringCoding::Plain, 0), Encoder::new(StringCoding::Huffman, 4096)];
    let mut decoders = [Decoder::new(4096), Decoder::new(4096)];
    while let [length, rest @ ..] = input {
        let (block, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        input = rest;
        let mut head = Head::new();
        let Some(outcome) = read(&mut decoder, &mut head, block) else { return };
        assert!(decoder.kept_bytes() < 32 * 1024);
        if !matches!(outcome, BlockOutcome::Complete { protocol: None, .. }) {
            assert_eq!((head.field_count(), head.target()), (0, &b""[..]));
            continue;
        }
        assert!(head.method() == Method::Connect || Target::parse(head.method(), head.target()).is_ok());
        for (encoder, decoder) in encoders.iter_mut().zip(&mut decoders) {
            let (mut out, mut back) = (Vec::new(), Head::new());
            write_request(&head, head.target(), b"https", encoder, &mut out);
            let outcome = read(decoder, &mut back, &out).expect("what was written can be read");
            assert!(matches!(outcome, BlockOutcome::Complete { .. }), "{outcome:?}");
            assert_eq!((back.method_bytes(), back.target()), (head.method_bytes(), head.target()));
            assert_eq!(listed(&back), listed(&head));
        }
    }
}

fn read(decoder: &mut Decoder, head: &mut Head, block: &[u8]) -> Option<BlockOutcome> {
    let mut intake = HeadBuilder::new(head, Message::Request { extended: false }, Limits::default());
    let decoded = decoder.decode(block, |line| {
        assert_eq!(line.bytes, [line.name(), b": ", line.value(), b"\r\n"].concat());
        assert_eq!(line.verdict, Verdict::for_field(line.name(), line.value()));
        if !matches!(line.verdict, Verdict::Bad(_)) {
            assert!(memchr::memchr3(b'\r', b'\n', 0, line.value()).is_none());
        }
        intake.add(line);
    });
    decoded.ok().map(|()| intake.finish())
}

/// Names and values, with `Host` first as in a block, in any case.
fn listed(head: &Head) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut fields: Vec<_> =
        head.fields().map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec())).collect();
    // An empty one has no meaning and is not written.
    fields.retain(|(name, value)| !(name == b"host" && value.is_empty()));
    fields.sort_by_key(|(name, _)| name != b"host");
    fields
}

/// Any bytes as client input: processed as far as possible, the same for any split, and always within bounds.
pub(crate) fn server(input: &[u8]) {
    // Beyond that, WINDOW_UPDATE depends on when data is consumed, and so on the split of the input.
    if input.len() > 32_000 {
        return;
    }
    let unsplit = serve(input, input.len().max(1));
    for piece in [1, 7, 100] {
        assert_eq!(serve(input, piece), unsplit, "in pieces of {piece}");
    }
}

/// The events as text without body data, the number of body bytes, and the output.
fn serve(input: &[u8], chunk: usize) -> (String, usize, Vec<u8>) {
    let mut server = Server::new(Config { max_streams: 5, ..Config::default() }, 0);
    let (mut head, mut events) = (Head::new(), String::new());
    let (mut body, mut written) = (0, Vec::new());
    let (mut from, mut to) = (0, 0);
    while to < input.len() {
        to = (to + chunk).min(input.len());
        loop {
            let (used, event) = server.receive(0, &input[from..to], &mut head);
            from += used;
            written.extend_from_slice(server.pending());
            server.mark_written(server.pending().len());
            match event {
                Event::NeedMore => break,
                Event::Wait(Wait::Flush) => {}
                Event::Wait(Wait::Release) | Event::Closed(_) => return (events, body, written),
                Event::Data { stream, bytes, end } => {
                    body += bytes.len();
                    if end {
                        events.push_str(&format!("{stream} ends after {body}"));
                    }
                    server.consume(stream, bytes.len() as u32);
                }
                event => events.push_str(&format!("{event:?} {:?}", listed(&head))),
            }
            assert!(server.open_streams() <= 5);
        }
        assert!(to - from <= 9 + 16_384, "a whole frame is never left");
    }
    (events, body, written)
}

/// Any bytes as input of a server that responds, over a socket and a clock that the input controls: the output consists
/// of complete frames, and windows grow by no more than granted.
pub(crate) fn check_responses(input: &[u8]) {
    let mut server = Server::new(Config { max_streams: 5, ..Config::default() }, 0);
    let (mut head, mut answer, mut written) = (Head::new(), Head::new(), Vec::new());
    answer.start_response(200);
    let (body, mut at, mut granted) = (vec![7; 40_000], 0, 0u32);
    for (round, takes) in input.iter().enumerate() {
        let now = round as u64 * 500_000;
        let (used, event) = server.receive(now, &input[at..input.len().min(at + 300)], &mut head);
        at += used;
        match event {
            Event::Head { stream, .. } | Event::HeadTooLarge { stream, .. } => {
                assert!(server.send_head(stream, &answer, false));
                server.queue_for_sending(now, stream);
            }
            Event::Data { stream, bytes, .. } => server.consume(stream, bytes.len() as u32),
            Event::Reset { stream, .. } => server.release(stream),
            _ => {}
        }
        granted += server.wanted_window_bytes();
        server.grant_window(server.wanted_window_bytes());
        if let Some(turn) = server.next_turn(now) {
            assert!(turn.bytes > 0 && turn.bytes <= server.room(turn.stream));
            let write = |slices: &[std::io::IoSlice<'_>]| {
                let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                let count = all.len().min(usize::from(*takes) * 150);
                written.extend_from_slice(&all[..count]);
                count
            };
            let sent = server.send_data_with(turn.stream, &body, takes & 1 == 0, write);
            assert!(sent > 0);
            if sent == body.len() && takes & 1 == 0 {
                server.linger(now, turn.stream);
                server.release(turn.stream);
            }
        }
        let count = server.pending().len().min(usize::from(*takes) * 10);
        written.extend_from_slice(&server.pending()[..count]);
        server.mark_written(count);
        while let Some(Event::Reset { stream, .. }) = server.handle_timeout(now) {
            server.release(stream);
        }
        granted = granted.checked_sub(server.reclaim_window()).expect("only what was granted comes back");
        assert!(server.kept_bytes() < 512 * 1024 && server.open_streams() <= 5);
    }
    written.extend_from_slice(server.pending());
    let mut rest = &written[..];
    while let [high, middle, low, _, _, _, _, _, _, more @ ..] = rest {
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        assert!(length <= 16_384 && length <= more.len(), "whole frames");
        rest = &more[length..];
    }
    assert!(rest.is_empty());
}

/// Any bytes as a server's responses to three requests.
pub(crate) fn client(input: &[u8]) {
    let mut client = Client::new(Config::default(), 0);
    let mut head = Head::new();
    for method in [&b"GET"[..], b"HEAD", b"POST"] {
        head.start_request(method, b"/");
        head.append(b"Host", b"a");
        assert!(client.send_head(&head, b"/", b"https", method != b"POST").is_some());
    }
    let mut at = 0;
    loop {
        let (used, event) = client.receive(0, &input[at..], &mut head);
        at += used;
        client.mark_written(client.pending().len());
        match event {
            Event::NeedMore | Event::Closed(_) => return,
            Event::Head { .. } => assert!((100..=999).contains(&head.status()) && head.status() != 101),
            Event::Data { stream, bytes, .. } => client.consume(stream, bytes.len() as u32),
            Event::Reset { stream, .. } => client.release(stream),
            _ => {}
        }
        assert!(client.open_streams() <= 3);
    }
}
