//! Cases of connections: HTTP/1.0, pipelining, hop-by-hop fields, expectations, upgrades and WebSocket handshakes.

use super::Expected::{Refused, Seen};
use super::Input::{Field, Post, Raw};
use super::{BAD, Case, GET, POST, case};

/// By section.
#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    // HTTP/1.0.
    case("http10", "9112 §9.3", Raw(b"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n"), GET),
    case("http10-without-host", "9112 §3.2", Raw(b"GET / HTTP/1.0\r\n\r\n"), GET),
    case("http10-two-hosts", "9112 §3.2", Raw(b"GET / HTTP/1.0\r\nHost: a.test\r\nHost: b.test\r\n\r\n"), BAD),
    case("http10-length", "9112 §6.3",
        Raw(b"POST / HTTP/1.0\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc"), POST),
    case("http10-absolute", "9112 §3.2.2", Raw(b"GET http://a.test/b HTTP/1.0\r\n\r\n"), Seen(&["GET /b 0"])),
    case("http10-is-over-after-one", "9112 §9.3",
        Raw(b"GET /a HTTP/1.0\r\nHost: a.test\r\n\r\nGET /b HTTP/1.0\r\n\
            Host: a.test\r\n\r\n"), Seen(&["GET /a 0"])),
    case("http10-keep-alive", "9112 §9.3",
        Raw(b"GET /a HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\nGET /b HTTP/1.0\r\n\
            Host: a.test\r\n\r\n"), Seen(&["GET /a 0", "GET /b 0"])),
    case("http10-expect", "9110 §10.1.1",
        Raw(b"POST / HTTP/1.0\r\nHost: a.test\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"), POST),
    case("http10-upgrade", "9110 §7.8",
        Raw(b"GET /switch HTTP/1.0\r\nHost: a.test\r\nConnection: upgrade\r\n\
            Upgrade: websocket\r\n\r\n"), Seen(&["GET /switch 0"])),
    // Persistent connections.
    case("pipeline-two", "9112 §9.3.2",
        Raw(b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\nGET /b HTTP/1.1\r\n\
            Host: a.test\r\n\r\n"), Seen(&["GET /a 0", "GET /b 0"])),
    case("pipeline-empty-line-between", "9112 §2.2",
        Raw(b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n\r\nGET /b HTTP/1.1\r\n\
            Host: a.test\r\n\r\n"), Seen(&["GET /a 0", "GET /b 0"])),
    case("pipeline-post-get", "9112 §9.3.2",
        Raw(b"POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nxyGET /b HTTP/1.1\r\n\
            Host: a.test\r\n\r\n"), Seen(&["POST /a 2", "GET /b 0"])),
    case("pipeline-close-ends-it", "9112 §9.6",
        Raw(b"GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\nGET /b HTTP/1.1\r\n\
            Host: a.test\r\n\r\n"), Seen(&["GET /a 0"])),
    case("pipeline-close-in-a-list", "9112 §9.6",
        Raw(b"GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: x, Close\r\n\r\nGET /b HTTP/1.1\r\n\
            Host: a.test\r\n\r\n"), Seen(&["GET /a 0"])),
    case("pipeline-second-is-bad", "9112 §9.3.2",
        Raw(b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\nGET /b HTTP/1.1\r\n\
            Host : a.test\r\n\r\n"), Seen(&["GET /a 0"])),
    case("pipeline-body-without-framing", "9112 §6.3",
        Raw(b"POST /a HTTP/1.1\r\nHost: a.test\r\n\r\nabc"), Seen(&["POST /a 0"])),
    case("pipeline-head-then-get", "9112 §9.3.2",
        Raw(b"HEAD /a HTTP/1.1\r\nHost: a.test\r\n\r\nGET /b HTTP/1.1\r\n\
            Host: a.test\r\n\r\n"), Seen(&["HEAD /a 0", "GET /b 0"])),
    // Hop-by-hop fields.
    case("hop-keep-alive", "9110 §7.6.1", Field(b"Connection: keep-alive\r\nKeep-Alive: timeout=5"), GET),
    case("hop-named-field", "9110 §7.6.1", Field(b"Connection: X-Hop\r\nX-Hop: y"), GET),
    case("hop-names-host", "9110 §7.6.1", Field(b"Connection: Host"), GET),
    case("hop-names-connection", "9110 §7.6.1", Field(b"Connection: Connection, close"), GET),
    case("hop-empty", "9110 §7.6.1", Field(b"Connection:"), GET),
    case("hop-commas", "9110 §5.6.1", Field(b"Connection: ,, ,"), GET),
    case("hop-many-fields", "9110 §5.3", Field(b"Connection: a\r\nConnection: b\r\nConnection: c"), GET),
    case("hop-te-trailers", "9110 §10.1.4", Field(b"TE: trailers\r\nConnection: TE"), GET),
    case("hop-te-gzip", "9110 §10.1.4", Field(b"TE: gzip;q=0.5"), GET),
    case("hop-proxy-connection", "9110 §7.6.1", Field(b"Proxy-Connection: keep-alive"), GET),
    case("hop-proxy-authorization", "9110 §11.7.2", Field(b"Proxy-Authorization: Basic eA=="), GET),
    case("hop-absurd-length", "9110 §5.4",
        super::Input::Long("GET / HTTP/1.1\r\nHost: a.test\r\n\
            Connection: ", ("a,", 600), "\r\n\r\n"), Refused(431)),
    // Expectations.
    case("expect-continue", "9110 §10.1.1", Post("Expect: 100-continue\r\nContent-Length: 3", "abc"), POST),
    case("expect-continue-other-case", "9110 §10.1.1",
        Post("Expect: 100-Continue\r\nContent-Length: 3", "abc"), POST),
    case("expect-continue-chunked", "9110 §10.1.1",
        Post("Expect: 100-continue\r\nTransfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"), POST),
    case("expect-continue-without-body", "9110 §10.1.1", Field(b"Expect: 100-continue"), GET),
    case("expect-continue-length-0", "9110 §10.1.1",
        Post("Expect: 100-continue\r\nContent-Length: 0", ""), Seen(&["POST / 0"])),
    case("expect-other", "9110 §10.1.1", Post("Expect: 200-ok\r\nContent-Length: 3", "abc"), Refused(417)),
    case("expect-list", "9110 §10.1.1",
        Post("Expect: 100-continue, x\r\nContent-Length: 3", "abc"), Refused(417)),
    case("expect-parameter", "9110 §10.1.1",
        Post("Expect: 100-continue;x=y\r\nContent-Length: 3", "abc"), Refused(417)),
    case("expect-prefix", "9110 §10.1.1",
        Post("Expect: 100-continued\r\nContent-Length: 3", "abc"), Refused(417)),
    case("expect-empty", "9110 §10.1.1", Post("Expect:\r\nContent-Length: 3", "abc"), Refused(417)),
    // Upgrades.
    case("upgrade-h2c", "9110 §7.8",
        Field(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"), GET),
    case("upgrade-tls", "2817 §3.1", Field(b"Connection: Upgrade\r\nUpgrade: TLS/1.0"), GET),
    case("upgrade-not-in-connection", "9110 §7.8", Field(b"Upgrade: websocket"), GET),
    case("upgrade-without-field", "9110 §7.8", Field(b"Connection: Upgrade"), GET),
    case("websocket", "6455 §4.2.1",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Version: 13\r\n\r\n"), Seen(&["GET /switch 0"])),
    case("websocket-other-case", "6455 §4.2.1",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, UPGRADE\r\n\
            Upgrade: WebSocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Version: 13\r\n\r\n"), Seen(&["GET /switch 0"])),
    case("websocket-is-not-taken", "6455 §4.2.2",
        Raw(b"GET /plain HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Version: 13\r\n\r\n"), Seen(&["GET /plain 0"])),
    case("websocket-not-taken-and-next", "6455 §4.2.2",
        Raw(b"GET /plain HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n\
            GET /b HTTP/1.1\r\nHost: a.test\r\n\r\n"), Seen(&["GET /plain 0", "GET /b 0"])),
    case("websocket-post", "6455 §4.1",
        Raw(b"POST /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"), BAD),
    case("websocket-without-key", "6455 §4.2.1",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\n\r\n"), BAD),
    case("websocket-two-keys", "6455 §11.3.1",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Key: eGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Version: 13\r\n\r\n"), BAD),
    // The endpoint validates the key: it is the server in RFC 6455, and the connection becomes a tunnel only after its 101.
    case("websocket-short-key", "6455 §4.2.1",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n"), Seen(&["GET /switch 0"])),
    case("websocket-key-of-no-base64", "6455 §4.2.1",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: !!!!!!!!!!!!!!!!!!!!!!==\r\n\
            Sec-WebSocket-Version: 13\r\n\r\n"), Seen(&["GET /switch 0"])),
    case("websocket-without-version", "6455 §4.2.1",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"), Refused(426)),
    case("websocket-version-8", "6455 §4.4",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 8\r\n\r\n"), Refused(426)),
    case("websocket-version-list", "6455 §4.4",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Version: 13, 8\r\n\r\n"), Refused(426)),
    // An upgrade request may have a body (RFC 9110 §7.8): these are not malformed, but not supported.
    case("websocket-with-length", "9110 §15.6.2",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
            Content-Length: 3\r\n\r\nabc"), Refused(501)),
    case("websocket-with-chunks", "9110 §15.6.2",
        Raw(b"GET /switch HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
            Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), Refused(501)),
    case("websocket-and-h2c", "9110 §7.8",
        Raw(b"GET /plain HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Version: 13\r\n\r\n"), Seen(&["GET /plain 0"])),
];
