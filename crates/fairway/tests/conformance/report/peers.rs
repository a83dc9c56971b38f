//! The deviations of peers from Fairway, in groups; `conformance/peers.md` describes how they were found. States what was observed
//! and what the RFC says.

use std::fmt::Write as _;

use serde_json::Value;

use super::page::{list, text};

/// A peer, the h2spec cases by the prefixes of their names, and the behaviour of the peer.
type Note = (&'static str, &'static [&'static str], &'static str);

#[rustfmt::skip]
const HTTP2: &[Note] = &[
    ("nginx", &["8.1.2 1", "8.1.2.1 1", "8.1.2.1 2", "8.1.2.3 ", "8.1.2.6 "],
        "responds 400 on the stream; RFC 9113 §8.1.1 requires a stream error, which a response may precede"),
    ("nginx",
        &["8.1.2.1 4", "8.1.2.2 "], "forwards the request: a late pseudo-header, `connection`, `te: gzip`"),
    ("nginx", &["5.1 1:", "5.1 2:", "5.1 3:", "6.4 2"], "ignores frames on streams that were never opened"),
    ("nginx",
        &["5.1 8", "5.1 11"], "ignores DATA on a reset or closed stream; answers a PING after it"),
    ("nginx", &["4 4"], "closes with PROTOCOL_ERROR: no trailers in requests"),
    ("nginx", &["4.2 2", "4.2 3"], "accepts frames of more than 16,384 bytes"),
    ("nginx", &["4.2 1", "5.2 1"], "accepts a late size update, and padding of more than seven bits (HPACK)"),
    ("Envoy", &["3.8 1", "7 1"],
        "after a GOAWAY, answers PING only while a stream is open; stays open"),
    ("Envoy", &["5.1 8", "5.1 9", "5.1 11", "5.1 12"],
        "ignores frames on a reset or closed stream; answers a PING after them"),
    ("Envoy", &["5.1.1 2"], "ignores a stream whose id decreases"),
    ("Envoy", &["5.3.1 2", "6.3 1"], "ignores PRIORITY, which RFC 9113 §5.3 deprecates"),
    ("Envoy",
        &["5.4.1 2", "6.9.1 2", "6.9.1 3"], "closes after one second, without GOAWAY or RST_STREAM"),
];

/// Cases of HTTP/1, by the prefixes of their names, that Fairway refuses, and what the RFC says about accepting them.
#[rustfmt::skip]
const TAKEN: &[(&str, &str, &[&str])] = &[
    ("several spaces, or tabs, in a request line",
        "allowed (9112 §3)", &["line-two-spaces", "line-tab", "line-trailing"]),
    ("several empty lines before a request", "allowed (9112 §2.2)", &["line-two-empty-lines-before"]),
    ("lines that end in bare LF", "allowed (9112 §2.2)",
        &["line-bare-lf", "line-ends-in-lf", "field-bare-lf", "field-end-in-lf", "field-end-in-crlf-lf",
          "coding-behind-bare-lf",
          "trailer-bare-lf"]),
    ("bare LF after chunks",
        "no (9112 §7.1)", &["chunk-end-in-lf", "chunk-data-ends-in-lf", "chunk-last-ends-in-lf"]),
    ("bare CR: removed, or taken as part of the line end", "must be refused or replaced by a space (9112 §2.2)",
        &["line-bare-cr", "line-ends-in-cr-cr-lf", "field-bare-cr", "field-end-in-cr-cr", "coding-behind-bare-cr",
          "trailer-bare-cr"]),
    ("folded lines: unfolded, or dropped from trailers", "allowed (9112 §5.2)",
        &["field-fold", "host-folded", "length-folded", "coding-folded", "coding-on-a-folded-line", "trailer-folded"]),
    ("HTTP/0.9, forwarded as HTTP/1.1 without `Host`", "unspecified", &["line-http09"]),
    ("`HTTP/0.9` in a request line, forwarded unchanged", "no (9112 §2.3)", &["version-0.9"]),
    ("other versions, forwarded as HTTP/1.1", "1.2 should be accepted (9110 §2.5), others not", &["version-"]),
    ("targets with fragments, invalid escapes or bytes", "should be refused (9112 §3)",
        &["target-fragment", "target-escape-", "target-latin-1", "target-utf8", "target-ff"]),
    ("escaped NUL, `..` above the root", "allowed", &["target-escaped", "target-above-root", "target-deep-above-root"]),
    ("absolute targets with another `Host`",
        "allowed, ignoring `Host` (9112 §3.2.2)", &["target-absolute-other-host"]),
    ("absolute FTP targets", "unspecified", &["target-absolute-ftp"]),
    ("absolute targets with userinfo, or without `Host`",
        "must be refused (9110 §4.2.4, 9112 §3.2)", &["target-absolute-"]),
    ("CONNECT, TRACE, `OPTIONS *`", "allowed", &["target-connect", "method-trace", "target-asterisk"]),
    ("OPTIONS with `Max-Forwards: 0`", "no (9110 §7.6.2)", &["options-max-forwards-0"]),
    ("several `Host` headers, or none", "no (9112 §3.2)", &["host-twice", "host-missing", "http10-two-hosts"]),
    ("hosts over 255 bytes, ports over 65535, other limits of Fairway", "allowed",
        &["host-too-long", "line-too-long", "line-endless-method", "field-hundred-and-one", "field-too-large",
          "field-name-too-large",
          "field-without-end", "hop-absurd-length", "trailer-too-large", "chunk-extension-too-long",
         "chunk-extensions-too-many",
          "chunk-seventeen-digits", "host-port-65536"]),
    ("hosts that are invalid in a URI", "no (9112 §3.2)", &["host-"]),
    ("invalid header names, lines without a colon: dropped, or given an empty value", "no (9110 §5.1)",
        &["field-name-", "field-no-"]),
    ("control bytes in values", "allowed except CR, LF, NUL (9110 §5.5)", &["field-value-"]),
    ("`Transfer-Encoding` in HTTP/1.0",
        "allowed if the connection is then closed (9112 §6.1)", &["coding-and-length-in-http10", "coding-in-http10"]),
    ("`Transfer-Encoding` with `Content-Length`: the length is removed", "allowed (9112 §6.3)",
        &["coding-and-length", "length-and-coding", "length-0-and-coding"]),
    ("`Content-Length` repeated with the same value: forwarded once",
        "allowed (9112 §6.3)", &["length-list-alike", "length-twice-alike"]),
    ("an empty second `Transfer-Encoding`", "allowed (9110 §5.6.1)", &["coding-two-fields-last-empty"]),
    ("space after a chunk size", "no (9112 §7.1)", &["chunk-space-behind", "chunk-tab-behind"]),
    ("control bytes in chunk extensions, which are removed", "no (9112 §7.1.1)", &["chunk-extension-of"]),
    ("a chunk of 4 GiB, streamed", "allowed", &["chunk-32-bits"]),
    ("chunks with a wrong size, data in the last chunk",
        "no (9112 §7.1)", &["chunk-data-too", "chunk-0-with-data"]),
    ("invalid trailers, dropped", "no (9112 §7.1.2)", &["trailer-"]),
    ("unknown expectations", "allowed (9110 §10.1.1)", &["expect-"]),
    ("WebSocket handshakes that the endpoint must refuse",
        "allowed (RFC 6455 requires it of servers)", &["websocket-"]),
];

/// Cases of HTTP/1 that Fairway forwards and a peer does not, or not in the same way.
#[rustfmt::skip]
const OTHERWISE: &[Note] = &[
    ("nginx",
        &["line-lower-case-method", "line-method-of-token-bytes"], "400 to methods with unusual bytes"),
    ("nginx",
        &["host-edges-are-trimmed", "length-edges", "coding-edges"], "does not trim tabs around a value: 400, 501"),
    ("nginx", &["field-large"], "31,000 bytes exceed its default limit"),
    ("nginx",
        &["http10-without-host"], "forwards without `Host`, which the strict backend refuses"),
    ("HAProxy", &["host-comma"], "400 to a host with a comma"),
    ("HAProxy", &["field-large"], "31,000 bytes exceed its default limit"),
    ("HAProxy", &["http10-upgrade"], "400: a WebSocket handshake without a key"),
    ("HAProxy", &["http10"], "forwards as HTTP/1.0, which the strict backend refuses"),
    ("HAProxy", &["websocket-short-key"], "400: it checks the key"),
    ("HAProxy", &["target-absolute"], "forwards absolute targets unchanged"),
    ("Envoy", &["http10"], "426: HTTP/1.0 is off by default"),
    ("Envoy",
        &["line-lower-case-method", "line-method-of-token-bytes"], "400 to methods with unusual bytes"),
    ("Envoy", &["hop-names-host"], "400 where `Connection` names `Host`"),
    ("Envoy", &["upgrade-tls", "websocket-and-h2c"], "403: only the `websocket` upgrade is enabled"),
    ("Envoy", &["target-absolute-no-path-query"], "404: `?b` has no slash"),
    ("Envoy", &["websocket-is-not-taken", "websocket-not-taken-and-next"],
        "forwards a 200 to a handshake without its content, then closes"),
];

fn has(names: &[&str], case: &str) -> bool {
    names.iter().any(|name| case.starts_with(name))
}

/// The failed h2spec cases of a peer by note; those without a note come last.
pub(super) fn http2(page: &mut String, proxy: &Value) -> Vec<String> {
    let peer = text(&proxy["name"]);
    let failed: Vec<(String, String)> = ["cleartext", "tls"]
        .into_iter()
        .flat_map(|transport| {
            list(&proxy["h2spec"][transport]["failed"]).map(move |case| (text(case), transport.to_owned()))
        })
        // Applies to all cases above.
        .filter(|(case, _)| !case.starts_with("3.5 2"))
        .collect();
    let mut rest: Vec<String> = failed.iter().map(|(case, _)| case.clone()).collect();
    for (_, names, note) in HTTP2.iter().filter(|(name, ..)| *name == peer) {
        let numbers = |transport: &str| {
            let found = failed
                .iter()
                .filter(|(case, failed_transport)| failed_transport == transport && has(names, case));
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
        let _ = writeln!(page, "* {peer}, {cases}: {note}");
    }
    rest
}

/// Requests that peers forward and Fairway refuses, by group. Returns the cases that are in no group.
pub(super) fn accepted_by(page: &mut String, proxies: &[&Value]) -> Vec<String> {
    let peers: Vec<&&Value> = proxies.iter().skip(1).collect();
    let names: Vec<String> = peers.iter().map(|proxy| text(&proxy["name"])).collect();
    page.push('\n');
    let cases =
        |proxy: &Value| list(&proxy["http1"]["accepts"]).map(|it| text(&it["case"])).collect::<Vec<_>>();
    let group_of = |case: &str| TAKEN.iter().position(|(_, _, names)| has(names, case));
    for (number, (what, rule, _)) in TAKEN.iter().enumerate() {
        let counts: Vec<usize> = peers
            .iter()
            .map(|proxy| cases(proxy).iter().filter(|case| group_of(case) == Some(number)).count())
            .collect();
        if counts.iter().any(|count| *count > 0) {
            let forwarding = names.iter().zip(&counts).filter(|(_, count)| **count > 0);
            let cells: Vec<_> = forwarding.map(|(name, count)| format!("{name} {count}")).collect();
            let _ = writeln!(page, "* {what}: {rule}; {}", cells.join(", "));
        }
    }
    peers.iter().flat_map(|proxy| cases(proxy)).filter(|case| group_of(case).is_none()).collect()
}

/// Requests that Fairway forwards and a peer refuses or forwards differently. Returns the cases without a note.
pub(super) fn otherwise(page: &mut String, proxies: &[&Value]) -> Vec<String> {
    let mut rest = Vec::new();
    page.push_str("\nWhat peers do in cases that Fairway forwards, with the number of cases:\n\n");
    for proxy in &proxies[1..] {
        let peer = text(&proxy["name"]);
        let found: Vec<String> = ["refuses", "forwards_otherwise"]
            .into_iter()
            .flat_map(|what| list(&proxy["http1"][what]).map(|it| text(&it["case"])))
            .collect();
        let notes: Vec<&Note> = OTHERWISE.iter().filter(|(name, ..)| *name == peer).collect();
        let note_of = |case: &str| notes.iter().position(|(_, names, _)| has(names, case));
        for (number, (_, _, note)) in notes.iter().enumerate() {
            let count = found.iter().filter(|case| note_of(case) == Some(number)).count();
            if count > 0 {
                let _ = writeln!(page, "* {peer}, {count}: {note}");
            }
        }
        rest.extend(
            found.into_iter().filter(|case| note_of(case).is_none()).map(|case| format!("{peer}: {case}")),
        );
    }
    rest
}
