//! Two scanners of TLS, sslyze and testssl.sh, by `conformance/tls/scan`; and their part of the page.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tokio::process::Command;

/// What the scanners find; an error's text where they cannot run.
pub(super) async fn of(checkout: &Path, https: SocketAddr) -> Value {
    let mut command = Command::new(checkout.join("conformance/tls/scan"));
    let output = command.args([&https.to_string(), "a.test"]).output().await.unwrap();
    let complaint = || Value::from(String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| serde_json::json!({ "error": complaint() }))
}

/// What is weak by either scanner. That clients choose the cipher suite is not: all that are offered are AEADs with forward
/// secrecy, and Mozilla's configuration wants it so.
pub(super) fn weaknesses(found: &Value) -> Vec<String> {
    let (sslyze, testssl) = (&found["sslyze"], &found["testssl"]);
    let of_sslyze = sslyze["weaknesses"].as_array().into_iter().flatten();
    let of_testssl = testssl["findings"].as_array().into_iter().flatten();
    let beside = sslyze["beside_mozilla"].as_object().into_iter().flatten();
    let found = of_sslyze.chain(of_testssl).map(text).chain(beside.map(|(_, said)| text(said)));
    found.filter(|one| !one.starts_with("cipher_order ")).collect()
}

const BEGIN: &str = "
## TLS: scanners

[conformance/tls/scan](../conformance/tls/scan) asks sslyze and testssl.sh: every version and cipher suite they know, the named
attacks (Heartbleed, ROBOT, CCS injection, renegotiation, compression, downgrades, ...), and Mozilla's \"intermediate\" configuration.
What they say of the certificate is left out. That the client's order of cipher suites holds is not counted as a weakness: Mozilla
recommends it where all suites are strong.

| proxy | sslyze | testssl.sh | versions | groups | weaknesses |
| --- | --- | --- | --- | --- | --- |
";

pub(super) fn section(page: &mut String, proxies: &[&Value]) {
    if proxies.iter().all(|proxy| proxy["tls_scan"].is_null()) {
        return;
    }
    page.push_str(BEGIN);
    for proxy in proxies {
        let scan = &proxy["tls_scan"];
        let version = |scanner: &str| match &scan[scanner]["version"] {
            Value::Null => "not run".to_owned(),
            version => text(version),
        };
        let versions: Vec<_> = scan["sslyze"]["suites"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect();
        let groups: Vec<_> = scan["sslyze"]["groups"].as_array().into_iter().flatten().map(text).collect();
        let weak = weaknesses(scan);
        let weak = if weak.is_empty() { "none".to_owned() } else { weak.join("; ") };
        let cells = [version("sslyze"), version("testssl"), versions.join(", "), groups.join(", "), weak];
        let proxy = format!("{} {}", text(&proxy["name"]), text(&proxy["version"]));
        let _ = writeln!(page, "| {proxy} | {} |", cells.join(" | "));
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
