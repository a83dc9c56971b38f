//! HTTP/3 allocates nothing per request beyond what QUIC does: compared with an owner of the connection that transfers
//! the same bytes without HTTP/3. The allocator counts the whole process, so this binary has one test.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]
#![allow(clippy::print_stdout, reason = "the counts are useful even if the test passes")]

#[allow(dead_code, reason = "the other tests need the rest")]
mod support;

use std::alloc::System;

use fairway_http::Head;
use fairway_http3::{Config, Event};
use quinn_proto::{Dir, StreamId};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use support::serve::response;
use support::{Pair, hex};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WARM: u32 = 200;
const COUNT: u32 = 2_000;

const BODY: [u8; 1024] = [b'x'; 1024];

/// Allocations of `serve` per request on a warm connection.
fn per_request(mut serve: impl FnMut(&mut Pair)) -> f64 {
    let mut pair = Pair::new(Config::default());
    pair.open_control_stream();
    let mut counted = 0;
    for number in 0..WARM + COUNT {
        let mut allocations = 0;
        let id = pair.request(&hex::bytes("GET"));
        pair.drive_with(|pair| {
            let region = Region::new(&INSTRUMENTED_SYSTEM);
            serve(pair);
            let change = region.change();
            allocations += change.allocations + change.reallocations;
        });
        assert!(pair.received(id).finished && pair.received(id).bytes.len() > BODY.len());
        if number >= WARM {
            counted += allocations;
        }
    }
    counted as f64 / f64::from(COUNT)
}

/// Transfers the bytes of an HTTP/3 response.
fn serve_raw(pair: &mut Pair, head: &[u8], data: &[u8]) {
    let (_, quic) = pair.both_mut();
    loop {
        while let Some(id) = quic.streams().accept(Dir::Bi) {
            let mut stream = quic.recv_stream(id);
            let mut chunks = stream.read(true).unwrap();
            while chunks.next(2 * 1024).unwrap().is_some() {}
            let _ = chunks.finalize();
            for bytes in [head, data] {
                assert_eq!(quic.send_stream(id).write(bytes).unwrap(), bytes.len());
            }
            quic.send_stream(id).finish().unwrap();
        }
        if quic.poll().is_none() {
            return;
        }
    }
}

fn serve_http3(pair: &mut Pair, head: &mut Head, response: &Head) {
    let now = pair.now;
    let (server, quic) = pair.both_mut();
    while let Some(event) = server.poll(now, quic, head) {
        let Event::Head { stream, end: true, .. } = event else { panic!("{event:?}") };
        server.send_head(quic, stream, response, false);
        assert_eq!(server.send_data(quic, stream, &BODY), BODY.len());
        server.finish(quic, stream);
        server.release(quic, stream);
    }
}

#[test]
fn a_request_on_a_warm_connection_allocates_only_what_quic_needs() {
    let response = response(
        200,
        &[("Server", "x"), ("Content-Type", "text/plain"), ("X-Other", "y"), ("Content-Length", "1024")],
    );
    let mut frames = Vec::new();
    let mut head = Head::new();
    let with_http3 = per_request(|pair| serve_http3(pair, &mut head, &response));
    let mut pair = Pair::new(Config::default());
    let id: StreamId = pair.request(&hex::bytes("GET"));
    pair.drive_with(|pair| serve_http3(pair, &mut head, &response));
    frames.extend_from_slice(&pair.received(id).bytes);
    let (head, data) = frames.split_at(frames.len() - BODY.len() - 3);
    let without = per_request(|pair| serve_raw(pair, head, data));
    println!("{with_http3:.3} allocations per request, {without:.3} of them for QUIC");
    assert!(with_http3 < without + 0.01, "{with_http3} allocations per request, {without} without HTTP/3");
}
