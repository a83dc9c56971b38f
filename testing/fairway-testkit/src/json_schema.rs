//! Validates a value against a JSON Schema: the part of draft 7 that the chart's schema uses. An unknown keyword panics, so
//! that none is skipped.

use regex::Regex;
use serde_json::{Map, Value};

/// The problems of `value`, one line each, starting with the path.
pub fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut judge = Validator { root: schema, found: Vec::new() };
    judge.validate(schema, value, "");
    judge.found
}

struct Validator<'s> {
    root: &'s Value,
    found: Vec<String>,
}

impl<'s> Validator<'s> {
    fn validate(&mut self, schema: &'s Value, value: &Value, path: &str) {
        let schema = schema.as_object().expect("a schema is an object");
        for (keyword, rule) in schema {
            match keyword.as_str() {
                "$schema" | "title" | "description" | "definitions" | "properties" | "patternProperties" => {}
                "$ref" => {
                    let pointer =
                        rule.as_str().and_then(|rule| rule.strip_prefix('#')).expect("a local reference");
                    let referred = self.root.pointer(pointer).expect("the definition exists");
                    self.validate(referred, value, path);
                }
                "anyOf" => {
                    let rules = rule.as_array().expect("a list of schemas");
                    let holds = rules.iter().any(|rule| {
                        let mut judge = Validator { root: self.root, found: Vec::new() };
                        judge.validate(rule, value, path);
                        judge.found.is_empty()
                    });
                    self.hold(holds, path, keyword, value);
                }
                "additionalProperties" => self.properties(schema, value, path),
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.validate(rule, item, &format!("{path}[{index}]"));
                    }
                }
                _ => {
                    let holds = keyword_holds(keyword, rule, value);
                    self.hold(holds, path, keyword, value);
                }
            }
        }
        if !schema.contains_key("additionalProperties") {
            self.properties(schema, value, path);
        }
    }

    fn hold(&mut self, holds: bool, path: &str, keyword: &str, value: &Value) {
        if !holds {
            self.found.push(format!("{path}: {keyword}: {value}"));
        }
    }

    fn properties(&mut self, schema: &'s Map<String, Value>, value: &Value, path: &str) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let path = format!("{path}.{key}");
            let property = schema.get("properties").and_then(|properties| properties.get(key));
            let patterns = schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
            let fits = |pattern: &str| Regex::new(pattern).expect("a pattern").is_match(key);
            let property = property
                .or(patterns.into_iter().find(|(pattern, _)| fits(pattern)).map(|(_, schema)| schema));
            match property.or(schema.get("additionalProperties")) {
                Some(Value::Bool(false)) => self.found.push(format!("{path}: there is no such property")),
                Some(Value::Bool(true)) | None => {}
                Some(schema) => self.validate(schema, value, &path),
            }
        }
    }
}

/// Whether a keyword on the value itself is satisfied. A keyword for another type always is.
fn keyword_holds(keyword: &str, rule: &Value, value: &Value) -> bool {
    let at_most = |size: Option<usize>, holds: fn(u64, u64) -> bool| {
        let limit = rule.as_u64().expect("a size");
        size.is_none_or(|size| holds(size as u64, limit))
    };
    let length = value.as_str().map(|text| text.chars().count());
    let count = value.as_array().map(Vec::len);
    match keyword {
        "type" => match rule {
            Value::Array(names) => names.iter().any(|name| is_a(name, value)),
            name => is_a(name, value),
        },
        "enum" => rule.as_array().expect("a list").contains(value),
        "required" => {
            let names = rule.as_array().expect("a list").iter().filter_map(Value::as_str);
            value.as_object().is_none_or(|map| names.into_iter().all(|name| map.contains_key(name)))
        }
        "pattern" => {
            let pattern = Regex::new(rule.as_str().expect("text")).expect("a pattern");
            value.as_str().is_none_or(|text| pattern.is_match(text))
        }
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().expect("a number")),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().expect("a number")),
        "minLength" => at_most(length, |size, limit| size >= limit),
        "maxLength" => at_most(length, |size, limit| size <= limit),
        "maxItems" => at_most(count, |size, limit| size <= limit),
        "uniqueItems" => {
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            list.iter().enumerate().all(|(index, item)| !list[..index].contains(item))
        }
        _ => panic!("the keyword {keyword} is not known"),
    }
}

fn is_a(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other} is not known"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_checked_against_every_keyword() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["name"],
            "properties": {
                "name": { "$ref": "#/definitions/name" },
                "port": { "type": ["integer", "null"], "minimum": 1, "maximum": 9 },
                "kind": { "enum": ["a", "b"] },
                "list": { "type": "array", "items": { "type": "string" }, "maxItems": 2, "uniqueItems": true },
                "ports": {
                    "type": "object", "additionalProperties": false, "patternProperties": { "^[0-9]+$": { "type": "integer" } },
                },
                "either": { "anyOf": [{ "type": "integer" }, { "type": "string", "pattern": "^[0-9]+%$" }] },
                "texts": { "type": "object", "additionalProperties": { "type": "string" } },
                "open": { "properties": { "a": { "type": "boolean" } } },
            },
            "definitions": { "name": { "type": "string", "minLength": 1, "maxLength": 3 } },
        });
        let good = json!({
            "name": "abc", "ports": { "80": 1 }, "port": null, "kind": "a", "list": ["x", "y"], "either": "5%", "texts": { "a": "b" },
            "open": { "a": true, "b": 1 },
        });
        assert_eq!(problems(&schema, &good), [""; 0]);
        for (bad, path) in [
            (json!({}), ": required"),
            (json!([]), ": type"),
            (json!({ "name": "" }), ".name: minLength"),
            (json!({ "name": "abcd" }), ".name: maxLength"),
            (json!({ "name": "a", "port": 10 }), ".port: maximum"),
            (json!({ "name": "a", "port": "1" }), ".port: type"),
            (json!({ "name": "a", "port": 0 }), ".port: minimum"),
            (json!({ "name": "a", "kind": "c" }), ".kind: enum"),
            (json!({ "name": "a", "list": ["x", 1] }), ".list[1]: type"),
            (json!({ "name": "a", "list": ["x", "x"] }), ".list: uniqueItems"),
            (json!({ "name": "a", "list": ["x", "y", "z"] }), ".list: maxItems"),
            (json!({ "name": "a", "either": "5" }), ".either: anyOf"),
            (json!({ "name": "a", "texts": { "b": 1 } }), ".texts.b: type"),
            (json!({ "name": "a", "open": { "a": 1 } }), ".open.a: type"),
            (json!({ "name": "a", "more": 1 }), ".more: there is no such property"),
            (json!({ "name": "a", "ports": { "80": "a" } }), ".ports.80: type"),
            (json!({ "name": "a", "ports": { "http": 1 } }), ".ports.http: there is no such property"),
        ] {
            let found = problems(&schema, &bad);
            assert!(found.len() == 1 && found[0].starts_with(path), "{bad}: {found:?}");
        }
    }

    #[test]
    #[should_panic(expected = "the keyword oneOf is not known")]
    fn an_unknown_keyword_is_not_ignored() {
        let _ = problems(&json!({ "oneOf": [] }), &json!(1));
    }
}
