//! The `h2` crate as client and as server, over an in-memory pipe: each side receives what the other sends.

use std::collections::BTreeMap;

use bytes::Bytes;
use fairway_http::Head;
use fairway_http2::hpack::StringCoding;
use fairway_http2::{Client, Config, Event, Server};
use http::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// Names and values in a defined order, for comparing both sides.
type Fields = Vec<(String, String)>;

fn fields(head: &Head) -> Fields {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut fields: Fields =
        head.fields().map(|field| (text(field.name).to_lowercase(), text(field.value))).collect();
    fields.sort();
    fields
}

fn of_map(map: &http::HeaderMap) -> Fields {
    let mut fields: Fields =
        map.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    fields.sort();
    fields
}

/// A body that is sent as windows allow.
#[derive(Default)]
struct Outgoing {
    body: Vec<u8>,
    sent: usize,
}

/// Serves until the client leaves: every response echoes the request's fields, body and trailers.
async fn serve(mut stream: DuplexStream, config: Config) {
    let (mut server, mut head) = (Server::new(config, 0), Head::new());
    let (mut input, mut bodies): (Vec<u8>, BTreeMap<u32, Outgoing>) = (Vec::new(), BTreeMap::new());
    let mut ready = Vec::new();
    loop {
        let mut at = 0;
        loop {
            let (used, event) = server.receive(0, &input[at..], &mut head);
            at += used;
            match event {
                Event::NeedMore => break,
                Event::Head { stream, end, .. } => {
                    let mut response = Head::new();
                    response.start_response(200);
                    response.append(b"x-target", head.target());
                    for field in head.fields() {
                        response.append(&[b"echo-", field.name].concat(), field.value);
                    }
                    assert!(server.send_head(stream, &response, false));
                    bodies.insert(stream, Outgoing::default());
                    ready.extend(end.then_some(stream));
                }
                Event::Data { stream, bytes, end } => {
                    bodies.get_mut(&stream).unwrap().body.extend_from_slice(bytes);
                    let count = u32::try_from(bytes.len()).unwrap();
                    server.consume(stream, count);
                    ready.extend(end.then_some(stream));
                }
                Event::Trailers { stream } => ready.push(stream),
                Event::Writable { .. } | Event::Settings => {}
                Event::GoAway { .. } => {}
                event => panic!("{event:?}"),
            }
        }
        input.drain(..at);
        ready.retain(|stream| !send(&mut server, *stream, bodies.get_mut(stream).unwrap()));
        let pending = server.pending().to_vec();
        if stream.write_all(&pending).await.is_err() {
            return;
        }
        server.mark_written(pending.len());
        if !ready.is_empty() && ready.iter().any(|stream| server.room(*stream) > 0) {
            continue;
        }
        let mut chunk = [0; 7000];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => input.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Sends as much as fits. Returns whether that was all.
fn send(server: &mut Server, stream: u32, outgoing: &mut Outgoing) -> bool {
    outgoing.sent += server.send_data(stream, &outgoing.body[outgoing.sent..], false);
    if outgoing.sent < outgoing.body.len() {
        return false;
    }
    assert!(server.send_trailers(stream, [(&b"x-end"[..], &b"yes"[..])].into_iter()));
    server.release(stream);
    true
}

async fn body_of(mut body: h2::RecvStream) -> (Vec<u8>, Option<http::HeaderMap>) {
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let chunk = piece.unwrap();
        body.flow_control().release_capacity(chunk.len()).unwrap();
        bytes.extend_from_slice(&chunk);
    }
    (bytes, body.trailers().await.unwrap())
}

async fn send_all(mut stream: h2::SendStream<Bytes>, mut body: Bytes) {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let capacity = std::future::poll_fn(|context| stream.poll_capacity(context)).await.unwrap().unwrap();
        let chunk = body.split_to(capacity.min(body.len()));
        stream.send_data(chunk, false).unwrap();
    }
    stream.send_data(Bytes::new(), true).unwrap();
}

