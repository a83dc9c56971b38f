//! HTTP/2: what of a connection and of a stream can go wrong, and what it is called.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use fairway_lab_measure::results::Class;
use fairway_lab_traffic::call;
use fairway_lab_traffic::load::{Outcome, Pace, Plan, Protocol};

use super::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, Peer, RST_STREAM, SETTINGS, STATUS_200,
    frame, serve,
};
use super::{SHORT, only_error, plan, run};

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

/// What `answer` to a single request on stream 1 is called. The connection ends with `answer`.
async fn class_after(
    answer: impl Fn(&mut Peer<TcpStream>) -> std::io::Result<()> + Send + Sync + 'static,
) -> (Class, String) {
    let address = serve(move |_, stream| {
        let mut peer = Peer::greet(stream)?;
        assert_eq!(peer.until(HEADERS)?.stream, 1);
        answer(&mut peer)
    });
    only_error(&run(http2(address, 1)).await)
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

#[tokio::test]
async fn a_stream_that_is_reset_is_told_by_how_far_its_answer_was() {
    let (class, text) = class_after(|peer| {
        peer.send(RST_STREAM, 0, 1, &REFUSED_STREAM.to_be_bytes()).and_then(|()| wait_for_the_end(peer))
    })
    .await;
    assert_eq!(class, Class::ReadReset);
    assert!(text.contains("refused"), "{text}");
    let (class, text) = class_after(|peer| {
        peer.send(HEADERS, END_HEADERS, 1, STATUS_200)?;
        peer.send(RST_STREAM, 0, 1, &CANCEL.to_be_bytes())?;
        wait_for_the_end(peer)
    })
    .await;
    assert_eq!(class, Class::Truncated, "{text}");
}

#[tokio::test]
async fn a_connection_that_ends_is_told_by_how_far_its_answer_was() {
    let (class, text) = class_after(end).await;
    assert_eq!((class, text.as_str()), (Class::ReadEof, "the end of the stream instead of an answer"));
    let (class, text) = class_after(|peer| {
        peer.send(HEADERS, END_HEADERS, 1, STATUS_200)?;
        peer.send(DATA, 0, 1, b"abc")?;
        end(peer)
    })
    .await;
    assert_eq!(class, Class::Truncated, "{text}");
    let (class, text) = class_after(|peer| {
        let socket = socket2::SockRef::from(&peer.stream);
        // With nothing to wait for, the kernel ends the connection by a reset.
        socket.set_linger(Some(Duration::ZERO))
    })
    .await;
    assert_eq!(class, Class::ReadReset, "{text}");
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_cancelled() {
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
async fn what_is_no_http_2_or_contradicts_itself_is_malformed() {
    let (class, text) = class_after(|peer| {
        peer.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        wait_for_the_end(peer)
    })
    .await;
    assert_eq!(class, Class::Malformed, "{text}");
    // RFC 9113 §8.1.1: a body that is not as long as Content-Length says is malformed, not merely cut.
    let (class, text) = class_after(|peer| {
        // The literal `content-length: 5`, its name being number 28 of the static table.
        peer.send(HEADERS, END_HEADERS, 1, &[0x88, 0x0f, 13, 1, b'5'])?;
        peer.send(DATA, END_STREAM, 1, b"abc")?;
        wait_for_the_end(peer)
    })
    .await;
    assert_eq!(class, Class::Malformed, "{text}");
}

#[tokio::test]
async fn a_server_that_goes_away_in_order_loses_no_request() {
    for pace in [Pace::Closed, Pace::Open { rate: 400.0, poisson: false }] {
        // Each connection answers five requests, says so before the fifth answer, and takes no more.
        let address = serve(|_, stream| {
            let mut peer = Peer::greet(stream)?;
            for number in 0..5 {
                let stream = peer.until(HEADERS)?.stream;
                if number == 4 {
                    peer.go_away(stream, NO_ERROR)?;
                }
                peer.answer(stream)?;
            }
            wait_for_the_end(&mut peer)
        });
        let mut plan = http2(address, 40);
        plan.pace = pace;
        plan.shape.streams = 1;
        let load = run(plan).await.load;
        assert_eq!((load.counts.requests, load.counts.ok), (40, 40), "{:?} {:?}", load.errors, load.examples);
        assert!(load.counts.connections >= 8, "{}", load.counts.connections);
    }
}

#[tokio::test]
async fn a_request_for_which_a_server_takes_no_more_streams_is_due_once_and_sent_on_another_connection() {
    let address = serve(|_, stream| {
        let mut peer = Peer::greet(stream)?;
        let (first, last) = (peer.until(HEADERS)?.stream, peer.until(HEADERS)?.stream);
        peer.go_away(last, NO_ERROR)?;
        peer.answer(first)?;
        // The user of the first stream wants to send again while the last one is still open.
        peer.send(PING, 0, 0, &[0; 8])?;
        peer.until(PING)?;
        peer.answer(last)?;
        wait_for_the_end(&mut peer)
    });
    let mut plan = http2(address, 20);
    plan.pace = Pace::Closed;
    plan.shape.streams = 2;
    let load = run(plan).await.load;
    assert_eq!((load.counts.requests, load.counts.ok), (20, 20), "{:?} {:?}", load.errors, load.examples);
    assert_eq!(load.counts.connections, 10);
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
                    peer.answer(stream)?;
                }
            }
            while peer.until(HEADERS)?.stream < 5 {}
            // In one write, so that no further request can come between.
            let answer = frame(HEADERS, END_HEADERS | END_STREAM, 1, STATUS_200);
            let leave = frame(GOAWAY, 0, 0, &[1_u32.to_be_bytes(), reason.to_be_bytes()].concat());
            peer.stream.write_all(&[answer, leave].concat())?;
            wait_for_the_end(&mut peer)
        });
        let mut plan = http2(address, 12);
        plan.pace = Pace::Closed;
        plan.shape.streams = 3;
        let load = run(plan).await.load;
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
                        peer.answer(stream)?;
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
                    peer.answer(stream)?;
                }
            }
        }
    });
    let mut plan = http2(address, 40);
    plan.pace = Pace::Closed;
    plan.shape.streams = 8;
    let load = run(plan).await.load;
    assert_eq!((load.counts.ok, load.counts.connections), (40, 1), "{:?}", load.errors);
    assert_eq!(seen.try_iter().max(), Some(2));
}

