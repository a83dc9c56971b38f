//! Responses that break a rule.

use fairway_extension::generated::body_mutation::Mutation;
use fairway_extension::generated::common_response::ResponseStatus;
use fairway_extension::generated::processing_response::Response;
use fairway_extension::generated::{
    CommonResponse, GrpcStatus, HttpStatus, ImmediateResponse, ProcessingResponse,
};
use fairway_extension::processing::{self, Failure, Side, StopReason};
use fairway_model::BodyMode;

use crate::support::*;

/// A stream whose request head was sent to the service.
fn with_sent_head(body: BodyMode) -> TestExchange {
    let mut extension = extension();
    extension.request = phases(true, body, true);
    extension.response = phases(true, body, true);
    let mut world = TestExchange::new(extension);
    world.head(Side::Request, true);
    world
}

fn failed(world: &TestExchange) -> Option<Failure> {
    match world.stop {
        Some(StopReason::Failed(failure)) => Some(failure),
        _ => None,
    }
}

#[test]
fn a_response_to_another_phase_is_out_of_order() {
    let responses = [
        to_headers(Side::Response, unchanged()),
        to_body(Side::Request, unchanged()),
        to_body(Side::Response, unchanged()),
        to_trailers(Side::Request, None),
        to_trailers(Side::Response, None),
        ProcessingResponse::default(),
    ];
    for body in MODES {
        for answer in &responses {
            let mut world = with_sent_head(body);
            world.respond(answer.clone());
            assert_eq!(failed(&world), Some(Failure::OutOfOrder), "{body:?} {answer:?}");
            let mut world = with_sent_head(body);
            world.respond(to_headers(Side::Request, unchanged()));
            world.respond(to_headers(Side::Request, unchanged()));
            assert_eq!(failed(&world), Some(Failure::OutOfOrder), "a second answer");
        }
    }
}

#[test]
fn a_second_response_to_a_piece_is_out_of_order() {
    let mut world = with_sent_head(BodyMode::Streamed);
    world.respond(to_headers(Side::Request, unchanged()));
    world.write(Side::Request, "abc");
    world.respond(to_body(Side::Request, unchanged()));
    world.respond(to_body(Side::Request, unchanged()));
    assert_eq!(failed(&world), Some(Failure::OutOfOrder));
}

#[test]
fn a_full_duplex_service_cannot_end_a_body_before_its_sender() {
    let mut world = with_sent_head(BodyMode::FullDuplexStreamed);
    world.respond(to_headers(Side::Request, unchanged()));
    world.write(Side::Request, "abc");
    world.respond(to_body(Side::Request, stream(b"abc", true)));
    assert_eq!(failed(&world), Some(Failure::OutOfOrder));
    let mut world = with_sent_head(BodyMode::FullDuplexStreamed);
    world.respond(to_headers(Side::Request, unchanged()));
    world.end(Side::Request, &[("x-a", "1")]);
    world.respond(to_body(Side::Request, stream(b"abc", true)));
    world.respond(to_body(Side::Request, stream(b"def", false)));
    assert_eq!(failed(&world), Some(Failure::OutOfOrder), "pieces behind the end");
}

#[test]
fn bodies_of_another_mode_are_malformed() {
    for mutation in [Mutation::Body(b"x".to_vec()), Mutation::ClearBody(true)] {
        let mut world = with_sent_head(BodyMode::Buffered);
        world.respond(to_headers(Side::Request, body(mutation.clone())));
        assert_eq!(failed(&world), Some(Failure::Malformed), "a body in an answer to a head");
        let mut world = with_sent_head(BodyMode::FullDuplexStreamed);
        world.respond(to_headers(Side::Request, unchanged()));
        world.respond(to_body(Side::Request, body(mutation)));
        assert_eq!(failed(&world), Some(Failure::Malformed), "a body in place of a piece");
    }
    for mode in [BodyMode::Streamed, BodyMode::Buffered, BodyMode::BufferedPartial] {
        let mut world = with_sent_head(mode);
        world.respond(to_headers(Side::Request, unchanged()));
        world.write(Side::Request, "abc");
        world.end(Side::Request, &[]);
        world.respond(to_body(Side::Request, stream(b"x", true)));
        assert_eq!(failed(&world), Some(Failure::Malformed), "{mode:?}");
    }
    let mut world = with_sent_head(BodyMode::None);
    let status = ResponseStatus::ContinueAndReplace.into();
    world.respond(to_headers(Side::Request, CommonResponse { status, ..stream(b"x", true) }));
    assert_eq!(failed(&world), Some(Failure::Malformed));
    let mut world = with_sent_head(BodyMode::None);
    world.respond(to_headers(Side::Request, CommonResponse { status: 7, ..unchanged() }));
    assert_eq!(failed(&world), Some(Failure::Malformed), "a status that does not exist");
}