fn request(number: usize) -> Request<()> {
    Request::post(format!("https://a.example/x/{number}?q=%20"))
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("x-number", number.to_string())
        .header("x-same", "always the same value, which enters the table")
        .header("accept", "*/*")
        .body(())
        .unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn the_h2_crate_is_served() {
    for (encoder_table, strings) in [(0, StringCoding::Plain), (4096, StringCoding::Huffman)] {
        let (ours, theirs) = duplex(20_000);
        let served = tokio::spawn(serve(
            ours,
            Config { encoder_table_bytes: encoder_table, string_coding: strings, ..Config::default() },
        ));
        let (mut client, connection) = h2::client::handshake(theirs).await.unwrap();
        let driven = tokio::spawn(connection);
        for number in 0..40 {
            let body: Vec<u8> = (0..number * 5_000).map(|at| (at % 251) as u8).collect();
            client = client.ready().await.unwrap();
            let (answer, stream) = client.send_request(request(number), false).unwrap();
            tokio::spawn(send_all(stream, body.clone().into()));
            let response = answer.await.unwrap();
            assert_eq!(response.status(), 200);
            let expected: Fields = [
                ("echo-accept", "*/*"),
                ("echo-cookie", "a=1; b=2"),
                ("echo-host", "a.example"),
                ("echo-x-number", &number.to_string()),
                ("echo-x-same", "always the same value, which enters the table"),
                ("x-target", &format!("/x/{number}?q=%20")),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
            assert_eq!(of_map(response.headers()), expected);
            let (back, trailers) = body_of(response.into_body()).await;
            assert!(back == body, "{} of {} bytes came back", back.len(), body.len());
            assert_eq!(of_map(&trailers.unwrap()), [("x-end".to_owned(), "yes".to_owned())]);
        }
        drop(client);
        driven.await.unwrap().unwrap();
        served.await.unwrap();
    }
}

/// The `h2` crate as an echo server.
async fn h2_server(stream: DuplexStream) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let mut response = Response::builder().status(201).header("x-path", request.uri().path());
            for (name, value) in of_map(request.headers()) {
                response = response.header(name, value);
            }
            let stream = respond.send_response(response.body(()).unwrap(), false).unwrap();
            let (body, _) = body_of(request.into_body()).await;
            send_all(stream, body.into()).await;
        });
    }
}

#[tokio::test(flavor = "current_thread")]
async fn requests_and_responses_interoperate_with_the_h2_crate() {
    for (encoder_table, strings) in [(0, StringCoding::Plain), (4096, StringCoding::Huffman)] {
        let (mut ours, theirs) = duplex(20_000);
        tokio::spawn(h2_server(theirs));
        let mut client = Client::new(
            Config { encoder_table_bytes: encoder_table, string_coding: strings, ..Config::default() },
            0,
        );
        for number in 0..30usize {
            let body: Vec<u8> = (0..number * 5_000).map(|at| (at % 251) as u8).collect();
            let (answer, back) = send_request(&mut client, &mut ours, number, &body).await;
            assert_eq!(answer.status(), 201);
            let expected = [("x-number", number.to_string()), ("x-path", format!("/y/{number}"))];
            assert_eq!(fields(&answer), expected.map(|(name, value)| (name.to_owned(), value)));
            assert!(back == body, "{} of {} bytes came back", back.len(), body.len());
        }
    }
}

/// One request and its response.
async fn send_request(
    client: &mut Client,
    stream: &mut DuplexStream,
    number: usize,
    body: &[u8],
) -> (Head, Vec<u8>) {
    let mut head = Head::new();
    head.start_request(b"PUT", format!("/y/{number}").as_bytes());
    head.append(b"Host", b"a.example");
    head.append(b"X-Number", number.to_string().as_bytes());
    let id = client.send_head(&head, head.target(), b"https", false).expect("there is room for one");
    let (mut answer, mut back, mut sent, mut ended) = (Head::new(), Vec::new(), 0, false);
    let mut input: Vec<u8> = Vec::new();
    loop {
        if !ended {
            sent += client.send_data(id, &body[sent..], true);
            ended = sent == body.len();
        }
        let pending = client.pending().to_vec();
        stream.write_all(&pending).await.unwrap();
        client.mark_written(pending.len());
        let mut at = 0;
        loop {
            let (used, event) = client.receive(0, &input[at..], &mut head);
            at += used;
            match event {
                Event::NeedMore => break,
                Event::Head { .. } => answer = head.clone(),
                Event::Data { bytes, end, .. } => {
                    back.extend_from_slice(bytes);
                    client.consume(id, u32::try_from(bytes.len()).unwrap());
                    if end {
                        assert_eq!(at, input.len(), "one stream at a time");
                        client.release(id);
                        return (answer, back);
                    }
                }
                Event::Writable { .. } | Event::Settings => {}
                event => panic!("{event:?}"),
            }
        }
        input.drain(..at);
        if !client.pending().is_empty() || (!ended && client.room(id) > 0) {
            continue;
        }
        let mut chunk = [0; 9000];
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the server stays");
        input.extend_from_slice(&chunk[..count]);
    }
}
