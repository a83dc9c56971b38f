//! `docs/conformance.md`, made of the results and of what the official suite of Gateway API reported.

use std::fmt::Write as _;

use serde_json::Value;

use super::{gateway, otel, peers, scan};

const BEGIN: &str = "\
# Conformance

See how Fairway keeps the rules of HTTP/1, HTTP/2, WebSocket, TLS and Gateway API and what it does with smuggling payloads, and how it
compares with nginx, HAProxy and Envoy in the rules of HTTP/1 and HTTP/2. This page is generated from
[conformance.json](../conformance/conformance.json); repeat it with

```sh
make lab-peers      # optional: today's nginx and HAProxy, in a folder of the cache
make conformance
```

Peers, servers and scanners that are not on the machine are left out. Nothing needs root. The short form (the table of HTTP/1,
the smuggling differential with strict and lenient readers, TLS, WebSocket) runs with `make test`, and h2spec with
`make h2spec`. The suites are in [crates/fairway/tests/conformance](../crates/fairway/tests/conformance), the servers in
[conformance/servers](../conformance/servers).

The peers run with their defaults: one listener, one route, one endpoint. Their operators can make some of them
stricter. [peers.md](../conformance/peers.md) says how their results were looked at, and why they have no rows for smuggling,
WebSocket and TLS.
";

const HTTP2: &str = "
## HTTP/2: h2spec

All 146 cases of h2spec, strict ones included. A cleartext port that speaks HTTP/1 too answers an invalid HTTP/2
preface with an HTTP/1 error (RFC 9112 §3) before it closes; h2spec counts that as a failure (3.5, case 2).

";

const HTTP1: &str = "
## HTTP/1: raw cases

Each case is a few bytes, the section of the RFC, and what must come of them. *As expected* is Fairway's table:
where an RFC leaves a choice (as in a `Content-Length` of `3, 3`), Fairway refuses, and a peer that accepts is not
wrong. *Refused otherwise* counts cases that both refuse, with another status or without the connection's end;
*stricter* those that Fairway forwards and the peer refuses, *laxer* those that Fairway refuses and the peer forwards.

";

const HTTP2_PEERS: &str = "
What peers do in the cases that they fail but for 3.5, case 2. Each was sent again as raw frames, straight to the peer, with the same
result.

| proxy | cases | what it does |
| --- | --- | --- |
";

const HTTP1_PEERS: &str = "
What peers forward that Fairway refuses, in numbers of cases, with what RFC 9110 and 9112 say of forwarding it. What is forwarded is
often mended: a peer that takes an unclear request and writes a clear one endangers nobody behind it.
";

const SMUGGLING: &str = "
## Smuggling differential

Each payload goes through the proxy to a backend that records every byte. The recorded stream is cut into requests
by a strict reader, by ten lenient ones (length first, last length, chunked first, last framing field, bare LF, bare
CR, and names with white space or other bytes in them) and by real servers. An *ambiguity* is a connection on which
two of them disagree about the number, the target or the size of the requests, or an answer that reached another
client. *Refused* payloads left nothing but their innocent last request.

";

const READERS: &str = "
Real servers that read what each proxy forwarded. *Stricter* counts connections of which the server refused a part.

";

const FAMILIES: &str = "
Families of payloads, and how many of each Fairway forwarded:

| direction | family | payloads | forwarded |
| --- | --- | --- | --- |
";

const WEBSOCKET: &str = "
## WebSocket

What a client of WebSocket may write and what it may not (RFC 6455): every opcode, lengths in each form, masks, fragments, control
frames between them, codes of closing, UTF-8, reserved bits, ends in the middle. Each case is asked of a real server (tungstenite
over hyper) directly and through the proxy, with the handshakes of HTTP/1 (RFC 6455) and HTTP/2 (RFC 8441) on either side. *Same*
counts cases in which the server's verdict and every byte that comes back are the same as directly.

| pairing | proxy | cases | same |
| --- | --- | --- | --- |
";

const TOWARDS_HTTP2: &str = "
Towards endpoints of HTTP/2 the backend reads frames itself and keeps names, values and bodies as
they are; each request must keep the rules of RFC 9113 §8, and written down as lines of HTTP/1 by somebody who looks at
nothing, it must be one request for every reader.
";

