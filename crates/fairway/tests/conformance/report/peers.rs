//! What peers do where they differ from Fairway, in groups; `conformance/peers.md` says how it was looked at. Says what was
//! seen and what the RFC says, never why.

use std::fmt::Write as _;

use serde_json::Value;

use super::page::{list, text};

/// A peer, the cases of h2spec by the beginnings of their names, and what the peer does.
type Note = (&'static str, &'static [&'static str], &'static str);

#[rustfmt::skip]
const HTTP2: &[Note] = &[
    ("nginx", &["8.1.2 1", "8.1.2.1 1", "8.1.2.1 2", "8.1.2.3 ", "8.1.2.6 "],
        "answers 400 on the stream; RFC 9113 §8.1.1 has a stream error, before which a server may send an answer"),
    ("nginx",
        &["8.1.2.1 4", "8.1.2.2 "], "forwards the request: a pseudo field behind others, `connection`, `te: gzip`"),
    ("nginx", &["5.1 1:", "5.1 2:", "5.1 3:", "6.4 2"], "passes over frames on streams that were never opened"),
    ("nginx",
        &["5.1 8", "5.1 11"], "passes over DATA on a stream that was reset or has ended; a PING behind it is answered"),
    ("nginx", &["4 4"], "ends the connection with PROTOCOL_ERROR: it takes no trailers in requests"),
    ("nginx", &["4.2 2", "4.2 3"], "reads frames of more than 16,384 bytes"),
    ("nginx", &["4.2 1", "5.2 1"], "takes a size update behind fields, and padding of more than seven bits (HPACK)"),
    ("Envoy", &["3.8 1", "7 1"],
        "answers no PING behind a GOAWAY while no stream is open, and stays open; with a stream open it answers"),
    ("Envoy", &["5.1 8", "5.1 9", "5.1 11", "5.1 12"],
        "passes over frames on a stream that was reset or has ended; a PING behind them is answered"),
    ("Envoy", &["5.1.1 2"], "passes over a stream whose id is smaller than one before, and goes on"),
    ("Envoy", &["5.3.1 2", "6.3 1"], "passes over PRIORITY, which RFC 9113 §5.3 has made obsolete"),
    ("Envoy",
        &["5.4.1 2", "6.9.1 2", "6.9.1 3"], "closes the connection, a second later, without GOAWAY or RST_STREAM"),
];

/// Cases of HTTP/1, by the beginnings of their names, that Fairway refuses, and what the RFC says of taking them.
#[rustfmt::skip]
const TAKEN: &[(&str, &str, &[&str])] = &[
    ("more than one space, or tabs, in a request line",
        "allowed (9112 §3)", &["line-two-spaces", "line-tab", "line-trailing"]),
    ("more empty lines before a request", "allowed (9112 §2.2)", &["line-two-empty-lines-before"]),
    ("lines that end in LF alone", "allowed (9112 §2.2)",
        &["line-bare-lf", "line-ends-in-lf", "field-bare-lf", "field-end-in-lf", "field-end-in-crlf-lf",
          "coding-behind-bare-lf",
          "trailer-bare-lf"]),
    ("LF alone behind chunks",
        "no (9112 §7.1)", &["chunk-end-in-lf", "chunk-data-ends-in-lf", "chunk-last-ends-in-lf"]),
    ("CR alone: taken out, or for a part of the line's end", "to be refused or made a space (9112 §2.2)",
        &["line-bare-cr", "line-ends-in-cr-cr-lf", "field-bare-cr", "field-end-in-cr-cr", "coding-behind-bare-cr",
          "trailer-bare-cr"]),
    ("folded lines: unfolded, or left out of trailers", "allowed (9112 §5.2)",
        &["field-fold", "host-folded", "length-folded", "coding-folded", "coding-on-a-folded-line", "trailer-folded"]),
    ("HTTP/0.9, forwarded as HTTP/1.1 without `Host`", "left open", &["line-http09"]),
    ("`HTTP/0.9` in a request line, forwarded as it came", "no (9112 §2.3)", &["version-0.9"]),
    ("other versions, forwarded as HTTP/1.1", "1.2 should be taken (9110 §2.5), others not", &["version-"]),
    ("targets with fragments, invalid escapes or bytes", "should be refused (9112 §3)",
        &["target-fragment", "target-escape-", "target-latin-1", "target-utf8", "target-ff"]),
    ("escaped NUL, `..` above the root", "allowed", &["target-escaped", "target-above-root", "target-deep-above-root"]),
    ("absolute targets with another `Host`",
        "allowed, `Host` is to be ignored (9112 §3.2.2)", &["target-absolute-other-host"]),
    ("absolute targets of FTP", "left open", &["target-absolute-ftp"]),
    ("absolute targets with user information, or without a `Host`",
        "to be refused (9110 §4.2.4, 9112 §3.2)", &["target-absolute-"]),
    ("CONNECT, TRACE, `OPTIONS *`", "allowed", &["target-connect", "method-trace", "target-asterisk"]),
    ("OPTIONS with `Max-Forwards: 0`", "no (9110 §7.6.2)", &["options-max-forwards-0"]),
    ("more than one `Host`, or none", "no (9112 §3.2)", &["host-twice", "host-missing", "http10-two-hosts"]),
    ("hosts over 255 bytes, ports over 65535, and other limits of Fairway's own", "allowed",
        &["host-too-long", "line-too-long", "line-endless-method", "field-hundred-and-one", "field-too-large",
          "field-name-too-large",
          "field-without-end", "hop-absurd-length", "trailer-too-large", "chunk-extension-too-long",
         "chunk-extensions-too-many",
          "chunk-seventeen-digits", "host-port-65536"]),
    ("hosts that no URI has", "no (9112 §3.2)", &["host-"]),
    ("names with bytes that no name has, and lines without a colon: left out, or with an empty value", "no (9110 §5.1)",
        &["field-name-", "field-no-"]),
    ("control bytes in values", "allowed but for CR, LF, NUL (9110 §5.5)", &["field-value-"]),
    ("`Transfer-Encoding` in HTTP/1.0",
        "allowed where the connection ends with it (9112 §6.1)", &["coding-and-length-in-http10", "coding-in-http10"]),
    ("`Transfer-Encoding` with `Content-Length`: the length is left out", "allowed (9112 §6.3)",
        &["coding-and-length", "length-and-coding", "length-0-and-coding"]),
    ("`Content-Length` twice with one value: one is forwarded",
        "allowed (9112 §6.3)", &["length-list-alike", "length-twice-alike"]),
    ("a second `Transfer-Encoding` that is empty", "allowed (9110 §5.6.1)", &["coding-two-fields-last-empty"]),
    ("space behind a chunk's size", "no (9112 §7.1)", &["chunk-space-behind", "chunk-tab-behind"]),
    ("control bytes in chunk extensions, which are left out", "no (9112 §7.1.1)", &["chunk-extension-of"]),
    ("a chunk of 4 GiB, forwarded as it comes", "allowed", &["chunk-32-bits"]),
    ("chunks of other sizes than they say, and data in the last one",
        "no (9112 §7.1)", &["chunk-data-too", "chunk-0-with-data"]),
    ("trailers that are none, left out", "no (9112 §7.1.2)", &["trailer-"]),
    ("expectations that are not known", "allowed (9110 §10.1.1)", &["expect-"]),
    ("handshakes of WebSocket that the endpoint has to refuse",
        "allowed (RFC 6455 asks it of servers)", &["websocket-"]),
];

/// Cases of HTTP/1 that Fairway forwards and a peer does not, or not so.
#[rustfmt::skip]
const OTHERWISE: &[Note] = &[
    ("nginx",
        &["line-lower-case-method", "line-method-of-token-bytes"], "400 to methods with other bytes than most have"),
    ("nginx",
        &["host-edges-are-trimmed", "length-edges", "coding-edges"], "a tab around a value is not left out: 400, 501"),
    ("nginx", &["field-large"], "31,000 bytes are over its default limit"),
    ("nginx",
        &["http10-without-host"], "forwarded without `Host`, which the strict backend here refuses: it has no name of its own here"),
    ("HAProxy", &["host-comma"], "400 to a host with a comma"),
    ("HAProxy", &["field-large"], "31,000 bytes are over its default limit"),
    ("HAProxy", &["http10-upgrade"], "400: a handshake of WebSocket without a key"),
    ("HAProxy", &["http10"], "forwarded as HTTP/1.0, which the strict backend here refuses"),
    ("HAProxy", &["websocket-short-key"], "400: it looks at the key itself"),
    ("HAProxy", &["target-absolute"], "an absolute target is forwarded as one"),
    ("Envoy", &["http10"], "426: HTTP/1.0 is off by default"),
    ("Envoy",
        &["line-lower-case-method", "line-method-of-token-bytes"], "400 to methods with other bytes than most have"),
    ("Envoy", &["hop-names-host"], "400 where `Connection` names `Host`"),
    ("Envoy", &["upgrade-tls", "websocket-and-h2c"], "403: only the upgrade to `websocket` is switched on"),
    ("Envoy", &["target-absolute-no-path-query"], "404: `?b` is no path with a slash"),
    ("Envoy", &["websocket-is-not-taken", "websocket-not-taken-and-next"],
        "an endpoint's 200 to a handshake arrives without its content, and the connection ends"),
];

fn has(names: &[&str], case: &str) -> bool {
    names.iter().any(|name| case.starts_with(name))
}

/// The failed cases of h2spec of a peer by note; all that have none come last.
pub(super) fn http2(page: &mut String, proxy: &Value) -> Vec<String> {
    let peer = text(&proxy["name"]);
    let failed: Vec<(String, String)> = ["cleartext", "tls"]
        .into_iter()
        .flat_map(|transport| {
            list(&proxy["h2spec"][transport]["failed"]).map(move |case| (text(case), transport.to_owned()))
        })
        // Said of all above.
        .filter(|(case, _)| !case.starts_with("3.5 2"))
        .collect();
    let mut rest: Vec<String> = failed.iter().map(|(case, _)| case.clone()).collect();
    for (_, names, note) in HTTP2.iter().filter(|(name, ..)| *name == peer) {
        let numbers = |transport: &str| {
            let found = failed.iter().filter(|(case, of)| of == transport && has(names, case));
            found
                .filter_map(|(case, _)| case.split(':').next())
                .map(|case| case.replace(' ', "/"))
                .collect::<Vec<_>>()
        };
        let (clear, tls) = (numbers("cleartext"), numbers("tls"));
        rest.retain(|case| !has(names, case));
        let cases = match (clear == tls, clear.is_empty(), tls.is_empty()) {
            (true, true, _) => continue,
            (true, ..) => clear.join(", "),
            (false, false, true) => format!("{} (cleartext)", clear.join(", ")),
            (false, true, _) => format!("{} (TLS)", tls.join(", ")),
            (false, ..) => format!("{} (cleartext), {} (TLS)", clear.join(", "), tls.join(", ")),
        };
        let _ = writeln!(page, "| {peer} | {cases} | {note} |");
    }
    rest
}

/// What peers forward and Fairway refuses, by group; gives the cases that are in none.
pub(super) fn taken(page: &mut String, proxies: &[&Value]) -> Vec<String> {
    let peers: Vec<&&Value> = proxies.iter().skip(1).collect();
    let names: Vec<String> = peers.iter().map(|proxy| text(&proxy["name"])).collect();
    let _ = writeln!(page, "\n| what is forwarded | by the RFC | {} |", names.join(" | "));
    let _ = writeln!(page, "| --- | --- |{}", " --- |".repeat(names.len()));
    let cases =
        |proxy: &Value| list(&proxy["http1"]["accepts"]).map(|it| text(&it["case"])).collect::<Vec<_>>();
    let group_of = |case: &str| TAKEN.iter().position(|(_, _, names)| has(names, case));
    for (number, (what, rule, _)) in TAKEN.iter().enumerate() {
        let counts: Vec<usize> = peers
            .iter()
            .map(|proxy| cases(proxy).iter().filter(|case| group_of(case) == Some(number)).count())
            .collect();
        if counts.iter().any(|count| *count > 0) {
            let cells: Vec<_> = counts
                .iter()
                .map(|count| if *count == 0 { "-".to_owned() } else { count.to_string() })
                .collect();
            let _ = writeln!(page, "| {what} | {rule} | {} |", cells.join(" | "));
        }
    }
    peers.iter().flat_map(|proxy| cases(proxy)).filter(|case| group_of(case).is_none()).collect()
}

/// What Fairway forwards and a peer refuses or forwards otherwise; gives the cases without a note.
pub(super) fn otherwise(page: &mut String, proxies: &[&Value]) -> Vec<String> {
    let mut rest = Vec::new();
    page.push_str("\n| proxy | cases that Fairway forwards | what it does |\n| --- | --- | --- |\n");
    for proxy in &proxies[1..] {
        let peer = text(&proxy["name"]);
        let found: Vec<String> = ["refuses", "forwards_otherwise"]
            .into_iter()
            .flat_map(|what| list(&proxy["http1"][what]).map(|it| text(&it["case"])))
            .collect();
        let notes: Vec<&Note> = OTHERWISE.iter().filter(|(name, ..)| *name == peer).collect();
        let own = |case: &str| notes.iter().position(|(_, names, _)| has(names, case));
        for (number, (_, _, note)) in notes.iter().enumerate() {
            let cases: Vec<_> = found
                .iter()
                .filter(|case| own(case) == Some(number))
                .map(|case| format!("`{case}`"))
                .collect();
            if !cases.is_empty() {
                let _ = writeln!(page, "| {peer} | {} | {note} |", cases.join(", "));
            }
        }
        rest.extend(
            found.into_iter().filter(|case| own(case).is_none()).map(|case| format!("{peer}: {case}")),
        );
    }
    rest
}
