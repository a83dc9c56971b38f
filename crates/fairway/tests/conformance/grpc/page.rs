//! The table of results in `docs/grpc.md`.

use std::fmt::Write;

use serde_json::Value;

use crate::conformance::report::checkout;

const BEGIN: &str = "<!-- interop:begin -->\n";
const END: &str = "<!-- interop:end -->";

/// The columns.
const PATHS: [&str; 6] = ["direct, h2c", "h2c, GRPC", "TLS, GRPC", "direct, TLS", "h2c, GRPCS", "TLS, GRPCS"];

pub(super) const DOCUMENT: &str = "docs/grpc.md";

/// The page with its results.
pub(super) fn with(results: &Value) -> String {
    let page = std::fs::read_to_string(checkout().join(DOCUMENT)).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the marker");
    let (_, after) = rest.split_once(END).expect("the page has the marker");
    [before, BEGIN, &text(results), END, after].concat()
}

fn text(results: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = results["versions"].as_object().into_iter().flatten();
    let versions: Vec<String> = versions.map(|(name, version)| format!("{name} {}", word(version))).collect();
    let runs = || results["runs"].as_array().into_iter().flatten();
    let mut text =
        format!("Measured at revision {} with {}.\n\n", word(&results["revision"]), versions.join(" and "));
    _ = writeln!(text, "| client | server | {} |", PATHS.join(" | "));
    _ = writeln!(text, "| --- | --- |{}", " --- |".repeat(PATHS.len()));
    let mut pairs: Vec<_> = runs().map(|run| (&run["client"], &run["server"])).collect();
    pairs.dedup();
    for (client, server) in pairs {
        let cell = |path: &&str| {
            let mut found = runs()
                .filter(|run| (&run["client"], &run["server"]) == (client, server) && run["path"] == **path);
            found.next().map_or_else(String::new, |run| format!("{} of {}", run["passed"], run["cases"]))
        };
        let cells: Vec<String> = PATHS.iter().map(cell).collect();
        _ = writeln!(text, "| {} | {} | {} |", word(client), word(server), cells.join(" | "));
    }
    for run in runs() {
        for (case, why) in run["failed"].as_object().into_iter().flatten() {
            let (client, server, path) = (word(&run["client"]), word(&run["server"]), word(&run["path"]));
            _ = writeln!(text, "\n{client} to {server}, {path}: `{case}` failed: {}", word(why));
        }
    }
    text
}
