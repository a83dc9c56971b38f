//! Each mode with each possible response of the service.

use fairway_extension::generated::body_mutation::Mutation;
use fairway_extension::generated::common_response::ResponseStatus;
use fairway_extension::generated::processing_request::Request;
use fairway_extension::generated::{CommonResponse, HeaderMutation, ProcessingResponse};
use fairway_extension::processing::{BodyLength, Side};
use fairway_http::Head;
use fairway_model::{BodyMode, MutationRules};

use crate::support::*;

fn world(side: Side, headers: bool, body: BodyMode, trailers: bool) -> TestExchange {
    let mut extension = extension();
    match side {
        Side::Request => extension.request = phases(headers, body, trailers),
        Side::Response => extension.response = phases(headers, body, trailers),
    }
    TestExchange::new(extension)
}

fn length(world: &TestExchange, side: Side) -> BodyLength {
    world.output(side).head.as_ref().unwrap().length
}

#[test]
fn parts_that_are_not_sent_are_forwarded_at_once() {
    for side in SIDES {
        let mut world = world(side, false, BodyMode::None, false);
        assert!(world.processor.is_finished());
        world.head(side, true);
        assert!(world.processor.is_transparent(side));
        world.write(side, "abc");
        world.end(side, &[("x-a", "1")]);
        let output = world.output(side);
        assert!(output.head.as_ref().unwrap().is_empty());
        assert_eq!((output.text().as_str(), &output.end), ("abc", &Some(trailers(&[("x-a", "1")]))));
        assert!(world.shown.is_empty() && !world.is_awaited() && world.processor.is_finished());
    }
}

#[test]
fn a_head_waits_for_its_response_and_is_changed_by_it() {
    for side in SIDES {
        let mut world = world(side, true, BodyMode::None, false);
        world.head(side, true);
        let (Request::RequestHeaders(headers) | Request::ResponseHeaders(headers)) = world.shown() else {
            panic!("no headers")
        };
        assert!(!headers.end_of_stream);
        assert!(world.is_awaited() && !world.processor.is_finished());
        world.write(side, "abc");
        assert_eq!(world.output(side), &Output::default());
        let header_mutation = Some(HeaderMutation {
            remove_headers: vec!["X-Kept".to_owned()],
            ..set(&[("x-new", "2"), (":status", "201")]).unwrap()
        });
        world.respond(to_headers(side, CommonResponse { header_mutation, ..unchanged() }));
        let mut head = if side == Side::Request { request_head() } else { response_head() };
        world.output(side).head.as_ref().unwrap().apply(&mut head);
        assert_eq!((head.named(b"x-kept"), head.named(b"x-new")), (None, Some(&b"2"[..])));
        assert_eq!(head.status(), if side == Side::Request { 0 } else { 201 });
        assert_eq!(
            (world.output(side).text().as_str(), length(&world, side)),
            ("abc", BodyLength::Unchanged)
        );
        world.end(side, &[]);
        assert!(world.output(side).end.is_some() && world.processor.is_finished());
    }
}

#[test]
fn a_message_without_a_body_ends_with_its_head() {
    for side in SIDES {
        for mode in MODES {
            let mut world = world(side, true, mode, true);
            world.head(side, false);
            let (Request::RequestHeaders(headers) | Request::ResponseHeaders(headers)) = world.shown() else {
                panic!("no headers")
            };
            assert!(headers.end_of_stream);
            world.respond(to_headers(side, unchanged()));
            assert_eq!(world.output(side).end, Some(vec![]), "{mode:?}");
            assert_eq!(length(&world, side), BodyLength::Unchanged);
            assert!(world.shown.is_empty() && world.processor.is_finished());
        }
    }
}

