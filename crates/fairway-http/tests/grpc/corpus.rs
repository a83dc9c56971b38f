//! Runs the fuzz target's committed corpus through the same checks.

use std::fs;
use std::path::Path;

use crate::grpc::checks;

#[test]
fn bodies_of_grpc_web_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/grpc_web");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(files.len() >= 20, "only {} files", files.len());
    for file in files {
        checks::grpc_web(&fs::read(file.expect("a readable corpus").path()).expect("a readable file"));
    }
}
