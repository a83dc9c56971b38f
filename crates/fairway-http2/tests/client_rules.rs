//! A client's reactions to invalid frames of a server, one row each, named for the section of RFC 9113 if it has no
//! other name; `rules.rs` has a server's rows.

use fairway_http::Head;
use fairway_http2::frame::{FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FLAG_PADDED, FrameKind};
use fairway_http2::{Client, Code, Config, Event, ResetBy};

use crate::support::*;

/// `:status: 200`.
const OK: &[u8] = &[0x88];

/// A connected client with requests on streams 1 (GET), 3 (POST, incomplete) and 5 (HEAD).
struct PendingRequests {
    client: Client,
    head: Head,
}

fn request(client: &mut Client, method: &[u8], end: bool) -> Option<u32> {
    let mut head = Head::new();
    head.start_request(method, b"/");
    head.append(b"Host", b"a");
    client.send_head(&head, b"/", b"http", end)
}

impl PendingRequests {
    fn new() -> Self {
        let mut requests = PendingRequests { client: Client::new(Config::default(), 0), head: Head::new() };
        let begin = [settings(&[]), frame(FrameKind::Settings, FLAG_ACK, 0, &[])].concat();
        assert_eq!(requests.come(&begin), ["Settings"]);
        for (method, end) in [(&b"GET"[..], true), (b"POST", false), (b"HEAD", true)] {
            assert!(request(&mut requests.client, method, end).is_some());
        }
        requests.sent();
        requests
    }

    /// The events caused by these bytes, in short form.
    fn come(&mut self, bytes: &[u8]) -> Vec<String> {
        let (mut at, mut came) = (0, Vec::new());
        loop {
            let (used, event) = self.client.receive(0, &bytes[at..], &mut self.head);
            at += used;
            came.push(match event {
                Event::NeedMore => return came,
                Event::Closed(fault) => {
                    came.push(format!("closed: {:?}", fault.code));
                    return came;
                }
                Event::Head { stream, end, .. } => format!("{stream}: {}, end {end}", self.head.status()),
                Event::Data { stream, bytes, end } => {
                    let length = bytes.len();
                    self.client.consume(stream, u32::try_from(length).unwrap());
                    format!("{stream}: {length} bytes, end {end}")
                }
                Event::Reset { stream, code, reset_by: ResetBy::Us(_) } => format!("{stream}: {code:?}"),
                event => format!("{event:?}"),
            });
        }
    }

    fn sent(&mut self) -> Vec<Sent> {
        let pending = self.client.pending();
        let bytes = pending.strip_prefix(PREFACE).unwrap_or(pending).to_vec();
        self.client.mark_written(pending.len());
        frames(&bytes)
    }
}

#[track_caller]
fn connection_error(bytes: &[u8], code: Code) {
    let mut requests = PendingRequests::new();
    let events = requests.come(bytes);
    assert_eq!(events.last(), Some(&format!("closed: {code:?}")), "{events:?}");
    assert_eq!(goodbyes(&requests.sent()), [(0, code)]);
}

/// The stream ends with this code, and the others continue.
#[track_caller]
fn stream_error(bytes: &[u8], stream: u32, code: Code) {
    let mut requests = PendingRequests::new();
    let events = requests.come(bytes);
    assert_eq!(events.last(), Some(&format!("{stream}: {code:?}")), "{events:?}");
    let sent = requests.sent();
    assert_eq!((resets(&sent), goodbyes(&sent)), (vec![(stream, code)], vec![]));
    let other = if stream == 1 { 5 } else { 1 };
    assert_eq!(requests.come(&headers(other, true, OK)), [format!("{other}: 200, end true")]);
}

#[test]
fn s3_4_settings_come_first() {
    for first in [
        ping(0),
        headers(1, true, OK),
        frame(FrameKind::Settings, FLAG_ACK, 0, &[]),
        b"HTTP/1.1 400 Bad".to_vec(),
    ] {
        let mut client = Client::new(Config::default(), 0);
        let (_, event) = client.receive(0, &first, &mut Head::new());
        assert!(matches!(event, Event::Closed(fault) if fault.code == Code::Protocol), "{event:?}");
    }
}

#[test]
fn s5_1_frames_on_idle_streams_are_errors() {
    for id in [2, 4, 7, 9] {
        connection_error(&headers(id, true, OK), Code::Protocol);
        connection_error(&data(id, true, b"x"), Code::Protocol);
        connection_error(&window_update(id, 1), Code::Protocol);
        connection_error(&reset(id, 8), Code::Protocol);
    }
}

#[test]
fn s5_1_frames_after_the_end_of_a_response_are_errors() {
    for late in [data(1, true, b"x"), headers(1, true, OK)] {
        stream_error(&[headers(1, true, OK), late.clone()].concat(), 1, Code::StreamClosed);
        let mut requests = PendingRequests::new();
        requests.come(&headers(1, true, OK));
        requests.client.release(1);
        assert_eq!(requests.come(&late), ["closed: StreamClosed"]);
    }
}

