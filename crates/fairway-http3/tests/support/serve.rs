//! An owner of a server for tests: reads requests to their end and answers them.

use fairway_http::Head;
use fairway_http3::{BodyRead, Event};
use quinn_proto::StreamId;

use super::{Pair, text};

/// What was read of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) trailers: Option<Vec<String>>,
    pub(crate) ended: bool,
    pub(crate) broken: bool,
}

/// Reads the available part of a request.
pub(crate) fn read(pair: &mut Pair, stream: StreamId, max_bytes: usize) -> Body {
    let mut body = Body::default();
    let mut head = Head::new();
    let (server, quic) = pair.both_mut();
    loop {
        match server.read_body(quic, stream, max_bytes, &mut head) {
            BodyRead::Bytes(bytes) => {
                assert!(!bytes.is_empty() && bytes.len() <= max_bytes);
                body.bytes.extend_from_slice(&bytes);
            }
            BodyRead::Trailers => body.trailers = Some(text(&head)),
            BodyRead::Blocked => return body,
            BodyRead::End => {
                body.ended = true;
                return body;
            }
            BodyRead::Broken => {
                body.broken = true;
                return body;
            }
        }
    }
}

/// A response head.
pub(crate) fn response(status: u16, fields: &[(&str, &str)]) -> Head {
    let mut head = Head::new();
    head.start_response(status);
    for (name, value) in fields {
        head.append(name.as_bytes(), value.as_bytes());
    }
    head
}

/// Sends an empty response and releases the stream.
pub(crate) fn respond_204(pair: &mut Pair, stream: StreamId) {
    let (server, quic) = pair.both_mut();
    server.send_head(quic, stream, &response(204, &[]), true);
    server.release(quic, stream);
}

/// Reads all reported requests, answers complete ones and releases failed ones.
pub(crate) fn answer_all(pair: &mut Pair) {
    let mut open: Vec<StreamId> = Vec::new();
    for event in &pair.events {
        match event {
            Event::Head { stream, .. } | Event::HeadTooLarge { stream, .. } => open.push(*stream),
            _ => {}
        }
    }
    for stream in open {
        if pair.server.slot(stream).is_none() {
            continue;
        }
        let body = read(pair, stream, 64 * 1024);
        if body.ended {
            respond_204(pair, stream);
        } else if body.broken {
            let (server, quic) = pair.both_mut();
            server.release(quic, stream);
        }
    }
}
