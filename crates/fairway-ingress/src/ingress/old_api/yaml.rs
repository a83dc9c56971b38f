//! Writes a JSON value as readable YAML: block style, text quoted only if necessary.

use serde_json::Value;

/// The value as a YAML document; object keys keep their order.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out.trim_start_matches('\n').to_owned()
}

/// A value after `key:` or `-`.
fn block(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                out.push_str(&format!("\n{pad}{}:", scalar(key)));
                block(value, indent + 2, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                block(item, indent + 2, &mut inner);
                let inner = inner.trim_start();
                out.push_str(&format!("\n{pad}- {inner}"));
            }
        }
        Value::Object(_) => out.push_str(" {}"),
        Value::Array(_) => out.push_str(" []"),
        Value::String(text) => out.push_str(&format!(" {}", scalar(text))),
        other => out.push_str(&format!(" {other}")),
    }
}

/// A plain scalar if YAML 1.1 and 1.2 both parse it as text, else quoted as JSON.
fn scalar(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = text.chars().all(safe)
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !word.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_with_special_characters_is_quoted() {
        let value = json!({"a": ["x", {"b": "1", "c": "on"}], "d": {}, "e": "two words", "f": 80});
        assert_eq!(text(&value), "a:\n  - x\n  - b: \"1\"\n    c: \"on\"\nd: {}\ne: \"two words\"\nf: 80");
    }
}
