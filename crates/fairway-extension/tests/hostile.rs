//! Responses of a service that break a rule of the protocol, and what is accepted nevertheless: unknown fields,
//! immediate responses, and changes of headers that are refused one by one.

use fairway_extension::generated::body_mutation::Mutation;
use fairway_extension::generated::common_response::ResponseStatus;
use fairway_extension::generated::processing_response::Response;
use fairway_extension::generated::{
    CommonResponse, GrpcStatus, HttpStatus, ImmediateResponse, ProcessingResponse,
};
use fairway_extension::processing::{self, Failure, Side, StopReason};
use fairway_model::BodyMode;

use crate::support::*;

/// An exchange whose request head was sent to the service.
fn exchange_after_request_head(body: BodyMode) -> TestExchange {
    let mut extension = extension();
    extension.request = phases(true, body, true);
    extension.response = phases(true, body, true);
    let mut exchange = TestExchange::new(extension);
    exchange.head(Side::Request, true);
    exchange
}

fn failure(exchange: &TestExchange) -> Option<Failure> {
    match exchange.stop {
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
        for response in &responses {
            let mut exchange = exchange_after_request_head(body);
            exchange.respond(response.clone());
            assert_eq!(failure(&exchange), Some(Failure::OutOfOrder), "{body:?} {response:?}");
            let mut exchange = exchange_after_request_head(body);
            exchange.respond(to_headers(Side::Request, unchanged()));
            exchange.respond(to_headers(Side::Request, unchanged()));
            assert_eq!(failure(&exchange), Some(Failure::OutOfOrder), "a second response to the head");
        }
    }
}

#[test]
fn a_second_response_to_a_piece_is_out_of_order() {
    let mut exchange = exchange_after_request_head(BodyMode::Streamed);
    exchange.respond(to_headers(Side::Request, unchanged()));
    exchange.write(Side::Request, "abc");
    exchange.respond(to_body(Side::Request, unchanged()));
    exchange.respond(to_body(Side::Request, unchanged()));
    assert_eq!(failure(&exchange), Some(Failure::OutOfOrder));
}

#[test]
fn a_full_duplex_service_cannot_end_a_body_before_its_sender() {
    let mut exchange = exchange_after_request_head(BodyMode::FullDuplexStreamed);
    exchange.respond(to_headers(Side::Request, unchanged()));
    exchange.write(Side::Request, "abc");
    exchange.respond(to_body(Side::Request, stream(b"abc", true)));
    assert_eq!(failure(&exchange), Some(Failure::OutOfOrder));
    let mut exchange = exchange_after_request_head(BodyMode::FullDuplexStreamed);
    exchange.respond(to_headers(Side::Request, unchanged()));
    exchange.end(Side::Request, &[("x-a", "1")]);
    exchange.respond(to_body(Side::Request, stream(b"abc", true)));
    exchange.respond(to_body(Side::Request, stream(b"def", false)));
    assert_eq!(failure(&exchange), Some(Failure::OutOfOrder), "a piece after the end of the body");
}

#[test]
fn bodies_of_another_mode_are_malformed() {
    for mutation in [Mutation::Body(b"x".to_vec()), Mutation::ClearBody(true)] {
        let mut exchange = exchange_after_request_head(BodyMode::Buffered);
        exchange.respond(to_headers(Side::Request, body(mutation.clone())));
        assert_eq!(failure(&exchange), Some(Failure::Malformed), "a body in a response to a head");
        let mut exchange = exchange_after_request_head(BodyMode::FullDuplexStreamed);
        exchange.respond(to_headers(Side::Request, unchanged()));
        exchange.respond(to_body(Side::Request, body(mutation)));
        assert_eq!(failure(&exchange), Some(Failure::Malformed), "a body in place of a piece");
    }
    for mode in [BodyMode::Streamed, BodyMode::Buffered, BodyMode::BufferedPartial] {
        let mut exchange = exchange_after_request_head(mode);
        exchange.respond(to_headers(Side::Request, unchanged()));
        exchange.write(Side::Request, "abc");
        exchange.end(Side::Request, &[]);
        exchange.respond(to_body(Side::Request, stream(b"x", true)));
        assert_eq!(failure(&exchange), Some(Failure::Malformed), "{mode:?}");
    }
    let mut exchange = exchange_after_request_head(BodyMode::None);
    let status = ResponseStatus::ContinueAndReplace.into();
    exchange.respond(to_headers(Side::Request, CommonResponse { status, ..stream(b"x", true) }));
    assert_eq!(failure(&exchange), Some(Failure::Malformed));
    let mut exchange = exchange_after_request_head(BodyMode::None);
    exchange.respond(to_headers(Side::Request, CommonResponse { status: 7, ..unchanged() }));
    assert_eq!(failure(&exchange), Some(Failure::Malformed), "a status that does not exist");
}

#[test]
fn invalid_headers_are_malformed() {
    for pair in [("a b", "c"), ("a", "b\r\nc: d"), ("", "x"), (":status", "99")] {
        let mut exchange = exchange_after_request_head(BodyMode::None);
        exchange.respond(to_headers(Side::Request, unchanged()));
        exchange.head(Side::Response, false);
        let header_mutation = set(&[pair]);
        exchange.respond(to_headers(Side::Response, CommonResponse { header_mutation, ..unchanged() }));
        assert_eq!(failure(&exchange), Some(Failure::Malformed), "{pair:?}");
    }
}

