//! An extension service that passes everything unchanged, for `ext_proc` and `ext_authz`, used by peers with extensions. It
//! runs in this process, on the generator's CPU, so it costs no peer anything.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::TcpStream;

/// The bytes before a message of gRPC: a flag and the length.
const PREFIX: usize = 5;
/// Larger messages end their call.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes that peers may send before they have to wait.
const WINDOW: u32 = 4 * 1024 * 1024;
/// `CheckResponse` with the status 0 and an `OkHttpResponse` that changes nothing.
const ALLOWED: &[u8] = &[0, 0, 0, 0, 4, 0x0a, 0, 0x1a, 0];
/// The fields of `ProcessingRequest` that give the part of an exchange that a message is about.
const PHASES: std::ops::RangeInclusive<u64> = 2..=7;

/// Listens on a loopback address, which it returns, until the process ends.
pub(crate) fn listen() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    thread::spawn(move || runtime.block_on(accept(listener)));
    Ok(address)
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A peer that disconnects is still measured.
        tokio::spawn(async move { serve(stream).await.ok() });
    }
}

async fn serve(stream: TcpStream) -> Result<(), h2::Error> {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).max_concurrent_streams(10_000);
    let mut connection = builder.handshake::<_, Bytes>(stream).await?;
    while let Some(call) = connection.accept().await {
        let (request, respond) = call?;
        tokio::spawn(async move { answer_call(request, respond).await.ok() });
    }
    Ok(())
}

/// Responds to each message of a call as it arrives.
async fn answer_call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let is_check = request.uri().path().ends_with("/Check");
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let mut send = respond.send_response(head, false)?;
    let mut body = request.into_body();
    let mut received = Vec::new();
    while let Some(piece) = body.data().await {
        let chunk = piece?;
        body.flow_control().release_capacity(chunk.len())?;
        received.extend_from_slice(&chunk);
        let mut responses = Vec::new();
        while let Some(message) = next_message(&mut received) {
            match (is_check, phase(&message)) {
                (true, _) => responses.extend_from_slice(ALLOWED),
                (false, Some(phase)) => responses.extend_from_slice(&unchanged(phase)),
                (false, None) => send.send_reset(h2::Reason::PROTOCOL_ERROR),
            }
        }
        if received.len() > MAX_MESSAGE_BYTES {
            send.send_reset(h2::Reason::ENHANCE_YOUR_CALM);
            return Ok(());
        }
        if !responses.is_empty() {
            send.send_data(responses.into(), false)?;
        }
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    send.send_trailers(trailers)
}

/// Takes the first message, if it is complete.
fn next_message(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let (prefix, rest) = received.split_first_chunk::<PREFIX>()?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    let message = rest.get(..length)?.to_vec();
    received.drain(..PREFIX + length);
    Some(message)
}

/// The field number of the part of an exchange that a `ProcessingRequest` is about.
fn phase(mut message: &[u8]) -> Option<u8> {
    loop {
        let tag = varint(&mut message)?;
        if PHASES.contains(&(tag >> 3)) {
            return u8::try_from(tag >> 3).ok();
        }
        let skipped = match tag & 7 {
            0 => {
                varint(&mut message)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        message = message.get(skipped..)?;
    }
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The `ProcessingResponse` that leaves a part as it is: its fields have the numbers of the request's less one, and are empty.
fn unchanged(phase: u8) -> [u8; PREFIX + 2] {
    [0, 0, 0, 0, 2, ((phase - 1) << 3) | 2, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart_wherever_they_were_cut() {
        let mut received = Vec::new();
        let bytes = [0, 0, 0, 0, 2, 0x12, 0, 0, 0, 0, 0, 1, 7];
        let mut found = Vec::new();
        for byte in bytes {
            received.push(byte);
            found.extend(next_message(&mut received));
        }
        assert_eq!(found, [vec![0x12, 0], vec![7]]);
        assert!(received.is_empty());
    }

    #[test]
    fn a_phase_is_found_behind_other_fields() {
        // request_headers alone; metadata_context (8) and observability_mode (10) before response_body (5); nothing; a
        // broken length.
        assert_eq!(phase(&[0x12, 0]), Some(2));
        assert_eq!(phase(&[0x42, 2, 1, 1, 0x50, 1, 0x2a, 0]), Some(5));
        assert_eq!(phase(&[0x50, 1]), None);
        assert_eq!(phase(&[0x42, 200]), None);
        assert_eq!(unchanged(2), [0, 0, 0, 0, 2, 0x0a, 0]);
        assert_eq!(unchanged(7), [0, 0, 0, 0, 2, 0x32, 0]);
    }
}
