//! Checks that must hold for any bytes as an `Accept-Encoding` and as a body in any pieces: the chosen coding matches a naive
//! implementation, and the decoders of other crates return the body, at each pause as far as it was written. Shared with a fuzz
//! target.

#![allow(clippy::unwrap_used, reason = "a check that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fairway_http::Head;
use fairway_model::{CodingRule, ContentCoding};
use flate2::read::GzDecoder;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::accepted::Accepted;
use super::compressors;

/// All codings with their levels, in the order of rules.
pub(crate) const CODINGS: [(ContentCoding, RangeInclusive<u8>); 3] =
    [(ContentCoding::Zstd, 1..=9), (ContentCoding::Brotli, 0..=6), (ContentCoding::Gzip, 1..=9)];

/// The maximum length of a body.
const MAX_BODY: usize = 128 * 1024;

/// Bodies up to this length are decoded at pauses, at most `MAX_DECODED` times.
const MAX_DECODED_AT_PAUSES: usize = 8 * 1024;
const MAX_DECODED: usize = 8;

/// Checks any bytes: an `Accept-Encoding` up to the first line feed, then the input of a compressor.
pub(crate) fn compression(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    negotiation(&input[..end]);
    if let Some([kind, behaviour, body @ ..]) = input.get(end + 1..) {
        compressor(*kind, behaviour & 1 > 0, body);
    }
}

/// A rule for a coding.
pub(crate) fn rule(coding: ContentCoding, level: u8) -> CodingRule {
    CodingRule { coding, level, min_length: 0, types: [Arc::from("*")].into() }
}

fn negotiation(value: &[u8]) {
    // A head cannot contain these.
    let value: &[u8] =
        &value.iter().map(|byte| if matches!(byte, 0 | b'\r') { b' ' } else { *byte }).collect::<Vec<_>>();
    let rules = CODINGS.map(|(coding, levels)| rule(coding, *levels.start()));
    let choice = |values: &[&[u8]]| {
        let mut head = Head::new();
        head.start_request(b"GET", b"/");
        values.iter().for_each(|value| head.append(b"Accept-Encoding", value));
        Accepted::from_request(&head, false).choose(rules.iter()).map(|rule| rule.coding.name())
    };
    let expected = naive_choice(value);
    assert_eq!(choice(&[value]), expected, "{:?}", value.escape_ascii().to_string());
    let lines: Vec<_> = value.split(|byte| *byte == b',').collect();
    assert_eq!(choice(&lines), expected, "in lines of their own: {:?}", value.escape_ascii().to_string());
    assert_eq!(choice(&[&value.to_ascii_uppercase()]), expected, "{:?}", value.escape_ascii().to_string());
}

/// A naive implementation of RFC 9110 §12.5.3.
fn naive_choice(value: &[u8]) -> Option<&'static str> {
    let text: String = value.to_ascii_lowercase().iter().map(|byte| char::from(*byte)).collect();
    let trimmed = |text: &str| text.trim_matches(|each: char| each.is_ascii_whitespace()).to_owned();
    let mut weights = BTreeMap::new();
    for element in text.split(',') {
        let (coding, weight) = match element.split_once(';') {
            None => (trimmed(element), 1000),
            Some((coding, weight)) => (trimmed(coding), naive_weight(&trimmed(weight))),
        };
        let coding = if coding == "x-gzip" { "gzip".to_owned() } else { coding };
        weights.entry(coding).or_insert(weight);
    }
    let identity = weights.get("identity").copied().unwrap_or(0);
    let others = weights.get("*").copied().unwrap_or(0);
    let weight = |name: &str| weights.get(name).copied().unwrap_or(others);
    let names = CODINGS.map(|(coding, _)| coding.name());
    let best = names.iter().map(|name| weight(name)).max().unwrap();
    names.into_iter().find(|name| best > 0 && best >= identity && weight(name) == best)
}

fn naive_weight(text: &str) -> u32 {
    let Some(value) = text.strip_prefix("q=") else { return 0 };
    let (whole, digits) = value.split_once('.').unwrap_or((value, ""));
    let is_number = digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    match (whole, is_number) {
        ("0", true) => format!("{digits:0<3}").parse().unwrap(),
        ("1", true) if digits.bytes().all(|byte| byte == b'0') => 1000,
        _ => 0,
    }
}

