//! Property tests for password files and passwords, and the committed corpus of the fuzz target.

mod checks;

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use checks::{file_and_password, password};

/// Lines with real hashes and with errors.
fn line() -> impl Strategy<Value = String> {
    const SCHEMES: [&str; 12] =
        ["{PLAIN}", "{SHA}", "{SSHA}", "$1$", "$apr1$", "$5$", "$6$", "$2b$04$", "$2y$", "$", "{", ""];
    let hash = (prop::sample::select(&SCHEMES[..]), "[ -~é]{0,70}")
        .prop_map(|(scheme, rest)| format!("{scheme}{rest}"));
    prop_oneof![4 => ("[a-z:]{0,4}", hash).prop_map(|(user, hash)| format!("{user}:{hash}")), 1 => ".{0,20}"]
}

#[test]
fn the_corpus_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/password");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(!files.is_empty());
    for file in files {
        password(&fs::read(file.expect("a readable corpus").path()).expect("a readable file"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_file_is_read(lines in vec(line(), 0..6), end in "\r?\n", password in "[ -~]{0,20}") {
        file_and_password(&lines.join(&end), password.as_bytes());
    }

    #[test]
    fn a_plain_password_is_found(user in "[a-z]{1,8}", password in "[!-9;-~]{0,20}") {
        file_and_password(&format!("{user}:{{PLAIN}}{password}\n"), password.as_bytes());
    }
}
