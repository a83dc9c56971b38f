//! Invariants for any bytes of a service and any order of calls: nothing panics, events are in order, memory is bounded, and
//! progress is always possible.

use std::sync::Arc;
use std::time::Duration;

use fairway_extension::frame;
use fairway_extension::generated::body_mutation::Mutation;
use fairway_extension::generated::processing_response::Response;
use fairway_extension::generated::{
    BodyMutation, BodyResponse, CommonResponse, HeadersResponse, ProcessingMode, ProcessingResponse,
    StreamedBodyResponse, TrailersResponse,
};
use fairway_extension::processing::{Event, ExchangeFacts, MAX_HELD_BYTES, Processor, Side};
use fairway_http::Head;
use fairway_model::{
    BackendKey, BodyMode, Extension, GrpcService, MutationRules, ProcessingPhases, Timeouts,
};

const SIDES: [Side; 2] = [Side::Request, Side::Response];

/// Any bytes as a configuration, calls of the data plane, and bytes of a service.
pub(crate) fn processing(input: &[u8]) {
    let mut input = Input(input);
    let extension = extension(&mut input);
    let mut check = Check::new(extension);
    while let Some(call) = input.byte() {
        check.call(call, &mut input);
        check.check_invariants();
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte().unwrap_or(0)).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}

fn phases(byte: u8) -> ProcessingPhases {
    let body = match byte % 8 {
        0 => BodyMode::None,
        1 => BodyMode::Streamed,
        2 => BodyMode::Buffered,
        3 => BodyMode::BufferedPartial,
        _ => BodyMode::FullDuplexStreamed,
    };
    ProcessingPhases { headers: byte & 16 == 0, body, trailers: byte & 32 == 0 }
}

fn extension(input: &mut Input<'_>) -> Extension {
    let mut byte = || input.byte().unwrap_or(0);
    let second = Duration::from_secs(1);
    let timeouts =
        Timeouts { connect: second, send: second, read: second, request: None, backend_request: None };
    let flags = byte();
    Extension {
        name: "any".into(),
        service: GrpcService { backend: BackendKey("any".into()), authority: "any".into(), timeouts },
        message_timeout: second,
        failure_mode_allow: flags & 1 == 0,
        request: phases(byte()),
        response: phases(byte()),
        allow_mode_override: flags & 2 == 0,
        mutation_rules: MutationRules {
            allow_path_and_method: flags & 4 == 0,
            allow_forwarded: flags & 8 == 0,
            denied: vec!["x-denied".into()],
            error_on_denied: flags & 16 == 0,
        },
        max_buffered_body: byte().into(),
        attributes: Vec::new(),
        metadata: Vec::new(),
        picks_endpoint: false,
    }
}

/// What was forwarded in a direction.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Progress {
    Nothing,
    Head,
    End,
}

struct Check {
    processor: Processor,
    has_head: [bool; 2],
    has_ended: [bool; 2],
    progress: [Progress; 2],
    received: usize,
    is_stopped: bool,
}

impl Check {
    fn new(extension: Extension) -> Self {
        Check {
            processor: Processor::new(Arc::new(extension)),
            has_head: [false; 2],
            has_ended: [false; 2],
            progress: [Progress::Nothing; 2],
            received: 0,
            is_stopped: false,
        }
    }

    fn call(&mut self, call: u8, input: &mut Input<'_>) {
        let side = SIDES[usize::from(call >> 7)];
        match call % 10 {
            0 => self.head(side, call & 64 == 0),
            1 | 2 => {
                let chunk = input.bytes();
                if self.has_head[side as usize]
                    && !self.has_ended[side as usize]
                    && self.processor.room(side) > 0
                {
                    self.processor.write_body(side, chunk);
                }
            }
            3 if self.has_head[side as usize] => {
                self.has_ended[side as usize] = true;
                let trailers = if call & 64 == 0 { vec![(b"x"[..].into(), b"y"[..].into())] } else { vec![] };
                self.processor.end(side, trailers);
            }
            4 => self.receive(input.bytes()),
            5 | 6 => {
                let response = processing_response(call, input);
                self.receive(&frame::encode(&response));
            }
            7 => drop(self.processor.take_message()),
            8 => self.processor.closed(input.byte().map(u32::from).filter(|status| *status < 17)),
            9 if call & 64 == 0 => self.processor.timed_out(),
            _ => {}
        }
    }

