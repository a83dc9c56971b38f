//! Runs the committed fuzz corpus and generated ClientHellos through the same checks.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::checks::{self, ParsedName};
use super::{HelloReader, NotClientHello};

fn read(chunks: &mut dyn Iterator<Item = &[u8]>) -> ParsedName {
    let mut reader = HelloReader::new();
    for piece in chunks {
        match reader.read(piece) {
            Ok(None) => {}
            Ok(Some(hello)) => return Ok(Some(hello.name.map(String::from))),
            Err(NotClientHello) => return Err(()),
        }
    }
    Ok(None)
}

/// A ClientHello with these extensions.
fn hello(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut content = [&[3, 3][..], &[7; 32], &[0], &[0, 4, 0x13, 1, 0xa, 0xa], &[1, 0]].concat();
    let mut all = Vec::new();
    for (kind, bytes) in extensions {
        all.extend(kind.to_be_bytes());
        all.extend(u16::try_from(bytes.len()).unwrap().to_be_bytes());
        all.extend(bytes);
    }
    content.extend(u16::try_from(all.len()).unwrap().to_be_bytes());
    content.extend(all);
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&[1][..], &length[1..], &content].concat()
}

fn server_name(name: &str) -> (u16, Vec<u8>) {
    let length = u16::try_from(name.len()).unwrap();
    (0, [&(length + 3).to_be_bytes()[..], &[0], &length.to_be_bytes(), name.as_bytes()].concat())
}

/// Splits a message into records of at most this size.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[22, 3, 1][..], &length, bytes].concat()
    };
    message.chunks(size).flat_map(record).collect()
}

fn read_at_once(input: &[u8]) -> ParsedName {
    read(&mut std::iter::once(input))
}

#[test]
fn the_corpus_passes_all_checks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/client_hello");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(files.len() >= 10, "only {} files", files.len());
    for file in files {
        checks::client_hello(&fs::read(file.unwrap().path()).unwrap(), read);
    }
}

#[test]
fn the_name_is_found_among_unknown_extensions() {
    let grease = (0x1a1a, vec![0]);
    let large = (0xfe0d, vec![9; 9_000]);
    let message =
        hello(&[grease.clone(), large.clone(), server_name("Shop.Example.com"), (51, vec![1; 1_200])]);
    for size in [1, 5, 100, 16_384] {
        let input = records(&message, size);
        let result =
            if input.len() > 32 * 1024 { Err(()) } else { Ok(Some(Some("shop.example.com".to_owned()))) };
        assert_eq!(read_at_once(&input), result, "records of {size} bytes");
        checks::client_hello(&input, read);
    }
    let without = records(&hello(&[grease, large]), 16_384);
    assert_eq!(read_at_once(&without), Ok(Some(None)));
}

#[test]
fn ambiguous_names_are_refused() {
    let twice = hello(&[server_name("a.test"), server_name("b.test")]);
    let two_in_one = {
        let (_, one) = server_name("a.test");
        let list = [&one[2..], &one[2..]].concat();
        hello(&[(0, [&u16::try_from(list.len()).unwrap().to_be_bytes()[..], &list].concat())])
    };
    for message in [twice, two_in_one, hello(&[server_name("")])] {
        let input = records(&message, 16_384);
        assert_eq!(read_at_once(&input), Err(()));
        checks::client_hello(&input, read);
    }
}

#[test]
fn the_final_dot_is_removed_and_invalid_dns_names_are_ignored() {
    let long = "a".repeat(254);
    for (asked, name) in [
        ("App.test.", Some("app.test")),
        ("app.test:443", None),
        ("a b.test", None),
        ("a\0.test", None),
        ("ä.test", None),
        ("[::1]", None),
        (".", None),
        (&long, None),
    ] {
        let input = records(&hello(&[server_name(asked)]), 16_384);
        assert_eq!(read_at_once(&input), Ok(Some(name.map(str::to_owned))), "{asked}");
        checks::client_hello(&input, read);
    }
}

#[test]
fn other_bytes_than_a_client_hello_are_refused_at_once() {
    let good = records(&hello(&[server_name("a.test")]), 16_384);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let http = b"GET / HTTP/1.1\r\n".to_vec();
    let empty_record = [&[22, 3, 1, 0, 0][..], &good].concat();
    for (input, needed) in [
        (http, 5),
        (empty_record, 5),
        (with(0, 23), 5),
        (with(1, 2), 5),
        (with(3, 0x41), 5),
        (with(5, 2), 6),
        // Longer than 16 KiB.
        (with(7, 0x40), 9),
    ] {
        assert_eq!(read_at_once(&input[..needed]), Err(()), "{input:?}");
        assert_eq!(read_at_once(&input[..needed - 1]), Ok(None), "{input:?}");
        checks::client_hello(&input, read);
    }
}

proptest! {
    #[test]
    fn any_fragmentation_gives_the_same_name(
        before in proptest::collection::vec((1u16.., proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
        name in "[a-zA-Z0-9._-]{1,40}",
        size in 1usize..600,
        flipped in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let message = hello(&[&before[..], &[server_name(&name)]].concat());
        let mut input = records(&message, size);
        let expected = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
        prop_assert_eq!(read_at_once(&input), Ok(Some(Some(expected).filter(|name| !name.is_empty()))));
        if let Some((at, byte)) = flipped {
            let at = at.index(input.len());
            input[at] = byte;
        }
        checks::client_hello(&input, read);
    }

    #[test]
    fn any_bytes_pass_all_checks(input in proptest::collection::vec(any::<u8>(), 0..300)) {
        checks::client_hello(&input, read);
    }
}
