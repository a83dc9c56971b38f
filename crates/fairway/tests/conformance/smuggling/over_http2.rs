//! Payloads of HTTP/2: content that frames can carry and lines of HTTP/1 cannot. Each is the bytes of one connection with prior
//! knowledge: the payload on stream 1, and on stream 3 an innocent request whose response ends the wait. Frames are written by
//! hand.

use super::{MARK, Payload, Payloads};

const SMUGGLED: &str = "GET /p00000/smuggled HTTP/1.1\r\nHost: a.test\r\nX: ";

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A field with a name and value of arbitrary bytes.
type Line = (Vec<u8>, Vec<u8>);

/// All payloads.
pub(super) fn all() -> Vec<Payload> {
    let mut payloads = Payloads::default();
    pseudo_fields(&mut payloads);
    missing_and_repeated(&mut payloads);
    names_and_values(&mut payloads);
    lengths(&mut payloads);
    hop_fields(&mut payloads);
    hosts(&mut payloads);
    trailers(&mut payloads);
    tunnels(&mut payloads);
    payloads.0
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Literal fields without indexing, with names and values as they are (RFC 7541 §6.2.2).
fn block(lines: &[Line]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in lines {
        out.push(0);
        for text in [name, value] {
            integer(text.len(), &mut out);
            out.extend_from_slice(text);
        }
    }
    out
}

/// With a prefix of seven bits (RFC 7541 §5.1).
fn integer(mut number: usize, out: &mut Vec<u8>) {
    if number < 127 {
        out.push(number as u8);
        return;
    }
    out.push(127);
    number -= 127;
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

fn lines(lines: &[(&str, &str)]) -> Vec<Line> {
    lines.iter().map(|(name, value)| (latin1(name), latin1(value))).collect()
}

/// Every character is one byte.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

fn head<'a>(method: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![(":method", method), (":scheme", "http"), (":authority", "a.test"), (":path", path)]
}

/// Long enough that its middle is after the number.
const PATH: &str = "/p00000/path-of-it";

/// The content of stream 1 after its head.
enum Body<'b> {
    None,
    Data(&'b [u8]),
    /// Data, then trailers.
    Trailers(&'b [u8], Vec<Line>),
}

fn connection(fields: &[Line], body: &Body<'_>) -> Vec<u8> {
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    out.extend(frame(4, 0, 0, &[]));
    let end = if matches!(body, Body::None) { END_STREAM } else { 0 };
    out.extend(frame(1, END_HEADERS | end, 1, &block(fields)));
    match body {
        Body::None => {}
        Body::Data(data) => out.extend(frame(0, END_STREAM, 1, data)),
        Body::Trailers(data, trailers) => {
            out.extend(frame(0, 0, 1, data));
            out.extend(frame(1, END_HEADERS | END_STREAM, 1, &block(trailers)));
        }
    }
    let last = format!("{MARK}last");
    out.extend(frame(1, END_HEADERS | END_STREAM, 3, &block(&lines(&head("GET", &last)))));
    out
}

fn get(fields: &[(&str, &str)]) -> Vec<u8> {
    connection(&lines(fields), &Body::None)
}

fn post(additional: &[(&str, &str)], data: &[u8]) -> Vec<u8> {
    let fields = [head("POST", PATH), additional.to_vec()].concat();
    connection(&lines(&fields), &Body::Data(data))
}

/// Bytes that may end a line, a word or a name in HTTP/1.
const PARTS: [&str; 24] = [
    "\r\n",
    "\n",
    "\r",
    "\0",
    " ",
    "\t",
    "\u{b}",
    "\u{c}",
    "\u{85}",
    "\u{a0}",
    "\u{7f}",
    "\u{1}",
    "\u{ff}",
    "#",
    "\\",
    "\"",
    "<",
    "@",
    "?",
    "/",
    ":",
    "%0d%0a",
    "\r\nX: y\r\n",
    " HTTP/1.1\r\nHost: b.test\r\nContent-Length: 5\r\n\r\n",
];

/// Each of these at the start, in the middle and at the end of each pseudo-header.
fn pseudo_fields(payloads: &mut Payloads) {
    for part in PARTS {
        for name in [":method", ":scheme", ":authority", ":path"] {
            let whole_value = |value: &str| {
                let mut fields = head("GET", PATH);
                fields.iter_mut().filter(|(it, _)| *it == name).for_each(|(_, own)| *own = "");
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(it, own)| if *it == name { (*it, value) } else { (*it, *own) })
                    .collect();
                get(&fields)
            };
            let usual = head("GET", PATH).iter().find(|(it, _)| *it == name).unwrap().1.to_owned();
            let half = usual.len() / 2;
            payloads.add("pseudo field", whole_value(&format!("{part}{usual}")));
            payloads.add("pseudo field", whole_value(&format!("{usual}{part}")));
            payloads.add("pseudo field", whole_value(&format!("{}{part}{}", &usual[..half], &usual[half..])));
            payloads.add("pseudo field", whole_value(&format!("{usual}{part}{SMUGGLED}")));
        }
    }
}

/// Pseudo-headers that are missing, repeated, late or from the wrong list.
fn missing_and_repeated(payloads: &mut Payloads) {
    for name in [":method", ":scheme", ":authority", ":path"] {
        let usual = head("GET", PATH);
        let without: Vec<_> = usual.iter().copied().filter(|(it, _)| *it != name).collect();
        payloads.add("pseudo list", get(&without));
        let value = usual.iter().find(|(it, _)| *it == name).unwrap().1;
        for second in [value, "", "b.test", "/p00000/b", "POST", "https", "*"] {
            payloads.add("pseudo list", get(&[usual.clone(), vec![(name, second)]].concat()));
            payloads.add("pseudo list", get(&[usual.clone(), vec![("x", "y"), (name, second)]].concat()));
            payloads.add("pseudo list", get(&[without.clone(), vec![(name, second)]].concat()));
        }
        payloads.add("pseudo list", get(&[without.clone(), vec![("x", "y"), (name, value)]].concat()));
    }
    for (name, value) in [
        (":status", "200"),
        (":x", "y"),
        (":", "y"),
        ("", "y"),
        (":protocol", "websocket"),
        (":host", "a.test"),
        (":version", "HTTP/1.0"),
        (":Path", "/b"),
    ] {
        payloads.add("pseudo list", get(&[head("GET", PATH), vec![(name, value)]].concat()));
        payloads.add("pseudo list", get(&[vec![(name, value)], head("GET", PATH)].concat()));
    }
}

/// Names and values with bytes that are delimiters in HTTP/1.
fn names_and_values(payloads: &mut Payloads) {
    for part in PARTS {
        for (name, value) in [
            (format!("x{part}"), "y".to_owned()),
            (format!("{part}x"), "y".to_owned()),
            (format!("x{part}transfer-encoding"), "chunked".to_owned()),
            (format!("transfer-encoding{part}"), "chunked".to_owned()),
            (format!("content-length{part}"), "5".to_owned()),
            ("x".to_owned(), format!("y{part}")),
            ("x".to_owned(), format!("{part}y")),
            ("x".to_owned(), format!("y{part}transfer-encoding: chunked")),
            ("x".to_owned(), format!("y{part}content-length: 5")),
            ("x".to_owned(), format!("y{part}{part}{SMUGGLED}")),
            ("cookie".to_owned(), format!("a=b{part}")),
            ("cookie".to_owned(), format!("a{part}b; c")),
        ] {
            payloads.add("field injection", post(&[(&name, &value)], SMUGGLED.as_bytes()));
        }
    }
    for name in [
        "X",
        "Content-Length",
        "CONTENT-LENGTH",
        "Transfer-Encoding",
        "Host",
        "content_length",
        "transfer_encoding",
    ] {
        payloads.add("field names", post(&[(name, "5")], SMUGGLED.as_bytes()));
        payloads.add("field names", post(&[(name, "chunked")], SMUGGLED.as_bytes()));
    }
}

/// H2.CL: a length that differs from that of the DATA frames.
fn lengths(payloads: &mut Payloads) {
    let data = SMUGGLED.as_bytes();
    let right = data.len().to_string();
    for length in [
        "0",
        "1",
        "5",
        "00",
        "+5",
        "-1",
        "",
        " ",
        "5, 5",
        "5,6",
        "0x5",
        "5.0",
        "99999",
        "18446744073709551616",
        "5 ",
        " 5",
        "5\t",
        "5;",
        "\"5\"",
        "5a",
        "1e1",
        "\u{b2}",
        "5\0",
        "5\r\n",
    ] {
        payloads.add("H2.CL", post(&[("content-length", length)], data));
        payloads.add("H2.CL", post(&[("content-length", length), ("content-length", &right)], data));
        payloads.add("H2.CL", post(&[("content-length", &right), ("content-length", length)], data));
        payloads.add("H2.CL", post(&[("content-length", length)], b""));
        let bodiless = [head("GET", PATH), vec![("content-length", length)]].concat();
        payloads.add("H2.CL", get(&bodiless));
        let trailers = lines(&[("x", "y")]);
        let fields = lines(&[head("POST", PATH), vec![("content-length", length)]].concat());
        payloads.add("H2.CL", connection(&fields, &Body::Trailers(data, trailers)));
    }
    payloads.add("H2.CL", post(&[("content-length", &right)], data));
}

/// H2.TE: fields that are hop-by-hop in HTTP/1.
fn hop_fields(payloads: &mut Payloads) {
    let body = format!("0\r\n\r\n{SMUGGLED}");
    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("transfer-encoding", ""),
        ("transfer-encoding", "gzip, chunked"),
        ("transfer-encoding", "CHUNKED"),
        ("connection", "close"),
        ("connection", "keep-alive"),
        ("connection", "transfer-encoding"),
        ("connection", "content-length"),
        ("connection", ""),
        ("connection", "upgrade"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("upgrade", "websocket"),
        ("upgrade", "h2c"),
        ("te", "trailers"),
        ("te", "chunked"),
        ("te", "trailers, chunked"),
        ("te", ""),
        ("http2-settings", "AAMAAABkAAQAAP__"),
        ("expect", "100-continue"),
        ("expect", "x"),
        ("trailer", "content-length"),
        ("proxy-authorization", "x"),
        ("sec-websocket-key", "x"),
    ] {
        payloads.add("H2.TE", post(&[(name, value)], body.as_bytes()));
        payloads.add(
            "H2.TE",
            post(&[(name, value), ("content-length", &body.len().to_string())], body.as_bytes()),
        );
        payloads.add("H2.TE", get(&[head("GET", PATH), vec![(name, value)]].concat()));
        payloads.add("H2.TE", post(&[("x", "y"), (name, value), (name, value)], body.as_bytes()));
    }
}

/// `host` and `:authority`.
fn hosts(payloads: &mut Payloads) {
    for host in [
        "a.test",
        "b.test",
        "",
        "a.test:80",
        "A.TEST",
        "a.test, b.test",
        "a.test\r\nX: y",
        "user@a.test",
        "a.test/b",
        " a.test",
        "[::1]",
        "[::1",
        "a.test:99999",
    ] {
        payloads.add("host", get(&[head("GET", PATH), vec![("host", host)]].concat()));
        let without: Vec<_> =
            head("GET", PATH).into_iter().filter(|(name, _)| *name != ":authority").collect();
        payloads.add("host", get(&[without.clone(), vec![("host", host)]].concat()));
        payloads.add("host", get(&[without.clone(), vec![("host", host), ("host", "a.test")]].concat()));
        payloads.add("host", get(&[without, vec![(":authority", host)]].concat()));
    }
}

/// Trailers that would be framing fields or a request.
fn trailers(payloads: &mut Payloads) {
    for (name, value) in [
        ("x", "y"),
        ("content-length", "0"),
        ("content-length", "99"),
        ("transfer-encoding", "chunked"),
        ("host", "b.test"),
        ("connection", "close"),
        (":path", "/b"),
        (":method", "GET"),
        (":status", "200"),
        ("x\r\ny", "z"),
        ("x", "y\r\n\r\nGET /p00000/smuggled HTTP/1.1"),
        ("x", "\0"),
        ("X", "y"),
        ("x ", "y"),
        ("", "y"),
        ("x:", "y"),
        ("te", "trailers"),
        ("expect", "100-continue"),
        ("upgrade", "websocket"),
        ("trailer", "x"),
        ("get /p00000/smuggled http/1.1", ""),
        ("x", " y "),
        ("x", "\r"),
        ("x", "\n"),
        ("x_y", "z"),
    ] {
        for data in [SMUGGLED.as_bytes(), b"", b"0\r\n\r\n"] {
            for more in [vec![], vec![("trailer", "x")]] {
                let fields = lines(&[head("POST", PATH), more].concat());
                payloads
                    .add("H2 trailer", connection(&fields, &Body::Trailers(data, lines(&[(name, value)]))));
            }
        }
    }
}

/// CONNECT, upgrades and methods that are not tokens.
fn tunnels(payloads: &mut Payloads) {
    let data = SMUGGLED.as_bytes();
    for method in
        ["CONNECT", "connect", "TRACE", "PRI", "GET /b HTTP/1.1", "", "G,T", "HEAD", "OPTIONS", "DELETE"]
    {
        payloads.add("H2 method", get(&[(":method", method), (":authority", "a.test:80")]));
        payloads.add("H2 method", get(&head(method, PATH)));
        payloads.add("H2 method", get(&head(method, "*")));
        payloads.add("H2 method", connection(&lines(&head(method, PATH)), &Body::Data(data)));
        payloads.add(
            "H2 method",
            connection(&lines(&[(":method", method), (":authority", "a.test:80")]), &Body::Data(data)),
        );
        let extended = [head(method, PATH), vec![(":protocol", "websocket")]].concat();
        payloads.add("H2 method", connection(&lines(&extended), &Body::Data(data)));
    }
    for path in [
        "*",
        "",
        "a",
        "//p00000/b",
        "http://b.test/p00000/b",
        "a.test:80",
        "/p00000/a b",
        "/../p00000/b",
        "/p00000/%00",
        "/p00000/a#b",
        "/p00000/%",
        "?a",
        "/p00000/a?b=c\td",
        "/p00000/\u{e9}",
    ] {
        payloads.add("H2 path", get(&head("GET", path)));
        payloads.add("H2 path", get(&head("OPTIONS", path)));
        payloads.add("H2 path", connection(&lines(&head("POST", path)), &Body::Data(data)));
    }
}
