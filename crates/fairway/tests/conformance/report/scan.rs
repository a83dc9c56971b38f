//! Runs two TLS scanners, sslyze and testssl.sh, with `conformance/tls/scan`, and writes their part of the page.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tokio::process::Command;

/// The findings of the scanners; the text of the error if they cannot run.
pub(super) async fn run_scanners(checkout: &Path, https: SocketAddr) -> Value {
    let mut command = Command::new(checkout.join("conformance/tls/scan"));
    let output = command.args([&https.to_string(), "a.test"]).output().await.unwrap();
    let complaint = || Value::from(String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| serde_json::json!({ "error": complaint() }))
}

/// The weaknesses found by either scanner. Cipher order by the client is not one: all offered suites are AEADs with forward
/// secrecy, and Mozilla's configuration recommends it.
pub(super) fn weaknesses(found: &Value) -> Vec<String> {
    let (sslyze, testssl) = (&found["sslyze"], &found["testssl"]);
    let of_sslyze = sslyze["weaknesses"].as_array().into_iter().flatten();
    let of_testssl = testssl["findings"].as_array().into_iter().flatten();
    let beside = sslyze["beside_mozilla"].as_object().into_iter().flatten();
    let found = of_sslyze.chain(of_testssl).map(text).chain(beside.map(|(_, said)| text(said)));
    found.filter(|finding| !finding.starts_with("cipher_order ")).collect()
}

const BEGIN: &str = "
## TLS: scanners

[conformance/tls/scan](../conformance/tls/scan) runs sslyze and testssl.sh: every version and cipher suite that they know, the named
attacks (Heartbleed, ROBOT, CCS injection, renegotiation, compression, downgrades, ...), and Mozilla's \"intermediate\" configuration.
Findings about the certificate, and the client's order of cipher suites, which Mozilla recommends, do not count.

| sslyze | testssl.sh | versions | groups | weaknesses |
| --- | --- | --- | --- | --- |
";

pub(super) fn section(page: &mut String, fairway: &Value) {
    let scan = &fairway["tls_scan"];
    if scan.is_null() {
        return;
    }
    page.push_str(BEGIN);
    let version = |scanner: &str| match &scan[scanner]["version"] {
        Value::Null => "not run".to_owned(),
        version => text(version),
    };
    let versions: Vec<_> =
        scan["sslyze"]["suites"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let groups: Vec<_> = scan["sslyze"]["groups"].as_array().into_iter().flatten().map(text).collect();
    let weak = weaknesses(scan);
    let weak = if weak.is_empty() { "none".to_owned() } else { weak.join("; ") };
    let cells = [version("sslyze"), version("testssl"), versions.join(", "), groups.join(", "), weak];
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