#[test]
fn invalid_headers_are_malformed() {
    for pair in [("a b", "c"), ("a", "b\r\nc: d"), ("", "x"), (":status", "99")] {
        let mut world = with_sent_head(BodyMode::None);
        world.respond(to_headers(Side::Request, unchanged()));
        world.head(Side::Response, false);
        let header_mutation = set(&[pair]);
        world.respond(to_headers(Side::Response, CommonResponse { header_mutation, ..unchanged() }));
        assert_eq!(failed(&world), Some(Failure::Malformed), "{pair:?}");
    }
}

#[test]
fn forbidden_changes_are_counted_or_an_error() {
    let pairs = [
        (":authority", "evil"),
        ("host", "evil"),
        (":scheme", "http"),
        ("connection", "x-kept"),
        ("transfer-encoding", "chunked"),
        ("te", "trailers"),
        ("upgrade", "h2c"),
    ];
    let response = || CommonResponse { header_mutation: set(&pairs), ..unchanged() };
    let mut world = with_sent_head(BodyMode::None);
    world.respond(to_headers(Side::Request, response()));
    assert_eq!((failed(&world), world.processor.counts().refused), (None, 7));
    assert!(world.output(Side::Request).head.as_ref().unwrap().is_empty());
    let mut extension = extension();
    extension.request = phases(true, BodyMode::None, false);
    extension.mutation_rules.error_on_denied = true;
    let mut world = TestExchange::new(extension);
    world.head(Side::Request, true);
    world.respond(to_headers(Side::Request, response()));
    assert_eq!((failed(&world), world.processor.counts().refused), (Some(Failure::NotAllowed), 1));
}

#[test]
fn messages_above_the_limit_are_rejected_by_their_prefix() {
    let mut world = with_sent_head(BodyMode::None);
    world.processor.receive(&[0, 0, 0xa0, 0, 0]);
    world.drain();
    assert_eq!((failed(&world), world.processor.held_bytes()), (Some(Failure::Malformed), 0));
}

#[test]
fn unknown_fields_are_ignored() {
    let mut world = with_sent_head(BodyMode::None);
    // A response to the head (field 1), followed by fields 100 (a string) and 101 (a number).
    let message = [0x0a, 0, 0xa2, 0x06, 2, b'h', b'i', 0xa8, 0x06, 7];
    world.processor.receive(&[&[0, 0, 0, 0, message.len() as u8][..], &message].concat());
    world.drain();
    assert!(world.stop.is_none() && world.output(Side::Request).head.is_some());
}

#[test]
fn deeply_nested_metadata_is_malformed() {
    let mut message = Vec::new();
    for _ in 0..2000 {
        let inner = [&[0x2a][..], &varint(message.len()), &message].concat();
        let entry = [&[0x0a, 1, b'a', 0x12][..], &varint(inner.len()), &inner].concat();
        message = [&[0x0a][..], &varint(entry.len()), &entry].concat();
    }
    let message = [&[0x42][..], &varint(message.len()), &message].concat();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let mut world = with_sent_head(BodyMode::None);
    world.processor.receive(&[&[0][..], &length, &message].concat());
    world.drain();
    assert_eq!(failed(&world), Some(Failure::Malformed));
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn immediate(status: i32) -> ProcessingResponse {
    respond(Response::ImmediateResponse(ImmediateResponse {
        status: Some(HttpStatus { code: status }),
        headers: set(&[("content-type", "text/html"), ("connection", "close"), ("retry-after", "5")]),
        body: b"no".to_vec(),
        grpc_status: Some(GrpcStatus { status: 7 }),
    }))
}

#[test]
fn an_immediate_response_replaces_a_response_that_was_not_forwarded() {
    let is_immediate = |world: &TestExchange| match &world.stop {
        Some(StopReason::Immediate(processing::ImmediateResponse { status, headers, body, grpc_status })) => {
            assert_eq!((headers.len(), &body[..], *grpc_status), (2, &b"no"[..], Some(7)));
            Some(*status)
        }
        _ => None,
    };
    for body in MODES {
        let mut world = with_sent_head(body);
        world.write(Side::Request, "abc");
        world.respond(immediate(429));
        assert_eq!((is_immediate(&world), world.processor.held_bytes()), (Some(429), 0));
        let mut world = with_sent_head(body);
        world.respond(to_headers(Side::Request, unchanged()));
        world.respond(immediate(403));
        assert_eq!(
            is_immediate(&world),
            Some(403),
            "nothing was asked, and the service decides all the same"
        );
        let mut world = with_sent_head(body);
        world.respond(to_headers(Side::Request, unchanged()));
        world.head(Side::Response, true);
        world.respond(immediate(0));
        assert_eq!(is_immediate(&world), Some(200));
        let mut world = with_sent_head(body);
        world.respond(to_headers(Side::Request, unchanged()));
        world.head(Side::Response, false);
        world.respond(to_headers(Side::Response, unchanged()));
        world.respond(immediate(403));
        assert_eq!(failed(&world), Some(Failure::OutOfOrder));
    }
    for status in [-1, 100, 199, 600] {
        let mut world = with_sent_head(BodyMode::None);
        world.respond(immediate(status));
        assert_eq!(failed(&world), Some(Failure::Malformed), "{status}");
    }
}