/// One call of a compressor.
enum Act {
    Write(Vec<u8>),
    Pause,
}

/// Decodes a body and its pauses: literal bytes, one repeated byte, or a repetition of the body's beginning.
fn acts(mut input: &[u8]) -> Vec<Act> {
    let (mut acts, mut body) = (Vec::new(), Vec::new());
    while let [act, rest @ ..] = input {
        let count = usize::from(act >> 2);
        let chunk = match act & 3 {
            0 => {
                let (piece, rest_of_input) = rest.split_at(count.min(rest.len()));
                input = rest_of_input;
                piece.to_vec()
            }
            1 => {
                let (first, rest_of_input) =
                    rest.split_first().map_or((0, rest), |(first, rest_of_input)| (*first, rest_of_input));
                input = rest_of_input;
                vec![first; 1 + count * count * 8]
            }
            2 => {
                input = rest;
                body.iter().take(1 + count * 1024).copied().collect()
            }
            _ => {
                input = rest;
                acts.push(Act::Pause);
                continue;
            }
        };
        if body.len() + chunk.len() > MAX_BODY {
            break;
        }
        body.extend_from_slice(&chunk);
        acts.push(Act::Write(chunk));
    }
    acts
}

fn compressor(kind: u8, has_length: bool, input: &[u8]) {
    let kinds: Vec<_> =
        CODINGS.into_iter().flat_map(|(coding, levels)| levels.map(move |level| (coding, level))).collect();
    let (coding, level) = kinds[usize::from(kind) % kinds.len()];
    let acts = acts(input);
    let length =
        acts.iter().map(|act| if let Act::Write(piece) = act { piece.len() } else { 0 }).sum::<usize>();
    let mut step = compressors::start(&rule(coding, level), has_length.then_some(length as u64)).unwrap();
    let (mut body, mut output, mut decoded) = (Vec::new(), Vec::new(), 0);
    for act in acts {
        let mut sink = |bytes: &[u8]| {
            output.extend_from_slice(bytes);
            Ok(())
        };
        match act {
            Act::Write(piece) => {
                for part in piece.chunks(step.takes(piece.len())) {
                    step.write(part, &mut sink).unwrap();
                }
                body.extend_from_slice(&piece);
            }
            Act::Pause => {
                step.pause(&mut sink).unwrap();
                if body.len() <= MAX_DECODED_AT_PAUSES && decoded < MAX_DECODED {
                    decoded += 1;
                    assert!(decode(coding, &output) == (body.clone(), false), "at a pause");
                }
            }
        }
    }
    step.finish(&mut |bytes| {
        output.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    assert!(!decode(coding, &output[..output.len() - 1]).1, "without its last byte it is not whole");
    assert!(decode(coding, &output) == (body, true), "{} {level}: {length} bytes", coding.name());
}

/// Decodes as much as possible, and returns whether the body is complete.
pub(crate) fn decode(coding: ContentCoding, bytes: &[u8]) -> (Vec<u8>, bool) {
    match coding {
        ContentCoding::Gzip => read_all(GzDecoder::new(bytes)),
        ContentCoding::Brotli => read_all(::brotli::Decompressor::new(bytes, 4096)),
        ContentCoding::Zstd => decode_zstd(bytes),
    }
}

fn read_all(mut decoder: impl Read) -> (Vec<u8>, bool) {
    let (mut decoded, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match decoder.read(&mut piece) {
            Ok(0) => return (decoded, true),
            Ok(count) => decoded.extend_from_slice(&piece[..count]),
            Err(_) => return (decoded, false),
        }
    }
}

/// Decodes like a client that only has the window that the compressor promises to need.
fn decode_zstd(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut state = DCtx::create();
    state.set_parameter(DParameter::WindowLogMax(16)).unwrap();
    let (mut decoded, mut piece) = (Vec::new(), [0; 4096]);
    let mut from = InBuffer::around(bytes);
    loop {
        let mut into = OutBuffer::around(&mut piece[..]);
        let Ok(left) = state.decompress_stream(&mut into, &mut from) else { return (decoded, false) };
        let written = into.pos();
        decoded.extend_from_slice(&piece[..written]);
        if left == 0 || (written == 0 && from.pos() == bytes.len()) {
            return (decoded, left == 0 && from.pos() == bytes.len());
        }
    }
}