    fn head(&mut self, side: Side, has_body: bool) {
        if std::mem::replace(&mut self.has_head[side as usize], true) {
            return;
        }
        self.has_ended[side as usize] = !has_body;
        let mut head = Head::new();
        if side == Side::Request {
            head.start_request(b"GET", b"/");
            let facts = ExchangeFacts { path: b"/", scheme: "http", authority: Some(b"a"), attributes: &[] };
            self.processor.request_head(&head, &facts, has_body);
        } else {
            head.start_response(200);
            self.processor.response_head(&head, has_body);
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.received += bytes.len();
        self.processor.receive(bytes);
    }

    fn check_invariants(&mut self) {
        // Each byte is held once and copied into a message at most once; each piece adds messages of a few bytes.
        let bound = 4 * (MAX_HELD_BYTES + 256 * 4 + 1024) + self.received;
        assert!(self.processor.held_bytes() <= bound, "{} bytes are held", self.processor.held_bytes());
        for side in SIDES {
            while let Some(event) = self.processor.next(side) {
                assert!(!self.is_stopped, "something goes on after the stop");
                let progress = &mut self.progress[side as usize];
                match event {
                    Event::Head(change) => {
                        assert!(*progress == Progress::Nothing);
                        *progress = Progress::Head;
                        let mut head = Head::new();
                        head.start_response(200);
                        change.apply(&mut head);
                        assert!(head.named(b"host").is_none() && head.named(b"x-denied").is_none());
                    }
                    Event::Body(piece) => assert!(*progress == Progress::Head && !piece.is_empty()),
                    Event::End(_) => {
                        assert!(*progress == Progress::Head);
                        *progress = Progress::End;
                    }
                }
            }
        }
        if self.processor.take_stop().is_some() {
            assert!(!self.is_stopped, "a second stop");
            self.is_stopped = true;
        }
        if self.is_stopped {
            assert!(self.processor.is_finished() && self.processor.awaited().is_none());
            return;
        }
        for side in SIDES.into_iter().filter(|side| self.has_head[*side as usize]) {
            let is_over = self.progress[side as usize] == Progress::End;
            let can_go_on = self.processor.room(side) > 0 || self.processor.awaited().is_some();
            assert!(is_over || can_go_on, "{side:?} hangs");
            assert!(!self.processor.is_bypassed() || is_over || !self.has_ended[side as usize]);
        }
    }
}

/// A message that conforms to the protocol.
fn processing_response(call: u8, input: &mut Input<'_>) -> ProcessingResponse {
    let bytes = input.bytes();
    let kind = input.byte().unwrap_or(0);
    let mutation = match kind % 5 {
        0 => None,
        1 => Some(Mutation::Body(bytes.to_vec())),
        2 => Some(Mutation::ClearBody(true)),
        _ => Some(Mutation::StreamedResponse(StreamedBodyResponse {
            body: bytes.to_vec(),
            end_of_stream: kind & 128 == 0,
        })),
    };
    let response = Some(CommonResponse {
        status: i32::from(kind & 64 != 0),
        header_mutation: None,
        body_mutation: mutation.map(|mutation| BodyMutation { mutation: Some(mutation) }),
    });
    let headers = HeadersResponse { response: response.clone() };
    let body = BodyResponse { response };
    let trailers = TrailersResponse { header_mutation: None };
    let mode = ProcessingMode {
        request_body_mode: i32::from(kind % 7),
        response_body_mode: i32::from(kind % 6),
        response_header_mode: i32::from(kind % 3),
        ..ProcessingMode::default()
    };
    ProcessingResponse {
        response: Some(match (call >> 4) % 6 {
            0 => Response::RequestHeaders(headers),
            1 => Response::ResponseHeaders(headers),
            2 => Response::RequestBody(body),
            3 => Response::ResponseBody(body),
            4 => Response::RequestTrailers(trailers),
            _ => Response::ResponseTrailers(trailers),
        }),
        mode_override: Some(mode).filter(|_| kind & 32 != 0),
        ..ProcessingResponse::default()
    }
}
