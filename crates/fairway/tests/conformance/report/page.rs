//! Generates `docs/conformance.md` from the results and the report of the official Gateway API suite.

use std::fmt::Write as _;

use serde_json::Value;

use super::{gateway, otel, peers, scan};

const BEGIN: &str = "\
# Conformance

This page shows how Fairway follows the rules of HTTP/1, HTTP/2, WebSocket, TLS and Gateway API, how it handles request smuggling,
and how it compares with nginx, HAProxy and Envoy. It is generated from [conformance.json](../conformance/conformance.json). To repeat
the measurement, without root:

```sh
make lab-peers      # optional: current nginx and HAProxy, in a folder of the cache
make conformance
```

Peers, servers and scanners that are not installed are left out. `make test` runs a short form, and `make h2spec` runs h2spec. The
[suites](../crates/fairway/tests/conformance) and [servers](../conformance/servers) are in the repository.

Peers run with their defaults; some can be configured to be stricter. [peers.md](../conformance/peers.md) says how their results were
checked, and why they have no rows for smuggling, WebSocket and TLS.
";

const HTTP2: &str = "
## HTTP/2: h2spec

All 146 cases, including the strict ones. A cleartext port that also speaks HTTP/1 fails case 3.5/2: it responds to an invalid
HTTP/2 preface with an HTTP/1 error (RFC 9112 §3) before it closes.

";

const HTTP1: &str = "
## HTTP/1: raw cases

Each case is a few bytes, a section of an RFC, and the result that Fairway expects. Where the RFC leaves a choice (such as a
`Content-Length` of `3, 3`), Fairway refuses, and a peer that accepts is not wrong. *Refused otherwise*: with another status or
without closing the connection. *Stricter*: the peer refuses what Fairway forwards. *Laxer*: the reverse.

";

const HTTP2_PEERS: &str = "
What peers do in the other cases that they fail:

";

const HTTP1_PEERS: &str = "
How many cases each peer forwards and Fairway refuses, and whether RFC 9110 and 9112 allow that. A peer that repairs what it forwards
endangers no server behind it.
";

const SMUGGLING: &str = "
## Smuggling differential

Each payload goes through Fairway to a backend that records every byte. A strict reader, ten lenient readers (length first, last
length, chunked first, last framing header, bare LF, bare CR, and names with white space or other bytes) and real servers then split
the recorded stream into requests. An *ambiguity* is a connection on which two of them disagree about the number, the target or the
size of the requests, or a response that reached another client. Of a *refused* payload, only its harmless last request was forwarded.

";

const READERS: &str = "
What real servers read. *Stricter* counts connections of which the server refused a part.

";

const FAMILIES: &str = "
[conformance.json](../conformance/conformance.json) counts the payloads by family (`families`).
";

const WEBSOCKET: &str = "
## WebSocket

Valid and invalid client messages of RFC 6455: opcodes, lengths, masks, fragments, control frames, close codes, UTF-8, reserved bits,
truncation. Each case goes to a real server (tungstenite over hyper) directly and through Fairway, with HTTP/1 and HTTP/2 (RFC 8441)
handshakes on either side. *Same* counts cases in which the server's verdict and every returned byte are the same both ways.

| pairing | cases | same |
| --- | --- | --- |
";

const TOWARDS_HTTP2: &str = "
For HTTP/2 endpoints, the backend reads frames and keeps names, values and bodies unchanged. Each request must follow RFC 9113 §8
and, written as HTTP/1 without any check, must be one request for every reader.
";

