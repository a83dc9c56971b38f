//! Complete exchanges: bodies within windows, responses, resets, release, and both ends of this crate connected.

use fairway_http::{Head, Known};
use fairway_http2::frame::{FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind};
use fairway_http2::{Client, Code, Config, Event, ResetBy, Server, Wait};

use crate::support::*;

#[test]
fn a_response_is_head_body_and_trailers() {
    let mut peer = Peer::new();
    peer.get(1);
    let mut interim = Head::new();
    interim.start_response(103);
    assert!(peer.server.send_head(1, &interim, false));
    assert!(peer.server.send_head(1, &ok(), false));
    assert!(!peer.server.send_head(1, &ok(), false), "only once");
    assert_eq!(peer.server.send_data(1, b"abc", false), 3);
    assert!(peer.server.send_trailers(1, [(&b"a"[..], &b"b"[..])].into_iter()));
    assert_eq!(peer.server.send_data(1, b"abc", true), 0, "it has ended");
    let kinds: Vec<_> = peer.sent().iter().map(|frame| (frame.kind, frame.flags)).collect();
    let head = (FrameKind::Headers, FLAG_END_HEADERS);
    assert_eq!(
        kinds,
        [head, head, (FrameKind::Data, 0), (FrameKind::Headers, FLAG_END_HEADERS | FLAG_END_STREAM)]
    );
    peer.server.release(1);
    assert_eq!((peer.sent(), peer.server.open_streams()), (vec![], 0));
}

#[test]
fn a_head_longer_than_a_frame_is_continued() {
    let mut peer = Peer::new();
    peer.get(1);
    let mut head = ok();
    for _ in 0..40 {
        head.append(b"x", &[b'a'; 1000]);
    }
    assert!(peer.server.send_head(1, &head, true));
    let sent = peer.sent();
    let shape: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.flags, frame.payload.len())).collect();
    assert_eq!(
        shape[..2],
        [(FrameKind::Headers, FLAG_END_STREAM, 16_384), (FrameKind::Continuation, 0, 16_384)]
    );
    assert!(matches!(shape[2..], [(FrameKind::Continuation, FLAG_END_HEADERS, 1..=16_384)]));
}

#[test]
fn rfc9113_6_9_bodies_stay_within_both_windows() {
    let mut peer = Peer::new();
    peer.get(1);
    peer.get(3);
    for stream in [1, 3] {
        peer.server.send_head(stream, &ok(), false);
    }
    assert_eq!(peer.server.room(1), 65_535);
    assert_eq!(peer.server.send_data(1, &[0; 100_000], true), 65_535);
    assert_eq!((peer.server.room(1), peer.server.room(3)), (0, 0), "the connection's window is used up");
    let lengths: Vec<_> =
        peer.sent().iter().map(|frame| frame.payload.len()).filter(|len| *len > 9).collect();
    assert_eq!(lengths, [16_375, 16_375, 16_375, 16_375, 35]);
    let events = peer.send(&window_update(0, 10));
    assert_eq!(events, [ReceivedEvent::Other("Writable { stream: 0 }".into())]);
    assert_eq!((peer.server.room(1), peer.server.room(3)), (0, 10));
    assert_eq!(peer.send(&window_update(1, 4)), [ReceivedEvent::Other("Writable { stream: 1 }".into())]);
    assert_eq!(peer.server.send_data(1, &[0; 10], true), 4);
    assert_eq!(peer.server.room(3), 6);
}

#[test]
fn rfc9113_6_9_1_an_empty_end_needs_no_window() {
    let mut peer = Peer::new();
    peer.send(&settings(&[(4, 0)]));
    peer.get(1);
    peer.server.send_head(1, &ok(), false);
    assert_eq!(peer.server.room(1), 0);
    peer.sent();
    peer.server.send_data(1, b"", true);
    assert!(
        matches!(&peer.sent()[..], [frame] if frame.kind == FrameKind::Data && frame.flags == FLAG_END_STREAM)
    );
}

#[test]
fn rfc9113_6_9_2_a_smaller_window_can_be_negative() {
    let mut peer = Peer::new();
    peer.get(1);
    peer.server.send_head(1, &ok(), false);
    assert_eq!(peer.server.send_data(1, &[0; 1000], false), 1000);
    assert_eq!(peer.send(&settings(&[(4, 500)])), []);
    assert_eq!(peer.server.room(1), 0);
    assert_eq!(peer.send(&window_update(1, 500)), [], "still closed");
    assert_eq!(peer.send(&window_update(1, 1)), [ReceivedEvent::Other("Writable { stream: 1 }".into())]);
    assert_eq!(peer.server.room(1), 1);
    assert_eq!(peer.send(&settings(&[(4, 65_535)])), []);
}

