//! Conditions that refuse requests, such as `if ($http_user_agent ~ bot) { return 403; }`, as conditions of `fairway.dev/deny`. One
//! that would refuse less than nginx does is not proposed.

use fairway_objects::annotations::is_hop_header;
use fairway_pattern::{Anchor, Pattern};
use serde_json::{Value, json};

use super::directives::Directive;

const WHOLE_URI: &str =
    "$request_uri is path and query as the client wrote them: use fairway.dev/deny with path or query";

/// The refused directives.
pub(super) fn denied_if(condition: &[&str], block: &[Directive]) -> Option<Value> {
    if !refuses(block) {
        return None;
    }
    let condition = condition.join(" ");
    let (variable, operator, value) = parts(&condition)?;
    let pattern = match operator {
        "=" => escaped(value),
        "~" => format!("(?s:.*)(?:{value})(?s:.*)"),
        "~*" => format!("(?s:.*)(?i:{value})(?s:.*)"),
        _ => return None,
    };
    match variable {
        "request_method" if operator == "=" => Some(json!({"methods": [value]})),
        "request_method" => methods(value),
        "uri" if operator != "=" => is_usable(&pattern, Anchor::Start).then(|| json!({"path": pattern})),
        _ if !is_usable(&pattern, Anchor::Both) => None,
        _ => {
            if let Some(header) = variable.strip_prefix("http_") {
                let header = header.replace('_', "-");
                return (!leaves_with_the_hop(&header)).then(|| json!({"headers": {header: pattern}}));
            }
            variable.strip_prefix("arg_").map(|name| json!({"query": {name: pattern}}))
        }
    }
}

/// What to decide about a condition that refuses and has no counterpart.
pub(super) fn hint(condition: &[&str], block: &[Directive]) -> Option<String> {
    let condition = condition.join(" ");
    let (variable, ..) = parts(&condition)?;
    let is_whole = refuses(block) && variable == "request_uri";
    is_whole.then(|| WHOLE_URI.to_owned())
}

fn refuses(block: &[Directive]) -> bool {
    let [then] = block else { return false };
    then.words == ["return", "403"] || then.words == ["deny", "all"]
}

/// Variable, operator and value of `($variable operator value)`.
fn parts(condition: &str) -> Option<(&str, &str, &str)> {
    let condition = condition.strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut words = condition.splitn(3, ' ');
    let (variable, operator, value) = (words.next()?.strip_prefix('$')?, words.next()?, words.next()?.trim());
    Some((variable, operator, value.trim_matches(['"', '\''])))
}

/// Whether a header is for one connection only: conditions of Fairway do not see it as the client sent it.
fn leaves_with_the_hop(header: &str) -> bool {
    is_hop_header(header) && !["content-length", "host"].contains(&header)
}

/// The names in `^(PUT|DELETE)$`.
fn methods(value: &str) -> Option<Value> {
    let names: Vec<_> = value.trim_matches(['^', '$', '(', ')']).split('|').collect();
    let are_methods =
        names.iter().all(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase()));
    are_methods.then(|| json!({"methods": names}))
}

/// Whether Fairway takes a pattern, and refuses by it what nginx refuses: what a request lacks is empty text to nginx, and matches
/// nothing in Fairway.
fn is_usable(pattern: &str, anchor: Anchor) -> bool {
    Pattern::new(pattern, anchor, false).is_ok_and(|pattern| !pattern.is_match(b""))
}

/// A regular expression of this text alone.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        if r"\.+*?()|[]{}^$".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}