/// The page.
pub(super) fn of(results: &Value) -> String {
    let mut page = BEGIN.to_owned();
    let _ = writeln!(page, "\nMeasured at revision {}.", text(&results["revision"]));
    let proxies: Vec<&Value> = list(&results["proxies"]).collect();
    page.push_str(HTTP2);
    http2(&mut page, &proxies);
    page.push_str(HTTP1);
    http1(&mut page, &proxies);
    page.push_str(SMUGGLING);
    let own = &proxies[..1];
    smuggling(&mut page, own);
    page.push_str(TOWARDS_HTTP2);
    websocket(&mut page, own);
    scan::section(&mut page, own);
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
    format!("{} {}", text(&proxy["name"]), text(&proxy["version"]))
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

/// What is not in the tables of [`peers`].
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
        let count = |what: &str| list(&run[what]).count();
        let (status, refuses) = (count("refused_with_another_status"), count("refuses"));
        let (accepts, otherwise) = (count("accepts"), count("forwards_otherwise"));
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
        let mut unknown = peers::taken(page, proxies);
        unknown.extend(peers::otherwise(page, proxies));
        unexplained(page, &unknown);
    }
}

fn websocket(page: &mut String, proxies: &[&Value]) {
    let measured = |proxy: &Value| list(&proxy["websocket"]).cloned().collect::<Vec<_>>();
    if proxies.iter().all(|proxy| measured(proxy).is_empty()) {
        return;
    }
    page.push_str(WEBSOCKET);
    for proxy in proxies {
        for run in measured(proxy) {
            let same = if run["same"].is_null() { "refused".to_owned() } else { run["same"].to_string() };
            let (pairing, cases) = (text(&run["pairing"]), &run["cases"]);
            let _ = writeln!(page, "| {pairing} | {} | {cases} | {same} |", called(proxy));
        }
    }
}

/// A few on each line.
fn wrapped(cases: &[String]) -> String {
    cases.chunks(4).map(|some| some.join(", ")).collect::<Vec<_>>().join(",\n")
}

fn smuggling(page: &mut String, proxies: &[&Value]) {
    page.push_str("| direction | proxy | payloads | refused | forwarded | requests | ambiguities |\n");
    page.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    let measured = |proxy: &Value| -> Vec<Value> {
        list(&proxy["smuggling"]).filter(|it| !it["payloads"].is_null()).cloned().collect()
    };
    // Peers are asked in fewer directions.
    let directions: Vec<Value> = proxies
        .first()
        .map_or_else(Vec::new, |proxy| measured(proxy).iter().map(|it| it["direction"].clone()).collect());
    let run_of = |proxy: &Value, direction: &Value| {
        measured(proxy).into_iter().find(|run| run["direction"] == *direction)
    };
    for direction in &directions {
        for proxy in proxies {
            let Some(run) = run_of(proxy, direction) else { continue };
            let cells: Vec<_> = ["payloads", "refused", "forwarded", "requests", "ambiguities"]
                .map(|it| run[it].to_string())
                .to_vec();
            let _ =
                writeln!(page, "| {} | {} | {} |", text(&run["direction"]), called(proxy), cells.join(" | "));
        }
    }
    page.push_str(READERS);
    page.push_str("| direction | proxy | server | connections | requests | stricter | cut differently |\n");
    page.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for direction in &directions {
        for proxy in proxies {
            let Some(run) = run_of(proxy, direction) else { continue };
            for reader in list(&run["readers"]) {
                let server = format!("{} {}", text(&reader["server"]), text(&reader["version"]));
                let cells: Vec<_> = ["streams", "requests", "stricter", "different"]
                    .map(|it| reader[it].to_string())
                    .to_vec();
                let _ = writeln!(
                    page,
                    "| {} | {} | {server} | {} |",
                    text(&run["direction"]),
                    text(&proxy["name"]),
                    cells.join(" | ")
                );
            }
        }
    }
    page.push_str(FAMILIES);
    for run in proxies.first().map_or_else(Vec::new, |proxy| measured(proxy)) {
        for (family, count) in run["families"].as_object().into_iter().flatten() {
            let _ = writeln!(
                page,
                "| {} | {family} | {} | {} |",
                text(&run["direction"]),
                count["payloads"],
                count["forwarded"]
            );
        }
    }
}
