//! Extension services, in virtual time. The service speaks gRPC over HTTP/1.1, which makes no difference to the exchange.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_extension::frame::{FrameReader, encode};
use fairway_extension::generated::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeaderValue, HeaderValueOption,
    HeadersResponse, HttpStatus, ImmediateResponse, ProcessingRequest, ProcessingResponse, body_mutation,
    header_value_option, processing_request, processing_response,
};
use fairway_model::{BodyMode, Extension, GrpcService, MutationRules, Phases, ProcessingPhases, Timeouts};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::steps_tests::{ReceivedRequests, field, run_ready_tasks, serve_responses};
use crate::testing::{GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, run_local};

const POST: &str = "POST /p?q=1 HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\nX-Secret: s\r\n\r\nbody";

/// The service's response to a message; with `None` it never responds.
type RespondFn = Rc<dyn Fn(&processing_request::Request) -> Option<processing_response::Response>>;

/// Messages that the service received.
type Messages = Rc<RefCell<Vec<ProcessingRequest>>>;

fn extension(request: ProcessingPhases, response: ProcessingPhases) -> Extension {
    Extension {
        name: "ExtensionPolicy/shop/ext".into(),
        service: GrpcService {
            backend: "a".into(),
            authority: "ext.test".into(),
            timeouts: Timeouts::default(),
        },
        message_timeout: Duration::from_millis(200),
        failure_mode_allow: false,
        request,
        response,
        allow_mode_override: false,
        mutation_rules: MutationRules::default(),
        max_buffered_body: 64 * 1024,
        attributes: Vec::new(),
        metadata: Vec::new(),
        picks_endpoint: false,
    }
}

fn headers() -> ProcessingPhases {
    ProcessingPhases { headers: true, ..ProcessingPhases::default() }
}

fn with_body(body: BodyMode) -> ProcessingPhases {
    ProcessingPhases { body, ..headers() }
}

fn phases(extension: Extension) -> Vec<Phases> {
    vec![Phases { extensions: vec![Arc::new(extension)], ..Phases::default() }]
}

/// A service that responds to every message of a stream.
async fn serving(mut stream: DuplexStream, reply: RespondFn, messages: Messages) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    assert!(head.starts_with("POST /envoy.service.ext_proc.v3.ExternalProcessor/Process "), "{head}");
    assert_eq!(field(&head, "content-type"), Some("application/grpc"), "{head}");
    let begin = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    if stream.write_all(begin.as_bytes()).await.is_err() {
        return;
    }
    let mut frames = FrameReader::new(1 << 20);
    loop {
        let Some(chunk) = chunk(&mut stream).await else { return };
        if chunk.is_empty() {
            // The exchange may already be over.
            let _ = stream.write_all(b"0\r\ngrpc-status: 0\r\n\r\n").await;
            return;
        }
        let mut responses = Vec::new();
        let respond = |message: &[u8]| {
            let request = ProcessingRequest::decode(message).unwrap();
            if let Some(response) = request.request.as_ref().and_then(|request| reply(request)) {
                responses.extend(encode(&ProcessingResponse {
                    response: Some(response),
                    ..ProcessingResponse::default()
                }));
            }
            messages.borrow_mut().push(request);
            true
        };
        frames.feed(&chunk, respond).unwrap();
        if !responses.is_empty() {
            let framed = [format!("{:x}\r\n", responses.len()).as_bytes(), &responses, b"\r\n"].concat();
            if stream.write_all(&framed).await.is_err() {
                return;
            }
        }
    }
}

/// The content of the next chunk; empty for the last one.
async fn chunk(stream: &mut DuplexStream) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.ok()?);
    }
    let length = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
    let mut content = vec![0; length + 2];
    stream.read_exact(&mut content).await.ok()?;
    content.truncate(length);
    Some(content)
}

struct Scene {
    stage: TestWorker,
    received: ReceivedRequests,
    messages: Messages,
}

fn scene(
    extension: Extension,
    response: &'static str,
    answer: impl Fn(&processing_request::Request) -> Option<processing_response::Response> + 'static,
) -> Scene {
    let (seen, messages): (ReceivedRequests, Messages) = Default::default();
    let reply: RespondFn = Rc::new(answer);
    let script = {
        let (seen, messages) = (Rc::clone(&seen), Rc::clone(&messages));
        move |to: SocketAddr| {
            let (seen, messages, answer) = (Rc::clone(&seen), Rc::clone(&messages), Rc::clone(&reply));
            match to.port() {
                100 => ScriptedConnect::served_by(move |stream| serving(stream, answer, messages)),
                number => ScriptedConnect::served_by(move |stream| {
                    serve_responses(number, response.as_bytes(), seen, stream)
                }),
            }
        }
    };
    Scene { stage: TestWorker::with_phases(1, phases(extension), script), received: seen, messages }
}

fn ok() -> &'static str {
    std::str::from_utf8(OK_RESPONSE).unwrap()
}

fn set(name: &str, value: &str) -> HeaderMutation {
    let header =
        HeaderValue { key: name.to_owned(), raw_value: value.as_bytes().to_vec(), ..HeaderValue::default() };
    let append_action = header_value_option::HeaderAppendAction::OverwriteIfExistsOrAdd.into();
    HeaderMutation {
        set_headers: vec![HeaderValueOption { header: Some(header), append: None, append_action }],
        ..HeaderMutation::default()
    }
}

fn common(header_mutation: Option<HeaderMutation>, body: Option<&[u8]>) -> Option<CommonResponse> {
    let mutation = |body: &[u8]| body_mutation::Mutation::Body(body.to_vec());
    let body_mutation = body.map(|body| BodyMutation { mutation: Some(mutation(body)) });
    Some(CommonResponse { header_mutation, body_mutation, ..CommonResponse::default() })
}

