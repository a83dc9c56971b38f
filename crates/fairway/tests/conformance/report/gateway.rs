//! The section about the official Gateway API conformance suite, from the report and the list of runs that
//! `conformance/gateway/run` wrote.

use std::fmt::Write;
use std::path::Path;

use fairway_objects::manifest::{self, Schema};
use serde_json::Value;

use super::page::{list, text};

const BEGIN: &str = "
## Gateway API: the official suite

`make gateway-conformance` (root, Go) runs the [suite](../conformance/gateway/README.md) of Gateway API v1.6.3 against Fairway as the
chart installs it, in a [testbed](../testbed/README.md).

The run claims all extended features of the profiles and `GRPCRouteNamedRouteRule` ([list](../conformance/gateway/claims/claims.go)). The
report does not count the tests `GRPCRouteNamedRule` and `HTTPRouteDisallowedKind`, which are in no profile; the table of runs does. The
CRDs come from the experimental channel, because the standard one lacks needed fields, such as `retry`. The
[report](../conformance/reports/v1.6/fairway-fairway/README.md) of the last published run:

| profile | core: passed, failed, skipped | extended: passed, failed, skipped | extended features |
| --- | --- | --- | --- |
";

const RUNS: &str = "
The last complete runs. A test counts once for each of its profiles.

| date | revision | passed | failed | skipped | time |
| --- | --- | --- | --- | --- | --- |
";

/// Number of runs that are shown.
const SHOWN: usize = 3;

/// The section.
pub(super) fn section(page: &mut String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/reports");
    let report = format!("experimental-v{}-default-report.yaml", env!("CARGO_PKG_VERSION"));
    let report = std::fs::read_to_string(folder.join("v1.6/fairway-fairway").join(report)).unwrap();
    let report = manifest::parse_single(&report, Schema::Core).unwrap().unwrap().to_json();
    page.push_str(BEGIN);
    let mut profiles: Vec<&Value> = list(&report["profiles"]).collect();
    profiles.sort_by_key(|profile| text(&profile["name"]));
    for profile in profiles {
        let extended = &profile["extended"];
        let (supported, unsupported) =
            (list(&extended["supportedFeatures"]).count(), list(&extended["unsupportedFeatures"]).count());
        let (core, further) = (counts(&profile["core"]), counts(extended));
        let all = supported + unsupported;
        let _ = writeln!(page, "| {} | {core} | {further} | {supported} of {all} |", text(&profile["name"]));
    }
    page.push_str(RUNS);
    let runs = std::fs::read_to_string(folder.join("runs.tsv")).unwrap();
    let runs: Vec<&str> = runs.lines().collect();
    for run in &runs[runs.len().saturating_sub(SHOWN)..] {
        let _ = writeln!(page, "| {} |", run.replace('\t', " | "));
    }
}

fn counts(level: &Value) -> String {
    let count_of = |name: &str| level["statistics"][name].as_u64().unwrap();
    format!("{}, {}, {}", count_of("Passed"), count_of("Failed"), count_of("Skipped"))
}
