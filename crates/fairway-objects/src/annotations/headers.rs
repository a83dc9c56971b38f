//! `request-headers` and `response-headers`: fields that are removed, set and added.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{AnswerEdit, HeaderEdit, HeaderField, RequestEdit};
use serde::Deserialize;

use crate::annotations::value::{header_name, object};

/// In the order in which they act.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Edit {
    remove: Vec<String>,
    set: BTreeMap<String, String>,
    add: BTreeMap<String, String>,
}

/// What says where a message ends, or belongs to one connection, is the proxy's own (RFC 9110 §7.6.1), and there is one `Host`.
const OF_THE_HOP: [&str; 10] = [
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

/// Whether a header says where a message ends or what becomes of the connection, which no annotation decides.
#[must_use]
pub fn is_of_the_hop(name: &str) -> bool {
    OF_THE_HOP.iter().any(|of_the_hop| name.eq_ignore_ascii_case(of_the_hop))
}

/// `request-headers`: what the endpoint gets.
///
/// # Errors
/// With what is wrong.
pub fn request_headers(value: &str) -> Result<RequestEdit, String> {
    edit(value).map(RequestEdit::Headers)
}

/// `response-headers`: what the client gets, whoever made the answer.
///
/// # Errors
/// With what is wrong.
pub fn response_headers(value: &str) -> Result<AnswerEdit, String> {
    edit(value).map(AnswerEdit::Headers)
}

fn edit(value: &str) -> Result<HeaderEdit, String> {
    let Edit { remove, set, add } = object(value)?;
    if remove.is_empty() && set.is_empty() && add.is_empty() {
        return Err("it neither removes, sets nor adds a header".to_owned());
    }
    for name in remove.iter().chain(set.keys()).chain(add.keys()) {
        header_name(name)?;
        if is_of_the_hop(name) {
            let instead = if name.eq_ignore_ascii_case("host") { "; use upstream-vhost" } else { "" };
            return Err(format!("{name} is the proxy's own and cannot be changed{instead}"));
        }
    }
    let remove = remove.into_iter().map(|name| name.to_ascii_lowercase().into()).collect();
    Ok(HeaderEdit { remove, set: fields(set)?, add: fields(add)? })
}

fn fields(all: BTreeMap<String, String>) -> Result<Vec<HeaderField>, String> {
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
    fn what_may_not_be_changed_or_is_no_header_is_refused() {
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
