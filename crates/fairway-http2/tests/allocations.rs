//! Counts allocations: none per request once buffers have grown. The allocator counts the whole process, so this binary
//! has one test.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

use std::alloc::System;

use fairway_http::Head;
use fairway_http2::hpack::StringCoding;
use fairway_http2::{Config, Event, Server};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use support::{PREFACE, data, headers, literal, settings};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WARM: u32 = 200;
const COUNT: u32 = 5_000;

/// A request as a browser sends it: literals that enter the table, indexed fields, Huffman, crumbs.
fn block() -> Vec<u8> {
    let huffman = [0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
    let indexed = [&[0x40, 3][..], b"x-a", &[3], b"b-c"].concat();
    let crumbs = [&[0x60, 3][..], b"a=1", &[0x60, 3], b"b=2"].concat();
    [&[0x83, 0x87, 0x84][..], &huffman, &indexed, &[0xbe], &literal("user-agent", "test"), &crumbs].concat()
}

/// One request with a body and its response with one. Returns the number of bytes written.
fn exchange(server: &mut Server, head: &mut Head, response: &Head, input: &[u8]) -> usize {
    let (mut at, mut ended) = (0, None);
    loop {
        let (used, event) = server.receive(0, &input[at..], head);
        at += used;
        match event {
            Event::NeedMore => break,
            Event::Head { end: false, .. } => assert_eq!(head.field_count(), 5),
            Event::Data { stream, bytes, end } => {
                server.consume(stream, u32::try_from(bytes.len()).unwrap());
                ended = end.then_some(stream);
            }
            event => panic!("{event:?}"),
        }
    }
    let stream = ended.expect("the request is whole");
    assert!(server.send_head(stream, response, false));
    server.queue_for_sending(0, stream);
    let turn = server.next_turn(0).expect("its window is open");
    assert_eq!((turn.stream, server.send_data(stream, b"0123456789", true)), (stream, 10));
    server.release(stream);
    let written = server.pending().len();
    server.mark_written(written);
    written
}

#[test]
fn requests_on_a_warm_connection_allocate_nothing() {
    let mut response = Head::new();
    response.start_response(200);
    for (name, value) in
        [("Server", "x"), ("Content-Type", "text/plain"), ("X-Other", "y"), ("Content-Length", "10")]
    {
        response.append(name.as_bytes(), value.as_bytes());
    }
    // The client sends no WINDOW_UPDATE: at ten bytes a request, this window outlasts the test.
    let begin = [PREFACE, &settings(&[]), &support::window_update(0, 1 << 20)].concat();
    let requests: Vec<Vec<u8>> = (0..WARM + COUNT)
        .map(|number| {
            let id = number * 2 + 1;
            [headers(id, false, &block()), data(id, true, b"a body")].concat()
        })
        .collect();
    for (encoder_table, strings) in [(0, StringCoding::Plain), (4096, StringCoding::Huffman)] {
        let mut server = Server::new(
            Config { encoder_table_bytes: encoder_table, string_coding: strings, ..Config::default() },
            0,
        );
        let mut head = Head::new();
        assert!(matches!(server.receive(0, &begin, &mut head), (_, Event::NeedMore)));
        let (warm, counted) = requests.split_at(WARM as usize);
        for request in warm {
            exchange(&mut server, &mut head, &response, request);
        }
        let region = Region::new(&INSTRUMENTED_SYSTEM);
        for request in counted {
            assert!(exchange(&mut server, &mut head, &response, request) > 20);
        }
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0), "table of {encoder_table}");
    }
}