/// Lets everything pass.
fn pass(request: &processing_request::Request) -> Option<processing_response::Response> {
    Some(match request {
        processing_request::Request::RequestHeaders(_) => {
            processing_response::Response::RequestHeaders(HeadersResponse::default())
        }
        processing_request::Request::ResponseHeaders(_) => {
            processing_response::Response::ResponseHeaders(HeadersResponse::default())
        }
        processing_request::Request::RequestBody(_) => {
            processing_response::Response::RequestBody(BodyResponse::default())
        }
        processing_request::Request::ResponseBody(_) => {
            processing_response::Response::ResponseBody(BodyResponse::default())
        }
        _ => return None,
    })
}

#[tokio::test(start_paused = true)]
async fn the_headers_of_a_request_and_its_response_are_changed() {
    run_local(async {
        let Scene { stage, received: seen, messages } =
            scene(extension(headers(), headers()), ok(), |request| {
                Some(match request {
                    processing_request::Request::RequestHeaders(_) => {
                        let response = common(Some(set("x-user", "alice")), None);
                        processing_response::Response::RequestHeaders(HeadersResponse { response })
                    }
                    _ => {
                        let response = common(Some(set("x-seen", "yes")), None);
                        processing_response::Response::ResponseHeaders(HeadersResponse { response })
                    }
                })
            });
        let mut client = stage.client();
        for _ in 0..2 {
            client.send(POST).await;
            let text = client.response_text().await;
            assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
            assert_eq!(field(&text, "x-seen"), Some("yes"), "{text}");
        }
        let forwarded = seen.borrow()[0].1.clone();
        assert_eq!(field(&forwarded, "x-user"), Some("alice"), "{forwarded}");
        assert!(forwarded.ends_with("\r\n\r\nbody"), "{forwarded}");
        assert_eq!(messages.borrow().len(), 4);
        drop(client);
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
        assert!(stage.has_metric_line("fairway_extension_streams_total{result=\"finished\"} 2"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_sees_no_more_than_the_head_of_a_request_is_out_of_the_way_then() {
    run_local(async {
        let none = ProcessingPhases::default();
        let Scene { stage, received: seen, messages } = scene(extension(headers(), none), ok(), pass);
        assert_eq!(stage.client().request(POST).await.unwrap().status, 200);
        assert!(seen.borrow()[0].1.ends_with("\r\n\r\nbody"));
        assert_eq!(messages.borrow().len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bodies_in_both_directions_are_replaced() {
    for mode in [BodyMode::Streamed, BodyMode::Buffered, BodyMode::BufferedPartial] {
        run_local(async {
            let extension = extension(with_body(mode), with_body(mode));
            let Scene { stage, received: seen, .. } = scene(extension, ok(), |request| match request {
                processing_request::Request::RequestBody(body) if !body.body.is_empty() => {
                    let response = common(None, Some(b"other body"));
                    Some(processing_response::Response::RequestBody(BodyResponse { response }))
                }
                processing_request::Request::ResponseBody(body) if !body.body.is_empty() => {
                    let upper = body.body.to_ascii_uppercase();
                    let response = common(None, Some(&upper));
                    Some(processing_response::Response::ResponseBody(BodyResponse { response }))
                }
                other => pass(other),
            });
            let mut client = stage.client();
            client.send(POST).await;
            let reply = client.response_text().await;
            assert!(reply.starts_with("HTTP/1.1 200 "), "{mode:?}: {reply}");
            run_ready_tasks().await;
            let received = seen.borrow();
            // The script of the endpoint reads no chunks.
            if mode != BodyMode::Streamed {
                assert_eq!(received.len(), 1, "{mode:?}");
                assert!(received[0].1.ends_with("\r\n\r\nother body"), "{mode:?}: {}", received[0].1);
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_responds_in_place_of_the_endpoint() {
    run_local(async {
        let Scene { stage, received: seen, .. } = scene(extension(headers(), headers()), ok(), |_| {
            Some(processing_response::Response::ImmediateResponse(ImmediateResponse {
                status: Some(HttpStatus { code: 403 }),
                headers: Some(set("x-rule", "942100")),
                body: b"no".to_vec(),
                ..ImmediateResponse::default()
            }))
        });
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        let text = client.response_text().await;
        assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
        assert_eq!((field(&text, "x-rule"), text.ends_with("\r\n\r\nno")), (Some("942100"), true), "{text}");
        assert!(seen.borrow().is_empty(), "the endpoint hears nothing");
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 403, "the connection stays");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_service_closes_or_is_bypassed_as_the_policy_says() {
    for (failure_mode_allow, status) in [(false, 500), (true, 200)] {
        run_local(async {
            let extension = Extension { failure_mode_allow, ..extension(headers(), headers()) };
            let Scene { stage, received: seen, .. } = scene(extension, ok(), |_| None);
            let began = tokio::time::Instant::now();
            assert_eq!(stage.client().request(POST).await.unwrap().status, status);
            assert!(began.elapsed() < Duration::from_secs(1), "its messages have 200 ms");
            assert_eq!(seen.borrow().len(), usize::from(failure_mode_allow));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leaving_client_ends_the_stream_and_the_inner_exchange() {
    run_local(async {
        let slow =
            Extension { message_timeout: Duration::from_secs(3600), ..extension(headers(), headers()) };
        let Scene { stage, .. } = scene(slow, ok(), |request| match request {
            processing_request::Request::ResponseHeaders(_) => None,
            other => pass(other),
        });
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        run_ready_tasks().await;
        drop(client);
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}
