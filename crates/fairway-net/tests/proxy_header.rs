//! PROXY protocol headers: runs the fuzz target's committed corpus through the same checks.

mod checks;

use std::fs;
use std::path::Path;

use fairway_net::proxy_header::parse;

#[test]
fn headers_of_the_proxy_protocol_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/proxy_header");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(files.len() >= 20, "only {} files", files.len());
    for file in files {
        let input = fs::read(file.expect("a readable corpus").path()).expect("a readable file");
        checks::proxy_header(&input, |bytes| match parse(bytes) {
            Ok(header) => {
                Ok(header
                    .map(|header| (header.client.zip(header.server), bytes.len() - header.remaining.len())))
            }
            Err(_) => Err(()),
        });
    }
}
