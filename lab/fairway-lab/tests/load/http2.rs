//! HTTP/2: failures of connections and streams, and the classes of their errors.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use fairway_lab_measure::results::Class;
use fairway_lab_traffic::call;
use fairway_lab_traffic::load::{Pace, Plan, Protocol};

use super::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, Peer, RST_STREAM, SETTINGS, STATUS_200,
    frame, serve,
};
use super::{SHORT, all_ok, only_error, plan, run};

/// RFC 9113 §7.
const NO_ERROR: u32 = 0;
const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

fn http2(address: SocketAddr, requests: u64) -> Plan {
    let mut plan = plan(address, requests);
    plan.wire.protocol = Protocol::Http2;
    plan
}

/// A closed loop with `streams` streams per connection.
fn closed(address: SocketAddr, requests: u64, streams: usize) -> Plan {
    let mut plan = http2(address, requests);
    (plan.pace, plan.shape.streams) = (Pace::Closed, streams);
    plan
}

/// Ends the connection in order: with bytes that were not read the kernel would reset it.
fn end(peer: &mut Peer<TcpStream>) -> std::io::Result<()> {
    peer.stream.shutdown(Shutdown::Write)?;
    wait_for_the_end(peer)
}

/// Reads until the client is gone.
fn wait_for_the_end(peer: &mut Peer<TcpStream>) -> std::io::Result<()> {
    while peer.stream.read(&mut [0; 512])? > 0 {}
    Ok(())
}

type Talk = fn(&mut Peer<TcpStream>) -> std::io::Result<()>;

/// Says `:status: 200` and then these frames of the first stream.
fn begin_connection(peer: &mut Peer<TcpStream>, frames: &[(u8, u8, &[u8])]) -> std::io::Result<()> {
    peer.send(HEADERS, END_HEADERS, 1, STATUS_200)?;
    frames.iter().try_for_each(|(kind, flags, payload)| peer.send(*kind, *flags, 1, payload))
}

#[tokio::test]
async fn a_truncated_response_is_classified_by_its_progress() {
    let table: [(Talk, Class, &str); 7] = [
        (|peer| peer.send(RST_STREAM, 0, 1, &REFUSED_STREAM.to_be_bytes()), Class::ReadReset, "refused"),
        (|peer| begin_connection(peer, &[(RST_STREAM, 0, &CANCEL.to_be_bytes())]), Class::Truncated, ""),
        (|_| Ok(()), Class::ReadEof, "the end of the stream instead of an answer"),
        (|peer| begin_connection(peer, &[(DATA, 0, b"abc")]), Class::Truncated, ""),
        // With nothing to wait for, the kernel ends the connection by a reset.
        (
            |peer| {
                socket2::SockRef::from(&peer.stream).set_linger(Some(Duration::ZERO))?;
                Err(std::io::ErrorKind::Other.into())
            },
            Class::ReadReset,
            "",
        ),
        (|peer| peer.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Class::Malformed, ""),
        // RFC 9113 §8.1.1: a body that is not as long as Content-Length says is malformed, not merely cut. The length is a
        // literal whose name is number 28 of the static table.
        (
            |peer| {
                peer.send(HEADERS, END_HEADERS, 1, &[0x88, 0x0f, 13, 1, b'5'])?;
                peer.send(DATA, END_STREAM, 1, b"abc")
            },
            Class::Malformed,
            "",
        ),
    ];
    for (place, (talk, class, text)) in table.into_iter().enumerate() {
        let address = serve(move |_, stream| {
            let mut peer = Peer::greet(stream)?;
            assert_eq!(peer.until(HEADERS)?.stream, 1);
            talk(&mut peer)?;
            end(&mut peer)
        });
        let (found, said) = only_error(&run(http2(address, 1)).await);
        assert_eq!(found, class, "{place}: {said}");
        assert!(said.contains(text), "{place}: {said}");
    }
}

#[tokio::test]
async fn a_late_response_is_cancelled() {
    for (head, class) in [(false, Class::HeadTimeout), (true, Class::BodyTimeout)] {
        let (cancelled, cancellations) = mpsc::channel();
        let address = serve(move |_, stream| {
            let mut peer = Peer::greet(stream)?;
            assert_eq!(peer.until(HEADERS)?.stream, 1);
            if head {
                peer.send(HEADERS, END_HEADERS, 1, STATUS_200)?;
            }
            let Frame { stream, payload, .. } = peer.until(RST_STREAM)?;
            cancelled.send((stream, payload)).unwrap();
            Ok(())
        });
        let mut plan = http2(address, 1);
        plan.bounds.timeout = SHORT;
        assert_eq!(only_error(&run(plan).await).0, class);
        assert_eq!(cancellations.recv().unwrap(), (1, CANCEL.to_be_bytes().to_vec()));
    }
}

#[tokio::test]
async fn a_graceful_goaway_loses_no_request() {
    for pace in [Pace::Closed, Pace::Open { rate: 400.0, poisson: false }] {
        // Each connection serves five requests: it sends GOAWAY before the fifth response, and accepts no more.
        let address = serve(|_, stream| {
            let mut peer = Peer::greet(stream)?;
            for number in 0..5 {
                let stream = peer.until(HEADERS)?.stream;
                if number == 4 {
                    peer.go_away(stream, NO_ERROR)?;
                }
                peer.respond(stream)?;
            }
            wait_for_the_end(&mut peer)
        });
        let mut plan = closed(address, 40, 1);
        plan.pace = pace;
        assert!(all_ok(&run(plan).await) >= 8);
    }
}

