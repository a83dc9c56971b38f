//! gRPC calls of HTTP/1 clients in virtual time: gRPC-Web translated to gRPC, and Fairway's own responses to gRPC clients.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{AccessList, ErrorPages, Forwarding, Guard, Phases};
use fairway_testkit::wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::testing::{Client, OK_RESPONSE, ScriptedConnect, TestWorker, endpoint, run_local};

/// Three messages of two bytes, each with a prefix of five.
const BODY: &[u8] = b"\0\0\0\0\x02ab\0\0\0\0\x02cd\0\0\0\0\x02ef";
const TEXT: &str = "AAAAAAJhYg==AAAAAAJjZA==AAAAAAJlZg==";

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc+proto\r\nTransfer-Encoding: chunked\r\n\r\n\
    7\r\n\0\0\0\0\x02ab\r\n0\r\nGrpc-Status: 0\r\ngrpc-message: fine\r\n\r\n";
const TRAILERS: &[u8] = b"\x80\0\0\0\x24grpc-status: 0\r\ngrpc-message: fine\r\n";

/// What the endpoint received: heads, and bodies without framing.
type ReceivedRequests = Rc<RefCell<Vec<(String, Vec<u8>)>>>;

/// Repeatedly reads a complete request, then sends this.
async fn answering(mut stream: DuplexStream, response: Vec<u8>, received: ReceivedRequests) {
    let mut bytes = Vec::new();
    loop {
        let (head, body, used) = loop {
            if let Some(request) = request(&bytes) {
                break request;
            }
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        };
        bytes.drain(..used);
        received.borrow_mut().push((head, body));
        if stream.write_all(&response).await.is_err() {
            return;
        }
    }
}

fn request(bytes: &[u8]) -> Option<(String, Vec<u8>, usize)> {
    let head = wire::head(bytes).unwrap()?;
    let (text, rest) = bytes.split_at(head.length);
    let (body, length) = match wire::framing(&head.fields).unwrap() {
        Some(wire::Framing::Chunked) => {
            let body = wire::chunked(rest).unwrap()?;
            (body.content, body.length)
        }
        Some(wire::Framing::Length(length)) => (rest.get(..length)?.to_vec(), length),
        _ => (Vec::new(), 0),
    };
    Some((String::from_utf8(text.to_vec()).unwrap(), body, head.length + length))
}

fn stage(filters: Vec<Phases>, response: &[u8]) -> (TestWorker, ReceivedRequests) {
    let received = ReceivedRequests::default();
    let (response, theirs) = (response.to_vec(), Rc::clone(&received));
    let script = move |_| {
        let (response, seen) = (response.clone(), Rc::clone(&theirs));
        ScriptedConnect::served_by(move |stream| answering(stream, response, seen))
    };
    (TestWorker::with_phases(1, filters, script), received)
}

