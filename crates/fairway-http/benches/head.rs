//! The cost of a message: parsing, writing and decoding, without I/O.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fairway_http::http1::{
    BodyLimits, BodyPart, BodyReader, Framing, HeadParser, RequestHop, request_framing, response_framing,
    strip_hop_by_hop, write_request, write_response,
};
use fairway_http::{Head, HeadLimits, Method, Target, Version, path, request_authority};

const CURL: &str = "GET /api/v1/items?page=2 HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\
    Accept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n";

const BROWSER: &str = "GET /products/garden/chairs?colour=green&sort=price HTTP/1.1\r\nHost: www.shop.example.com\r\n\
    Connection: keep-alive\r\nCache-Control: max-age=0\r\nsec-ch-ua: \"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\"\r\n\
    sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 \
    (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\nAccept: text/html,\
    application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\nSec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\nReferer: https://www.shop.example.com/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nCookie: session=4f1e8a9b7c6d5e4f3a2b1c0d; theme=dark; consent=1\r\n\r\n";

const RESPONSE: &str = "HTTP/1.1 200 OK\r\nServer: backend\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: \
    text/html; charset=utf-8\r\nContent-Length: 1024\r\nCache-Control: no-store\r\nETag: \"abc\"\r\nConnection: keep-alive\r\n\r\n";

fn heads(criterion: &mut Criterion) {
    let limits = HeadLimits::default();
    let mut head = Head::new();
    let mut group = criterion.benchmark_group("parse");
    for (name, text) in [("request, curl, 5 fields", CURL), ("request, browser, 16 fields", BROWSER)] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bench| {
            bench.iter(|| HeadParser::new().request(&mut head, black_box(text.as_bytes()), &limits));
        });
    }
    group.throughput(Throughput::Bytes(RESPONSE.len() as u64));
    group.bench_function("response, 7 fields", |bench| {
        bench.iter(|| HeadParser::new().response(&mut head, black_box(RESPONSE.as_bytes()), &limits));
    });
    group.finish();
    written(criterion, &mut head, &limits);
}

fn written(criterion: &mut Criterion, head: &mut Head, limits: &HeadLimits) {
    let mut out = Vec::new();
    let mut group = criterion.benchmark_group("write");
    HeadParser::new().request(head, BROWSER.as_bytes(), limits).expect("valid");
    group.bench_function("request, browser, 16 fields", |bench| {
        bench.iter(|| {
            out.clear();
            write_request(head, black_box(head.target()), &RequestHop::default(), &mut out);
        });
    });
    HeadParser::new().response(head, RESPONSE.as_bytes(), limits).expect("valid");
    group.bench_function("response, 7 fields", |bench| {
        bench.iter(|| {
            out.clear();
            write_response(head, black_box(Version::Http11), &mut out);
        });
    });
    group.finish();
}

/// Everything that a proxied message needs of this crate.
fn messages(criterion: &mut Criterion) {
    let limits = HeadLimits::default();
    let (mut head, mut out) = (Head::new(), Vec::new());
    for (name, text) in [("request through, curl", CURL), ("request through, browser", BROWSER)] {
        criterion.bench_function(name, |bench| {
            bench.iter(|| {
                out.clear();
                request_through(&mut head, black_box(text.as_bytes()), &limits, &mut out);
            });
        });
    }
    criterion.bench_function("response through", |bench| {
        bench.iter(|| {
            out.clear();
            HeadParser::new().response(&mut head, black_box(RESPONSE.as_bytes()), &limits).expect("valid");
            response_framing(&head, Method::Get).expect("valid");
            strip_hop_by_hop(&mut head);
            write_response(&head, Version::Http11, &mut out);
        });
    });
}

fn request_through(head: &mut Head, text: &[u8], limits: &HeadLimits, out: &mut Vec<u8>) {
    HeadParser::new().request(head, text, limits).expect("valid");
    let target = Target::parse(head.method(), head.target()).expect("valid");
    black_box(request_authority(head, &target).expect("valid"));
    black_box(path::is_plain(target.path));
    request_framing(head).expect("valid");
    strip_hop_by_hop(head);
    head.set(b"X-Request-ID", b"0123456789abcdef0123456789abcdef");
    head.set(b"X-Real-IP", b"192.0.2.1");
    head.set(b"X-Forwarded-For", b"192.0.2.1");
    head.set(b"X-Forwarded-Host", b"shop.example.com");
    head.set(b"X-Forwarded-Port", b"443");
    head.set(b"X-Forwarded-Proto", b"https");
    head.set(b"X-Forwarded-Scheme", b"https");
    head.set(b"X-Scheme", b"https");
    write_request(head, head.target(), &RequestHop::default(), out);
}

fn bodies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk decode");
    for size in [64, 1024, 16 * 1024] {
        let chunk = format!("{size:x}\r\n{}\r\n", "x".repeat(size));
        let wire = [chunk.repeat(64 * 1024 / size).as_bytes(), b"0\r\n\r\n"].concat();
        group.throughput(Throughput::Bytes(wire.len() as u64));
        group.bench_function(format!("64 KiB in chunks of {size}"), |bench| {
            bench.iter(|| decoded(black_box(&wire)));
        });
    }
    group.finish();
}

fn decoded(wire: &[u8]) -> usize {
    let mut reader = BodyReader::new(Framing::Chunked, BodyLimits::default());
    let (mut at, mut total) = (0, 0);
    loop {
        let (taken, part) = reader.next(&wire[at..]).expect("valid");
        at += taken;
        match part {
            BodyPart::Data(data) => total += data.len(),
            BodyPart::End | BodyPart::NeedMore => return total,
        }
    }
}

fn paths(criterion: &mut Criterion) {
    let mut out = Vec::new();
    let plain = b"/products/garden/chairs/green-one.html";
    criterion.bench_function("path, plain", |bench| bench.iter(|| path::is_plain(black_box(plain))));
    criterion.bench_function("path, normalise", |bench| {
        bench.iter(|| {
            out.clear();
            path::normalise(black_box(b"/products/%67arden/./chairs//green%20one.html"), &mut out)
        });
    });
}

criterion_group!(benches, heads, messages, bodies, paths);
criterion_main!(benches);