#[test]
fn a_full_outbox_takes_no_body_but_heads() {
    let mut peer = Peer::new();
    peer.send(&[settings(&[(4, 1 << 30)]), window_update(0, 1 << 30)].concat());
    peer.get(1);
    peer.get(3);
    peer.server.send_head(1, &ok(), false);
    let body = vec![0; 1 << 20];
    let sent = peer.server.send_data(1, &body, true);
    assert!(sent <= 128 * 1024 && sent > 120 * 1024, "{sent}");
    assert_eq!((peer.server.room(1), peer.server.room(3)), (0, 0));
    assert!(peer.server.send_head(3, &ok(), true));
    peer.sent();
    assert!(peer.server.room(1) > 100_000);
}

#[test]
fn credit_follows_consumption_and_padding_is_credited_at_once() {
    let mut peer = Peer::new();
    peer.post(1);
    for _ in 0..2 {
        peer.send(&data(1, false, &[0; 16_384]));
    }
    assert_eq!(updates(&peer.sent()), []);
    peer.server.consume(1, 32_767);
    assert_eq!(updates(&peer.sent()), [], "not yet half");
    peer.server.consume(1, 1);
    assert_eq!(updates(&peer.sent()), [(1, 32_768)]);
    peer.server.consume(1, 9_999);
    for _ in 0..128 {
        peer.send(&frame(FrameKind::Data, 8, 1, &[&[255, b'a'][..], &[0; 255]].concat()));
        peer.server.consume(1, 1);
    }
    assert_eq!(updates(&peer.sent()), [(1, 32_895)], "nothing was consumed twice");
}

#[test]
fn unread_bytes_of_a_stream_that_ends_go_back_to_the_connection() {
    let small = Config { connection_window: 65_535, ..Config::default() };
    for how in ["reset by us", "reset by the peer", "released", "fault"] {
        let mut peer = Peer::with(small);
        for stream in [1, 3, 5, 7, 9, 11] {
            peer.post(stream);
            peer.send(&data(stream, false, &[0; 16_384]));
            peer.send(&data(stream, false, &[0; 16_384]));
            match how {
                "reset by us" => peer.server.reset(stream, Code::Cancel),
                "reset by the peer" => drop(peer.send(&reset(stream, 8))),
                "fault" => drop(peer.send(&window_update(stream, 0))),
                _ => {}
            }
            peer.server.consume(stream, 7);
            peer.server.release(stream);
            let returned: u32 = updates(&peer.sent()).iter().map(|(_, increment)| increment).sum();
            assert_eq!(returned, 32_768, "{how}");
        }
    }
}

#[test]
fn a_stream_released_within_a_frame_costs_no_window() {
    let mut peer = Peer::with(Config { connection_window: 65_535, ..Config::default() });
    for stream in [1, 3, 5, 7, 9, 11] {
        peer.post(stream);
        let body = data(stream, false, &[0; 16_384]);
        let events = peer.send(&body[..5000]);
        assert!(matches!(&events[..], [ReceivedEvent::Data { bytes, .. }] if bytes.len() == 4991));
        peer.server.release(stream);
        assert_eq!(peer.send(&body[5000..]), []);
        assert_eq!(resets(&peer.sent()), [(stream, Code::Cancel)]);
    }
}

#[test]
fn release_resets_an_unfinished_stream() {
    let mut peer = Peer::new();
    peer.get(1);
    peer.server.release(1);
    assert_eq!(resets(&peer.sent()), [(1, Code::Cancel)]);
    peer.post(3);
    peer.server.send_head(3, &ok(), true);
    peer.server.release(3);
    assert_eq!(resets(&peer.sent()), [(3, Code::NoError)], "RFC 9113 §8.1: the answer is complete");
    peer.get(5);
    peer.respond(5);
    assert_eq!(resets(&peer.sent()), []);
}

#[test]
fn control_replies_that_are_not_read_stop_reading() {
    let mut peer = Peer::new();
    let events = peer.send(&ping(0).repeat(100));
    assert_eq!(events, [ReceivedEvent::Other("Flush".into())]);
    assert_eq!(peer.sent().len(), 64);
    assert_eq!(peer.send(&[]), []);
    assert_eq!(peer.sent().len(), 36);
}

#[test]
fn control_replies_that_were_written_do_not_count_while_a_body_waits() {
    let mut peer = Peer::new();
    peer.send(&[settings(&[(4, 1 << 30)]), window_update(0, 1 << 30)].concat());
    peer.get(1);
    assert!(peer.server.send_head(1, &ok(), false));
    for _ in 0..200 {
        assert_eq!(peer.send(&ping(0)), []);
        let replied = peer.server.pending().len();
        assert_eq!(peer.server.send_data(1, &[0; 1000], false), 1000);
        peer.server.mark_written(replied);
        assert!(!peer.server.pending().is_empty(), "the outbox is never empty");
    }
}

