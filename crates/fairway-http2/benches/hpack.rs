//! The cost of a head: decoding and encoding field blocks, without frames.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use fairway_http::Head;
use fairway_http2::fields::{HeadBuilder, Limits, Message, write_request, write_response};
use fairway_http2::hpack::{Decoder, Encoder, StringCoding};

const REQUEST: Message = Message::Request { extended: false };

const BROWSER: &[(&str, &str)] = &[
    ("Host", "www.shop.example.com"),
    ("sec-ch-ua", "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    ),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
    ("Referer", "https://www.shop.example.com/"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("Cookie", "session=4f1e8a9b7c6d5e4f3a2b1c0d; theme=dark; consent=1"),
];

const RESPONSE: &[(&str, &str)] = &[
    ("Server", "backend"),
    ("Date", "Thu, 01 Jan 2026 00:00:00 GMT"),
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Length", "1024"),
    ("Cache-Control", "no-store"),
    ("ETag", "\"abc\""),
];

fn with(mut head: Head, fields: &[(&str, &str)]) -> Head {
    for (name, value) in fields {
        head.append(name.as_bytes(), value.as_bytes());
    }
    head
}

fn request() -> Head {
    let mut head = Head::new();
    head.start_request(b"GET", b"/products/garden/chairs?colour=green&sort=price");
    with(head, BROWSER)
}

fn response() -> Head {
    let mut head = Head::new();
    head.start_response(200);
    with(head, RESPONSE)
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (name, strings, table) in [
        ("request, browser, plain", StringCoding::Plain, 0),
        ("request, browser, Huffman", StringCoding::Huffman, 0),
        ("request, browser, indexed", StringCoding::Huffman, 4096),
    ] {
        let (mut encoder, mut decoder) = (Encoder::new(strings, table), Decoder::new(4096));
        let (message, mut head) = (request(), Head::new());
        let mut block = Vec::new();
        // The second block finds the table filled.
        for _ in 0..2 {
            block.clear();
            write_request(&message, message.target(), b"https", &mut encoder, &mut block);
            decoder.decode(&block, |_| {}).expect("what was encoded");
        }
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let mut intake = HeadBuilder::new(&mut head, REQUEST, Limits::default());
                decoder.decode(black_box(&block), |line| intake.add(line)).expect("what was encoded");
                intake.finish()
            });
        });
    }
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for (name, strings, table) in [
        ("response, plain", StringCoding::Plain, 0),
        ("response, Huffman", StringCoding::Huffman, 0),
        ("response, indexed", StringCoding::Plain, 4096),
    ] {
        let (mut encoder, message, mut out) = (Encoder::new(strings, table), response(), Vec::new());
        group.bench_function(name, |bench| {
            bench.iter(|| {
                out.clear();
                write_response(black_box(&message), &mut encoder, &mut out);
            });
        });
    }
    let (mut encoder, message, mut out) = (Encoder::new(StringCoding::Plain, 0), request(), Vec::new());
    group.bench_function("request, browser, plain", |bench| {
        bench.iter(|| {
            out.clear();
            write_request(black_box(&message), message.target(), b"https", &mut encoder, &mut out);
        });
    });
    group.finish();
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