/// The page.
pub(super) fn render_page(results: &Value) -> String {
    let mut page = BEGIN.to_owned();
    let _ = writeln!(page, "\nMeasured at revision {}.", text(&results["revision"]));
    let proxies: Vec<&Value> = list(&results["proxies"]).collect();
    page.push_str(HTTP2);
    http2(&mut page, &proxies);
    page.push_str(HTTP1);
    http1(&mut page, &proxies);
    page.push_str(SMUGGLING);
    let fairway = proxies[0];
    smuggling(&mut page, fairway);
    page.push_str(TOWARDS_HTTP2);
    websocket(&mut page, fairway);
    scan::section(&mut page, fairway);
    gateway::section(&mut page);
    otel::section(&mut page);
    page
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn called(proxy: &Value) -> String {
    let version = text(&proxy["version"]);
    format!("{} {}", text(&proxy["name"]), version.trim_end_matches(" (this checkout)"))
}

fn http2(page: &mut String, proxies: &[&Value]) {
    page.push_str("| proxy | cleartext | TLS |\n| --- | --- | --- |\n");
    let cell = |run: &Value| match (&run["passed"], &run["tests"]) {
        (Value::Null, _) => "not run".to_owned(),
        (passed, tests) => format!("{passed} of {tests}"),
    };
    for proxy in proxies {
        let run = &proxy["h2spec"];
        let _ = writeln!(page, "| {} | {} | {} |", called(proxy), cell(&run["cleartext"]), cell(&run["tls"]));
    }
    page.push('\n');
    let [own, others @ ..] = proxies else { return };
    for transport in ["cleartext", "tls"] {
        let failed: Vec<_> = list(&own["h2spec"][transport]["failed"]).map(text).collect();
        if !failed.is_empty() {
            let _ = writeln!(page, "* {}, {transport}: {}", text(&own["name"]), failed.join("; "));
        }
    }
    if others.is_empty() {
        return;
    }
    page.push_str(HTTP2_PEERS);
    let unknown: Vec<_> = others.iter().flat_map(|proxy| peers::http2(page, proxy)).collect();
    unexplained(page, &unknown);
}

/// The cases that are not in the tables of [`peers`].
fn unexplained(page: &mut String, cases: &[String]) {
    if !cases.is_empty() {
        let _ = writeln!(page, "\nNot looked at yet: {}", wrapped(cases));
    }
}

fn http1(page: &mut String, proxies: &[&Value]) {
    page.push_str(
        "| proxy | cases | as expected | refused otherwise | stricter | laxer | forwarded otherwise |\n",
    );
    page.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for proxy in proxies {
        let run = &proxy["http1"];
        let count_items = |member: &str| list(&run[member]).count();
        let (status, refuses) = (count_items("refused_with_another_status"), count_items("refuses"));
        let (accepts, otherwise) = (count_items("accepts"), count_items("forwards_otherwise"));
        let _ = writeln!(
            page,
            "| {} | {} | {} | {status} | {refuses} | {accepts} | {otherwise} |",
            called(proxy),
            run["cases"],
            run["as_expected"]
        );
    }
    if proxies.len() > 1 {
        page.push_str(HTTP1_PEERS);
        let mut unknown = peers::accepted_by(page, proxies);
        unknown.extend(peers::otherwise(page, proxies));
        unexplained(page, &unknown);
    }
}

fn websocket(page: &mut String, fairway: &Value) {
    let mut runs = list(&fairway["websocket"]).peekable();
    if runs.peek().is_none() {
        return;
    }
    page.push_str(WEBSOCKET);
    for run in runs {
        let same = if run["same"].is_null() { "refused".to_owned() } else { run["same"].to_string() };
        let (pairing, cases) = (text(&run["pairing"]), &run["cases"]);
        let _ = writeln!(page, "| {pairing} | {cases} | {same} |");
    }
}

/// A few items per line.
fn wrapped(cases: &[String]) -> String {
    cases.chunks(4).map(|some| some.join(", ")).collect::<Vec<_>>().join(",\n")
}

fn smuggling(page: &mut String, fairway: &Value) {
    page.push_str("| direction | payloads | refused | forwarded | requests | ambiguities |\n");
    page.push_str("| --- | --- | --- | --- | --- | --- |\n");
    let runs = || list(&fairway["smuggling"]).filter(|run| !run["payloads"].is_null());
    for run in runs() {
        let cells =
            ["payloads", "refused", "forwarded", "requests", "ambiguities"].map(|it| run[it].to_string());
        let _ = writeln!(page, "| {} | {} |", text(&run["direction"]), cells.join(" | "));
    }
    page.push_str(READERS);
    page.push_str("| direction | server | connections | requests | stricter | cut differently |\n");
    page.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for run in runs() {
        for reader in list(&run["readers"]) {
            let server = format!("{} {}", text(&reader["server"]), text(&reader["version"]));
            let cells = ["streams", "requests", "stricter", "different"].map(|it| reader[it].to_string());
            let _ = writeln!(page, "| {} | {server} | {} |", text(&run["direction"]), cells.join(" | "));
        }
    }
    page.push_str(FAMILIES);
}
