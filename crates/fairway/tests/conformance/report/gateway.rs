//! The section about the official suite of Gateway API, from the report and the list of runs that `conformance/gateway/run` wrote.

use std::fmt::Write;
use std::path::Path;

use fairway_objects::manifest::{self, Schema};
use serde_json::Value;

use super::page::{list, text};

const BEGIN: &str = "
## Gateway API: the official suite

[conformance/gateway](../conformance/gateway) runs the conformance suite of Gateway API v1.6.3 against Fairway as the chart installs it,
in a [testbed](../testbed/README.md). It needs root and Go, and builds the suite and its backends from their Go modules:

```sh
make gateway-conformance                                    # the profiles GATEWAY-HTTP, -GRPC, -TLS, -TCP and -UDP
make gateway-conformance ARGS='--run HTTPRouteTimeout'      # tests whose name matches
```

The run asks for all extended features of the profiles (HTTP 38, GRPC 10, TLS 12, TCP and UDP 11 each in this version) and for
`GRPCRouteNamedRouteRule`, which is in no profile; [claims.go](../conformance/gateway/claims/claims.go) has each by name. The report
does not count two of the tests, `GRPCRouteNamedRule` and `HTTPRouteDisallowedKind`, because they are in no profile; the runs below
do. The CRDs are those of the experimental channel: the standard one lacks fields that these features need, such as `retry`. What
the [report](../conformance/reports/v1.6/fairway-fairway/README.md) of the last published run says; a profile that it does not have was not in that run:

| profile | core: passed, failed, skipped | extended: passed, failed, skipped | extended features |
| --- | --- | --- | --- |
";

const RUNS: &str = "
The last whole runs, with the time that all tests took. A test counts in each of its profiles.

| date | revision | passed | failed | skipped | time |
| --- | --- | --- | --- | --- | --- |
";

/// How many runs are shown.
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
    let of = |name: &str| level["statistics"][name].as_u64().unwrap();
    format!("{}, {}, {}", of("Passed"), of("Failed"), of("Skipped"))
}
