//! The types of unquoted scalars, by schema.

use crate::manifest::node::Value;

/// Which texts are numbers and booleans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schema {
    /// The core schema of YAML 1.2 (§10.3.2), where `yes`, `no`, `on` and `off` are texts.
    #[default]
    Core,
    /// YAML 1.1 as read by Helm: `yes`, `no`, `on` and `off` are booleans, `0644` is octal, and `_` may separate digits.
    Yaml11,
}

impl Schema {
    /// The value of a plain scalar.
    #[must_use]
    pub(crate) fn plain(self, text: &str) -> Value {
        match self {
            Self::Core => plain(text),
            Self::Yaml11 => boolean_1_1(text)
                .map(Value::Bool)
                .or_else(|| integer_1_1(text).map(Value::Int))
                .unwrap_or_else(|| plain(text)),
        }
    }
}

fn boolean_1_1(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn integer_1_1(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        b'0'..=b'9' => ("", text),
        _ => return None,
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "").to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let of_prefix = |(prefix, radix)| Some((digits.strip_prefix(prefix).filter(|it| !it.is_empty())?, radix));
    let (digits, radix) = prefixes.into_iter().find_map(of_prefix).unwrap_or((&digits, 10));
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

fn plain(text: &str) -> Value {
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
    fn yaml_1_1_has_more_booleans_and_octal_numbers() {
        for (text, value) in [
            ("yes", Value::Bool(true)),
            ("Off", Value::Bool(false)),
            ("true", Value::Bool(true)),
            ("yEs", Value::Text("yEs".into())),
            ("", Value::Null),
            ("0", Value::Int(0)),
            ("0644", Value::Int(420)),
            ("0o644", Value::Int(420)),
            ("-0x1F", Value::Int(-31)),
            ("0b101", Value::Int(5)),
            ("1_000", Value::Int(1000)),
            ("80", Value::Int(80)),
            ("089", Value::Int(89)),
            ("1.5", Value::Float(1.5)),
            ("0x", Value::Text("0x".into())),
            ("+-1", Value::Text("+-1".into())),
            ("10.0.0.1", Value::Text("10.0.0.1".into())),
            ("1m", Value::Text("1m".into())),
        ] {
            assert_eq!(Schema::Yaml11.plain(text), value, "{text}");
        }
    }

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
            assert_eq!(Schema::Core.plain(text), value, "{text}");
        }
    }
}
