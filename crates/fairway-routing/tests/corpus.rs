//! Runs the fuzz target's committed corpus through the same checks.

use std::fs;
use std::path::Path;

use crate::checks;

#[test]
fn tables_and_lookups_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/route");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(files.len() >= 20, "only {} files", files.len());
    for file in files {
        checks::route(&fs::read(file.expect("a readable corpus").path()).expect("a readable file"));
    }
}
