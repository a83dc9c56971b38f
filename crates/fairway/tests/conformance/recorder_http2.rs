//! The recorder over HTTP/2: it parses frames and field blocks with its own code, keeps heads and bodies as they are, and writes
//! each request down as a careless downgrader would: one line per field. It records violations of HTTP/2. No code of the proxy is
//! used here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::conformance::readers::Message;
use crate::conformance::recorder::Kept;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The names of RFC 7541, appendix A; `name=value` if the table has a value.
const STATIC: &str = ":authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200 \
    :status=204 :status=206 :status=304 :status=400 :status=404 :status=500 accept-charset \
    accept-encoding=gzip,~deflate accept-language accept-ranges accept access-control-allow-origin age allow authorization \
    cache-control content-disposition content-encoding content-language content-length content-location content-range \
    content-type cookie date etag expect expires from host if-match if-modified-since if-none-match if-range \
    if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range referer \
    refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate";

type Line = (Vec<u8>, Vec<u8>);

/// An incomplete request.
#[derive(Default)]
struct Open {
    lines: Vec<Line>,
    trailers: Vec<Line>,
    body: Vec<u8>,
    has_head: bool,
}

/// Serves a connection until it ends or can no longer be parsed.
pub(crate) async fn connection(mut socket: TcpStream, contents: Arc<Mutex<Kept>>) {
    let number = contents.lock().unwrap().begin_case();
    if let Err(why) = frames(&mut socket, &contents, number).await {
        contents.lock().unwrap().broken.push(why);
    }
}

