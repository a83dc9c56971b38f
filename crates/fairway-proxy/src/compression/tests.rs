//! Tests the compressors against decoders: bodies of every kind, in pieces of every size, with and without pauses.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::fs;
use std::path::Path;

use fairway_model::ContentCoding;
use fastrand::Rng;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::checks::{self, CODINGS, decode, rule};
use super::compressors::{MAX_PIECE, OUTPUT_BUFFER_BYTES};
use super::*;
use crate::body_step::BodyStep;

/// The maximum output at once: a Brotli block that cannot be compressed, and what was written since.
const MAX_BURST: usize = 128 * 1024;

fn step(coding: ContentCoding, level: u8, length: Option<u64>) -> Box<dyn BodyStep> {
    compressors::start(&rule(coding, level), length).unwrap()
}

#[test]
fn accepted_codings_and_bodies_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/compression");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(files.len() >= 10, "only {} files", files.len());
    for file in files {
        checks::compression(&fs::read(file.unwrap().path()).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_accepted_codings_and_bodies_hold(
        words in vec(select(&["gzip", "br", "zstd", "*", "identity", "x-gzip", ";q=", "0", "1", ".", "5", ",", " ", ";"][..]), 0..16),
        other in vec(any::<u8>(), 0..4),
        body in vec(any::<u8>(), 0..200),
    ) {
        checks::compression(&[words.concat().as_bytes(), &other, b"\n", &body].concat());
    }
}

/// Bytes that compress well, a little, or not at all.
pub(crate) fn body(random: &mut Rng, length: usize) -> Vec<u8> {
    const WORDS: [&str; 6] = ["the ", "of ", "<div class=\"a\">", "{\"key\": ", "\n", "Fairway "];
    let kind = random.u8(..4);
    let mut bytes = Vec::with_capacity(length + 16);
    while bytes.len() < length {
        match kind {
            0 => bytes.extend_from_slice(random.choice(WORDS).unwrap().as_bytes()),
            1 => bytes.push(random.u8(..)),
            2 => bytes.push(0),
            _ if random.bool() => bytes.extend_from_slice(&random.u64(..).to_le_bytes()),
            _ => bytes.extend_from_slice(random.choice(WORDS).unwrap().as_bytes()),
        }
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn decompression_restores_the_body() {
    let mut random = Rng::with_seed(1);
    for round in 0..60 {
        for (coding, levels) in CODINGS {
            let limit = *random.choice(&[1, 300, 20_000, 300_000]).unwrap();
            let length = random.usize(0..=limit);
            let body = body(&mut random, length);
            let level = random.u8(levels);
            let known = random.bool().then_some(length as u64);
            let mut step = step(coding, level, known);
            let (mut output, mut rest) = (Vec::new(), &body[..]);
            let context = format!("round {round}: {length} bytes with {} {level}", coding.name());
            while !rest.is_empty() {
                let limit = random.usize(1..=step.takes(1));
                let (piece, behind) = rest.split_at(rest.len().min(limit));
                rest = behind;
                let before = output.len();
                let mut sink = |bytes: &[u8]| {
                    assert!((1..=OUTPUT_BUFFER_BYTES).contains(&bytes.len()));
                    output.extend_from_slice(bytes);
                    Ok(())
                };
                step.write(piece, &mut sink).unwrap();
                let pauses = random.u8(..4) == 0;
                if pauses {
                    step.pause(&mut sink).unwrap();
                }
                assert!(output.len() - before <= MAX_BURST, "{context}");
                assert_eq!(step.held_bytes(), 0);
                if pauses && body.len() < 20_000 {
                    let (decoded, is_whole) = decode(coding, &output);
                    assert_eq!(
                        decoded.len(),
                        body.len() - rest.len(),
                        "{context}: all is there after a pause"
                    );
                    assert!(!is_whole, "{context}");
                }
            }
            let before = output.len();
            step.finish(&mut |bytes| {
                output.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
            assert!(output.len() > before, "{context}: there is an end");
            let (decoded, is_whole) = decode(coding, &output);
            assert!(is_whole && decoded == body, "{context}");
            let (_, is_whole) = decode(coding, &output[..output.len() - 1]);
            assert!(!is_whole, "{context}: without its last byte it is not whole");
        }
    }
}

#[test]
fn nothing_is_flushed_while_bytes_arrive_and_nothing_twice() {
    for (coding, _) in CODINGS {
        // The number of bytes of output before the end, and at the end.
        let lengths_of = |pauses: usize| {
            let mut step = step(coding, 4, None);
            let length = Cell::new(0);
            let mut sink = |bytes: &[u8]| {
                length.set(length.get() + bytes.len());
                Ok(())
            };
            for at in 0..1000_u32 {
                step.write(at.to_string().as_bytes(), &mut sink).unwrap();
                if at % 100 == 0 {
                    (0..pauses).for_each(|_| step.pause(&mut sink).unwrap());
                }
            }
            let before = length.get();
            step.finish(&mut sink).unwrap();
            (before, length.get() - before)
        };
        let (before, at_end) = lengths_of(0);
        // The header of gzip has ten bytes.
        assert!(before <= 10 && at_end > 1000, "{}: {before} and {at_end} bytes", coding.name());
        assert!(lengths_of(1).0 > 1000, "{}", coding.name());
        assert_eq!(lengths_of(1), lengths_of(9), "{}", coding.name());
    }
}

#[test]
fn a_client_that_refuses_ends_the_compression() {
    for (coding, _) in CODINGS {
        let mut step = step(coding, 1, None);
        let mut random = Rng::with_seed(1);
        let noise: Vec<u8> = (0..MAX_PIECE).map(|_| random.u8(..)).collect();
        let mut sink = |_: &[u8]| Err(fairway_connection::sides::Failure::Refused);
        let mut refused = || step.write(&noise, &mut sink).and_then(|()| step.pause(&mut sink));
        assert_eq!(refused(), Err(fairway_connection::sides::Failure::Refused), "{}", coding.name());
    }
}

fn response(status: u16, fields: &[(&str, &str)]) -> Head {
    let mut head = Head::new();
    head.start_response(status);
    fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
    head
}

/// The coding of a response and its `Vary`, for a client that accepts all codings or none.
fn outcome(response: &Head, mut body: BodySize, accepts: bool) -> (String, String) {
    let rule = |coding, min_length, types: &[&str]| CodingRule {
        coding,
        level: 1,
        min_length,
        types: types.iter().map(|name| (*name).into()).collect(),
    };
    let compression = Compression {
        codings: vec![
            rule(ContentCoding::Zstd, 1000, &["text/html"]),
            rule(ContentCoding::Brotli, 20, &["text/html"]),
            rule(ContentCoding::Gzip, 256, &["text/html", "text/plain"]),
        ],
    };
    let mut request = Head::new();
    request.start_request(b"GET", b"/");
    if accepts {
        request.append(b"Accept-Encoding", b"br, gzip, zstd");
    }
    let mut response = response.clone();
    let memory = MemoryPool::default();
    let (accepted, counted) = (Accepted::from_request(&request, false), CompressedBytes::default());
    let steps = start(&compression, accepted, &mut response, &mut body, &counted, (&memory, u64::MAX));
    let text = |name: &[u8]| String::from_utf8_lossy(response.named(name).unwrap_or_default()).into_owned();
    let coding = text(b"content-encoding");
    assert_eq!(steps.is_some(), !coding.is_empty());
    if steps.is_some() {
        assert_eq!((body, response.named(b"content-length")), (BodySize::Unknown, None));
    }
    (coding, text(b"vary"))
}

#[test]
fn type_and_length_say_which_codings_a_response_can_get() {
    const VARY: &str = "Accept-Encoding";
    for (media_type, body, expected, vary) in [
        ("text/html", BodySize::Exact(1000), "zstd", VARY),
        ("text/html", BodySize::Exact(999), "br", VARY),
        ("text/html", BodySize::Exact(20), "br", VARY),
        ("text/html", BodySize::Exact(19), "", ""),
        ("text/html", BodySize::Unknown, "zstd", VARY),
        ("text/html", BodySize::None, "", ""),
        ("Text/Plain; charset=utf-8", BodySize::Exact(256), "gzip", VARY),
        ("text/plain", BodySize::Exact(255), "", ""),
        ("text/plain", BodySize::Unknown, "gzip", VARY),
        ("image/png", BodySize::Unknown, "", ""),
    ] {
        let length = if let BodySize::Exact(length) = body { length.to_string() } else { String::new() };
        let fields = [("Content-Type", media_type), ("Content-Length", &*length)];
        let fields = if length.is_empty() { &fields[..1] } else { &fields[..] };
        let ok = response(200, fields);
        assert_eq!(outcome(&ok, body, true), (expected.into(), vary.into()), "{media_type} {body:?}");
        assert_eq!(outcome(&ok, body, false), (String::new(), vary.into()), "{media_type} {body:?}");
        let created = response(201, fields);
        assert_eq!(outcome(&created, body, true), (String::new(), String::new()), "{media_type} {body:?}");
    }
}