fn web_request(content_type: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nX-Grpc-Web: 1\r\n{fields}\
        Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The head and body of the next response.
async fn send_request(client: &mut Client, request: impl AsRef<[u8]>) -> (String, Vec<u8>) {
    client.send(request).await;
    let mut bytes = Vec::new();
    loop {
        if let Some((head, body, used)) = self::request(&bytes) {
            assert_eq!(used, bytes.len());
            return (head, body);
        }
        let count = client.stream.read_buf(&mut bytes).await.unwrap();
        assert!(count > 0, "an answer: {:?}", String::from_utf8_lossy(&bytes));
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

#[tokio::test(start_paused = true)]
async fn a_browser_calls_a_grpc_endpoint() {
    run_local(async {
        let (stage, seen) =
            stage(vec![Phases::from(Forwarding { grpc_web: true, ..Forwarding::default() })], RESPONSE);
        let mut client = stage.client();
        for (content_type, accept, body, expected, answer_type) in [
            (
                "application/grpc-web+proto",
                "",
                BODY,
                [b"\0\0\0\0\x02ab", TRAILERS].concat(),
                "application/grpc-web+proto",
            ),
            (
                "application/grpc-web-text",
                "Accept: application/grpc-web-text\r\n",
                TEXT.as_bytes(),
                b"AAAAAAJhYg==gAAAACRncnBjLXN0YXR1czogMA0KZ3JwYy1tZXNzYWdlOiBmaW5lDQo=".to_vec(),
                "application/grpc-web-text+proto",
            ),
            (
                "application/grpc-web-text+proto",
                "Accept: application/grpc-web+proto\r\n",
                TEXT.as_bytes(),
                [b"\0\0\0\0\x02ab", TRAILERS].concat(),
                "application/grpc-web+proto",
            ),
        ] {
            let (head, body) = send_request(&mut client, web_request(content_type, accept, body)).await;
            assert_eq!(String::from_utf8_lossy(&body), String::from_utf8_lossy(&expected), "{content_type}");
            assert_eq!(field(&head, "Content-Type"), Some(answer_type), "{head}");
            assert_eq!((field(&head, "grpc-status"), field(&head, "Content-Length")), (None, None));
            let (head, body) = seen.borrow_mut().pop().unwrap();
            assert_eq!(body, BODY, "{content_type}");
            let value_of = |name| field(&head, name);
            let expected = content_type.replace("-web", "").replace("-text", "");
            assert_eq!(value_of("Content-Type"), Some(&*expected));
            assert_eq!(
                (value_of("TE"), value_of("X-Grpc-Web"), value_of("Accept")),
                (Some("trailers"), None, None),
                "{head}"
            );
        }
        assert_eq!(stage.connects().len(), 1, "the connection is used again");
        assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"OK\"}"), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn text_is_decoded_wherever_it_is_split() {
    run_local(async {
        let (stage, seen) =
            stage(vec![Phases::from(Forwarding { grpc_web: true, ..Forwarding::default() })], RESPONSE);
        let request = web_request("application/grpc-web-text", "", TEXT.as_bytes());
        let begin = request.len() - TEXT.len();
        let mut client = stage.client();
        for cut in begin..request.len() {
            client.send(&request[..cut]).await;
            for _ in 0..20 {
                yield_now().await;
            }
            send_request(&mut client, &request[cut..]).await;
            assert_eq!(seen.borrow_mut().pop().unwrap().1, BODY, "{cut}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_without_messages_has_its_status_in_the_body() {
    run_local(async {
        let response = b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nGrpc-Status: 12\r\nX-A: b\r\nContent-Length: 0\r\n\r\n";
        let (stage, _) = stage(vec![Phases::from(Forwarding { grpc_web: true, ..Forwarding::default() })], response);
        let (head, body) = send_request(&mut stage.client(), web_request("application/grpc-web", "", BODY)).await;
        assert_eq!(body, b"\x80\0\0\0\x11grpc-status: 12\r\n");
        assert_eq!((field(&head, "grpc-status"), field(&head, "X-A")), (None, Some("b")), "{head}");
        assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"UNIMPLEMENTED\"}"), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_the_filter_the_endpoint_speaks_grpc_web_itself() {
    run_local(async {
        let response =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web-text\r\nContent-Length: 4\r\n\r\nAAAA";
        let (stage, seen) = stage(Vec::new(), response);
        let (head, body) =
            send_request(&mut stage.client(), web_request("application/grpc-web-text", "", TEXT.as_bytes()))
                .await;
        assert_eq!(
            (field(&head, "Content-Type"), &body[..]),
            (Some("application/grpc-web-text"), &b"AAAA"[..])
        );
        let received = seen.borrow();
        assert_eq!(received[0].1, TEXT.as_bytes());
        let value_of = |name| field(&received[0].0, name);
        assert_eq!((value_of("X-Grpc-Web"), value_of("TE")), (Some("1"), None), "{}", received[0].0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn invalid_base64_and_other_responses_are_refused() {
    run_local(async {
        let (stage, seen) =
            stage(vec![Phases::from(Forwarding { grpc_web: true, ..Forwarding::default() })], NOT_FOUND);
        for wrong in ["AAAA*AAA", "AAAAAAJhYg=", "AA=A"] {
            let (head, body) = send_request(
                &mut stage.client(),
                web_request(
                    "application/grpc-web-text",
                    "Accept: application/grpc-web\r\n",
                    wrong.as_bytes(),
                ),
            )
            .await;
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            let body = String::from_utf8_lossy(&body).into_owned();
            assert!(body.ends_with("grpc-status: 13\r\ngrpc-message: 400 Bad Request: base64\r\n"), "{body}");
        }
        assert_eq!(seen.borrow().len(), 0, "no endpoint got a whole request");
        let (head, body) =
            send_request(&mut stage.client(), web_request("application/grpc-web", "", BODY)).await;
        assert!(head.starts_with("HTTP/1.1 404 ") && body == b"plain", "as it is: {head}");
    })
    .await;
}

const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nplain";

#[tokio::test(start_paused = true)]
async fn a_late_response_ends_between_messages_or_is_truncated_within_one() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    let late = b"\x80\0\0\0\x31grpc-status: 4\r\ngrpc-message: deadline_exceeded\r\n";
    for (content_type, chunk, expected) in [
        (
            "application/grpc-web",
            &b"7\r\n\0\0\0\0\x02ab\r\n"[..],
            Some([b"\0\0\0\0\x02ab", &late[..]].concat()),
        ),
        ("application/grpc-web", b"6\r\n\0\0\0\0\x02a\r\n", None),
        ("application/grpc", b"7\r\n\0\0\0\0\x02ab\r\n", None),
    ] {
        run_local(async {
            let (stage, _) = stage(
                vec![Phases::from(Forwarding { grpc_web: true, ..Forwarding::default() })],
                &[head, chunk].concat(),
            );
            let mut client = stage.client();
            client.send(web_request(content_type, "grpc-timeout: 500m\r\n", BODY)).await;
            let began = Instant::now();
            let bytes = client.read_to_end().await;
            assert_eq!(began.elapsed().as_millis() / 10, 50);
            let full_body = request(&bytes).map(|(_, body, _)| body);
            assert_eq!(full_body, expected, "{content_type} {}", chunk.len());
            let counted = stage.metric_value("fairway_grpc_calls_total{status=\"DEADLINE_EXCEEDED\"}");
            assert_eq!(counted, u64::from(expected.is_some()), "what was told");
            assert_eq!(stage.metric_value("fairway_faults_total{reason=\"deadline_exceeded\"}"), 1);
            sleep(Duration::from_secs(10)).await;
            assert_eq!(stage.check_idle(), Ok(()));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_tells_its_refusals_in_the_clients_dialect_and_pages_are_for_people() {
    run_local(async {
        let nobody = AccessList { deny: vec!["192.0.2.0/24".parse().unwrap()], allow: Vec::new() };
        let pages = ErrorPages { statuses: vec![403], backend: Some("c".into()), fields: Vec::new() };
        let filters = vec![Phases::from(Guard::Access(nobody)), Phases::from(pages)];
        let (stage, seen) = stage(filters, OK_RESPONSE);
        let mut client = stage.client();
        let (head, body) = send_request(&mut client, web_request("application/grpc", "", b"")).await;
        let value_of = |name| field(&head, name);
        assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head}");
        assert_eq!(
            (value_of("grpc-status"), value_of("grpc-message")),
            (Some("7"), Some("403 Forbidden: access_denied"))
        );
        assert_eq!(
            (value_of("Content-Type"), value_of("Content-Length")),
            (Some("application/grpc"), Some("0"))
        );
        let (head, body) =
            send_request(&mut client, web_request("application/grpc-web-text+proto", "", b"")).await;
        assert_eq!(field(&head, "Content-Type"), Some("application/grpc-web-text"), "{head}");
        assert!(body.starts_with(b"gAAAAD"), "{}", String::from_utf8_lossy(&body));
        assert!(seen.borrow().is_empty());
        send_request(&mut client, web_request("text/plain", "", b"")).await;
        assert_eq!(seen.borrow().len(), 1, "the page");
        assert_eq!(stage.connects()[0].1, endpoint(102));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn unserved_calls_get_a_grpc_web_status() {
    run_local(async {
        let (stage, _) = stage(Vec::new(), OK_RESPONSE);
        let request = "TRACE / HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\r\n";
        let (head, _) = send_request(&mut stage.client(), request).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(field(&head, "grpc-status"), Some("12"), "{head}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_large_text_response_arrives_completely_at_a_slow_client() {
    run_local(async {
        let message = vec![7; 300_000];
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let frame = [&[0][..], &length, &message].concat();
        let chunk = format!("{:x}\r\n", frame.len());
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
        let end = &b"\r\n0\r\ngrpc-status: 0\r\n\r\n"[..];
        let response = [head.as_bytes(), chunk.as_bytes(), &frame, end].concat();
        let (stage, _) =
            stage(vec![Phases::from(Forwarding { grpc_web: true, ..Forwarding::default() })], &response);
        let (_, body) =
            send_request(&mut stage.client(), web_request("application/grpc-web-text", "", TEXT.as_bytes()))
                .await;
        let mut decoder = fairway_http::grpc::Decoder::default();
        let mut decoded = Vec::new();
        decoder
            .read::<fairway_http::grpc::NotBase64>(&body, |bytes| {
                decoded.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        assert_eq!(decoded, [&frame[..], b"\x80\0\0\0\x10grpc-status: 0\r\n"].concat());
        assert_eq!(body.len(), 4 * frame.len().div_ceil(3) + 28);
    })
    .await;
}
