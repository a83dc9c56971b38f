//! Any exchange in any log format, and the committed corpus of the fuzz target: no value can end its line or its quotes.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::log_checks::{ClientValues, check_fuzz_input, check_log_line};

/// Bytes with a meaning for readers of the line, and others.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => prop::sample::select(&b"\"\\'{}[],:; =\t\r\n\x7f\x00\x1b\xff\xe2\x80\xa8\xc3"[..]), 2 => any::<u8>()];
    vec(byte, 0..40)
}

fn cookies() -> impl Strategy<Value = Vec<u8>> {
    let pair = prop_oneof![bytes(), bytes().prop_map(|value| [&b" a="[..], &value].concat())];
    vec(pair, 0..4).prop_map(|pairs| pairs.join(&b';'))
}

fn format() -> impl Strategy<Value = String> {
    const WORDS: [&str; 11] =
        ["$request", "${uri}", "$http_x_any", "$cookie_a", "$nothing", "$", "${", "\\n", "\\", "\"", " x "];
    let word = prop::sample::select(&WORDS[..]).prop_map(str::to_owned);
    vec(prop_oneof![4 => word, 1 => ".{0,4}"], 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn the_corpus_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/log_line");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(!files.is_empty());
    for file in files {
        check_fuzz_input(&fs::read(file.expect("a readable corpus").path()).expect("a readable file"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn no_value_ends_its_line(
        (method, target, user, field) in (bytes(), bytes(), bytes(), bytes()),
        cookie in cookies(),
        host in ".{0,12}",
        format in format(),
    ) {
        let client_values = ClientValues { method: &method, target: &target, user: &user, field: &field, cookie: &cookie, host: &host };
        check_log_line(&client_values, &format);
    }
}
