//! Property tests for snippets, and the committed corpus of the fuzz target.

mod checks;

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use checks::snippet;

#[test]
fn the_corpus_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/snippet");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(!files.is_empty());
    for file in files {
        snippet(&fs::read(file.expect("a readable corpus").path()).expect("a readable file"));
    }
}

/// Combinations of directives and words.
fn directive() -> impl Strategy<Value = String> {
    const NAMES: [&str; 14] = [
        "add_header",
        "more_set_headers",
        "proxy_set_header",
        "return",
        "rewrite",
        "if",
        "set",
        "map",
        "deny",
        "allow",
        "location",
        "break",
        "real_ip_header",
        "x",
    ];
    const WORDS: [&str; 22] = [
        "$a",
        "$b",
        "$uri",
        "${host}",
        "($a",
        "= 1)",
        "~ ^/(a|b)$)",
        "(",
        ")",
        "{",
        "}",
        "403",
        "301",
        "/x",
        "'X: $a'",
        "$1",
        "all",
        "default",
        "permanent",
        "~*",
        "\"",
        "/y?",
    ];
    let words = vec(prop::sample::select(&WORDS[..]), 0..5);
    let end = prop::sample::select(&[";", " {", "}", "\n", "; }"][..]);
    (prop::sample::select(&NAMES[..]), words, end)
        .prop_map(|(name, words, end)| format!("{name} {}{end}\n", words.join(" ")))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_text_is_read_or_has_a_problem(text in ".{0,80}") {
        snippet(text.as_bytes());
    }

    #[test]
    fn any_directives_are_read_or_have_a_problem(directives in vec(directive(), 0..8)) {
        snippet(directives.concat().as_bytes());
    }
}