#[tokio::test]
async fn requests_that_time_out_make_room_for_others_on_the_same_connection() {
    // Two streams at a time, of which the first two are never answered.
    let address = serve(|_, stream| {
        let mut peer = Peer::greet(stream)?;
        peer.send(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2])?;
        loop {
            let stream = peer.until(HEADERS)?.stream;
            if stream > 3 {
                peer.answer(stream)?;
            }
        }
    });
    let mut plan = http2(address, 10);
    plan.pace = Pace::Closed;
    plan.shape.streams = 2;
    plan.bounds.timeout = SHORT;
    let load = run(plan).await.load;
    assert_eq!((load.counts.requests, load.counts.ok), (10, 8), "{:?}", load.errors);
    assert_eq!(load.errors.iter().collect::<Vec<_>>(), [(&Class::HeadTimeout, &2)]);
    assert_eq!(load.counts.connections, 1);
}

/// What becomes of a request for which a trailer is expected, when the answer has these.
async fn with_trailers(trailers: Option<&'static [u8]>) -> Outcome {
    let address = serve(move |_, stream| {
        let mut peer = Peer::greet(stream)?;
        peer.until(HEADERS)?;
        peer.send(HEADERS, END_HEADERS, 1, STATUS_200)?;
        match trailers {
            Some(trailers) => {
                peer.send(DATA, 0, 1, b"message")?;
                peer.send(HEADERS, END_HEADERS | END_STREAM, 1, trailers)?;
            }
            None => peer.send(DATA, END_STREAM, 1, b"message")?,
        }
        end(&mut peer)
    });
    let mut plan = http2(address, 1);
    plan.expect.trailer = Some(("grpc-status".to_owned(), "0".to_owned()));
    run(plan).await
}

#[tokio::test]
async fn an_answer_without_the_trailer_that_is_expected_is_no_good_one() {
    // Literals without indexing (RFC 7541 §6.2.2).
    let fine = with_trailers(Some(b"\x00\x0bgrpc-status\x010")).await;
    assert_eq!((fine.load.counts.ok, fine.load.errors.len()), (1, 0));
    for trailers in [Some(&b"\x00\x0bgrpc-status\x0214"[..]), None] {
        let (class, text) = only_error(&with_trailers(trailers).await);
        assert_eq!(class, Class::WrongRoute);
        assert!(text.contains("without grpc-status: 0"), "{text}");
    }
}

#[tokio::test]
async fn a_call_is_good_with_the_right_message_and_status_0_only() {
    let right = call::message(call::RESPONSE);
    let mut other = right.to_vec();
    other[1_000] = b'y';
    let (cut, longer) = (right[..1_000].to_vec(), [&right[..], b"x"].concat());
    for (content, is_good) in [(right.to_vec(), true), (other, false), (cut, false), (longer, false)] {
        let address = serve(move |_, stream| {
            let mut peer = Peer::greet(stream)?;
            peer.until(HEADERS)?;
            let asked = peer.until(DATA)?;
            assert_eq!((asked.payload, asked.flags), (call::message(call::REQUEST).to_vec(), END_STREAM));
            peer.send(HEADERS, END_HEADERS, 1, STATUS_200)?;
            // In two pieces, as a proxy may cut it.
            let (begin, rest) = content.split_at(700);
            peer.send(DATA, 0, 1, begin)?;
            peer.send(DATA, 0, 1, rest)?;
            peer.send(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x0bgrpc-status\x010")?;
            end(&mut peer)
        });
        let mut plan = http2(address, 1);
        plan.call();
        let outcome = run(plan).await;
        if is_good {
            assert_eq!(outcome.load.counts.ok, 1, "{:?}", outcome.load.examples);
        } else {
            let (class, text) = only_error(&outcome);
            assert_eq!(class, Class::WrongRoute);
            assert!(text.contains("other content than expected"), "{text}");
        }
    }
}
