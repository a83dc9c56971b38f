//! Runs the tables of the specifications, the committed fuzz corpus and generated headers through the same
//! checks.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::checks;
use super::context::{B3, B3Sampling, B3Values, TraceParent, is_state_in_bounds};

const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const SPAN: u64 = 0x00f0_67aa_0ba9_02b7;

#[test]
fn the_corpus_passes_all_checks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace_context");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(files.len() >= 5, "only {} files", files.len());
    for file in files {
        checks::trace_context(&fs::read(file.unwrap().path()).unwrap());
    }
}

/// W3C Trace Context §3.2 and its examples.
#[test]
fn a_traceparent_is_parsed_as_specified() {
    let read = |value: &str| {
        checks::trace_context(value.as_bytes());
        TraceParent::read(value.as_bytes())
    };
    let known = |flags| Some(TraceParent { trace_id: TRACE, parent_id: SPAN, flags });
    let ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
    for (value, expected) in [
        (format!("00-{ids}-01"), known(1)),
        (format!("00-{ids}-00"), known(0)),
        // Unknown flags are no error; a random trace id is one.
        (format!("00-{ids}-03"), known(3)),
        (format!("00-{ids}-ff"), known(0xff)),
        // Of later versions only what 00 defines counts (§3.2.4).
        (format!("01-{ids}-03"), known(1)),
        (format!("cc-{ids}-01-what-the-future-will-be-like"), known(1)),
        (format!("fe-{ids}-00-"), known(0)),
        (format!("cc-{ids}-01.what"), None),
        (format!("cc-{ids}-01{}", "-".repeat(457)), known(1)),
        (format!("cc-{ids}-01{}", "-".repeat(458)), None),
        (format!("ff-{ids}-01"), None),
        (format!("00-{ids}-01-"), None),
        (format!("00-{ids}-01-what"), None),
        (format!("00-{ids}-0"), None),
        (format!("00-{ids}"), None),
        (format!("00-{ids}-1"), None),
        (format!("0-{ids}-01"), None),
        (format!("0g-{ids}-01"), None),
        (format!("00-{ids}-0G"), None),
        (format!("00_{ids}-01"), None),
        (format!("00-{ids}_01"), None),
        (format!("00-{}-01", ids.replace('-', "_")), None),
        // "Vendors MUST ignore the traceparent when the trace-id is invalid", which all zeroes and upper case are.
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01".to_owned(), None),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01".to_owned(), None),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01".to_owned(), None),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01".to_owned(), None),
        ("00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01".to_owned(), None),
        ("00-4bf92f3577b34da6a3ce929d0e0e473.-00f067aa0ba902b7-01".to_owned(), None),
        (" ".repeat(55), None),
        (String::new(), None),
    ] {
        assert_eq!(read(&value), expected, "{value}");
    }
    let high = format!("00-{ids}-01").replace("4bf9", "\u{ff}f9").into_bytes();
    assert_eq!(TraceParent::read(&high), None, "bytes outside of ASCII");
}

#[test]
fn every_invalid_digit_is_detected_at_any_position() {
    let value = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for at in 0..value.len() {
        for byte in 0..=255 {
            let mut changed = *value;
            changed[at] = byte;
            checks::trace_context(&changed);
        }
    }
}

/// §3.3.1: limits of a propagated `tracestate`.
#[test]
fn a_tracestate_has_32_members_and_512_characters_at_most() {
    let members = |count: usize| vec!["a=1"; count].join(",");
    for (lines, expected) in [
        (vec![String::new()], true),
        (vec!["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE".to_owned()], true),
        (vec![members(32)], true),
        (vec![members(33)], false),
        (vec![members(16), members(16)], true),
        (vec![members(16), members(17)], false),
        (vec!["a".repeat(512)], true),
        (vec!["a".repeat(513)], false),
        (vec!["a".repeat(256), "a".repeat(255)], true),
        (vec!["a".repeat(256), "a".repeat(256)], false),
    ] {
        assert_eq!(is_state_in_bounds(lines.iter().map(String::as_bytes)), expected, "{lines:?}");
    }
    assert!(is_state_in_bounds(std::iter::empty()));
}