#[tokio::test]
async fn a_request_for_which_a_server_takes_no_more_streams_is_due_once_and_sent_on_another_connection() {
    let address = serve(|_, stream| {
        let mut peer = Peer::greet(stream)?;
        let (first, last) = (peer.until(HEADERS)?.stream, peer.until(HEADERS)?.stream);
        peer.go_away(last, NO_ERROR)?;
        peer.respond(first)?;
        // The user of the first stream wants to send again while the last one is still open.
        peer.send(PING, 0, 0, &[0; 8])?;
        peer.until(PING)?;
        peer.respond(last)?;
        wait_for_the_end(&mut peer)
    });
    assert_eq!(all_ok(&run(closed(address, 20, 2)).await), 10);
}

#[tokio::test]
async fn streams_that_a_server_leaves_behind_are_resets_with_its_reason() {
    for reason in [NO_ERROR, ENHANCE_YOUR_CALM] {
        // Of the first three streams only the first is worked on.
        let address = serve(move |number, stream| {
            let mut peer = Peer::greet(stream)?;
            if number > 0 {
                loop {
                    let stream = peer.until(HEADERS)?.stream;
                    peer.respond(stream)?;
                }
            }
            while peer.until(HEADERS)?.stream < 5 {}
            // In one write, so that no other request can come in between.
            let response = frame(HEADERS, END_HEADERS | END_STREAM, 1, STATUS_200);
            let leave = frame(GOAWAY, 0, 0, &[1_u32.to_be_bytes(), reason.to_be_bytes()].concat());
            peer.stream.write_all(&[response, leave].concat())?;
            wait_for_the_end(&mut peer)
        });
        let load = run(closed(address, 12, 3)).await.load;
        assert_eq!((load.counts.requests, load.counts.ok), (12, 10), "{:?}", load.errors);
        assert_eq!(load.errors.iter().collect::<Vec<_>>(), [(&Class::ReadReset, &2)], "{:?}", load.examples);
        assert_eq!(load.counts.connections, 2);
    }
}

#[tokio::test]
async fn a_server_that_takes_few_streams_is_given_no_more() {
    let (most, seen) = mpsc::channel();
    let address = serve(move |_, stream| {
        let mut peer = Peer::greet(stream)?;
        // SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 §6.5.2).
        peer.send(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2])?;
        let mut is_agreed = false;
        let mut open = Vec::new();
        loop {
            let frame = peer.read()?;
            match frame.kind {
                // The first agrees to the empty settings.
                SETTINGS if frame.flags == 1 && !is_agreed => is_agreed = true,
                SETTINGS if frame.flags == 1 => {
                    for stream in open.drain(..) {
                        peer.respond(stream)?;
                    }
                    break;
                }
                HEADERS => open.push(frame.stream),
                _ => {}
            }
        }
        loop {
            open.push(peer.until(HEADERS)?.stream);
            most.send(open.len()).unwrap();
            if open.len() == 2 {
                for stream in open.drain(..) {
                    peer.respond(stream)?;
                }
            }
        }
    });
    assert_eq!(all_ok(&run(closed(address, 40, 8)).await), 1);
    assert_eq!(seen.try_iter().max(), Some(2));
}

#[tokio::test]
async fn timed_out_requests_make_room_for_others_on_the_same_connection() {
    // Two concurrent streams; the first two get no response.
    let address = serve(|_, stream| {
        let mut peer = Peer::greet(stream)?;
        peer.send(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2])?;
        loop {
            let stream = peer.until(HEADERS)?.stream;
            if stream > 3 {
                peer.respond(stream)?;
            }
        }
    });
    let mut plan = closed(address, 10, 2);
    plan.bounds.timeout = SHORT;
    let load = run(plan).await.load;
    assert_eq!((load.counts.requests, load.counts.ok), (10, 8), "{:?}", load.errors);
    assert_eq!(load.errors.iter().collect::<Vec<_>>(), [(&Class::HeadTimeout, &2)]);
    assert_eq!(load.counts.connections, 1);
}

#[tokio::test]
async fn a_call_is_good_with_the_right_message_and_status_0_only() {
    let right = call::message(call::RESPONSE);
    let mut other = right.to_vec();
    other[1_000] = b'y';
    let (cut, longer) = (right[..1_000].to_vec(), [&right[..], b"x"].concat());
    // Literals without indexing (RFC 7541 §6.2.2).
    let (fine, failed): (&[u8], &[u8]) = (b"\x00\x0bgrpc-status\x010", b"\x00\x0bgrpc-status\x0214");
    for (content, trailers, wrong) in [
        (right.to_vec(), Some(fine), None),
        (right.to_vec(), Some(failed), Some("without grpc-status: 0")),
        (right.to_vec(), None, Some("without grpc-status: 0")),
        (other, Some(fine), Some("other content than expected")),
        (cut, Some(fine), Some("other content than expected")),
        (longer, Some(fine), Some("other content than expected")),
    ] {
        let address = serve(move |_, stream| {
            let mut peer = Peer::greet(stream)?;
            peer.until(HEADERS)?;
            let frames = peer.until(DATA)?;
            assert_eq!((frames.payload, frames.flags), (call::message(call::REQUEST).to_vec(), END_STREAM));
            // In two pieces, as from a proxy.
            let (first, rest) = content.split_at(700);
            let ends = if trailers.is_none() { END_STREAM } else { 0 };
            begin_connection(&mut peer, &[(DATA, 0, first), (DATA, ends, rest)])?;
            if let Some(trailers) = trailers {
                peer.send(HEADERS, END_HEADERS | END_STREAM, 1, trailers)?;
            }
            end(&mut peer)
        });
        let mut plan = http2(address, 1);
        plan.call();
        let outcome = run(plan).await;
        match wrong {
            None => _ = all_ok(&outcome),
            Some(text) => {
                let (class, said) = only_error(&outcome);
                assert_eq!(class, Class::WrongRoute);
                assert!(said.contains(text), "{said}");
            }
        }
    }
}