#[test]
fn the_first_message_has_protocol_attributes_and_metadata() {
    let mut extension = extension();
    extension.request = phases(true, BodyMode::Buffered, false);
    extension.response = phases(true, BodyMode::FullDuplexStreamed, true);
    extension.metadata = vec![("a.b".into(), r#"{"rules": ["1", 2, null, {"x": true}]}"#.into())];
    let mut world = TestExchange::new(extension);
    world.head(Side::Request, false);
    let first = world.shown.pop().unwrap();
    let protocol = first.protocol_config.unwrap();
    assert_eq!((protocol.request_body_mode, protocol.response_body_mode), (2, 4));
    assert!(first.attributes["envoy.filters.http.ext_proc"].fields.contains_key("request.id"));
    assert!(first.metadata_context.unwrap().filter_metadata["a.b"].fields.contains_key("rules"));
    world.respond(to_headers(Side::Request, unchanged()));
    world.head(Side::Response, true);
    let second = world.shown.pop().unwrap();
    assert!(second.protocol_config.is_none() && second.attributes.is_empty());
    assert!(second.metadata_context.is_some());
}

#[test]
fn streamed_pieces_are_forwarded_one_response_at_a_time() {
    for side in SIDES {
        let mut world = world(side, false, BodyMode::Streamed, false);
        world.head(side, true);
        assert_eq!(length(&world, side), BodyLength::Unknown);
        world.write(side, "one");
        world.write(side, "two");
        assert_eq!(world.shown_body(), ("one".to_owned(), false));
        world.respond(to_body(side, unchanged()));
        assert_eq!(world.shown_body(), ("two".to_owned(), false));
        world.write(side, "three");
        world.respond(to_body(side, replace("2")));
        assert_eq!(world.shown_body(), ("three".to_owned(), false));
        world.end(side, &[]);
        world.respond(to_body(side, body(Mutation::ClearBody(true))));
        assert_eq!(world.shown_body(), (String::new(), true));
        assert_eq!(world.output(side).end, None);
        world.respond(to_body(side, replace("end")));
        assert_eq!((world.output(side).text().as_str(), &world.output(side).end), ("one2end", &Some(vec![])));
        assert!(world.processor.is_finished());
    }
}

#[test]
fn streamed_pieces_wait_with_back_pressure() {
    let mut world = world(Side::Request, false, BodyMode::Streamed, false);
    world.head(Side::Request, true);
    let chunk = "x".repeat(16 * 1024);
    for _ in 0..4 {
        world.write(Side::Request, &chunk);
    }
    assert_eq!(world.processor.room(Side::Request), 0);
    world.respond(to_body(Side::Request, unchanged()));
    assert_eq!(world.processor.room(Side::Request), 16 * 1024);
    // Forwarded data counts until it is taken.
    let mut world = self::world(Side::Request, false, BodyMode::None, false);
    world.head(Side::Request, true);
    world.processor.write_body(Side::Request, chunk.as_bytes());
    assert_eq!(world.processor.room(Side::Request), 48 * 1024);
    world.drain();
    assert_eq!(world.processor.room(Side::Request), 64 * 1024);
}

#[test]
fn a_buffered_body_is_sent_whole_and_its_response_changes_the_head() {
    let cleared = body(Mutation::ClearBody(true));
    for side in SIDES {
        for (answer, text, expected) in [
            (unchanged(), "onetwo", BodyLength::Unchanged),
            (replace("three"), "three", BodyLength::Exact(5)),
            (replace(""), "", BodyLength::None),
            (cleared.clone(), "", BodyLength::None),
        ] {
            let mut world = world(side, true, BodyMode::Buffered, false);
            world.head(side, true);
            world.shown();
            let header_mutation = set(&[("x-first", "1"), ("content-length", "77")]);
            world.respond(to_headers(side, CommonResponse { header_mutation, ..unchanged() }));
            assert!(!world.is_awaited() && world.output(side).head.is_none());
            world.write(side, "one");
            world.write(side, "two");
            world.end(side, &[]);
            assert_eq!(world.shown_body(), ("onetwo".to_owned(), true));
            world.respond(to_body(
                side,
                CommonResponse { header_mutation: set(&[("x-last", "2")]), ..answer },
            ));
            assert_eq!((world.output(side).text().as_str(), length(&world, side)), (text, expected));
            let mut head = Head::new();
            head.start_response(200);
            world.output(side).head.as_ref().unwrap().apply(&mut head);
            assert_eq!((head.named(b"x-first"), head.named(b"x-last")), (Some(&b"1"[..]), Some(&b"2"[..])));
            assert_eq!(head.named(b"content-length"), None);
            assert!(world.output(side).end.is_some() && world.processor.is_finished());
        }
    }
}

#[test]
fn a_partially_buffered_body_is_sent_up_to_the_limit() {
    for side in SIDES {
        let mut world = world(side, false, BodyMode::BufferedPartial, true);
        world.head(side, true);
        world.write(side, &"a".repeat(60));
        assert!(world.shown.is_empty());
        world.write(side, &"b".repeat(60));
        let (shown, is_end) = world.shown_body();
        assert_eq!((shown.len(), is_end), (100, false));
        world.write(side, "c");
        world.respond(to_body(side, replace("new")));
        assert_eq!(length(&world, side), BodyLength::Unknown);
        assert_eq!(world.output(side).text(), format!("new{}c", "b".repeat(20)));
        world.write(side, "d");
        world.end(side, &[("x-a", "1")]);
        assert!(world.output(side).text().ends_with("cd"));
        world.shown();
        world.respond(to_trailers(side, set(&[("x-a", "2")])));
        assert_eq!(world.output(side).end, Some(trailers(&[("x-a", "2")])));
        // A body that fits is complete.
        let mut world = self::world(side, false, BodyMode::BufferedPartial, false);
        world.head(side, true);
        world.write(side, "short");
        world.end(side, &[]);
        assert_eq!(world.shown_body(), ("short".to_owned(), true));
        world.respond(to_body(side, replace("longer")));
        assert_eq!(length(&world, side), BodyLength::Exact(6));
    }
}

#[test]
fn full_duplex_pieces_go_both_ways_without_waiting() {
    for side in SIDES {
        let mut world = world(side, true, BodyMode::FullDuplexStreamed, true);
        world.head(side, true);
        world.write(side, "one");
        world.write(side, "two");
        assert_eq!(world.shown.len(), 3);
        assert!(!world.is_awaited(), "the service may wait for the rest");
        world.end(side, &[]);
        assert!(world.is_awaited());
        world.shown.drain(..3);
        assert_eq!(world.shown_body(), (String::new(), true));
        world.respond(to_headers(side, unchanged()));
        assert_eq!(length(&world, side), BodyLength::Unknown);
        world.respond(to_body(side, stream(b"on", false)));
        world.respond(to_body(side, stream(b"", false)));
        world.respond(to_body(side, stream(b"e", false)));
        assert_eq!((world.output(side).text().as_str(), &world.output(side).end), ("one", &None));
        world.respond(to_body(side, stream(b"!", true)));
        assert_eq!((world.output(side).text().as_str(), &world.output(side).end), ("one!", &Some(vec![])));
        assert!(!world.is_awaited() && world.processor.is_finished());
    }
}

#[test]
fn trailers_end_a_full_duplex_body() {
    for is_end_said in [false, true] {
        let mut world = world(Side::Response, false, BodyMode::FullDuplexStreamed, true);
        world.head(Side::Response, true);
        world.write(Side::Response, "one");
        world.end(Side::Response, &[("grpc-status", "0")]);
        assert_eq!(world.shown.len(), 2);
        world.respond(to_body(Side::Response, stream(b"two", is_end_said)));
        assert_eq!(world.output(Side::Response).end, None);
        world.respond(to_trailers(Side::Response, set(&[("x-new", "1")])));
        let expected = trailers(&[("grpc-status", "0"), ("x-new", "1")]);
        assert_eq!(world.output(Side::Response).end, Some(expected));
        assert_eq!(world.output(Side::Response).text(), "two");
    }
}

#[test]
fn trailers_are_sent_if_present_and_configured() {
    for side in SIDES {
        for mode in [BodyMode::None, BodyMode::Streamed, BodyMode::Buffered, BodyMode::BufferedPartial] {
            let mut world = world(side, false, mode, true);
            world.head(side, true);
            world.write(side, "abc");
            world.end(side, &[("x-a", "1")]);
            if mode != BodyMode::None {
                assert_eq!(world.shown_body(), ("abc".to_owned(), false), "{mode:?}");
                world.respond(to_body(side, unchanged()));
            }
            assert!(matches!(world.shown(), Request::RequestTrailers(_) | Request::ResponseTrailers(_)));
            assert_eq!(world.output(side).end, None);
            let mutation = Some(HeaderMutation {
                remove_headers: vec!["x-a".to_owned()],
                ..set(&[("x-b", "2"), ("content-length", "3"), ("host", "x")]).unwrap()
            });
            world.respond(to_trailers(side, mutation));
            assert_eq!(world.output(side).end, Some(trailers(&[("x-b", "2")])));
            assert_eq!(world.processor.counts().refused, 1);
            let mut world = self::world(side, false, mode, false);
            world.head(side, true);
            world.end(side, &[("x-a", "1")]);
            if mode != BodyMode::None {
                assert_eq!(world.shown_body(), (String::new(), true), "{mode:?}");
                world.respond(to_body(side, unchanged()));
            }
            assert_eq!(world.output(side).end, Some(trailers(&[("x-a", "1")])));
        }
    }
}

#[test]
fn a_replaced_message_ends_and_later_data_is_dropped() {
    for side in SIDES {
        for mode in MODES {
            let mut world = world(side, true, mode, true);
            world.head(side, true);
            let status = ResponseStatus::ContinueAndReplace.into();
            world.respond(to_headers(side, CommonResponse { status, ..replace("new") }));
            assert_eq!(length(&world, side), BodyLength::Exact(3));
            let output = world.output(side);
            assert_eq!((output.text().as_str(), &output.end), ("new", &Some(vec![])), "{mode:?}");
            world.write(side, "old");
            world.end(side, &[("x-a", "1")]);
            assert_eq!(world.output(side).text(), "new");
            assert!(world.processor.is_finished());
        }
    }
    let mut world = world(Side::Request, true, BodyMode::None, false);
    world.head(Side::Request, false);
    let status = ResponseStatus::ContinueAndReplace.into();
    world.respond(to_headers(Side::Request, CommonResponse { status, ..unchanged() }));
    assert_eq!(length(&world, Side::Request), BodyLength::None);
}

#[test]
fn path_and_method_change_if_the_rules_allow_it() {
    let mut extension = extension();
    extension.request = phases(true, BodyMode::None, false);
    extension.mutation_rules = MutationRules { allow_path_and_method: true, ..MutationRules::default() };
    let mut world = TestExchange::new(extension);
    world.head(Side::Request, false);
    let header_mutation = set(&[(":path", "/b"), (":method", "PUT"), (":authority", "x")]);
    world.respond(to_headers(Side::Request, CommonResponse { header_mutation, ..unchanged() }));
    let head = world.output(Side::Request).head.as_ref().unwrap();
    assert_eq!((head.path.as_deref(), head.method.as_deref()), (Some(&b"/b"[..]), Some(&b"PUT"[..])));
    assert_eq!(world.processor.counts().refused, 1);
}

#[test]
fn both_directions_may_be_active_at_once() {
    let mut extension = extension();
    extension.request = phases(true, BodyMode::Streamed, false);
    extension.response = phases(true, BodyMode::Streamed, false);
    let mut world = TestExchange::new(extension);
    world.head(Side::Request, true);
    world.respond(to_headers(Side::Request, unchanged()));
    world.write(Side::Request, "up");
    world.head(Side::Response, true);
    let first = world.processor.awaited().unwrap();
    world.respond(to_headers(Side::Response, unchanged()));
    assert_eq!(world.processor.awaited(), Some(first), "the piece of the request is awaited for longer");
    world.write(Side::Response, "down");
    world.respond(to_body(Side::Response, unchanged()));
    assert_eq!(world.output(Side::Response).text(), "down");
    world.respond(to_body(Side::Request, unchanged()));
    assert_eq!(world.output(Side::Request).text(), "up");
    assert!(!world.is_awaited() && world.stop.is_none());
}

#[test]
fn a_picker_names_endpoints_in_the_metadata() {
    use fairway_extension::generated::value::Kind;
    use fairway_extension::generated::{Struct, Value};
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = |name: &str, value| Struct { fields: [(name.to_owned(), value)].into() };
    let picked = |metadata: Struct| {
        let mut world = world(Side::Request, true, BodyMode::None, false);
        world.head(Side::Request, false);
        let dynamic_metadata = Some(metadata);
        world.respond(ProcessingResponse { dynamic_metadata, ..to_headers(Side::Request, unchanged()) });
        world.processor.picked_endpoints().map(str::to_owned)
    };
    let name = "x-gateway-destination-endpoint";
    let plain = fields(name, text("192.0.2.1:80"));
    assert_eq!(picked(plain.clone()).as_deref(), Some("192.0.2.1:80"));
    let inner = Value { kind: Some(Kind::StructValue(plain)) };
    assert_eq!(picked(fields("envoy.lb", inner.clone())).as_deref(), Some("192.0.2.1:80"));
    assert_eq!(picked(fields("other", inner)), None);
    assert_eq!(picked(fields(name, text(&"x".repeat(5000)))), None);
}

#[test]
fn only_a_picker_gets_the_endpoint_that_served_the_request() {
    use fairway_extension::generated::value::Kind;
    let served = |picks_endpoint: bool| {
        let mut extension = extension();
        extension.picks_endpoint = picks_endpoint;
        extension.metadata = vec![("tenant".into(), r#"{"model": "llama"}"#.into())];
        extension.response = phases(true, BodyMode::None, false);
        let mut world = TestExchange::new(extension);
        world.head(Side::Request, false);
        world.processor.set_served_by("[2001:db8::1]:8000".parse().unwrap());
        world.head(Side::Response, false);
        let mut metadata = world.shown.pop().unwrap().metadata_context.unwrap().filter_metadata;
        assert!(metadata.contains_key("tenant"), "the configuration's metadata is still there");
        let fields = metadata.remove("envoy.lb")?.fields;
        fields.get("x-gateway-destination-endpoint-served")?.kind.clone()
    };
    assert_eq!(served(true), Some(Kind::StringValue("[2001:db8::1]:8000".to_owned())));
    assert_eq!(served(false), None);
}
