//! `mode_override`: which later phases a service may change.

use fairway_extension::generated::processing_request::Request;
use fairway_extension::generated::{ProcessingMode, ProcessingResponse};
use fairway_extension::processing::Side;
use fairway_model::{BodyMode, ProcessingPhases};

use crate::support::*;

const SEND: i32 = 1;
const SKIP: i32 = 2;

fn world(request: ProcessingPhases, response: ProcessingPhases, is_allowed: bool) -> TestExchange {
    let mut extension = extension();
    (extension.request, extension.response, extension.allow_mode_override) = (request, response, is_allowed);
    TestExchange::new(extension)
}

fn overridden(side: Side, mode: ProcessingMode) -> ProcessingResponse {
    ProcessingResponse { mode_override: Some(mode), ..to_headers(side, unchanged()) }
}

#[test]
fn the_response_to_the_request_head_overrides_later_phases() {
    let heads = phases(true, BodyMode::None, false);
    let mode = ProcessingMode {
        request_header_mode: SKIP,
        response_header_mode: SKIP,
        request_body_mode: 2,
        response_body_mode: 1,
        request_trailer_mode: SEND,
        response_trailer_mode: 0,
    };
    let mut world = world(heads, heads, true);
    world.head(Side::Request, true);
    world.shown();
    world.respond(overridden(Side::Request, mode));
    world.write(Side::Request, "abc");
    world.end(Side::Request, &[("x-a", "1")]);
    assert_eq!(world.shown_body(), ("abc".to_owned(), false));
    world.respond(to_body(Side::Request, unchanged()));
    assert!(matches!(world.shown(), Request::RequestTrailers(_)));
    world.respond(to_trailers(Side::Request, None));
    world.head(Side::Response, true);
    assert!(world.output(Side::Response).head.is_some(), "the head of the response is no longer shown");
    world.write(Side::Response, "def");
    assert_eq!(world.shown_body(), ("def".to_owned(), false));
}

#[test]
fn an_override_that_is_not_allowed_is_ignored() {
    let heads = phases(true, BodyMode::None, false);
    let mut world = world(heads, heads, false);
    world.head(Side::Request, true);
    world.respond(overridden(
        Side::Request,
        ProcessingMode { request_body_mode: 1, ..ProcessingMode::default() },
    ));
    world.shown.clear();
    world.write(Side::Request, "abc");
    assert!(world.shown.is_empty() && world.output(Side::Request).text() == "abc");
}

#[test]
fn the_response_to_the_response_head_overrides_only_its_later_phases() {
    let streamed = phases(true, BodyMode::Streamed, false);
    let mut world = world(streamed, streamed, true);
    world.head(Side::Request, true);
    world.respond(to_headers(Side::Request, unchanged()));
    world.head(Side::Response, true);
    world.respond(overridden(Side::Response, ProcessingMode::default()));
    world.shown.clear();
    world.write(Side::Response, "def");
    assert_eq!(world.output(Side::Response).text(), "def");
    world.write(Side::Request, "abc");
    assert_eq!(world.shown_body(), ("abc".to_owned(), false));
}

#[test]
fn unknown_modes_change_nothing() {
    let streamed = phases(true, BodyMode::Streamed, false);
    let mut world = world(streamed, streamed, true);
    world.head(Side::Request, true);
    let mode = ProcessingMode {
        request_body_mode: 9,
        response_body_mode: -1,
        response_header_mode: 7,
        ..ProcessingMode::default()
    };
    world.respond(overridden(Side::Request, mode));
    world.shown.clear();
    world.write(Side::Request, "abc");
    assert_eq!(world.shown_body(), ("abc".to_owned(), false));
}

#[test]
fn pieces_handed_over_to_the_service_stay_there() {
    let duplex = phases(true, BodyMode::FullDuplexStreamed, true);
    let mut world = world(duplex, ProcessingPhases::default(), true);
    world.head(Side::Request, true);
    world.write(Side::Request, "abc");
    world.respond(overridden(Side::Request, ProcessingMode::default()));
    world.respond(to_body(Side::Request, stream(b"xyz", false)));
    assert_eq!((world.stop.clone(), world.output(Side::Request).text().as_str()), (None, "xyz"));
}