async fn frames(socket: &mut TcpStream, contents: &Mutex<Kept>, number: usize) -> Result<(), String> {
    let mut preface = [0; 24];
    if socket.read_exact(&mut preface).await.is_err() {
        return Ok(());
    }
    if &preface != b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" {
        return Err(format!("no preface: {preface:?}"));
    }
    // SETTINGS, and a window of 2^31 - 1 for all bodies.
    let mut out = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    out.extend(frame(8, 0, 0, &(0x7fff_ffffu32 - 65_535).to_be_bytes()));
    let (mut open, mut block): (BTreeMap<u32, Open>, Vec<u8>) = Default::default();
    loop {
        let mut header = [0; 9];
        if socket.write_all(&out).await.is_err() || socket.read_exact(&mut header).await.is_err() {
            return Ok(());
        }
        out.clear();
        let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
        if socket.read_exact(&mut payload).await.is_err() {
            return Ok(());
        }
        let (kind, flags) = (header[3], header[4]);
        let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
        match kind {
            HEADERS | CONTINUATION => {
                if flags & 0x28 > 0 {
                    return Err(format!("padding or a priority in {header:?}"));
                }
                block.extend_from_slice(&payload);
                let stream_state = open.entry(stream).or_default();
                if flags & END_HEADERS > 0 {
                    let lines = decode(&std::mem::take(&mut block))?;
                    if stream_state.has_head {
                        stream_state.trailers = lines;
                    } else {
                        stream_state.lines = lines;
                    }
                    stream_state.has_head = true;
                }
                // The flag is on HEADERS; CONTINUATION does not have it.
                if kind == HEADERS && flags & END_STREAM > 0 && flags & END_HEADERS == 0 {
                    return Err("a block that ends a stream in pieces".to_owned());
                }
            }
            DATA => open.entry(stream).or_default().body.extend_from_slice(&payload),
            3 => drop(open.remove(&stream)),
            4 if flags & 1 == 0 => out.extend(frame(4, 1, 0, &[])),
            6 if flags & 1 == 0 => out.extend(frame(6, 1, 0, &payload)),
            _ => {}
        }
        if kind <= HEADERS
            && flags & END_STREAM > 0
            && let Some(one) = open.remove(&stream)
        {
            out.extend(respond(stream, &one, contents, number));
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Records a complete request and responds to it.
fn respond(stream: u32, state: &Open, contents: &Mutex<Kept>, number: usize) -> Vec<u8> {
    let value = |name: &[u8]| state.lines.iter().find(|line| line.0 == name).map_or(&b""[..], |line| &line.1);
    let text = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
    let (method, target) = (text(value(b":method")), text(value(b":path")));
    let message = Message { end: 0, method, target, content: state.body.len() };
    let received = format!("seen {}\n", message.echoed_text());
    let is_head = message.method == "HEAD";
    let mut recorded = contents.lock().unwrap();
    recorded.broken.extend(breaks(state).map(|rule| format!("{rule} in {}", text(&downgraded(state)))));
    recorded.streams[number].extend(downgraded(state));
    recorded.requests.push(message);
    let head = frame(HEADERS, END_HEADERS | u8::from(is_head), stream, &[0x88]);
    let body = if is_head { Vec::new() } else { frame(DATA, END_STREAM, stream, received.as_bytes()) };
    [head, body].concat()
}

/// The request in lines of HTTP/1, without any validation.
fn downgraded(state: &Open) -> Vec<u8> {
    let mut out = Vec::new();
    let value =
        |name: &[u8]| state.lines.iter().rfind(|line| line.0 == name).map_or(&b""[..], |line| &line.1);
    out.extend(
        [value(b":method"), b" ", value(b":path"), b" HTTP/1.1\r\nHost: ", value(b":authority"), b"\r\n"]
            .concat(),
    );
    for (name, value) in state.lines.iter().filter(|line| !line.0.starts_with(b":")) {
        out.extend([&name[..], b": ", value, b"\r\n"].concat());
    }
    let has_length = state.lines.iter().any(|line| line.0.eq_ignore_ascii_case(b"content-length"));
    if has_length || (state.body.is_empty() && state.trailers.is_empty()) {
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&state.body);
        return out;
    }
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    if !state.body.is_empty() {
        out.extend(format!("{:x}\r\n", state.body.len()).into_bytes());
        out.extend([&state.body[..], b"\r\n"].concat());
    }
    out.extend_from_slice(b"0\r\n");
    for (name, value) in &state.trailers {
        out.extend([&name[..], b": ", value, b"\r\n"].concat());
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// The rules of RFC 9113 §8 that a request violates.
fn breaks(state: &Open) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let count = |name: &[u8]| state.lines.iter().filter(|line| line.0 == name).count();
    let ordinary = state.lines.iter().position(|line| !line.0.starts_with(b":")).unwrap_or(state.lines.len());
    if state.lines[ordinary..].iter().chain(&state.trailers).any(|line| line.0.starts_with(b":")) {
        found.push("§8.3 a pseudo field behind others".to_owned());
    }
    for name in [&b":method"[..], b":path", b":scheme", b":authority"] {
        if count(name) != 1 {
            found.push(format!("§8.3.1 {} times {}", count(name), String::from_utf8_lossy(name)));
        }
    }
    if count(b"host") > 0 {
        found.push("§8.3.1 Host beside :authority".to_owned());
    }
    for (name, value) in state.lines.iter().chain(&state.trailers) {
        let token = |byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(byte)
        };
        let name_text = name.strip_prefix(b":").unwrap_or(name);
        if name_text.is_empty() || !name_text.iter().all(token) {
            found.push(format!("§8.2.1 the name {:?}", String::from_utf8_lossy(name)));
        }
        let is_edge = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        if value.iter().any(|byte| b"\r\n\0".contains(byte))
            || is_edge(value.first())
            || is_edge(value.last())
        {
            found.push(format!("§8.2.1 the value {:?}", String::from_utf8_lossy(value)));
        }
        let hop: [&[u8]; 5] =
            [b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"];
        if hop.contains(&&name[..]) || (name == b"te" && value != b"trailers") {
            found.push(format!("§8.2.2 the field {}", String::from_utf8_lossy(name)));
        }
    }
    let lengths: Vec<_> = state.lines.iter().filter(|line| line.0 == b"content-length").collect();
    // Only digits, with leading zeros allowed (RFC 9110 §8.6).
    let says = |line: &&Line| {
        let is_number = !line.1.is_empty() && line.1.iter().all(u8::is_ascii_digit);
        is_number && String::from_utf8_lossy(&line.1).parse() == Ok(state.body.len())
    };
    if lengths.len() > 1 || !lengths.iter().all(says) {
        found.push(format!("§8.1.1 {lengths:?} for {} bytes", state.body.len()));
    }
    found.into_iter()
}

/// Parses a block without a dynamic table and without Huffman codes, neither of which the proxy uses.
fn decode(block: &[u8]) -> Result<Vec<Line>, String> {
    let names: Vec<&str> = STATIC.split_ascii_whitespace().collect();
    let entry = |index: usize| -> Result<Line, String> {
        let line = names.get(index.wrapping_sub(1)).ok_or(format!("the index {index}"))?;
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        Ok((name.into(), value.replace('~', " ").into_bytes()))
    };
    let (mut at, mut lines) = (0, Vec::new());
    while at < block.len() {
        let first = block[at];
        if first & 0x80 > 0 {
            lines.push(entry(integer(block, &mut at, 7)?)?);
            continue;
        }
        if first & 0xe0 == 0x20 {
            integer(block, &mut at, 5)?;
            continue;
        }
        let index = integer(block, &mut at, if first & 0x40 > 0 { 6 } else { 4 })?;
        let name = if index == 0 { string(block, &mut at)? } else { entry(index)?.0 };
        lines.push((name, string(block, &mut at)?));
    }
    Ok(lines)
}

fn integer(block: &[u8], at: &mut usize, bits: u32) -> Result<usize, String> {
    let limit = (1 << bits) - 1;
    let mut value = usize::from(block[*at]) & limit;
    *at += 1;
    if value < limit {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let byte = usize::from(*block.get(*at).ok_or("half a number")?);
        *at += 1;
        value += (byte & 127) << shift;
        if byte < 128 {
            return Ok(value);
        }
    }
    Err("a long number".to_owned())
}

fn string(block: &[u8], at: &mut usize) -> Result<Vec<u8>, String> {
    if block.get(*at).ok_or("half a string")? & 0x80 > 0 {
        return Err("a Huffman code".to_owned());
    }
    let length = integer(block, at, 7)?;
    let text = block.get(*at..*at + length).ok_or("half a string")?;
    *at += length;
    Ok(text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(lines: &[(&str, &str)], body: &str) -> Open {
        let head = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
        let lines =
            head.iter().chain(lines).map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()));
        Open { lines: lines.collect(), body: body.as_bytes().into(), has_head: true, trailers: Vec::new() }
    }

    #[test]
    fn the_recorder_detects_violations_of_http2() {
        assert_eq!(STATIC.split_ascii_whitespace().count(), 61);
        assert_eq!(breaks(&open(&[("content-length", "2"), ("te", "trailers")], "ab")).count(), 0);
        for (name, value) in [
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("A", "b"),
            ("a b", "c"),
            ("a", "b\r\nc: d"),
            ("a", " b"),
            ("a", "b\0"),
            (":path", "/b"),
            ("host", "a"),
        ] {
            assert!(breaks(&open(&[(name, value)], "ab")).count() > 0, "{name}: {value:?}");
        }
        let text = downgraded(&open(&[("a", "b\r\ncontent-length: 1")], "ab"));
        assert!(!crate::conformance::readers::disagreements(&text).is_empty());
        assert!(crate::conformance::readers::disagreements(&downgraded(&open(&[], "ab"))).is_empty());
    }
}