#[test]
fn refuses_forbidden_headers_and_fails_with_error_on_denied() {
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
    let mut exchange = exchange_after_request_head(BodyMode::None);
    exchange.respond(to_headers(Side::Request, response()));
    assert_eq!((failure(&exchange), exchange.processor.counts().refused), (None, 7));
    assert!(exchange.output(Side::Request).head.as_ref().unwrap().is_empty());
    let mut extension = extension();
    extension.request = phases(true, BodyMode::None, false);
    extension.mutation_rules.error_on_denied = true;
    let mut exchange = TestExchange::new(extension);
    exchange.head(Side::Request, true);
    exchange.respond(to_headers(Side::Request, response()));
    assert_eq!((failure(&exchange), exchange.processor.counts().refused), (Some(Failure::NotAllowed), 1));
}

#[test]
fn messages_above_the_limit_are_rejected_by_their_prefix() {
    let mut exchange = exchange_after_request_head(BodyMode::None);
    exchange.processor.receive(&[0, 0, 0xa0, 0, 0]);
    exchange.drain();
    assert_eq!((failure(&exchange), exchange.processor.held_bytes()), (Some(Failure::Malformed), 0));
}

#[test]
fn unknown_fields_are_ignored() {
    let mut exchange = exchange_after_request_head(BodyMode::None);
    // A response to the head (field 1), followed by fields 100 (a string) and 101 (a number).
    let message = [0x0a, 0, 0xa2, 0x06, 2, b'h', b'i', 0xa8, 0x06, 7];
    exchange.processor.receive(&[&[0, 0, 0, 0, message.len() as u8][..], &message].concat());
    exchange.drain();
    assert!(exchange.stop.is_none() && exchange.output(Side::Request).head.is_some());
}

#[test]
fn deeply_nested_metadata_is_malformed() {
    // `dynamic_metadata` (field 8) is a Struct: each entry of `fields` (1) has the key "a" (1) and a Value (2) that is
    // another Struct (field 5).
    let mut message = Vec::new();
    for _ in 0..2000 {
        let inner = [&[0x2a][..], &varint(message.len()), &message].concat();
        let entry = [&[0x0a, 1, b'a', 0x12][..], &varint(inner.len()), &inner].concat();
        message = [&[0x0a][..], &varint(entry.len()), &entry].concat();
    }
    let message = [&[0x42][..], &varint(message.len()), &message].concat();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let mut exchange = exchange_after_request_head(BodyMode::None);
    exchange.processor.receive(&[&[0][..], &length, &message].concat());
    exchange.drain();
    assert_eq!(failure(&exchange), Some(Failure::Malformed));
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

fn immediate_response(status: i32) -> ProcessingResponse {
    respond(Response::ImmediateResponse(ImmediateResponse {
        status: Some(HttpStatus { code: status }),
        headers: set(&[("content-type", "text/html"), ("connection", "close"), ("retry-after", "5")]),
        body: b"no".to_vec(),
        grpc_status: Some(GrpcStatus { status: 7 }),
    }))
}

#[test]
fn an_immediate_response_replaces_a_response_that_was_not_forwarded() {
    let immediate_status = |exchange: &TestExchange| match &exchange.stop {
        Some(StopReason::Immediate(processing::ImmediateResponse { status, headers, body, grpc_status })) => {
            assert_eq!((headers.len(), &body[..], *grpc_status), (2, &b"no"[..], Some(7)));
            Some(*status)
        }
        _ => None,
    };
    for body in MODES {
        let mut exchange = exchange_after_request_head(body);
        exchange.write(Side::Request, "abc");
        exchange.respond(immediate_response(429));
        assert_eq!((immediate_status(&exchange), exchange.processor.held_bytes()), (Some(429), 0));
        let mut exchange = exchange_after_request_head(body);
        exchange.respond(to_headers(Side::Request, unchanged()));
        exchange.respond(immediate_response(403));
        assert_eq!(
            immediate_status(&exchange),
            Some(403),
            "sent after the response to the head, while no message awaits one"
        );
        let mut exchange = exchange_after_request_head(body);
        exchange.respond(to_headers(Side::Request, unchanged()));
        exchange.head(Side::Response, true);
        exchange.respond(immediate_response(0));
        assert_eq!(immediate_status(&exchange), Some(200));
        let mut exchange = exchange_after_request_head(body);
        exchange.respond(to_headers(Side::Request, unchanged()));
        exchange.head(Side::Response, false);
        exchange.respond(to_headers(Side::Response, unchanged()));
        exchange.respond(immediate_response(403));
        assert_eq!(failure(&exchange), Some(Failure::OutOfOrder));
    }
    for status in [-1, 100, 199, 600] {
        let mut exchange = exchange_after_request_head(BodyMode::None);
        exchange.respond(immediate_response(status));
        assert_eq!(failure(&exchange), Some(Failure::Malformed), "{status}");
    }
}
