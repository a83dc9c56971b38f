//! A minimal data plane: drives a [`Processor`], and records the forwarded data and the messages of the service.

use std::sync::Arc;
use std::time::Duration;

use fairway_extension::frame::{self, PREFIX_BYTES};
use fairway_extension::generated::body_mutation::Mutation;
use fairway_extension::generated::processing_request::Request;
use fairway_extension::generated::processing_response::Response;
use fairway_extension::generated::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeaderValue, HeaderValueOption,
    HeadersResponse, ProcessingRequest, ProcessingResponse, StreamedBodyResponse, TrailersResponse,
};
use fairway_extension::processing::{
    Event, ExchangeFacts, HeadChange, Processor, Side, StopReason, Trailers,
};
use fairway_http::Head;
use fairway_model::{
    BackendKey, BodyMode, Extension, GrpcService, MutationRules, ProcessingPhases, Timeouts,
};
use prost::Message;

pub(crate) const SIDES: [Side; 2] = [Side::Request, Side::Response];

pub(crate) const MODES: [BodyMode; 5] = [
    BodyMode::None,
    BodyMode::Streamed,
    BodyMode::Buffered,
    BodyMode::BufferedPartial,
    BodyMode::FullDuplexStreamed,
];

pub(crate) fn phases(headers: bool, body: BodyMode, trailers: bool) -> ProcessingPhases {
    ProcessingPhases { headers, body, trailers }
}

/// A configuration that sends nothing to the service.
pub(crate) fn extension() -> Extension {
    let second = Duration::from_secs(1);
    let timeouts =
        Timeouts { connect: second, send: second, read: second, request: None, backend_request: None };
    let service = GrpcService { backend: BackendKey("a/b:1".into()), authority: "b.a".into(), timeouts };
    Extension {
        name: "ExtensionPolicy/a/b".into(),
        service,
        message_timeout: Duration::from_millis(200),
        failure_mode_allow: false,
        request: ProcessingPhases::default(),
        response: ProcessingPhases::default(),
        allow_mode_override: false,
        mutation_rules: MutationRules::default(),
        max_buffered_body: 100,
        attributes: Vec::new(),
        metadata: Vec::new(),
        picks_endpoint: false,
    }
}

pub(crate) fn request_head() -> Head {
    let mut head = Head::new();
    head.start_request(b"POST", b"/a");
    head.append(b"Host", b"a.example");
    head.append(b"X-Kept", b"1");
    head
}

pub(crate) fn response_head() -> Head {
    let mut head = Head::new();
    head.start_response(200);
    head.append(b"X-Kept", b"1");
    head
}

pub(crate) fn trailers(pairs: &[(&str, &str)]) -> Trailers {
    pairs.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect()
}

/// What was forwarded in a direction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) head: Option<HeadChange>,
    pub(crate) body: Vec<u8>,
    pub(crate) end: Option<Trailers>,
}

impl Output {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Handles an event; fails if it is out of order.
    pub(crate) fn take(&mut self, event: Event) {
        assert!(self.end.is_none(), "{event:?} after the end");
        match event {
            Event::Head(change) => assert!(self.head.replace(change).is_none(), "a second head"),
            Event::Body(piece) => {
                assert!(self.head.is_some() && !piece.is_empty(), "a piece before the head, or an empty one");
                self.body.extend(piece);
            }
            Event::End(trailers) => {
                assert!(self.head.is_some(), "an end before the head");
                self.end = Some(trailers);
            }
        }
    }
}

pub(crate) struct TestExchange {
    pub(crate) processor: Processor,
    pub(crate) outputs: [Output; 2],
    pub(crate) stop: Option<StopReason>,
    /// Messages for the service that the test has not read yet.
    pub(crate) shown: Vec<ProcessingRequest>,
}

impl TestExchange {
    pub(crate) fn new(extension: Extension) -> Self {
        TestExchange {
            processor: Processor::new(Arc::new(extension)),
            outputs: Default::default(),
            stop: None,
            shown: Vec::new(),
        }
    }

    pub(crate) fn head(&mut self, side: Side, has_body: bool) {
        let facts = ExchangeFacts {
            path: b"/a",
            scheme: "https",
            authority: Some(b"a.example"),
            attributes: &[("request.id".into(), b"7".to_vec())],
        };
        match side {
            Side::Request => self.processor.request_head(&request_head(), &facts, has_body),
            Side::Response => self.processor.response_head(&response_head(), has_body),
        }
        self.drain();
    }