#[test]
fn s5_1_frames_behind_our_reset_are_ignored_decoded_and_credited() {
    for release in [false, true] {
        let mut requests = PendingRequests::new();
        requests.client.reset(1, Code::Cancel);
        if release {
            requests.client.release(1);
        }
        let entry = [OK, &[0x40, 1, b'a', 1, b'b']].concat();
        let mut late = headers(1, false, &entry);
        (0..40).for_each(|_| late.extend(data(1, false, &[0; 16_384])));
        assert!(requests.come(&late).is_empty());
        let sent = requests.sent();
        assert_eq!(resets(&sent), [(1, Code::Cancel)], "no RST for what comes late");
        assert_eq!(updates(&sent).iter().map(|(stream, _)| *stream).collect::<Vec<_>>(), [0]);
        assert_eq!(requests.come(&headers(5, true, &[OK, &[0xbe]].concat())), ["5: 200, end true"]);
        assert_eq!(requests.head.named(b"a"), Some(&b"b"[..]), "the field is in the table");
    }
}

#[test]
fn s5_1_2_a_stream_limit_may_be_zero_or_shrink() {
    let mut requests = PendingRequests::new();
    assert_eq!(requests.come(&settings(&[(3, 0)])), ["Settings"]);
    assert!(!requests.client.can_open() && request(&mut requests.client, b"GET", true).is_none());
    assert!(!requests.client.is_going_away(), "it may be raised again");
    for stream in [1, 5] {
        assert_eq!(requests.come(&headers(stream, true, OK)), [format!("{stream}: 200, end true")]);
        requests.client.release(stream);
    }
    assert!(!requests.client.can_open());
    requests.come(&settings(&[(3, 2)]));
    assert_eq!(
        (requests.client.available_streams(), request(&mut requests.client, b"GET", true)),
        (1, Some(7))
    );
}

#[test]
fn s6_1_body_before_the_head() {
    stream_error(&data(1, true, b"x"), 1, Code::Protocol);
}

#[test]
fn s6_5_2_a_server_does_not_enable_push() {
    connection_error(&settings(&[(2, 1)]), Code::Protocol);
    assert_eq!(PendingRequests::new().come(&settings(&[(2, 0)])), ["Settings"]);
}

#[test]
fn s6_6_and_s8_4_pushes_are_refused() {
    let push = [&[0, 0, 0, 2][..], GET].concat();
    connection_error(&frame(FrameKind::PushPromise, FLAG_END_HEADERS, 1, &push), Code::Protocol);
}

