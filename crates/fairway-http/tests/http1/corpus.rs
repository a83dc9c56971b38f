//! Runs the fuzz targets' committed corpora through the same checks.

use std::fs;
use std::path::Path;

use crate::http1::checks;

#[track_caller]
fn rerun(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is committed") {
        let file = entry.expect("a readable corpus").path();
        check(&fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
        files += 1;
    }
    assert!(files >= 20, "{target} has only {files} files");
}

#[test]
fn requests_hold() {
    rerun("h1_request", checks::request);
}

#[test]
fn responses_hold() {
    rerun("h1_response", checks::response);
}

#[test]
fn chunked_bodies_hold() {
    rerun("chunked", checks::chunked);
}

#[test]
fn paths_hold() {
    rerun("path", checks::path);
}
