//! Property tests for firewall rules, and the committed corpus of the fuzz target.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::rules::any_text;

#[test]
fn the_corpus_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/seclang");
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is committed").collect();
    assert!(!files.is_empty());
    for file in files {
        any_text(&fs::read(file.expect("a readable corpus").path()).expect("a readable file"));
    }
}

/// Parts of directives to combine.
const PIECES: [&str; 44] = [
    "SecRule ",
    "SecAction ",
    "SecMarker ",
    "SecDefaultAction ",
    "SecRuleEngine ",
    "SecRuleRemoveById ",
    "SecRuleUpdateTargetById ",
    "SecRuleUpdateActionById ",
    "SecRequestBodyLimit ",
    "SecAuditLogRelevantStatus ",
    "Include /etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf",
    "ARGS",
    "ARGS:a",
    "XML:/*",
    "REQUEST_HEADERS:/^x/",
    "|",
    "!",
    "&",
    "\"",
    "\\\"",
    "\\",
    "'",
    "\\'",
    ",",
    " ",
    "\n",
    "\\\n",
    "#",
    "@rx ",
    "@pm a b",
    "!@streq x",
    "(?:a|b)",
    "[^]]",
    "{1,3}",
    "id:1",
    "id:2",
    "phase:2",
    "deny",
    "chain",
    "msg:",
    "t:none",
    "ctl:ruleEngine=Off",
    "On",
    "1",
];

fn rule() -> impl Strategy<Value = String> {
    let chunk = || proptest::sample::select(PIECES.as_slice());
    let rule = (1u32..9, chunk(), chunk(), chunk());
    rule.prop_map(|(id, variable, operator, action)| {
        format!("SecRule ARGS|{variable} \"{operator}\" \"id:{id},{action}\"\n")
    })
}

proptest! {
    #[test]
    fn any_pieces_hold(pieces in vec(proptest::sample::select(PIECES.as_slice()), 0..40)) {
        any_text(pieces.concat().as_bytes());
    }

    #[test]
    fn any_rules_hold(rules in vec(rule(), 0..6)) {
        any_text(rules.concat().as_bytes());
    }

    #[test]
    fn any_bytes_hold(bytes in vec(any::<u8>(), 0..200)) {
        any_text(&bytes);
    }
}