#[test]
fn b3_is_parsed_as_specified() {
    let read = |value: &str| {
        checks::trace_context(value.as_bytes());
        B3::read(value.as_bytes())
    };
    for (value, short, sampling, parent) in [
        ("80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90", false, "1", true),
        ("80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-d", false, "d", false),
        ("80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-0", false, "0", false),
        ("80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1", false, "", false),
        ("64fe8b2a57d3eff7-e457b5a2e4d86bd1-1", true, "1", false),
    ] {
        let Some(B3::Context(context)) = read(value) else { panic!("{value}") };
        assert_eq!(context.trace_id as u64, 0x64fe_8b2a_57d3_eff7);
        assert_eq!(context.trace_id >> 64 == 0, short, "{value}");
        assert_eq!((context.is_short, context.span_id), (short, 0xe457_b5a2_e4d8_6bd1), "{value}");
        assert_eq!(context.parent_id, parent.then_some(0x05e3_ac9a_4f6e_3b90), "{value}");
        let expected = match sampling {
            "0" => B3Sampling::Denied,
            "1" => B3Sampling::Accepted,
            "d" => B3Sampling::Debug,
            _ => B3Sampling::Deferred,
        };
        assert_eq!(context.sampling, expected, "{value}");
    }
    for (value, decision) in [("0", false), ("1", true), ("d", true)] {
        let Some(B3::Decision(sampling)) = read(value) else { panic!("{value}") };
        assert_eq!(sampling.decision(), Some(decision));
    }
    for wrong in [
        "",
        "2",
        "true",
        "-",
        "80f198ee56343ba864fe8b2a57d3eff7",
        "80f198ee56343ba864fe8b2a57d3eff7-",
        "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-",
        "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-x",
        "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-",
        "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90-",
        "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-05e3ac9a4f6e3b90",
        "80F198EE56343BA864FE8B2A57D3EFF7-e457b5a2e4d86bd1-1",
        "80f198ee56343ba864fe8b2a57d3eff-e457b5a2e4d86bd1-1",
        "00000000000000000000000000000000-e457b5a2e4d86bd1-1",
        "0000000000000000-e457b5a2e4d86bd1-1",
        "64fe8b2a57d3eff7-0000000000000000-1",
        "64fe8b2a57d3eff7-e457b5a2e4d86bd1-1-0000000000000000",
    ] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn b3_in_multiple_headers_is_equivalent() {
    let values = |text: [&'static str; 5]| {
        let [trace_id, span_id, parent_span_id, sampled, flags] =
            text.map(|value| (!value.is_empty()).then_some(value.as_bytes()));
        B3Values { trace_id, span_id, parent_span_id, sampled, flags }
    };
    let (trace, span, parent) = ("80f198ee56343ba864fe8b2a57d3eff7", "e457b5a2e4d86bd1", "05e3ac9a4f6e3b90");
    for (text, single) in [
        ([trace, span, parent, "1", ""], Some(format!("{trace}-{span}-1-{parent}"))),
        ([trace, span, "", "0", ""], Some(format!("{trace}-{span}-0"))),
        ([trace, span, "", "", ""], Some(format!("{trace}-{span}"))),
        ([trace, span, "", "", "1"], Some(format!("{trace}-{span}-d"))),
        ([trace, span, "", "1", "1"], Some(format!("{trace}-{span}-d"))),
        ([&trace[16..], span, "", "1", "0"], Some(format!("{}-{span}-1", &trace[16..]))),
        (["", "", "", "1", ""], Some("1".to_owned())),
        (["", "", "", "0", ""], Some("0".to_owned())),
        (["", "", "", "", "1"], Some("d".to_owned())),
        ([trace, "", "", "1", ""], None),
        (["", span, "", "1", ""], None),
        (["", "", parent, "1", ""], None),
        ([trace, span, "", "0", "1"], None),
        ([trace, span, "", "true", ""], None),
        ([trace, span, "", "1", "2"], None),
        ([trace, span, "x", "1", ""], None),
        ([trace, "x", "", "1", ""], None),
        (["x", span, "", "1", ""], None),
    ] {
        checks::trace_context(text.join("\n").as_bytes());
        let expected = single.and_then(|single| B3::read(single.as_bytes()));
        assert_eq!(B3::read_values(&values(text)), expected, "{text:?}");
    }
    assert_eq!(B3::read_values(&B3Values::default()), Some(B3::Decision(B3Sampling::Deferred)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_headers_pass_all_checks(
        words in vec(select(&[
            "00", "01", "ff", "-", "-", "-", "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "0000000000000000",
            "A", "d", "1", "0", "\n", "a=b", ",",
        ][..]), 0..14),
        other in vec(any::<u8>(), 0..4),
        at in any::<prop::sample::Index>(),
    ) {
        let mut input = words.concat().into_bytes();
        let at = at.index(input.len() + 1);
        drop(input.splice(at..at, other));
        checks::trace_context(&input);
    }

    #[test]
    fn contexts_round_trip(trace_id in 1_u128.., parent_id in 1_u64.., flags in any::<u8>()) {
        let parent = TraceParent { trace_id, parent_id, flags };
        let mut written = Vec::new();
        parent.write(&mut written);
        prop_assert_eq!(TraceParent::read(&written), Some(parent));
        checks::trace_context(&written);
    }
}
