//! Field blocks: the examples of RFC 7541 Appendix C, every rule of §4 and §6, and round trips.

use proptest::prelude::*;

use super::*;
use crate::verdict::{Defect, Verdict};

type Field = (String, String, bool);

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, CompressionError> {
    let mut fields = Vec::new();
    decoder.decode(block, |line| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(line.bytes, [line.name(), b": ", line.value(), b"\r\n"].concat());
        assert_eq!(line.verdict, Verdict::for_field(line.name(), line.value()), "the verdict of {line:?}");
        fields.push((text(line.name()), text(line.value()), line.sensitive));
    })?;
    Ok(fields)
}

/// The lines of a block as `name: value`.
fn shown(decoder: &mut Decoder, block: &str) -> Vec<String> {
    let fields = fields(decoder, &hex(block)).expect("a valid block");
    fields.into_iter().map(|(name, value, _)| format!("{name}: {value}")).collect()
}

#[track_caller]
fn refused(block: &str) {
    assert_eq!(fields(&mut Decoder::new(4096), &hex(block)), Err(CompressionError), "{block}");
}

const FIRST: [&str; 4] = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];

#[test]
fn rfc7541_c_2_single_fields() {
    let mut decoder = Decoder::new(4096);
    let block = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    assert_eq!(shown(&mut decoder, block), ["custom-key: custom-header"]);
    assert_eq!(shown(&mut decoder, "be"), ["custom-key: custom-header"], "it is in the table");
    let mut decoder = Decoder::new(4096);
    assert_eq!(shown(&mut decoder, "040c 2f73 616d 706c 652f 7061 7468"), [":path: /sample/path"]);
    assert_eq!(fields(&mut decoder, &[0xbe]), Err(CompressionError), "it is not");
    let never = fields(&mut Decoder::new(4096), &hex("1008 7061 7373 776f 7264 0673 6563 7265 74")).unwrap();
    assert_eq!(never, [("password".into(), "secret".into(), true)]);
    assert_eq!(shown(&mut Decoder::new(4096), "82"), [":method: GET"]);
}

#[test]
fn rfc7541_c_3_and_c_4_requests_with_and_without_huffman() {
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        let mut decoder = Decoder::new(4096);
        assert_eq!(shown(&mut decoder, blocks[0]), FIRST);
        let second = shown(&mut decoder, blocks[1]);
        assert_eq!(second, [&FIRST[..], &["cache-control: no-cache"]].concat());
        assert_eq!(
            shown(&mut decoder, blocks[2]),
            [
                ":method: GET",
                ":scheme: https",
                ":path: /index.html",
                ":authority: www.example.com",
                "custom-key: custom-value"
            ]
        );
    }
}

#[test]
fn rfc7541_c_5_and_c_6_responses_evict() {
    for blocks in [
        [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
             3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
        ],
        [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
             1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
        ],
    ] {
        // "the maximum dynamic table size ... set to 256 octets"
        let mut decoder = Decoder::new(4096);
        assert_eq!(shown(&mut decoder, "3fe1 01"), [""; 0]);
        let rest = [
            "cache-control: private",
            "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "location: https://www.example.com",
        ];
        assert_eq!(shown(&mut decoder, blocks[0]), [&[":status: 302"], &rest[..]].concat());
        assert_eq!(shown(&mut decoder, blocks[1]), [&[":status: 307"], &rest[..]].concat());
        assert_eq!(shown(&mut decoder, "c1"), ["cache-control: private"], "the first status was evicted");
        assert_eq!(fields(&mut decoder, &[0xc2]), Err(CompressionError));
    }
}

#[test]
fn rfc7541_6_1_index_zero_and_beyond_are_refused() {
    refused("80");
    refused("be");
    refused("ff 80 80 80 80 80 01");
    refused("7f 00 01 61");
}

#[test]
fn rfc7541_5_truncated_strings_and_integers_are_refused() {
    for block in ["ff", "40", "40 01", "40 01 61", "40 01 61 02 62", "40 01 61 ff", "00", "3f", "41 8c f1"] {
        refused(block);
    }
    assert!(fields(&mut Decoder::new(4096), &[]).unwrap().is_empty());
}

#[test]
fn rfc7541_4_2_size_updates_only_begin_a_block() {
    let mut decoder = Decoder::new(4096);
    assert_eq!(shown(&mut decoder, "20 3fe1 1f 82"), [":method: GET"], "0, then 4,096");
    refused("82 20");
    refused("82 3fe1 1f");
}

#[test]
fn rfc7541_6_3_size_updates_stay_within_the_limit() {
    refused("3fe2 1f");
    let mut decoder = Decoder::new(8192);
    assert_eq!(shown(&mut decoder, "3fe1 3f 82"), [":method: GET"]);
}

#[test]
fn rfc9113_4_3_1_a_reduction_must_be_signalled() {
    let mut decoder = Decoder::new(4096);
    decoder.set_limit(100);
    assert_eq!(fields(&mut decoder, &hex("82")), Err(CompressionError));
    let mut decoder = Decoder::new(4096);
    decoder.set_limit(100);
    decoder.set_limit(4096);
    assert_eq!(fields(&mut decoder, &hex("3fe1 1f 82")), Err(CompressionError), "4,096 alone is not enough");
    let mut decoder = Decoder::new(4096);
    decoder.set_limit(100);
    decoder.set_limit(4096);
    assert_eq!(shown(&mut decoder, "3f45 3fe1 1f 82"), [":method: GET"], "100, then 4,096");
}