    pub(crate) fn write(&mut self, side: Side, chunk: &str) {
        assert!(self.processor.room(side) > 0, "no room");
        self.processor.write_body(side, chunk.as_bytes());
        self.drain();
    }

    pub(crate) fn end(&mut self, side: Side, pairs: &[(&str, &str)]) {
        self.processor.end(side, trailers(pairs));
        self.drain();
    }

    pub(crate) fn respond(&mut self, response: impl Into<ProcessingResponse>) {
        self.processor.receive(&frame::encode(&response.into()));
        self.drain();
    }

    pub(crate) fn closed(&mut self, status: Option<u32>) {
        self.processor.closed(status);
        self.drain();
    }

    /// Collects messages, events and the stop reason.
    pub(crate) fn drain(&mut self) {
        while let Some(message) = self.processor.take_message() {
            self.shown.push(ProcessingRequest::decode(&message[PREFIX_BYTES..]).unwrap());
        }
        for side in SIDES {
            while let Some(event) = self.processor.next(side) {
                self.outputs[side as usize].take(event);
            }
        }
        if let Some(stop) = self.processor.take_stop() {
            assert!(self.stop.replace(stop).is_none(), "a second stop");
        }
    }

    /// The only new message for the service.
    pub(crate) fn shown(&mut self) -> Request {
        assert_eq!(self.shown.len(), 1, "{:?}", self.shown);
        self.shown.pop().and_then(|message| message.request).unwrap()
    }

    /// The new part of the body for the service, and whether it ended.
    pub(crate) fn shown_body(&mut self) -> (String, bool) {
        match self.shown() {
            Request::RequestBody(body) | Request::ResponseBody(body) => {
                (String::from_utf8(body.body).unwrap(), body.end_of_stream)
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn output(&self, side: Side) -> &Output {
        &self.outputs[side as usize]
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.processor.awaited().is_some()
    }
}

pub(crate) fn set(pairs: &[(&str, &str)]) -> Option<HeaderMutation> {
    let option = |(key, value): &(&str, &str)| {
        let raw_value = value.as_bytes().to_vec();
        let header = HeaderValue { key: (*key).to_owned(), value: String::new(), raw_value };
        HeaderValueOption { header: Some(header), ..HeaderValueOption::default() }
    };
    Some(HeaderMutation { set_headers: pairs.iter().map(option).collect(), remove_headers: Vec::new() })
}

pub(crate) fn body(mutation: Mutation) -> CommonResponse {
    let body_mutation = Some(BodyMutation { mutation: Some(mutation) });
    CommonResponse { body_mutation, ..CommonResponse::default() }
}

pub(crate) fn replace(text: &str) -> CommonResponse {
    body(Mutation::Body(text.as_bytes().to_vec()))
}

pub(crate) fn stream(text: &[u8], end_of_stream: bool) -> CommonResponse {
    body(Mutation::StreamedResponse(StreamedBodyResponse { body: text.to_vec(), end_of_stream }))
}

pub(crate) fn to_headers(side: Side, response: CommonResponse) -> ProcessingResponse {
    let reply = HeadersResponse { response: Some(response) };
    respond(match side {
        Side::Request => Response::RequestHeaders(reply),
        Side::Response => Response::ResponseHeaders(reply),
    })
}

pub(crate) fn to_body(side: Side, response: CommonResponse) -> ProcessingResponse {
    let reply = BodyResponse { response: Some(response) };
    respond(match side {
        Side::Request => Response::RequestBody(reply),
        Side::Response => Response::ResponseBody(reply),
    })
}

pub(crate) fn to_trailers(side: Side, header_mutation: Option<HeaderMutation>) -> ProcessingResponse {
    let response = TrailersResponse { header_mutation };
    respond(match side {
        Side::Request => Response::RequestTrailers(response),
        Side::Response => Response::ResponseTrailers(response),
    })
}

pub(crate) fn respond(response: Response) -> ProcessingResponse {
    ProcessingResponse { response: Some(response), ..ProcessingResponse::default() }
}

pub(crate) fn unchanged() -> CommonResponse {
    CommonResponse::default()
}
