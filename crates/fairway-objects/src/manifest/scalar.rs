//! Which type an unquoted scalar has: the YAML 1.2 core schema (§10.3.2).
//!
//! The YAML 1.1 booleans `yes`, `no`, `on`, `off` are texts here, as they are in YAML 1.2.

use crate::manifest::node::Value;

/// The value of a plain scalar.
#[must_use]
pub fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return Value::Text(text.to_owned());
    }
    integer(text)
        .map(Value::Int)
        .or_else(|| float(text).map(Value::Float))
        .unwrap_or_else(|| Value::Text(text.to_owned()))
}

fn integer(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return unsigned(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return unsigned(digits, 8);
    }
    text.parse().ok()
}

fn unsigned(digits: &str, radix: u32) -> Option<i64> {
    digits
        .starts_with(|first: char| first.is_ascii_hexdigit())
        .then(|| i64::from_str_radix(digits, radix).ok())?
}

fn float(text: &str) -> Option<f64> {
    let shape =
        text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    (shape && text.bytes().any(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_core_schema() {
        for (text, value) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("true", Value::Bool(true)),
            ("yes", Value::Text("yes".into())),
            ("80", Value::Int(80)),
            ("-1", Value::Int(-1)),
            ("0x1F", Value::Int(31)),
            ("0x-1", Value::Text("0x-1".into())),
            ("1.5", Value::Float(1.5)),
            ("1e3", Value::Float(1000.0)),
            ("10.0.0.1", Value::Text("10.0.0.1".into())),
            ("1m", Value::Text("1m".into())),
            ("-", Value::Text("-".into())),
            ("infinity", Value::Text("infinity".into())),
        ] {
            assert_eq!(plain(text), value, "{text}");
        }
    }
}