#[test]
fn heads_that_are_not_read_stop_reading_before_the_next_stream() {
    let head: &[u8] = &[0x02, 4, b'H', b'E', b'A', b'D', 0x86, 0x84, 0x01, 0x01, b'a'];
    let input: Vec<u8> = (0..5_000).flat_map(|number| headers(number * 2 + 1, true, head)).collect();
    let mut response = ok();
    response.append(b"x", &[b'a'; 4096]);
    let mut peer = Peer::new();
    let (mut at, mut answered, mut flushes) = (0, 0, 0);
    loop {
        let (used, event) = peer.server.receive(0, &input[at..], &mut peer.head);
        at += used;
        match event {
            Event::Head { stream, end: true, .. } => {
                assert!(peer.server.send_head(stream, &response, true));
                peer.server.release(stream);
                answered += 1;
            }
            Event::Wait(Wait::Flush) => {
                let waiting = peer.server.pending().len();
                assert!(waiting > 224 * 1024 && peer.server.must_flush(), "{waiting} bytes wait");
                peer.server.mark_written(8 * 1024);
                assert!(!peer.server.must_flush());
                peer.server.mark_written(waiting - 8 * 1024);
                flushes += 1;
            }
            Event::NeedMore => break,
            event => panic!("{event:?}"),
        }
        assert!(peer.server.kept_bytes() < 512 * 1024, "{} bytes are kept", peer.server.kept_bytes());
    }
    assert_eq!((at, answered), (input.len(), 5_000));
    assert!(flushes > 50, "{flushes}");
}

/// Two ends and the data in transit.
struct Pair {
    client: Client,
    server: Server,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    head: Head,
}

impl Pair {
    fn new(client: Config) -> Self {
        let (client, server) = (Client::new(client, 0), Server::new(Config::default(), 0));
        let mut pair =
            Pair { client, server, to_server: Vec::new(), to_client: Vec::new(), head: Head::new() };
        for _ in 0..3 {
            pair.at_server(|event, _| panic!("{event:?}"));
            pair.at_client(|event, _| assert!(matches!(event, Event::Settings)));
        }
        pair
    }

