//! Reads `compression` of BackendTrafficPolicies.

use std::sync::Arc;

use fairway_model::{CodingRule, Compression, ContentCoding};
use fairway_objects::compression::{self, CODINGS, default_rule, exact_types};
use fairway_objects::policies::{CompressionCoding, ResponseCompression};

use crate::policies::reading::{PolicyError, PolicyWarning};
use crate::policies::value::{bytes, enum_value};

const CODING_NAMES: [(&str, ContentCoding); 3] =
    [("Brotli", ContentCoding::Brotli), ("Gzip", ContentCoding::Gzip), ("Zstd", ContentCoding::Zstd)];

/// Response compression; `None` if disabled.
pub(crate) fn read(
    spec: &ResponseCompression,
    warnings: &mut Vec<PolicyWarning>,
) -> Result<Option<Arc<Compression>>, PolicyError> {
    let modes = [("Enabled", true), ("Disabled", false)];
    let is_enabled = enum_value("spec.compression.mode", spec.mode.as_deref(), &modes)?.unwrap_or(true);
    let mut codings = codings(&spec.codings, warnings)?;
    if let Some(least) = bytes("spec.compression.minContentLength", spec.min_content_length.as_ref())? {
        codings.iter_mut().for_each(|rule| rule.min_length = least);
    }
    if !spec.content_types.is_empty() {
        let types = exact_types(&spec.content_types).map_err(|wrong| {
            let problem = format!("\"{wrong}\" is no media type such as text/plain, and not *");
            PolicyError::new("spec.compression.contentTypes", problem)
        })?;
        codings.iter_mut().for_each(|rule| rule.types = Arc::clone(&types));
    }
    Ok(is_enabled.then(|| Arc::new(Compression { codings })))
}

fn codings(
    specs: &[CompressionCoding],
    warnings: &mut Vec<PolicyWarning>,
) -> Result<Vec<CodingRule>, PolicyError> {
    if specs.is_empty() {
        return Ok(CODINGS.map(default_rule).into());
    }
    let mut codings: Vec<CodingRule> = Vec::with_capacity(specs.len());
    for (at, CompressionCoding { type_, level }) in specs.iter().enumerate() {
        let field = format!("spec.compression.codings[{at}]");
        let of_type = format!("{field}.type");
        let coding = enum_value(&of_type, Some(type_), &CODING_NAMES)?;
        let coding = coding.ok_or_else(|| PolicyError::new(&of_type, "it is empty"))?;
        if codings.iter().any(|rule| rule.coding == coding) {
            return Err(PolicyError::new(&of_type, format!("{type_} is there twice")));
        }
        let mut rule = default_rule(coding);
        if let Some(asked) = *level {
            rule.level = self::level(coding, asked, &format!("{field}.level"), warnings)?;
        }
        codings.push(rule);
    }
    Ok(codings)
}

fn level(
    coding: ContentCoding,
    asked: i32,
    field: &str,
    warnings: &mut Vec<PolicyWarning>,
) -> Result<u8, PolicyError> {
    let Some((level, limit)) = compression::level(coding, asked.into()) else {
        let expectation = compression::levels(coding).description;
        return Err(PolicyError::new(field, format!("{asked} is not {expectation}")));
    };
    warnings.extend(limit.map(|limit| PolicyWarning {
        code: "unsupported-setting",
        field: field.to_owned(),
        problem: limit.problem.to_owned(),
        consequence: limit.consequence,
    }));
    Ok(level)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse_value(value: Value) -> Result<(Option<Arc<Compression>>, Vec<PolicyWarning>), PolicyError> {
        let mut warnings = Vec::new();
        let compression = read(&serde_json::from_value(value).expect("fields of the policy"), &mut warnings)?;
        Ok((compression, warnings))
    }

    fn codings(value: Value) -> Vec<CodingRule> {
        parse_value(value).unwrap().0.unwrap().codings.clone()
    }

    #[test]
    fn an_empty_field_compresses_with_all_codings_as_the_keys_of_the_settings_do() {
        assert_eq!(codings(json!({})), CODINGS.map(default_rule));
        assert_eq!(codings(json!({"mode": "Enabled"})), CODINGS.map(default_rule));
        assert_eq!(
            parse_value(json!({"mode": "Disabled", "codings": [{"type": "Gzip"}]})).unwrap(),
            (None, Vec::new())
        );
    }

    #[test]
    fn each_field_replaces_the_default_of_every_coding() {
        let rules = codings(json!({
            "codings": [{"type": "Gzip", "level": 6}, {"type": "Brotli"}],
            "minContentLength": "1Ki",
            "contentTypes": ["Text/Plain", "application/json"],
        }));
        let settings: Vec<_> = rules.iter().map(|rule| (rule.coding, rule.level, rule.min_length)).collect();
        assert_eq!(settings, [(ContentCoding::Gzip, 6, 1024), (ContentCoding::Brotli, 4, 1024)]);
        assert!(rules.iter().all(|rule| rule.types.join(" ") == "application/json text/plain"));
        assert!(codings(json!({"minContentLength": 0})).iter().all(|rule| rule.min_length == 0));
    }

    #[test]
    fn expensive_levels_are_lowered_with_a_warning() {
        let (compression, warnings) =
            parse_value(json!({"codings": [{"type": "Brotli", "level": 11}]})).unwrap();
        assert_eq!(compression.unwrap().codings[0].level, 6);
        assert_eq!(warnings[0].field, "spec.compression.codings[0].level");
        assert_eq!(warnings[0].consequence, "level 6 is used");
    }

    #[test]
    fn an_unusable_value_names_its_field() {
        for (value, field) in [
            (json!({"mode": "Off"}), "mode"),
            (json!({"codings": [{"type": "Gzip"}, {"type": "Deflate"}]}), "codings[1].type"),
            (json!({"codings": [{"level": 1}]}), "codings[0].type"),
            (json!({"codings": [{"type": "Gzip"}, {"type": "Gzip"}]}), "codings[1].type"),
            (json!({"codings": [{"type": "Gzip", "level": 0}]}), "codings[0].level"),
            (json!({"codings": [{"type": "Brotli", "level": 12}]}), "codings[0].level"),
            (json!({"codings": [{"type": "Brotli", "level": -1}]}), "codings[0].level"),
            (json!({"minContentLength": "1KB"}), "minContentLength"),
            (json!({"contentTypes": ["text/plain; charset=utf-8"]}), "contentTypes"),
            (json!({"contentTypes": ["text/*"]}), "contentTypes"),
            (json!({"mode": "Disabled", "contentTypes": ["text"]}), "contentTypes"),
        ] {
            let wrong = parse_value(value.clone()).unwrap_err();
            assert_eq!(wrong.field, format!("spec.compression.{field}"), "{value}");
        }
    }
}