#[test]
fn s6_8_requests_in_flight_survive_goaway() {
    let mut requests = PendingRequests::new();
    let away = |last: u8| frame(FrameKind::GoAway, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
    assert_eq!(requests.come(&away(3)), ["GoAway { last_stream: 3, code: NoError }"]);
    assert!(requests.client.is_going_away() && request(&mut requests.client, b"GET", true).is_none());
    assert_eq!(requests.come(&headers(1, true, OK)), ["1: 200, end true"]);
    assert_eq!(requests.client.send_data(3, b"goes on", true), 7);
    requests.come(&away(1));
    assert_eq!(requests.come(&away(3)), ["closed: Protocol"], "it does not rise");
}

#[test]
fn s6_9_increments() {
    stream_error(&window_update(3, 0), 3, Code::Protocol);
    stream_error(&window_update(3, 0x7fff_ffff), 3, Code::FlowControl);
    connection_error(&window_update(0, 0), Code::Protocol);
    connection_error(&window_update(0, 0x7fff_ffff), Code::FlowControl);
}

#[test]
fn s6_9_1_more_than_a_window() {
    let mut requests = PendingRequests::new();
    requests.come(&headers(1, false, OK));
    for _ in 0..4 {
        let bytes = data(1, false, &[0; 16_384]);
        let (_, event) = requests.client.receive(0, &bytes, &mut requests.head);
        assert!(matches!(event, Event::Data { .. }), "{event:?}");
    }
    assert_eq!(requests.come(&data(1, false, b"x")), ["1: FlowControl"]);
}

#[test]
fn s8_1_interim_responses_do_not_end_a_stream() {
    stream_error(&headers(1, true, &literal(":status", "103")), 1, Code::Protocol);
    let interim = headers(1, false, &literal(":status", "103"));
    let events =
        PendingRequests::new().come(&[interim.clone(), interim.clone(), headers(1, true, OK)].concat());
    assert_eq!(events, ["1: 103, end false", "1: 103, end false", "1: 200, end true"]);
    stream_error(&[interim, data(1, true, b"x")].concat(), 1, Code::Protocol);
}

#[test]
fn s8_1_trailers_end_the_response() {
    let begin = headers(1, false, OK);
    stream_error(&[begin.clone(), headers(1, false, &literal("a", "b"))].concat(), 1, Code::Protocol);
    stream_error(&[begin.clone(), headers(1, true, OK)].concat(), 1, Code::Protocol);
    let events = PendingRequests::new().come(&[begin, headers(1, true, &literal("a", "b"))].concat());
    assert_eq!(events, ["1: 200, end false", "Trailers { stream: 1 }"]);
}

#[test]
fn s8_1_1_the_length_is_that_of_the_body_unless_there_is_none() {
    let three = [OK, &literal("content-length", "3")].concat();
    stream_error(&headers(1, true, &three), 1, Code::Protocol);
    stream_error(&[headers(1, false, &three), data(1, true, b"ab")].concat(), 1, Code::Protocol);
    stream_error(&[headers(1, false, &three), data(1, false, b"abcd")].concat(), 1, Code::Protocol);
    let trailers = headers(1, true, &literal("a", "b"));
    stream_error(&[headers(1, false, &three), data(1, false, b"ab"), trailers].concat(), 1, Code::Protocol);
    assert_eq!(
        PendingRequests::new().come(&headers(5, true, &three)),
        ["5: 200, end true"],
        "an answer to HEAD"
    );
    stream_error(&[headers(5, false, &three), data(5, true, b"abc")].concat(), 5, Code::Protocol);
    let not_modified = [&literal(":status", "304")[..], &literal("content-length", "3")].concat();
    assert_eq!(PendingRequests::new().come(&headers(1, true, &not_modified)), ["1: 304, end true"]);
}

#[test]
fn s8_3_2_and_s8_6_malformed_responses_are_stream_errors() {
    for block in [
        vec![],
        literal("a", "b"),
        [OK, OK].concat(),
        [&literal("a", "b")[..], OK].concat(),
        literal(":status", "101"),
        literal(":status", "20"),
        literal(":status", "2000"),
        literal(":status", "+20"),
        [OK, &literal(":path", "/")].concat(),
        [OK, &literal("connection", "close")].concat(),
        [OK, &literal("transfer-encoding", "chunked")].concat(),
        [OK, &literal("A", "b")].concat(),
        [OK, &literal("a", "b\r\nc: d")].concat(),
    ] {
        stream_error(&headers(1, true, &block), 1, Code::Protocol);
    }
}

#[test]
fn s8_1_no_error_is_accepted_after_a_response_and_not_before() {
    let mut requests = PendingRequests::new();
    let events = requests.come(&[headers(3, true, OK), reset(3, 0)].concat());
    assert_eq!(events[0], "3: 200, end true");
    assert!(events[1].starts_with("Reset { stream: 3, code: NoError, reset_by: Peer"), "{events:?}");
    assert_eq!(requests.client.send_data(3, b"not any more", true), 0);
    assert!(requests.come(&reset(1, 7))[0].contains("code: Refused"));
    requests.client.release(3);
    requests.client.release(1);
    assert!(resets(&requests.sent()).is_empty(), "no RST for RST");
}

#[test]
fn rfc9218_7_1_servers_send_no_priorities() {
    connection_error(&frame(FrameKind::PriorityUpdate, 0, 0, &[0, 0, 0, 1, b'u']), Code::Protocol);
}

#[test]
fn s4_1_reserved_bits_are_ignored() {
    let mut requests = PendingRequests::new();
    let update = frame(FrameKind::WindowUpdate, 0, 3, &[0x80, 0, 0, 9]);
    let before = requests.client.room(3);
    assert!(requests.come(&update).is_empty());
    requests.come(&frame(FrameKind::WindowUpdate, 0, 0, &[0x80, 0, 0, 9]));
    assert_eq!(requests.client.room(3), before + 9);
    let away = frame(FrameKind::GoAway, 0, 0, &[0x80, 0, 0, 5, 0, 0, 0, 0]);
    assert_eq!(requests.come(&away), ["GoAway { last_stream: 5, code: NoError }"]);
    let mut response = headers(1, true, OK);
    response[5] |= 0x80;
    assert_eq!(requests.come(&response), ["1: 200, end true"]);
}

#[test]
fn s6_1_padding_is_credited_and_taken_off() {
    let mut requests = PendingRequests::new();
    requests.come(&headers(1, false, OK));
    let padded = frame(FrameKind::Data, FLAG_PADDED, 1, &[&[255, b'a'][..], &[0; 255]].concat());
    let end = frame(FrameKind::Data, FLAG_PADDED | FLAG_END_STREAM, 1, &[3, 0, 0, 0]);
    let events = requests.come(&[padded.repeat(1_000), end].concat());
    assert_eq!((events.len(), &events[1_000]), (1_001, &"1: 0 bytes, end true".to_owned()));
    assert!(updates(&requests.sent()).len() > 2);
}
