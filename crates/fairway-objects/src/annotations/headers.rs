//! `request-headers` and `response-headers`: headers that are removed, set and added.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{HeaderEdit, HeaderField, RequestEdit, ResponseEdit};
use serde::Deserialize;

use crate::annotations::value::{check_header_name, parse_object};

/// In the order in which they are applied.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Edit {
    remove: Vec<String>,
    set: BTreeMap<String, String>,
    add: BTreeMap<String, String>,
}

/// Headers for framing and the connection, which are up to the proxy (RFC 9110 §7.6.1), and `Host`, of which there is one.
const HOP_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Whether a header controls framing or the connection, which annotations cannot change.
#[must_use]
pub fn is_hop_header(name: &str) -> bool {
    HOP_HEADERS.iter().any(|of_the_hop| name.eq_ignore_ascii_case(of_the_hop))
}

/// `request-headers`: changes to the headers that the endpoint gets.
///
/// # Errors
/// What is wrong with it.
pub fn request_headers(value: &str) -> Result<RequestEdit, String> {
    read_edit(value).map(RequestEdit::Headers)
}

/// `response-headers`: changes to the headers that the client gets, whatever produced the response.
///
/// # Errors
/// What is wrong with it.
pub fn response_headers(value: &str) -> Result<ResponseEdit, String> {
    read_edit(value).map(ResponseEdit::Headers)
}

fn read_edit(value: &str) -> Result<HeaderEdit, String> {
    let Edit { remove, set, add } = parse_object(value)?;
    if remove.is_empty() && set.is_empty() && add.is_empty() {
        return Err("it neither removes, sets nor adds a header".to_owned());
    }
    for name in remove.iter().chain(set.keys()).chain(add.keys()) {
        check_header_name(name)?;
        if is_hop_header(name) {
            let instead = if name.eq_ignore_ascii_case("host") { "; use upstream-vhost" } else { "" };
            return Err(format!("{name} is the proxy's own and cannot be changed{instead}"));
        }
    }
    let remove = remove.into_iter().map(|name| name.to_ascii_lowercase().into()).collect();
    Ok(HeaderEdit { remove, set: header_fields(set)?, add: header_fields(add)? })
}

fn header_fields(all: BTreeMap<String, String>) -> Result<Vec<HeaderField>, String> {
    let field = |(name, value): (String, String)| match is_value(&value) {
        true => Ok(HeaderField { name: Arc::from(name), value: Arc::from(value) }),
        false => Err(format!(
            "the value of {name} has a line break or another control character, or begins or ends with a space"
        )),
    };
    all.into_iter().map(field).collect()
}

/// RFC 9110 §5.5: visible characters, with spaces and tabs between them.
fn is_value(text: &str) -> bool {
    text.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f)) && text.trim_matches([' ', '\t']) == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_removed_set_and_added() {
        let Ok(RequestEdit::Headers(edit)) =
            request_headers(r#"{"set": {"X-A": "1"}, "add": {"X-B": "two words"}, "remove": ["X-C"]}"#)
        else {
            panic!("it is read");
        };
        assert_eq!((edit.set.len(), edit.add.len(), &*edit.remove[0]), (1, 1, "x-c"));
    }

    #[test]
    fn protected_and_invalid_headers_are_rejected() {
        for (value, words) in [
            ("{}", "neither removes"),
            (r#"{"set": {"Host": "a"}}"#, "use upstream-vhost"),
            (r#"{"remove": ["Content-Length"]}"#, "the proxy's own"),
            (r#"{"set": {"X A": "1"}}"#, "is no name of a header"),
            ("{\"set\": {\"X-A\": \"a\\r\\nSet-Cookie: b\"}}", "line break"),
            (r#"{"sets": {}}"#, "unknown field, expected one of `remove`"),
            ("X-A: 1", "is not the JSON"),
            (r#"{"set": {"X-A": 1}}"#, "expected a string"),
        ] {
            let problem = response_headers(value).unwrap_err();
            assert!(problem.contains(words), "{value}: {problem}");
        }
    }
}