#[test]
fn rfc7541_4_4_a_name_may_be_evicted_while_its_entry_is_inserted() {
    let mut decoder = Decoder::new(64);
    assert_eq!(shown(&mut decoder, "3f21 4001 6101 62"), ["a: b"]);
    let block = [&hex("7e1e")[..], &[b'c'; 30]].concat();
    let value = "c".repeat(30);
    assert_eq!(fields(&mut decoder, &block).unwrap(), [("a".into(), value.clone(), false)]);
    assert_eq!(shown(&mut decoder, "be"), [format!("a: {value}")]);
}

#[test]
fn verdicts_of_names_outlive_bad_values() {
    let mut decoder = Decoder::new(4096);
    let mut verdicts = Vec::new();
    // `te: gzip` enters the table, then its name with `trailers`, then both by index.
    for block in ["4002 7465 0467 7a69 70", "7e08 7472 6169 6c65 7273", "be bf"] {
        decoder.decode(&hex(block), |line| verdicts.push(line.verdict)).unwrap();
    }
    let bad = Verdict::Bad(Defect::Te);
    assert_eq!(verdicts, [bad, Verdict::Regular, Verdict::Regular, bad]);
}

#[test]
fn by_default_the_encoder_uses_only_the_static_table() {
    let mut encoder = Encoder::new(StringCoding::Plain, 0);
    let mut out = Vec::new();
    encoder.begin_block(&mut out);
    encoder.write_status(200, &mut out);
    encoder.write_field(b"Content-Type", b"a", false, &mut out);
    encoder.write_field(b"X-A", b"b", false, &mut out);
    encoder.write_field(b"x-s", b"b", true, &mut out);
    encoder.write_field(b"Authorization", b"c", false, &mut out);
    assert_eq!(out, hex("88 0f10 0161 0003 782d 6101 62 1003 782d 7301 62 1f08 0163"));
    assert_eq!(encoder.kept_bytes(), 0);
}

#[test]
fn the_encoder_signals_a_smaller_table_even_without_one() {
    let mut encoder = Encoder::new(StringCoding::Plain, 0);
    let mut out = Vec::new();
    encoder.set_limit(0);
    encoder.set_limit(300);
    encoder.begin_block(&mut out);
    encoder.begin_block(&mut out);
    assert_eq!(out, hex("20 3f8d 02"));
}

#[test]
fn a_table_makes_repeated_fields_one_byte_but_never_secrets() {
    let mut encoder = Encoder::new(StringCoding::Huffman, 4096);
    let mut decoder = Decoder::new(4096);
    let written = [("server", "x", false), ("cookie", "k", false), ("x-token", "t", true)];
    let mut lengths = Vec::new();
    for _ in 0..2 {
        let mut out = Vec::new();
        encoder.begin_block(&mut out);
        for (name, value, sensitive) in written {
            encoder.write_field(name.as_bytes(), value.as_bytes(), sensitive, &mut out);
        }
        lengths.push(out.len());
        let read = fields(&mut decoder, &out).unwrap();
        assert_eq!(read, written.map(|(name, value, sensitive)| (name.into(), value.into(), sensitive)));
    }
    assert_eq!(lengths[0] - lengths[1], 2, "only `server` became an index: {lengths:?}");
}

/// Repeating names, so that tables are used.
fn some_fields() -> impl Strategy<Value = Vec<Field>> {
    let name = prop_oneof![
        "[a-z]{1,3}",
        "x-[a-z]{1,70}",
        Just("server".to_owned()),
        Just(":status".to_owned()),
        Just("cookie".to_owned()),
    ];
    let value = prop_oneof!["[a-c]{0,2}", "[ -~]{0,60}", "[a-z]{200,1200}"];
    prop::collection::vec((name, value, prop::bool::weighted(0.1)), 0..40)
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        blocks in prop::collection::vec((some_fields(), prop::option::weighted(0.2, 0..6000usize)), 1..12),
        wanted in prop_oneof![Just(0usize), Just(4096), 0..4096usize],
        huffman in any::<bool>(),
    ) {
        let strings = if huffman { StringCoding::Huffman } else { StringCoding::Plain };
        let (mut encoder, mut decoder) = (Encoder::new(strings, wanted), Decoder::new(4096));
        for (written, limit) in blocks {
            if let Some(limit) = limit {
                encoder.set_limit(limit);
                decoder.set_limit(limit);
            }
            let mut out = Vec::new();
            encoder.begin_block(&mut out);
            for (name, value, sensitive) in &written {
                encoder.write_field(name.as_bytes(), value.as_bytes(), *sensitive, &mut out);
            }
            let read = fields(&mut decoder, &out).expect("what was encoded");
            let text = |fields: &[Field]| fields.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect::<Vec<_>>();
            prop_assert_eq!(text(&read), text(&written));
            for (read, written) in read.iter().zip(&written) {
                prop_assert!(read.2 == written.2 || (written.2 && !read.2 && read.1.len() < 4));
            }
        }
    }

    #[test]
    fn any_block_is_read_or_refused(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..4)) {
        let mut decoder = Decoder::new(4096);
        for block in blocks {
            if fields(&mut decoder, &block).is_err() {
                break;
            }
        }
    }
}
