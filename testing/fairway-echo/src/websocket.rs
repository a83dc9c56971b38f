//! A WebSocket that sends back every frame (RFC 6455), over HTTP/1 upgrades and HTTP/2 (RFC 8441). No extensions, no
//! subprotocols.

use std::io;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header, request};
use hyper::ext::Protocol;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::body::EchoBody;

/// What a server adds to the key (RFC 6455 §1.3).
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest frame that is sent back.
const LONGEST: u64 = 16 * 1024 * 1024;

const TEXT_TO_BINARY: std::ops::RangeInclusive<u8> = 0..=2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The answer that opens a WebSocket, or `None` when the request does not ask for one.
pub(crate) fn opening(request: &request::Parts) -> Option<Response<EchoBody>> {
    let mut answer = Response::new(EchoBody::from(Bytes::new()));
    if request.extensions.get::<Protocol>().is_some_and(|protocol| protocol.as_str() == "websocket") {
        return Some(answer);
    }
    let key = request.headers.get(header::SEC_WEBSOCKET_KEY)?;
    let asked = request.method == Method::GET
        && has_token(&request.headers, &header::UPGRADE, "websocket")
        && has_token(&request.headers, &header::CONNECTION, "upgrade");
    if !asked {
        return None;
    }
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = accept_key(key.as_bytes()).parse().expect("base64 is a field value");
    let fields = answer.headers_mut();
    fields.insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
    fields.insert(header::CONNECTION, header::HeaderValue::from_static("Upgrade"));
    fields.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Some(answer)
}

fn has_token(fields: &HeaderMap, name: &header::HeaderName, token: &str) -> bool {
    let values = fields.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|element| element.trim().eq_ignore_ascii_case(token))
}

/// RFC 6455 §4.2.2, item 5.4.
fn accept_key(key: &[u8]) -> String {
    let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, KEY_SUFFIX.as_bytes()].concat());
    STANDARD.encode(sum)
}

/// A frame from a client, unmasked.
struct ClientFrame {
    /// FIN, the reserved bits and the opcode, as they came.
    first: u8,
    payload: Vec<u8>,
}

/// Why a connection is given up, as the status of a close frame (RFC 6455 §7.4.1).
enum Refusal {
    Protocol = 1002,
    TooBig = 1009,
}

/// Sends every frame back until the client closes.
pub(crate) async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    loop {
        let frame = match read_frame(&mut stream).await? {
            Ok(frame) => frame,
            Err(refusal) => {
                write_frame(&mut stream, 0x80 | CLOSE, &(refusal as u16).to_be_bytes()).await?;
                return stream.shutdown().await;
            }
        };
        match frame.first & 0x0f {
            CLOSE => {
                write_frame(&mut stream, frame.first, &frame.payload).await?;
                return stream.shutdown().await;
            }
            PING => write_frame(&mut stream, 0x80 | PONG, &frame.payload).await?,
            opcode if TEXT_TO_BINARY.contains(&opcode) => {
                write_frame(&mut stream, frame.first, &frame.payload).await?;
            }
            _unasked_pong => {}
        }
    }
}

/// RFC 6455 §5.2.
async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<ClientFrame, Refusal>> {
    let [first, second] = [stream.read_u8().await?, stream.read_u8().await?];
    let (reserved, opcode, control) = (first & 0x70, first & 0x0f, first & 0x08 != 0);
    // §5.1: a client masks every frame; §5.5: a control frame is short and whole.
    let fits_control = first & 0x80 != 0 && second & 0x7f < 126;
    let known = TEXT_TO_BINARY.contains(&opcode) || (CLOSE..=PONG).contains(&opcode);
    if second & 0x80 == 0 || reserved != 0 || !known || (control && !fits_control) {
        return Ok(Err(Refusal::Protocol));
    }
    let length = match second & 0x7f {
        126 => u64::from(stream.read_u16().await?),
        127 => stream.read_u64().await?,
        short => u64::from(short),
    };
    if length > LONGEST {
        return Ok(Err(Refusal::TooBig));
    }
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).await?;
    let mut payload = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    stream.read_exact(&mut payload).await?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok(Ok(ClientFrame { first, payload }))
}

async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), first: u8, payload: &[u8]) -> io::Result<()> {
    let mut frame = vec![first];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ 0..126), _) => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    stream.write_all(&frame).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | u8::try_from(length).unwrap()),
            length => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
        }
        frame.extend([1, 2, 3, 4]);
        frame.extend(payload.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    async fn answer_to(sent: &[u8]) -> Vec<u8> {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        // The end of the input inside the loop is an error of the stream and not of the test.
        drop(echo(server).await);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        answer
    }

    #[test]
    fn the_key_of_the_specification_is_accepted() {
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn data_comes_back_and_a_ping_becomes_a_pong() {
        let sent =
            [masked(0x81, b"hello"), masked(0x89, b"p"), masked(0x02, b"a"), masked(0x80, b"b")].concat();
        assert_eq!(answer_to(&sent).await, b"\x81\x05hello\x8a\x01p\x02\x01a\x80\x01b");
        let long = vec![b'x'; 300];
        assert_eq!(answer_to(&masked(0x82, &long)).await, [&[0x82, 126, 1, 44][..], &long].concat());
    }

    #[tokio::test]
    async fn a_close_is_answered_and_ends_it() {
        let sent = [masked(0x88, &[3, 232]), masked(0x81, b"late")].concat();
        assert_eq!(answer_to(&sent).await, [0x88, 2, 3, 232]);
    }

    #[tokio::test]
    async fn frames_against_the_rules_are_refused() {
        for bad in [&[0x81, 1, b'x'][..], &masked(0xc1, b"x"), &masked(0x83, b"x"), &masked(0x09, b"x")] {
            assert_eq!(answer_to(bad).await, [0x88, 2, 3, 234], "{bad:?}");
        }
        let huge = [&[0x82, 0xff][..], &(LONGEST + 1).to_be_bytes()].concat();
        assert_eq!(answer_to(&huge).await, [0x88, 2, 3, 241]);
    }
}