    fn at_server(&mut self, mut take: impl FnMut(Event<'_>, &Head)) {
        self.to_server.extend_from_slice(self.client.pending());
        self.client.mark_written(self.client.pending().len());
        loop {
            let (used, event) = self.server.receive(0, &self.to_server, &mut self.head);
            if matches!(event, Event::NeedMore | Event::Wait(_)) {
                self.to_server.drain(..used);
                return;
            }
            take(event, &self.head);
            self.to_server.drain(..used);
        }
    }

    fn at_client(&mut self, mut take: impl FnMut(Event<'_>, &Head)) {
        self.to_client.extend_from_slice(self.server.pending());
        self.server.mark_written(self.server.pending().len());
        loop {
            let (used, event) = self.client.receive(0, &self.to_client, &mut self.head);
            if matches!(event, Event::NeedMore | Event::Wait(_)) {
                self.to_client.drain(..used);
                return;
            }
            take(event, &self.head);
            self.to_client.drain(..used);
        }
    }

    fn send_request(&mut self, method: &[u8], end: bool) -> u32 {
        let mut head = Head::new();
        head.start_request(method, b"/x?y");
        head.append(b"Host", b"a.example");
        head.append(b"X-Name", b"value");
        self.client.send_head(&head, head.target(), b"https", end).expect("the server takes streams")
    }
}

#[test]
fn client_and_server_understand_each_other() {
    for strings in [fairway_http2::hpack::StringCoding::Plain, fairway_http2::hpack::StringCoding::Huffman] {
        let mut pair =
            Pair::new(Config { encoder_table_bytes: 4096, string_coding: strings, ..Config::default() });
        for round in 0..5 {
            let id = pair.send_request(b"POST", false);
            assert_eq!(id, 1 + 2 * round);
            assert_eq!(pair.client.send_data(id, b"body", true), 4);
            let mut events = Vec::new();
            pair.at_server(|event, head| match event {
                Event::Head { stream, end, .. } => {
                    assert_eq!((stream, end, head.target()), (id, false, &b"/x?y"[..]));
                    assert_eq!(head.first(Known::Host), Some(&b"a.example"[..]));
                    assert_eq!(head.named(b"x-name"), Some(&b"value"[..]));
                }
                Event::Data { bytes, end, .. } => events.push((bytes.to_vec(), end)),
                event => panic!("{event:?}"),
            });
            assert_eq!(events, [(b"body".to_vec(), true)]);
            let mut response = ok();
            response.append(b"Content-Length", b"5");
            assert!(pair.server.send_head(id, &response, false));
            assert_eq!(pair.server.send_data(id, b"hello", true), 5);
            pair.server.release(id);
            let mut got = Vec::new();
            pair.at_client(|event, head| match event {
                Event::Head { length, .. } => assert_eq!((head.status(), length), (200, Some(5))),
                Event::Data { bytes, end, .. } => got.push((bytes.to_vec(), end)),
                event => panic!("{event:?}"),
            });
            assert_eq!(got, [(b"hello".to_vec(), true)]);
            pair.client.release(id);
            assert_eq!((pair.client.open_streams(), pair.server.open_streams()), (0, 0));
        }
    }
}

#[test]
fn a_response_to_head_may_have_a_length_and_has_no_body() {
    let mut pair = Pair::new(Config::default());
    let id = pair.send_request(b"HEAD", true);
    pair.at_server(|event, _| assert!(matches!(event, Event::Head { end: true, .. })));
    let mut response = ok();
    response.append(b"Content-Length", b"5");
    pair.server.send_head(id, &response, true);
    pair.at_client(|event, _| assert!(matches!(event, Event::Head { end: true, .. }), "{event:?}"));
    let other = pair.send_request(b"GET", true);
    pair.at_server(|event, _| assert!(matches!(event, Event::Head { .. })));
    pair.server.send_head(other, &response, true);
    pair.at_client(|event, _| {
        let reset_by = ResetBy::Us("length_disagrees");
        assert_eq!(event, Event::Reset { stream: other, code: Code::Protocol, reset_by });
    });
}

#[test]
fn interim_responses_precede_the_final_one() {
    let mut pair = Pair::new(Config::default());
    let id = pair.send_request(b"GET", true);
    pair.at_server(|event, _| assert!(matches!(event, Event::Head { .. })));
    let mut interim = Head::new();
    interim.start_response(100);
    for head in [&interim, &interim, &ok()] {
        pair.server.send_head(id, head, head.status() == 200);
    }
    let mut events = Vec::new();
    pair.at_client(|event, head| match event {
        Event::Head { end, .. } => events.push((head.status(), end)),
        event => panic!("{event:?}"),
    });
    assert_eq!(events, [(100, false), (100, false), (200, true)]);
}

#[test]
fn too_many_interim_responses_are_refused() {
    let mut pair = Pair::new(Config::default());
    let id = pair.send_request(b"GET", true);
    pair.at_server(|event, _| assert!(matches!(event, Event::Head { .. })));
    let mut interim = Head::new();
    interim.start_response(102);
    for _ in 0..9 {
        assert!(pair.server.send_head(id, &interim, false));
    }
    let mut events = Vec::new();
    pair.at_client(|event, _| events.push(matches!(event, Event::Reset { code: Code::Cancel, .. })));
    assert_eq!(events, [&[false; 8][..], &[true]].concat());
}

#[test]
fn rfc9113_8_1_no_error_after_a_response_keeps_it() {
    let mut pair = Pair::new(Config::default());
    let id = pair.send_request(b"POST", false);
    pair.at_server(|event, _| assert!(matches!(event, Event::Head { .. })));
    pair.server.send_head(id, &ok(), true);
    pair.server.release(id);
    let mut events = Vec::new();
    pair.at_client(|event, _| {
        events.push(match event {
            Event::Head { end: true, .. } => "answer",
            Event::Reset { code: Code::NoError, reset_by: ResetBy::Peer, .. } => "reset",
            event => panic!("{event:?}"),
        });
    });
    assert_eq!(events, ["answer", "reset"]);
}

#[test]
fn a_client_opens_only_as_many_streams_as_the_server_allows() {
    let mut pair = Pair::new(Config { max_streams: 3, ..Config::default() });
    for _ in 0..3 {
        assert!(pair.client.can_open());
        pair.send_request(b"GET", true);
    }
    assert!(!pair.client.can_open(), "our own limit");
    pair.client.release(1);
    assert!(pair.client.can_open());
    pair.at_server(|_, _| {});
    pair.server.go_away(0);
    pair.at_client(|event, _| assert!(matches!(event, Event::GoAway { last_stream: 0x7fff_ffff, .. })));
    pair.at_server(|event, _| panic!("{event:?}"));
    assert_eq!(pair.server.handle_timeout(250_000), None);
    let mut last = None;
    pair.at_client(|event, _| {
        if let Event::GoAway { last_stream: id, .. } = event {
            last = Some(id);
        }
    });
    assert_eq!(last, Some(5));
    assert!(!pair.client.can_open());
}
