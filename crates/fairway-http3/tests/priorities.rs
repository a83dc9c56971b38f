//! The order of responses (RFC 9218 §10), while QUIC buffers all of them and while its buffer is full.

use fairway_http::Head;
use fairway_http3::{Config, Event};
use quinn_proto::{Dir, StreamId};

use crate::support::serve::response;
use crate::support::{Pair, Setup, hex};

const BODY: usize = 200_000;

/// `HEADERS` with `GET https://a/` and a `priority` field.
fn request(priority: &str) -> Vec<u8> {
    let field = "27 01 70 72 69 6f 72 69 74 79";
    let mut bytes = hex::bytes(&format!("01 00 00 00 d1 d7 c1 50 01 61 {field}"));
    bytes.push(priority.len() as u8);
    bytes.extend_from_slice(priority.as_bytes());
    bytes[1] = bytes.len() as u8 - 2;
    bytes
}

/// A response from its owner's perspective.
struct Sender {
    id: StreamId,
    priority: Option<&'static str>,
    sent: usize,
}

impl Sender {
    fn send(&mut self, pair: &mut Pair) {
        let (server, quic) = pair.both_mut();
        while self.sent < BODY {
            let chunk = vec![b'x'; (BODY - self.sent).min(10_000)];
            let accepted = server.send_data(quic, self.id, &chunk);
            self.sent += accepted;
            if accepted < chunk.len() {
                return;
            }
        }
        server.finish(quic, self.id);
        server.release(quic, self.id);
    }
}

/// Sends what fits, lower streams first, while there are events.
fn serve(pair: &mut Pair, senders: &mut [Sender]) {
    let now = pair.now;
    loop {
        let mut ready = Vec::new();
        let (server, quic) = pair.both_mut();
        while let Some(event) = server.poll(now, quic, &mut Head::new()) {
            let (Event::Head { stream, .. } | Event::Writable { stream }) = event else { continue };
            ready.push(stream);
            if let Event::Head { .. } = event {
                let sender = &senders[stream.index() as usize];
                let fields = sender.priority.map(|priority| ("Priority", priority));
                server.send_head(quic, stream, &response(200, fields.as_slice()), false);
            }
        }
        if ready.is_empty() {
            return;
        }
        senders.iter_mut().filter(|sender| ready.contains(&sender.id)).for_each(|sender| sender.send(pair));
    }
}

/// The streams in the order they ended, each with what all of them had received by then.
fn ends(streams: &[(Option<&str>, Option<&'static str>)], send_window: u64) -> Vec<(usize, Vec<usize>)> {
    let config = Config::default();
    let mut pair = Pair::with(&Setup { config, client_window: 1 << 20, send_window, ..Setup::default() });
    pair.open_control_stream();
    let mut senders = Vec::new();
    for &(asked, priority) in streams {
        let id = pair.open(Dir::Bi);
        pair.write(id, &asked.map_or(hex::bytes("GET"), request));
        pair.finish(id);
        senders.push(Sender { id, priority, sent: 0 });
    }
    let ids: Vec<StreamId> = senders.iter().map(|sender| sender.id).collect();
    let mut ends: Vec<(usize, Vec<usize>)> = Vec::new();
    pair.drive_with(|pair| {
        serve(pair, &mut senders);
        let received: Vec<_> = ids.iter().map(|id| pair.received(*id)).collect();
        let bytes: Vec<usize> = received.iter().map(|seen| seen.bytes.len()).collect();
        for (stream, _) in received.iter().enumerate().filter(|(_, seen)| seen.finished) {
            if ends.iter().all(|(ended, _)| *ended != stream) {
                ends.push((stream, bytes.clone()));
            }
        }
    });
    ends
}

#[test]
fn rfc9218_10_the_most_urgent_are_sent_first_and_non_incremental_ones_completely() {
    let none: (Option<&str>, Option<&'static str>) = (None, None);
    let request_with = |priority: &'static str| (Some(priority), None);
    for (streams, order) in [
        (&[request_with("u=5"), request_with("u=1")][..], &[1, 0][..]),
        (&[request_with("u=4, i"), request_with("u=4"), request_with("u=0, i")], &[2, 1, 0]),
        (&[request_with("u=3"), request_with(""), request_with("u=3")], &[0, 1, 2]),
        (&[request_with("i"), request_with("u=3")], &[1, 0]),
        (&[none, request_with("u=4"), request_with("u=2")], &[2, 0, 1]),
        (&[none, (None, Some("u=2"))], &[1, 0]),
        (&[request_with("u=3"), (Some("u=5"), Some("u=1"))], &[1, 0]),
    ] {
        for send_window in [10 << 20, 32 * 1024] {
            let ends = ends(streams, send_window);
            let in_order: Vec<usize> = ends.iter().map(|(stream, _)| *stream).collect();
            assert_eq!(in_order, order, "{streams:?} in {send_window}");
            for (at, (_, bytes)) in ends.iter().enumerate() {
                let later = order[at + 1..].iter().map(|stream| bytes[*stream]).sum::<usize>();
                assert!(later < BODY / 3, "{streams:?} in {send_window}: {ends:?}");
            }
        }
    }
}

#[test]
fn rfc9218_10_incremental_responses_and_those_without_a_priority_alternate() {
    for streams in [[(Some("i"), None); 3], [(None, None); 3], [(Some("u=6, i"), None); 3]] {
        for send_window in [10 << 20, 32 * 1024] {
            let ends = ends(&streams, send_window);
            assert_eq!(ends.len(), 3, "{streams:?} in {send_window}");
            let bytes = &ends[0].1;
            assert!(bytes.iter().all(|bytes| *bytes > BODY / 2), "{streams:?} in {send_window}: {bytes:?}");
        }
    }
}
