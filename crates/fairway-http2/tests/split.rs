//! Any split of the input has the same effect, and no input does worse than end the connection.

use fairway_http2::Config;
use fairway_http2::frame::{FLAG_END_HEADERS, FLAG_END_STREAM, FLAG_PADDED, FrameKind};
use proptest::prelude::*;

use crate::support::*;

/// Sends bytes in parts, responds to every complete request, and returns the events and the output.
fn run(bytes: &[u8], cuts: &[usize]) -> (Vec<ReceivedEvent>, Vec<u8>) {
    let mut peer = Peer::raw(Config { max_streams: 6, ..Config::default() });
    let (mut at, mut seen, mut written) = (0, Vec::new(), Vec::new());
    for cut in cuts.iter().map(|cut| cut % 700 + 1).chain([bytes.len()]) {
        let end = (at + cut).min(bytes.len());
        let mut last = peer.send(&bytes[at..end]);
        last.retain(
            |seen| !matches!(seen, ReceivedEvent::Other(text) if text == "Release" || text == "Flush"),
        );
        for new in last {
            join(&mut seen, new);
        }
        written.extend_from_slice(peer.server.pending());
        peer.server.mark_written(peer.server.pending().len());
        at = end;
    }
    (seen, written)
}

/// Joins the parts of bodies.
fn join(events: &mut Vec<ReceivedEvent>, new: ReceivedEvent) {
    if let (
        Some(ReceivedEvent::Data { stream, bytes, end }),
        ReceivedEvent::Data { stream: same, bytes: more, end: now },
    ) = (events.last_mut(), &new)
        && stream == same
        && !*end
    {
        bytes.extend_from_slice(more);
        *end = *now;
        return;
    }
    if matches!(&new, ReceivedEvent::Other(text) if text.starts_with("Closed")) && events.last() == Some(&new)
    {
        return;
    }
    events.push(new);
}

fn some_block() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        5 => Just(GET.to_vec()),
        2 => Just([POST, &literal("x-y", "z"), &[0x40, 1, b'a', 1, b'b']].concat()),
        1 => Just([GET, &literal("content-length", "3")].concat()),
        1 => Just(literal("grpc-status", "0")),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn some_stream() -> impl Strategy<Value = u32> {
    prop_oneof![20 => (0..8u32).prop_map(|number| number * 2 + 1), 1 => 0..20u32]
}

/// Mostly valid frames, in random order.
fn some_frame() -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        6 => (some_stream(), any::<bool>(), some_block()).prop_map(|(id, end, block)| headers(id, end, &block)),
        6 => (some_stream(), any::<bool>(), body.clone()).prop_map(|(id, end, body)| data(id, end, &body)),
        2 => (some_stream(), any::<bool>(), some_block()).prop_map(|(id, end, block)| {
            let (one, two) = block.split_at(block.len() / 2);
            let flags = if end { FLAG_END_STREAM } else { 0 };
            [frame(FrameKind::Headers, flags, id, one), frame(FrameKind::Continuation, FLAG_END_HEADERS, id, two)].concat()
        }),
        1 => (some_stream(), body.clone(), 0..40u8).prop_map(|(id, body, padding)| {
            frame(FrameKind::Data, FLAG_PADDED, id, &[&[padding], &body[..]].concat())
        }),
        1 => (some_stream(), 0..20u32).prop_map(|(id, code)| reset(id, code)),
        1 => (some_stream(), prop_oneof![0..3u32, Just(0x7fff_ffffu32)]).prop_map(|(id, by)| window_update(id, by)),
        1 => (0..10u16, prop_oneof![0..3u32, Just(65_535u32)]).prop_map(|setting| settings(&[setting])),
        1 => Just(ping(0)),
        1 => (some_stream(), 0..6usize).prop_map(|(id, length)| frame(FrameKind::Priority, 0, id, &vec![0; length])),
        1 => (any::<u8>(), any::<u8>(), some_stream(), body).prop_map(|(kind, flags, id, body)| {
            let header = fairway_http2::frame::Header { length: u32::try_from(body.len()).unwrap(), kind, flags, stream: id };
            [&header.bytes()[..], &body].concat()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_split_gives_the_same_events_and_answers(
        frames in prop::collection::vec(some_frame(), 0..25),
        cuts in prop::collection::vec(any::<usize>(), 0..60),
        byte_by_byte in any::<bool>(),
    ) {
        let opened = [headers(1, false, POST), headers(3, false, POST), headers(5, true, GET)].concat();
        let bytes = [PREFACE, &settings(&[]), &opened, &frames.concat()].concat();
        let unsplit = run(&bytes, &[]);
        prop_assert_eq!(&run(&bytes, &cuts), &unsplit);
        if byte_by_byte {
            prop_assert_eq!(&run(&bytes, &vec![0; bytes.len()]), &unsplit);
        }
    }

    #[test]
    fn arbitrary_bytes_end_the_connection_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        run(&[PREFACE, &settings(&[]), &bytes].concat(), &[]);
        run(&bytes, &[]);
    }
}
